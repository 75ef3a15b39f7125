"""One pass of the autoscaler: the order of its steps, and what it reports."""

import gc
import os
import weakref
from types import SimpleNamespace

import pytest

from builders.fake_scheduler import cluster, idle_cluster, now, raising, run, scheduler
from builders.nodes import a_planned_node, an_htc_cluster, names
from hpc.autoscale import results
from hpc.autoscale.autoscaler import Autoscaler, Reporter, commanding
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.learning import new_calculator
from hpc.autoscale.autoscaler.reading import Readings
from hpc.autoscale.autoscaler.scale_in import ScaleIn
from hpc.autoscale.autoscaler.witness import Witness
from hpc.autoscale.autoscaler.workers_on_premises import HostsOfPass
from hpc.autoscale.ccbindings.errors import Throttled
from hpc.autoscale.errors import ConfigurationException, ConstraintError, MultipleInstancesError
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.guards import AWAY, Facts
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.testing import a_cluster, a_host, a_job
from hpc.autoscale.util import SingletonFileLock, parse_boot_timeout

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures


def own_calculator(config, driver):
    """A demand calculator as integrations made it before there was a loop."""
    jobs, hosts = driver.read_jobs_and_nodes(config)
    history = driver.new_node_history(config)
    return new_demand_calculator(config, hosts, node_history=history), jobs


def defining_more(config, driver):
    """A demand calculator as the loop makes it, with a resource that is defined afterwards."""
    calculator, jobs = new_calculator(config, driver)
    calculator.node_mgr.add_default_resource({}, "colour", "red")
    return calculator, jobs


def overdue(find_booting):
    """Names of those of the late nodes that go for it, and the phases of errors."""
    faults, facts = Faults(), Facts()
    scale_in = ScaleIn({}, faults, Witness(Readings(), faults), facts, HostsOfPass({}, faults))
    found = scale_in.overdue(SimpleNamespace(find_booting=find_booting))
    return names(found), [error.phase for error in faults.found]


def test_what_is_late_goes_unless_it_is_to_stay_or_its_cluster_is_silent():
    """Of a cluster that is set aside nobody knows what booted: that is no boot that failed."""
    late = a_planned_node(name="late", state="Preparing")
    kept = a_planned_node(name="kept", state="Preparing", keep_alive=True)
    away = a_planned_node(name="away", state=AWAY)
    assert overdue(lambda timeout: [late, kept, away]) == (["late"], [])


def test_who_is_late_is_nobody_where_that_cannot_be_told():
    """The pass goes on, with the error."""
    assert overdue(raising(ValueError("no"))) == ([], ["looking for boot timeouts"])


# -- the order of things


def test_the_order_that_drivers_rely_on(run, scheduler):
    """Prepare, read, clear up what the scheduler marked, compare, then join before anything is
    started.

    Failed nodes are asked about twice, also when there are none.
    """
    scheduler.jobs = [a_job(tasks=8)]
    run()
    assert scheduler.calls == [
        "initialize",
        "preprocess_config",
        "read",
        "handle_failed_nodes",
        "preprocess_node_mgr",
        "validate_nodes",
        "handle_failed_nodes",
        "add_nodes_to_cluster",
        "handle_post_join_cluster",
    ]


class Compared(str):
    """A name that counts how often it is held against another one."""

    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Compared.times += 1
        return str(self) == other


def test_names_of_nodes_that_join_are_looked_up(cluster, scheduler, monkeypatch):
    """And not held against those of all nodes, of which there may be thousands."""
    every = [f"htc-{number}" for number in range(1, 9)]
    for name in every:
        cluster.add_node(name, "htc", state="Ready", hostname=name)
    scheduler.hosts = [a_host(name) for name in every[1:]]
    monkeypatch.setattr(commanding, "join", lambda *_: tuple(map(Compared, every)))
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    assert Autoscaler(config, scheduler).run_once().newly_joined == ("htc-1",)
    assert Compared.times <= len(every)


def test_hosts_are_compared_once_when_somebody_else_makes_the_calculator(cluster, scheduler):
    """With the hosts of the scheduler and CycleCloud's nodes, before work is placed."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.hosts = [a_host("host-1"), a_host("on-premises")]
    scheduler.jobs = [a_job()]
    compared = []

    def validate_nodes(hosts, nodes):
        compared.append(([h.hostname for h in hosts], [n.name for n in nodes]))
        assert not any(node.assignments for node in nodes)

    scheduler.validate_nodes = validate_nodes
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    Autoscaler(config, scheduler, new_calculator=own_calculator).run_once()
    assert compared == [(["host-1", "on-premises"], ["htc-1"])]
    Autoscaler(config, scheduler).run_once()
    assert len(compared) == 2


@pytest.mark.parametrize("made_by", [own_calculator, new_calculator])
def test_hosts_on_premises_are_no_lost_nodes(cluster, scheduler, made_by):
    """A driver that forgets hosts whose node is not listed any more keeps them."""
    compared = []
    scheduler.validate_nodes = lambda hosts, nodes: compared.extend(n.name for n in nodes)
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    config["on_premises"] = [{"name": "rack-1", "resources": {"ncpus": 4}}]
    Autoscaler(config, scheduler, new_calculator=made_by).run_once()
    assert compared == ["rack-1"]


@pytest.mark.parametrize("made_by", [own_calculator, defining_more, new_calculator])
def test_what_the_scheduler_does_not_know_is_not_counted_for_another_job(scheduler, made_by):
    """A node that is ready and has no host yet comes last, however the calculator is made."""
    cluster = a_cluster(hpc={"Standard_F8s_v2": 9}, htc={"Standard_F4s_v2": 9})
    for array in ("hpc", "htc"):
        cluster.add_node(f"{array}-1", array, state="Ready", hostname=f"{array}-1")
    bound = a_job("bound", {"ncpus": 2, "node.nodearray": "htc"})
    whole = a_job("whole", {"ncpus": 8, "node.nodearray": "hpc"})
    scheduler.jobs = [bound, a_job("any", {"ncpus": 2}), whole]
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    summary = Autoscaler(config, scheduler, new_calculator=made_by, dry_run=True).run_once()
    assert not summary.requested


@pytest.mark.parametrize("own", [True, False])
def test_no_work_is_planned_on_a_host_that_the_driver_takes_out(cluster, scheduler, own):
    """Its VM is lost: the job gets a node, and the host is not joined again, however the calculator
    is made."""
    scheduler.hosts = [a_host("lost", ncpus=4, ccnodeid="gone"), a_host("tux", ncpus=1)]
    scheduler.jobs = [a_job(tasks=2)]
    scheduler.validate_nodes = lambda hosts, nodes: hosts.pop(0)
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    how = {"new_calculator": own_calculator} if own else {}
    assert Autoscaler(config, scheduler, **how).run_once().created == ("htc-1",)
    assert scheduler.given["add_nodes_to_cluster"] == ["tux"]


@pytest.mark.parametrize("own", [True, False])
def test_a_node_whose_host_the_driver_takes_out_is_joined_again(cluster, scheduler, own):
    """It is there, and takes work: only the scheduler does not know it any more."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    node_id = cluster.nodes["htc-1"].delayed_node_id.node_id
    scheduler.hosts = [a_host("host-1", ncpus=4, ccnodeid=node_id)]
    scheduler.jobs = [a_job()]
    scheduler.validate_nodes = lambda hosts, nodes: hosts.clear()
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    how = {"new_calculator": own_calculator} if own else {}
    summary = Autoscaler(config, scheduler, **how).run_once()
    assert (summary.created, summary.joined) == ((), ("htc-1",))


def test_no_work_is_planned_on_a_host_that_is_marked_for_deletion(run, scheduler):
    """Its VM is lost, and the driver has forgotten it; one that it keeps is as good as any."""
    scheduler.hosts = [a_host("lost", ncpus=4)]
    scheduler.hosts[0].marked_for_deletion = True
    scheduler.jobs = [a_job()]
    assert run().created == ("htc-1",)
    scheduler.hosts = [a_host("kept", ncpus=4)]
    scheduler.hosts[0].marked_for_deletion = True
    scheduler.answers["handle_failed_nodes"] = []
    scheduler.jobs = [a_job(tasks=8)]
    assert run().created == ()


def test_the_order_of_going(run, scheduler, cluster, now):
    """Boot timeouts, then draining, then a second look at the jobs, then the aftermath of
    deletion."""
    cluster.add_node("htc-9", "htc", state="Preparing")
    idle_cluster(cluster, run, now, count=1)
    now.sleep(2000)
    scheduler.calls.clear()
    run()
    assert scheduler.calls[-4:] == [
        "handle_boot_timeout",
        "handle_draining",
        "read",
        "handle_post_delete",
    ]


def test_a_pass_that_needs_nodes(run, scheduler, cluster):
    """Nodes are asked for, and the summary names them."""
    scheduler.jobs = [a_job(tasks=8)]
    summary = run()
    assert summary.jobs == 1
    assert summary.requested == summary.created == summary.booting == ("htc-1", "htc-2")
    assert set(cluster.nodes) == {"htc-1", "htc-2"}
    assert summary.ok


@pytest.mark.parametrize(
    ("others", "created", "notes", "errors"),
    [
        (8, 2, [], []),
        (9, 1, ["1 of 2 nodes came into being: "], []),
        (10, 0, [], ["starting nodes"]),
    ],
)
def test_fewer_nodes_than_were_asked_for(
    run, scheduler, cluster, monkeypatch, others, created, notes, errors
):
    """Somebody else has taken the room meanwhile: a note says how many there are, and why; none at
    all is an error."""

    def take_room(config, node_mgr):
        for number in range(others):
            cluster.add_node(f"other-{number}", "htc")

    monkeypatch.setattr(scheduler, "preprocess_node_mgr", take_room)
    scheduler.jobs = [a_job(tasks=8)]
    summary = run()
    assert (len(summary.requested), len(summary.created)) == (2, created)
    assert [note[: len(notes[0])] for note in summary.notes] == notes
    assert [error.phase for error in summary.errors] == errors
    for said in (*summary.notes, *map(str, summary.errors)):
        assert f"htc-2): only {created} of 2 are available" in said
        assert "Result(" not in said


def test_of_very_many_reasons_the_log_counts_the_others(run, scheduler, caplog):
    """Fifty are told one by one."""
    caplog.set_level("INFO", "hpc.autoscale.results")
    scheduler.jobs = [a_job(f"big{n}", {"ncpus": 99 + n % 57}) for n in range(60)]
    run()
    said = [r.getMessage() for r in caplog.records if r.name == "hpc.autoscale.results"]
    assert len(said) == 51
    assert "job big0 lacks" in said[0] and "(and 1 more job)" in said[0]
    assert said[-1] == "and 7 more jobs, for 7 other reasons"


def test_a_second_pass_asks_for_nothing_more(run, scheduler, cluster):
    """Nodes on their way count."""
    scheduler.jobs = [a_job(tasks=8)]
    run()
    scheduler.jobs = [a_job(tasks=8)]
    assert run().requested == ()
    assert len(cluster.nodes) == 2


@pytest.mark.parametrize("how", ["dry_run", "read_only"])
def test_a_dry_run_changes_nothing(run, scheduler, cluster, tmp_path, how):
    """Demand is known, and that is all: no hook that changes the scheduler, no node, no file. A
    configuration that is read-only has no other passes."""
    scheduler.jobs = [a_job(tasks=8)]
    summary = run(**{how: True})
    assert (summary.requested, summary.created, summary.dry_run) == (("htc-1", "htc-2"), (), True)
    assert scheduler.calls[-1] == "validate_nodes"
    assert not cluster.nodes
    assert os.listdir(tmp_path) == []


def test_deallocated_nodes_are_started(run, scheduler, cluster):
    """A node that is switched off is switched on, and counted as such."""
    cluster.add_node("htc-1", "htc", state="Deallocated", target_state="Deallocated")
    scheduler.jobs = [a_job(tasks=8)]
    summary = run()
    assert (summary.started, summary.created) == (("htc-1",), ("htc-2",))


def test_running_jobs_have_their_nodes(run, scheduler):
    """A job that runs asks for nothing."""
    job = a_job(tasks=8)
    job.metadata["job_state"] = "running"
    scheduler.jobs = [job]
    assert run().requested == ()
    job.metadata.clear()
    job.executing_hostnames.append("elsewhere")  # a part of it runs there
    assert len(run().requested) == 2


# -- jobs that cannot be helped


def test_a_bad_job_is_set_aside(run, scheduler):
    """One job that cannot be looked at keeps none of the others from being served."""
    broken = a_job("broken")
    broken.iterations_remaining = "many"
    scheduler.jobs = [broken, "no job at all", a_job("good", tasks=4)]
    summary = run()
    assert [job.name for job in summary.set_aside] == ["broken", "'no job at all'"]
    assert "expected a Job, found str" in summary.set_aside[1].reason
    assert summary.requested == ("htc-1",)
    assert summary.ok


def test_the_limit_that_stops_a_job_is_named(scheduler, now):
    """Exactly as many nodes as the limit allows, over any number of passes, and the limit with its
    figures."""
    cluster = an_htc_cluster(count=100, max_core_count=100, vm_size="Standard_F4s")
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    for _ in range(3):
        scheduler.jobs = [a_job("big", {"ncpus": 4}, tasks=60)]
        summary = Autoscaler(config, scheduler).run_once()
        assert len(cluster.nodes) == 25
        (short,) = summary.unsatisfied
        assert (short.name, short.missing, short.unit) == ("big", 35, "slots")
        assert "NodeArray(htc)" in short.limit
        assert "100 of 100 cores" in str(summary)


def test_a_job_that_matches_nothing(run, scheduler):
    """The reason is the constraint, and no limit is to blame."""
    scheduler.jobs = [a_job("odd", {"ncpus": 64})]
    (short,) = run().unsatisfied
    assert short.limit is None
    assert "ncpus" in short.reason


def test_jobs_that_were_written_down_wait_for_their_own_reasons(run, scheduler):
    """Constraints that were read are understood anew each time they are needed: equal addresses in
    memory do not make two jobs alike."""
    wanted = {f"job{n}": f"array{n}" for n in range(20)}
    scheduler.jobs = [a_job(name, {"node.nodearray": array}) for name, array in wanted.items()]
    assert all(job.to_dict() for job in scheduler.jobs)
    short = run().unsatisfied
    assert len(short) == len(wanted)
    for job in short:
        assert f"'{wanted[job.name]}' is needed" in job.reason


def test_gangs_count_in_nodes(run, scheduler):
    """All of them are missing, because none was started."""
    scheduler.jobs = [Job("gang", {"ncpus": 4}, node_count=11)]
    summary = run()
    (short,) = summary.unsatisfied
    assert (short.missing, short.unit) == (11, "nodes")
    assert summary.requested == ()


def test_a_job_with_nothing_left_lacks_nothing(run, scheduler):
    """Iterations that are placed already are not asked for again."""
    job = a_job()
    job.iterations_remaining = 0
    scheduler.jobs = [job]
    assert run().unsatisfied == ()


# -- errors on the way


def test_a_failing_create_is_reported(run, scheduler, cluster, now, monkeypatch):
    """And nodes that are idle still go: quota that is full must not keep money burning."""
    idle_cluster(cluster, run, now, count=1)
    scheduler.jobs = [a_job(needs={"ncpus": 4}, tasks=8)]
    scheduler.later = ([], [])
    throttled = Throttled("https://cc", 429, "slow down", 90.0, "later")
    monkeypatch.setattr(cluster, "create_nodes", raising(throttled))
    summary = run()
    assert len(summary.requested) == 7
    assert summary.created == ()
    assert summary.retry_after == 90
    assert "slow down" in str(summary.errors[0])


@pytest.mark.parametrize(
    "hook",
    [
        "handle_failed_nodes",
        "add_nodes_to_cluster",
        "handle_post_join_cluster",
        "handle_draining",
        "handle_post_delete",
    ],
)
def test_a_failing_hook_is_reported_and_hides_nothing(run, scheduler, cluster, now, hook):
    """The rest of the pass is done, and the summary has the error."""
    idle_cluster(cluster, run, now)
    scheduler.failing[hook] = RuntimeError("no licence\nfor that")
    summary = run()
    assert [error.message for error in summary.errors] == ["no licence for that"]
    assert not summary.ok
    assert summary.deleted == (() if hook == "handle_draining" else summary.idle)


def test_a_hook_that_returns_nothing_handled_nothing(run, scheduler, cluster, now):
    """None is taken for an empty list."""
    idle_cluster(cluster, run, now)
    for hook in ("handle_failed_nodes", "add_nodes_to_cluster", "handle_draining"):
        scheduler.answers[hook] = None
    summary = run()
    assert summary.ok
    assert (summary.joined, summary.drained) == ((), ())


@pytest.mark.parametrize("answer", [["htc-1"], True, (1 / 0 for _ in "x")])
def test_a_hook_that_returns_something_else(run, scheduler, cluster, now, answer):
    """Is reported like any other error of a driver."""
    idle_cluster(cluster, run, now)
    scheduler.answers["handle_draining"] = answer
    summary = run()
    assert [error.phase for error in summary.errors] == ["draining nodes"]
    assert (len(summary.idle), summary.deleted) == (3, ())


def test_a_job_that_cannot_be_made_is_named(run, scheduler, cluster):
    """It ends the pass from inside of the driver; whoever reads the error must find the job."""

    def read(config):
        return [Job("x", {"ncpus": 1}), Job("y", {"ncpus": {"a": 1}})], []

    scheduler._read_jobs_and_nodes = read
    with pytest.raises(ConstraintError, match=r"^job y: ncpus: expected a number"):
        run()
    assert not cluster.nodes


def test_errors_before_anything_is_changed_end_the_pass(run, scheduler, cluster):
    """They reach the caller, and nothing was done."""
    scheduler.failing["read"] = RuntimeError("qstat is missing")
    with pytest.raises(RuntimeError, match="qstat is missing"):
        run()
    assert not cluster.nodes


def test_a_nodearray_without_buckets_is_an_error_when_there_is_no_other(scheduler, cluster, now):
    """Otherwise it is a note."""
    cluster.add_nodearray("empty", {})
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    noted = Autoscaler(config, scheduler).run_once()
    assert noted.ok
    assert "nodearray empty" in noted.notes[0]
    del cluster.nodearrays["htc"]
    failed = Autoscaler(config, scheduler).run_once()
    assert "nodearray empty" in str(failed.errors[0])


# -- caps


def test_a_cap_on_new_nodes(run, scheduler, cluster):
    """What is over it is left for the next pass."""
    for expected in (4, 8, 10, 10):
        scheduler.jobs = [a_job(tasks=40)]
        summary = run(autoscale={"max_new_nodes_per_pass": 4})
        assert len(cluster.nodes) == expected
    assert summary.deferred == ()


def test_nodes_beyond_a_cap_are_told_of_in_few_lines(run, scheduler, cluster, caplog):
    """However new nodes and nodes at rest take turns in the queue."""
    caplog.set_level("INFO")
    cluster.add_nodearray("second", {})
    cluster.add_bucket("second", "Standard_F4", max_count=10, available_count=10)
    for i in range(1, 6):
        cluster.add_node(f"htc-{i}", "htc", state="Deallocated", target_state="Deallocated")
    scheduler.jobs = [
        Job(str(i), {"ncpus": 4, "node.nodearray": ("htc", "second")[i % 2]}) for i in range(10)
    ]
    summary = run(autoscale={"max_new_nodes_per_pass": 3})
    assert (summary.started, summary.created) == (("htc-1", "htc-2"), ("second-1",))
    assert len(summary.deferred) == 7
    assert len([each for each in caplog.messages if "refused: " in each]) <= 3


def test_a_cap_on_new_nodes_is_for_the_first_jobs_of_the_queue(run, scheduler, cluster):
    """In whatever nodearray: jobs that come later do not keep those of another one waiting."""
    cluster.add_nodearray("second", {})
    cluster.add_bucket("second", "Standard_F4", max_count=10, available_count=10)
    scheduler.jobs = [
        Job("first", {"ncpus": 4, "node.nodearray": "second"}, iterations=2),
        Job("later", {"ncpus": 4, "node.nodearray": "htc"}, iterations=2),
    ]
    summary = run(autoscale={"max_new_nodes_per_pass": 3})
    assert sorted(summary.created) == ["htc-1", "second-1", "second-2"]
    assert summary.deferred == ("htc-2",)


def test_a_cap_of_none_at_all(run, scheduler, cluster):
    """0 is 0, and everything is deferred."""
    scheduler.jobs = [a_job(tasks=8)]
    summary = run(autoscale={"max_new_nodes_per_pass": 0})
    assert (summary.created, summary.deferred) == ((), ("htc-1", "htc-2"))
    assert not cluster.nodes


def test_a_cap_on_deletions(run, scheduler, cluster, now):
    """No more nodes are drained than may go."""
    idle_cluster(cluster, run, now)
    summary = run(autoscale={"max_deletes_per_pass": 2})
    assert len(summary.idle) == 3
    assert len(scheduler.given["handle_draining"]) == len(summary.deleted) == 2


def test_the_cap_on_deletions_counts_failed_and_late_nodes(run, scheduler, cluster, now):
    """Whatever the reason to go, it is one deletion."""
    cluster.add_node("htc-8", "htc", state="Preparing")
    idle_cluster(cluster, run, now, count=1)
    now.sleep(1801)
    cluster.update_state("Preparing", ["htc-8"])
    cluster.add_node("htc-9", "htc", state="Failed")
    summary = run(autoscale={"max_deletes_per_pass": 1})
    assert summary.deleted == ("htc-9",)


# -- configuration, lock, handlers


def test_a_wrong_configuration_is_refused_at_once(scheduler):
    """With the line of the configuration check."""
    with pytest.raises(ConfigurationException, match="max_new_nodes_per_pass"):
        Autoscaler({"autoscale": {"max_new_nodes_per_pass": "many"}}, scheduler)


def test_a_driver_may_write_to_its_configuration(run, scheduler):
    """Every pass has a copy; live objects in it are the same."""
    config = {"default_resources": [{"select": {}, "name": "a", "value": 1}]}
    run(**config)
    scheduler.configs[0]["default_resources"].append({"select": {}, "name": "b", "value": 1})
    run(**config)
    assert len(scheduler.configs[1]["default_resources"]) == 1
    assert scheduler.configs[0]["_mock_bindings"] is scheduler.configs[1]["_mock_bindings"]


def test_the_lock_is_held_and_given_back(run, scheduler, tmp_path):
    """While a pass runs nobody else can, and afterwards anybody can."""
    path = str(tmp_path / "lock.file")

    def peek(nodes):
        with pytest.raises(MultipleInstancesError):
            SingletonFileLock(path)
        return nodes

    scheduler.handle_failed_nodes = peek
    run()
    SingletonFileLock(path).unlock()


def test_the_lock_is_given_back_after_an_error(run, scheduler, tmp_path):
    """However the pass ends."""
    scheduler.failing["read"] = RuntimeError("no")
    with pytest.raises(RuntimeError):
        run()
    SingletonFileLock(str(tmp_path / "lock.file")).unlock()


def test_somebody_else_holds_the_lock(run, scheduler, tmp_path):
    """Then nothing is read."""
    lock = SingletonFileLock(str(tmp_path / "lock.file"))
    with pytest.raises(MultipleInstancesError):
        run()
    lock.unlock()
    assert "read" not in scheduler.calls


def test_request_ids_outlive_the_process(run, scheduler, tmp_path):
    """They are kept beside the history."""
    scheduler.jobs = [a_job(tasks=4)]
    run()
    assert (tmp_path / "requests.db").exists()
    assert RequestLog(tmp_path / "requests.db").unsettled == []


def test_the_policy_of_the_configuration_decides_what_is_created(scheduler):
    """A two-core task gets a small node, though a core of the large one costs less; many together
    get the large one."""
    large, small = "Standard_HB120rs_v3", "Standard_F2s_v2"
    cluster = an_htc_cluster(10, large)
    cluster.add_nodearray("small", {})
    cluster.add_bucket("small", small, 100, 100)
    config = {
        "cluster_name": "clusty",
        "_mock_bindings": cluster,
        "packing": {"policy": "cheapest"},
        "vm_sizes": {"prices": {"*": {large: 3.96, small: 0.1}}},
    }
    scheduler.jobs = [a_job("a", {"ncpus": 2})]
    summary = Autoscaler(config, scheduler).run_once()
    assert [cluster.nodes[name].vm_size for name in summary.created] == [small]
    scheduler.jobs = [a_job("a", {"ncpus": 2}), a_job("b", {"ncpus": 2}, tasks=50)]
    summary = Autoscaler(config, scheduler, dry_run=False).run_once()
    assert [cluster.nodes[name].vm_size for name in summary.created] == [large]


def test_results_are_heard_only_during_a_pass(cluster, scheduler):
    """A handler is registered for the pass, told the contexts, and gone afterwards."""
    scheduler.jobs = [a_job("a"), a_job("b", {"ncpus": 64})]
    handler = results.DefaultContextHandler("[test]")
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    Autoscaler(config, scheduler, result_handler=handler).run_once()
    assert {"[Job a]", "[Job b]"} <= set(handler.by_context)
    assert handler not in results.HANDLERS


def test_what_nobody_reads_of_a_handler_is_that_of_the_last_pass(cluster, scheduler, caplog):
    """Also of a job that is placed in part: all of a cluster is kept in memory with it."""
    caplog.set_level("WARNING")  # what pytest has of the log keeps the summaries
    handler = results.DefaultContextHandler("[test]")
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    loop = Autoscaler(config, scheduler, result_handler=handler)
    seen: weakref.WeakSet[object] = weakref.WeakSet()
    for _ in range(6):
        scheduler.jobs = [a_job("a", {"ncpus": 1}, tasks=99)]
        summary = loop.run_once()
        seen.update(summary.demand.compute_nodes)
    del summary
    gc.collect()
    assert 0 < len(seen) <= 20


def test_who_has_joined_is_asked_as_often_for_many_nodes(scheduler, monkeypatch):
    """The answer is made of all that the history knows."""
    asked, joined = [], Witness.joined.fget
    monkeypatch.setattr(
        Witness, "joined", property(lambda witness: asked.append(witness) or joined(witness))
    )
    counts = []
    for nodes in (1, 9):
        cluster = an_htc_cluster(10)
        for number in range(nodes):
            cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"ip-{number}")
        asked.clear()
        config = {"cluster_name": "clusty", "_mock_bindings": cluster}
        assert len(Autoscaler(config, scheduler).run_once().joined) == nodes
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0


def test_a_reporter_hears_of_the_pass(cluster, scheduler):
    """Before and after."""

    class Heard(Reporter):
        def __init__(self):
            self.heard = []

        def pass_started(self, dry_run):
            self.heard.append(dry_run)

        def pass_finished(self, summary):
            self.heard.append(summary)

    reporter = Heard()
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    summary = Autoscaler(config, scheduler, reporter=reporter).run_once()
    assert reporter.heard == [False, summary]


def test_a_boot_timeout_of_nothing(run, cluster):
    """Is refused before anything is done; upstream's function reads it as ever."""
    cluster.add_node("htc-1", "htc", state="Preparing")
    with pytest.raises(ConfigurationException, match="every node would be given up before it"):
        run(boot_timeout=0)
    assert cluster.nodes["htc-1"].target_state == "Started"
    assert parse_boot_timeout({"boot_timeout": 0}) == 0


def test_a_ready_node_that_the_driver_does_not_let_in_is_a_note(run, scheduler, cluster, now):
    """Once its boot timeout is over: its job waits there, and the node is paid for."""
    hosts = {"autoscale": {"scheduler_reports_hosts": True}}
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.answers["add_nodes_to_cluster"] = []
    scheduler.jobs = [a_job()]
    assert not run(**hosts).notes
    now.sleep(1801)
    scheduler.jobs = [a_job()]
    (note,) = run(**hosts).notes
    assert note.startswith("FakeScheduler(fake).add_nodes_to_cluster: did not let in htc-1 within")
    scheduler.jobs, scheduler.hosts = [a_job()], [a_host("host-1", ncpus=4)]
    assert not run(**hosts).notes
    scheduler.jobs, scheduler.hosts = [a_job()], []
    scheduler.answers.clear()
    assert "did not let in" not in " ".join(run(**hosts).notes)


def test_why_jobs_wait_is_said_as_it_was_before_nodes_were_deleted(run, scheduler, cluster):
    """A failed node that is deleted gives back the place that the job waited for."""
    scheduler.hosts = [a_host(f"host-{n}", "17", ncpus=4, free={"ncpus": 0}) for n in range(1, 10)]
    for number in range(1, 10):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    cluster.add_node("htc-10", "htc", state="Failed", hostname="host-10")
    scheduler.jobs = [a_job("waits", {"ncpus": 4})]
    summary = run()
    assert summary.deleted == ("htc-10",)
    (short,) = summary.unsatisfied
    assert short.verdict.code == "BucketLimit"


def test_what_is_told_of_many_jobs_was_worked_out_before_nodes_were_deleted(
    run, scheduler, cluster
):
    """Also of the largest group where it comes last: more differ than causes are kept for."""
    scheduler.hosts = [a_host(f"host-{n}", "17", ncpus=4, free={"ncpus": 0}) for n in range(1, 10)]
    for number in range(1, 10):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    cluster.add_node("htc-10", "htc", state="Failed", hostname="host-10")
    others = [a_job(f"large-{n}", {"ncpus": 5 + n}) for n in range(60)]
    scheduler.jobs = [*others, *(a_job(f"waits-{n}", {"ncpus": 4}) for n in range(3))]
    summary = run()
    assert summary.deleted == ("htc-10",)
    (_, first), *_ = summary.details()
    assert first.startswith("3 jobs (waits-0, waits-1, waits-2) wait: CycleCloud has room for no")
