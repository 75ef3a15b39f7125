"""What is known in advance about the stocks that one expression is to be placed on.

Thousands of demands with the same expression ask the same stocks. An outlook remembers which of them have refused it on
every node they have, and how it fits a new node of each, so that neither is asked again before something changes. Kept
by `Packer` for each expression, used by `strategy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpc.autoscale.packing.expr import Expr, Fit
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.stock import Journal, Stock


class Outlook:
    """Stocks in the order in which they are asked for an expression, and which of them are worth asking.

    `journal`: the stocks that got nodes, or nodes with more room, one after another; read by `catch_up`. Cost of a
    demand: the stocks in the journal since the last one, and those that may still take it.
    """

    __slots__ = ("_alive", "_expr", "_journal", "_new", "_read", "_where", "stocks")

    def __init__(self, expr: Expr, stocks: Sequence[Stock], journal: Journal) -> None:
        self.stocks = tuple(stocks)
        self._expr = expr
        self._journal = journal
        self._read = len(journal)
        self._alive = bytearray([stock.runs.size > 0 for stock in stocks])
        self._new: list[Fit | Reject | None] = [None] * len(self.stocks)
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

    def spent(self, index: int) -> None:
        """Every node of a stock refuses; if the expression is monotone, until the stock gets others."""
        if self._expr.monotone:
            self._alive[index] = 0

    def opening(self, index: int) -> Fit | Reject | None:
        """How the expression fits a new node of a stock; None where none can be made."""
        stock = self.stocks[index]
        if stock.artificial:
            return None
        found = self._new[index]
        if found is None:
            found = self._new[index] = stock.new_shape.fit(self._expr)
        return found
