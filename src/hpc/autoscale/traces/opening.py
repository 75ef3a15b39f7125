"""Opening a file of jobs, in whatever form it was recorded.

A file may be compressed with gzip, which is seen by its first bytes. Its form is seen by its first
lines, or said by the caller.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import BinaryIO

from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.traces.accounting import (
    is_qstat,
    is_sacct,
    read_qstat,
    read_sacct,
)
from hpc.autoscale.traces.swf import is_swf, read_swf
from hpc.autoscale.traces.workload import Trace, TraceError

_LOOKED_AT = 50

Reader = Callable[[str, Iterable[str]], Trace]

FORMS: Mapping[str, tuple[Callable[[list[str]], bool], Reader]] = {
    "swf": (is_swf, read_swf),
    "sacct": (is_sacct, read_sacct),
    "qstat": (is_qstat, read_qstat),
}
"""The forms of a workload: how each is told from its first lines, and what reads it."""


def read_trace(path: str, form: str | None = None) -> Trace:
    """The workload in a file.

    Raises TraceError when the file cannot be read, is in no known form, or has no job that ran.
    """
    if form is not None and form not in FORMS:
        raise TraceError(
            f"expected one of {', '.join(FORMS)} for the form of {path}, found"
            f" {form!r}{did_you_mean(form, FORMS)}"
        )
    try:
        with open(path, "rb") as file:
            trace = _read(path, file, form)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise TraceError(f"{path} ends in the middle of compressed data: {error}") from error
    if not trace.jobs:
        said = "; ".join(trace.set_aside.sentences()) or "it is empty"
        raise TraceError(f"{path}: expected jobs that ran, found none: {said}")
    return trace


def _read(path: str, file: BinaryIO, form: str | None) -> Trace:
    start = file.read(2)
    file.seek(0)
    plain = gzip.GzipFile(fileobj=file) if start == b"\x1f\x8b" else file
    with io.TextIOWrapper(plain, encoding="utf-8", errors="replace") as text:
        first = list(islice(text, _LOOKED_AT))
        name = form or next((n for n, (is_it, _) in FORMS.items() if is_it(first)), None)
        if name is None:
            begins = first[0].strip()[:60] if first else "nothing"
            raise TraceError(
                f"{path}: expected jobs in the form of {', '.join(FORMS)}, found a file that begins"
                f" with {begins!r}: name its form with --form"
            )
        return FORMS[name][1](os.fspath(path), _joined(first, text))


def _joined(first: list[str], rest: Iterable[str]) -> Iterable[str]:
    yield from first
    yield from rest
