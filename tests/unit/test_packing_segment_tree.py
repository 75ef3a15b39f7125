"""A tree of maxima finds the position that a linear scan finds."""

import math

from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.packing.segment_tree import NodeIndex, Reading, Staircase
from hpc.autoscale.packing.shape import ShapeTable

AMOUNTS = st.one_of(st.integers(0, 4), st.just(math.inf), st.none())
NAMES = ("x", "y")
STEPS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 5), st.tuples(AMOUNTS, AMOUNTS)), max_size=15
)


class Scan:
    """The same as the tree, plainly."""

    def __init__(self):
        self.table = ShapeTable()
        self.template = self.table.template({}, {})
        self.shapes = []

    def shape(self, amounts):
        """A shape with these amounts; None when there is none of one."""
        if None in amounts:
            return None
        return self.table.shape(self.template, dict(zip(NAMES, amounts, strict=True)))

    def set(self, lo, hi, shape):
        """Positions lo … hi-1, new ones among them, have this shape now."""
        self.shapes += [None] * (hi - len(self.shapes))
        self.shapes[lo:hi] = [shape] * (hi - lo)

    def first(self, start, needs):
        """The first position from `start` on that meets every need, or -1."""
        for position in range(start, len(self.shapes)):
            amounts = [Reading(name, None)(self.shapes[position]) for name, _ in needs]
            if all(a >= n for a, (_, n) in zip(amounts, needs, strict=True)):
                return position
        return -1


def filled(steps, track_at):
    """A tree, its maxima by resource, and a scan after the same steps; the tree learns of its
    resources after some."""
    scan = Scan()
    tree, readings = NodeIndex(scan.shapes), {name: Reading(name, None) for name in NAMES}
    for index, (lo, count, amounts) in enumerate(steps):
        for name, when in zip(NAMES, track_at, strict=True):
            if when == index:
                tree.track(readings[name])
        lo = min(lo, len(scan.shapes))  # new positions come after the last
        shape = scan.shape(amounts)
        scan.set(lo, lo + count, shape)
        tree.late.update(range(lo, lo + count))
    for name, when in zip(NAMES, track_at, strict=True):
        if when >= len(steps):
            tree.track(readings[name])
    return tree, {name: known.tree for name, known in readings.items()}, scan


@given(
    STEPS,
    st.tuples(st.integers(0, 15), st.integers(0, 15)),
    st.integers(0, 20),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 5)), min_size=1, max_size=3),
)
def test_finds_what_a_scan_finds(steps, track_at, start, needs):
    """The tree's candidate is where all needs of a scan are met, wherever the search begins."""
    tree, maxima, scan = filled(steps, track_at)
    found = tree.first(start, [(maxima[name], amount) for name, amount in needs])
    assert found == scan.first(start, needs)


@given(STEPS, st.integers(1, 5))
def test_finds_all_in_order(steps, amount):
    """Asked again behind each answer, it names every position with room once, from first to
    last."""
    tree, maxima, scan = filled(steps, (0, 0))
    found, position = [], 0
    needs = [(maxima["x"], amount)]
    while (position := tree.first(position, needs)) >= 0:
        found.append(position)
        position += 1
    enough = [
        i for i, shape in enumerate(scan.shapes) if shape is not None and shape.free["x"] >= amount
    ]
    assert found == enough


def test_an_empty_tree_has_no_room():
    """Nothing is found where there is nothing, nor behind the last."""
    tree, reading = NodeIndex([]), Reading("x", None)
    tree.track(reading)
    needs = [(reading.tree, 1)]
    assert tree.first(0, needs) == -1
    assert tree.first(7, needs) == -1


NUMBERS = st.integers(0, 4)
PAIRS = st.tuples(NUMBERS, NUMBERS)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("search"), st.integers(0, 8), PAIRS),
        st.tuples(st.just("append"), st.integers(1, 3), PAIRS),
        st.tuples(st.just("take"), st.integers(0, 8), PAIRS),
        st.tuples(st.just("write"), st.integers(0, 8), PAIRS),
    ),
    max_size=40,
)


@given(CHANGES)
def test_who_asks_for_more_begins_where_others_ended(changes):
    """Searches that share what they know find what a scan finds, while nodes come, have less, and
    have more again."""
    scan = Scan()
    tree, readings = NodeIndex(scan.shapes), {name: Reading(name, None) for name in NAMES}
    for reading in readings.values():
        tree.track(reading)
    for kind, number, amounts in changes:
        if kind == "search":
            needs = [(readings[name].tree, n) for name, n in zip(NAMES, amounts, strict=True)]
            searched = tree.staircase(amounts[0])
            expected = scan.first(number, list(zip(NAMES, amounts, strict=True)))
            assert tree.first(number, needs, searched) == expected
        elif kind == "append":
            scan.set(len(scan.shapes), len(scan.shapes) + number, scan.shape(amounts))
        elif number < len(scan.shapes):
            free = scan.shapes[number].free
            if kind == "take":
                amounts = [max(0, free[name] - n) for name, n in zip(NAMES, amounts, strict=True)]
            else:
                tree.forget_searches(number)
            scan.set(number, number + 1, scan.shape(tuple(amounts)))
            tree.late.add(number)


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 9)), max_size=12), NUMBERS, st.integers(0, 9))
def test_a_staircase_knows_the_farthest_of_those_that_asked_for_no_more(noted, amount, lo):
    """What was noted of as much or less counts, the farthest of it, as far as to where nodes got
    more."""
    staircase = Staircase()
    for asked, first in noted:
        if first > staircase.first(asked):
            staircase.note(asked, first)
    farthest = max((f for n, f in noted if n <= amount), default=0)
    assert staircase.first(amount) == farthest
    staircase.forget(lo)
    assert staircase.first(amount) == min(farthest, lo)


def test_a_search_hears_of_every_node_that_got_more():
    """Of several since the last one the first counts, in whatever order they got more."""
    for order in ((0, 2), (2, 0)):
        scan = Scan()
        scan.set(0, 3, scan.shape((0, 0)))
        tree, reading = NodeIndex(scan.shapes), Reading(NAMES[0], None)
        tree.track(reading)
        searched = tree.staircase("alone")
        assert tree.first(0, [(reading.tree, 1)], searched) == -1
        for position in order:
            scan.set(position, position + 1, scan.shape((1, 1)))
            tree.late.add(position)
            tree.forget_searches(position)
        assert tree.first(0, [(reading.tree, 1)], searched) == 0
