"""Containers that report when they are written to."""

import copy
import json
import pickle

import pytest

from builders.nodes import a_planned_node
from hpc.autoscale.node.node.contents import (
    Amounts,
    ReadOnlyShellDict,
    ShellAmounts,
    TrackedDict,
    TrackedSet,
    TrackedShellDict,
)


class Owner:
    """Whoever hears of writes."""

    times = 0
    _shape = None

    def _changed(self, what, amount=None):
        self.times += 1


@pytest.fixture
def told():
    """An owner that counts how often it was told, in `told.times`."""
    return Owner()


WRITES_TO_A_DICT = {
    "d[k] = v": lambda d: d.__setitem__("a", 2),
    "del d[k]": lambda d: d.__delitem__("a"),
    "update": lambda d: d.update(b=2),
    "|=": lambda d: d.__ior__({"b": 2}),
    "setdefault": lambda d: d.setdefault("b", 2),
    "pop": lambda d: d.pop("a"),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
}

WRITES_TO_A_SET = {
    "add": lambda s: s.add("b"),
    "remove": lambda s: s.remove("a"),
    "discard": lambda s: s.discard("a"),
    "pop": lambda s: s.pop(),
    "clear": lambda s: s.clear(),
    "update": lambda s: s.update(["b"]),
    "-=": lambda s: s.__isub__({"a"}),
    "|=": lambda s: s.__ior__({"b"}),
    "&=": lambda s: s.__iand__(set()),
    "^=": lambda s: s.__ixor__({"b"}),
    "difference_update": lambda s: s.difference_update(["a"]),
    "intersection_update": lambda s: s.intersection_update([]),
    "symmetric_difference_update": lambda s: s.symmetric_difference_update(["b"]),
}


@pytest.mark.parametrize("cls", [TrackedDict, Amounts])
@pytest.mark.parametrize("write", WRITES_TO_A_DICT.values(), ids=list(WRITES_TO_A_DICT))
def test_a_dict_reports_each_write_and_does_it(told, write, cls):
    """It ends up as a plain dict would."""
    tracked, plain = cls({"a": 1}, told), {"a": 1}
    write(tracked)
    write(plain)
    assert tracked == plain
    assert told.times == 1


@pytest.mark.parametrize("write", WRITES_TO_A_SET.values(), ids=list(WRITES_TO_A_SET))
def test_a_set_reports_each_write_and_does_it(told, write):
    """It ends up as a plain set would."""
    tracked, plain = TrackedSet({"a"}, told), {"a"}
    write(tracked)
    write(plain)
    assert tracked == plain
    assert told.times == 1


def test_a_write_that_fails_is_reported_too(told):
    """Part of it may have been done."""
    with pytest.raises(KeyError):
        TrackedDict({}, told).pop("a")
    assert told.times == 1


def test_reading_reports_nothing(told):
    """Neither does making a new container of one."""
    d, s = TrackedDict({"a": 1}, told), TrackedSet({"a"}, told)
    assert (d["a"], d.get("b"), dict(d), list(d), d | {"b": 2}) == (
        1,
        None,
        {"a": 1},
        ["a"],
        {"a": 1, "b": 2},
    )
    assert ("a" in s, s | {"b"}, s - {"a"}, len(s)) == (True, {"a", "b"}, set(), 1)
    assert told.times == 0


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_copies_are_plain(told, copied):
    """A copy reports to nobody, and shares nothing with the original when it is deep."""
    d = copied(TrackedDict({"a": [1]}, told))
    s = copied(TrackedSet({"a"}, told))
    assert (type(d), d, type(s), s) == (dict, {"a": [1]}, set, {"a"})
    assert (type(TrackedDict({}, told).copy()), type(TrackedSet((), told).copy())) == (dict, set)


def test_they_print_and_dump_as_plain_ones(told):
    """Nobody who looks at them needs to know."""
    assert repr(TrackedDict({"a": 1}, told)) == "{'a': 1}"
    assert repr(TrackedSet({"a"}, told)) == "{'a'}"
    assert json.dumps(TrackedDict({"a": 1}, told)) == '{"a": 1}'


def test_a_shell_dict_has_attributes_and_reports_still(told):
    """Also when an item is called like one of its own attributes."""
    d = TrackedShellDict({"a b": 1, "owner": 2}, told)
    d["c"] = 4
    assert (d.a_b, told.times) == (1, 1)
    amounts = ShellAmounts(Amounts({"a b": 1, "shape": 2}, told), told)
    assert (amounts.a_b, amounts["shape"], amounts.shape) == (1, 2, None)


def test_totals_in_the_shell():
    """Readable by attribute, and not to be written to."""
    view = ReadOnlyShellDict({"ncpus": 4, "a-b": 1})
    assert (view.ncpus, view.a_b, view["ncpus"]) == (4, 1, 4)
    for write in WRITES_TO_A_DICT.values():
        with pytest.raises(TypeError):
            write(view)
    assert view == {"ncpus": 4, "a-b": 1}


class Listener:
    """A bucket that only listens."""

    is_bound = False

    def __init__(self, node):
        self.heard = 0
        self.used, self.uncounted = set(), set()
        node.__dict__.update(_home=self, _position=0)

    def written(self, node, what, amount):
        self.heard += 1


@pytest.mark.parametrize(
    "write",
    [
        lambda n: n.available.update(ncpus=1),
        lambda n: n.available.__setitem__("ncpus", 1),
        lambda n: n._resources.update(ncpus=1),
        lambda n: n.assign("job"),
        lambda n: n.assignments.add("job"),
        lambda n: setattr(n, "state", "Failed"),
        lambda n: setattr(n, "target_state", "Started"),
        lambda n: setattr(n, "exists", True),
        lambda n: setattr(n, "closed", True),
        lambda n: setattr(n, "required", True),
        lambda n: setattr(n, "keep_alive", True),
        lambda n: setattr(n, "placement_group", "pg0"),
        lambda n: setattr(n, "_Node__nodearray", "hpc"),
        lambda n: setattr(n, "_Node__private_ip", "10.0.0.4"),
    ],
)
def test_whatever_may_change_a_decision_is_heard_of(write):
    """Public or by its mangled private name."""
    node = a_planned_node()
    listener = Listener(node)
    write(node)
    assert listener.heard >= 1


def test_an_attribute_that_was_never_set_is_missing():
    """As with any other attribute: `getattr` with a default gives the default."""
    node = type(a_planned_node()).__new__(type(a_planned_node()))
    assert getattr(node, "metadata", "none yet") == "none yet"
