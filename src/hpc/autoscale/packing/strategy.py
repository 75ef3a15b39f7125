"""Where the slots of one demand go: on nodes with room first, then on new nodes; or, for a gang, all in one bucket.

`plan` answers without changing anything. Its `Delta` holds every change, so that committing it cannot fail half-way.
Each turn of every loop here either places at least one unit or is done with a run or a bucket, so all of them end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit
from hpc.autoscale.packing.ledger import Tab
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.packing.stock import Stock


class Want(NamedTuple):
    """`units` to place, at most `per_node` of them on one node, and (`whole`) all in one bucket or not at all.

    A unit is a slot, or (per_node 1) a node.
    """

    units: int
    per_node: int = UNBOUNDED
    whole: bool = False


class Placed(NamedTuple):
    """Positions lo … hi-1 of `stock` take `times` units each and then look like `after`; `opened`: they are new."""

    stock: Stock
    lo: int
    hi: int
    times: int
    after: NodeShape
    opened: bool

    @property
    def units(self) -> int:
        """Units placed here."""
        return (self.hi - self.lo) * self.times


class Delta(NamedTuple):
    """Everything that placing a demand changes. `units` were placed; `rejects` say what kept the rest out.

    `effects` are for the caller to carry out after the commit: what custom constraints and shared pools need.
    """

    placed: tuple[Placed, ...]
    units: int
    tab: Tab
    rejects: tuple[tuple[Stock, Reject], ...]
    effects: tuple[Callable[[], None], ...] = ()

    def __bool__(self) -> bool:
        return self.units > 0


class Trial(NamedTuple):
    """What custom constraints made of one node: `units` fit, and it would then look like `after`."""

    units: int
    after: NodeShape


class Probe(Protocol):
    """Asks constraints that the engine does not understand, about one node at a time, in order."""

    def __call__(self, stock: Stock, position: int, units: int) -> Trial | Reject:
        """Try up to `units` on the node at a position; beyond the last node: on a new one."""

    def settle(self, keep: bool) -> tuple[Callable[[], None], ...]:
        """End of a bucket's or a demand's questions: undo what the trials touched, and (`keep`) return what a commit
        must do to bring it about."""


def plan(
    expr: Expr,
    want: Want,
    stocks: Sequence[Stock],
    existing_first: bool = True,
    probe: Probe | None = None,
) -> Delta:
    """Place what is wanted on `stocks`, in their order. Changes nothing but the memory of refusals.

    existing_first: nodes with room in any of the stocks come before new nodes in the first. A delta of no units, with
    its rejects, is the answer when nothing fits.
    """
    if want.whole:
        return _whole(expr, want, stocks, existing_first, probe)
    draft = _Draft(expr, want, probe)
    if existing_first:
        for stock in stocks:
            draft.use(stock)
        for stock in stocks:
            draft.open(stock)
    else:
        for stock in stocks:
            draft.use(stock)
            draft.open(stock)
    return draft.delta()


def _whole(
    expr: Expr, want: Want, stocks: Sequence[Stock], existing_first: bool, probe: Probe | None
) -> Delta:
    rejects: list[tuple[Stock, Reject]] = []
    rounds = (False, True) if existing_first and any(s.runs.size for s in stocks) else (True,)
    for may_open in rounds:
        for stock in stocks:
            draft = _Draft(expr, want, probe)
            draft.use(stock)
            if may_open:
                draft.open(stock)
            if not draft.left:
                return draft.delta()
            draft.abandon()
            if may_open:
                why = draft.rejects[-1][1].explain() if draft.rejects else ""
                reject = Reject("GangTooLarge", want.units, draft.units, why and f": {why}")
                rejects.append((stock, reject))
    return Delta((), 0, Tab(), tuple(rejects))


class _Draft:
    """A plan in the making."""

    def __init__(self, expr: Expr, want: Want, probe: Probe | None) -> None:
        self.expr = expr
        self.want = want
        self.probe = probe
        self.left = want.units
        self.tab = Tab()
        self.placed: list[Placed] = []
        self.rejects: list[tuple[Stock, Reject]] = []

    @property
    def units(self) -> int:
        """Units placed so far."""
        return self.want.units - self.left

    def delta(self) -> Delta:
        """The finished plan."""
        effects = self.probe.settle(keep=self.units > 0) if self.probe else ()
        return Delta(tuple(self.placed), self.units, self.tab, tuple(self.rejects), effects)

    def abandon(self) -> None:
        """Give the plan up."""
        if self.probe:
            self.probe.settle(keep=False)

    def use(self, stock: Stock) -> None:
        """Fill nodes that are there, in order."""
        if not self.left or not stock.runs.size:
            return
        expr = self.expr
        asked = position = stock.first_to_ask(expr) if expr.monotone else 0
        found = -1
        why: Reject | None = None
        while self.left and (position := stock.next_with_room(expr, position)) >= 0:
            end, shape = stock.runs.run_from(position)
            if shape is not None:
                fit = shape.fit(expr)
                if isinstance(fit, Fit):
                    found = position if found < 0 else found
                    each = min(fit.count, self.want.per_node)
                    self._fill(stock, position, end, shape, each, False)
                else:
                    why = why or fit
            position = end
        refused = stock.runs.size if found < 0 else found
        if expr.monotone and refused > asked:
            stock.refused_below(expr, refused)
        if self.left:
            self.rejects.append((stock, why or Reject("NodesFull", stock.runs.size)))

    def open(self, stock: Stock) -> None:
        """Add new nodes, as many as are needed and the limits allow."""
        if not self.left or stock.artificial:
            return
        shape = stock.new_shape
        fit = shape.fit(self.expr)
        if isinstance(fit, Reject):
            self.rejects.append((stock, fit))
            return
        room = self.tab.room(stock.accounts, stock.cores) - stock.reserved
        opened = sum(p.hi - p.lo for p in self.placed if p.opened and p.stock is stock)
        each = min(fit.count, self.want.per_node)
        start = stock.runs.size + opened
        # where custom constraints have a say, a node may take as little as one unit
        needed = self.left if self.probe is not None else -(-self.left // each)
        if room > 0:
            self._fill(stock, start, start + min(room, needed), shape, each, True)
        if self.left and room < needed:
            said = self.tab.tightest(stock.accounts, stock.cores)
            self.rejects.append((stock, Reject("NoCapacity", said)))

    def _fill(
        self, stock: Stock, lo: int, hi: int, shape: NodeShape, each: int, opened: bool
    ) -> None:
        """Place up to `each` units on every node of a run of equal nodes, until nothing is left to place."""
        if self.probe is not None:
            self._try(stock, lo, hi, shape, each, opened)
            return
        hi = min(hi, lo + self._chargeable(stock, shape, opened, hi - lo))
        full = min(hi - lo, self.left // each)
        rest = min(each, self.left - full * each) if lo + full < hi else 0
        fit = shape.fit(self.expr)
        if isinstance(fit, Reject):
            return
        if full:
            self._place(stock, lo, lo + full, each, shape, shape.after(fit, each), opened)
        if rest:
            at = lo + full
            self._place(stock, at, at + 1, rest, shape, shape.after(fit, rest), opened)

    def _try(
        self, stock: Stock, lo: int, hi: int, shape: NodeShape, each: int, opened: bool
    ) -> None:
        """The same with custom constraints: one node at a time."""
        probe = self.probe
        why: Reject | None = None
        position = lo
        for _ in range(lo, hi):
            if not self.left or probe is None:
                break
            if not self._chargeable(stock, shape, opened, 1):
                break
            trial = probe(stock, position, min(each, self.left))
            if isinstance(trial, Reject):
                why = why or trial
                if opened:
                    break  # another new node would be refused the same
                position += 1
                continue
            self._place(stock, position, position + 1, trial.units, shape, trial.after, opened)
            position += 1
        if why is not None and self.left:
            self.rejects.append((stock, why))

    def _chargeable(self, stock: Stock, shape: NodeShape, opened: bool, count: int) -> int:
        """Of `count` nodes, how many the limits allow: all that run already, and new or dormant ones within them."""
        if not opened and not shape.dormant:
            return count
        return min(count, self.tab.room(stock.accounts, stock.cores) - stock.reserved)

    def _place(
        self,
        stock: Stock,
        lo: int,
        hi: int,
        times: int,
        before: NodeShape,
        after: NodeShape,
        opened: bool,
    ) -> None:
        if opened or before.dormant:
            self.tab.add(stock.accounts, hi - lo, stock.cores)
        self.placed.append(Placed(stock, lo, hi, times, after, opened))
        self.left -= (hi - lo) * times
