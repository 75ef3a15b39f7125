"""A short way from JSON to the engine for the constraints that most jobs have: amounts, and nothing else.

What `{"ncpus": 4, "memgb": "memory::8g"}` means to the engine is known without making a constraint of each amount first.
Whatever is not plainly of that kind, mistakes included, is left to `parse`, which comes to the same. Called for each
distinct job.
"""

from __future__ import annotations

from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.constraints.compiled import Compiled
from hpc.autoscale.node.constraints.parse import _CUSTOM_PARSERS, KEYWORDS, get_constraints
from hpc.autoscale.node.constraints.resources import SIZE_TEXT, MinResourcePerNode
from hpc.autoscale.packing.compound import all_of
from hpc.autoscale.packing.expr import MinResource

_MOST_KNOWN = 10_000
_known: dict[tuple[str, type, Any], MinResource] = {}


def compile_amounts(source: list[Any]) -> Compiled | None:
    """What a list of constraints comes to that are dicts of amounts; None for any other list."""
    exprs = []
    for constraint in source:
        if constraint.__class__ is not dict or not constraint:
            return None
        for name, amount in constraint.items():
            if name in _CUSTOM_PARSERS:
                return None
            try:
                expr = _known.get((name, amount.__class__, amount))
            except TypeError:  # a list
                return None
            if expr is None:
                expr = _amount(name, amount)
                if expr is None:
                    return None
            exprs.append(expr)
    if not exprs:
        return None
    given = [dict(constraint) for constraint in source]
    return Compiled(all_of(exprs), (), (), lambda: tuple(get_constraints(given)))


def _amount(name: object, amount: object) -> MinResource | None:
    """The expression of `{name: amount}`, kept for the next that asks the same; None where it is not a plain amount."""
    if not isinstance(name, str) or name in KEYWORDS or name.startswith("node."):
        return None
    is_size = isinstance(amount, str) and SIZE_TEXT.match(amount) is not None
    if not is_size and amount.__class__ not in (int, float):
        return None
    try:
        (constraint,) = get_constraints([{name: amount}])
    except AutoscaleError:
        return None
    expr = constraint.lower() if isinstance(constraint, MinResourcePerNode) else None
    if not isinstance(expr, MinResource):
        return None
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[name, amount.__class__, amount] = expr
    return expr
