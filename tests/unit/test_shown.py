"""Amounts as people write them."""

import pytest

from hpc.autoscale.shown import Shown, Unit

BYTES, MIB, GIB = Unit(1, "b"), Unit(2**20, "m"), Unit(2**30, "g")


@pytest.mark.parametrize(
    ("amount", "unit", "said"),
    [
        (4, None, "4"),
        ("4", None, "'4'"),
        (4 * 2**30, GIB, "4g"),
        (2000 * 2**30, GIB, "2000g"),
        (1.5 * 2**30, GIB, "1.5g"),
        (900 * 2**30, MIB, "921600m"),
        (10, BYTES, "10b"),
        (900 * 2**30, BYTES, "900g"),
        (1000 * 2**20, BYTES, "1000m"),
        (1234567, BYTES, "1.17737m"),
        (float("inf"), BYTES, "infb"),
        (999_999, BYTES, "999999b"),
        (-8 * 2**30, BYTES, "-8g"),
        (8_000_000, None, "8e+06"),
    ],
)
def test_an_amount_is_a_short_number(amount, unit, said):
    """In its own unit, and in a larger one where it would be long in that."""
    assert str(Shown(amount, unit)) == said
