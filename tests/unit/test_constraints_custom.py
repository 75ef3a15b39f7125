"""Constraints of integrations, and what the engine is given of a list of constraints."""

import subprocess
import sys

import pytest

from builders.constraints import Owned, a_bucket_with, a_node_with
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.constraints import (
    And,
    BaseNodeConstraint,
    ExclusiveNode,
    LoweredConstraint,
    MinResourcePerNode,
    Never,
    NodeConstraint,
    NodeResourceConstraint,
    Not,
    Or,
    SharedConsumableConstraint,
    SharedConsumableResource,
    XOr,
    compile_constraints,
    get_constraints,
)
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import AnyNode, Impossible, MinResource
from hpc.autoscale.results import SatisfiedResult

OVERRIDES = {
    "satisfied_by_node": lambda self, node: SatisfiedResult("No", self, node),
    "satisfied_by_bucket": lambda self, bucket: SatisfiedResult("No", self, bucket),
    "do_decrement": lambda self, node: False,
    "minimum_space": lambda self, node: 1,
    "weight_buckets": lambda self, weights: weights[::-1],
}
BASES = [
    (MinResourcePerNode, ("ncpus", 1)),
    (NodeResourceConstraint, ("owner", "a")),
    (ExclusiveNode, ()),
    (And, ({"a": 1}, {"b": 1})),
    (Or, ({"a": 1}, {"b": 1})),
    (XOr, ({"a": 1}, {"b": 1})),
    (Not, ({"a": 1},)),
    (SharedConsumableConstraint, ([SharedConsumableResource("lic", "q", 9, 5)], 1)),
]


@pytest.mark.parametrize(("base", "args"), BASES, ids=lambda x: getattr(x, "__name__", ""))
@pytest.mark.parametrize("name", OVERRIDES)
def test_override_makes_opaque(base, args, name):
    """A subclass that overrides any answer is asked itself, alone and within a composite."""
    custom = type("Custom", (base,), {name: OVERRIDES[name]})(*args)
    assert custom.lower() is None
    assert And(custom, {"a": 1}).lower() is None
    compiled = compile_constraints([custom, MinResourcePerNode("ncpus", 2)])
    assert compiled.opaque == (custom,)
    assert compiled.pooled == ()
    assert compiled.expr == MinResource("ncpus", 2)


def test_override_in_a_mixin_makes_opaque():
    """Wherever the answer comes from."""

    class Mixin:
        def do_decrement(self, node):
            return True

    class Custom(Mixin, MinResourcePerNode):
        pass

    class Derived(Custom):
        pass

    assert Custom("ncpus", 1).lower() is None
    assert Derived("ncpus", 1).lower() is None


def test_subclass_without_an_answer_of_its_own():
    """Another constructor or text does not change what a constraint means."""

    class Cores(MinResourcePerNode):
        def __init__(self, cores):
            super().__init__("ncpus", cores)

        def __str__(self):
            return f"{self.value} cores"

    assert Cores(2).lower() == MinResource("ncpus", 2)


def test_subclass_that_lowers_itself():
    """Who overrides an answer may say again what it means."""

    class Stopped(MinResourcePerNode):
        def satisfied_by_node(self, node):
            return SatisfiedResult("Stopped", self, node)

        def lower(self):
            return Impossible("stopped")

    assert Stopped("ncpus", 1).lower() == Impossible("stopped")


def test_super_works_in_an_opaque_subclass():
    """An override may still ask the class that it extends."""

    class Twice(MinResourcePerNode):
        def minimum_space(self, node):
            return super().minimum_space(node) // 2

        def do_decrement(self, node):
            return super().do_decrement(node) and super().do_decrement(node)

    node = a_node_with(ncpus=5)
    assert Twice("ncpus", 1).satisfied_by_node(node)
    assert Twice("ncpus", 1).minimum_space(node) == 2
    assert Twice("ncpus", 1).do_decrement(node)
    assert node.available["ncpus"] == 3


class Unchecked(BaseNodeConstraint):
    """Takes one of a resource each time, and does not look whether it is there."""

    def __init__(self, attr):
        self.attr = attr

    def satisfied_by_node(self, node):
        return SatisfiedResult("success", self, node)

    def minimum_space(self, node):
        return int(float(node.available[self.attr]) // float(self.one(node)))

    def do_decrement(self, node):
        node.available[self.attr] -= self.one(node)
        return True

    def one(self, node):
        """The amount that it takes."""
        has = node.available[self.attr]
        return Memory(1, has.magnitude) if isinstance(has, Memory) else 1

    def to_dict(self):
        return {"unchecked": self.attr}

    def __str__(self):
        return "Unchecked"


@pytest.mark.parametrize("has", [8, 8.0, Memory(8, "g")])
@pytest.mark.parametrize("first", [True, False])
def test_what_both_take_must_be_there_for_both(has, first):
    """Of a resource that a constraint of an integration takes from too, no more is used than there
    is, whichever stands first."""
    node, both = a_node_with(a=has, b=0.3), [Unchecked("a"), MinResourcePerNode("a", 2)]
    taken = [MinResourcePerNode("b", 0.1), *(both if first else both[::-1])]
    assert node.decrement(taken, 9).total_slots == 2
    assert float(node.available["a"]) == float(has) / 4
    again = node.decrement(taken, 1)
    assert again.status == "NodeRejected" and float(node.available["a"]) == float(has) / 4


def test_a_constraint_written_as_an_expression():
    """An integration that says what it means gets every answer for it."""

    class Tokens(LoweredConstraint):
        def __init__(self, count):
            self.count = count

        def expression(self):
            return MinResource("tokens", self.count)

        def to_dict(self):
            return {"tokens": self.count}

        def __str__(self):
            return f"{self.count} tokens"

    assert compile_constraints([Tokens(2)]).expr == MinResource("tokens", 2)
    assert Tokens(2).satisfied_by_node(a_node_with(tokens=2))
    assert Tokens(2).satisfied_by_bucket(a_bucket_with(tokens=1)).status == "InsufficientResource"


def test_what_the_base_class_answers():
    """The published defaults."""
    owned = Owned("me")
    bucket = a_bucket_with(owner="me")
    assert owned.satisfied_by_bucket(bucket)
    assert list(owned.get_children()) == []
    assert owned.weight_buckets([(bucket, 1.0)]) == [(bucket, 1.0)]
    assert owned.lower() is None
    assert owned.reads is None
    assert BaseNodeConstraint.minimum_space(owned, a_node_with()) == -1
    assert BaseNodeConstraint.do_decrement(owned, a_node_with()) is True
    with pytest.raises(TypeError):
        NodeConstraint()


def test_equality_is_that_of_the_dicts():
    """Whatever the class; and no constraint can be hashed."""

    class Other:
        def to_dict(self):
            return {"ncpus": 1}

    assert MinResourcePerNode("ncpus", 1) == Other()
    assert MinResourcePerNode("ncpus", 1) != MinResourcePerNode("ncpus", 2)
    assert MinResourcePerNode("ncpus", 1) != {"ncpus": 1}
    with pytest.raises(TypeError):
        hash(Never("x"))


def test_compiling_sorts():
    """Expressions, pooled and opaque constraints, also from within an And at the top."""
    pooled = SharedConsumableConstraint([SharedConsumableResource("lic", "q", 9, 5)], 1)
    mine, yours = Owned("me"), Owned("you")
    hidden = Or(pooled, {"a": 1})
    constraints = [
        *get_constraints([{"a": 1}]),
        mine,
        And({"b": 1}, pooled, And(yours, {"c": 1})),
        hidden,
    ]
    compiled = compile_constraints(constraints)
    assert compiled.expr == AllOf([MinResource(name, 1) for name in "abc"])
    assert compiled.pooled == (pooled,)
    assert compiled.opaque == (mine, yours, hidden)
    assert compiled.constraints == tuple(constraints)


def test_compiling_nothing():
    """No constraints mean one slot per node; none that is an expression means any number."""
    assert compile_constraints([]).expr == AnyNode()
    assert compile_constraints([Owned("me")]).expr == AllOf(())
    assert compile_constraints([And()]).expr == AllOf(())
    assert compile_constraints([ExclusiveNode(is_exclusive=False)]).expr == AllOf(())


@pytest.mark.parametrize(
    "module",
    ["base", "composites", "conditions", "parse", "pools", "shared"],
)
def test_any_module_can_be_imported_first(module):
    """No import depends on another one having been made before."""
    name = f"hpc.autoscale.node.constraints.{module}"
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True, timeout=60)
