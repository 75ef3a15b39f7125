"""What an expression may take from a node, as plain amounts, whatever was placed there before.

The engine answers for a node as it is now. To look ahead over all that may come to lie on a node,
an expression is read here as a few `Mode`s: the amounts that it takes in each of its alternatives.
Whatever the engine may ever say of nodes that share the same facts is among them, so a bound that
is worked out from modes holds; a plan that is made from them is still asked of the engine, node by
node, before it is carried out."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hpc.autoscale.packing.amounts import Unit, is_amount
from hpc.autoscale.packing.expr import Expr, Mode
from hpc.autoscale.packing.shape import NodeShape

MOST_MODES = 16
"""More alternatives than this are not looked at; such an expression is left to first fit."""


class Roomy:
    """A node like another that has without end of everything that is an amount: a `View` for
    expressions."""

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


def is_plain(expr: Expr) -> bool:
    """Whether the expression can be read as modes: it can tell them, and they are not too many."""
    return 0 < expr.most_modes() <= MOST_MODES


def may_close(expr: Expr) -> bool:
    """Whether it may have a node to itself."""
    return "node.assignments" in expr.reads


def modes(expr: Expr, view: Roomy) -> tuple[Mode, ...]:
    """All modes of a plain expression on nodes like the one that is seen, in the order of its
    alternatives."""
    return tuple(dict.fromkeys(expr.modes(view)))
