"""In which order buckets are asked, and which are not asked at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape
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
    """Of stocks in order, those whose bucket meets every condition of the expression, artificial ones first.

    An artificial bucket stands for machines that differ, and gets no new ones: whether one of them fits is asked of each.
    """
    artificial: list[Stock] = []
    real: list[Stock] = []
    rejects: list[tuple[Stock, Reject]] = []
    for stock in stocks:
        if stock.artificial:
            artificial.append(stock)
            continue
        refusal = stock.bucket_shape.unfit()  # a Reject is false
        if refusal is None:
            refusal = _refusal(expr, stock.bucket_shape)
        if refusal is None:
            real.append(stock)
        else:
            rejects.append((stock, refusal))
    return Ranking(tuple(artificial + real), tuple(rejects))


def _refusal(expr: Expr, bucket: NodeShape) -> Reject | None:
    """Why a bucket may not serve. Conditions are asked one by one: a node that is there may meet another alternative
    than a new one would, and so have room for all of them together where a new one has not."""
    if isinstance(expr, AllOf):
        refusals = (_refusal(child, bucket) for child in expr.children)
        return next((refusal for refusal in refusals if refusal is not None), None)
    fit = bucket.fit(expr)
    return fit if isinstance(fit, Reject) else None
