"""The side of a `NodeManager` that faces the engine: what was written through handles is told to it, and what it placed is made
true on them.

Most demands take the short way here, without a plan; `placing` has the long one, for those that somebody wants to hear of and
for what the engine cannot judge alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hpc.autoscale import results
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import Compiled
from hpc.autoscale.node.default_resources import Defaults
from hpc.autoscale.node.nodemanager.directory import Directory
from hpc.autoscale.node.nodemanager.naming import Names, Proposal
from hpc.autoscale.node.nodemanager.probing import Sorted, sort_out
from hpc.autoscale.node.nodemanager.reporting import Said, report_placed
from hpc.autoscale.node.nodemanager.unmanaged import IdleMachines
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import any_reads
from hpc.autoscale.packing.direct import Direct, Run
from hpc.autoscale.packing.plan import Plan, Request
from hpc.autoscale.packing.planner import Lane, Planner

_MOST_SORTINGS = 10_000


class EngineSide:
    """The engine's state, kept in step with the buckets and their nodes."""

    _planner: Planner
    _names: Names
    _defaults: Defaults
    _by_candidate: dict[Candidate, NodeBucket]
    _written: dict[NodeBucket, None]
    _undefaulted: dict[NodeBucket, None]
    _directories: dict[NodeBucket, Directory]
    _sortings: dict[int, tuple[Compiled, Sorted]]
    _idle_machines: IdleMachines

    def _bucket_written(self, bucket: NodeBucket) -> None:
        self._written[bucket] = self._undefaulted[bucket] = None

    def _bucket_of(self, candidate: Candidate) -> NodeBucket:
        return self._by_candidate[candidate]

    def _directory_of(self, candidate: Candidate) -> Directory:
        bucket = self._by_candidate[candidate]
        return self._directories.setdefault(bucket, Directory(bucket))

    def _sync(self) -> None:
        """Let the engine know what was written through handles since it was last asked."""
        if self._written:
            self._idle_machines.forget()
        while self._written:
            bucket, _ = self._written.popitem()
            if bucket in self._directories:
                self._directories[bucket].renew(bucket._dirty)
            if bucket._sync(self._planner.table):
                self._planner.forget_rankings()

    def _carry_out(self, plan: Plan, assignment_id: str) -> None:
        """Make a plan of the engine true: all of it, or, when naming the new nodes fails, nothing."""
        proposal: Proposal | None = None
        names: list[Sequence[str]] = []
        for placed in plan.steps:
            if placed.opened:
                proposal = proposal or self._names.propose()
                bucket = self._bucket_of(placed.candidate)
                names.append(proposal.names(bucket, placed.hi - placed.lo))
            else:
                names.append(())
        self._planner.commit(plan)
        if proposal is not None:
            proposal.accept()
        for placed, fresh in zip(plan.steps, names, strict=True):
            self._bucket_of(placed.candidate)._took(placed, fresh, assignment_id)
        for effect in plan.effects:
            effect()

    def _sorted(self, compiled: Compiled) -> Sorted:
        """The constraints by who can answer for them. Worked out once for each list, while that is in use."""
        known = self._sortings.get(id(compiled))
        if known is None or known[0] is not compiled or not known[1].may_be_believed():
            if len(self._sortings) > _MOST_SORTINGS:
                self._sortings.clear()
            known = (compiled, sort_out(compiled, self._defaults))
            self._sortings[id(compiled)] = known
        return known[1]

    # -- the short way

    def _lane(self, compiled: Compiled) -> Lane:
        """What is known in advance of some constraints, up to date with what was written."""
        if self._written:
            self._sync()
        lane = self._planner.lanes.get(compiled)
        if lane is None or (lane.still and not lane.still()):
            lane = self._planner.lanes[compiled] = self._new_lane(compiled)
        return lane

    def _new_lane(self, compiled: Compiled) -> Lane:
        """Strayed: see `declared`."""
        planner = self._planner
        if compiled.opaque:
            demand = self._sorted(compiled)
            cursor = planner.cursor(demand.common) if demand.by_shape else None
            return Lane(cursor, demand.may_be_believed)
        if compiled.tolls or any_reads(compiled.parts, self._defaults.personal):
            return Lane(None)
        meeting = planner.who_serves(compiled.parts)
        return Lane(planner.cursor(compiled.expr, meeting)) if meeting else planner.nowhere

    def _place_on_one(
        self, compiled: Compiled, units: int, assignment_id: str
    ) -> tuple[NodeBucket, int] | Literal[False] | None:
        """Place `units` slots that one node takes, existing or new, in few steps; where it is. False: not one of them
        fits anywhere. None: nothing was done, `_place` must be asked, which would come to the same; nor
        was anything done when it raises Strayed.
        """
        lane = self._lane(compiled)
        cursor = lane.cursor
        if cursor is None:
            return self._refused(compiled) if lane.is_nowhere else None
        filled = cursor.fill_one(units)
        if filled is None:
            return None
        if filled:
            candidate, position, before, after = filled
            bucket = self._by_candidate[candidate]
            bucket._took_one(position, before, after, assignment_id)
        else:
            # a hook may raise, and must be asked before anything is done
            opened = cursor.open_one(units) if self._names.hook is None else None
            if not opened:
                return opened if opened is None else self._refused(compiled)
            candidate, position, _, _ = opened
            bucket = self._by_candidate[candidate]
            bucket._opened_one(self._names.take_one(bucket), assignment_id)
        if results.HANDLERS:
            report_placed(self, lane, bucket, position, units)
        return bucket, position

    def _refused(self, compiled: Compiled) -> Literal[False] | None:
        """False where nobody wants to hear why, or handlers can be told what they were told of the one before that asked for the
        same (`_tell_refused`); else None."""
        return None if results.HANDLERS and compiled not in self._planner.refused else False

    def _tell_refused(self, compiled: Compiled, units: int) -> None:
        """Tell handlers of a demand for which nothing was found, as it was said before."""
        said = self._planner.refused[compiled]
        if isinstance(said, Said):
            said.again(units)

    def _place_on_several(self, compiled: Compiled, units: int, assignment_id: str) -> int | None:
        """Place as many of `units` slots as there is room for, in few steps; how many. None: nothing was done, `_place` must
        be asked, which would come to the same.
        """
        cursor = self._silent(compiled)
        if cursor is None:
            return None
        spots, left = cursor.fill_some(units)
        for candidate, position, before, after in spots:
            self._by_candidate[candidate]._took_one(position, before, after, assignment_id)
        if left:
            runs, left = cursor.open_some(left)
            self._opened(runs, assignment_id)
        return units - left

    def _place_whole(self, compiled: Compiled, request: Request, assignment_id: str) -> bool:
        """Place all of a gang on new nodes, in few steps. False: nothing was done, `_place` must be asked, which would come to
        the same where there is a place."""
        cursor = self._silent(compiled)
        runs = [] if cursor is None else self._planner.open_whole(cursor, request)
        self._opened(runs, assignment_id)
        return bool(runs)

    def _silent(self, compiled: Compiled) -> Direct | None:
        """What places some constraints on many nodes at once. None where one of them must be asked, a hook may raise,
        or somebody may want to hear why not."""
        lane = self._lane(compiled)
        cursor = lane.cursor
        if lane.still or cursor is None or self._names.hook or results.HANDLERS:
            return None
        return cursor if cursor.monotone else None

    def _opened(self, runs: Sequence[Run], assignment_id: str) -> None:
        for candidate, lo, hi in runs:
            bucket = self._by_candidate[candidate]
            bucket._opened(self._names.take(bucket, hi - lo), assignment_id)
