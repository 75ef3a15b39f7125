"""Jobs that wait after a pass, as rows: there may be tens of thousands, for few causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpc.autoscale.journal.changes import NO_ROWS, Rows, settled
from hpc.autoscale.journal.pairs import Pairs

CAUSES = 50
"""Reasons why jobs wait that are worked out for one record at most."""

_Why = tuple[str | None, str | None]


def unsatisfied_rows(jobs: Sequence[Any], before: Rows = NO_ROWS) -> Rows:
    """The jobs that wait, as `UnsatisfiedJob` has them, each with its reason as far as that is
    among the first `CAUSES`. `before`: those of the last record; the value of a job that is as it
    was there is the same object."""
    waiting = _Waiting()
    return settled(jobs, before, waiting.alike, _name_of, waiting.value, Pairs, plain=waiting_json)


class _Waiting:
    """What is said of jobs: name, what is missing, of which unit, and why."""

    def __init__(self) -> None:
        self._said: dict[object, _Why] = {}

    def value(self, job: Any) -> tuple[tuple[Any, ...], _Why]:
        """What is said of a job."""
        return (job.name, job.missing, job.unit), self._why(job)

    def alike(self, jobs: Sequence[Any], values: Pairs) -> int:
        """How many at the start are jobs of which is said what these values say."""
        said = self._said
        for count, (job, ((name, missing, unit), why)) in enumerate(zip(jobs, values, strict=True)):
            if job.name != name or job.missing != missing or job.unit != unit:
                return count
            if (said.get(job.cause) or self._why(job)) != why:
                return count
        return len(jobs)

    def _why(self, job: Any) -> _Why:
        """The reason and the limit of the cause of a job."""
        if job.cause not in self._said:
            is_told = len(self._said) < CAUSES
            self._said[job.cause] = (job.reason, job.limit) if is_told else (None, None)
        return self._said[job.cause]


def _name_of(job: Any) -> str:
    return str(job.name)


def waiting_json(value: tuple[tuple[Any, ...], _Why]) -> Mapping[str, Any]:
    """What JSON has for a job that waits."""
    own, said = value
    return dict(zip(("job", "missing", "unit", "reason", "limit"), (*own, *said), strict=True))
