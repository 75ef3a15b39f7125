"""Refusals: codes with facts, and sentences made of them on demand."""

import pytest

from hpc.autoscale.packing import reject as module
from hpc.autoscale.packing.reject import Reject, summarise


def test_a_refusal_is_false_and_equal_to_its_like():
    """Code and facts are what it is."""
    one = Reject("InsufficientResource", "ncpus", "1", "4")
    assert not one
    assert one == Reject("InsufficientResource", "ncpus", "1", "4")
    assert hash(one) == hash(Reject("InsufficientResource", "ncpus", "1", "4"))
    assert one != Reject("InsufficientResource", "ncpus", "1", "5")
    assert one != Reject("UndefinedResource", "ncpus", "1", "4")
    assert one != "InsufficientResource"


def test_the_sentence_begins_with_the_code_and_the_subject():
    """What was refused, and why, with figures."""
    refused = Reject("InsufficientResource", "ncpus", "1", "4")
    assert refused.explain() == "InsufficientResource: has 1 of 'ncpus', and 4 is needed"
    assert (
        refused.explain("Node(htc-1)")
        == "InsufficientResource: Node(htc-1) has 1 of 'ncpus', and 4 is needed"
    )
    assert repr(refused) == f"Reject({refused.explain()!r})"


def test_an_unknown_code_says_its_facts():
    """A code of somebody else's is not an error."""
    assert Reject("Strange", 1, "two").explain() == "Strange: 1 two"
    assert Reject("Strange").explain() == "Strange: "


def test_facts_may_be_refusals():
    """Then their sentences are what is said."""
    assert "NodeClosed: is closed" in Reject("Never", Reject("NodeClosed")).explain()


FACTS = {
    "CapacityFailureBackoff": (12.5, 300.0),
    "SharedLimitReached": ("licences", "2", "3"),
    "GangTooLarge": (4, 2, "nodes", ": why"),
}


@pytest.mark.parametrize("code", sorted(module._TEMPLATES))
def test_every_sentence_can_be_said(code):
    """Each published code has a sentence that takes its facts."""
    facts = FACTS.get(code, ("one", "two", "three"))
    said = Reject(code, *facts).explain("Node(htc-1)")
    assert said.startswith(f"{code}: Node(htc-1) ")
    assert "{" not in said


def test_equal_refusals_are_said_once():
    """In the order of first appearance, with how many they stand for."""
    full, closed = Reject("NodesFull", 3), Reject("NodeClosed")
    said = summarise([("a", full), ("b", closed), ("c", full), ("d", full)])
    assert said == [
        "NodesFull: a has 3 nodes, none of which has room for it (and 2 more alike)",
        "NodeClosed: b is closed",
    ]


@pytest.mark.parametrize(("count", "limit"), [(5, 5), (6, 5), (100, 5), (3, 1)])
def test_there_are_at_most_so_many_sentences(count, limit):
    """The last one says how many reasons are left out."""
    said = summarise([(f"s{i}", Reject("NodesFull", i)) for i in range(count)], limit)
    assert len(said) == min(count, limit)
    if count > limit:
        assert said[-1] == f"… and {count - limit + 1} other reasons"


def test_nothing_refused_is_nothing_said():
    """No refusals, no sentences."""
    assert summarise([]) == []
