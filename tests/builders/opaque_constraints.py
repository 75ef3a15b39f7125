"""Each built-in constraint once more, as an integration would write it: a subclass with methods of
its own.

They know nodes by the published attributes only, so that the engine cannot look into them and has
to ask. There are three levels of each: opaque, declared (it says what it reads), and lowered (it
says what it means).
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from math import floor
from random import Random
from typing import Any

from builders.engine_world import Express, World, pooled, with_pools
from builders.scenarios import entangled, leaf_kind
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import BaseNodeConstraint, get_constraint
from hpc.autoscale.node.constraints.base import BucketWeights
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.results import SatisfiedResult


class Twin(BaseNodeConstraint):
    """A leaf: `key` and `value` as in its JSON."""

    def __init__(self, key: str, value: Any) -> None:
        self.key = key
        self.value = value

    def holds(self, node: Node) -> bool:
        """Whether the condition holds for a node."""
        raise NotImplementedError

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        return SatisfiedResult("success" if self.holds(node) else "Refused", self, node, ["no"])

    def to_dict(self) -> dict[str, Any]:
        return {"twin": {self.key: str(self.value)}}

    def __str__(self) -> str:
        return f"Twin({self.key}: {self.value})"


class Apart(BaseNodeConstraint):
    """Holds everywhere, and its JSON is no constraint that anybody else knows."""

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        return SatisfiedResult("success", self, node)

    def to_dict(self) -> dict[str, Any]:
        return {"apart": True}

    def __str__(self) -> str:
        return "Apart"


class Amount(Twin):
    """A number or size that is used up."""

    def _needed(self, available: Any) -> Any:
        if isinstance(self.value, str):
            return Size.value_of(self.value)
        return Size(self.value, available.magnitude) if isinstance(available, Size) else self.value

    def _times(self, node: Node) -> int:
        available = node.available.get(self.key)
        if not isinstance(available, (int, float, Size)):
            return 0
        needed = float(self._needed(available))
        if needed == 0:
            return 2**31 if float(available) >= 0 else 0
        return floor(float(available) / needed + 1e-9)

    def holds(self, node: Node) -> bool:
        return self._times(node) >= 1

    def minimum_space(self, node: Node) -> int:
        return self._times(node)

    def do_decrement(self, node: Node) -> bool:
        if not self.holds(node):
            return False
        available = node.available[self.key]
        rest = available - self._needed(available)
        node.available[self.key] = round(rest, 9) if isinstance(rest, float) else rest
        return True


class Preference(Twin):
    """A value of which earlier ones are preferred."""

    def values(self) -> list[Any]:
        """The values."""
        return self.value if isinstance(self.value, list) else [self.value]

    def target(self, node: Node) -> Any:
        """What the node has; KeyError when it has nothing of the kind."""
        raise NotImplementedError

    def index(self, node: Node) -> int | None:
        """Which value it is; None for none of them."""
        try:
            target = self.target(node)
        except KeyError:
            return None
        for index, value in enumerate(self.values()):
            if isinstance(value, str) and isinstance(target, str):
                if fnmatch(target, value):
                    return index
            elif value == target:
                return index
        return None

    def holds(self, node: Node) -> bool:
        return self.index(node) is not None

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        return [(bucket, self.weight(bucket, weight)) for bucket, weight in bucket_weights]

    def weight(self, bucket: NodeBucket, weight: float) -> float:
        """The weight of a bucket afterwards."""
        index = self.index(bucket.example_node)
        return 0 if index is None else weight + 100 * (len(self.values()) - index)


class Resource(Preference):
    """A resource with one of some values."""

    def target(self, node: Node) -> Any:
        return node.available[self.key]


class Property(Preference):
    """A property with one of some values."""

    def target(self, node: Node) -> Any:
        return getattr(node, self.key.removeprefix("node."))

    def weight(self, bucket: NodeBucket, weight: float) -> float:
        return 0 if weight == 0 else super().weight(bucket, weight)


class Exclusive(Twin):
    """A node for itself."""

    def holds(self, node: Node) -> bool:
        return not self.value or not (node.assignments or node.closed)

    def do_decrement(self, node: Node) -> bool:
        if self.value:
            node.closed = True
        return True


class Grouped(Twin):
    """In a placement group, or in none."""

    def holds(self, node: Node) -> bool:
        return bool(node.placement_group) == bool(self.value)


class Nowhere(Twin):
    """Nowhere."""

    def holds(self, node: Node) -> bool:
        return False


TWINS: dict[str, type[Twin]] = {
    "number": Amount,
    "size": Amount,
    "resource": Resource,
    "property": Property,
    "exclusive": Exclusive,
    "exclusive-task": Exclusive,
    "in-a-placement-group": Grouped,
    "never": Nowhere,
}
"""By kind. The published protocol cannot say of new nodes what does not hold for those that are
there, so that there is none of the capacity failures."""


Choose = Callable[[str, Any], Mapping[str, type[Twin]]]
"""The twins by kind of which one is used for a leaf, by its key and value; none of them as it
is."""

LEVELS = ("opaque", "declared", "lowered")


def reads_of(key: str) -> frozenset[str]:
    """What a twin reads, as it declares it."""
    if key.startswith("node."):
        return frozenset({key})
    if key == "in-a-placement-group":
        return frozenset({"node.placement_group"})
    if key.startswith("exclusive"):
        return frozenset(
            {"node.assignments", "node.closed"}
        )  # the engine does not know whose it is
    if key == "never":
        return frozenset()
    return frozenset({f"resources.{key}"})


def lowered(twin: type[Twin]) -> type[Twin]:
    """The class of a twin with a meaning: that of the built-in constraint."""

    def lower(self: Twin) -> Expr | None:
        return get_constraint({self.key: self.value}).lower()

    return type(f"Lowered{twin.__name__}", (twin,), {"lower": lower})


def declared(twin: type[Twin]) -> type[Twin]:
    """The class of a twin that says what it reads."""

    def __init__(self: Twin, key: str, value: Any) -> None:
        twin.__init__(self, key, value)
        self.reads = reads_of(key)

    more = {"__init__": __init__, "monotone": twin is Amount}
    return type(f"Declared{twin.__name__}", (twin,), more)


TWINS_OF: dict[str, dict[str, type[Twin]]] = {
    "opaque": TWINS,
    "declared": {kind: declared(twin) for kind, twin in TWINS.items()},
    "lowered": {kind: lowered(twin) for kind, twin in TWINS.items()},
}


def with_twins(seed: int, share: float, level: str = "opaque") -> Express:
    """A way to express constraints in which a share of the leaves are twins: the same ones each
    time. `level`: one of LEVELS, or "mixed".

    None where the published protocol does not say the same as the engine; see `entangled`.
    """

    def choose(key: str, value: Any) -> Mapping[str, type[Twin]]:
        random = Random(f"{seed} {key} {value}")
        if random.random() >= share:
            return {}
        return TWINS_OF[random.choice(LEVELS) if level == "mixed" else level]

    def express(world: World, constraints: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if entangled(constraints):
            return with_pools(world, constraints)
        return [
            replaced(choose, constraint, pooled(world, constraint)) for constraint in constraints
        ]

    return express


def replaced(choose: Choose, constraint: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """One constraint, at any depth; `given` is what it is where it is not replaced."""
    made: dict[str, Any] = {}
    for key, value in constraint.items():
        if key in ("and", "or", "xor"):
            pairs = zip(value, given[key], strict=True)
            made[key] = [replaced(choose, child, other) for child, other in pairs]
        elif key == "not":
            made[key] = replaced(choose, value, given[key])
        else:
            twin = choose(key, value).get(leaf_kind(key, value))
            made[key] = given[key] if twin is None else twin(key, value)
    return made
