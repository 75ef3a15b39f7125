"""What a command does when its standard output cannot be written, as on a full disk."""

import os
from typing import TextIO


def write_no_more(stream: TextIO) -> None:
    """What is left to write goes nowhere, or it would be tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def given_up(stream: TextIO, problem: OSError) -> str:
    """What to say of an output that cannot be written; nothing more is written to it."""
    write_no_more(stream)
    return f"standard output cannot be written: {problem.strerror}"
