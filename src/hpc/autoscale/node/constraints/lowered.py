"""The base of constraints that are an expression of the engine, and answer everything through it.

So each rule stands in one place, and the published methods give the same answers as the engine. Concrete constraints
do not belong here.
"""

from __future__ import annotations

from abc import abstractmethod

from hpc.autoscale.node.constraints.base import BaseNodeConstraint, BucketWeights
from hpc.autoscale.node.constraints.views import bucket_view, sentence, view_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit, View
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import SatisfiedResult


class LoweredConstraint(BaseNodeConstraint):
    """A constraint that says by `expression` what it means."""

    attr: str = ""
    """The resource or property in question, for messages."""

    @abstractmethod
    def expression(self) -> Expr:
        """The condition, and what it takes."""

    def lower(self) -> Expr | None:
        """The same."""
        return self.expression()

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether the expression fits the node; the status is the code of the refusal."""
        return self._answer(node, view_of(node))

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        """The weights with the expression's preference added."""
        expr = self.expression()
        if type(expr).weigh is Expr.weigh:  # it has none
            return list(bucket_weights)
        return [
            (bucket, expr.weigh(bucket_view(bucket), weight)) for bucket, weight in bucket_weights
        ]

    def _answer(self, node: Node, view: View) -> SatisfiedResult:
        fit = self.expression().fit(view)
        if isinstance(fit, Fit):
            return SatisfiedResult("success", self, node, score=self._score(fit))
        return self._refuse(node, fit)

    def _refuse(self, node: Node, reject: Reject) -> SatisfiedResult:
        def reasons() -> list[str]:
            return [sentence(reject, node, self.attr)]

        return SatisfiedResult(reject.code, self, node, reasons)

    def _score(self, fit: Fit) -> int:
        """How much this way of fitting is liked."""
        return 1

    def _space(self, node: Node) -> int:
        """How often the expression fits, in the published form."""
        fit = self.expression().fit(view_of(node))
        return published_space(fit.count) if isinstance(fit, Fit) else 0


def published_space(count: int) -> int:
    """A count of the engine as `minimum_space` gives it: -1 when there is no bound."""
    return -1 if count >= UNBOUNDED else count
