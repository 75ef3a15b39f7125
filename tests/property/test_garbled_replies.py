"""A loop over a server whose replies are garbled in one place, from some pass on and for good.

Jobs start on nodes that are up, run, and end; others come. Whatever the loop makes of what it is
told, it must not delete a node on which a job runs, nor make node after node. The place, what
stands there and when that begins are drawn; more of them with GARBLED_REPLIES.
"""

import copy
import os
import random
import re

import pytest

from builders.failing_cloud import F2, F4, a_site
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.simulator import app

SEEDS = int(os.environ.get("GARBLED_REPLIES", "20"))
UNREADABLE = re.compile(
    r"Traceback|\b(?:Type|Key|Attribute|Index|Value)Error\b|NoneType|unhashable"
)
MISSING = object()
VALUES = (None, 7, -1, 10**30, "x", "", [1], {"a": 1}, True, float("nan"), MISSING)
ARRAYS = {"htc": {"machine_types": [F4]}, "hpc": {"machine_types": [F2]}}
FIELDS = ("Configuration", "CoreCount", "Memory", "PlacementGroupId", "KeepAlive", "StatusMessage")
"""What may be in a record of a node, beside what the simulator says."""

PASSES, ENDING = 14, 9
"""So many passes, before which of them the first jobs end and others come."""


class Garbler:
    """Replies of the simulator, of which those with one key at the top are garbled in one place."""

    def __init__(self, true_reply, draw):
        self._true_reply, self._draw = true_reply, draw
        self.is_on = False
        self._key = draw.choice(["nodearrays", "nodes", "nodes", "sets", "operationId"])
        self._value = draw.choice(VALUES)
        self._place = None
        self._only_first = draw.random() < 0.3

    def __call__(self, value, status=200):
        if self.is_on and isinstance(value, dict) and self._key in value:
            if self._place is None:
                # a node without a NodeId of its own cannot be told from others
                known = [each for each in places(value) if each[-1] != "NodeId"]
                self._place = self._draw.choice(known)
            value = copy.deepcopy(value)
            self._spoil(value, self._place)
        return self._true_reply(value, status)

    def _spoil(self, value, place):
        step, *rest = place
        if isinstance(value, dict) and isinstance(step, str):
            keys = [step]
        elif isinstance(value, list) and step == 0:
            keys = list(range(len(value)))[: 1 if self._only_first else None]
        else:
            return
        for key in reversed(keys):
            if rest:
                self._spoil(value.get(key) if isinstance(value, dict) else value[key], rest)
            elif self._value is MISSING and isinstance(value, dict):
                value.pop(key, None)
            elif self._value is MISSING:
                del value[key]
            else:
                value[key] = self._value

    def __str__(self):
        how = "the first of " if self._only_first else ""
        return f"{self._value!r} at {how}{self._place}"


def places(value, above=()):
    """Where there is something in a reply; 0 stands for all items of a list."""
    items = list(value.items()) if isinstance(value, dict) else []
    if items and "NodeId" in value:
        items += [(field, None) for field in FIELDS]
    if isinstance(value, list) and value:
        items = [(0, value[0])]
    for key, below in items:
        yield (*above, key)
        yield from places(below, (*above, key))


class Cluster:
    """What is true of a site: which job runs on which node, by NodeId."""

    def __init__(self, site):
        self._site = site
        self._waiting = ["j0", "j1", "j2"]
        self.running = {}
        site.new_jobs, site.new_hosts = self._jobs, self._hosts

    def passes(self, about=""):
        """The numbers of passes, each when it is about to be made. Between them jobs start, run and
        end, and none may lose its node."""
        for number in range(PASSES):
            if number == ENDING:
                self.end()
            assert not self.start(), f"nodes with jobs were deleted: {about}"
            yield number
            self._site.wait(10)
        assert not self.start(), f"nodes with jobs were deleted: {about}"

    def start(self):
        """Jobs start on nodes that are up and free. The jobs whose nodes are gone."""
        up = [node["NodeId"] for node in self._up()]
        lost = [self.running.pop(each) for each in list(self.running) if each not in up]
        for each in up:
            if each not in self.running and self._waiting:
                self.running[each] = self._waiting.pop(0)
        return lost

    def end(self):
        """What runs ends, and others come."""
        self.running.clear()
        self._waiting += ["k0", "k1"]

    def _up(self):
        return [node for node in self._site.nodes() if node["Status"] == "Ready"]

    def _jobs(self):
        wanted = {"ncpus": 1, "exclusive": True}
        jobs = [Job(name, dict(wanted)) for name in self._waiting]
        for node in self._up():
            if node["NodeId"] in self.running:
                job = Job(self.running[node["NodeId"]], dict(wanted))
                job.executing_hostnames = [node["Hostname"]]
                job.metadata["job_state"] = "running"
                jobs.append(job)
        return jobs

    def _hosts(self):
        hosts = []
        for node in self._up():
            cores = 4 if node["Template"] == "htc" else 2
            host = SchedulerNode(node["Hostname"], {"ncpus": cores, "ccnodeid": node["NodeId"]})
            if node["NodeId"] in self.running:
                host.assign(self.running[node["NodeId"]])
                host.available["ncpus"] -= 1
            hosts.append(host)
        return hosts


def test_where_nothing_is_garbled_nodes_are_made_once_and_the_idle_one_goes(tmp_path):
    """The site is one on which a loop does what it should."""
    made = []
    with a_site(tmp_path, ARRAYS, {"quota": 400}) as site:
        site.config.update(idle_timeout=20, min_idle_passes=2)
        cluster = Cluster(site)
        for _ in cluster.passes():
            assert not site.run().errors
            made.append(site.made().total())
        assert len(site.nodes()) == len(cluster.running) == 2
    assert made == [3, *[0] * (PASSES - 1)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_busy_node_goes_and_nodes_are_not_made_for_ever(monkeypatch, tmp_path, seed):
    """And what is said of it can be understood."""
    draw = random.Random(seed)
    garbler = Garbler(app.reply, draw)
    monkeypatch.setattr(app, "reply", garbler)
    begins = draw.randrange(PASSES - 3)
    said, made = [], []
    with a_site(tmp_path, ARRAYS, {"quota": 400}) as site:
        site.config.update(idle_timeout=20, min_idle_passes=2)
        for number in Cluster(site).passes(garbler):
            garbler.is_on = number >= begins
            try:
                summary = site.run()
            except AutoscaleError as error:
                said.append(str(error))
            else:
                said += [*map(str, summary.errors), *summary.notes]
            made.append(site.made().total())
    assert sum(made) <= 8, f"nodes were made for ever: {garbler}: {made}"
    assert not UNREADABLE.search(" ".join(said)), f"{garbler}: {said}"
