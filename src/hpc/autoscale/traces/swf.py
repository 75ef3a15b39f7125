"""The standard workload format of the Parallel Workloads Archive, and its variants.

A line is a job with 18 numbers; some logs have more fields after them. Lines that begin with `;`
are the header. A value of -1 is unknown. Fields, counted from 1: 1 number, 2 submit time, 3 wait
time, 4 run time, 5 processors, 8 processors requested, 9 time requested, 10 memory requested (in kB
for each processor), 11 status, 12 user, 15 queue, 16 partition, 17 the job before, 18 think time
after that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from hpc.autoscale.traces.workload import (
    LATEST,
    TOO_LATE,
    SetAside,
    Trace,
    TraceJob,
    in_order,
)

FIELDS = 18
# logs of MetaCentrum have fields after those: nodes, the name of the queue, what was asked of PBS
_QUEUE_NAME = 19
# what ran between two interruptions; the whole job has a line of its own, with another status
_STATUS_OF_PARTS = (2, 3, 4)
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


MEMORY_UNIT = "kb"
"""What the standard says of memory: kilobytes for each processor."""

_UNITS = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30}
MEMORY_UNITS = tuple(f"{unit}{of}" for of in ("", "/job") for unit in _UNITS)
"""The units of memory in logs: for each processor, or for the job."""


def read_swf(path: str, lines: Iterable[str], memory_unit: str = MEMORY_UNIT) -> Trace:
    """The workload in the lines of a file. What is no job that ran is set aside. `memory_unit`: one
    of `MEMORY_UNITS`."""
    trace = Trace(path, "swf", [], SetAside())
    jobs = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        if text.startswith(";"):
            _note_statement(trace, text)
            continue
        job = _job(number, text, trace.set_aside, memory_unit)
        if job is not None:
            jobs.append(job)
    start = float(trace.header.get("UnixStartTime", "0") or 0) if _has_start(trace) else 0.0
    if start > LATEST:
        trace.problems.append("UnixStartTime is after the year 3000, and is not looked at")
    elif start > 0:
        jobs = [replace(job, submitted=job.submitted + start) for job in jobs]
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


def _job(number: int, text: str, set_aside: SetAside, memory_unit: str) -> TraceJob | None:
    words = text.split()
    if len(words) < FIELDS:
        set_aside.add(number, f"expected {FIELDS} fields", f"found {len(words)}")
        return None
    values = [_number(word) for word in words[:12]]
    if None in values:  # what is there instead is not said: it may be of another file, and secret
        set_aside.add(number, "expected numbers", f"found none in field {values.index(None) + 1}")
        return None
    if values[10] in _STATUS_OF_PARTS:
        set_aside.add(number, "it is a part of a job that was interrupted, which has a line itself")
        return None
    submitted, waited, seconds = (values[i] or 0.0 for i in (1, 2, 3))
    allocated, requested, estimate = (values[i] or 0.0 for i in (4, 7, 8))
    cores = int(allocated if allocated > 0 else requested)
    if submitted < 0:
        set_aside.add(number, "the submit time is unknown")
        return None
    if submitted + seconds > LATEST:
        set_aside.add(number, TOO_LATE)
        return None
    if cores <= 0:
        set_aside.add(number, "the number of processors is unknown")
        return None
    if seconds <= 0:
        set_aside.add(number, "it did not run")
        return None
    unit, _, of_job = memory_unit.partition("/")
    memory = (values[9] or 0.0) * _UNITS[unit] * (1 if of_job else cores)
    user, queue, partition, before = (_name(words[i]) for i in (11, 14, 15, 16))
    if before == "0":  # jobs are counted from 1
        before = ""
    if not queue and len(words) > _QUEUE_NAME:
        queue = words[_QUEUE_NAME]
    think = _number(words[17])
    return TraceJob(
        words[0],
        submitted,
        seconds,
        cores,
        requested_seconds=estimate if estimate > 0 else None,
        waited=waited if waited >= 0 else None,
        user=user,
        memory=memory if 0 < memory < math.inf else None,
        queue=queue,
        partition=partition,
        after=(before,) if before else (),
        think=max(0.0, think or 0.0) if before else None,
    )


def _name(word: str) -> str:
    """A number that stands for a name; empty for an unknown one."""
    return "" if word.startswith("-") else word


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
