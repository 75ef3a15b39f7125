"""How the work of a pass grows, counted in operations: no clock is asked, so the machine does not
matter."""

import pytest

from builders.growth import is_near_linear, three_sizes

# counting costs enough by itself; other tests run the same lines
pytestmark = pytest.mark.no_cover

# workload, what grows, its first size, what stays as it is
SWEEPS = [
    ("W1", "n", 200, {}),
    ("W2", "n", 200, {}),
    ("W2u", "n", 240, {}),
    ("W3", "n", 17, {}),
    ("W4", "n", 30, {"nodes": 20, "iters": 20}),
    ("W4", "iters", 20, {"nodes": 20, "n": 20}),
    ("W5", "n", 150, {}),
    ("W6", "n", 200, {}),
    ("W6b", "n", 160, {"nodes": 40}),
    ("W4", "nodes", 300, {"n": 20, "iters": 2}),
    ("W6", "nodes", 80, {"n": 20}),
    ("W6b", "nodes", 80, {"n": 20}),
    ("W6", "n", 200, {"booting": True}),
    ("W6", "nodes", 80, {"n": 200, "booting": True}),
    ("W6b", "n", 160, {"nodes": 40, "booting": True}),
]


def named(sweep):
    """The name of a sweep's test."""
    return f"{sweep[0]}-{sweep[1]}{'-booting' * ('booting' in sweep[3])}"


each_sweep = pytest.mark.parametrize("sweep", SWEEPS, ids=named)


def grown(sweep):
    """The work at three sizes."""
    name, along, first, rest = sweep
    return three_sizes(name, along, first, **rest)


@each_sweep
def test_work_grows_no_faster_than_what_there_is(sweep):
    """The lines executed in the whole library, start-up included, are near linear in jobs and in
    nodes."""
    assert is_near_linear([work.total for work in grown(sweep)])


@each_sweep
def test_fits_grow_no_faster_than_what_there_is(sweep):
    """So is how often an expression is held against a node."""
    assert is_near_linear([work.fits for work in grown(sweep)])


@each_sweep
def test_shapes_grow_no_faster_than_what_there_is(sweep):
    """So is the number of different shapes that nodes take on."""
    assert is_near_linear([work.shapes for work in grown(sweep)])


@each_sweep
def test_search_grows_no_faster_than_what_there_is(sweep):
    """So is the search for a node with room, but for the logarithm that a search costs."""
    assert is_near_linear([work.steps for work in grown(sweep)], at_most=3)


def test_equal_jobs_are_understood_once():
    """Twice as many equal jobs need not one fit and not one shape more."""
    few, twice, more = three_sizes("W1", "n", 200)
    assert few.fits == twice.fits == more.fits
    assert few.shapes == twice.shapes == more.shapes


def look_at_everything(calculator, jobs):
    """What must not be done: for each slot and each node look at all jobs and nodes, or where there
    are many at a part."""
    nodes = calculator.node_mgr.get_nodes()
    things = [*jobs, *nodes]
    if calculator.node_mgr.new_nodes:
        things = things[::3]
    slots = sum(job.node_count or job.iterations for job in jobs)
    for _ in range(slots + len(nodes)):
        for thing in things:
            str(thing)


@pytest.mark.parametrize("sweep", SWEEPS[::2], ids=named)
def test_planted_squares_are_noticed(sweep):
    """In every second sweep: a loop over all jobs and nodes for each of them is more than near
    linear, also at half the sizes, where it is harder to see."""
    name, along, first, rest = sweep
    planted = three_sizes(name, along, first // 2, look_at_everything, **rest)
    assert not is_near_linear([work.total for work in planted])


def test_squares_are_noticed():
    """What grows with the square is not near linear, with or without work that does not grow; n log
    n is."""
    assert not is_near_linear([n * n for n in (100, 200, 400)])
    assert not is_near_linear([50_000 + n * n for n in (100, 200, 400)])
    assert is_near_linear([n * n.bit_length() for n in (128, 256, 512)])
