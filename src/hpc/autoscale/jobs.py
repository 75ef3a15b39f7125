"""Making jobs of what a scheduler says of its queue: one that makes no sense stops no other.

`Job` raises for what it cannot understand, and what a driver raises while it reads ends the pass
for all jobs. `build_jobs` makes them one by one: of an entry that cannot be used it makes an
`UnusableJob`, which a pass sets aside and names in its summary. Called by drivers; `checked` by the
loop, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import AutoscaleError, check_kinds, one_line, text_of
from hpc.autoscale.job.job import Job

Entry = TypeVar("Entry")


class UnusableJobError(AutoscaleError):
    """A job that cannot be placed, whatever nodes there are; the text says why."""


class UnusableJob(Job):
    """A job of the scheduler that cannot be understood, and `reason`, why.

    A pass sets it aside, and it gets no node. Hosts on which it runs keep their nodes.
    `executing_hostnames` None: it is not known whether it runs, or where, and so all nodes stay.
    """

    def __init__(
        self, name: str, reason: str, executing_hostnames: Sequence[str] | None = ()
    ) -> None:
        super().__init__(
            str(name), {"never": reason}, executing_hostnames=executing_hostnames or []
        )
        self.reason = reason
        self.runs_who_knows_where = executing_hostnames is None


class UnusableHost(UnusableJob):
    """A host of the scheduler without a name: `number` in its list, and what was `found` there.

    Nobody knows which node it is, or what runs there. So it stands among the jobs that are set
    aside, and all nodes stay. The scheduler is told nothing of it.
    """

    def __init__(self, number: int, found: str) -> None:
        reason = f"expected the name of a host, a text that is not empty, found {found}"
        super().__init__(f"host {number} of the scheduler", reason, None)


def build_jobs(
    entries: Iterable[Entry],
    build: Callable[[Entry], Job | Sequence[Job] | None],
    name: Callable[[Entry], str] = str,
    hosts: Callable[[Entry], Iterable[str]] | None = None,
) -> list[Job]:
    """A job for each entry of a queue, in its order.

    `build` makes a job, or a list of them for an entry whose parts differ, or returns None for one
    that wants nothing. Where it raises, or makes a job that nobody can place, there is an
    `UnusableJob` instead of all of them, called `name(entry)`, or by the number of the entry where
    there is no such name. `hosts`: where an entry runs, none while it
    waits; leave it out where entries only wait. What iterating over `entries` raises is passed on:
    then the queue could not be read. InvalidArgument for entries that are no list.
    """
    check_kinds("build_jobs", Iterable, entries=entries)
    jobs: list[Job] = []
    for number, entry in enumerate(entries, 1):
        try:
            made = build(entry)
            parts = made if isinstance(made, (list, tuple)) else [made]
            jobs += [checked(job) for job in parts if job is not None]
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one entry
            logging.debug("entry %d of the queue", number, exc_info=error)
            said = _name(entry, number, name)
            jobs.append(UnusableJob(said, _reason(error, said), _hosts(entry, hosts)))
    return jobs


def checked(job: object) -> Job:
    """The job. UnusableJobError when it is none, is an `UnusableJob`, has metadata that are no
    dict, or asks for a negative number of slots or nodes. (`Job` itself refuses negative
    resources.)"""
    if not isinstance(job, Job):
        raise UnusableJobError(f"expected a Job, found {type(job).__name__}")
    if isinstance(job, UnusableJob):
        raise UnusableJobError(job.reason)
    metadata: object = job.metadata
    if not isinstance(metadata, dict):
        raise UnusableJobError(f"metadata: expected a dict, found {metadata!r:.100}")
    if job.iterations < 0:
        raise UnusableJobError(f"iterations: expected 0 or more, found {job.iterations}")
    if job.node_count < 0:
        raise UnusableJobError(f"node_count: expected 0 or more, found {job.node_count}")
    return job


def is_running(job: object) -> bool:
    """Whether a driver says of a job, which need not be one, that it runs. What remains of one that
    can be placed waits, also where a part of it runs on hosts."""
    metadata = getattr(job, "metadata", None)
    state = metadata.get("job_state") if isinstance(metadata, Mapping) else None
    if state == "running":
        return True
    return bool(getattr(job, "executing_hostnames", None)) and not _can_be_placed(job)


def _can_be_placed(job: object) -> bool:
    try:
        return checked(job) is job
    except UnusableJobError:
        return False


def _name(entry: Entry, number: int, name: Callable[[Entry], str]) -> str:
    """What to call an entry that may be anything."""
    try:
        said = name(entry)
    except Exception:  # noqa: BLE001 - as in `build_jobs`
        said = ""
    return said if isinstance(said, str) and said.strip() else f"entry {number}"


def _reason(error: Exception, name: str) -> str:
    """An error as one line, without the name of the job, which is said anyway."""
    # what `Job` raises for arguments of a wrong kind is made for people
    said = " ".join(text_of(error).split()) if isinstance(error, AssertionError) else ""
    return (said or one_line(error)).removeprefix(f"job {name}: ")


def _hosts(entry: Entry, hosts: Callable[[Entry], Iterable[str]] | None) -> list[str] | None:
    """Where an entry runs; None when that cannot be told."""
    if hosts is None:
        return []
    try:
        found = hosts(entry)
        names = None if isinstance(found, str) else list(found)
    except Exception:  # noqa: BLE001 - as in `build_jobs`
        return None
    return names if names is not None and all(isinstance(n, str) for n in names) else None
