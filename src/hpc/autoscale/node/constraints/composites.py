"""Constraints made of others: and, or, xor, not.

They answer through their children, any of which may be a class of somebody else's. Where all
children are expressions of the engine, so is the composite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints.base import (
    AmbiguousChoice,
    BaseNodeConstraint,
    BucketWeights,
    Compiled,
    MalformedConstraint,
    NodeConstraint,
    bucket_view,
    published_space,
    sentence,
    subject,
    view_of,
)
from hpc.autoscale.node.constraints.conditions import is_alias
from hpc.autoscale.node.constraints.parse import KEYWORDS, Keyword, ParsePosition, read_children
from hpc.autoscale.node.constraints.shared import pool_room
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.decrementing import take
from hpc.autoscale.packing.compound import AllOf, AnyOf, ExactlyOne, Negation
from hpc.autoscale.packing.expr import Expr, Fit, View
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import SatisfiedResult, answer_of, space_of, weights_of


class _Subject:
    """What a composite is asked about: a node, or a new node of a bucket."""

    def __init__(self, node: Node, bucket: NodeBucket | None = None) -> None:
        self.node = node
        self.bucket = bucket
        self.view: View = view_of(node) if bucket is None else bucket_view(bucket)

    def ask(self, child: NodeConstraint) -> SatisfiedResult:
        """The answer of a child. All that an `And` asks of a new node is asked at once, which
        decides between alternatives."""
        if self.bucket is None:
            return answer_of(child, self.node)
        if isinstance(child, And):
            return child._answer(self)
        return answer_of(child, bucket=self.bucket)


class _CompositeConstraint(BaseNodeConstraint):
    """Children, given as constraints or as JSON; at least `at_least` of them. `_made`: what their
    expressions come to."""

    keyword: str
    at_least = 0
    _made: Callable[[Sequence[Expr]], Expr]

    def __init__(self, *constraints: NodeConstraint | dict[Any, Any]) -> None:
        self.constraints = read_children(constraints, ParsePosition(self.keyword))
        if len(self.constraints) < self.at_least:
            expected = f"at least {self.at_least} alternatives to {self.keyword!r}"
            raise MalformedConstraint(expected, list(constraints))

    def get_children(self) -> Iterable[NodeConstraint]:
        return self.constraints

    def lower(self) -> Expr | None:
        """The children's expressions, combined; None when one of them is opaque or shared."""
        exprs = [expr for child in self.constraints if (expr := child.lower()) is not None]
        return self._made(exprs) if len(exprs) == len(self.constraints) else None

    def _answer(self, asked: _Subject) -> SatisfiedResult:
        raise NotImplementedError

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        return self._answer(_Subject(node))

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        return self._answer(_Subject(bucket.example_node, bucket))

    def to_dict(self) -> dict[str, Any]:
        return {self.keyword: [child.to_dict() for child in self.constraints]}

    def __str__(self) -> str:
        return "(" + f" {self.keyword} ".join(str(child) for child in self.constraints) + ")"


def _takes(constraint: NodeConstraint) -> bool:
    """Whether it may use something up, as far as its class says."""
    return type(constraint).do_decrement is not BaseNodeConstraint.do_decrement


class And(_CompositeConstraint):
    """Every child at once: two that each take a core need two cores."""

    keyword = "and"
    _made = AllOf

    def join(self, compiled: Compiled) -> None:
        """Let each child take part, as if it stood in the list itself."""
        for child in self.constraints:
            child.join(compiled)

    def _refusal(self, ask: Callable[[NodeConstraint], SatisfiedResult]) -> SatisfiedResult | None:
        return next((answer for child in self.constraints if not (answer := ask(child))), None)

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        """The first child's refusal. Whether all of them fit together is a question for each node:
        one that is there may meet another alternative of a child than a new one would."""
        refusal = self._refusal(lambda child: answer_of(child, bucket=bucket))
        return SatisfiedResult("success", self, bucket.example_node) if refusal is None else refusal

    def _answer(self, asked: _Subject) -> SatisfiedResult:
        """The first child's refusal, else whether there is room for all of them together."""
        node = asked.node
        refusal = self._refusal(asked.ask)
        if refusal is not None:
            return refusal
        if len(self.constraints) > 1:
            parts = Compiled((), self.constraints)
            reject = parts.expr.fit(asked.view)
            if isinstance(reject, Reject):
                return self._not_together(reject.code, lambda: sentence(reject, node), node)
            if pool_room(parts.pooled) < 1:
                code = "SharedLimitReached"
                return self._not_together(code, lambda: f"{code}: {subject(node)}", node)
        return SatisfiedResult("success", self, node)

    def _not_together(self, code: str, said: Callable[[], str], node: Node) -> SatisfiedResult:
        together = f"enough for each, but not for all of {self} together"
        return SatisfiedResult(code, self, node, lambda: [f"{said()}; {together}"])

    def minimum_space(self, node: Node) -> int:
        """How often all children fit together; -1 when none of them cares."""
        compiled = Compiled((), self.constraints)
        fit = compiled.expr.fit(view_of(node))
        if isinstance(fit, Reject):
            return 0
        spaces = [published_space(count) for count in (fit.count, pool_room(compiled.pooled))]
        spaces += [space_of(child, node) for child in compiled.opaque]
        return min((space for space in spaces if space >= 0), default=-1)

    def do_decrement(self, node: Node) -> bool:
        """Take what all children need; False when that is not there. Nothing is taken then, unless
        children of somebody else's have taken theirs first. Those that take nothing are not asked:
        that a node has two cores held before the first of its iterations took one."""
        parts = Compiled((), [child for child in self.constraints if _takes(child)])
        if isinstance(parts.expr.fit(view_of(node)), Reject) or pool_room(parts.pooled) < 1:
            return False
        if not all(child.do_decrement(node) for child in parts.opaque):
            return False
        fit = parts.expr.fit(view_of(node))  # of what those children have left
        if isinstance(fit, Reject):
            return False
        take(node, fit, 1)
        return all(each.pay() for each in parts.pooled)

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        """Each child weighs what the one before it gave."""
        for child in self.constraints:
            bucket_weights = weights_of(child, bucket_weights)
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


class _Asked(Expr):
    """A child of a choice, whoever it is, as an expression that is asked once. `answer`: what it
    said; None where nobody asked."""

    __slots__ = ("answer", "asked", "constraint")

    def __init__(self, constraint: NodeConstraint, asked: _Subject) -> None:
        super().__init__((id(constraint),))
        self.constraint = constraint
        self.answer: SatisfiedResult | None = None
        self.asked = asked

    def fit(self, view: View) -> Fit | Reject:
        if self.answer is None:
            self.answer = self.asked.ask(self.constraint)
        return Fit() if self.answer else Reject(self.answer.status)

    def __str__(self) -> str:
        return str(self.constraint)


class _Choice(_CompositeConstraint):
    """One of several children is what counts, as `_made` says. At least two (AssertionError)."""

    at_least = 2
    # stands beside the answers: see `NodeConstraint.__init_subclass__`
    lower = _CompositeConstraint.lower

    def _decided(self, asked: _Subject) -> tuple[Fit | Reject, list[_Asked]]:
        """What the children's answers come to, and the children with their answers."""
        children = [_Asked(child, asked) for child in self.constraints]
        return self._made(children).fit(asked.view), children

    def _answer(self, asked: _Subject) -> SatisfiedResult:
        fit, children = self._decided(asked)
        if isinstance(fit, Fit):
            return self._success(asked.node, fit, children)

        def reasons() -> list[str]:
            if fit.code == "XORFailed":
                return [sentence(fit, asked.node)]
            answers = [child.answer for child in children if child.answer is not None]
            return [reason for answer in answers for reason in answer.reasons]

        return SatisfiedResult(fit.code, self, asked.node, reasons)

    def _success(self, node: Node, fit: Fit, children: list[_Asked]) -> SatisfiedResult:
        """The score is higher for earlier children."""
        return SatisfiedResult("success", self, node, score=len(children) - fit.rank)

    def _chosen(self, node: Node) -> NodeConstraint | None:
        """The child that counts on the node, if one does. AmbiguousChoice (an AssertionError) where
        exactly one may, and several do."""
        fit, children = self._decided(_Subject(node))
        if isinstance(fit, Fit):
            return next(child.constraint for child in children if child.answer)
        if fit.code == "XORFailed":
            both = f"{fit.facts[0]} and {fit.facts[1]}"
            raise AmbiguousChoice(f"{subject(node)} satisfies both {both}")
        return None

    def minimum_space(self, node: Node) -> int:
        """How often the chosen child fits; 0 without one."""
        try:
            chosen = self._chosen(node)
        except AmbiguousChoice:
            return 0
        return 0 if chosen is None else chosen.minimum_space(node)

    def do_decrement(self, node: Node) -> bool:
        """Take what the chosen child needs; False without one, AmbiguousChoice (an AssertionError)
        where exactly one may be satisfied, and several are."""
        expr = self.lower()
        fit = None if expr is None else expr.fit(view_of(node))
        if isinstance(fit, Fit):
            # the engine's choice: that an iteration before closed the node does not change it
            take(node, fit, 1)
            return True
        chosen = self._chosen(node)
        return chosen is not None and chosen.do_decrement(node)

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        """The weights with the preference added that the choice has among its children, if any."""
        weighed = []
        for bucket, weight in bucket_weights:
            asked = _Subject(bucket.example_node, bucket)
            children = [_Asked(child, asked) for child in self.constraints]
            weighed.append((bucket, self._made(children).weigh(asked.view, weight)))
        return weighed


class Or(_Choice):
    """The first child that is satisfied; earlier ones are preferred."""

    keyword = "or"
    _made = AnyOf


class XOr(_Choice):
    """Exactly one child is satisfied."""

    keyword = "xor"
    _made = ExactlyOne

    def _success(self, node: Node, fit: Fit, children: list[_Asked]) -> SatisfiedResult:
        """The answer of the one child that is satisfied."""
        return next(child.answer for child in children if child.answer)


class Not(_CompositeConstraint):
    """The child is not satisfied. Uses up nothing."""

    def __init__(self, condition: NodeConstraint | dict[Any, Any]) -> None:
        self.condition = ParsePosition("not").one(condition)
        self.constraints = [self.condition]

    @staticmethod
    def _made(exprs: Sequence[Expr]) -> Expr:
        return Negation(*exprs)

    # stands beside the answers: see `NodeConstraint.__init_subclass__`
    lower = _CompositeConstraint.lower

    def _answer(self, asked: _Subject) -> SatisfiedResult:
        fit = Negation(_Asked(self.condition, asked)).fit(asked.view)
        status = "success" if isinstance(fit, Fit) else fit.code
        return SatisfiedResult(status, self, asked.node, lambda: [str(self)])

    def to_dict(self) -> dict[str, Any]:
        return {"not": self.condition.to_dict()}

    def __str__(self) -> str:
        return f"not {self.condition}"


def _reader(cls: type[And | Or | XOr]) -> Callable[[Any, ParsePosition], NodeConstraint]:
    def read(value: Any, at: ParsePosition) -> NodeConstraint:
        if not isinstance(value, (list, tuple)):
            raise MalformedConstraint("a list of constraints", value, at.path)
        return cls(*read_children(value, at))

    return read


KEYWORDS["and"] = Keyword(_reader(And), "a list: all of these at once")
KEYWORDS["or"] = Keyword(_reader(Or), "a list: any of these, earlier ones preferred")
KEYWORDS["xor"] = Keyword(_reader(XOr), "a list: exactly one of these")
KEYWORDS["not"] = Keyword(lambda value, at: Not(at.one(value)), "an object: anything but this")
