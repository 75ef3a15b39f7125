"""Constraints on one node: what it has, what it is, whether it is in use or has just failed.

On resources: an amount that is used up, a value that must be there, a resource by another name;
they look at `node.available`. On properties: they use up nothing. Made by the parser from
`{"ncpus": 2}`, `{"owner": ["a", "b"]}`, `{"node.vm_size": [...]}`, `{"exclusive": true}` and the
like, or by integrations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import ConstraintError, check_entries, did_you_mean
from hpc.autoscale.hpctypes import Size, SizeError
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints.base import (
    BaseNodeConstraint,
    InvalidAmount,
    LoweredConstraint,
    NothingLeft,
    UndefinedNodeProperty,
    bucket_view,
    sentence,
    subject,
    view_of,
)
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.node.decrementing import take
from hpc.autoscale.packing import expr as exprs
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Expr, Fit, MinResource, ResourceIs
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import SatisfiedResult
from hpc.autoscale.util import random_uuid


def size_class(text: str) -> type[Size] | None:
    """What a text in a constraint is a size of; None for one that is to be equal to something, as
    `memory::*` is."""
    first = text.partition("::")[2][:1]
    return ht.size_class(text) if first.isalnum() and first.isascii() else None


def size_of(value: Any) -> Size | None:
    """The size that a text in a constraint stands for; None for anything else. ConstraintError
    for a text that begins like a size and does not go on like one."""
    cls = size_class(value) if isinstance(value, str) else None
    try:
        return None if cls is None else cls.value_of(value)
    except SizeError as e:
        raise ConstraintError("a size such as 'memory::4g'", value, hint=f": {e}") from None


# leaves room within a float for units, and for adding amounts up
_MOST = 1e250


def checked_amount(amount: Any) -> int | float | Size:
    """The amount; InvalidAmount unless it is a size or a number that can be taken."""
    if not isinstance(amount, (int, float, Size)) or isinstance(amount, bool):
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

    A plain number asked of a sized resource counts in that resource's own unit. InvalidAmount (a
    ValueError) for a value that is negative or no number.
    """

    def __init__(self, attr: str, value: int | float | Size) -> None:
        self.attr = attr
        self.value = checked_amount(value)

    def expression(self) -> Expr:
        """That the amount is there; a size is an amount of bytes."""
        if isinstance(self.value, Size):
            return MinResource(self.attr, self.value.bytes, sized=True)
        return MinResource(self.attr, self.value)

    def minimum_space(self, node: Node) -> int:
        """0 for a node without the resource, 2**31 when nothing is asked."""
        return self._space(node)

    def do_decrement(self, node: Node) -> bool:
        fit = self.expression().fit(view_of(node))
        if not isinstance(fit, Fit):
            raise NothingLeft(sentence(fit, node, self.attr))
        take(node, fit, 1)
        return True

    def to_dict(self) -> dict[str, Any]:
        return {self.attr: self.value}

    def __str__(self) -> str:
        return f"(Node.{self.attr} >= {self.value})"


class _OneOfValues(LoweredConstraint):
    """What `attr` names is one of `values`, of which earlier ones are preferred."""

    values: list[Any]

    def _score(self, fit: Fit) -> int:
        return len(self.values) - fit.rank

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"(Node.{self.attr} == {self.values[0]!r})"
        return f"(Node.{self.attr} in {self.values!r})"


class NodeResourceConstraint(_OneOfValues):
    """A resource that is one of `values`, of which earlier ones are preferred: `{"owner": ["a",
    "b*"]}`.

    Texts are matched with shell wildcards, everything else by equality; `case_insensitive` is for
    texts. Nothing is used up. Without values it is never satisfied. ConstraintError for a keyword
    that is not known.
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
        return ResourceIs(self.attr, self.values, self.case_insensitive)

    def to_dict(self) -> dict[str, Any]:
        """`{attr: value}` where that reads back as an equality, else `{attr: [values]}`."""
        if len(self.values) != 1:
            return {self.attr: list(self.values)}
        value = self.values[0]
        is_text = isinstance(value, str) and size_class(value) is None
        # a bare number or size would be an amount
        is_equality = is_text or value is None or isinstance(value, bool)
        return {self.attr: value if is_equality else [value]}


def is_alias(d: Mapping[str, Any]) -> bool:
    """Whether a dict is that of a `ReadOnlyAlias`, whose keys have a meaning only together."""
    return d.get("class") == "ReadOnlyAlias" and d.keys() == {"class", "alias", "resource-name"}


class ReadOnlyAlias(BaseNodeConstraint):
    """The node has `resource_name`, whose total becomes available as `alias` too."""

    def __init__(self, alias: str, resource_name: str) -> None:
        self.alias = alias
        self.resource_name = resource_name

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        if self.resource_name in node.resources:
            return SatisfiedResult("success", self, node)
        text = f"{subject(node, self.alias)} has no resource {self.resource_name!r}"
        return SatisfiedResult("MissingResourceForAlias", self, node, [text])

    def do_decrement(self, node: Node) -> bool:
        """Make the total available under the other name; False for a node without it."""
        if self.resource_name not in node.resources:
            return False
        node.available[self.alias] = node.resources[self.resource_name]
        return True

    def to_dict(self) -> dict[str, Any]:
        return {"class": "ReadOnlyAlias", "alias": self.alias, "resource-name": self.resource_name}

    def __str__(self) -> str:
        return f"(Alias {self.alias} for Node.{self.resource_name})"


class NodePropertyConstraint(_OneOfValues):
    """A node property that is one of `values`, of which earlier ones are preferred:
    `{"node.vm_size": ["a", "b*"]}`.

    Texts are matched with shell wildcards, everything else by equality. A list as the only value
    stands for its members. UndefinedNodeProperty (a ValueError) unless the property is in
    QUERYABLE_PROPERTIES.
    """

    def __init__(self, attr: str, *values: Any) -> None:
        if attr not in QUERYABLE_PROPERTIES:
            hint = did_you_mean(str(attr), QUERYABLE_PROPERTIES)
            expected = "a property of nodes that can be asked for"
            raise UndefinedNodeProperty(expected, attr, hint=hint)
        self.attr = attr
        only = values[0] if len(values) == 1 else None
        self.values = list(only) if isinstance(only, (list, tuple)) else list(values)

    def expression(self) -> Expr:
        return exprs.PropertyIs(self.attr, self.values)

    def _refuse(self, node: Node, reject: Reject) -> SatisfiedResult:
        """The refusal, with a reason for each of the values."""
        name, found, _ = reject.facts

        def reasons() -> list[str]:
            each = [Reject(reject.code, name, found, repr(value)) for value in self.values]
            return [sentence(one, node, self.attr) for one in each or [reject]]

        return SatisfiedResult(reject.code, self, node, reasons)

    def to_dict(self) -> dict[str, Any]:
        return {f"node.{self.attr}": list(self.values)}


class InAPlacementGroup(LoweredConstraint):
    """In some placement group, or (`in_group` false) in none."""

    def __init__(self, in_group: bool = True) -> None:
        self.in_group = in_group

    def expression(self) -> Expr:
        return exprs.InPlacementGroup(self.in_group)

    def minimum_space(self, node: Node) -> int:
        return self._space(node)

    def do_decrement(self, node: Node) -> bool:
        return self._space(node) != 0

    def to_dict(self) -> dict[str, Any]:
        return {"in-a-placement-group": self.in_group}

    def __str__(self) -> str:
        return f"(InAPlacementGroup == {self.in_group})"


class ExclusiveNode(LoweredConstraint):
    """A node that nothing else is placed on, before or after: `{"exclusive": true}`.

    All iterations that one allocation puts on the node share it; afterwards it is closed.
    `job_exclusive` false (`{"exclusive-task": true}`) is satisfied, when asked by itself, by a node
    that works for the same `assignment_id` too; the engine asks for vacant nodes in either case,
    since one that was used is closed. `is_exclusive` false asks for nothing.
    """

    def __init__(
        self, is_exclusive: bool = True, job_exclusive: bool = True, assignment_id: str = ""
    ) -> None:
        self.is_exclusive = is_exclusive
        self.job_exclusive = job_exclusive
        self.assignment_id = assignment_id or random_uuid()

    def expression(self) -> Expr:
        return exprs.Exclusive() if self.is_exclusive else AllOf(())

    def _shares(self, node: Node) -> bool:
        """Whether what works here is the same task array, which may come again."""
        return not self.job_exclusive and self.assignment_id in node.assignments

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        if not self.is_exclusive or self._shares(node):
            return SatisfiedResult("success", self, node)
        if node.assignments or node.closed:
            return self._refuse(node, Reject("ExclusiveRequirementFailed"))
        return SatisfiedResult("success", self, node)

    def minimum_space(self, node: Node) -> int:
        in_the_way = self.is_exclusive and node.assignments and not self._shares(node)
        return 0 if in_the_way else -1

    def do_decrement(self, node: Node) -> bool:
        if self.is_exclusive:
            if node.assignments and not self._shares(node):
                return False
            node.closed = True
        return True

    def to_dict(self) -> dict[str, Any]:
        return {"exclusive" if self.job_exclusive else "exclusive_task": self.is_exclusive}

    def __str__(self) -> str:
        name = "exclusive" if self.job_exclusive else "exclusive_task"
        return f"(Node.{name} == {self.is_exclusive})"


class NotAllocated(BaseNodeConstraint):
    """Deprecated: a node to which nothing was allocated. It has space for one, and no more."""

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        if not node._allocated:
            return SatisfiedResult("success", self, node)
        reasons = [f"{subject(node)} is allocated already"]
        return SatisfiedResult("AlreadyAllocated", self, node, reasons)

    def minimum_space(self, node: Node) -> int:
        return 0 if node._allocated else 1

    def do_decrement(self, node: Node) -> bool:
        if node._allocated:
            return False
        node._allocated = True
        return True

    def to_dict(self) -> dict[str, Any]:
        return {"not-allocated": True}

    def __str__(self) -> str:
        return "(Node.allocated == False)"


class Never(LoweredConstraint):
    """No node does, for the reason given: `{"never": "the queue is stopped"}`."""

    def __init__(self, message: str) -> None:
        self._message = message

    @property
    def message(self) -> str:
        """The reason."""
        return self._message

    def expression(self) -> Expr:
        return exprs.Impossible(self._message)

    def _refuse(self, node: Node, reject: Reject) -> SatisfiedResult:
        return SatisfiedResult("Never", self, node, [self._message])

    def do_decrement(self, node: Node) -> bool:
        return False

    def to_dict(self) -> dict[str, Any]:
        return {"never": self._message}

    def __str__(self) -> str:
        return f"Never({self._message})"


class CapacityFailureBackoffConstraint(LoweredConstraint):
    """New nodes only from buckets without a capacity failure in the last `backoff` seconds:
    `{"capacity-failure-backoff": 300}`. Nodes that run are not concerned, those that are
    deallocated are."""

    def __init__(self, backoff: float) -> None:
        self.backoff = checked_amount(backoff)

    def expression(self) -> Expr:
        return exprs.Rested(float(self.backoff))

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        return SatisfiedResult("success", self, node)

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        """Whether the bucket's last capacity failure is long enough ago for new nodes."""
        return self._answer(bucket.example_node, bucket_view(bucket))

    @staticmethod
    def from_dict(d: dict[str, Any]) -> CapacityFailureBackoffConstraint:
        """From its JSON form. ConstraintError for no number of seconds."""
        check_entries("CapacityFailureBackoffConstraint.from_dict", {}, d)
        seconds: Any = d.get("capacity-failure-backoff")
        return CapacityFailureBackoffConstraint(seconds)

    def to_dict(self) -> dict[str, Any]:
        return {"capacity-failure-backoff": self.backoff}

    def __str__(self) -> str:
        return f"CapacityFailureBackoff({self.backoff})"
