"""What a job asks for as JSON, and the same with something else in one place."""

import pytest

from hpc.autoscale.explaining.rewriting import (
    Asked,
    allowed,
    names_of_amounts,
    renamed,
    revalued,
    values_of,
)
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.shown import Unit

WANTED = [
    {"ncpus": 4, "kind": ["a", "b"]},
    {"or": [{"kind": "a", "ncpus": 8}, {"not": {"kind": "c"}}]},
]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            renamed(WANTED, "kind", "sort"),
            [
                {"ncpus": 4, "sort": ["a", "b"]},
                {"or": [{"sort": "a", "ncpus": 8}, {"not": {"sort": "c"}}]},
            ],
        ),
        (renamed({"ncpu": 400, "ncpus": 2}, "ncpu", "ncpus"), {"ncpus": 400}),
        (renamed({"ncpus": 2, "ncpu": 400}, "ncpu", "ncpus"), {"ncpus": 400}),
        (
            revalued(WANTED, "kind", "a", "z"),
            [
                {"ncpus": 4, "kind": ["z", "b"]},
                {"or": [{"kind": "z", "ncpus": 8}, {"not": {"kind": "c"}}]},
            ],
        ),
        (revalued(WANTED, "ncpus", 8, 4)[0], WANTED[0]),
        (revalued(WANTED, "ncpus", 8, 4)[1]["or"][0], {"kind": "a", "ncpus": 4}),
        (
            allowed(WANTED, "kind", "z"),
            [
                {"ncpus": 4, "kind": ["a", "b", "z"]},
                {"or": [{"kind": ["a", "z"], "ncpus": 8}, {"not": {"kind": ["c", "z"]}}]},
            ],
        ),
        (list(values_of(WANTED, "kind")), ["a", "b", "a", "c"]),
        (list(values_of(WANTED, "nothing")), []),
        (
            list(names_of_amounts([*WANTED, {"node.vcpu_count": 4, "n": 0, "yes": True}])),
            ["ncpus", "ncpus"],
        ),
    ],
)
def test_what_is_asked_for_elsewhere_stays(made, expected):
    """A name, a value, or one more of them, wherever it is: in lists and in alternatives, and
    nothing else of it."""
    assert made == expected


@pytest.mark.parametrize(
    ("value", "free", "smaller", "least"),
    [
        (6, [(4, None)], [4, 2, 1], "1 instead of 6 n"),
        (6, [(6, None), (9, None)], [4, 3, 2, 1], "1 instead of 6 n"),
        (1.5, [(1, None)], [1], "1 instead of 1.5 n"),
        (6, [(0, None)], [], None),
        (Size.value_of("size::6g"), [(2**32, Unit(1, "b"))], None, "1g instead of 6g n"),
        (Size.value_of("size::6g"), [(2**29, Unit(1, "b"))], None, "1m instead of 6g n"),
    ],
)
def test_smaller_amounts_are_parts_of_what_is_free(value, free, smaller, least):
    """The most first; of a size in its own unit, or in a smaller one where no node has 1 of it."""
    asked = Asked("n", value, free)
    found = asked.smaller()
    assert smaller is None or found == smaller
    assert (asked.instead(found[-1]) if found else None) == least
