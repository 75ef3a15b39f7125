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
from hpc.autoscale.packing.compound import any_reads
from hpc.autoscale.packing.direct import Direct, Run
from hpc.autoscale.packing.draft import Delta, Want
from hpc.autoscale.packing.packer import Lane, Packer
from hpc.autoscale.packing.stock import Stock

_MOST_SORTINGS = 10_000


class EngineSide:
    """The engine's state, kept in step with the buckets and their nodes."""

    _packer: Packer
    _names: Names
    _defaults: Defaults
    _by_stock: dict[Stock, NodeBucket]
    _written: dict[NodeBucket, None]
    _undefaulted: dict[NodeBucket, None]
    _directories: dict[NodeBucket, Directory]
    _sortings: dict[int, tuple[Compiled, Sorted]]
    _idle_machines: IdleMachines

    def _bucket_written(self, bucket: NodeBucket) -> None:
        self._written[bucket] = self._undefaulted[bucket] = None

    def _bucket_of(self, stock: Stock) -> NodeBucket:
        return self._by_stock[stock]

    def _directory_of(self, stock: Stock) -> Directory:
        bucket = self._by_stock[stock]
        return self._directories.setdefault(bucket, Directory(bucket))

    def _sync(self) -> None:
        """Let the engine know what was written through handles since it was last asked."""
        if self._written:
            self._idle_machines.forget()
        while self._written:
            bucket, _ = self._written.popitem()
            if bucket in self._directories:
                self._directories[bucket].renew(bucket._dirty)
            if bucket._sync(self._packer.table):
                self._packer.forget_rankings()

    def _carry_out(self, delta: Delta, assignment_id: str) -> None:
        """Make a plan of the engine true: all of it, or, when naming the new nodes fails, nothing."""
        proposal: Proposal | None = None
        names: list[Sequence[str]] = []
        for placed in delta.placed:
            if placed.opened:
                proposal = proposal or self._names.propose()
                bucket = self._bucket_of(placed.stock)
                names.append(proposal.names(bucket, placed.hi - placed.lo))
            else:
                names.append(())
        self._packer.commit(delta)
        if proposal is not None:
            proposal.accept()
        for placed, fresh in zip(delta.placed, names, strict=True):
            self._bucket_of(placed.stock)._took(placed, fresh, assignment_id)
        for effect in delta.effects:
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
        lane = self._packer.lanes.get(compiled)
        if lane is None or (lane.still and not lane.still()):
            lane = self._packer.lanes[compiled] = self._new_lane(compiled)
        return lane

    def _new_lane(self, compiled: Compiled) -> Lane:
        """Strayed: see `declared`."""
        packer = self._packer
        if compiled.opaque:
            demand = self._sorted(compiled)
            outlook = packer.outlook(demand.common) if demand.by_shape else None
            return Lane(outlook, demand.may_be_believed)
        if compiled.tolls or any_reads(compiled.parts, self._defaults.personal):
            return Lane(None)
        meeting = packer.who_serves(compiled.parts)
        return Lane(packer.outlook(compiled.expr, meeting)) if meeting else packer.nowhere

    def _place_on_one(
        self, compiled: Compiled, units: int, assignment_id: str
    ) -> tuple[NodeBucket, int] | Literal[False] | None:
        """Place `units` slots that one node takes, existing or new, in few steps; where it is. False: not one of them
        fits anywhere. None: nothing was done, `_place` must be asked, which would come to the same; nor
        was anything done when it raises Strayed.
        """
        lane = self._lane(compiled)
        outlook = lane.outlook
        if outlook is None:
            return self._refused(compiled) if lane.is_nowhere else None
        filled = outlook.fill_one(units)
        if filled is None:
            return None
        if filled:
            stock, position, before, after = filled
            bucket = self._by_stock[stock]
            bucket._took_one(position, before, after, assignment_id)
        else:
            # a hook may raise, and must be asked before anything is done
            opened = outlook.open_one(units) if self._names.hook is None else None
            if not opened:
                return opened if opened is None else self._refused(compiled)
            stock, position, _, _ = opened
            bucket = self._by_stock[stock]
            bucket._opened_one(self._names.take_one(bucket), assignment_id)
        if results.HANDLERS:
            report_placed(self, lane, bucket, position, units)
        return bucket, position

    def _refused(self, compiled: Compiled) -> Literal[False] | None:
        """False where nobody wants to hear why, or handlers can be told what they were told of the one before that asked for the
        same (`_tell_refused`); else None."""
        return None if results.HANDLERS and compiled not in self._packer.refused else False

    def _tell_refused(self, compiled: Compiled, units: int) -> None:
        """Tell handlers of a demand for which nothing was found, as it was said before."""
        said = self._packer.refused[compiled]
        if isinstance(said, Said):
            said.again(units)

    def _place_on_several(self, compiled: Compiled, units: int, assignment_id: str) -> int | None:
        """Place as many of `units` slots as there is room for, in few steps; how many. None: nothing was done, `_place` must
        be asked, which would come to the same.
        """
        outlook = self._silent(compiled)
        if outlook is None:
            return None
        spots, left = outlook.fill_some(units)
        for stock, position, before, after in spots:
            self._by_stock[stock]._took_one(position, before, after, assignment_id)
        if left:
            runs, left = outlook.open_some(left)
            self._opened(runs, assignment_id)
        return units - left

    def _place_whole(self, compiled: Compiled, want: Want, assignment_id: str) -> bool:
        """Place all of a gang on new nodes, in few steps. False: nothing was done, `_place` must be asked, which would come to
        the same where there is a place."""
        outlook = self._silent(compiled)
        runs = [] if outlook is None else self._packer.open_whole(outlook, want)
        self._opened(runs, assignment_id)
        return bool(runs)

    def _silent(self, compiled: Compiled) -> Direct | None:
        """What places some constraints on many nodes at once. None where one of them must be asked, a hook may raise,
        or somebody may want to hear why not."""
        lane = self._lane(compiled)
        outlook = lane.outlook
        if lane.still or outlook is None or self._names.hook or results.HANDLERS:
            return None
        return outlook if outlook.monotone else None

    def _opened(self, runs: Sequence[Run], assignment_id: str) -> None:
        for stock, lo, hi in runs:
            bucket = self._by_stock[stock]
            bucket._opened(self._names.take(bucket, hi - lo), assignment_id)
