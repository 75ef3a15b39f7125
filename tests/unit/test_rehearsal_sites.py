"""Rehearsals of sites of every kind: several clusters, dynamic arrays, requests without a
scheduler, gangs, back-off, nodes that are on their way out."""

import pytest

from builders.plan_queue import DriverOfQueue, Queued, QueueHost, QueueOfTest
from builders.plan_worlds import WorldClock
from builders.simulated_cloud import F2, F4, World, a_description
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler, Reporter
from hpc.autoscale.ccbindings import MADE_BY
from hpc.autoscale.ccbindings.several import Member, SeveralClusters
from hpc.autoscale.cli.drivers import RequestSetDriver
from hpc.autoscale.rehearsal import rehearse
from hpc.autoscale.rehearsal.otherwise import Otherwise
from hpc.autoscale.requestsets.store import RequestSet, RequestStore
from hpc.autoscale.traces.binding import SimulatedBinding

ARRAYS = {"htc": {"machine_types": [F2, F4]}}


class Site:
    """A cluster of the simulator's model, or several, and a queue; it is made anew for each pass,
    as by cron."""

    def __init__(self, home, *names, **description):
        self.worlds = {name: World(a_description(ARRAYS, description)) for name in names or ("",)}
        self.queue = QueueOfTest()
        self.config = {
            "cluster_name": "c1",
            "nodehistorydb": str(home / "nodehistory.db"),
            "lock_file": str(home / "lock.file"),
        }
        clock.use_clock(WorldClock(next(iter(self.worlds.values()))))

    def ready(self):
        """The configuration and the driver of a pass."""
        bindings = {name: SimulatedBinding(world.cluster) for name, world in self.worlds.items()}
        several = SeveralClusters([Member(name, each, name) for name, each in bindings.items()])
        found = bindings.get("", several)
        return {**self.config, "_mock_bindings": found}, DriverOfQueue(self.queue)

    def foreseen(self, **more):
        return rehearse(*self.ready(), **more)

    def run(self):
        return Autoscaler(*self.ready(), reporter=Reporter()).run_once()

    def after(self, seconds):
        for world in self.worlds.values():
            world.after(seconds)


@pytest.fixture
def site(tmp_path):
    """Makes sites."""
    before = clock.use_clock(clock.Clock())
    yield lambda *names, **description: Site(tmp_path, *names, **description)
    clock.use_clock(before)


def rows(found):
    return [(row.action, row.node or row.bucket, row.count) for row in found.changes]


def test_several_clusters(site):
    """Each nodearray has the name of its cluster before it, and each cluster is asked for its
    own."""
    both = site("east", "west")
    both.queue.jobs["a"] = Queued({"ncpus": 4, "node.nodearray": "west/htc"}, slots=2)
    both.queue.jobs["b"] = Queued({"ncpus": 2, "node.nodearray": "east/htc"}, slots=1)
    found = both.foreseen()
    assert rows(found) == [
        ("create", "east/htc/Standard_F2s_v2", 1),
        ("create", "west/htc/Standard_F4s_v2", 2),
    ]
    assert [len(each.statuses()) for each in both.worlds.values()] == [0, 0]
    both.run()
    assert [len(each.statuses()) for each in both.worlds.values()] == [1, 2]


def test_other_limits_of_one_of_several_clusters(site):
    """By the name that the nodearray has among them."""
    both = site("east", "west")
    both.queue.jobs["a"] = Queued({"ncpus": 4, "node.nodearray": "west/htc"}, slots=5)
    other = Otherwise(["nodearray.west/htc.max_core_count=8"])
    config, driver = both.ready()
    found = rehearse(config, driver, new_binding=other.binding(lambda own: own["_mock_bindings"]))
    assert rows(found) == [("create", "west/htc/Standard_F4s_v2", 2)]
    assert len(both.foreseen().changes) == 1


def test_nodes_of_a_dynamic_array(site, tmp_path):
    """Are told of by its name; the next pass makes them."""
    one = site()
    store = RequestStore(str(tmp_path / "requestsets.db"))
    wish = {"Name": "big", "Dynamic": True, "Extends": "htc", "TargetCoreCount": 8}
    now = clock.time()
    store.replace(RequestSet("s", now, now + 900, [wish]), ["big"])
    config, _ = one.ready()

    def driver():
        return RequestSetDriver("scalelib")

    found = rehearse(config, driver)
    (row,) = found.changes
    assert row.bucket.startswith("big/")
    assert not one.worlds[""].statuses()
    summary = Autoscaler(config, driver, reporter=Reporter()).run_once()
    assert (len(summary.created), summary.created) == (row.count, found.summary.created)


def test_what_is_in_back_off_is_not_asked_for(site):
    """By the file of the site, of which the rehearsal has a copy."""
    one = site()
    one.worlds[""].cloud.set_capacity("westus2", {F4: 0})
    one.queue.jobs["a"] = Queued({"ncpus": 4, "node.vm_size": F4}, slots=2)
    assert rows(one.foreseen()) == [("create", f"htc/{F4}", 2)]
    one.run()
    one.after(30)
    one.run()
    found = one.foreseen()
    assert [row.action for row in found.changes if row.action == "create"] == []
    assert "back-off" in found.summary.unsatisfied[0].reason


def test_what_was_held_back_before_back_offs_were_switched_off_is_asked_for(site):
    """With null in the place of the file, what there is in the one beside the history holds no
    longer, neither in a pass nor in what is said of it."""
    one = site()
    one.worlds[""].cloud.set_capacity("westus2", {F4: 0})
    one.queue.jobs["a"] = Queued({"ncpus": 4, "node.vm_size": F4}, slots=2)
    for _ in range(2):
        one.run()
        one.after(30)
    assert [row for row in rows(one.foreseen()) if row[0] == "create"] == []
    one.config["backoffdb"] = None
    found = [row for row in rows(one.foreseen()) if row[0] == "create"]
    assert found == [("create", f"htc/{F4}", 2)]
    assert len(one.run().created) == 2


def test_a_dynamic_array_whose_nodearray_is_in_back_off(site, tmp_path):
    """Is tried with one node when the rest is over: what both are charged to is charged once."""
    one = site()
    one.worlds[""].cloud.set_capacity("westus2", {F2: 0, F4: 0})
    store = RequestStore(str(tmp_path / "requestsets.db"))
    now = clock.time()
    wish = {"Name": "big", "Dynamic": True, "Extends": "htc", "TargetCount": 2}
    store.replace(RequestSet("s", now, now + 3600, [wish]), ["big"])
    config, _ = one.ready()
    asked = []
    for _ in range(10):
        loop = Autoscaler(config, lambda: RequestSetDriver("scalelib"), reporter=Reporter())
        summary = loop.run_once()
        assert (summary.set_aside, summary.errors) == ((), ())
        asked.append(len(summary.created))
        one.after(60)
    assert asked[0] == 2
    assert sum(asked[1:]) >= 1


def test_no_host_is_closed(site):
    """By a rehearsal in which its node is drained and deleted."""
    one = site()
    one.config |= {"idle_timeout": 60, "autoscale": {"min_idle_passes": 1, "interval": 60}}
    one.queue.jobs["a"] = Queued({"ncpus": 4}, slots=1)
    for _ in range(3):
        one.run()
        one.after(60)
    one.queue.jobs.clear()
    (host,) = one.queue.hosts.values()
    for _ in range(3):
        found = one.foreseen()
        if found.changes:
            break
        one.run()
        one.after(60)
    assert [row.action for row in found.changes] == ["drain", "delete"]
    assert host.is_open
    one.run()
    assert not one.queue.hosts


def test_hosts_on_premises_that_the_scheduler_has(site):
    """Are not to be joined: that would be to do in every pass."""
    one = site()
    one.config["on_premises"] = [{"name": "rack-1", "resources": {"ncpus": 4}}]
    assert ("join", "rack-1", 1) in rows(one.foreseen())
    one.queue.hosts["rack-1"] = QueueHost("", 4)
    assert rows(one.foreseen()) == []


def test_a_binding_that_stands_around_that_of_the_site(site):
    """Is asked by a rehearsal too."""
    one = site()
    one.queue.jobs["a"] = Queued({"ncpus": 4}, slots=1)
    config, driver = one.ready()
    asked = []

    def made_by(own):
        asked.append(own["read_only"])
        return own["_mock_bindings"]

    assert rehearse({**config, MADE_BY: made_by}, driver).changes
    assert asked == [True]
