"""A queue at the least cost: several ways to place it are tried, and the best of them is carried
out.

The first way is to plan jobs together: those that ask for slots (one or many) by constraints that
the engine understands wholly, as far as there is room. All others (gangs, jobs that scatter) are
placed one by one in it, on the nodes that are cheapest for them. Where the limits have room for
more than all can need, nobody can take a place from anybody: the others are placed first, and the
rest is one plan. Otherwise the order of the queue holds: only what stands together in the queue is
planned together, and those who came first are served first. The other ways are first fit under each
order policy.

What is not left to a copy of the engine's state to try (constraints that must be asked node by
node, or that charge pools) parts the queue; each part is tried by itself. Called by
`DemandCalculator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from hpc.autoscale.job.job import Job, Outcome, PackingStrategy
from hpc.autoscale.job.placement import FirstFit, Listener
from hpc.autoscale.node.nodemanager.leastcost import Demand, LeastCost
from hpc.autoscale.packing.leastcost import Copy, Cut, moved
from hpc.autoscale.packing.order import cheapest

if TYPE_CHECKING:
    from hpc.autoscale.node.nodemanager import NodeManager
    from hpc.autoscale.packing.expr import Expr

MOST_PLANNED = 2_000
"""Different constraints in all plans for one queue together; what is left then is placed one by
one."""
_PLAN = 50  # what a plan costs besides, in the same measure


class _Asked:
    """One job of a queue. `can_be_tried`: the engine alone can say where it would go. `is_plain`:
    it can be planned together with others. `demand` and `request` are what is left of it when the
    queue begins; they are not there for a job that cannot be tried."""

    demand: Demand

    def __init__(self, manager: NodeManager, least_cost: LeastCost, job: Job) -> None:
        self.job = job
        scatters = job.packing_strategy == PackingStrategy.SCATTER
        self.request = job._request(job.colocated or scatters)
        compiled = job._compile()
        demand = manager._sorted(compiled)
        self.expr = demand.common
        self.can_be_tried = least_cost.can_try(demand) and self.request.units > 0
        self.is_plain = (
            self.can_be_tried
            and job.node_count <= 0
            and not (job.colocated or scatters)
            and least_cost.takes_part(manager, compiled)
        )
        self.demand = Demand(compiled, self.request.units, job.name)


class _Ground(Protocol):
    """What a queue is placed on: the cluster, or a copy to try it on."""

    def left(self, asked: _Asked) -> int:
        """How much of a job is still to be placed."""

    def place(self, asked: _Asked) -> None:
        """Place what is left of a job by first fit."""

    def plan(self, part: Sequence[_Asked]) -> Cut | None:
        """Place jobs by one plan, as far as there is room. None, and nothing is done, where that
        fails and each job can be tried by itself."""


class LeastCostQueue:
    """Places queues at the least cost. `first_fit` places what is in no plan."""

    def __init__(self, manager: NodeManager, least_cost: LeastCost, first_fit: FirstFit) -> None:
        self._manager = manager
        self._least_cost = least_cost
        self._first_fit = first_fit

    def place(self, jobs: Sequence[Job], listener: Listener | None) -> list[Outcome]:
        """See `Strategy`."""
        before = [job.iterations_remaining for job in jobs]
        ground = _Cluster(self._manager, self._least_cost, self._first_fit, listener)
        self._least_cost.start(self._manager, len(jobs))
        try:
            for part in self._parts(jobs, listener):
                if isinstance(part, Job):
                    ground.place_job(part)
                elif part:
                    self._place_part(ground, part)
        finally:
            self._least_cost.finish(self._manager)
        return [ground.outcome(job, units) for job, units in zip(jobs, before, strict=True)]

    def _parts(self, jobs: Sequence[Job], listener: Listener | None) -> list[Job | list[_Asked]]:
        """The queue, parted at the jobs that cannot be tried, which are by themselves. Where there
        is room for all, these come first, and the rest is one part."""
        queue: list[Job | _Asked] = []
        for job in jobs:
            try:
                asked = _Asked(self._manager, self._least_cost, job)
            except Exception:
                if listener is None:
                    raise
                queue.append(
                    job
                )  # placed by itself, it raises that again, and only there it is taken
            else:
                queue.append(asked if asked.can_be_tried else job)
        tried = [asked for asked in queue if isinstance(asked, _Asked)]
        others = [job for job in queue if isinstance(job, Job)]
        if others and self._is_room(tried, sum(max(j.node_count, j.iterations) for j in others)):
            return [*others, tried]
        parts: list[Job | list[_Asked]] = []
        for each in queue:
            if isinstance(each, Job):
                parts.append(each)
            elif parts and isinstance(parts[-1], list):
                parts[-1].append(each)
            else:
                parts.append([each])
        return parts

    def _is_room(self, part: Sequence[_Asked], others: int = 0) -> bool:
        """Whether the limits have room for more than a part and so many nodes of others can
        need."""
        others += sum(asked.request.units for asked in part if not asked.is_plain)
        plain = [asked.demand for asked in part if asked.is_plain]
        return self._least_cost.has_room_for_all(self._manager, plain, others)

    def _place_part(self, ground: _Cluster, part: list[_Asked]) -> None:
        """Place jobs in the best of the ways that were tried."""
        manager, least_cost = self._manager, self._least_cost
        others_first = not all(a.is_plain for a in part) and self._is_room(part)
        first: Cut | None = None
        if all(asked.is_plain for asked in part):
            first = ground.cut(part)
            if first is not None and first.is_best:
                ground.cuts = [first]
                _Planned(ground, part, others_first).run()
                return
        trial = _Trial(least_cost, least_cost.copy(manager, cheapest), first)
        _Planned(trial, part, others_first).run()
        best, way = trial.copy.came, ""
        total = sum(asked.request.units for asked in part)
        policies = least_cost.policies(manager)
        for name, policy in policies.items():
            copy = least_cost.copy(manager, policy)
            for asked in part:
                copy.place(asked.expr, asked.request)
                if best.units == total and best.is_better_than(copy.came._replace(units=total)):
                    break
            if copy.came.is_better_than(best):
                best, way = copy.came, name
        if not way:
            ground.cuts = trial.cuts
            with manager._asked_in_order_of(cheapest):
                _Planned(ground, part, others_first).run()
            return
        with manager._asked_in_order_of(policies[way]):
            for asked in part:
                ground.place(asked)
        if first is not None and first.stopped_at is None:
            least_cost.note_first_fit(manager, way, first.solution)


class _Planned:
    """One way to place jobs: together, as far as they can be planned."""

    def __init__(self, ground: _Ground, part: Sequence[_Asked], others_first: bool) -> None:
        self._ground = ground
        self._part = part
        self._others_first = others_first
        self._planned = 0
        # expressions for which there is no room any more; there will be none later in this pass
        self._exhausted: set[Expr] = set()
        self._later: list[_Asked] = []

    def run(self) -> None:
        """Place all that has room."""
        part = self._part
        if self._others_first:
            for asked in part:
                if not asked.is_plain:
                    self._ground.place(asked)
            part = [asked for asked in part if asked.is_plain]
        start = 0
        while start < len(part):
            if part[start].is_plain and self._planned < MOST_PLANNED:
                end = start + 1
                while end < len(part) and part[end].is_plain:
                    end += 1
                start += self._plan(part[start:end])
            else:
                self._ground.place(part[start])
                start += 1
        for asked in self._later:
            self._ground.place(asked)

    def _plan(self, part: Sequence[_Asked]) -> int:
        """Plan jobs as far as there is room; how many were looked at."""
        end = len(part)
        taking = [i for i, asked in enumerate(part) if asked.expr not in self._exhausted]
        planned: set[int] = set()
        if taking:
            self._planned += len({part[index].expr for index in taking}) + _PLAN
            cut = self._ground.plan([part[index] for index in taking])
            if cut is None:
                for asked in part:
                    self._ground.place(asked)
                return end
            if cut.stopped_at is not None:
                end = taking[cut.stopped_at] + 1
            planned = set(taking) - {taking[number] for number in cut.homeless}
        for index, asked in enumerate(part[:end]):
            if index not in planned:
                self._later.append(asked)
            elif self._ground.left(asked):
                self._ground.place(asked)
                if self._ground.left(asked):
                    self._exhausted.add(asked.expr)
        return end


class _Trial:
    """A copy to try a queue on. `first`: the first plan, where it is known. `cuts`: the plans that
    were made, for the cluster."""

    def __init__(self, least_cost: LeastCost, copy: Copy, first: Cut | None) -> None:
        self.copy = copy
        self.cuts: list[Cut] = []
        self._first = first
        self._least_cost = least_cost
        self._left: dict[_Asked, int] = {}

    def left(self, asked: _Asked) -> int:
        """See `_Ground`."""
        return self._left.get(asked, asked.request.units)

    def place(self, asked: _Asked) -> None:
        """See `_Ground`."""
        request = asked.request._replace(units=self.left(asked))
        if request.units > 0:
            self._left[asked] = request.units - self.copy.place(asked.expr, request)

    def plan(self, part: Sequence[_Asked]) -> Cut | None:
        """See `_Ground`."""
        cut, self._first = self._first, None
        if cut is None:
            wanted = [(asked.expr, self.left(asked)) for asked in part]
            cut = self._least_cost.cut(self.copy.planner, wanted, self.copy.price_of)
            self.cuts.append(moved(cut, self.copy.original))
        else:
            self.cuts.append(cut)
            cut = moved(cut, self.copy.of)
        layout = cut.layout()
        if layout.plan:
            self.copy.commit(layout.plan)
        for number, asked in enumerate(part):
            self._left[asked] = self.left(asked) - layout.units(number)
        return cut


class _Cluster:
    """The manager, on which a queue is placed for good. `cuts`: plans that were made before, to be
    carried out."""

    def __init__(
        self,
        manager: NodeManager,
        least_cost: LeastCost,
        first_fit: FirstFit,
        listener: Listener | None,
    ) -> None:
        self._manager = manager
        self._least_cost = least_cost
        self._first_fit = first_fit
        self._listener = listener
        self.cuts: list[Cut] = []
        # what jobs came to that were placed, or the rest of them, by themselves
        self._outcomes: dict[int, Outcome] = {}

    def outcome(self, job: Job, before: int) -> Outcome:
        """What a job came to, in a plan and by itself."""
        alone = self._outcomes.get(id(job))
        placed = before - job.iterations_remaining
        if alone is None:
            return Outcome(self._manager, job, placed)
        if job.node_count > 0 or alone.units == placed:
            return alone
        return Outcome(self._manager, job, placed, error=alone.error)

    def left(self, asked: _Asked) -> int:
        """See `_Ground`."""
        return asked.job.iterations_remaining

    def place(self, asked: _Asked) -> None:
        """See `_Ground`."""
        self.place_job(asked.job)

    def place_job(self, job: Job) -> None:
        """Place a job by first fit."""
        self._outcomes[id(job)] = self._first_fit.place_one(job, self._listener)

    def cut(self, part: Sequence[_Asked]) -> Cut | None:
        """The plan for jobs; None where it fails and the listener takes errors."""
        wanted = [(asked.expr, self.left(asked)) for asked in part]
        try:
            return self._least_cost.cut_for(self._manager, wanted)
        except Exception:
            if self._listener is None:
                raise
            return None

    def plan(self, part: Sequence[_Asked]) -> Cut | None:
        """See `_Ground`. Where it fails and the listener takes errors, each job can be tried by
        itself."""
        cut = self.cuts.pop(0) if self.cuts else self.cut(part)
        if cut is None:
            return None
        try:
            placed = self._least_cost.place(self._manager, [a.demand for a in part], cut)
        except Exception:
            if self._listener is None:
                raise
            return None
        for asked, units in zip(part, placed.units, strict=True):
            asked.job.iterations_remaining -= units
        placed.tell(lambda number: self._begins(part[number].job))
        return cut

    def _begins(self, job: Job) -> None:
        if self._listener is not None:
            self._listener.begins(job)
