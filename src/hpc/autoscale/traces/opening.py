"""Opening a file of jobs, in whatever form it was recorded.

A file may be compressed with gzip, which is seen by its first bytes. Its form is seen by its first
lines, or said by the caller.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.journal.again import what_is_damaged
from hpc.autoscale.traces.accounting import (
    is_qstat,
    is_sacct,
    read_qstat,
    read_sacct,
)
from hpc.autoscale.traces.passes_seen import is_journal, read_journal
from hpc.autoscale.traces.swf import MEMORY_UNIT, MEMORY_UNITS, is_swf, read_swf
from hpc.autoscale.traces.workload import ReadingError, Trace, TraceError

_LOOKED_AT = 50

Reader = Callable[[str, Iterable[str]], Trace]

FORMS: Mapping[str, tuple[Callable[[list[str]], bool], Reader]] = {
    "swf": (is_swf, read_swf),
    "sacct": (is_sacct, read_sacct),
    "qstat": (is_qstat, read_qstat),
}
"""The forms of a file of text: how each is told from its first lines, and what reads it."""

JOURNAL = "journal"
"""The form of a workload that is a journal, which is a directory or one of its files."""


def read_trace(path: str, form: str | None = None, memory_unit: str = MEMORY_UNIT) -> Trace:
    """The workload in a file, or in a journal. `memory_unit`: what SWF has memory in.

    Raises TraceError when the file cannot be read, is in no known form, or has no job that ran, and
    ReadingError, which is one, for a form or a unit that there is not; JournalError for a journal
    that cannot be read.
    """
    forms = (*FORMS, JOURNAL)
    if form is not None and form not in forms:
        raise ReadingError(
            f"form: expected one of {', '.join(forms)}, found {form!r}{did_you_mean(form, forms)}"
        )
    if memory_unit not in MEMORY_UNITS:
        raise ReadingError(
            f"memory_unit: expected one of {', '.join(MEMORY_UNITS)}, found"
            f" {memory_unit!r}{did_you_mean(memory_unit, MEMORY_UNITS)}"
        )
    try:
        if form == JOURNAL or (form is None and is_journal(path)):
            trace = read_journal(path)
        else:
            with open(path, "rb") as file:
                trace = _read(path, file, form, memory_unit)
    except (gzip.BadGzipFile, zlib.error) as error:
        said = what_is_damaged(error)
        raise TraceError(f"{path} has compressed data that is damaged: {said}") from error
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
    except EOFError as error:
        raise TraceError(f"{path} ends in the middle of compressed data: {error}") from error
    if not trace.jobs:
        said = "; ".join([*trace.set_aside.sentences(), *trace.problems]) or "it is empty"
        raise TraceError(f"{path}: expected jobs that ran, found none: {said}")
    return trace


def _read(path: str, file: io.BufferedReader, form: str | None, memory_unit: str) -> Trace:
    # a pipe cannot go back
    is_packed = file.peek(2)[:2] == b"\x1f\x8b"
    plain: Any = gzip.GzipFile(fileobj=file) if is_packed else file
    # programs for Windows begin a file with a mark
    with io.TextIOWrapper(plain, encoding="utf-8-sig", errors="replace") as text:
        first = list(islice(text, _LOOKED_AT))
        name = form or next((n for n, (is_it, _) in FORMS.items() if is_it(first)), None)
        if name is None:
            raise TraceError(
                f"{path}: expected jobs in the form of {', '.join((*FORMS, JOURNAL))}, found"
                f" {_kind(first)}: name its form with --form"
            )
        read = partial(read_swf, memory_unit=memory_unit) if name == "swf" else FORMS[name][1]
        return read(os.fspath(path), _joined(first, text))


def _kind(first: Sequence[str]) -> str:
    """What kind of file begins with these lines. Nothing of what they say is in it: they may have a
    password, where somebody gave the wrong file."""
    begins = "".join(first).lstrip()[:1]
    if not begins:
        return "an empty file" if len(first) < _LOOKED_AT else "empty lines"
    if begins in "{[":
        return "JSON that is no output of qstat"
    return "a first line that is neither a job nor a header of any of them"


def _joined(first: list[str], rest: Iterable[str]) -> Iterable[str]:
    yield from first
    yield from rest
