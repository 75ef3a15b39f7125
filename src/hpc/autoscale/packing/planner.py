"""The owner of the engine's state: which candidates there are, and the one place where a plan becomes true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hpc.autoscale.packing.candidate import Candidate, Journal
from hpc.autoscale.packing.cursor import ByNeed, Cursor
from hpc.autoscale.packing.direct import Direct, Run
from hpc.autoscale.packing.expr import AnyNode, Expr
from hpc.autoscale.packing.gang import open_whole
from hpc.autoscale.packing.groups import Groups
from hpc.autoscale.packing.plan import Plan, Probe, Request
from hpc.autoscale.packing.ranking import Ranking, Survey
from hpc.autoscale.packing.reach import Reach
from hpc.autoscale.packing.shape import ShapeTable
from hpc.autoscale.packing.strategy import plan as find_plan


class StalePlan(RuntimeError):
    """A plan was committed after the state it was made from had changed."""


class Lane:
    """What belongs to a demand of a caller's: `cursor` is None where the engine alone cannot answer, or where it `is_nowhere`:
    no candidate serves it. `still` says whether the engine still can answer, where that may change, and `told` is whatever was
    made of it for people.
    """

    __slots__ = ("cursor", "is_nowhere", "still", "told")

    def __init__(self, cursor: Direct | None, still: Callable[[], bool] | None = None) -> None:
        self.is_nowhere = cursor is not None and not cursor.candidates
        self.cursor = None if self.is_nowhere else cursor
        self.still = still
        self.told: object = None


class Arrangement(NamedTuple):
    """Candidates in the order in which they are asked before what a demand prefers, and (`by_need`) how that depends on
    what a demand needs when new nodes are opened for it; None where it does not."""

    candidates: Sequence[Candidate]
    by_need: ByNeed | None = None


class Planner:
    """Asks and commits. Rankings are remembered for each expression until `forget_rankings`.

    `arrange`: puts candidates in order; None leaves them as declared.
    Not safe for use by several threads at once.
    """

    def __init__(self, existing_first: bool = True) -> None:
        self.existing_first = existing_first
        self.table = ShapeTable()
        self.candidates: list[Candidate] = []
        self.arrange: Callable[[Sequence[Candidate]], Arrangement] | None = None
        self._arrangement: Arrangement | None = None
        self._rankings: dict[Expr, Ranking] = {}
        self._survey: Survey | None = None
        self._cursors: dict[Expr, Direct] = {}
        # by what a caller will find them again, as long as the cursors are kept
        self.lanes: dict[object, Lane] = {}
        # and what was made for people of demands that nothing was found for
        self.refused: dict[object, object] = {}
        self._groups: dict[int, Groups] = {}
        self._journal = Journal()
        # where an expression has no candidate to be asked, whatever it is
        self._nowhere = Direct(AnyNode(), (), self._journal)
        self.nowhere = Lane(self._nowhere)
        self._reach = Reach(self.candidates, self._journal)
        self._plan: Plan | None = None

    def add(self, candidate: Candidate) -> None:
        """Another bucket, last in declared order."""
        candidate.journal = self._journal
        self.candidates.append(candidate)
        self.forget_rankings()

    def forget_rankings(self) -> None:
        """Buckets have changed: rank them anew when next asked."""
        self._survey = None
        self._arrangement = None
        self._rankings.clear()
        self._cursors.clear()
        self.forget_lanes()
        self._groups.clear()
        self._journal.clear()
        self._reach = Reach(self.candidates, self._journal)
        self._plan = None

    def forget_lanes(self) -> None:
        """What is known of callers' demands may be another now."""
        self.lanes.clear()
        self.refused.clear()

    def arranged(
        self, expr: Expr | None = None, request: Request | None = None
    ) -> Sequence[Candidate]:
        """All candidates, in the order in which they are asked before what a demand prefers; of a demand, where one is given."""
        candidates, by_need = self._arranged()
        if expr is None or request is None or by_need is None:
            return candidates
        cursor = Cursor(expr, candidates, Journal(), False, by_need)
        return [
            cursor.candidates[index] for index in cursor.openings(request.units, request.per_node)
        ]

    def _arranged(self) -> Arrangement:
        if self._arrangement is None:
            self._arrangement = (
                self.arrange(self.candidates) if self.arrange else Arrangement(self.candidates)
            )
        return self._arrangement

    def ranking(self, expr: Expr) -> Ranking:
        """The order in which candidates are asked for an expression."""
        found = self._rankings.get(expr)
        if found is None:
            found = self._rankings[expr] = self._surveyed().rank(expr)
        return found

    def _surveyed(self) -> Survey:
        if self._survey is None:
            self._survey = Survey(self.arranged())
        return self._survey

    def ask(
        self,
        expr: Expr,
        request: Request,
        candidates: Sequence[Candidate] | None = None,
        probe: Probe | None = None,
        as_given: bool = True,
    ) -> Plan:
        """What placing `request` would change; nothing has changed yet. Only the newest answer can be committed. `as_given`: new
        nodes are opened in the order of `candidates`, where these are given."""
        if candidates is None:
            cursor: Cursor = self._cursor(expr)
        else:
            by_need = None if as_given else self._arranged().by_need
            cursor = Cursor(expr, candidates, Journal(), by_need=by_need)
        groups = (
            self._groups_of(expr, cursor.candidates)
            if request.whole and candidates is None
            else None
        )
        plan = find_plan(request, cursor, self.existing_first, probe, groups)
        self.adopt(plan)
        return plan

    def _groups_of(self, expr: Expr, candidates: tuple[Candidate, ...]) -> Groups | None:
        """The placement groups among the candidates of an expression; None where it does not ask the same of nodes in each."""
        # most expressions have one tuple of candidates, which takes long to hash
        found = self._groups.get(id(candidates))
        if found is None:
            found = self._groups[id(candidates)] = Groups(candidates, self._journal)
        if not found.treats_alike(expr):
            return None
        found.catch_up()
        return found

    def _cursor(self, expr: Expr, meeting: int | None = None) -> Direct:
        found = self._cursors.get(expr)
        if found is None:
            candidates = self._surveyed().serving(expr, meeting)
            found = self._nowhere
            if candidates:
                by_need = self._arranged().by_need
                found = Direct(expr, candidates, self._journal, self._reach.has(expr), by_need)
            self._cursors[expr] = found
        else:
            found.catch_up()
        return found

    def who_serves(self, parts: Sequence[Expr]) -> int:
        """Which candidates are to be asked for parts that must all hold, as `Survey.who_serves` has it; 0: none."""
        return self._surveyed().who_serves(parts)

    def cursor(self, expr: Expr, meeting: int | None = None) -> Direct | None:
        """What places an expression at once; `meeting` is what `who_serves` said, where it was asked. None where only a plan
        will do."""
        return self._cursor(expr, meeting) if self.existing_first else None

    def open_whole(self, cursor: Direct, request: Request) -> list[Run]:
        """Place a gang at once, where that takes no plan; see `gang.open_whole`."""
        cursor.catch_up()
        groups = self._groups_of(cursor.expr, cursor.candidates)
        return open_whole(request, cursor, groups) if groups is not None else []

    def adopt(self, plan: Plan) -> None:
        """Take a plan that was made from the state as it is by other means than `ask`; it can be committed now."""
        self._plan = plan
        self._journal.is_planned = True

    def commit(self, plan: Plan) -> None:
        """Make a plan true: all of it, or StalePlan or LimitExceeded and nothing of it. The plan's `effects` are the
        caller's to carry out, once it has made its own part true."""
        if plan is not self._plan or not self._journal.is_planned:
            raise StalePlan("the plan was made before something else changed; ask again")
        self._plan = None
        plan.reservation.settle()
        for placed in plan.steps:
            candidate, lo, hi, _, _, after, opened = placed
            if opened:
                candidate.append(after, hi - lo)
            elif hi - lo == 1:
                candidate.fill_one(lo, after)
            else:
                candidate.fill(lo, hi, after)
