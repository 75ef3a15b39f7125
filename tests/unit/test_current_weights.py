"""Weights of regions that are kept: when they are asked for again, and what their file may do."""

import pytest

from hpc.autoscale import clock
from hpc.autoscale.weights import current_weights

CONFIG = {"weights": {"provider": "slow", "regions": ["eastus"]}}


@pytest.fixture(autouse=True)
def mock_clock():
    """Time passes where a test says so."""
    return clock.use_mock_clock()


def test_a_provider_that_takes_long_to_fail_is_left_alone_for_a_minute(tmp_path):
    """From when it failed: or else every pass would wait for it."""
    asked = []

    def slow(name, question):
        asked.append(name)
        clock.sleep(120)
        raise OSError("no answer")

    for after in (0, 59, 1):
        clock.sleep(after)
        assert current_weights(CONFIG, str(tmp_path), slow).problem == "slow: no answer"
    assert len(asked) == 2
