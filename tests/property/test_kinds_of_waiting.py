"""Jobs that are said to wait for the same without being judged one by one do wait for the same.

Sites are drawn as for the laws of plans, with nodearrays that are disabled or of sizes that are not
activated, and with crowds of jobs that all differ.
"""

import os
import random
from collections import Counter

import pytest

from builders.plan_queue import Queued
from builders.plan_worlds import F8, PlanWorld
from builders.simulated_cloud import F2, F4
from hpc.autoscale.autoscaler import Autoscaler, Reporter
from hpc.autoscale.autoscaler.summary import stuck_jobs
from hpc.autoscale.results.verdicts import Stand
from hpc.autoscale.util import partition

SITES = int(os.environ.get("KINDS_SITES", "4"))
"""So many sites are drawn; more with `KINDS_SITES`."""

FIRST = int(os.environ.get("KINDS_FIRST", "0"))
"""The seed of the first of them."""

PASSES, CROWD = 6, 30

WISHES = (
    {},
    {"exclusive": True},
    {"node.vm_size": F4},
    {"node.vm_size": ["Standard_F16s_v2", F8, "*"]},
    {"node.vm_size": "Standard_D4s_v3"},
    {"or": [{"ncpus": 2}, {"node.vm_size": F2}]},
    {"not": {"node.vm_size": F2}},
    {"xor": [{"node.vm_size": F2}, {"ncpus": 3}]},
    {"and": [{"ncpus": 3}, {"ncpus": 2}]},
    {"memory": "memory::9g"},
    {"memory": "memory::90g"},
    {"licence": 1},
    {"slots": 1},
    {"disk": "size::30g"},
    {"node.spot": True},
    {"node.placement_group": "pg0"},
    {"node.name": "htc-1"},
    {"node.exists": False},
)


class CrowdedWorld(PlanWorld):
    """A site where many jobs wait that all ask for something else."""

    def __init__(self, seed, home):
        self.crowd = random.Random(f"crowd {seed}")
        super().__init__(seed, home)

    def gather(self):
        """Other jobs come in place of those that came together before."""
        draw = self.crowd
        for name in [name for name in self.queue.jobs if name.startswith("crowd")]:
            del self.queue.jobs[name]
        for number in range(CROWD):
            self.queue.jobs[f"crowd{number}"] = self._job(draw)

    def _job(self, draw):
        array = draw.choice((None, None, "htc", "htc", "spot", "hpc", "off"))
        wish = {} if array is None else {"node.nodearray": f"{self._prefix()}{array}"}
        licences = draw.choice((0, 0, 0, 1, 2)) if self.queue.licences else 0
        if draw.random() < 0.3:
            wish |= {"ncpus": draw.choice((1, 2, 8)), **draw.choice(({}, {"exclusive": True}))}
            return Queued(wish, nodes=draw.choice((1, 2, 3, 40)), licences=licences)
        wish |= {"ncpus": draw.randint(1, 5)} if draw.random() < 0.8 else {}
        wish = {**draw.choice(WISHES), **wish}
        return Queued(wish, slots=draw.choice((1, 1, 7, 300)), licences=licences)

    def _description(self):
        made = super()._description()
        arrays = made["clusters"]["c1"]["nodearrays"]  # those of the second cluster, too
        off = {"Configuration": {"autoscale": {"enabled": False}}}
        arrays["off"] = {"machine_types": [F4], "attributes": off}
        if self.crowd.random() < 0.5:
            unusable = {"name": "Standard_D4s_v3", "invalid_reason": "NotActivated"}
            arrays["htc"]["machine_types"] = [*arrays["htc"]["machine_types"], unusable]
        return made


def of_one_kind(summary):
    """The causes of jobs that are alike of each kind, with what is said of each cause."""
    causes = {id(job.cause): job for job in summary.unsatisfied}.values()
    return partition(causes, lambda job: job.cause.kind).values()


def told(job):
    """What a pass tells of a job."""
    verdict = job.verdict
    return (verdict.code, verdict.causes[0].text, verdict.stand is Stand.NEVER, verdict.until)


def dry_pass(world):
    """What the next pass would find, as the loop would tell it: nothing is worked out yet."""
    driver = world.driver()
    with world.time():
        try:
            return Autoscaler(world.config, driver, dry_run=True, reporter=Reporter()).run_once()
        finally:
            driver.close_histories()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SITES))
def test_jobs_of_one_kind_wait_for_the_same(tmp_path, seed):
    """Each is judged by itself, and the same is told of all."""
    world = CrowdedWorld(seed, tmp_path)
    for _ in range(PASSES):
        world.step()
        world.gather()
        summary = dry_pass(world)
        with world.time():
            kinds = of_one_kind(summary)
            for jobs in kinds:
                assert len(set(map(told, jobs))) == 1, list(map(str, jobs))
            everything = Counter(map(told, summary.unsatisfied))
            groups = stuck_jobs(summary.unsatisfied, judge=len(summary.unsatisfied))
        for group in groups[:8]:
            each = (group.code, group.cause, group.never, group.until)
            assert not group.code or everything[each] == group.count
        world.run()
