"""What a wish says of dynamic arrays is recorded so that each definition says all by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.requestsets.definitions import RequestError, read_arrays
from hpc.autoscale.requestsets.extending import (
    DRIVERS_WISH,
    DriversWish,
    completed,
    standing_sets,
)
from hpc.autoscale.requestsets.store import RequestSet


def an_array(name, extends=None, **more):
    """The definition of a dynamic array."""
    return {"Name": name, "Dynamic": True, **({"Extends": extends} if extends else {}), **more}


def a_set(name, *arrays):
    """A request set that stands."""
    return RequestSet(name, 0, 300, list(arrays))


def test_what_is_not_dynamic_stays_as_it_is():
    """Down to the order of its keys."""
    arrays = [{"Name": "execute", "TargetCount": 1, "Owner": "me"}, {"Name": "gpu"}]
    assert completed(arrays, "s", []) == arrays


def test_a_chain():
    """Takes over what the arrays say that it extends, the nearest first, and how much nobody."""
    arrays = [
        an_array("a", "b", TargetCount=1, Configuration={"x": 1}),
        an_array("b", "c", TargetCount=2, Owner="b", Configuration={"x": 2, "y": 2}),
        an_array("c", "execute", TargetCount=3, Owner="c", ImageName="i"),
    ]
    a, b, c = completed(arrays, "s", [])
    assert c == arrays[2]
    assert b == {**arrays[1], "ImageName": "i", "Extends": ["c", "execute"]}
    assert a == {
        **arrays[0],
        "Owner": "b",
        "ImageName": "i",
        "Configuration": {"x": 1, "y": 2},
        "Extends": ["b", "c", "execute"],
    }


def test_an_array_of_another_set():
    """May be extended, and wanted by its name alone."""
    others = [a_set("other", an_array("b", "execute", Owner="b", TargetCount=7))]
    assert completed([an_array("a", "b")], "s", others) == [
        an_array("a", ["b", "execute"], Owner="b")
    ]
    assert completed([{"Name": "b", "TargetCount": 1}], "s", others) == [
        an_array("b", "execute", Owner="b", TargetCount=1)
    ]


def test_ones_own_definition_comes_first():
    """Before that of another set, when an update leaves something out."""
    known = [a_set("a", an_array("x", "e", Owner="a")), a_set("z", an_array("x", "e", Owner="z"))]
    (made,) = completed([{"Name": "x", "TargetCoreCount": 3}], "z", known)
    assert made == an_array("x", "e", Owner="z", TargetCoreCount=3)


def test_a_definition_with_extends_takes_the_place_of_the_one_that_stands():
    """So something can be left out for good."""
    known = [a_set("s", an_array("x", "execute", Owner="me"))]
    assert completed([an_array("x", "execute")], "s", known) == [an_array("x", "execute")]


@pytest.mark.parametrize(
    ("arrays", "others", "said"),
    [
        ([an_array("a", "a")], [], "found a -> a"),
        ([an_array("a", "b"), an_array("b", "a")], [], "found a -> b -> a"),
        ([an_array("x", "a"), an_array("a", "b"), an_array("b", "a")], [], "x -> a -> b -> a"),
        ([an_array("b", "a")], [a_set("o", an_array("a", ["b", "e"]))], "b -> a -> b -> e"),
        ([an_array("a")], [], "Extends: expected the nodearray that it is made of"),
        ([{"Name": "a", "Extends": "e"}], [], "expected Dynamic: true beside it"),
        ([an_array("a", ["b", "c"])], [], "expected one name, found ['b', 'c']"),
        (
            [an_array("a", "e")],
            [a_set("o", an_array("a", "f"))],
            "expected 'f', which it extends in request set o, found 'e'",
        ),
        (
            [an_array("e:64", "f"), {"Name": "e", "TargetGroupCount": 1, "GroupCoreCount": 64}],
            [],
            "nodearray e:64: Extends: expected 'f', which it extends in request set this one",
        ),
        (
            [{"Name": "e", "TargetGroupCount": 1, "GroupCoreCount": 64}],
            [a_set("o", an_array("e:64", "f"))],
            "expected 'f', which it extends in request set o, found 'e'",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(arrays, others, said):
    """That names the array."""
    with pytest.raises(RequestError) as error:
        completed(arrays, "s", others)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


names = st.sampled_from("abcd")
wishes = st.lists(
    st.builds(
        lambda name, extends, owner: an_array(name, extends, **({"Owner": owner} if owner else {})),
        names,
        st.sampled_from([*"abcd", "execute", None]),
        st.sampled_from(["", "me"]),
    ),
    max_size=4,
    unique_by=lambda one: one["Name"],
)


@given(wishes, wishes)
def test_what_is_recorded_can_be_read_and_said_again(first, second):
    """No array extends itself, and to say the same again changes nothing."""
    sets = []
    for name, wish in (("one", first), ("two", second)):
        try:
            made = completed(wish, name, sets)
        except RequestError:
            continue
        requests = read_arrays(made)
        if any(request.base != "execute" for request in requests):
            continue  # what the cluster does not have is refused
        assert all(request.name not in request.extends for request in requests)
        again = completed(wish, name, [*sets, a_set(name, *made)])
        assert again == made
        sets.append(a_set(name, *made))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"Name": "htc", "TargetCount": -1}, r"arrays\[0\] \(htc\): TargetCount: expected a whole"),
        (an_array("d"), "nodearray d: Extends: expected the nodearray that it is made of"),
    ],
)
def test_a_mistake_in_what_a_driver_wants_names_the_driver(tmp_path, wanted, said):
    """Nobody has reported anything, and a pass ends because of it."""
    config = {
        "requestsetsdb": str(tmp_path / "sets.db"),
        DRIVERS_WISH: DriversWish("grid", lambda: [wanted]),
    }
    with pytest.raises(RequestError, match=f"^grid: wanted_arrays: {said}"):
        standing_sets(config, "")
