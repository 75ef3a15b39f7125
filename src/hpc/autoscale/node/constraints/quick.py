"""A short way from JSON to the engine for the constraints that most jobs have: amounts and values of resources.

What `{"ncpus": 4, "memgb": "memory::8g", "owner": "a"}` means to the engine is known without making a constraint of each
part first, and is remembered by part: jobs that differ have most of their parts in common. Whatever is not plainly of that
kind, mistakes included, is left to `parse`, which comes to the same. Called for each distinct job.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node.constraints.compiled import Compiled, Source
from hpc.autoscale.node.constraints.parse import (
    CUSTOM_PARSERS,
    KEYWORDS,
    Reading,
    read_resource,
)
from hpc.autoscale.node.constraints.resources import SIZE_TEXT
from hpc.autoscale.packing import layers
from hpc.autoscale.packing.expr import Expr, MinResource, ResourceIs

_MOST_PLAIN = 2**53
_PLAIN = (int, float, str, bool)


def compile_resources(constraints: list[Any], source: Source) -> Compiled | None:
    """What a list of constraints comes to that are dicts of amounts and values; None for any other list. `source` is the
    same to keep."""
    exprs = []
    if not layers.is_on("quick"):
        return None
    for constraint in constraints:
        if constraint.__class__ is not dict:
            return None
        for name, value in constraint.items():
            if name in CUSTOM_PARSERS or value.__class__ not in _PLAIN:
                return None
            expr = _part(name, value)
            if expr is None:
                return None
            exprs.append(expr)
    if not exprs:
        return None
    return Compiled(exprs, (), (), None, source)


@lru_cache(maxsize=10_000, typed=True)
def _part(name: Any, value: Any) -> Expr | None:
    """The expression of `{name: value}`; None where it is not about a resource, or is wrong."""
    if not isinstance(name, str) or name in KEYWORDS or name == "class" or name[:5] == "node.":
        return None
    try:
        return _expression(name, value)
    except AutoscaleError:
        return None


def _expression(name: str, value: Any) -> Expr | None:
    """What `read_resource` makes of it, with the short way for what is written most."""
    kind = value.__class__
    if kind is int:
        if 0 <= value < _MOST_PLAIN:
            return MinResource(name, value)
    elif kind is str:
        if not SIZE_TEXT.match(value):
            return ResourceIs(name, (value,))
        amount = Size.value_of(value).bytes
        if amount.__class__ is int and 0 <= amount < _MOST_PLAIN:
            return MinResource(name, amount, sized=True)
    return read_resource(name, value, Reading()).lower()
