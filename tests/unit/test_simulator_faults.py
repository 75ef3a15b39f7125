"""When ordered faults happen."""

import random

import pytest

from hpc.autoscale.simulator.errors import BadRequest, DescriptionError
from hpc.autoscale.simulator.faults import FaultBook


def a_book(*faults, seed=0):
    """Faults for a server with clusters c1 and c2."""
    book = FaultBook([], ["c1", "c2"], random.Random(seed))
    book.add(*faults)
    return book


def kinds(book, calls, endpoint="create_nodes", cluster="c1"):
    """What happens to so many calls in a row."""
    faults = [book.next(endpoint, cluster) for _ in range(calls)]
    return [fault and fault.kind for fault in faults]


def test_without_more_every_call_goes_wrong():
    """The simplest order."""
    assert kinds(a_book({"kind": "html"}), 3) == ["html"] * 3


def test_calls_are_counted_from_one():
    """Since the fault was installed, and only those of the endpoint."""
    book = a_book({"kind": "lost_reply", "endpoint": "create_nodes", "calls": [1, 3]})
    assert kinds(book, 2, endpoint="get_nodes") == [None, None]
    assert kinds(book, 4) == ["lost_reply", None, "lost_reply", None]


def test_times_ends_a_fault():
    """After so many, calls are answered."""
    assert kinds(a_book({"kind": "status", "times": 2}), 4) == ["status", "status", None, None]


def test_probability_depends_on_the_seed_only():
    """The same seed, the same luck."""
    fault = {"kind": "status", "probability": 0.5}
    first = kinds(a_book(fault), 50)
    assert first == kinds(a_book(fault), 50)
    assert 5 < first.count("status") < 45


def test_verbs_and_clusters_narrow_a_fault():
    """POST is every change; another cluster is not concerned."""
    book = a_book({"kind": "status", "endpoint": "POST", "cluster": "c2"})
    assert book.next("get_nodes", "c2") is None
    assert book.next("scale", "c1") is None
    assert book.next("scale", "c2").kind == "status"


def test_the_first_whose_turn_it_is_happens():
    """Later ones still count the call."""
    book = a_book({"kind": "html", "calls": [1]}, {"kind": "status", "calls": [2]})
    assert kinds(book, 2) == ["html", "status"]


def test_faults_are_reported_with_what_they_did():
    """Seen and fired."""
    book = a_book({"kind": "html", "calls": [2]})
    kinds(book, 3)
    assert book.report() == [{"kind": "html", "endpoint": "*", "seen": 3, "fired": 1}]
    book.clear()
    assert book.report() == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({}, "faults[0].kind: expected one of lost_reply"),
        ({"kind": "html", "endpoint": "create"}, "faults[0].endpoint: expected one of"),
        ({"kind": "html", "cluster": "c3"}, 'the name of a cluster, found "c3"'),
        ({"kind": "html", "status": 500}, "only for kind status"),
        ({"kind": "lost_reply", "acts": False}, "only for kind status and html"),
        ({"kind": "status", "status": 600}, "an HTTP status, 200 to 599"),
        ({"kind": "status", "retry_after": "soon\n"}, "seconds or an HTTP date"),
        ({"kind": "html", "calls": [0]}, "faults[0].calls[0]: expected a whole number, 1 or more"),
        ({"kind": "html", "probability": 1.5}, "between 0 and 1"),
        ({"kind": "html", "tmies": 1}, "did you mean 'times'?"),
        ("html", "faults[0]: expected a JSON object"),
    ],
)
def test_wrong_faults_are_refused(fault, said):
    """In one line, as the error that the place they come from wants."""
    for error in (BadRequest, DescriptionError):
        with pytest.raises(error) as caught:
            FaultBook([], ["c1"], random.Random(0)).add(fault, error=error)
        assert said in str(caught.value)


def test_one_wrong_fault_installs_none():
    """All or nothing."""
    book = a_book()
    with pytest.raises(DescriptionError):
        book.add({"kind": "html"}, {"kind": "?"})
    assert book.report() == []
