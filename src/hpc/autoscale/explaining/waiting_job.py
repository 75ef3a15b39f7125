"""A job that waits, asked for with something changed: the job itself, or the cluster.

Of copies of the engine's state where these are as good as a pass, else of passes that are rehearsed
for it. These take long, so that only some are: how many is said here, and nowhere else. What to
change is up to `explaining.fixes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hpc.autoscale.errors import AutoscaleError, counted
from hpc.autoscale.explaining.asking import AskOther, Change, ChangedGain, Gain, Hypothesis
from hpc.autoscale.explaining.found import Found
from hpc.autoscale.explaining.known import Known
from hpc.autoscale.explaining.rewriting import as_json, constraints_of
from hpc.autoscale.explaining.scene import Scene
from hpc.autoscale.explaining.words import listed
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.placement import asked_by
from hpc.autoscale.node.constraints import NodeConstraint, SharedConsumableConstraint

PASSES = 40
"""How many passes may be rehearsed in all to find what lets one job start."""

WORK = 20_000
"""How many jobs and nodes these passes may have in all, so that there are fewer of large ones."""

LARGE = 5_000
"""Jobs and nodes together above which no further passes are asked: that would take too long."""

TRIES = 40
"""How many other jobs are asked about one after another at a turn, where that takes no pass."""

Amounts = Mapping[str, int]
"""Amounts by the names of pools."""

_NO_AMOUNTS: Amounts = MappingProxyType({})

Rewrite = Callable[[list[Any]], list[Any]]
"""Other constraints made of those of a job, as JSON, one for each."""


class WaitingJob:
    """A job that waits, with what is in its way, and ways to ask for it with a change.

    *Another job in its place* is asked of a copy of the engine's state at its turn (`is_by_copy`),
    or of a pass that is rehearsed up to there, once for all of them; where neither can tell, of a
    whole pass for each. *Another state* is asked of a copy where that is as good as a pass
    (`is_copy_exact`), else of a pass for each, `again`.

    `asked`: how many passes were asked, and `passes` how many may still be for this kind of fix.
    `left_out` says in words what was not tried, as that would have taken more. `gathers`: whether
    it is a gang with a deadline of its own.
    """

    def __init__(self, job: Job, found: Sequence[Found], scene: Scene) -> None:
        self.job = job
        self.found = found
        self.queue = scene.queue
        self.known = Known(scene.calculator.node_mgr)
        self.request = scene.queue.wanted(job)
        self.turn = scene.queue.at_turn(job)
        is_known = self.turn is not None and self.turn.knows(asked_by(job)[0])
        size = len(scene.jobs) + len(scene.nodes)
        is_small = size <= LARGE
        self.is_copy_exact = is_known and self.queue.is_exact
        self.is_by_copy = is_known and (self.queue.is_exact or self.queue.has_met(job))
        self.again = None if self.is_copy_exact or not is_small else scene.ask_again
        self._is_too_large = not (is_small or is_known)
        self._may_ask = is_small and not self.is_by_copy
        self._is_timed = scene.is_timed
        self._go_to_turn = scene.go_to_turn if self.queue.has_turn(job) else None
        self._at_turn: AskOther | None = None
        self.asked = 0
        self._left = min(PASSES, WORK // (size + 1))
        self._kept = 0
        self._is_cut_short = False
        waits = scene.waiting(job.name)
        self.gathers = waits is not None and waits.verdict.code == "GangGathers"
        # what lets one part start says nothing of others, and passes change all parts
        self._is_whole = waits is None or waits.parts == 1 or (waits.short == 1 and self.is_by_copy)

    def of_codes(self, *codes: str) -> Iterator[Found]:
        """What is in the way, of these codes."""
        return (each for each in self.found if each.code in codes)

    def begin(self, shares: int = 2) -> None:
        """Another kind of fix is looked for, with one of so many shares of the passes that are
        left."""
        self._kept = self._left - -(-self._left // shares)

    @property
    def passes(self) -> int:
        """How many passes may still be asked for this kind of fix."""
        return max(0, self._left - self._kept)

    @property
    def tries(self) -> int:
        """How many other jobs may be asked about, one after another, for this kind of fix."""
        return TRIES if self.at_turn is not None else self.passes

    @property
    def at_turn(self) -> AskOther | None:
        """What asks for other jobs at its turn without a pass for each; None where a copy does, or
        where it takes whole passes."""
        if self._may_ask and self._go_to_turn is not None and self._left > 0:
            self._left -= 1
            self.asked += 1
            self._at_turn = self._go_to_turn(self.job)
            self._go_to_turn = None
        return self._at_turn

    @property
    def are_jobs_certain(self) -> bool:
        """Whether what is said of other jobs in its place is so."""
        return self._is_whole and (self.is_by_copy or (self._may_ask and not self._is_timed))

    @property
    def is_certain(self) -> bool:
        """Whether what is said of other states is so."""
        is_known = self.is_copy_exact or (self.again is not None and not self._is_timed)
        return self._is_whole and is_known

    def asked_as(self, rewrite: Rewrite) -> Gain | None:
        """What the job gets with other constraints, at its turn."""
        return self._asked_as(lambda job: like(job, rewrite))

    def asked_for(self, units: int) -> Gain | None:
        """What the job gets when it asks for so many nodes or slots, at its turn."""
        return self._asked_as(lambda job: like(job, units=units))

    def asked_of_pools(self, pools: Amounts) -> Gain | None:
        """What the job gets when it asks for other amounts of pools."""
        return self._asked_as(lambda job: like(job, pools=pools))

    def asked_with(self, change: Change) -> ChangedGain | None:
        """What the job gets when something was changed before the first job was placed."""
        if self.again is None:
            return self.queue.run(self.job, change)
        return self._of_a_pass(Hypothesis(change=change))

    def _asked_as(self, make: Callable[[Job], Job]) -> Gain | None:
        try:
            if self.at_turn is not None:
                return self.at_turn(make)
            if self._may_ask:
                return self._of_a_pass(Hypothesis(job=make))
            if self.turn is None or self.request is None:
                return None
            # with what it wanted at its turn
            other = make(like(self.job, units=self.request.units))
        except (AutoscaleError, AssertionError):
            return None
        return self.queue.ask(self.turn, other, other.remaining)

    def _of_a_pass(self, hypothesis: Hypothesis) -> ChangedGain | None:
        if self.again is None:
            return None
        if self.passes < 1:
            self._is_cut_short = True
            return None
        self._left -= 1
        self.asked += 1
        try:
            return self.again(self.job, hypothesis)
        except (AutoscaleError, AssertionError):
            return None

    @property
    def constraints(self) -> list[Any]:
        """The job's constraints as JSON."""
        return constraints_of(self.job)

    @property
    def left_out(self) -> str:
        """What was not tried, in words; empty where nothing was left out."""
        if self._is_too_large:
            return (
                "changes of the job were not tried: each takes a whole pass here, and jobs and"
                f" nodes are more than {LARGE:,}"
            )
        if self._is_cut_short:
            return f"not everything was tried: that takes more than {counted(self.asked, 'pass')}"
        return ""


def like(
    job: Job, rewrite: Rewrite | None = None, units: int | None = None, pools: Amounts = _NO_AMOUNTS
) -> Job:
    """Another job of this name with other constraints, that asks for so many nodes or slots, or for
    other amounts of pools. Constraints that stay as they are are the same objects, since others may
    draw on the same pools."""
    given = [_with_amount(each, pools) for each in asked_by(job)[0].constraints]
    before = list(map(as_json, given))
    after = before if rewrite is None else rewrite(before)
    wanted = [
        old if was == new else new for old, was, new in zip(given, before, after, strict=True)
    ]
    by_node = job.node_count > 0
    other = Job(
        job.name,
        wanted,
        iterations=job.iterations if units is None or by_node else units,
        node_count=units if units is not None and by_node else job.node_count,
        colocated=job.colocated,
        packing_strategy=job.packing_strategy,
        executing_hostnames=job.executing_hostnames,
    )
    if units is None or by_node:
        other.iterations_remaining = job.iterations_remaining
    other.metadata = job.metadata
    return other


def _with_amount(constraint: NodeConstraint, pools: Amounts) -> NodeConstraint:
    """The constraint, with another amount where the name of its pools has one."""
    amount = pools.get(pool_names(constraint))
    if amount is None or not isinstance(constraint, SharedConsumableConstraint):
        return constraint
    return SharedConsumableConstraint(
        constraint.shared_resources, amount, constraint.decrement_once
    )


def pool_names(constraint: NodeConstraint) -> str:
    """What pools of a constraint are called together; empty where it has none."""
    if type(constraint) is not SharedConsumableConstraint:
        return ""
    return listed(pool.resource_name for pool in constraint.shared_resources)
