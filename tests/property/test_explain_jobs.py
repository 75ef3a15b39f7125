"""What `explain` says of jobs is what the next pass does with them.

Sites are drawn as for the laws of plans. Each of their jobs is explained before each pass.
"""

import os

import pytest

from builders.plan_worlds import PlanWorld
from hpc.autoscale.cli.explaining import look
from hpc.autoscale.explaining.of_jobs import explain_job
from hpc.autoscale.rehearsal.changes import GROWING
from hpc.autoscale.results.verdicts import Stand

SITES = int(os.environ.get("EXPLAIN_SITES", "2"))
"""So many sites are drawn; more with `EXPLAIN_SITES`."""

FIRST = int(os.environ.get("EXPLAIN_FIRST", "0"))
"""The seed of the first of them."""

FOUND = (218,)
"""Sites at which something was found once: a job that starts the worker of a host on premises."""

PASSES = 9
PLACED, SHORT = (Stand.HAS, Stand.COMES), (Stand.WAITS, Stand.NEVER)


@pytest.mark.parametrize("seed", sorted({*range(FIRST, FIRST + SITES), *FOUND}))
def test_what_is_said_of_jobs_comes_true(tmp_path, seed):
    """A job that is said to have nodes, or to get them, is not short of any in the next pass, and
    one that is said to wait is; nodes come in that pass for one that is said to start in it, and
    for no other that has all it wants, but those of which a part is left for later."""
    world = PlanWorld(seed, tmp_path)
    for _ in range(PASSES):
        world.step()
        with world.time():
            scene = look(world.config, world.driver)
            said = {name: explain_job(name, scene) for name in world.queue.jobs}
        rows = [row for row in world.foreseen().changes if row.action in GROWING]
        coming = {job for row in rows for job in row.jobs}
        assert {name for name, each in said.items() if each.code == "Starts"} <= coming
        placed = {name for name, each in said.items() if each.stand in PLACED}
        assert {said[name].code for name in placed & coming} <= {"Starts", "HeldByCap"}
        summary = world.run()
        short = {job.name for job in summary.unsatisfied}
        assert {name for name, each in said.items() if each.stand in SHORT} == short & said.keys()
        assert {each.stand for each in said.values()} <= {*PLACED, *SHORT}
