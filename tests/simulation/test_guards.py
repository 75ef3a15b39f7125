"""Without a guard some day goes wrong: none of the checks is there for nothing."""

import pytest

from hpc.autoscale.node.guards import GUARDS
from simulation.breaks import BREAKS, failing_day, healthy_day

SEEDS = range(1, 13)
"""Days that are tried when the one that was written down does not fail any more."""


def test_every_guard_is_taken_away_once() -> None:
    assert BREAKS.keys() >= GUARDS.keys()


@pytest.mark.no_cover
@pytest.mark.parametrize("name", BREAKS)
def test_a_day_goes_wrong_without_it_and_well_with_it(name: str) -> None:
    """The same day, as far as it came: `test_days` has whole ones."""
    broken = BREAKS[name]
    failed = failing_day(broken, dict.fromkeys((broken.seed, *SEEDS)))
    assert failed is not None
    assert healthy_day(broken, failed).violation is None
