"""Where the command `hpcq` begins: before anything is imported that takes a second, in which
somebody may type Ctrl-C."""

import sys


def console_main() -> None:
    """`hpcq`."""
    try:
        from hpc_queue.cli import main

        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)
