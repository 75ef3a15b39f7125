"""The owner of the engine's state: answers requests with plans, and makes plans true.

`plan` reads alone. `apply` is the one place where work that was placed is written to candidates
and limits.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hpc.autoscale.packing import layers
from hpc.autoscale.packing.candidate import Candidate, ChangeLog
from hpc.autoscale.packing.cursor import ByNeed, Cursor
from hpc.autoscale.packing.expr import AnyNode, Expr
from hpc.autoscale.packing.feasibility import Feasibility, Ranking
from hpc.autoscale.packing.limits import Limit, LimitExceeded, charge_all
from hpc.autoscale.packing.plan import NOTHING, ONE_SLOT, Plan, Probe, Request, Step
from hpc.autoscale.packing.search import Groups, Search, plan_whole
from hpc.autoscale.packing.shape import ShapeTable


class StalePlan(RuntimeError):
    """A plan was to be applied after the state it was made from had changed."""


class Arrangement(NamedTuple):
    """Candidates in the order in which they are asked before what a request prefers.

    `by_need`: how that depends on what a request needs of new nodes, if it does; nodes with room
    are looked at as for one unit. `may_share`: whether any of them has a part to which a share of
    nodes is to go."""

    candidates: Sequence[Candidate]
    by_need: ByNeed | None = None
    may_share: bool = True


class Planner:
    """Plans and applies. Rankings and cursors are kept for each expression until
    `forget_rankings`.

    `existing_first`: nodes with room in any candidate come before new nodes in the first; otherwise
    it goes candidate by candidate. `arrange`: puts candidates in order; None leaves them as
    declared. Not safe for use by several threads at once.
    """

    def __init__(self, existing_first: bool = True) -> None:
        self.existing_first = existing_first
        self.table = ShapeTable()
        self.candidates: list[Candidate] = []
        self.arrange: Callable[[Sequence[Candidate]], Arrangement] | None = None
        self._arrangement: Arrangement | None = None
        self._rankings: dict[Expr, Ranking] = {}
        self._feasibility: Feasibility | None = None
        self._cursors: dict[Expr, Cursor] = {}
        # one tuple for equal ones, so that whatever is kept for them is found without hashing them
        self._tuples: dict[tuple[Candidate, ...], tuple[Candidate, ...]] = {}
        # what callers note of their demands: the cursor of each, None where the engine alone cannot
        # answer, what was made for people of those that nothing was found for, and of cursors
        self.by_demand: dict[object, Cursor | None] = {}
        self.refused: dict[object, object] = {}
        self.told: dict[Cursor, object] = {}
        self._groups: dict[int, Groups] = {}
        self._changes = ChangeLog()
        self._has_fast_slots = existing_first and "one-slot" not in layers.OFF
        self._has_groups = "groups" not in layers.OFF
        self._nowhere: Cursor | None = None

    @property
    def nowhere(self) -> Cursor:
        """The cursor of any expression that no candidate is to be asked for."""
        self._nowhere = self._nowhere or Cursor(AnyNode(), (), self._changes)
        return self._nowhere

    def add(self, candidate: Candidate) -> None:
        """Add the candidate of another bucket, in declared order the last of its turn."""
        candidate.changes = self._changes
        insort(self.candidates, candidate, key=lambda each: each.turn)
        self.forget_rankings()

    def forget_rankings(self) -> None:
        """Buckets have changed: rank them anew when next asked."""
        self._feasibility = None
        self._arrangement = None
        self._rankings.clear()
        self._cursors.clear()
        self._tuples.clear()
        self.forget_demands()
        self._groups.clear()
        self._nowhere = None
        self._changes.clear()

    def forget_demands(self) -> None:
        """What callers' demands ask of nodes may be another now."""
        self.by_demand.clear()
        self.refused.clear()
        self.told.clear()

    def arranged(
        self, expr: Expr | None = None, request: Request | None = None
    ) -> Sequence[Candidate]:
        """All candidates, in the order in which they are asked before what a request prefers; of a
        request, where one is given."""
        candidates, by_need, *_ = self._arranged()
        if expr is None or request is None or by_need is None:
            return candidates
        cursor = Cursor(expr, candidates, ChangeLog(), by_need)
        return [cursor.candidates[i] for i in cursor.openings(request.units, request.per_node)]

    def _arranged(self) -> Arrangement:
        if self._arrangement is None:
            found = self.arrange(self.candidates) if self.arrange else Arrangement(self.candidates)
            may_share = any(each.share for each in self.candidates)
            self._arrangement = found._replace(may_share=may_share)
        return self._arrangement

    def ranking(self, expr: Expr) -> Ranking:
        """The order in which candidates are asked for an expression."""
        found = self._rankings.get(expr)
        if found is None:
            found = self._rankings[expr] = self._feasible().rank(expr)
        return found

    def _feasible(self) -> Feasibility:
        if self._feasibility is None:
            self._feasibility = Feasibility(self.arranged())
        return self._feasibility

    def who_serves(self, parts: Sequence[Expr]) -> int:
        """Which candidates are to be asked for parts that must all hold, as
        `Feasibility.who_serves` has it; 0: none."""
        return self._feasible().who_serves(parts)

    def cursor(self, expr: Expr, meeting: int | None = None) -> Cursor:
        """What is remembered for an expression. `meeting`: what `who_serves` said, if asked."""
        found = self._cursors.get(expr)
        if found is None:
            candidates = self._feasible().serving(expr, meeting)
            found = self.nowhere
            if candidates:
                candidates = self._tuples.setdefault(candidates, candidates)
                found = Cursor(expr, candidates, self._changes, *self._arranged()[1:])
            self._cursors[expr] = found
        return found

    # -- asking

    def ask(
        self,
        expr: Expr,
        request: Request,
        candidates: Sequence[Candidate] | None = None,
        probe: Probe | None = None,
        as_given: bool = True,
    ) -> Plan:
        """A plan for what some constraints ask for, as `plan` makes it. `candidates`: asked in
        place of those of its ranking; `as_given`: new nodes are opened in their order."""
        if candidates is None:
            return self.plan(self.cursor(expr), request, probe)
        order = (None, False) if as_given else self._arranged()[1:]
        cursor = Cursor(expr, candidates, ChangeLog(), *order)
        return self.plan(cursor, request, probe)

    def plan(
        self, cursor: Cursor, request: Request, probe: Probe | None = None, explain: bool = True
    ) -> Plan:
        """What placing a request would change; nothing has changed yet.

        Only the newest plan can be applied. `explain`: say what keeps out what finds no place. A
        plan of no units is the answer when nothing fits.
        """
        changes = self._changes
        if not (explain or cursor.candidates):
            changes.plan = NOTHING
            return NOTHING
        is_slot = request is ONE_SLOT or request == ONE_SLOT
        if is_slot and cursor.monotone and probe is None and self._has_fast_slots:
            step = cursor.slot()
            if step is not None and not step.before.dormant:
                changes.plan = step
                return step
            if step is None and not explain:
                changes.plan = NOTHING
                return NOTHING
        cursor.catch_up()
        if request.whole:
            groups = self._groups_of(cursor) if probe is None else None
            plan = plan_whole(request, cursor, self.existing_first, probe, groups, explain)
        else:
            plan = self._plan_spread(Search(request, cursor, probe, explain))
        changes.plan = plan
        return plan

    def _plan_spread(self, search: Search) -> Plan:
        """A plan for a request whose units may lie on several candidates."""
        cursor, request, existing_first = search.cursor, search.request, self.existing_first
        if existing_first:
            search.use_existing()
            if not search.left:
                return search.plan()
        if cursor.shares_out:
            for index in () if existing_first else range(len(cursor.candidates)):
                search.use(index)
                search.claim(index)
            search.open_by_share()
            return search.plan(search.rejects(existing_first))
        for index in cursor.openings(search.left, request.per_node):
            if not existing_first:
                search.use(index)
                search.claim(index)
            search.open(index)
            if not search.left:
                return search.plan()
        return search.plan(search.rejects(existing_first))

    def _groups_of(self, cursor: Cursor) -> Groups | None:
        """The placement groups among the candidates of a cursor that is kept; None where its
        expression does not ask the same of nodes in each."""
        if not self._has_groups or self._cursors.get(cursor.expr) is not cursor:
            return None
        found = self._groups.get(id(cursor.candidates))
        if found is None:
            found = Groups(cursor.candidates, self._changes)
            self._groups[id(cursor.candidates)] = found
        if not found.treats_alike(cursor.expr):
            return None
        found.catch_up()
        return found

    # -- acting

    def adopt(self, plan: Plan) -> None:
        """Take a plan that was made by other means than `plan`; it can be applied now. StalePlan
        where nodes are not as it has them."""
        ends: dict[Candidate, int] = {}
        for step in plan.steps:
            shapes = step.candidate.shapes
            if step.opened:
                is_stale = step.lo != ends.get(step.candidate, len(shapes))
                ends[step.candidate] = step.hi
            else:
                is_stale = shapes[step.lo : step.hi].count(step.before) != step.hi - step.lo
            if is_stale:
                raise StalePlan(f"the plan is not about the nodes that {step.candidate} has now")
        self._changes.plan = plan

    def apply(self, plan: Plan) -> Sequence[Step]:
        """Make a plan true: all of it, or StalePlan or LimitExceeded and nothing of it. Its steps.

        Its `effects` are the caller's to carry out, once it has made its own part true.
        """
        changes = self._changes
        if plan is not changes.plan:
            raise StalePlan("the plan was made before something else changed; ask again")
        changes.plan = None
        if plan.units == 1 and isinstance(plan, Step):
            # most plans: one node, and nothing to take back
            candidate = plan.candidate
            if plan.opened:
                charge_all(candidate.charged, 1, candidate.cores)
                candidate.append(plan.after)
                return (plan,)
            if not plan.before.unclaimed:
                candidate.fill_one(plan.lo, plan.after)
                return (plan,)
        self._charge(plan.steps)
        for step in plan.steps:
            nodes = step.hi - step.lo
            if step.opened:
                step.candidate.append(step.after, nodes)
            elif nodes == 1:
                step.candidate.fill_one(step.lo, step.after)
            else:
                step.candidate.fill(step.lo, step.hi, step.after)
            if step.before.unclaimed and not step.opened:
                step.candidate.raised(step.lo)
        return plan.steps

    @staticmethod
    def _charge(steps: Sequence[Step]) -> None:
        """Charge the limits for all new nodes, or LimitExceeded and for none."""
        nodes: dict[Candidate, int] = {}
        for step in steps:
            if step.opened or step.before.dormant:
                nodes[step.candidate] = nodes.get(step.candidate, 0) + step.hi - step.lo
        charged: list[Candidate] = []
        for candidate, count in nodes.items():
            try:
                charge_all(candidate.charged, count, count * candidate.cores)
            except LimitExceeded:
                for other in charged:
                    charge_all(other.charged, -nodes[other], -nodes[other] * other.cores)
                raise
            charged.append(candidate)


def copied_planner(
    planner: Planner, has_nodes: bool = True
) -> tuple[Planner, dict[Candidate, Candidate]]:
    """A copy of a planner's state, to try placing demands on, and the originals of its candidates.

    Candidates are in declared order until its `arrange` is set. `has_nodes` false: no nodes yet,
    and limits are charged for those that there are. Cost: a list per candidate, and its limits.
    """
    made = Planner(planner.existing_first)
    made.table = planner.table
    original_of: dict[Candidate, Candidate] = {}
    copies: dict[Limit, Limit] = {}  # of limits, which candidates share
    for candidate in planner.candidates:
        copied = candidate.copied([limit.copied(copies) for limit in candidate.limits], has_nodes)
        original_of[copied] = candidate
        made.add(copied)
    return made, original_of
