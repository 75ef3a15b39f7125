"""Constraints on a node's resources: an amount that is used up, a value that must be there, a resource by another name.

They look at `node.available`. Made by the parser from `{"ncpus": 2}` and `{"owner": ["a", "b"]}`, or by integrations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import ConstraintError, did_you_mean
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node.constraints.base import BaseNodeConstraint
from hpc.autoscale.node.constraints.errors import InvalidAmount, NothingLeft
from hpc.autoscale.node.constraints.lowered import LoweredConstraint
from hpc.autoscale.node.constraints.views import sentence, subject, take, view_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.expr import Expr, Fit, MinResource, ResourceIs
from hpc.autoscale.results import SatisfiedResult


def size_class(text: str) -> type[Size] | None:
    """What a text in a constraint is a size of; None for one that is to be equal to something, as `memory::*` is."""
    first = text.partition("::")[2][:1]
    return ht.size_class(text) if first.isalnum() and first.isascii() else None


# leaves room within a float for units, and for adding amounts up
_MOST = 1e250


def checked_amount(amount: Any) -> int | float | Size:
    """The amount; InvalidAmount unless it is a size or a number that can be taken from something."""
    if not isinstance(amount, (int, float, Size)):
        raise InvalidAmount("a number or a size", amount)
    try:
        number = float(amount)
    except OverflowError:
        number = math.inf
    if not 0 <= number <= _MOST:
        raise InvalidAmount(f"an amount from 0 to {_MOST:g}", amount)
    return amount


class MinResourcePerNode(LoweredConstraint):
    """At least `value` of a resource, which is used up: `{"ncpus": 1}`, `{"mem": "memory::4g"}`.

    A plain number asked of a sized resource counts in that resource's own unit. InvalidAmount (a ValueError) for a
    value that is negative or no number.
    """

    def __init__(self, attr: str, value: int | float | Size) -> None:
        self.attr = attr
        self.value = checked_amount(value)

    def expression(self) -> Expr:
        """The amount; a size is one in bytes."""
        if isinstance(self.value, Size):
            return MinResource(self.attr, self.value.bytes, sized=True)
        return MinResource(self.attr, self.value)

    def minimum_space(self, node: Node) -> int:
        """How often the amount is there; 0 for a node without the resource, 2**31 when nothing is asked."""
        return self._space(node)

    def do_decrement(self, node: Node) -> bool:
        """Take the amount once; NothingLeft when the node does not have it."""
        fit = self.expression().fit(view_of(node))
        if not isinstance(fit, Fit):
            raise NothingLeft(sentence(fit, node, self.attr))
        take(node, fit, 1)
        return True

    def to_dict(self) -> dict[str, Any]:
        """`{attr: value}`; a size stays an object."""
        return {self.attr: self.value}

    def __str__(self) -> str:
        return f"(Node.{self.attr} >= {self.value})"


class NodeResourceConstraint(LoweredConstraint):
    """A resource that is one of `values`, of which earlier ones are preferred: `{"owner": ["a", "b*"]}`.

    Texts are matched with shell wildcards, everything else by equality; `case_insensitive` is for texts. Nothing is
    used up. Without values it is never satisfied. ConstraintError for a keyword that is not known.
    """

    weight = 100

    def __init__(
        self, attr: str, *values: Any, case_insensitive: bool = False, **unknown: Any
    ) -> None:
        if unknown:
            name = next(iter(unknown))
            hint = did_you_mean(name, ["case_insensitive"])
            raise ConstraintError("no other keyword than 'case_insensitive'", name, attr, hint)
        self.attr = attr
        self.case_insensitive = case_insensitive
        self.values = [v.lower() if case_insensitive and isinstance(v, str) else v for v in values]

    def expression(self) -> Expr:
        """The values."""
        return ResourceIs(self.attr, self.values, self.case_insensitive)

    def _score(self, fit: Fit) -> int:
        return len(self.values) - fit.rank

    def to_dict(self) -> dict[str, Any]:
        """`{attr: value}` where that reads back as an equality, else `{attr: [values]}`."""
        if len(self.values) == 1 and _reads_as_equality(self.values[0]):
            return {self.attr: self.values[0]}
        return {self.attr: list(self.values)}

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"(Node.{self.attr} == {self.values[0]!r})"
        return f"(Node.{self.attr} in {self.values!r})"


def _reads_as_equality(value: Any) -> bool:
    """Whether the parser takes a bare value as one to be equal to; a bare number or size is an amount."""
    if isinstance(value, str):
        return size_class(value) is None
    return value is None or isinstance(value, bool)


def is_alias(d: Mapping[str, Any]) -> bool:
    """Whether a dict is that of a `ReadOnlyAlias`, whose keys have a meaning only together."""
    return d.get("class") == "ReadOnlyAlias" and d.keys() == {"class", "alias", "resource-name"}


class ReadOnlyAlias(BaseNodeConstraint):
    """The node has `resource_name`, whose total becomes available as `alias` too."""

    def __init__(self, alias: str, resource_name: str) -> None:
        self.alias = alias
        self.resource_name = resource_name

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether the node has the resource at all."""
        if self.resource_name in node.resources:
            return SatisfiedResult("success", self, node)

        def reasons() -> list[str]:
            return [f"{subject(node, self.alias)} has no resource {self.resource_name!r}"]

        return SatisfiedResult("MissingResourceForAlias", self, node, reasons)

    def do_decrement(self, node: Node) -> bool:
        """Make the total available under the other name; False for a node without it."""
        if self.resource_name not in node.resources:
            return False
        node.available[self.alias] = node.resources[self.resource_name]
        return True

    def to_dict(self) -> dict[str, Any]:
        """A dict that names its class; see `is_alias`."""
        return {
            "class": "ReadOnlyAlias",
            "alias": self.alias,
            "resource-name": self.resource_name,
        }

    def __str__(self) -> str:
        return f"(Alias {self.alias} for Node.{self.resource_name})"
