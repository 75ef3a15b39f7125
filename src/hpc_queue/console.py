"""Where the command `hpcq` begins, and those of Cyclone that `hpcq install-aliases` writes: before
anything is imported that takes a second, in which somebody may type Ctrl-C."""

import sys
from collections.abc import Callable


def console_main() -> None:
    """`hpcq`."""
    _end_with(_hpcq)


def _hpcq() -> int:
    from hpc_queue.cli import main

    return main(sys.argv[1:])


def _command_of_cyclone() -> int:
    from hpc_queue.aliases import main

    return main(sys.argv[1:])


def _end_with(command: Callable[[], int]) -> None:
    try:
        code = command()
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)


if __name__ == "__main__":  # with the name of the command, as in python -m hpc_queue.console qsub
    _end_with(_command_of_cyclone)
