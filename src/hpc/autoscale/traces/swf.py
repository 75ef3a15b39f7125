"""The standard workload format of the Parallel Workloads Archive, and its variants.

A line is a job with 18 numbers; some logs have more fields after them. Lines that begin with `;`
are the header. A value of -1 is unknown. Fields, counted from 1: 1 number, 2 submit time, 3 wait
time, 4 run time, 5 processors, 8 processors requested, 9 time requested, 12 user.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from hpc.autoscale.traces.workload import SetAside, Trace, TraceJob, in_order

FIELDS = 18
_STATEMENT = re.compile(r";\s*([A-Za-z][\w ]*?)\s*:\s*(.*?)\s*$")


def is_swf(lines: Iterable[str]) -> bool:
    """Whether these first lines of a file are a header or a job of this format."""
    for line in lines:
        text = line.strip()
        if text.startswith(";"):
            return True
        if text:
            words = text.split()
            return len(words) >= FIELDS and all(_is_number(word) for word in words[:11])
    return False


def read_swf(path: str, lines: Iterable[str]) -> Trace:
    """The workload in the lines of a file. What is no job that ran is set aside."""
    trace = Trace(path, "swf", [], SetAside())
    jobs = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        if text.startswith(";"):
            _note_statement(trace, text)
            continue
        job = _job(number, text, trace.set_aside)
        if job is not None:
            jobs.append(job)
    start = float(trace.header.get("UnixStartTime", "0") or 0) if _has_start(trace) else 0.0
    if start > 0:
        jobs = [_moved(job, start) for job in jobs]
    trace.jobs = in_order(jobs)
    trace.machine_cores = _whole(trace.header.get("MaxProcs"))
    trace.machine_nodes = _whole(trace.header.get("MaxNodes"))
    return trace


def _has_start(trace: Trace) -> bool:
    return _is_number(trace.header.get("UnixStartTime", ""))


def _note_statement(trace: Trace, text: str) -> None:
    found = _STATEMENT.match(text)
    if found:
        trace.header.setdefault(found[1], found[2])


def _job(number: int, text: str, set_aside: SetAside) -> TraceJob | None:
    words = text.split()
    if len(words) < FIELDS:
        set_aside.add(number, f"expected {FIELDS} fields", f"found {len(words)}")
        return None
    values = [_number(word) for word in words[:12]]
    if any(value is None for value in values):
        bad = next(word for word, value in zip(words, values, strict=False) if value is None)
        set_aside.add(number, "expected numbers", f"found {bad[:20]!r}")
        return None
    submitted, waited, seconds = (values[i] or 0.0 for i in (1, 2, 3))
    allocated, requested, estimate = (values[i] or 0.0 for i in (4, 7, 8))
    cores = int(allocated if allocated > 0 else requested)
    if submitted < 0:
        set_aside.add(number, "the submit time is unknown")
        return None
    if cores <= 0:
        set_aside.add(number, "the number of processors is unknown")
        return None
    if seconds <= 0:
        set_aside.add(number, "it did not run")
        return None
    return TraceJob(
        words[0],
        submitted,
        seconds,
        cores,
        requested_seconds=estimate if estimate > 0 else None,
        waited=waited if waited >= 0 else None,
        user=words[11] if words[11] != "-1" else "",
    )


def _moved(job: TraceJob, by: float) -> TraceJob:
    return TraceJob(
        job.name,
        job.submitted + by,
        job.seconds,
        job.cores,
        job.nodes,
        job.requested_seconds,
        job.waited,
        job.user,
    )


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _is_number(word: str) -> bool:
    return _number(word) is not None


def _whole(text: str | None) -> int | None:
    value = _number((text or "").split(" ")[0])
    return int(value) if value and value > 0 else None
