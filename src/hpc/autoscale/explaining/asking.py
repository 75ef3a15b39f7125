"""Asking the engine again: a queue as a pass has placed it, on copies of the engine's state.

`Queue` remembers what the engine knew before the first job of a pass was placed, and in which order
jobs came. `Queue.run` places those before a job once more, on a copy to which a change was made,
and says what the job gets then. Jobs that the engine alone cannot place, since nodes must be asked
one by one or pools pay, are left out, and `is_exact` says so: then a whole pass is to be asked,
with the same `Hypothesis` (`AskAgain`), or of a job alone a pass up to its turn (`GoToTurn`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from hpc.autoscale.explaining.supposing import Changeable, Supposition
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job, Outcome
from hpc.autoscale.job.placement import Listener, asked_by
from hpc.autoscale.node.constraints import Compiled
from hpc.autoscale.node.nodemanager.manager import placer_of
from hpc.autoscale.packing.plan import Plan, Request

_LOOK_AGAIN = 256
"""After how many jobs that were placed again it is looked whether anything is left."""

Change = Callable[[Changeable], None]
"""Makes a change to the engine's state, or to a copy of it, before anything is placed on it."""


class Hypothesis(NamedTuple):
    """What would be different: the job, as `job` makes another of it, and the state, as `change`
    changes it; None where it stays as it is."""

    job: Callable[[Job], Job] | None = None
    change: Change | None = None


class Gain(Protocol):
    """What a job gets: `nodes` that start for it, how many by bucket, and their `price` in US
    dollars per hour, None where that of one is not known."""

    @property
    def nodes(self) -> Mapping[str, int]: ...

    @property
    def price(self) -> float | None: ...


class ChangedGain(Gain, Protocol):
    """What a job gets where the state was changed."""

    def taken(self) -> Changeable:
        """The state in which the job has all that. It is asked for once at most."""


AskAgain = Callable[[Job, Hypothesis], "ChangedGain | None"]
"""What a job gets of a whole pass, rehearsed under a hypothesis, in the order of the real queue, or
behind it where it is in no queue; None where it does not get all that it wants."""

AskOther = Callable[[Callable[[Job], Job]], "Gain | None"]
"""What another job gets in the place of one, at the turn of that one."""

GoToTurn = Callable[[Job], "AskOther | None"]
"""Rehearses a pass up to the turn of a job, so that any number of other jobs can be asked about in
its place; None where it has no turn of its own."""


class Granted(NamedTuple):
    """What a job gets: the plan for it, on a trial."""

    plan: Plan
    trial: Supposition

    @property
    def nodes(self) -> dict[str, int]:
        """How many nodes would start, by bucket."""
        return self.trial.opened(self.plan)

    @property
    def price(self) -> float | None:
        """What they cost in US dollars per hour."""
        return self.trial.price_of(self.plan)

    def taken(self) -> Supposition:
        """See `ChangedGain`."""
        self.trial.take(self.plan)
        return self.trial


class Queue:
    """The jobs of a pass in the order in which they are placed, and the engine's state before.

    `is_planned`: jobs are placed by plans for many of them, so that none has a turn of its own.
    """

    def __init__(self) -> None:
        self._is_exact = True
        self.is_planned = False
        # how many jobs were placed in the first go
        self._at_once = 0
        # the turn at which the state of the pass itself was remembered
        self._met: int | None = None
        self._last: Job | None = None
        # the turn before which it is not known yet whether the engine alone can place all jobs
        self._unknown: int | None = None
        self._before: Supposition | None = None
        self._jobs: list[tuple[Job, Request]] = []
        # of the first of these jobs, what each asks for, worked out when it is placed again
        self._demands: list[tuple[Compiled, Request]] = []
        self._turns: dict[int, int] = {}
        self._ahead: tuple[int, Supposition] | None = None

    def watch(self, calculator: DemandCalculator, name: str = "") -> None:
        """Remember what the calculator is given to place from now on. `name`: of the job that will
        be asked for, whose turn is remembered as it was."""
        place = calculator.place

        def watched(jobs: Sequence[Job], listener: Listener | None = None) -> list[Outcome]:
            if self._before is None:
                self._before = Supposition(placer_of(calculator.node_mgr))
                packing = calculator.config.get("packing") or {}
                self.is_planned = packing.get("objective") == "cost"
                self._is_exact = not self.is_planned
                self._at_once = len(jobs)
            elif jobs and self._met is None:
                # what follows may be kept from parts of the cluster
                self._is_exact = False
            first = len(self._jobs)
            for job in jobs:
                self._turns.setdefault(id(job), len(self._jobs))
                self._jobs.append((job, job.remaining))
            turn = next((n for n, job in enumerate(jobs) if job.name == name), None)
            if first or turn is None or not self._is_exact:
                return place(jobs, listener)
            outcomes = place(jobs[:turn], listener) if turn else []
            self._ahead = turn, Supposition(placer_of(calculator.node_mgr))
            self._unknown = self._met = turn
            return [*outcomes, *place(jobs[turn:], listener)]

        # one calculator, for one pass
        setattr(calculator, "place", watched)  # noqa: B010

    @property
    def is_exact(self) -> bool:
        """Whether all that was placed again is as in the pass."""
        if self._unknown is not None and self._before is not None:
            demands = self._demands_before(self._unknown)
            known = all(map(self._before.knows, {compiled for compiled, _ in demands}))
            self._is_exact, self._unknown = self._is_exact and known, None
        return self._is_exact

    def wanted(self, job: Job) -> Request | None:
        """What a job asked for at its turn; None of one that had none."""
        turn = self._turns.get(id(job))
        return None if turn is None else self._jobs[turn][1]

    def has_met(self, job: Job) -> bool:
        """Whether the state at a job's turn is that of the pass, and not one that was made by
        placing those before it again."""
        return self._met is not None and self._turns.get(id(job)) == self._met

    def has_turn(self, job: Job) -> bool:
        """Whether what a job gets follows from what those before it have left: they are not planned
        together, and it does not come in a later go, kept from parts of the cluster."""
        is_at_once = self._turns.get(id(job), 0) < self._at_once
        return not self.is_planned and (is_at_once or job is self._last)

    def add_last(self, job: Job) -> None:
        """Ask for a job that is in no queue, as if it came after all others."""
        self._last = job
        self._turns[id(job)] = len(self._jobs)
        self._jobs.append((job, job.remaining))

    def ahead(self, job: Job) -> int:
        """How many jobs come before a job."""
        return self._turns.get(id(job), 0)

    @property
    def buckets(self) -> int:
        """How many buckets the state has; each is copied anew for each change."""
        return 0 if self._before is None else self._before.buckets

    def has_gangs_before(self, job: Job) -> bool:
        """Whether a job before it wants all in one place, such as a placement group."""
        return any(other.colocated for other, _ in self._jobs[: self.ahead(job)])

    def at_turn(self, job: Job) -> Supposition | None:
        """The state when it is a job's turn, which is not to be changed but by who changes it back;
        None of a job that has no turn."""
        turn = self._turns.get(id(job))
        if turn is None or self._before is None:
            return None
        if self._ahead is None or self._ahead[0] != turn:
            trial = self._changed(None)
            self._place(trial, 0, turn)
            self._ahead = turn, trial
        return self._ahead[1]

    def run(self, job: Job, change: Change | None) -> Granted | None:
        """What a job gets when a change was made before the first job was placed; None where it
        does not get all that it wants.

        It is asked for now and then while those before it are placed: where nothing is left for it,
        there is nothing later either.
        """
        turn = self._turns.get(id(job))
        if turn is None or self._before is None:
            return None
        request = self._jobs[turn][1]
        trial = self._changed(change)
        stays = trial.stays_refused(asked_by(job)[0])
        for end in range(_LOOK_AGAIN, turn, _LOOK_AGAIN) if stays else ():
            self._place(trial, end - _LOOK_AGAIN, end)
            if self.ask(trial, job, request) is None:
                return None
        self._place(trial, (turn - 1) // _LOOK_AGAIN * _LOOK_AGAIN if stays and turn else 0, turn)
        return self.ask(trial, job, request)

    @staticmethod
    def ask(trial: Supposition, job: Job, request: Request) -> Granted | None:
        """What a job gets of a trial, which stays as it is; None where it is not all."""
        plan = trial.place(asked_by(job)[0], request, keep=False)
        return Granted(plan, trial) if plan is not None and plan.units >= request.units else None

    def _changed(self, change: Change | None) -> Supposition:
        """The state before the first job, with a change."""
        if self._before is None:
            raise RuntimeError("expected a queue that was watched")
        trial = self._before.copy()
        if change is not None:
            change(trial)
        return trial

    def _place(self, trial: Supposition, start: int, end: int) -> None:
        """Place the jobs of some turns on a trial."""
        for demand, alike in groupby(self._demands_before(end)[start:end]):
            if demand[1].units > 0 and not trial.place_in_turn(*demand, len(list(alike))):
                self._is_exact = False

    def _demands_before(self, turn: int) -> list[tuple[Compiled, Request]]:
        """What the jobs before a turn ask for, and perhaps more."""
        missing = self._jobs[len(self._demands) : turn]
        self._demands += [(asked_by(job)[0], request) for job, request in missing]
        return self._demands
