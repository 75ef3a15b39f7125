"""Two site rules, each written in the four ways in which one can be written, so that the ways can
be compared.

Some VM families are kept for others, and a node has so many seats of which each task takes one.
What the rules ask for is the same in all four ways, and so must be the plan. Used by `measure`.
"""

from collections.abc import Callable
from typing import Any

from hpc.autoscale.node.constraints import BaseNodeConstraint, register_parser
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.compound import Negation
from hpc.autoscale.packing.expr import Expr, MinResource, PropertyIs
from hpc.autoscale.results import SatisfiedResult

KEPT_FAMILIES = ["standardFSv2Family"]
RESOURCES = {"seats": 24}
WAYS = ("builtin", "lowered", "declared", "opaque")


class OpaqueKept(BaseNodeConstraint):
    """Not one of some VM families."""

    def __init__(self, families: list[str]) -> None:
        self.families = families

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether the node is of another family."""
        if node.vm_family in self.families:
            return SatisfiedResult("KeptFamily", self, node, ["kept for others"])
        return SatisfiedResult("success", self, node)

    def to_dict(self) -> dict[str, Any]:
        """Its JSON."""
        return {"kept-families": self.families}

    def __str__(self) -> str:
        return f"not of {self.families}"


class DeclaredKept(OpaqueKept):
    """The same, saying what it looks at."""

    reads = frozenset({"node.vm_family"})


class LoweredKept(OpaqueKept):
    """The same as an expression."""

    def lower(self) -> Expr | None:
        """Not one of the families."""
        return Negation(PropertyIs("vm_family", self.families))


class OpaqueSeats(BaseNodeConstraint):
    """Takes seats."""

    def __init__(self, count: int) -> None:
        self.count = count

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether enough seats are left."""
        if self.minimum_space(node) < 1:
            return SatisfiedResult("NoSeats", self, node, ["no seats left"])
        return SatisfiedResult("success", self, node)

    def minimum_space(self, node: Node) -> int:
        """How often the seats that are left will do."""
        return int(node.available.get("seats", 0)) // self.count

    def do_decrement(self, node: Node) -> bool:
        """Take the seats of one iteration."""
        if self.minimum_space(node) < 1:
            return False
        node.available["seats"] -= self.count
        return True

    def to_dict(self) -> dict[str, Any]:
        """Its JSON."""
        return {"site-seats": self.count}

    def __str__(self) -> str:
        return f"{self.count} seats"


class DeclaredSeats(OpaqueSeats):
    """The same, saying what it looks at."""

    reads = frozenset({"resources.seats"})
    monotone = True


class LoweredSeats(OpaqueSeats):
    """The same as an expression."""

    def lower(self) -> Expr | None:
        """That many seats, used up."""
        return MinResource("seats", self.count)


_CLASSES: dict[str, tuple[Callable[[Any], BaseNodeConstraint], Callable[[Any], BaseNodeConstraint]]]
_CLASSES = {
    "lowered": (LoweredKept, LoweredSeats),
    "declared": (DeclaredKept, DeclaredSeats),
    "opaque": (OpaqueKept, OpaqueSeats),
}


def rules(way: str) -> list[dict[str, Any]]:
    """Both rules as JSON, understood in the given way from now on in this process. One seat for
    each task."""
    if way == "builtin":
        return [{"not": {"node.vm_family": KEPT_FAMILIES}}, {"seats": 1}]
    kept, seats = _CLASSES[way]
    register_parser("kept-families", lambda d: kept(d["kept-families"]))
    register_parser("site-seats", lambda d: seats(d["site-seats"]))
    return [{"kept-families": KEPT_FAMILIES}, {"site-seats": 1}]
