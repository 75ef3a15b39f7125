"""In which order buckets are asked, and which are not asked at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.stock import Stock


class Ranking(NamedTuple):
    """Buckets that may serve a demand, best first, and those that cannot with the reason of each."""

    stocks: tuple[Stock, ...]
    rejects: tuple[tuple[Stock, Reject], ...]


def rank(expr: Expr, stocks: Sequence[Stock]) -> Ranking:
    """Order by the expression's preferences, declared order among equals; artificial buckets first.

    The weight of the i-th of N buckets starts as N - i, and every constraint may raise it or set it to 0. Whether a
    bucket may serve at all is a question of fit, not of weight.
    """
    count = len(stocks)
    weights = [expr.weigh(stock.bucket_shape, float(count - i)) for i, stock in enumerate(stocks)]
    order = sorted(range(count), key=weights.__getitem__, reverse=True)
    return admitted(expr, [stocks[i] for i in order])


def admitted(expr: Expr, stocks: Sequence[Stock]) -> Ranking:
    """Of stocks in order, those whose bucket fits the expression, artificial ones first."""
    artificial: list[Stock] = []
    real: list[Stock] = []
    rejects: list[tuple[Stock, Reject]] = []
    for stock in stocks:
        fit = stock.bucket_shape.fit(expr)
        if isinstance(fit, Reject):
            rejects.append((stock, fit))
        else:
            (artificial if stock.artificial else real).append(stock)
    return Ranking(tuple(artificial + real), tuple(rejects))
