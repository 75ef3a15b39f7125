"""What a command does with output that its caller's streams do not take: they are closed, have no
such characters, or cannot be written, as on a full disk."""

import codecs
import io
import os
import sys
from typing import Any, TextIO

_SHOWN = "hpc.autoscale.shown"
CLOSED = "standard output is closed: nothing was printed"
"""What to say where `is_lost` of stdout."""


def prepare_streams() -> None:
    """Let what is written to a stream that the caller has closed go nowhere, as in `azscale
    autoscale >&-`: a pass is not lost for it. Let characters that the caller's encoding has not be
    shown as escapes, and not end a command, as in names of jobs; the mark of what is cut is three
    dots then. Let each write be of the whole text or an error, also with PYTHONUNBUFFERED; and on
    stderr let nothing be an error, as on a disk that is full: no command is given up for what is
    said about it."""
    codecs.register_error(_SHOWN, _shown)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(_Nowhere()), encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            if name == "stderr" and type(_raw_of(stream)) is io.FileIO:
                stream.flush()
                stream = _by_lines(stream, _Said)
            elif isinstance(stream.buffer, io.FileIO):
                stream = _by_lines(stream, io.FileIO)
            setattr(sys, name, stream)
            stream.reconfigure(errors=_SHOWN)


def _shown(problem: UnicodeError) -> tuple[str | bytes, int]:
    """What stands for the first character that an encoding has not, and where to go on."""
    if isinstance(problem, UnicodeEncodeError) and problem.object[problem.start] == "…":
        return "...", problem.start + 1
    if isinstance(problem, UnicodeEncodeError):
        problem.end = problem.start + 1
    return codecs.backslashreplace_errors(problem)


def _raw_of(stream: TextIO) -> object:
    """What writes for a stream: below its buffer, where it has one."""
    buffer = getattr(stream, "buffer", None)
    return getattr(buffer, "raw", buffer)


def _by_lines(stream: io.TextIOWrapper, kind: type[io.FileIO]) -> io.TextIOWrapper:
    """A stream to where another one writes, which is not closed with it, that writes each line at
    once. Where an output takes only a part of a text, as a pipe does whose reader goes, an
    unbuffered stream drops the rest silently."""
    buffer = io.BufferedWriter(kind(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(buffer, encoding=stream.encoding, line_buffering=True)


class _Said(io.FileIO):
    """A stream that drops what it cannot write. `has_reader`: False once a pipe has none."""

    has_reader = True

    def write(self, data: Any, /) -> int:
        every = memoryview(data).nbytes
        try:
            return super().write(data) or every  # None where it is full and does not wait
        except OSError as problem:
            if isinstance(problem, BrokenPipeError):
                self.has_reader = False
            return every


def has_reader(stream: TextIO) -> bool:
    """Whether somebody may read what is written to stderr: not where that is a pipe and its reader
    was found to be gone, after `prepare_streams`."""
    raw = _raw_of(stream)
    return not isinstance(raw, _Said) or raw.has_reader


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
    raw = _raw_of(stream)
    if not isinstance(raw, _Nowhere):
        return False
    stream.flush()
    return raw.lost


def given_up(stream: TextIO, problem: OSError) -> str:
    """What to say of an output that cannot be written; nothing more is written to it. Nothing where
    its reader has seen enough: the exit code alone says that not all was printed."""
    # or what is left would be tried again when the process ends
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if isinstance(problem, BrokenPipeError):
        return ""
    return f"standard output cannot be written: {problem.strerror}"
