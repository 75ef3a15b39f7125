"""Constraints made of others: and, or, xor, not.

They answer through their children, any of which may be a class of somebody else's. Where all
children are expressions of the engine, so is the composite. Made by the parser, or by integrations
from constraints and dicts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints.base import (
    AmbiguousChoice,
    BaseNodeConstraint,
    BucketWeights,
    MalformedConstraint,
    NodeConstraint,
)
from hpc.autoscale.node.constraints.compiled import Compiled, Draft, conjunction
from hpc.autoscale.node.constraints.conditions import is_alias
from hpc.autoscale.node.constraints.lowered import (
    bucket_view,
    published_space,
    sentence,
    subject,
    take,
    view_of,
)
from hpc.autoscale.node.constraints.parse import KEYWORDS, Keyword, Reading, read_children
from hpc.autoscale.node.constraints.shared import toll_room
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.expr import Expr, Fit, View
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import SatisfiedResult

Ask = Callable[[NodeConstraint], SatisfiedResult]


class _Composite(BaseNodeConstraint):
    """Children, given as constraints or as JSON; `at_least` so many."""

    keyword: str
    at_least = 0

    def __init__(self, *constraints: NodeConstraint | dict[Any, Any]) -> None:
        self.constraints = read_children(constraints, Reading(self.keyword))
        if len(self.constraints) < self.at_least:
            expected = f"at least {self.at_least} alternatives to {self.keyword!r}"
            raise MalformedConstraint(expected, list(constraints))

    def get_children(self) -> Iterable[NodeConstraint]:
        """The alternatives, or what must all hold."""
        return self.constraints

    def _lowered(self) -> list[Expr] | None:
        """The children as expressions; None when one of them is not."""
        exprs = [expr for child in self.constraints if (expr := child.lower()) is not None]
        return exprs if len(exprs) == len(self.constraints) else None

    def to_dict(self) -> dict[str, Any]:
        """`{keyword: [children]}`."""
        return {self.keyword: [child.to_dict() for child in self.constraints]}

    def __str__(self) -> str:
        return "(" + f" {self.keyword} ".join(str(child) for child in self.constraints) + ")"


class And(_Composite):
    """Every child at once, so that together they must fit: two that each take a core need two
    cores."""

    keyword = "and"

    def lower(self) -> Expr | None:
        """All of the children; None when one of them is opaque or shared."""
        exprs = self._lowered()
        return None if exprs is None else AllOf(exprs)

    def join(self, draft: Draft) -> None:
        """The children, as if they stood in the list themselves."""
        for child in self.constraints:
            child.join(draft)

    def _parts(self) -> Compiled:
        return conjunction(self.constraints)

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """The first child's refusal, else whether there is room for all of them together."""
        return self._satisfied(lambda child: child.satisfied_by_node(node), node, view_of(node))

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        """The first child's refusal. Whether all of them fit together is a question for each node:
        one that is there may meet another alternative of a child than a new one would."""
        for child in self.constraints:
            answer = child.satisfied_by_bucket(bucket)
            if not answer:
                return answer
        return SatisfiedResult("success", self, bucket.example_node)

    def _satisfied_by_new_node(self, bucket: NodeBucket) -> SatisfiedResult:
        """Whether all of them fit together on a new node of a bucket."""

        def ask(child: NodeConstraint) -> SatisfiedResult:
            return _of_new_node(child, bucket)

        return self._satisfied(ask, bucket.example_node, bucket_view(bucket))

    def _satisfied(self, ask: Ask, node: Node, view: View) -> SatisfiedResult:
        for child in self.constraints:
            answer = ask(child)
            if not answer:
                return answer
        if len(self.constraints) > 1:
            parts = self._parts()
            reject = parts.expr.fit(view)
            if isinstance(reject, Reject):
                return self._not_together(reject.code, lambda: sentence(reject, node), node)
            if toll_room(parts.tolls) < 1:
                code = "SharedLimitReached"
                return self._not_together(code, lambda: f"{code}: {subject(node)}", node)
        return SatisfiedResult("success", self, node)

    def _not_together(self, code: str, said: Callable[[], str], node: Node) -> SatisfiedResult:
        def reasons() -> list[str]:
            return [f"{said()}; enough for each, but not for all of {self} together"]

        return SatisfiedResult(code, self, node, reasons)

    def minimum_space(self, node: Node) -> int:
        """How often all children fit together; -1 when none of them cares."""
        parts = self._parts()
        fit = parts.expr.fit(view_of(node))
        if isinstance(fit, Reject):
            return 0
        spaces = [published_space(count) for count in (fit.count, toll_room(parts.tolls))]
        spaces += [child.minimum_space(node) for child in parts.opaque]
        return min((space for space in spaces if space >= 0), default=-1)

    def do_decrement(self, node: Node) -> bool:
        """Take what all children need; False when that is not there. Nothing is taken then, unless
        children of somebody else's have taken theirs first."""
        parts = self._parts()
        if isinstance(parts.expr.fit(view_of(node)), Reject) or toll_room(parts.tolls) < 1:
            return False
        if not all(child.do_decrement(node) for child in parts.opaque):
            return False
        fit = parts.expr.fit(view_of(node))  # of what those children have left
        if isinstance(fit, Reject):
            return False
        take(node, fit, 1)
        return all(toll.pay() for toll in parts.tolls)

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        """Each child weighs what the one before it gave."""
        for child in self.constraints:
            bucket_weights = child.weight_buckets(bucket_weights)
        return bucket_weights

    def to_dict(self) -> dict[str, Any]:
        """The children merged into one dict; `{"and": [...]}` where that would not read back, or
        there are none."""
        merged: list[dict[str, Any]] = []
        for child in self.constraints:
            d = child.to_dict()
            last = merged[-1] if merged else {}
            if not merged or d.keys() & last.keys() or is_alias(d) or is_alias(last):
                merged.append({})
            merged[-1].update(d)
        return merged[0] if len(merged) == 1 else {"and": merged}


class _Choice(_Composite):
    """One of several children is what counts. At least two (AssertionError)."""

    at_least = 2

    @abstractmethod
    def _satisfied(self, ask: Ask, node: Node) -> SatisfiedResult:
        """What the children's answers come to."""

    @abstractmethod
    def _chosen(self, node: Node) -> NodeConstraint | None:
        """The child that counts on the node, if one does."""

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether a child is chosen."""
        return self._satisfied(lambda child: child.satisfied_by_node(node), node)

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        """The same of a bucket."""
        return self._satisfied(lambda child: _of_new_node(child, bucket), bucket.example_node)

    def minimum_space(self, node: Node) -> int:
        """How often the chosen child fits; 0 without one."""
        chosen = self._chosen(node)
        return 0 if chosen is None else chosen.minimum_space(node)

    def do_decrement(self, node: Node) -> bool:
        """Take what the chosen child needs; False without one."""
        expr = self.lower()
        fit = None if expr is None else expr.fit(view_of(node))
        if isinstance(fit, Fit):
            # the engine's choice, which the node being closed by an iteration before does not
            # change
            take(node, fit, 1)
            return True
        chosen = self._chosen(node)
        return chosen is not None and chosen.do_decrement(node)


class Or(_Choice):
    """The first child that is satisfied; earlier ones are preferred."""

    keyword = "or"

    def lower(self) -> Expr | None:
        """Any of the children; None when one of them is opaque or shared."""
        exprs = self._lowered()
        return None if exprs is None else AnyOf(exprs)

    def _chosen(self, node: Node) -> NodeConstraint | None:
        return next((c for c in self.constraints if c.satisfied_by_node(node)), None)

    def _satisfied(self, ask: Ask, node: Node) -> SatisfiedResult:
        """The score is higher for earlier children."""
        refusals = []
        for index, child in enumerate(self.constraints):
            answer = ask(child)
            if answer:
                return SatisfiedResult("success", self, node, score=len(self.constraints) - index)
            refusals.append(answer)
        return _none_of(refusals, self, node)

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        """A hundred more for each place in the order of preference; 0 for a bucket that satisfies
        no child."""
        count = len(self.constraints)

        def weigh(bucket: NodeBucket, weight: float) -> float:
            for index, child in enumerate(self.constraints):
                if _of_new_node(child, bucket):
                    return weight + 100.0 * (count - index)
            return 0.0

        return [(bucket, weigh(bucket, weight)) for bucket, weight in bucket_weights]


class XOr(_Choice):
    """Exactly one child is satisfied."""

    keyword = "xor"

    def lower(self) -> Expr | None:
        """Exactly one of the children; None when one of them is opaque or shared."""
        exprs = self._lowered()
        return None if exprs is None else ExactlyOne(exprs)

    def _all_satisfied(self, node: Node) -> list[NodeConstraint]:
        return [child for child in self.constraints if child.satisfied_by_node(node)]

    def _chosen(self, node: Node) -> NodeConstraint | None:
        found = self._all_satisfied(node)
        return found[0] if len(found) == 1 else None

    def _satisfied(self, ask: Ask, node: Node) -> SatisfiedResult:
        """The answer of the one child that is satisfied."""
        found: SatisfiedResult | None = None
        refusals = []
        for child in self.constraints:
            answer = ask(child)
            if not answer:
                refusals.append(answer)
            elif found is None:
                found = answer
            else:
                return self._two_of(found.constraint, child, node)
        return _none_of(refusals, self, node) if found is None else found

    def _two_of(self, one: NodeConstraint, other: NodeConstraint, node: Node) -> SatisfiedResult:
        reject = Reject("XORFailed", one, other)
        return SatisfiedResult(reject.code, self, node, lambda: [sentence(reject, node)])

    def do_decrement(self, node: Node) -> bool:
        """Take what the one satisfied child needs; False without one, AmbiguousChoice (an
        AssertionError) with several."""
        found = self._all_satisfied(node)
        if len(found) > 1:
            raise AmbiguousChoice(f"{subject(node)} satisfies both {found[0]} and {found[1]}")
        return super().do_decrement(node)


class Not(BaseNodeConstraint):
    """The child is not satisfied. Uses up nothing."""

    def __init__(self, condition: NodeConstraint | dict[Any, Any]) -> None:
        self.condition = Reading("not").one(condition)

    def lower(self) -> Expr | None:
        """The negation of the child; None when that is opaque or shared."""
        expr = self.condition.lower()
        return None if expr is None else Negation(expr)

    def get_children(self) -> Iterable[NodeConstraint]:
        """The child."""
        return [self.condition]

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether the node does not satisfy the child."""
        return self._negated(self.condition.satisfied_by_node(node), node)

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        """Whether the bucket does not satisfy the child."""
        return self._negated(_of_new_node(self.condition, bucket), bucket.example_node)

    def _negated(self, answer: SatisfiedResult, node: Node) -> SatisfiedResult:
        status = "not(success)" if answer else "success"
        return SatisfiedResult(status, self, node, lambda: [str(self)])

    def to_dict(self) -> dict[str, Any]:
        """`{"not": child}`."""
        return {"not": self.condition.to_dict()}

    def __str__(self) -> str:
        return f"not {self.condition}"


def _of_new_node(child: NodeConstraint, bucket: NodeBucket) -> SatisfiedResult:
    """What a bucket is to an alternative: which one counts is decided by all that it asks of a new
    node at once."""
    if isinstance(child, And):
        return child._satisfied_by_new_node(bucket)
    return child.satisfied_by_bucket(bucket)


def _none_of(
    refusals: list[SatisfiedResult], constraint: NodeConstraint, node: Node
) -> SatisfiedResult:
    def reasons() -> list[str]:
        return [reason for refusal in refusals for reason in refusal.reasons]

    return SatisfiedResult("CompoundFailure", constraint, node, reasons)


def _read_composite(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    if not isinstance(value, (list, tuple)):
        raise MalformedConstraint("a list of constraints", value, reading.path)
    kinds: dict[str, type[And | Or | XOr]] = {"and": And, "or": Or, "xor": XOr}
    return kinds[attr](*read_children(value, reading))


def _read_not(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    return Not(reading.one(value))


KEYWORDS["and"] = Keyword(_read_composite, "a list: all of these at once")
KEYWORDS["or"] = Keyword(_read_composite, "a list: any of these, earlier ones preferred")
KEYWORDS["xor"] = Keyword(_read_composite, "a list: exactly one of these")
KEYWORDS["not"] = Keyword(_read_not, "an object: anything but this")
