"""What a command does with output that its caller's streams do not take: they are closed, have no
such characters, or cannot be written, as on a full disk."""

import io
import os
import sys
from typing import Any, TextIO

CLOSED = "standard output is closed: nothing was printed"
"""What to say where `is_lost` of stdout."""


def prepare_streams() -> None:
    """Let what is written to a stream that the caller has closed go nowhere, as in `azscale
    autoscale >&-`: a pass is not lost for it. Let characters that the caller's encoding has not be
    shown as escapes, and not end a command: names of jobs, and the mark of what is cut. Let each
    write be of the whole text or an error, also with PYTHONUNBUFFERED."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(_Nowhere()), encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            if isinstance(stream.buffer, io.FileIO):
                stream = _by_lines(stream)
                setattr(sys, name, stream)
            stream.reconfigure(errors="backslashreplace")


def _by_lines(unbuffered: io.TextIOWrapper) -> io.TextIOWrapper:
    """A stream to where an unbuffered one writes, which is not closed with it, that writes each
    line at once. Where an output takes only a part of a text, as a pipe does whose reader goes, an
    unbuffered stream drops the rest silently."""
    raw = io.FileIO(unbuffered.fileno(), "wb", closefd=False)
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, encoding=unbuffered.encoding, line_buffering=True)


class _Nowhere(io.FileIO):
    """A stream that the caller has closed. `lost`: something was written to it."""

    lost = False

    def __init__(self) -> None:
        super().__init__(os.devnull, "wb")

    def write(self, data: Any, /) -> int:
        self.lost = True
        return super().write(data)


def is_lost(stream: TextIO) -> bool:
    """Whether something was written to a stream that `prepare_streams` has found closed."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    if not isinstance(raw, _Nowhere):
        return False
    stream.flush()
    return raw.lost


def _write_no_more(stream: TextIO) -> None:
    """What is left to write goes nowhere, or it would be tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def given_up(stream: TextIO, problem: OSError) -> str:
    """What to say of an output that cannot be written; nothing more is written to it. Nothing where
    its reader has seen enough: the exit code alone says that not all was printed."""
    _write_no_more(stream)
    if isinstance(problem, BrokenPipeError):
        return ""
    return f"standard output cannot be written: {problem.strerror}"


def say_last(text: str) -> None:
    """Print the last thing that a command says on stderr. Where that cannot be written either, as
    when the terminal is gone, nothing more is written there."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _write_no_more(sys.stderr)
