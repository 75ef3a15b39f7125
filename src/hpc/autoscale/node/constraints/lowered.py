"""The base of constraints that are an expression of the engine, and answer everything through it;
and how constraints look at nodes and buckets, and name them in messages.

So each rule stands in one place, and the published methods give the same answers as the engine.
Everything that a constraint of this package knows of a node goes through `view_of` or
`bucket_view`, and everything that it takes goes through `take`, so that nodes, buckets and
stand-ins for nodes are treated alike. Concrete constraints do not belong here.
"""

from __future__ import annotations

from abc import abstractmethod

from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints.base import BaseNodeConstraint, BucketWeights
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.decrementing import take as take
from hpc.autoscale.node.node.shaping import NodeView
from hpc.autoscale.packing.expr import UNBOUNDED, Expr, Fit, View
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import SatisfiedResult


def view_of(node: Node) -> View:
    """The node as an expression sees it. Of a stand-in, `available`, `assignments` and its
    attributes are enough."""
    own_view = getattr(node, "_view", None)
    return own_view() if own_view is not None else NodeView(node)


def bucket_view(bucket: NodeBucket) -> View:
    """A new node of the bucket as an expression sees it, with the bucket's last capacity
    failure."""
    return NodeView(bucket.example_node, getattr(bucket, "last_capacity_failure", None))


def subject(node: Node, attr: str = "") -> str:
    """What a message is about: `Bucket[array=htc vm_size=Standard_F4 attr=ncpus]`, or
    `Node[name=htc-1 attr=ncpus]`."""
    what = f" attr={attr}" if attr else ""
    name = getattr(node, "name", None)
    if name == f"{getattr(node, 'nodearray', None)}-0":
        return f"Bucket[array={node.nodearray} vm_size={node.vm_size}{what}]"
    return f"Node[name={name}{what}]"


def sentence(reject: Reject, node: Node, attr: str = "") -> str:
    """Why the node was refused, with a guess at what a resource that it does not have was meant to
    be."""
    said = reject.explain(subject(node, attr))
    return said + did_you_mean(attr, node.available) if reject.code == "UndefinedResource" else said


class LoweredConstraint(BaseNodeConstraint):
    """A constraint that says by `expression` what it means."""

    attr: str = ""
    """The resource or property in question, for messages."""

    @abstractmethod
    def expression(self) -> Expr:
        """The condition, and what it takes."""

    def lower(self) -> Expr | None:
        """`expression`, for the engine."""
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
