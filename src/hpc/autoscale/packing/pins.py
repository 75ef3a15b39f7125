"""What an expression says that few nodes meet: a resource or a property must be one of some texts, which are spelt out.

A job that is meant for one host, or for a rack, need not be held against all nodes. Asked by `Cursor` for what is in
the shapes, and by the node manager for what is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Expr, PropertyIs, ResourceIs

_WILDCARDS = frozenset("*?[")


def conditions(expr: Expr) -> Iterator[Expr]:
    """What must all hold."""
    if not isinstance(expr, AllOf):
        yield expr
        return
    for child in expr.children:
        yield from conditions(child)


def spelt_out(expr: Expr) -> tuple[str, ...]:
    """The texts one of which something must be, as it is written; none where that is not all that an expression allows."""
    if not isinstance(expr, (PropertyIs, ResourceIs)) or getattr(expr, "fold_case", False):
        return ()
    values = tuple(value for value in expr.values if isinstance(value, str))
    if len(values) < len(expr.values) or any(_WILDCARDS.intersection(v) for v in values):
        return ()
    return values


def pinned_resource(expr: Expr) -> tuple[str, tuple[str, ...]] | None:
    """The first resource that must be one of some texts, and those; None where there is none."""
    for each in conditions(expr):
        if isinstance(each, ResourceIs) and (values := spelt_out(each)):
            return each.name, values
    return None
