"""Constraints as integrations write them, and nodes and buckets with the resources that a test
names."""

from collections.abc import Callable, Iterable
from typing import Any

from builders.nodes import a_bucket
from hpc.autoscale.hpctypes import NodeName
from hpc.autoscale.node.bucket import NodeBucket, node_from_bucket
from hpc.autoscale.node.constraints import BaseNodeConstraint
from hpc.autoscale.node.limits import null_bucket_limits
from hpc.autoscale.node.node import Node
from hpc.autoscale.results import SatisfiedResult


def a_bucket_with(
    last_capacity_failure: float | None = None,
    placement_group: str | None = None,
    vm_size: str = "Standard_F4",
    **resources: Any,
) -> NodeBucket:
    """A bucket whose new nodes have these resources and no others; it has no room for any."""
    return a_bucket(
        limits=null_bucket_limits(0, 4),
        last_capacity_failure=last_capacity_failure,
        placement_group=placement_group,
        vm_size=vm_size,
        resources=resources,
    )


def a_node_with(
    name: str = "htc-1",
    assignments: Iterable[str] = (),
    closed: bool = False,
    bucket: NodeBucket | None = None,
    **resources: Any,
) -> Node:
    """A planned node of a bucket, by default of one with these resources and no others."""
    node = node_from_bucket(bucket or a_bucket_with(**resources), NodeName(name), exists=False)
    node.assignments.update(assignments)
    if closed:
        node.closed = True
    return node


class Owned(BaseNodeConstraint):
    """A constraint as an integration writes it: the node must belong to `owner`, and gives it one
    token each time."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        fine = node.available.get("owner") == self.owner
        return SatisfiedResult("success" if fine else "NotOwned", self, node, ["somebody else's"])

    def minimum_space(self, node: Node) -> int:
        return int(node.available.get("tokens", 0))

    def do_decrement(self, node: Node) -> bool:
        if node.available.get("tokens", 0) < 1:
            return False
        node.available["tokens"] -= 1
        return True

    def to_dict(self) -> dict[str, Any]:
        return {"owned-by": self.owner}

    def __str__(self) -> str:
        return f"Owned({self.owner})"


class Tokens(BaseNodeConstraint):
    """Takes one token for each iteration; writes what it was asked to into the node as it does."""

    def __init__(self, write: Callable[[Node], object] | None = None) -> None:
        self.write = write

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        enough = node.available.get("tokens", 0) > 0
        return SatisfiedResult("success" if enough else "NoTokens", self, node, ["no tokens"])

    def minimum_space(self, node: Node) -> int:
        return int(node.available.get("tokens", 0))

    def do_decrement(self, node: Node) -> bool:
        if node.available.get("tokens", 0) < 1:
            return False
        node.available["tokens"] -= 1
        if self.write is not None:
            self.write(node)
        return True

    def to_dict(self) -> dict[str, Any]:
        return {"tokens": 1}

    def __str__(self) -> str:
        return "Tokens()"


class Seats(BaseNodeConstraint):
    """Takes seats. `calls` counts how often it was asked to take."""

    reads = frozenset({"resources.seats"})
    calls = 0

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        enough = node.available.get("seats", 0) >= self.count
        return SatisfiedResult("success" if enough else "NoSeats", self, node, [f"{node} is full"])

    def minimum_space(self, node: Node) -> int:
        return int(node.available.get("seats", 0)) // self.count

    def do_decrement(self, node: Node) -> bool:
        type(self).calls += 1
        if node.available["seats"] < self.count:
            return False
        node.available["seats"] -= self.count
        return True

    def to_dict(self) -> dict[str, Any]:
        return {"seats-of-ours": self.count}

    def __str__(self) -> str:
        return f"{self.count} seats"


def of_class(base: type[BaseNodeConstraint] = Seats, **changes: object) -> type[Any]:
    """A class of its own, so that what becomes of it concerns no other test."""
    return type(f"Some{base.__name__}", (base,), changes)


def saying(look: Callable[[Any, Node], object]) -> Callable[[Any, Node], SatisfiedResult]:
    """A `satisfied_by_node` that looks at something, and holds its tongue when that is not
    there."""

    def satisfied_by_node(self: Any, node: Node) -> SatisfiedResult:
        try:
            look(self, node)
        except Exception:
            return SatisfiedResult("no", self, node)
        return SatisfiedResult("success", self, node)

    return satisfied_by_node
