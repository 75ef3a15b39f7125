"""Times in words, and as text in UTC."""

import pytest

from hpc.autoscale.clock import in_utc
from hpc.autoscale.explaining.words import in_time


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0 s"),
        (40, "40 s"),
        (119, "119 s"),
        (301, "5 min"),
        (7200, "2 h"),
        (9000, "2.5 h"),
        (259200, "3 days"),
    ],
)
def test_times_in_words(seconds: float, said: str) -> None:
    """Short, with their unit."""
    assert in_time(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "1970-01-01T00:00:00Z"), (1795657521.9, "2026-11-26T01:45:21Z"), (1e300, f"{1e300:.0f}")],
)
def test_a_time_in_utc(seconds: float, said: str) -> None:
    """By the second; what no calendar has is a number."""
    assert in_utc(seconds) == said
