"""Amounts as people read them."""

import pytest

from hpc.autoscale.packing.amounts import Shown, Unit


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (8 * 2**30, Unit(1, "b"), "8g"),
        (9 * 10**12, Unit(1, "b"), "8.18545t"),
        (2 * 2**20, Unit(1, "b"), "2m"),
        (1_000_000, Unit(1, "b"), "976.562k"),
        (999_999, Unit(1, "b"), "999999b"),
        (-8 * 2**30, Unit(1, "b"), "-8g"),
        (8 * 2**30, Unit(2**20, "m"), "8192m"),
        (8_000_000, None, "8e+06"),
        ("htc", Unit(1, "b"), "htc"),
    ],
)
def test_many_bytes_are_said_in_a_larger_unit(value, unit, said):
    """A unit that somebody has chosen stays."""
    assert str(Shown(value, unit)) == said
