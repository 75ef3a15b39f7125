"""Where the command `azscale` begins. `--version` is answered here, before anything else is
imported."""

import os
import sys

from hpc.autoscale._version import __version__


def version_line() -> str:
    """What `azscale --version` prints."""
    return f"azscale {__version__}"


def console_main() -> None:
    """`azscale`."""
    try:
        if sys.argv[1:] == ["--version"]:
            print(version_line())
        else:
            from hpc.autoscale.cli.scalelib import main

            main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # the reader has seen enough; nothing more is to be written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
