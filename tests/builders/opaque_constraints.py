"""Each built-in constraint once more, as an integration would write it: a subclass with methods of its own.

They know nodes by the published attributes only, so that the engine cannot look into them and has to ask. There are three
levels of each: opaque, declared (it says what it reads), and lowered (it says what it means).
"""

from fnmatch import fnmatch
from math import floor
from random import Random

from builders.engine_world import pooled, with_pools
from builders.scenarios import entangled, leaf_kind
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node.constraints import BaseNodeConstraint, get_constraint
from hpc.autoscale.results import SatisfiedResult


class Twin(BaseNodeConstraint):
    """A leaf: `key` and `value` as in its JSON."""

    def __init__(self, key, value):
        self.key = key
        self.value = value

    def holds(self, node):
        """Whether the condition holds for a node."""
        raise NotImplementedError

    def satisfied_by_node(self, node):
        return SatisfiedResult("success" if self.holds(node) else "Refused", self, node, ["no"])

    def to_dict(self):
        return {"twin": {self.key: str(self.value)}}

    def __str__(self):
        return f"Twin({self.key}: {self.value})"


class Amount(Twin):
    """A number or size that is used up."""

    def _needed(self, available):
        if isinstance(self.value, str):
            return Size.value_of(self.value)
        return Size(self.value, available.magnitude) if isinstance(available, Size) else self.value

    def _times(self, node):
        available = node.available.get(self.key)
        if not isinstance(available, (int, float, Size)):
            return 0
        needed = float(self._needed(available))
        if needed == 0:
            return 2**31 if float(available) >= 0 else 0
        return floor(float(available) / needed + 1e-9)

    def holds(self, node):
        return self._times(node) >= 1

    def minimum_space(self, node):
        return self._times(node)

    def do_decrement(self, node):
        if not self.holds(node):
            return False
        available = node.available[self.key]
        rest = available - self._needed(available)
        node.available[self.key] = round(rest, 9) if isinstance(rest, float) else rest
        return True


class Preference(Twin):
    """A value of which earlier ones are preferred."""

    def values(self):
        """The values."""
        return self.value if isinstance(self.value, list) else [self.value]

    def target(self, node):
        """What the node has; KeyError when it has nothing of the kind."""
        raise NotImplementedError

    def index(self, node):
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

    def holds(self, node):
        return self.index(node) is not None

    def weight_buckets(self, bucket_weights):
        return [(bucket, self.weight(bucket, weight)) for bucket, weight in bucket_weights]

    def weight(self, bucket, weight):
        """The weight of a bucket afterwards."""
        index = self.index(bucket.example_node)
        return 0 if index is None else weight + 100 * (len(self.values()) - index)


class Resource(Preference):
    """A resource with one of some values."""

    def target(self, node):
        return node.available[self.key]


class Property(Preference):
    """A property with one of some values."""

    def target(self, node):
        return getattr(node, self.key.removeprefix("node."))

    def weight(self, bucket, weight):
        return 0 if weight == 0 else super().weight(bucket, weight)


class Exclusive(Twin):
    """A node for itself."""

    def holds(self, node):
        return not self.value or not (node.assignments or node.closed)

    def do_decrement(self, node):
        if self.value:
            node.closed = True
        return True


class Grouped(Twin):
    """In a placement group, or in none."""

    def holds(self, node):
        return bool(node.placement_group) == self.value


class Nowhere(Twin):
    """Nowhere."""

    def holds(self, node):
        return False


TWINS = {
    "number": Amount,
    "size": Amount,
    "resource": Resource,
    "property": Property,
    "exclusive": Exclusive,
    "exclusive-task": Exclusive,
    "in-a-placement-group": Grouped,
    "never": Nowhere,
}
"""By kind. The published protocol cannot say of new nodes what does not hold for those that are there, so that there is none
of the capacity failures."""


LEVELS = ("opaque", "declared", "lowered")


def reads_of(key):
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


def lowered(twin):
    """The class of a twin with a meaning: that of the built-in constraint."""

    def lower(self):
        return get_constraint({self.key: self.value}).lower()

    return type(f"Lowered{twin.__name__}", (twin,), {"lower": lower})


def declared(twin):
    """The class of a twin that says what it reads."""

    def __init__(self, key, value):
        twin.__init__(self, key, value)
        self.reads = reads_of(key)

    more = {"__init__": __init__, "monotone": twin is Amount}
    return type(f"Declared{twin.__name__}", (twin,), more)


TWINS_OF = {
    "opaque": TWINS,
    "declared": {kind: declared(twin) for kind, twin in TWINS.items()},
    "lowered": {kind: lowered(twin) for kind, twin in TWINS.items()},
}


def with_twins(seed, share, level="opaque"):
    """A way to express constraints in which a share of the leaves are twins: the same ones each time. `level`: one of
    LEVELS, or "mixed".

    None where the published protocol does not say the same as the engine; see `entangled`.
    """

    def choose(key, value):
        random = Random(f"{seed} {key} {value}")
        if random.random() >= share:
            return {}
        return TWINS_OF[random.choice(LEVELS) if level == "mixed" else level]

    def express(world, constraints):
        if entangled(constraints):
            return with_pools(world, constraints)
        return [
            replaced(choose, constraint, pooled(world, constraint)) for constraint in constraints
        ]

    return express


def replaced(choose, constraint, given):
    """One constraint, at any depth; `given` is what it is where it is not replaced."""
    made = {}
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
