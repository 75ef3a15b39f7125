"""All that is said of a site is the same in any process: plans, explanations, what is asked of a
pass, journals, also those for others, reports and replays. Nothing hangs on the order of sets, on
addresses, on when garbage is collected, or on how long something took.
"""

import json
import os
import sys

import pytest

from builders.processes import succeeding
from builders.told_sites import MEMORY

SITES = int(os.environ.get("TOLD_SITES", "1"))
"""So many sites are drawn, every other one wide; more with `TOLD_SITES`."""

FIRST = int(os.environ.get("TOLD_FIRST", "6"))
"""The seed of the first of them."""

PROCESSES = int(os.environ.get("TOLD_PROCESSES", "1"))
"""So many processes are held against the first one, each with a hash seed of its own."""

PASSES = 2
KINDS = [*MEMORY][1:]


@pytest.fixture
def told(tmp_path):
    """What a process says of some sites: each thing with the site that it is about."""

    def tell(hash_seed, how):
        place = tmp_path / str(hash_seed)
        place.mkdir()
        text = succeeding(
            *("-m", "builders.told_sites", how, FIRST, FIRST + SITES, PASSES),
            cwd=place,
            env={
                **os.environ,
                "PYTHONHASHSEED": str(hash_seed),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
        )
        return [json.loads(line) for line in text.splitlines()]

    return tell


def test_any_process_says_the_same(told):
    """Whatever its hash seed, and whatever becomes of its memory."""
    first = told(0, "usual")
    assert len(first) > 10 * SITES
    for number in range(1, PROCESSES + 1):
        for one, other in zip(first, told(number, KINDS[number % len(KINDS)]), strict=True):
            assert one == other
