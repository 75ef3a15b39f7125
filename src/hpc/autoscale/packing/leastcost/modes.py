"""What an expression may take from a node, as plain amounts, whatever was placed there before.

The engine answers for a node as it is now. To look ahead over all that may come to lie on a node, an expression is read
here as a few `Mode`s: the amounts that it takes in each of its alternatives. Whatever the engine may ever say of nodes
that share the same facts is among them, so a bound that is worked out from modes holds; a plan that is made from them is
still asked of the engine, node by node, before it is carried out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.expr import (
    Exclusive,
    Expr,
    Fit,
    InPlacementGroup,
    MinResource,
    Never,
    PropertyIs,
    ResourceIs,
    Rested,
)
from hpc.autoscale.packing.shape import NodeShape, Quantity, Unit

MOST_MODES = 16
"""More alternatives than this are not looked at; such an expression is left to first fit."""


class Mode(NamedTuple):
    """Amounts by resource, in base units, sorted by name; `closes`: the node then takes nothing else."""

    take: tuple[tuple[str, Quantity], ...] = ()
    closes: bool = False


class Roomy:
    """A node like another that has without end of everything that is an amount: a `View` for expressions."""

    def __init__(self, shape: NodeShape) -> None:
        self._shape = shape
        self.free: Mapping[str, object] = {
            name: math.inf if is_amount(value) else value for name, value in shape.free.items()
        }

    @property
    def units(self) -> Mapping[str, Unit]:
        """Those of the node."""
        return self._shape.units

    @property
    def vacant(self) -> bool:
        """As the node."""
        return self._shape.vacant

    @property
    def closed(self) -> bool:
        """As the node."""
        return self._shape.closed

    @property
    def last_capacity_failure(self) -> float | None:
        """As the node."""
        return self._shape.last_capacity_failure

    def prop(self, name: str) -> object:
        """As the node."""
        return self._shape.prop(name)


def is_amount(value: object) -> bool:
    """Whether a resource's value is a number that can be used up."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_plain(expr: Expr) -> bool:
    """Whether the expression can be read as modes at all: built-in kinds, no amounts below 0, no endless alternatives,
    and something that it takes or closes, or else a fit as often as one likes."""
    return _is_known(expr) and _width(expr) <= MOST_MODES


def _is_known(expr: Expr) -> bool:
    kind = type(expr)
    if kind in (AllOf, AnyOf, ExactlyOne, Negation):
        children: Iterable[Expr] = getattr(expr, "children", ())
        return all(_is_known(child) for child in children)
    if isinstance(expr, MinResource):
        return kind is MinResource and is_amount(expr.amount) and 0 <= expr.amount < math.inf
    return kind in (ResourceIs, PropertyIs, InPlacementGroup, Exclusive, Never, Rested)


def _width(expr: Expr) -> int:
    """At most how many modes it has."""
    if isinstance(expr, AllOf):
        return math.prod(_width(child) for child in expr.children)
    if isinstance(expr, (AnyOf, ExactlyOne)):
        return sum(_width(child) for child in expr.children)
    return 1


def may_close(expr: Expr) -> bool:
    """Whether it may have a node to itself."""
    return "node.assignments" in expr.reads


def modes(expr: Expr, view: Roomy) -> tuple[Mode, ...]:
    """All modes of a plain expression on nodes like the one that is seen, in the order of its alternatives."""
    return tuple(dict.fromkeys(_modes(expr, view)))


def _modes(expr: Expr, view: Roomy) -> list[Mode]:
    if isinstance(expr, AllOf):
        found = [Mode()]
        for child in expr.children:
            found = [_both(one, other) for one in found for other in _modes(child, view)]
        return found
    if isinstance(expr, (AnyOf, ExactlyOne)):
        return [mode for child in expr.children for mode in _modes(child, view)]
    if isinstance(expr, Negation):
        # what is refused now may be let through later, unless the child's answer never changes
        settled = expr.monotone and not isinstance(expr.fit(view), Fit)
        return [] if settled else [Mode()]
    fit = expr.fit(view)
    if isinstance(fit, Fit):
        return [Mode(tuple(sorted(fit.take)), fit.closes)]
    return [] if expr.monotone or _is_settled(expr, view) else [Mode()]


def _is_settled(expr: Expr, view: Roomy) -> bool:
    """Whether a wish for a value is refused for good, because the value is no amount that work uses up."""
    return isinstance(expr, ResourceIs) and not is_amount(view.free.get(expr.name))


def _both(one: Mode, other: Mode) -> Mode:
    if not one.take or not other.take:
        return Mode(one.take or other.take, one.closes or other.closes)
    takes = dict(one.take)
    for name, amount in other.take:
        takes[name] = takes.get(name, 0) + amount
    return Mode(tuple(sorted(takes.items())), one.closes or other.closes)
