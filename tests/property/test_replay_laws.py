"""The passes of a journal decide the same again, whatever the site is.

Sites are drawn as for the laws of plans: clusters, quotas, queues whose jobs share licences,
workers by number, request sets, hosts on premises, policies.
"""

import os

import pytest

from builders.plan_worlds import PlanWorld, WideWorld
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.journal import Journal
from hpc.autoscale.replaying import Replay

SITES = int(os.environ.get("REPLAY_SITES", "5"))
"""So many sites are drawn."""

FIRST = int(os.environ.get("REPLAY_FIRST", "0"))
"""The seed of the first of them."""

FOUND = (6, 11, 12, 13, 38, 137)
"""Sites at which something was found once: hosts of nodes that are gone in a journal for others,
gangs and groups of request sets there, workers that are given back, nodes that run workers beside
nodes that run none, and nodearrays of a request set that are in two clusters."""

PASSES = 12


@pytest.mark.parametrize("seed", sorted({*range(FIRST, FIRST + SITES), *FOUND}))
def test_passes_decide_the_same_again(tmp_path, seed, capsys):
    """All of a drawn site, and all of its journal once it was written anew for others."""
    check_passes(PlanWorld(seed, tmp_path), tmp_path)


@pytest.mark.parametrize("seed", sorted({*range(FIRST, FIRST + max(1, SITES // 4)), 7011}))
def test_passes_over_several_clusters_decide_the_same_again(tmp_path, seed, capsys):
    """The same where clusters go away, regions have weights, and arrays are dynamic. 7011: names of
    jobs that were in another order once they were replaced."""
    check_passes(WideWorld(seed, tmp_path), tmp_path)


def check_passes(world, tmp_path):
    """The law, in the passes of a world."""
    world.settings["journal"] = {}
    for _ in range(PASSES):
        world.step()
        world.run()
    path, other = str(tmp_path / "journal"), str(tmp_path / "scrubbed")
    main(["journal", "scrub", path, "--to", other])
    for journal in (path, other):
        with Replay() as replay:
            found = list(replay.passes(Journal(journal)))
        assert [(each.differences, each.skipped) for each in found] == [([], "")] * PASSES
