"""The same input gives the same plan in any process: nothing hangs on the order of sets or on
addresses."""

import os
from pathlib import Path

from builders.processes import succeeding


def digest(hash_seed, first, last):
    """What becomes of some scenarios in a process with its own hash seed."""
    return succeeding(
        *("-m", "builders.plans_of_seeds", first, last),
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


def test_same_input_same_plan_in_every_process():
    """Placements, counts and names of nodes, whatever the hash seed."""
    digests = {digest(hash_seed, 0, 8) for hash_seed in ("0", "77777")}
    assert len(digests) == 1


def test_another_input_gives_another_digest():
    """Or the digest would say nothing."""
    assert digest("0", 0, 2) != digest("0", 2, 4)
