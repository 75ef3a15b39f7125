"""Where the command `azscale` begins. `--version` is answered here, before anything else is
imported."""

import sys
from contextlib import suppress

from hpc.autoscale._version import __version__


def version_line() -> str:
    """What `azscale --version` prints."""
    return f"azscale {__version__}"


def console_main() -> None:
    """`azscale`."""
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        with suppress(OSError):  # it is tried again, and told as by any command
            print(version_line(), flush=True)
            return
    _run()


def _run() -> None:
    from hpc.autoscale.collector import end_of_process, importing
    from hpc.autoscale.output import given_up, prepare_streams

    prepare_streams()
    try:
        try:
            with importing():
                from hpc.autoscale.cli.scalelib import main

            main()
        finally:  # help ends the process by itself
            end_of_process()
            sys.stdout.flush()
        _check_what_was_written()
    except SystemExit as end:
        if not end.code:
            _check_what_was_written()
        raise
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OSError as problem:
        if said := given_up(sys.stdout, problem):
            print(f"azscale: error: {said}", file=sys.stderr)
        raise SystemExit(1) from None


def _check_what_was_written() -> None:
    """End with exit code 1 where a command that went well was to print something, and stdout is
    closed."""
    from hpc.autoscale.output import CLOSED, is_lost

    if is_lost(sys.stdout):
        print(f"azscale: error: {CLOSED}", file=sys.stderr)
        raise SystemExit(1)
