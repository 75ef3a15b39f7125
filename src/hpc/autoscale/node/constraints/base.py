"""What every constraint is: the published protocol, what can be wrong with one, and how the engine
learns what constraints mean.

Integrations subclass `BaseNodeConstraint`; most of ours are a `LoweredConstraint`, which answers
the published methods through its expression, so that they say the same as the engine. `Compiled` is
a list of constraints as the engine is given it. Nodes, buckets and stand-ins for nodes are all seen
through `view_of` and `bucket_view`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from marshal import loads
from typing import TYPE_CHECKING, Any, NewType

from hpc.autoscale.errors import AutoscaleError, ConstraintError, did_you_mean
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import NodeView
from hpc.autoscale.node.ownstate import own_state, put_back
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import UNBOUNDED, AnyNode, Expr, Fit, View
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import SatisfiedResult

if TYPE_CHECKING:
    from hpc.autoscale.node.constraints.shared import SharedConstraint

ConstraintDict = NewType("ConstraintDict", dict[Any, Any])
BucketWeights = list[tuple[NodeBucket, float]]

# methods by which a class answers itself, and those by which it says what it means to the engine
_ANSWERS = frozenset(
    ["satisfied_by_node", "satisfied_by_bucket", "minimum_space", "do_decrement", "weight_buckets"]
)
_MEANINGS = frozenset(("lower", "join", "expression", "pools_and_amount"))


class NodeConstraint(ABC):
    """A condition on nodes, and what meeting it uses up.

    Two constraints are equal when their dicts are, whatever their classes. Constraints cannot be
    hashed.

    What the engine makes of a class depends on how much the class says. `lower` returns the
    condition as an expression, and then the engine asks the expression only. A class without it is
    opaque: its methods are called for one node after another. So is a subclass of one of ours that
    overrides an answer and not `lower`, since the inherited expression no longer says what the
    subclass does. What opaque classes take from a `SharedResource` that they hold is given back
    when the attempt fails.
    """

    reads: frozenset[str] | None = None
    """What the methods of an opaque class look at and change: `resources.<name>` (in
    `node.available`) and `node.<property>`. Their answers are then kept for all nodes alike in
    these, and for all constraints of the class with equal attributes, as far as these are plain
    values, and lists and dicts of such (others keep state that nobody sees: they are asked about
    each node); they see a stand-in for the node that has nothing else. A class whose answers depend
    on more, or whose `do_decrement` does other things than to take the same amounts each time and
    to close the node, is found out, with a warning, and asked about each node. None: it may look at
    anything."""

    monotone: bool = False
    """Beside `reads`: whether a node that was refused stays refused however much is taken from it,
    as with any amount that must be there. Nodes that are full need not be asked again then."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        nearest = next(c for c in cls.__mro__ if not (_ANSWERS | _MEANINGS).isdisjoint(vars(c)))
        if _MEANINGS.isdisjoint(vars(nearest)):
            cls.lower = NodeConstraint.lower  # type: ignore[method-assign]
            cls.join = NodeConstraint.join  # type: ignore[method-assign]

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        """The buckets with the weights that it gives them; heavier ones are used first."""
        return bucket_weights

    @abstractmethod
    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        """Whether a new node of the bucket would do."""

    @abstractmethod
    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether the node does, as it is now."""

    @abstractmethod
    def do_decrement(self, node: Node) -> bool:
        """Take what one iteration needs from the node; False, and nothing taken, if impossible."""

    def minimum_space(self, node: Node) -> int:
        """How many more iterations fit on the node; -1: this constraint does not care."""
        return -1

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The JSON form, which `get_constraint` reads."""

    @abstractmethod
    def __str__(self) -> str: ...

    def get_children(self) -> Iterable[NodeConstraint]:
        """The constraints that this one is made of."""
        return []

    def lower(self) -> Expr | None:
        """The condition as an expression of the engine; None when only the methods know. Asked once
        per distinct job."""
        return None

    def join(self, compiled: Compiled) -> None:
        """Take part in what is being compiled from several constraints that must all hold."""
        expr = self.lower()
        if expr is None:
            compiled.opaque += (self,)
        else:
            compiled.parts += (expr,)

    def saved(self) -> Any:
        """What it counts with, in pools and of its own, for `restore`."""
        return own_state(self)

    def restore(self, saved: Any) -> None:
        """Put back what `saved` gave, as if nothing had been taken since."""
        put_back(saved)

    def __eq__(self, other: object) -> bool:
        to_dict = getattr(other, "to_dict", None)
        return to_dict is not None and bool(self.to_dict() == to_dict())

    def __repr__(self) -> str:
        return str(self)


class BaseNodeConstraint(NodeConstraint):
    """What most start from: a bucket does when its example node does; nothing is used up."""

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        return self.satisfied_by_node(bucket.example_node)

    def do_decrement(self, node: Node) -> bool:
        return True


Constraint = NodeConstraint | dict[Any, Any]


def view_of(node: Node) -> View:
    """The node as an expression sees it. Of a stand-in, `available`, `assignments` and its
    attributes are enough."""
    return NodeView(node)


def bucket_view(bucket: NodeBucket) -> View:
    """A new node as an expression sees it, with the bucket's last capacity failure."""
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
    """Why the node was refused, with a guess at what an unknown resource was meant to be."""
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
        return self.expression()

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        return self._answer(node, view_of(node))

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        """The weights with the expression's preference added."""
        expr = self.expression()
        if type(expr).weigh is Expr.weigh:  # it has none
            return list(bucket_weights)
        return [(each, expr.weigh(bucket_view(each), weight)) for each, weight in bucket_weights]

    def _answer(self, node: Node, view: View) -> SatisfiedResult:
        fit = self.expression().fit(view)
        if isinstance(fit, Fit):
            return SatisfiedResult("success", self, node, score=self._score(fit))
        return self._refuse(node, fit)

    def _refuse(self, node: Node, reject: Reject) -> SatisfiedResult:
        return SatisfiedResult(reject.code, self, node, lambda: [sentence(reject, node, self.attr)])

    def _score(self, fit: Fit) -> int:
        return 1

    def _space(self, node: Node) -> int:
        fit = self.expression().fit(view_of(node))
        return published_space(fit.count) if isinstance(fit, Fit) else 0


def published_space(count: int) -> int:
    """A count of the engine as `minimum_space` gives it: -1 when there is no bound."""
    return -1 if count >= UNBOUNDED else count


# -- several constraints, as the engine is given them

Source = bytes | list[Any]
"""JSON as `marshal` writes it, which takes the least room, or as a list that nobody changes."""


def json_of(source: Source) -> list[Any]:
    """The JSON itself."""
    return loads(source) if isinstance(source, bytes) else source


class Compiled:
    """Constraints that must all hold, sorted by who can answer for them: `parts` are expressions of
    the engine, `pooled` draw on what all nodes share, and of the rest, `opaque`, only its own
    methods know. What is in an `And` counts as if it stood in the list itself.

    `source`: what this is made of, where every job that says so may use it. Where nothing else is
    given, the constraints are made of it when they are first asked for.
    """

    __slots__ = ("_constraints", "_expr", "opaque", "parts", "pooled", "source")

    def __init__(
        self,
        parts: tuple[Expr, ...] = (),
        constraints: Sequence[NodeConstraint] | None = None,
        source: Source | None = None,
    ) -> None:
        self.parts = parts
        self.pooled: tuple[SharedConstraint, ...] = ()
        self.opaque: tuple[NodeConstraint, ...] = ()
        self.source = source
        self._constraints = None if constraints is None else tuple(constraints)
        self._expr: Expr | None = None
        for constraint in self._constraints or ():
            constraint.join(self)

    @property
    def expr(self) -> Expr:
        """All parts as one; made when first asked for: never of a job that fits nowhere."""
        if self._expr is None:
            self._expr = self.parts[0] if len(self.parts) == 1 else AllOf(self.parts)
        return self._expr

    @property
    def constraints(self) -> tuple[NodeConstraint, ...]:
        """The constraints themselves."""
        if self._constraints is None:
            self._constraints = tuple(self.made_anew())
        return self._constraints

    def made_anew(self) -> list[NodeConstraint]:
        """The same constraints once more, of the source: nobody else has them."""
        # parsing makes constraints, which are compiled here
        from hpc.autoscale.node.constraints.parse import get_constraints

        return get_constraints(json_of(self.source or []))


def compile_constraints(constraints: Sequence[NodeConstraint]) -> Compiled:
    """A job's constraints, sorted. Without any, the job asks for one slot per node."""
    return Compiled((), constraints) if constraints else Compiled((AnyNode(),), ())


# -- what can be wrong


class MalformedConstraint(ConstraintError, AssertionError):
    """The wrong kind of container, or the wrong number of things in it."""


class UndefinedNodeProperty(ConstraintError, ValueError):
    """A `node.<name>` that is not one of QUERYABLE_PROPERTIES."""

    def __str__(self) -> str:
        return f"UndefinedNodeProperty: {super().__str__()}"

    def in_words(self) -> str:
        """The text without the name of this class, which is published."""
        return super().__str__()


class InvalidAmount(ConstraintError, ValueError):
    """An amount that cannot be taken: negative, infinite or not a number."""


class NothingLeft(AutoscaleError):
    """`do_decrement` was called on a node that does not have what the constraint takes."""


class AmbiguousChoice(AutoscaleError, AssertionError):
    """`do_decrement` was called on an exclusive choice of which several alternatives fit."""


@contextmanager
def located(path: str) -> Iterator[None]:
    """Errors of something that does not know where it stands are errors at `path`."""
    try:
        yield
    except ConstraintError as e:
        if e.path:
            raise
        raise type(e)(e.expected, e.found, path, e.hint) from None
