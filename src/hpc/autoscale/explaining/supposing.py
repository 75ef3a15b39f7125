"""What would be placed if something were different.

A supposition is a copy of what the engine knows, on which limits may be changed and jobs be
placed. The nodes and limits of the manager stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import Compiled
from hpc.autoscale.node.nodemanager.placing import Placer
from hpc.autoscale.node.nodemanager.policies import arrange_by, policy_named
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.packing.amounts import Quantity
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.plan import NOTHING, ONE_SLOT, Plan, Request, opened_of
from hpc.autoscale.packing.planner import Planner, copied_planner
from hpc.autoscale.shown import Unit


class Changeable(Protocol):
    """The engine's state, or a copy of it, of which limits may be changed and time may pass."""

    def limits(self) -> Iterator[tuple[NodeBucket, Sequence[Limit]]]:
        """The limits that new nodes of each bucket are charged to, in the order of
        `bucket.limits.parts`. Who changes them calls `changed`."""

    def changed(self) -> None:
        """Limits are others now: forget what was found out under the old ones."""

    def pass_time(self, seconds: float) -> None:
        """So much later: capacity failures lie further back."""


class OwnState:
    """The state of a manager itself, for a pass that is only rehearsed."""

    def __init__(self, placer: Placer) -> None:
        placer.sync()
        self._placer = placer

    def limits(self) -> Iterator[tuple[NodeBucket, Sequence[Limit]]]:
        """See `Changeable`."""
        for candidate in self._placer.planner.candidates:
            bucket = self._placer.bucket_of(candidate)
            yield bucket, bucket.limits.parts

    def changed(self) -> None:
        """See `Changeable`."""
        self._placer.planner.forget_rankings()

    def pass_time(self, seconds: float) -> None:
        """See `Changeable`."""
        _age_failures(self._placer.planner, seconds)
        self.changed()


def _age_failures(planner: Planner, seconds: float) -> None:
    for candidate in planner.candidates:
        if candidate.since_failure is not None:
            candidate.since_failure += seconds


class Supposition:
    """A copy of the engine's state. Cost of making one: a list for each bucket, and its limits."""

    def __init__(self, placer: Placer, of: Supposition | None = None) -> None:
        self._placer = placer
        # demands for which there was nothing: what is placed meanwhile leaves no more for them
        self._refused: set[tuple[Compiled, Request]] = set()
        # None where the engine alone cannot answer
        self._cursors: dict[Compiled, Cursor | None] = {}
        if of is None:
            placer.sync()
        source = placer.planner if of is None else of._planner
        planner, original_of = copied_planner(source)
        self._planner: Planner = planner
        self._buckets: dict[Candidate, NodeBucket] = {
            copied: placer.bucket_of(original) if of is None else of._buckets[original]
            for copied, original in original_of.items()
        }
        named = placer.order_policy
        policy = policy_named(named) if isinstance(named, str) else named
        arrange_by(policy, self._planner, self._buckets.__getitem__)

    def copy(self) -> Supposition:
        """Another one, with all that was changed and placed so far."""
        return Supposition(self._placer, self)

    @property
    def buckets(self) -> int:
        """How many buckets a copy has."""
        return len(self._buckets)

    def limits(self) -> Iterator[tuple[NodeBucket, Sequence[Limit]]]:
        """The limits that new nodes of each bucket are charged to here, in the order of
        `bucket.limits.parts`. Who changes them calls `changed`."""
        for candidate in self._planner.candidates:
            yield self._buckets[candidate], candidate.limits

    def changed(self) -> None:
        """Limits are others now: forget what was found out under the old ones."""
        self._refused.clear()
        self._cursors.clear()
        self._planner.forget_rankings()

    @contextmanager
    def as_it_is(self) -> Iterator[None]:
        """A context in which limits may be changed; afterwards they are as before."""
        limits = {id(a): a for candidate in self._planner.candidates for a in candidate.limits}
        before = [(limit, limit.max_cores, limit.max_nodes) for limit in limits.values()]
        try:
            yield
        finally:
            for limit, cores, nodes in before:
                limit.max_cores, limit.max_nodes = cores, nodes
            self.changed()

    def free(self, name: str) -> dict[tuple[Quantity, Unit | None], None]:
        """How much of a resource new nodes and nodes that are there have free, in base units, with
        the unit in which they have it, of a sized one; each once, in the order of the nodes."""
        found: dict[tuple[Quantity, Unit | None], None] = {}
        for candidate in self._planner.candidates:
            # shapes are told apart by their address, which gives a set no order
            for shape in dict.fromkeys((candidate.new_shape, *candidate.shapes)):
                free = None if shape is None else shape.free.get(name)
                if shape is not None and isinstance(free, (int, float)) and free > 0:
                    found[free, shape.units.get(name)] = None
        return found

    def pass_time(self, seconds: float) -> None:
        """So much later: capacity failures lie further back."""
        _age_failures(self._planner, seconds)
        self.changed()

    def knows(self, compiled: Compiled) -> bool:
        """Whether the engine alone can answer for some constraints."""
        return self._placer.sorting_of(compiled).by_shape

    def place(self, compiled: Compiled, request: Request, keep: bool = True) -> Plan | None:
        """The plan for a demand, carried out here with `keep`; None where the engine alone cannot
        answer, because nodes must be asked one by one or a pool must pay."""
        if (compiled, request) in self._refused:
            return NOTHING
        cursor = self._cursors.get(compiled)
        if cursor is None:
            cursor = self._cursor(compiled)
            if cursor is None:
                return None
        plan = self._planner.plan(cursor, request, explain=False)
        if keep and plan:
            self._planner.apply(plan)
        elif not plan and cursor.monotone:
            self._refused.add((compiled, request))
        return plan

    def place_in_turn(self, compiled: Compiled, request: Request, jobs: int) -> bool:
        """Place so many demands that are alike, one after another; False where the engine alone
        cannot answer."""
        if jobs > 1 and request == ONE_SLOT and self._place_together(compiled, jobs):
            return True
        plans = [self.place(compiled, request) for _ in range(jobs)]
        return None not in plans

    def _place_together(self, compiled: Compiled, slots: int) -> bool:
        """Place so many demands for a slot as one, which takes far less time, if they lie on the
        same nodes then: not where each wants a node of its own."""
        cursor = self._cursor(compiled)
        if cursor is None or not _takes_the_same(cursor):
            return False
        plan = self._planner.plan(cursor, Request(slots), explain=False)
        if any(step.after.closed for step in plan.steps):
            return False
        self._planner.apply(plan)
        return True

    def stays_refused(self, compiled: Compiled) -> bool:
        """Whether a demand for which there is no room has none later either, whatever is placed
        meanwhile."""
        cursor = self._cursor(compiled)
        return cursor is not None and cursor.monotone

    def _cursor(self, compiled: Compiled) -> Cursor | None:
        if compiled not in self._cursors:
            demand = self._placer.sorting_of(compiled)
            found = self._planner.cursor(demand.common) if demand.by_shape else None
            self._cursors[compiled] = found
        return self._cursors[compiled]

    def take(self, plan: Plan) -> None:
        """Carry out the plan that was asked for last."""
        self._planner.apply(plan)

    def opened(self, plan: Plan) -> dict[str, int]:
        """How many nodes a plan starts, by bucket: `htc/Standard_F4s_v2`."""
        found: Counter[str] = Counter()
        for candidate, nodes in opened_of(plan.steps).items():
            bucket = self._buckets[candidate]
            found[f"{bucket.nodearray}/{bucket.vm_size}"] += nodes
        return dict(found)

    def price_of(self, plan: Plan) -> float | None:
        """US dollars per hour for the nodes that a plan starts; None where that of one is not
        known."""
        total = 0.0
        for candidate, nodes in opened_of(plan.steps).items():
            bucket = self._buckets[candidate]
            each = price_per_hour(bucket.location, bucket.vm_size, bucket.spot)
            if each is None:
                return None
            total += each * nodes
        return total


def _takes_the_same(cursor: Cursor) -> bool:
    """Whether each unit takes the same of any node, and goes to the first that has it, however many
    follow."""
    return cursor.monotone and not cursor.orders_by_need and cursor.expr.most_modes() == 1
