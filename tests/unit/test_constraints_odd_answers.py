"""Constraints of integrations that answer with something else than is published: errors that say
which class, what was expected and what was found."""

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.node.constraints import And, BaseNodeConstraint, Not, Or
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.results import InvalidResultError, SatisfiedResult


class Odd(BaseNodeConstraint):
    """Answers as it is told."""

    def __init__(self, **answers):
        self.answers = answers

    def satisfied_by_node(self, node):
        return self.answers.get("node", SatisfiedResult("success", self, node))

    def minimum_space(self, node):
        return self.answers.get("space", -1)

    def weight_buckets(self, bucket_weights):
        return self.answers.get("weights", bucket_weights)

    def to_dict(self):
        return {"odd": True}

    def __str__(self):
        return "Odd"


class OddDeclared(Odd):
    """One that says what it reads."""

    reads = frozenset({"resources.ncpus"})

    def __init__(self, node):
        self.answer = node

    @property
    def answers(self):
        return {"node": self.answer}


def allocated(constraint):
    """What a cluster with a running node and room for more has for it."""
    binding = MockClusterBinding("clusty")
    binding.add_nodearray("htc", {})
    binding.add_bucket("htc", "Standard_F4", 10, 10)
    binding.add_node("htc-1", "htc")
    return new_node_manager({"_mock_bindings": binding}).allocate([constraint], slot_count=20)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"node": False}, "expected a SatisfiedResult from satisfied_by_.*, found False"),
        ({"node": None}, "expected a SatisfiedResult from satisfied_by_.*, found None"),
        ({"space": None}, "expected a whole number .* from minimum_space, found None"),
        ({"space": 1.5}, "expected a whole number .* from minimum_space, found 1.5"),
        ({"weights": None}, "expected a list of .* pairs from weight_buckets, found None"),
        ({"weights": [1]}, r"expected a list of .* pairs from weight_buckets, found \[1\]"),
        ({"weights": [("b", None)]}, "expected a list of .* pairs from weight_buckets"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda c: c, lambda c: And(c, {"ncpus": 1})])
def test_odd_answers(answers, said, wrap):
    """Of a constraint by itself, and of one among others."""
    with pytest.raises(InvalidResultError, match=rf"constraint .*\.Odd: {said}"):
        allocated(wrap(Odd(**answers)))


@pytest.mark.parametrize("odd", [False, None])
@pytest.mark.parametrize(
    "wrap", [lambda c: Or(c, {"ncpus": 1}), Not, lambda c: OddDeclared(c.answers["node"])]
)
def test_odd_refusals_within_others(odd, wrap):
    """A refusal that is no result, wherever it is asked for; an alternative may do without it."""
    with pytest.raises(InvalidResultError, match="expected a SatisfiedResult"):
        allocated(wrap(Odd(node=odd)))


def test_true_is_an_answer():
    """It always did; a success has nothing to tell."""
    result = allocated(Odd(node=True, space=3))
    assert result.total_slots == 20
