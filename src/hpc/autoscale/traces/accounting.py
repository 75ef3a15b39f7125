"""Workloads from what schedulers say of jobs that ran.

Slurm: `sacct --allusers --parsable2 --format=…`, with a line of names first; which columns there
are is up to the caller, as long as the few that are needed are there. PBS: `qstat -x -f`, as text
or with `-F json`. Times without a zone are taken as UTC: only how they lie to each other matters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from hpc.autoscale.errors import counted, did_you_mean
from hpc.autoscale.traces.workload import (
    LATEST,
    TOO_LATE,
    SetAside,
    Trace,
    TraceError,
    TraceJob,
    in_order,
)

SACCT_COLUMNS = (
    "JobID,User,Submit,Start,End,NNodes,NCPUS,Timelimit,State,ReqMem,AllocTRES,Partition"
)
"""What to ask sacct for."""

_PBS_TIME = "%a %b %d %H:%M:%S %Y"
_DIGITS = 18
_JOB_LINE = re.compile(r"Job Id:\s*(\S+)")
_ATTRIBUTE = re.compile(r"\s+([\w.-]+) = (.*)$")
_SIZE = re.compile(r"([\d.]+)\s*([kmgtp]?)i?(b|w?)([nc]?)$", re.IGNORECASE)
_AFTER = re.compile(r"(\w+)((?::[\w.@\[\]+-]+)+)")


# -- Slurm


def is_sacct(lines: Sequence[str]) -> bool:
    """Whether the first line that is not empty names columns of sacct."""
    first = next((line for line in lines if line.strip()), "")
    names = first.strip().lower().split("|")
    return "jobid" in names and len(names) > 2


def read_sacct(path: str, lines: Iterable[str]) -> Trace:
    """The jobs in the output of sacct. Steps of jobs are passed over; what did not run is set
    aside."""
    rows = enumerate(lines, 1)
    first = next((line for _, line in rows if line.strip()), "")
    names = [name.strip().lower() for name in first.strip().split("|")]
    for needed in ("jobid", "submit", "start", "end"):
        if needed not in names:
            raise TraceError(
                f"{path}: expected a column {needed} in the first line, found"
                f" {counted(len(names), 'other column')}{did_you_mean(needed, names)}: ask"
                f" sacct with --parsable2 --format={SACCT_COLUMNS}"
            )
    if not {"ncpus", "alloccpus", "reqcpus"} & set(names):
        raise TraceError(f"{path}: expected a column NCPUS, AllocCPUS or ReqCPUS, found none")
    trace = Trace(path, "sacct", [], SetAside())
    jobs = []
    for number, line in rows:
        words = line.rstrip("\n").split("|")
        if not line.strip():
            continue
        if len(words) != len(names):  # with more of them, a name has a | in it, and all is shifted
            trace.set_aside.add(number, f"expected {len(names)} columns", f"found {len(words)}")
            continue
        row = dict(zip(names, words, strict=False))
        if "." in row["jobid"]:
            continue
        job = _sacct_job(number, row, trace.set_aside)
        if job is not None:
            jobs.append(job)
    trace.jobs = in_order(jobs)
    return trace


def _sacct_job(number: int, row: Mapping[str, str], set_aside: SetAside) -> TraceJob | None:
    submitted, start, end = (_iso(row[name]) for name in ("submit", "start", "end"))
    given = (row.get(name, "") for name in ("ncpus", "alloccpus", "reqcpus"))
    cores = next((count for word in given if (count := _whole(word))), 0)
    nodes = _whole(row.get("nnodes", "")) or 0
    tres = dict(_pairs(row.get("alloctres") or row.get("reqtres") or ""))
    memory = _size(tres.get("mem", ""))
    if memory is None:
        memory = _size(row.get("reqmem", ""), cores, max(nodes, 1))
    array, _, task = row["jobid"].partition("_")
    asked = {
        "memory": memory,
        "gpus": _gpus(tres),
        "partition": row.get("partition", ""),
        "after": _after(row.get("dependency", ""), task),
        "array": array if task else "",
    }
    limit = duration_of(row.get("timelimit", ""))
    times = (submitted, start, end)
    user = row.get("user", "")
    return _job(number, set_aside, row["jobid"], times, cores, nodes, limit, user, asked)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The names and amounts in a list such as cpu=16,mem=64G,gres/gpu=2."""
    for each in text.split(","):
        name, _, amount = each.partition("=")
        yield name.strip().lower(), amount.strip()


def _gpus(tres: Mapping[str, str]) -> int | None:
    """How many GPUs: all of them, else those of each kind, as where a site counts only kinds."""
    names = [name for name in tres if name.startswith("gres/gpu:")]
    said = (tres[name] for name in (["gres/gpu"] if "gres/gpu" in tres else names))
    counts = [count for amount in said if (count := _whole(amount)) is not None]
    return sum(counts) if counts else None


# -- PBS


def is_qstat(lines: Sequence[str]) -> bool:
    """Whether these first lines are the full output of qstat, as text or JSON."""
    text = next((line.strip() for line in lines if line.strip()), "")
    return bool(_JOB_LINE.match(text)) or (
        text.startswith("{") and any('"Jobs"' in line or "pbs_" in line for line in lines)
    )


def read_qstat(path: str, lines: Iterable[str]) -> Trace:
    """The jobs in the output of `qstat -x -f` or `qstat -x -f -F json` of PBS. Jobs that have not
    ended are set aside."""
    trace = Trace(path, "qstat", [], SetAside())
    rows = iter(lines)
    first = next(rows, "")
    every = chain([first], rows)
    is_json = first.lstrip().startswith("{")
    found = _qstat_json(path, every) if is_json else _qstat_text(every, trace.set_aside)
    jobs = []
    for number, name, attributes in found:
        job = _qstat_job(number, name, attributes, trace.set_aside)
        if job is not None:
            jobs.append(job)
    trace.jobs = in_order(jobs)
    return trace


_Found = tuple[int, str, Mapping[str, str]]


def _qstat_text(lines: Iterable[str], set_aside: SetAside) -> Iterator[_Found]:
    name, began = "", 0
    attributes: dict[str, str] = {}
    last = ""
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        heads = _JOB_LINE.match(text)
        if heads:
            if name:
                yield began, name, attributes
            name, began, attributes, last = heads[1], number, {}, ""
        elif text.startswith("\t") and last:
            attributes[last] += text[1:]
        elif found := _ATTRIBUTE.match(text):
            last = found[1].lower()
            attributes[last] = found[2]
        elif text.strip():
            set_aside.add(number, "expected `name = value`")
    if name:
        yield began, name, attributes


def _qstat_json(path: str, lines: Iterable[str]) -> Iterator[_Found]:
    try:
        value = json.loads("".join(lines))
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: expected JSON as qstat -F json prints it: {error}") from None
    jobs = value.get("Jobs") if isinstance(value, Mapping) else None
    if not isinstance(jobs, Mapping):
        raise TraceError(f"{path}: expected an object with Jobs, found none")
    for number, (name, attributes) in enumerate(jobs.items(), 1):
        yield number, str(name), dict(_flat("", attributes))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), part)
    else:
        yield prefix.lower(), str(value)


def _qstat_job(
    number: int, name: str, said: Mapping[str, str], set_aside: SetAside
) -> TraceJob | None:
    submitted = _pbs_time(said.get("qtime") or said.get("ctime"))
    start = _pbs_time(said.get("stime"))
    ran = duration_of(said.get("resources_used.walltime", ""))
    end = start + ran if start is not None and ran is not None else None
    if said.get("job_state", "F") not in ("F", "C", "X", "E"):
        end = None
    wanted = said.get("resource_list.ncpus", "") or said.get("resources_used.ncpus", "")
    nodes = said.get("resource_list.nodect", "")
    gpus = said.get("resource_list.ngpus", "")
    array, _, task = name.partition(".")[0].partition("[")
    asked = {
        "memory": _size(said.get("resource_list.mem", "")),
        "gpus": _whole(gpus),
        "queue": said.get("queue", ""),
        "after": _after(said.get("depend", ""), task),
        "array": f"{array}[]" if task else "",
    }
    return _job(
        number,
        set_aside,
        name.partition(".")[0],
        (submitted, start, end),
        _whole(wanted) or 0,
        _whole(nodes) or 0,
        duration_of(said.get("resource_list.walltime", "")),
        said.get("job_owner", "").partition("@")[0],
        asked,
    )


# -- both


def _job(
    number: int,
    set_aside: SetAside,
    name: str,
    times: tuple[float | None, float | None, float | None],
    cores: int,
    nodes: int,
    limit: float | None,
    user: str,
    asked: Mapping[str, Any],
) -> TraceJob | None:
    submitted, start, end = times
    if submitted is None or submitted < 0:  # no scheduler is older than the epoch
        set_aside.add(number, "the submit time is unknown", f"job {name}")
    elif submitted > LATEST or (end or 0) > LATEST:
        set_aside.add(number, TOO_LATE, f"job {name}")
    elif start is None or end is None or end <= start:
        set_aside.add(number, "it did not run, or has not ended", f"job {name}")
    elif cores <= 0:
        set_aside.add(number, "the number of cores is unknown", f"job {name}")
    else:
        waited = max(0.0, start - submitted)
        # a job on one host may go anywhere; how many cores each of several has follows from both
        spread = nodes if nodes > 1 else 0
        return TraceJob(name, submitted, end - start, cores, spread, limit, waited, user, **asked)
    return None


def _size(text: str, cores: int = 1, nodes: int = 1) -> float | None:
    """Bytes of a size such as 64G, 4000Mc (for each core), 16Gn (for each node) or 4gb; None for
    what is none. A number alone is in megabytes, as Slurm has it, unless it is in bytes, as in
    4096b."""
    found = _SIZE.match(text.strip())
    if found is None:
        return None
    try:
        amount = float(found[1])
    except ValueError:
        return None
    unit = found[2].lower() or ("" if found[3] else "m")
    amount *= 1024 ** " kmgtp".index(unit or " ")
    amount *= {"c": cores, "n": nodes}.get(found[4].lower(), 1)
    return amount if amount and math.isfinite(amount) else None


def _after(text: str, task: str = "") -> tuple[str, ...]:
    """The jobs of a dependency such as afterok:12:13,afterany:14.server,afterok:15_*, without those
    that come with it or after it. `task`: which one of its array it is of, for which aftercorr
    means the same one of another."""
    names = []
    for kind, those in _AFTER.findall(text):
        found = (each.partition(".")[0].partition("+")[0] for each in those.split(":")[1:])
        if kind.lower() == "aftercorr" and task:
            names += [f"{name}_{task}" for name in found]
        elif kind.lower().startswith("after"):
            names += [name.rstrip("_") for name in found]
    return tuple(dict.fromkeys(names))


def _iso(text: str) -> float | None:
    """Unix seconds of a time such as 2026-01-01T00:00:00, or of a number of them, as sacct prints
    with SLURM_TIME_FORMAT=%s."""
    try:
        given = datetime.fromisoformat(text.strip())
        return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):  # the latter also for the year 0, of a zone
        return _whole(text.strip())


def _pbs_time(text: str | None) -> float | None:
    try:
        return datetime.strptime((text or "").strip(), _PBS_TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return _whole((text or "").strip())


def duration_of(text: str) -> float | None:
    """Seconds of a duration such as 01:30:00, 1-12:00:00, 30:00 or 90 (minutes are what Slurm means
    by a number alone, and seconds PBS: neither prints one). Hours come after days, as in 1-12; of
    four numbers the first is days, as Torque writes them."""
    days, dash, rest = text.strip().rpartition("-")
    parts = rest.split(":")
    if len(parts) == 4 and not dash:
        days, dash, *parts = parts[0], "-", *parts[1:]
    if dash:
        parts += ["0"] * (3 - len(parts))
    whole_days, seconds = _whole(days if dash else "0"), 0.0
    for count in map(_whole, parts):
        if count is None:
            return None
        seconds = seconds * 60 + count
    return None if whole_days is None else float(whole_days * 86400 + seconds) or None


def _whole(text: str) -> int | None:
    """A whole number that is not negative; None for any other text, and for one that is longer than
    any program writes."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None
