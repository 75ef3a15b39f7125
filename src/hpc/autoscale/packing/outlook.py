"""What is known in advance about the stocks that one expression is to be placed on.

Thousands of demands with the same expression ask the same stocks. An outlook remembers which of them have refused it on
every node they have, and how it fits a new node of each, so that neither is asked again before something changes. Kept
by `Packer` for each expression, used by `strategy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpc.autoscale.packing.expr import Expr, Fit
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.room import Need
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.packing.stock import Journal, Stock


class Outlook:
    """Stocks in the order in which they are asked for an expression, and which of them are worth asking.

    `journal`: the stocks that got nodes, or nodes with more room, one after another; read by `catch_up`. Cost of a
    demand: the stocks in the journal since the last one, and those that may still take it.
    """

    __slots__ = (
        "_alive",
        "_expr",
        "_fits",
        "_journal",
        "_needs",
        "_new",
        "_read",
        "_where",
        "stocks",
    )

    def __init__(self, expr: Expr, stocks: Sequence[Stock], journal: Journal) -> None:
        self.stocks = tuple(stocks)
        self._expr = expr
        self._fits: dict[NodeShape, Fit | Reject] = {}
        self._journal = journal
        self._read = len(journal)
        self._alive = bytearray([stock.runs.size > 0 for stock in stocks])
        self._new: list[Fit | Reject | None] = [None] * len(self.stocks)
        self._needs: list[list[Need] | None] = [None] * len(self.stocks)
        self._where: dict[Stock, int] | None = None

    def catch_up(self) -> None:
        """Take into account what has happened to the stocks since the last time."""
        journal, start = self._journal, self._read
        if start == len(journal):
            return
        self._read = len(journal)
        if self._read - start > len(self.stocks):
            self._alive = bytearray([stock.runs.size > 0 for stock in self.stocks])
            return
        if self._where is None:
            self._where = {stock: index for index, stock in enumerate(self.stocks)}
        for stock in journal[start:]:
            index = self._where.get(stock)
            if index is not None:
                self._alive[index] = 1

    def in_use(self) -> Iterator[tuple[int, Stock]]:
        """The stocks that may have a node with room, each with its number here."""
        index = self._alive.find(1)
        while index >= 0:
            yield index, self.stocks[index]
            index = self._alive.find(1, index + 1)

    def may_use(self, index: int) -> bool:
        """Whether a stock may have a node with room."""
        return bool(self._alive[index])

    def fit(self, shape: NodeShape) -> Fit | Reject:
        """How the expression fits a shape."""
        found = self._fits.get(shape)
        if found is None:
            found = self._fits[shape] = shape.fit(self._expr)
        return found

    def next_with_room(self, index: int, start: int) -> int:
        """The first position of a stock from `start` on that may have room; -1 when none has."""
        needs = self._needs[index]
        if needs is None:
            needs = self._needs[index] = self.stocks[index].needs(self._expr)
        return self.stocks[index].next_meeting(needs, start)

    def find(self, index: int) -> tuple[int, Reject | None]:
        """The position of the first node of a stock that fits, -1 when there is none; and why the first of those that
        had room before it did not. Nodes before it need not be asked again, if the expression is monotone.
        """
        stock, expr = self.stocks[index], self._expr
        runs, size = stock.runs, stock.runs.size
        asked = position = stock.first_to_ask(expr) if expr.monotone else 0
        if not asked:  # otherwise the first that was not refused before most likely still fits
            position = self.next_with_room(index, 0)
        why: Reject | None = None
        while 0 <= position < size:
            end, shape = runs.run_from(position)
            if shape is not None:
                fit = self.fit(shape)
                if isinstance(fit, Fit):
                    break
                why = why or fit
            position = self.next_with_room(index, end)
        else:
            position = -1
        if expr.monotone:
            if position < 0:
                self._alive[index] = 0
            refused = size if position < 0 else position
            if refused > asked:
                stock.refused_below(expr, refused)
        return position, why

    def opening(self, index: int) -> Fit | Reject | None:
        """How the expression fits a new node of a stock; None where none can be made."""
        stock = self.stocks[index]
        if stock.artificial:
            return None
        found = self._new[index]
        if found is None:
            found = self._new[index] = stock.new_shape.fit(self._expr)
        return found
