"""A short way from JSON to the engine for the constraints that most jobs have: amounts and values of resources.

What `{"ncpus": 4, "memgb": "memory::8g", "owner": "a"}` means to the engine is known without making a constraint of each
part first, and is remembered by part: jobs that differ have most of their parts in common. Whatever is not plainly of that
kind, mistakes included, is left to `parse`, which comes to the same. Called for each distinct job.
"""

from __future__ import annotations

from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.constraints.compiled import Compiled
from hpc.autoscale.node.constraints.parse import (
    _CUSTOM_PARSERS,
    KEYWORDS,
    Reading,
    read_resource,
)
from hpc.autoscale.packing.compound import all_of
from hpc.autoscale.packing.expr import Expr, MinResource

_MOST_KNOWN = 10_000
_PLAIN = (int, float, str, bool)
_known: dict[tuple[str, type, Any], Expr] = {}


def compile_resources(source: list[Any]) -> Compiled | None:
    """What a list of constraints comes to that are dicts of amounts and values; None for any other list. `source` must not
    be changed any more."""
    exprs = []
    for constraint in source:
        if constraint.__class__ is not dict or not constraint or "class" in constraint:
            return None
        for name, value in constraint.items():
            if name in _CUSTOM_PARSERS or value.__class__ not in _PLAIN:
                return None
            expr = _known.get((name, value.__class__, value)) or _learn(name, value)
            if expr is None:
                return None
            exprs.append(expr)
    if not exprs:
        return None
    return Compiled(all_of(exprs), (), (), source)


def _learn(name: Any, value: Any) -> Expr | None:
    """The expression of `{name: value}`, kept for the next that asks the same; None where it is not about a resource."""
    if not isinstance(name, str) or name in KEYWORDS or name.startswith("node."):
        return None
    expr: Expr | None
    if value.__class__ is int and 0 <= value < 2**53:
        expr = MinResource(name, value)
    else:
        try:
            expr = read_resource(name, value, Reading()).lower()
        except AutoscaleError:
            return None
    if expr is not None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[name, value.__class__, value] = expr
    return expr
