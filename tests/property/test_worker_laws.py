"""Laws of demand for workers, over days of passes: what is created, what is kept, what is given
back."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.nodes import an_htc_cluster
from builders.worker_queue import WorkerQueue
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.workers import WorkerDemand

NAMES = ("a", "b")
BACKLOG = st.fixed_dictionaries({name: st.integers(0, 60) for name in NAMES})
STEPS = st.lists(
    st.tuples(BACKLOG, st.integers(0, 40), st.integers(0, 10), st.booleans()), max_size=5
)
FOR_EVER = 10.0**6


class Site:
    """A cluster in memory; nodes become ready, and report, when they are told to."""

    def __init__(self, home):
        self.cluster = an_htc_cluster(1000, vm_size="Standard_F4s")
        self.queue = WorkerQueue()
        self.config = {
            "cluster_name": "clusty",
            "_mock_bindings": self.cluster,
            "lock_file": None,
            "nodehistorydb": str(Path(home, "nodehistory.db")),
            "idle_timeout": FOR_EVER,
            "boot_timeout": FOR_EVER,
        }

    def run(self, demands):
        """A pass, without errors."""
        self.queue.demands = demands
        summary = Autoscaler(self.config, self.queue).run_once()
        assert summary.errors == ()
        return summary

    def nodes(self, name):
        """The nodes of a definition that are there, or come."""
        return [
            node
            for node in self.cluster.nodes.values()
            if node.in_use and node.software_configuration["worker_definition"] == name
        ]

    def boots_for_all_to_see(self, node):
        """Whether a node boots, and nobody has heard of it."""
        return node.state != "Ready" and node.name not in self.queue.live

    def move(self, ready, reporting, busy):
        """Some nodes become ready, and some of all report."""
        every = [node for node in self.cluster.nodes.values() if node.in_use]
        self.cluster.update_state("Ready", [node.name for node in every[:ready]])
        for node in every[-reporting:] if reporting else ():
            node_id = str(node.delayed_node_id.node_id)
            self.queue.live[str(node.name)] = (node_id, ("job",) if busy else ())


@given(STEPS)
@settings(max_examples=6, deadline=None)
def test_what_is_wanted_is_there_and_what_boots_for_nobody_is_not(steps):
    """Exactly what is missing is created; what is ready or known stays; of what boots, no more
    stays than is wanted beside that, and a few more at most; and a pass that is repeated changes
    nothing."""
    clock.use_mock_clock()
    with tempfile.TemporaryDirectory() as home:
        site = Site(home)
        for backlog, ready, reporting, busy in steps:
            clock.sleep(30)
            demands = [WorkerDemand(jobs, name=name) for name, jobs in backlog.items()]
            before = {name: site.nodes(name) for name in NAMES}
            settled = {
                str(node.name)
                for nodes in before.values()
                for node in nodes
                if not site.boots_for_all_to_see(node)
            }
            summary = site.run(demands)
            assert settled.isdisjoint(summary.deleted)
            assert set(summary.deleted) <= set(summary.given_back)
            missing = [max(0, d.nodes - len(before[d.name])) for d in demands]
            assert len(summary.created) == sum(missing)
            for demand in demands:
                nodes = site.nodes(demand.name)
                booting = sum(map(site.boots_for_all_to_see, nodes))
                assert len(nodes) >= demand.nodes
                beside = max(0, demand.nodes - (len(nodes) - booting))
                assert booting <= beside + demand.slack
            again = site.run(demands)
            assert (again.created, again.deleted) == ((), ())
            site.move(ready, reporting, busy)
