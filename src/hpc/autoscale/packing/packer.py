"""The owner of the engine's state: which stocks there are, and the one place where a plan becomes true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hpc.autoscale.packing.direct import Direct, Run
from hpc.autoscale.packing.draft import Delta, Probe, Want
from hpc.autoscale.packing.expr import AnyNode, Expr
from hpc.autoscale.packing.gang import open_whole
from hpc.autoscale.packing.groups import Groups
from hpc.autoscale.packing.outlook import ByNeed, Outlook
from hpc.autoscale.packing.ranking import Ranking, Survey
from hpc.autoscale.packing.reach import Reach
from hpc.autoscale.packing.shape import ShapeTable
from hpc.autoscale.packing.stock import Journal, Stock
from hpc.autoscale.packing.strategy import plan


class StalePlan(RuntimeError):
    """A plan was committed after the state it was made from had changed."""


class Lane:
    """What belongs to a demand of a caller's: `outlook` is None where the engine alone cannot answer, or where it `is_nowhere`:
    no stock serves it. `still` says whether the engine still can answer, where that may change, and `told` is whatever was
    made of it for people.
    """

    __slots__ = ("is_nowhere", "outlook", "still", "told")

    def __init__(self, outlook: Direct | None, still: Callable[[], bool] | None = None) -> None:
        self.is_nowhere = outlook is not None and not outlook.stocks
        self.outlook = None if self.is_nowhere else outlook
        self.still = still
        self.told: object = None


class Arrangement(NamedTuple):
    """Stocks in the order in which they are asked before what a demand prefers, and (`by_need`) how that depends on
    what a demand needs when new nodes are opened for it; None where it does not."""

    stocks: Sequence[Stock]
    by_need: ByNeed | None = None


class Packer:
    """Asks and commits. Rankings are remembered for each expression until `forget_rankings`.

    `arrange`: puts stocks in order; None leaves them as declared.
    Not safe for use by several threads at once.
    """

    def __init__(self, existing_first: bool = True) -> None:
        self.existing_first = existing_first
        self.table = ShapeTable()
        self.stocks: list[Stock] = []
        self.arrange: Callable[[Sequence[Stock]], Arrangement] | None = None
        self._arrangement: Arrangement | None = None
        self._rankings: dict[Expr, Ranking] = {}
        self._survey: Survey | None = None
        self._outlooks: dict[Expr, Direct] = {}
        # by what a caller will find them again, as long as the outlooks are kept
        self.lanes: dict[object, Lane] = {}
        # and what was made for people of demands that nothing was found for
        self.refused: dict[object, object] = {}
        self._groups: dict[int, Groups] = {}
        self._journal = Journal()
        # where an expression has no stock to be asked, whatever it is
        self._nowhere = Direct(AnyNode(), (), self._journal)
        self.nowhere = Lane(self._nowhere)
        self._reach = Reach(self.stocks, self._journal)
        self._plan: Delta | None = None

    def add(self, stock: Stock) -> None:
        """Another bucket, last in declared order."""
        stock.journal = self._journal
        self.stocks.append(stock)
        self.forget_rankings()

    def forget_rankings(self) -> None:
        """Buckets have changed: rank them anew when next asked."""
        self._survey = None
        self._arrangement = None
        self._rankings.clear()
        self._outlooks.clear()
        self.forget_lanes()
        self._groups.clear()
        self._journal.clear()
        self._reach = Reach(self.stocks, self._journal)
        self._plan = None

    def forget_lanes(self) -> None:
        """What is known of callers' demands may be another now."""
        self.lanes.clear()
        self.refused.clear()

    def arranged(self, expr: Expr | None = None, want: Want | None = None) -> Sequence[Stock]:
        """All stocks, in the order in which they are asked before what a demand prefers; of a demand, where one is given."""
        stocks, by_need = self._arranged()
        if expr is None or want is None or by_need is None:
            return stocks
        outlook = Outlook(expr, stocks, Journal(), False, by_need)
        return [outlook.stocks[index] for index in outlook.openings(want.units, want.per_node)]

    def _arranged(self) -> Arrangement:
        if self._arrangement is None:
            self._arrangement = (
                self.arrange(self.stocks) if self.arrange else Arrangement(self.stocks)
            )
        return self._arrangement

    def ranking(self, expr: Expr) -> Ranking:
        """The order in which stocks are asked for an expression."""
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
        want: Want,
        stocks: Sequence[Stock] | None = None,
        probe: Probe | None = None,
        as_given: bool = True,
    ) -> Delta:
        """What placing `want` would change; nothing has changed yet. Only the newest answer can be committed. `as_given`: new
        nodes are opened in the order of `stocks`, where these are given."""
        if stocks is None:
            outlook: Outlook = self._outlook(expr)
        else:
            by_need = None if as_given else self._arranged().by_need
            outlook = Outlook(expr, stocks, Journal(), by_need=by_need)
        groups = self._groups_of(expr, outlook.stocks) if want.whole and stocks is None else None
        delta = plan(want, outlook, self.existing_first, probe, groups)
        self.adopt(delta)
        return delta

    def _groups_of(self, expr: Expr, stocks: tuple[Stock, ...]) -> Groups | None:
        """The placement groups among the stocks of an expression; None where it does not ask the same of nodes in each."""
        # most expressions have one tuple of stocks, which takes long to hash
        found = self._groups.get(id(stocks))
        if found is None:
            found = self._groups[id(stocks)] = Groups(stocks, self._journal)
        if not found.treats_alike(expr):
            return None
        found.catch_up()
        return found

    def _outlook(self, expr: Expr, meeting: int | None = None) -> Direct:
        found = self._outlooks.get(expr)
        if found is None:
            stocks = self._surveyed().serving(expr, meeting)
            found = self._nowhere
            if stocks:
                by_need = self._arranged().by_need
                found = Direct(expr, stocks, self._journal, self._reach.has(expr), by_need)
            self._outlooks[expr] = found
        else:
            found.catch_up()
        return found

    def who_serves(self, parts: Sequence[Expr]) -> int:
        """Which stocks are to be asked for parts that must all hold, as `Survey.who_serves` has it; 0: none."""
        return self._surveyed().who_serves(parts)

    def outlook(self, expr: Expr, meeting: int | None = None) -> Direct | None:
        """What places an expression at once; `meeting` is what `who_serves` said, where it was asked. None where only a plan
        will do."""
        return self._outlook(expr, meeting) if self.existing_first else None

    def open_whole(self, outlook: Direct, want: Want) -> list[Run]:
        """Place a gang at once, where that takes no plan; see `gang.open_whole`."""
        outlook.catch_up()
        groups = self._groups_of(outlook.expr, outlook.stocks)
        return open_whole(want, outlook, groups) if groups is not None else []

    def adopt(self, delta: Delta) -> None:
        """Take a plan that was made from the state as it is by other means than `ask`; it can be committed now."""
        self._plan = delta
        self._journal.is_planned = True

    def commit(self, delta: Delta) -> None:
        """Make a plan true: all of it, or StalePlan or Overdrawn and nothing of it. The delta's `effects` are the
        caller's to carry out, once it has made its own part true."""
        if delta is not self._plan or not self._journal.is_planned:
            raise StalePlan("the plan was made before something else changed; ask again")
        self._plan = None
        delta.tab.settle()
        for placed in delta.placed:
            stock, lo, hi, _, _, after, opened = placed
            if opened:
                stock.append(after, hi - lo)
            elif hi - lo == 1:
                stock.fill_one(lo, after)
            else:
                stock.fill(lo, hi, after)
