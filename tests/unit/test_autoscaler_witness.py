"""A scheduler, or CycleCloud, that answers nothing or in part: nothing is deleted, at any time and
after any gap."""

import copy
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.fake_scheduler import IDLE, FakeScheduler, cluster, idle_cluster, now, run, scheduler
from builders.nodes import a_planned_node, an_htc_cluster
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.autoscaler.witness import compare
from hpc.autoscale.ccbindings.errors import InconsistentStatus
from hpc.autoscale.ccbindings.evidence import check_listing
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.testing import a_host, without_guard

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures

COUNT = 200
ALL_HOSTS = {"scheduler_reports_hosts": True}

# many passes over many nodes; the other tests run the same lines
many_passes = pytest.mark.no_cover


class Grid(FakeScheduler):
    """A scheduler with a job on each of its hosts, whose answers a fault may change."""

    def __init__(self, ids):
        super().__init__()
        self.ids = ids
        self.busy = set(ids)
        self.fault = lambda hosts: hosts
        self.first_fault_only = False

    def _read_jobs_and_nodes(self, config):
        self._hook("read", [])
        hosts = []
        for number, (name, node_id) in enumerate(self.ids.items()):
            running = ["job"] if name in self.busy else []
            hosts.append(a_host(f"host-{number}", *running, ccnodeid=node_id))
        return [], self.fault(hosts)


def a_grid(count):
    """A cluster of so many nodes, all ready, and its scheduler."""
    made = an_htc_cluster(count=count, vm_size="Standard_F4s")
    ids = {}
    for number in range(count):
        node = made.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
        ids[f"htc-{number}"] = node.delayed_node_id.node_id
    return made, Grid(ids)


@pytest.fixture
def big(now):
    """Two hundred nodes."""
    return a_grid(COUNT)


@pytest.fixture
def small(now):
    """A few more than go in one pass without a limit."""
    return a_grid(24)


def run_pass(cluster, grid, **section):
    """A pass of another process, sixty seconds later."""
    clock.sleep(60)
    config = {"cluster_name": "c", "_mock_bindings": cluster, "autoscale": section}
    return Autoscaler(config, grid).run_once()


FAULTS = {
    "empty": lambda hosts: [],
    "truncated": lambda hosts: hosts[:120],
    "half missing": lambda hosts: hosts[::2],
    "one missing": lambda hosts: hosts[1:],
    "almost all missing": lambda hosts: hosts[:1],
}


@many_passes
@pytest.mark.parametrize(
    ("fault", "gap"),
    [*product(FAULTS, [0, 7 * 24 * 3600]), ("empty", 600), ("half missing", 3600)],
)
def test_a_reading_in_part_deletes_nothing(big, fault, gap):
    """Every node is at work all the time, as nobody is told for twelve minutes; the summary says
    what is missing."""
    cluster, grid = big
    for _ in range(3):
        run_pass(cluster, grid)
    clock.sleep(gap)
    grid.fault = FAULTS[fault]
    for _ in range(12):
        summary = run_pass(cluster, grid)
        assert (summary.drained, summary.deleted) == ((), ())
    assert len(summary.missing) == COUNT - len(grid.fault(list(range(COUNT))))
    assert "missing (htc-" in str(summary)
    grid.fault = lambda hosts: hosts
    assert run_pass(cluster, grid).deleted == ()
    assert all(node.target_state == "Started" for node in cluster.nodes.values())


def test_without_the_guard_they_are_deleted(big):
    """So it is this one that keeps them."""
    cluster, grid = big
    for _ in range(3):
        run_pass(cluster, grid)
    grid.fault = FAULTS["empty"]
    with without_guard("answer-complete"):
        deleted = [name for _ in range(8) for name in run_pass(cluster, grid).deleted]
    assert len(deleted) > COUNT // 2


@many_passes
def test_idle_time_begins_anew_after_a_fault(big):
    """What nobody knows was idle did not idle; then nodes go in their time."""
    cluster, grid = big
    grid.busy.clear()
    run_pass(cluster, grid)
    grid.fault = FAULTS["half missing"]
    for _ in range(10):
        run_pass(cluster, grid)
    grid.fault = lambda hosts: hosts
    for _ in range(5):
        assert run_pass(cluster, grid).deleted == ()
    for _ in range(2):
        summary = run_pass(cluster, grid)
    assert len(summary.deleted) == COUNT // 2


@many_passes
def test_a_host_that_the_scheduler_has_forgotten_does_not_keep_its_node_for_ever(big):
    """Complete answers leave it out for more than an hour: an administrator has removed it, and the
    node has nothing to do."""
    cluster, grid = big
    run_pass(cluster, grid)
    grid.fault = FAULTS["one missing"]
    for _ in range(59):
        assert run_pass(cluster, grid).deleted == ()
    gone = [name for _ in range(8) for name in run_pass(cluster, grid).deleted]
    assert gone == ["htc-0"]


def test_an_empty_second_look_deletes_nothing(big):
    """Ten nodes are idle; the answer after the drain has no host at all, though the others were
    there a moment ago."""
    cluster, grid = big
    grid.busy.difference_update(f"htc-{i}" for i in range(10))
    for _ in range(6):
        run_pass(cluster, grid)
    reads = []

    def empty_again(hosts):
        reads.append(hosts)
        return hosts if len(reads) == 1 else []

    grid.fault = empty_again
    summary = run_pass(cluster, grid)
    assert (len(summary.drained), summary.deleted) == (10, ())
    codes = {r.code for r in summary.refused if r.command == "delete"}
    assert codes == {"SchedulerIncomplete"}
    grid.fault = lambda hosts: hosts
    assert len(run_pass(cluster, grid).deleted) == 10


@many_passes
def test_a_driver_that_removes_what_it_drains(big):
    """Its hosts are missing then, and that is no sign of trouble: it said itself that they may
    go."""
    cluster, grid = big
    grid.busy.clear()
    drained = set()

    def handle_draining(nodes):
        drained.update(node.hostname for node in nodes)
        return nodes

    grid.handle_draining = handle_draining
    grid.fault = lambda hosts: [host for host in hosts if host.hostname not in drained]
    deleted = [name for _ in range(14) for name in run_pass(cluster, grid).deleted]
    assert len(deleted) == COUNT


def _days_without_a_history(cluster, grid, tmp_path, **section):
    """What many passes delete in a process that finds no history, after one that had it."""
    run_pass(cluster, grid)
    grid.close_histories()
    (tmp_path / "nodehistory.db").unlink()
    return [name for _ in range(14) for name in run_pass(cluster, grid, **section).deleted]


@pytest.mark.parametrize("fault", ["empty", "half missing"])
def test_a_lost_history_and_a_silent_scheduler_delete_nothing(small, tmp_path, fault):
    """Nobody knows then what the nodes did before; of those that came later the history knows."""
    cluster, grid = small
    grid.fault = FAULTS[fault]
    assert _days_without_a_history(cluster, grid, tmp_path) == []
    new = cluster.add_node("htc-new", "htc", state="Acquiring", hostname="new")
    run_pass(cluster, grid)
    new.state = "Ready"
    assert [n for _ in range(10) for n in run_pass(cluster, grid).deleted] == ["htc-new"]


def test_a_driver_that_reports_no_idle_hosts_may_say_so(small, tmp_path):
    """With a key, nodes of an unknown past go when they have been idle."""
    cluster, grid = small
    grid.fault = FAULTS["empty"]
    section = {"scheduler_reports_hosts": False}
    assert len(_days_without_a_history(cluster, grid, tmp_path, **section)) == 24


def test_a_driver_that_reports_hosts_with_work_alone_may_say_so(small):
    """With that key, a host that it reports no more is one whose work has ended, and its node
    goes."""
    cluster, grid = small
    grid.fault = lambda hosts: [host for host in hosts if host.assignments]
    section = {"scheduler_reports_hosts": False}
    run_pass(cluster, grid, **section)
    grid.busy = {"htc-0"}
    summaries = [run_pass(cluster, grid, **section) for _ in range(14)]
    assert not any(summary.missing or summary.notes for summary in summaries)
    gone = {name for summary in summaries for name in summary.deleted}
    assert gone == grid.ids.keys() - {"htc-0"}


def test_what_was_reported_is_known_to_another_process(big):
    """By the history; and by the loop itself when the history is lost."""
    cluster, grid = big
    config = {"cluster_name": "c", "_mock_bindings": cluster}
    autoscaler = Autoscaler(config, grid)
    autoscaler.run_once()
    history = grid.new_node_history({})
    assert sum(seen.reported for seen in history.sightings().values()) == COUNT
    history.conn.execute("DELETE FROM sightings")
    history.conn.commit()
    grid.fault = FAULTS["empty"]
    for _ in range(10):
        clock.sleep(60)
        assert autoscaler.run_once().deleted == ()


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.lists(st.booleans(), max_size=60))
def test_missing_is_what_was_reported_and_is_not(known, reported):
    """Whatever is reported and was: no node is both, and nothing is complete that lacks two, and a
    tenth."""
    nodes = [
        a_planned_node(name=f"n-{i}", id=f"id-{i}", exists=True, hostname=f"h-{i}")
        for i in range(len(known))
    ]
    hosts = [a_host(f"h-{i}") for i, there in enumerate(reported) if there]
    before = {key_of(node) for node, each in zip(nodes, known, strict=True) if each}
    found = compare(nodes, hosts, before)
    assert found.missing == before - found.reported
    if len(found.missing) > max(1, len(before) // 10) or (found.missing and not hosts):
        assert not found.is_complete


# -- CycleCloud


LISTED = 20_000


class Listing:
    """A cluster of twenty thousand nodes whose listing a fault may change."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.fault = lambda records: records

    def __getattr__(self, name):
        return getattr(self._cluster, name)

    def check_listing(self, status, node_list=None):
        """As the client over HTTP does."""
        check_listing("c", status, node_list)

    def get_nodes(self, *args, **kwargs):
        """The listing, as the fault has it."""
        listing = self._cluster.get_nodes(*args, **kwargs)
        listing = copy.copy(listing)
        listing.nodes = self.fault(list(listing.nodes or []))
        return listing

    def get_cluster_status(self, *args, **kwargs):
        """The status, with its nodes as they were long ago where the listing is of then."""
        status = self._cluster.get_cluster_status(*args, **kwargs)
        if self.fault is _long_ago and status.nodes:
            status = copy.copy(status)
            status.nodes = self.fault(list(status.nodes))
        return status


@pytest.fixture(scope="module")
def twenty_thousand():
    """Made once: it takes a while."""
    made = an_htc_cluster(count=LISTED, vm_size="Standard_F4s")
    for number in range(LISTED):
        made.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    return made


@many_passes
@pytest.mark.parametrize(
    "fault",
    [
        lambda records: [],
        lambda records: records[: LISTED // 3],
        lambda records: records[::2],
        lambda records: records[:-1],
        lambda records: records[:100] * 200,
    ],
    ids=["empty", "truncated", "half missing", "one missing", "a page repeated"],
)
def test_a_listing_in_part_deletes_nothing(twenty_thousand, now, scheduler, fault):
    """The pass ends: the counts of the buckets say otherwise. Nothing is created either."""
    cluster = Listing(twenty_thousand)
    cluster.fault = fault
    clock.sleep(7 * 24 * 3600)
    config = {"cluster_name": "c", "_mock_bindings": cluster}
    before = {name: node.target_state for name, node in twenty_thousand.nodes.items()}
    with pytest.raises(InconsistentStatus):
        Autoscaler(config, scheduler).run_once()
    assert {name: n.target_state for name, n in twenty_thousand.nodes.items()} == before


def _long_ago(records):
    """As when a third of the nodes booted, and the others had failed."""
    states = ["Preparing"] * (LISTED // 3) + ["Failed"] * LISTED
    pairs = zip(records, states, strict=False)
    return [{**record, "Status": state, "State": state} for record, state in pairs]


@many_passes
def test_a_listing_of_long_ago_deletes_nothing(twenty_thousand, now):
    """Every node is at work, and the scheduler says so. What CycleCloud says is old, at the second
    look, too; and nobody watched for a week."""
    cluster = Listing(twenty_thousand)
    ids = {name: node.delayed_node_id.node_id for name, node in twenty_thousand.nodes.items()}
    grid = Grid(ids)
    assert run_pass(cluster, grid).errors == ()
    cluster.fault = _long_ago
    clock.sleep(7 * 24 * 3600)
    summary = run_pass(cluster, grid)
    assert (summary.drained, summary.deleted, summary.errors) == ((), (), ())
    assert {refusal.code for refusal in summary.refused} == {"HasJobs", "MaxDeleteShare"}
    assert all(node.target_state == "Started" for node in twenty_thousand.nodes.values())


def test_failed_nodes_go_while_the_scheduler_leaves_out_hosts(run, scheduler, cluster, now):
    """CycleCloud itself says that they are of no use; the others may have work."""
    idle_cluster(cluster, run, now)
    scheduler.hosts = [a_host(f"host-{number}") for number in (1, 2, 3)]
    run(idle_timeout=10 * IDLE, autoscale=ALL_HOSTS)
    cluster.nodes["htc-3"].state = "Failed"
    scheduler.hosts = []
    summary = run(autoscale=ALL_HOSTS)
    assert (summary.missing, summary.deleted) == (("htc-1", "htc-2", "htc-3"), ("htc-3",))


def test_a_host_that_only_the_first_look_has_is_missing_from_the_second(
    run, scheduler, cluster, now
):
    """The scheduler is in trouble then, also where it had never reported that host before."""
    idle = cluster.add_node("htc-1", "htc", state="Acquiring", hostname="host-1")
    run(autoscale=ALL_HOSTS)
    idle.state = "Ready"
    run(autoscale=ALL_HOSTS)
    now.sleep(IDLE)
    cluster.add_node("htc-2", "htc", state="Ready", hostname="host-2")
    scheduler.hosts = [a_host("host-2", "running")]
    scheduler.later = ([], [])
    summary = run(autoscale=ALL_HOSTS)
    assert (summary.drained, summary.spared, summary.deleted) == (("htc-1",), ("htc-1",), ())


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_host_without_a_name_keeps_all_nodes(run, scheduler, cluster, now, name):
    """Nobody knows which node it is; that is said."""
    idle_cluster(cluster, run, now)
    scheduler.hosts = [a_host("host-2"), SchedulerNode(name, {})]
    summary = run()
    assert (summary.drained, summary.deleted) == ((), ())
    assert [job.name for job in summary.set_aside] == ["host 2 of the scheduler"]
