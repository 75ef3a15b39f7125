"""Further passes that are rehearsed to find out what a job would get, if it or the cluster were
different. Called by the command explain, through what it looks at (`explaining.scene`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import results
from hpc.autoscale.autoscaler.learning import NewCalculator
from hpc.autoscale.autoscaler.summary import PassSummary
from hpc.autoscale.cli.base import Config
from hpc.autoscale.errors import one_line
from hpc.autoscale.explaining.asking import AskOther, Hypothesis
from hpc.autoscale.explaining.supposing import Changeable, OwnState
from hpc.autoscale.explaining.waiting_job import like
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job, Outcome
from hpc.autoscale.job.placement import Listener, asked_by, considered
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager.manager import placer_of
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.packing.plan import opened_of
from hpc.autoscale.rehearsal.rehearsing import rehearse


class Rehearsals:
    """Passes of one configuration, each with a new driver, that end when what was asked is known.

    `are_planned`: jobs are placed by plans for many of them, so that none has a turn of its own.
    """

    def __init__(
        self,
        config: Config,
        new_driver: Callable[[], SchedulerDriver],
        new_calculator: NewCalculator,
        are_planned: bool,
    ) -> None:
        self._config = config
        self._new_driver = new_driver
        self._new_calculator = new_calculator
        self._are_planned = are_planned

    def ask(self, job: Job, hypothesis: Hypothesis) -> _Got | None:
        """What a job gets of a pass under a hypothesis: see `AskAgain`."""
        seen: list[DemandCalculator] = []
        stop = _Stop(job, is_after=True)

        def change(calculator: DemandCalculator) -> None:
            seen.append(calculator)
            if hypothesis.change is not None:
                hypothesis.change(OwnState(placer_of(calculator.node_mgr)))
            if hypothesis.job is None and not self._are_planned:
                stop.watch(calculator)

        summary = self._rehearse(job, hypothesis.job or like, change)
        if summary is not None:
            short = {each.name for each in summary.unsatisfied}
            short |= {each.name for each in summary.set_aside}
            is_short = bool(summary.errors) or job.name in short
            return None if is_short else _what_it_has(job, seen[-1])
        outcome = stop.outcome
        is_short = outcome is None or outcome.error is not None or outcome.missing > 0
        return None if is_short else _what_it_has(job, seen[-1], is_last=True)

    def go_to_turn(self, job: Job) -> AskOther | None:
        """A pass that stands at the turn of a job: see `GoToTurn`."""
        stop = _Stop(job, is_after=False)
        self._rehearse(job, like, stop.watch)
        if stop.job is None or stop.calculator is None:
            return None
        mine, manager = stop.job, stop.calculator.node_mgr

        def ask(make: Callable[[Job], Job]) -> _AtTurn | None:
            try:
                other = make(mine)
                with results.muted():
                    plan = considered(other, manager)[0].plan
            except Exception as error:  # noqa: BLE001  a constraint may be somebody else's
                logging.debug("job %s cannot be asked about: %s", mine.name, one_line(error))
                return None
            if not plan or plan.units < asked_by(other).request.units:
                return None
            placer = placer_of(manager)
            opened = {placer.bucket_of(c): count for c, count in opened_of(plan.steps).items()}
            return _AtTurn(*_nodes_and_price((b, n) for b, n in opened.items()))

        return ask

    def _rehearse(
        self,
        job: Job,
        make: Callable[[Job], Job],
        prepare: Callable[[DemandCalculator], None],
    ) -> PassSummary | None:
        """The summary of a pass with what is made of a job in its place, of whose calculator
        something is made first; None where it was stopped."""

        def prepared(
            config: Config, driver: SchedulerDriver
        ) -> tuple[DemandCalculator, Sequence[Job]]:
            calculator, jobs = self._new_calculator(config, driver)
            prepare(calculator)
            return calculator, _queue_of(jobs, job, make)

        with suppress(_Stopped), results.muted():
            return rehearse(
                self._config, self._new_driver, new_calculator=prepared, demand_only=True
            ).summary
        return None


class _Stopped(Exception):
    """Ends a pass at the turn of a job, or after it."""


class _Stop:
    """Where a pass ends: when the jobs before one were placed, or, with `is_after`, when it was
    placed itself; not at all where it is not placed in the first go, or has a name like others.

    `job` is that job as the pass has it, and `outcome` what it got.
    """

    def __init__(self, job: Job, is_after: bool) -> None:
        self.calculator: DemandCalculator | None = None
        self.job: Job | None = None
        self.outcome: Outcome | None = None
        self._like = job
        self._is_after = is_after
        self._is_first = True

    def watch(self, calculator: DemandCalculator) -> None:
        """End the pass that places jobs with a calculator."""
        place = calculator.place

        def placed(jobs: Sequence[Job], listener: Listener | None = None) -> list[Outcome]:
            turns = [turn for turn, each in enumerate(jobs) if _is_named(each, self._like)]
            if not self._is_first or len(turns) != 1:
                self._is_first = False
                return place(jobs, listener)
            turn = turns[0]
            end = turn + 1 if self._is_after else turn
            outcomes = place(jobs[:end], listener)
            self.calculator, self.job = calculator, jobs[turn]
            self.outcome = outcomes[-1] if self._is_after else None
            raise _Stopped

        # one calculator, for one pass
        setattr(calculator, "place", placed)  # noqa: B010


class _Got(NamedTuple):
    """What a job has in a rehearsed pass, and what that pass has placed it with."""

    nodes: Mapping[str, int]
    price: float | None
    calculator: DemandCalculator

    def taken(self) -> Changeable:
        """See `ChangedGain`."""
        return OwnState(placer_of(self.calculator.node_mgr))


class _AtTurn(NamedTuple):
    """What a job would get at a turn."""

    nodes: Mapping[str, int]
    price: float | None


def _what_it_has(job: Job, calculator: DemandCalculator, is_last: bool = False) -> _Got:
    """What a job has. `is_last`: no other was placed after it, so that new nodes that others have
    work on were planned for these."""
    nodes = [n for n in calculator.node_mgr.get_nodes() if job.name in n.assignments]
    new = [n for n in nodes if not (n.exists or (is_last and len(n.assignments) > 1))]
    return _Got(*_nodes_and_price((n, 1) for n in new), calculator)


def _nodes_and_price(
    new: Iterable[tuple[Node | NodeBucket, int]],
) -> tuple[dict[str, int], float | None]:
    """How many new nodes by bucket, and what they cost; None where that of one is not known."""
    many: Counter[str] = Counter()
    total: float | None = 0.0
    for each, count in new:
        many[f"{each.nodearray}/{each.vm_size}"] += count
        price = price_per_hour(each.location, each.vm_size, each.spot)
        total = None if price is None or total is None else total + price * count
    return dict(many), total


def _queue_of(jobs: Sequence[Job], job: Job, make: Callable[[Job], Job]) -> list[Job]:
    """The queue, with what is made of a job in its place; behind all where it is in no queue."""
    queue = [make(each) if _is_named(each, job) else each for each in jobs]
    if not any(_is_named(each, job) for each in jobs):
        queue.append(make(job))
    return queue


def _is_named(job: object, other: Job) -> bool:
    return isinstance(job, Job) and job.name == other.name
