"""What `whatif` supposes of limits is what comes of clusters that have these limits.

Sites are drawn as for the laws of plans, half of them with two clusters, of which one may be away.
Before each pass some limit, or some nodearray, is asked about; in a copy of the site it is so.
"""

import copy
import os
import random
from collections import Counter
from dataclasses import replace

import pytest

from builders.plan_queue import Queued
from builders.plan_worlds import EAST, PlanWorld
from builders.simulated_cloud import REGION
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.rehearsal import rehearse
from hpc.autoscale.rehearsal.otherwise import Otherwise, SettingError

SITES = int(os.environ.get("LIMIT_SITES", "4"))
"""So many sites are drawn; more with `LIMIT_SITES`."""

FIRST = int(os.environ.get("LIMIT_FIRST", "0"))
"""The seed of the first of them."""

FOUND = (5, 7)
"""Sites at which something was found once: nodes of a nodearray that is left out, of one cluster
and of two."""

PASSES = 7
FAMILIES = ("standardFSv2Family", "standardHBv3Family")


class LimitWorld(PlanWorld):
    """A site whose limits are closer."""

    several = 0.5

    def __init__(self, seed, home):
        self.limits = random.Random(f"limits {seed}")
        super().__init__(seed, home)

    def _description(self):
        description, draw = super()._description(), self.limits
        for cluster in description["clusters"].values():
            cluster["nodearrays"] = copy.deepcopy(cluster["nodearrays"])
            for array in cluster["nodearrays"].values():
                if draw.random() < 0.4:
                    array["max_count"] = draw.choice((1, 2, 4, 9))
                if draw.random() < 0.3:
                    array["max_placement_group_size"] = draw.choice((2, 4))
        for region in description["regions"].values():
            region["spot_quota"] = draw.choice((8, 20, 1000))
        return description

    def step(self):
        super().step()
        if self.limits.random() < 0.15:
            self._silence()

    def question(self):
        """A limit, and what it would be."""
        draw = self.limits
        # of one that is away nobody knows its limits
        names = [f"{name}/" if name else "" for name in self.clusters if name not in self.down]
        array = f"nodearray.{draw.choice(names)}{draw.choice(('htc', 'spot', 'hpc'))}"
        some, cores = draw.choice((0, 1, 2, 3, 5, 20)), draw.choice((0, 4, 7, 16, 130, 700))
        regions = [EAST if name == "west/" else REGION for name in names]
        quota = draw.choice((*FAMILIES, *regions, *(f"spot.{name}" for name in regions)))
        return draw.choice(
            (
                *((f"{array}.max_count", some), (f"{array}.max_core_count", cores)),
                *(("cluster.max_count", some), ("cluster.max_core_count", cores)),
                *((f"quota.{quota}", cores), (f"quota.{quota}", cores)),
                (f"{array}.enabled", False),
            )
        )

    def impose(self, key, value):
        """Let it be so."""
        kind, _, rest = key.partition(".")
        if kind == "quota":
            self._impose_quota(rest, value)
            return
        path, _, what = rest.rpartition(".")
        own, _, array = path.rpartition("/")
        for name in self.clusters:
            cluster = self.cluster(name)
            if kind == "cluster":
                cluster.description = replace(cluster.description, **{what: value})
            elif name == own:
                arrays = dict(cluster.description.nodearrays)
                change = {what: value}
                if what == "enabled":
                    settings = {"autoscale": {"enabled": value}}
                    change = {"attributes": {**arrays[array].attributes, "Configuration": settings}}
                arrays[array] = replace(arrays[array], **change)
                cluster.description = replace(cluster.description, nodearrays=arrays)

    def _impose_quota(self, quota, cores):
        cloud = self.model.cloud
        regions = dict(cloud.regions)
        for name, region in regions.items():
            if quota in FAMILIES:
                families = {**region.family_quotas, quota: cores}
                regions[name] = replace(region, family_quotas=families)
            elif quota == name:
                regions[name] = replace(region, quota=cores)
            elif quota == f"spot.{name}":
                regions[name] = replace(region, spot_quota=cores)
        cloud.regions = regions


def what_comes(found):
    """What of a rehearsal is compared."""
    rows = Counter()
    for row in found.changes:
        if row.action != "join":
            rows[row.action, row.node or row.bucket] += row.count
    never = set(map(id, found.never))
    waiting = [(job.name, job.missing, id(job) in never) for job in found.summary.unsatisfied]
    return rows, sorted(waiting), found.before, found.after, found.summary.errors


def check(world, key, value):
    """A question, beside a copy of the site in which it is so."""
    other = Otherwise([f"{key}={str(value).lower()}"])
    with world.time():
        try:
            binding = other.binding(new_cluster_bindings)
            supposed = rehearse(world.config, world.driver, new_binding=binding)
        except SettingError:
            assert world.down  # nobody has ever read its limits
            return
    changed = copy.deepcopy(world)
    changed.impose(key, value)
    assert what_comes(supposed) == what_comes(changed.foreseen()), (key, value)


@pytest.mark.parametrize("seed", sorted({*range(FIRST, FIRST + SITES), *FOUND}))
def test_limits_that_are_supposed_are_as_limits_are(home, seed):
    """The same nodes come and go, and the same jobs wait, for ever or not."""
    world = LimitWorld(seed, home)
    for _ in range(PASSES):
        world.step()
        check(world, *world.question())
        world.run()


def test_groups_are_as_large_as_the_maxima_allow(home):
    """A gang for which a nodearray has too few nodes goes to a group when it has more."""
    world = LimitWorld(0, home)
    world.impose(f"quota.{REGION}", 5000)
    world.impose("nodearray.hpc.max_count", 2)
    wish = {"ncpus": 1, "node.nodearray": "hpc"}
    world.queue.jobs = {"gang": Queued(wish, nodes=4)}
    check(world, "nodearray.hpc.max_count", 9)
