"""Workers that are wanted by number, through the loop and over HTTP."""

from collections import Counter

import pytest

from builders.worker_queue import WorkerQueue
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.simulator import serve
from hpc.autoscale.testing import without_guard
from hpc.autoscale.workers import WorkerDemand, WorkerDemandError

SIZE = "Standard_F4s_v2"
CLOUD = {
    "clusters": {
        "c": {
            "region": "southcentralus",
            "nodearrays": {
                "htc": {"machine_types": [SIZE]},
                "small": {"machine_types": [SIZE], "max_core_count": 8},
            },
        }
    },
    "regions": {"southcentralus": {}},
    # so that a node boots for a minute
    "lifecycle": {"allocation": 0, "acquiring": 30, "preparing": 30},
}
BOOT = 61


def backlog(waiting, running=0, **more):
    """Ten jobs for each worker, ten workers on each node."""
    return WorkerDemand(waiting, running, 10, **{"slots_per_node": 10, **more})


class Site:
    """A simulated cluster, a queue, and the loop between them."""

    def __init__(self, simulator, home):
        self.simulator = simulator
        self.queue = WorkerQueue()
        self.config = {
            **simulator.connection("c"),
            "lock_file": None,
            "nodehistorydb": str(home / "nodehistory.db"),
            "retry": {"attempts": 1},
        }

    def run(self, *demands, after=0):
        """A pass with these demands."""
        self.simulator.clock.advance(after)
        self.queue.demands = list(demands)
        summary = Autoscaler(self.config, self.queue).run_once()
        assert summary.errors == ()
        return summary

    def nodes(self):
        """The records of all nodes there are, by name."""
        return {node["Name"]: node for node in self.simulator.cluster("c").nodes()}

    def states(self):
        return Counter(node["Status"] == "Ready" for node in self.nodes().values())

    def report(self, *names):
        """The queue knows the workers of these nodes, each of which runs a job."""
        for name in names:
            self.queue.live[name] = (self.nodes()[name]["NodeId"], (f"job of {name}",))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Nodes that boot for a minute."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    with serve(CLOUD) as simulator:
        yield Site(simulator, tmp_path)


def test_the_whole_backlog_is_rounded_up_once_and_booting_nodes_count(site):
    """10,000 jobs, ten for a worker: 1,000 workers on 100 nodes at once, and no more while they
    boot, when they are ready, and when jobs run."""
    assert len(site.run(backlog(10_000)).created) == 100
    assert site.run(backlog(10_000)).created == ()
    assert site.run(backlog(9_000, 1_000), after=BOOT).created == ()
    assert len(site.nodes()) == 100


def test_nodes_that_boot_for_nobody_are_given_back_in_the_next_pass(site):
    """200 workers live and 800 boot when 5,000 of 10,000 jobs are cancelled: the youngest nodes
    that boot go at once, as many as are too many, and no other node."""
    site.run(backlog(2_000))
    site.run(backlog(2_000), after=BOOT)
    site.report(*site.nodes())
    old = set(site.nodes())
    site.run(backlog(8_000))
    middle = set(site.nodes()) - old
    site.simulator.clock.advance(5)
    site.run(backlog(9_800, 200))
    young = set(site.nodes()) - old - middle
    assert (len(old), len(middle), len(young)) == (20, 60, 20)
    summary = site.run(backlog(4_800, 200))
    assert len(summary.given_back) == len(summary.deleted) == 50
    assert summary.created == ()
    assert young < set(summary.deleted) <= young | middle
    again = site.run(backlog(4_800, 200))
    assert (again.given_back, again.deleted, again.created) == ((), (), ())
    assert len([n for n in site.nodes().values() if n["TargetState"] == "Started"]) == 50


def test_all_of_it_may_be_given_back(site):
    """Nothing runs on nodes that boot, so that no share of the nodes has to stay."""
    site.run(backlog(10_000))
    assert len(site.run(backlog(0)).deleted) == 100


def test_the_limit_of_a_pass_is_kept(site):
    """An operator's number of deletions is one for these nodes as well."""
    site.config["autoscale"] = {"max_deletes_per_pass": 3}
    site.run(backlog(500))
    assert [len(site.run(backlog(0)).deleted) for _ in range(2)] == [3, 2]


def test_a_backlog_that_wavers_creates_and_cancels_nothing(site):
    """Up to a twentieth of the nodes more than are wanted may boot."""
    site.run(backlog(4_000))
    for jobs in (3_900, 3_801, 4_000):
        summary = site.run(backlog(jobs))
        assert (summary.given_back, summary.created) == ((), ())
    assert len(site.run(backlog(3_700)).deleted) == 3


def test_a_node_that_is_ready_or_joined_has_its_idle_time(site):
    """It is not given back, although nobody wants it."""
    site.run(backlog(200))
    site.report("htc-1")
    summary = site.run(backlog(0))
    assert (summary.given_back, summary.deleted) == (("htc-2",), ("htc-2",))
    site.queue.live.clear()
    site.run(backlog(200))
    assert site.run(backlog(0), after=BOOT).given_back == ()


def test_demand_that_comes_back_during_the_pass_keeps_its_nodes(site):
    """The queue is read again before anything is deleted: the oldest nodes stay, as many as are
    wanted then."""
    site.run(backlog(1_000))

    def comes_back(queue):
        queue.demands = [backlog(300)]

    site.queue.later = comes_back
    summary = site.run(backlog(0))
    assert (len(summary.given_back), len(summary.deleted)) == (10, 7)
    assert summary.spared == ("htc-1", "htc-2", "htc-3")
    site.queue.later = None
    assert site.run(backlog(300)).created == ()


def test_a_worker_that_comes_up_during_the_pass_keeps_its_node(site):
    """So does one of which the queue says something in the second reading alone."""
    site.run(backlog(200))
    site.queue.later = lambda queue: site.report("htc-2")
    assert site.run(backlog(0)).deleted == ("htc-1",)


def test_a_node_that_becomes_ready_during_the_pass_stays(site):
    """The gate holds the newest listing against what was decided."""
    site.run(backlog(100))
    site.queue.later = lambda queue: site.simulator.clock.advance(BOOT)
    summary = site.run(backlog(0))
    assert (summary.given_back, summary.deleted) == (("htc-1",), ())
    assert "Recovered" in [refusal.code for refusal in summary.refused]


def test_the_gate_is_what_keeps_it(site):
    """Without that guard it would be gone."""
    site.run(backlog(100))
    site.queue.later = lambda queue: site.simulator.clock.advance(BOOT)
    with without_guard("still-so"):
        assert site.run(backlog(0)).deleted == ("htc-1",)


@pytest.mark.parametrize("place", range(4))
def test_the_node_that_the_driver_requires_is_kept(site, place):
    """Workers are wanted there, however young it is, and the others are given back."""
    site.run(backlog(400))
    names = sorted(site.nodes())
    kept = names.pop(place)

    def require(config, node_mgr):
        for node in node_mgr.get_nodes():
            node.required = node.name == kept

    site.queue.preprocess_node_mgr = require
    summary = site.run(backlog(100))
    assert sorted(summary.deleted) == names


def test_definitions_do_not_share_nodes(site):
    """Each has nodes of its own, which say whose they are; one has none of the other's."""
    a, b = (backlog(500, name=name) for name in "ab")
    assert len(site.run(a, b).created) == 10
    whose = Counter(n["Configuration"]["worker_definition"] for n in site.nodes().values())
    assert whose == {"a": 5, "b": 5}
    assert site.run(a, b).created == ()
    summary = site.run(backlog(0, name="a"), backlog(700, name="b"))
    assert (len(summary.deleted), len(summary.created)) == (5, 2)


def test_a_definition_that_is_named_twice_is_one(site):
    """What both want stays, and the rest goes."""
    site.run(backlog(300), backlog(200))
    assert len(site.nodes()) == 5
    assert len(site.run(backlog(100), backlog(200)).deleted) == 2
    assert site.run(backlog(100), backlog(200)).given_back == ()


def test_nothing_is_given_back_of_a_definition_that_nobody_speaks_of(site):
    """Unknown is never zero."""
    site.run(backlog(500, name="a"))
    assert site.run(backlog(0, name="b")).given_back == ()


def test_a_demand_that_makes_no_sense_ends_the_pass_before_it_changes_anything(site):
    """As any driver's error does."""
    site.run(backlog(50))

    def makes_none(queue):
        queue.demands = [backlog(-1)]

    with pytest.raises(WorkerDemandError, match="workers default: waiting: expected a whole"):
        makes_none(site.queue)
    site.queue.initialize = lambda: makes_none(site.queue)
    with pytest.raises(WorkerDemandError):
        site.run()
    assert len(site.nodes()) == 1


def test_the_rest_goes_where_there_is_room(site):
    """Nodearrays are asked in the order in which the definition names them; what one has no room
    for is for the next."""
    wanted = backlog(500, nodearrays=["small", "htc"], attributes={"Tags": {"of": "x"}})
    summary = site.run(wanted)
    assert Counter(name.split("-")[0] for name in summary.created) == {"small": 2, "htc": 3}
    assert all(node["Tags"] == {"of": "x"} for node in site.nodes().values())
    assert site.run(wanted).created == ()
