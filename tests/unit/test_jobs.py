"""Jobs made of what a scheduler says: what is wrong with one is said of that one, and the others
are there."""

import pytest

from builders.fake_scheduler import cluster, idle_cluster, now, run, scheduler
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import UnusableJob, UnusableJobError, build_jobs, checked
from hpc.autoscale.testing import a_cluster, a_config, a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures


def build(entry):
    """A job of a dict of arguments."""
    return Job(**entry)


def name(entry):
    """As the scheduler calls it."""
    return entry["name"]


@pytest.mark.parametrize(
    ("entry", "called", "reason"),
    [
        ({"name": "x", "ncpus": -4}, "x", "TypeError: .*'ncpus'"),
        (
            {"name": "x", "constraints": {"ncpus": -4}},
            "x",
            r"^ncpus: expected an amount from 0 to .*, found -4$",
        ),
        ({"name": "x", "constraints": {"or": [{"ncpus": -4}]}}, "x", r"^or\[0\].ncpus: expected"),
        ({"name": "x", "constraints": 17}, "x", "expected .*, found 17"),
        ({"name": "x", "iterations": -4}, "x", "^iterations: expected 0 or more, found -4$"),
        ({"name": "x", "node_count": -1}, "x", "^node_count: expected 0 or more, found -1$"),
        ({"name": "x", "iterations": "4"}, "x", "^expected iterations to be int, found '4'$"),
        ({"name": 7, "iterations": "4"}, "entry 2", "expected name to be str, found 7"),
        ({"name": " ", "iterations": "4"}, "entry 2", "expected iterations to be int"),
        (None, "entry 2", "TypeError: "),
        ([], "entry 2", "TypeError: "),
    ],
)
def test_an_entry_that_makes_no_sense(entry, called, reason):
    """Is one job among the others, in its place, which says what is wrong in one line."""
    before, bad, after = build_jobs([{"name": "a"}, entry, {"name": "c"}], build, name)
    assert (before.name, after.name) == ("a", "c")
    assert isinstance(bad, UnusableJob) and bad.name == called
    with pytest.raises(UnusableJobError, match=reason):
        checked(bad)
    assert "\n" not in bad.reason


def test_an_entry_may_be_several_jobs():
    """All of them, or none where one makes no sense."""
    needs = {"a": [{"ncpus": 1}, {"ncpus": 2}], "b": [{"ncpus": 1}, {"ncpus": {}}], "c": []}
    jobs = build_jobs(needs, lambda name: [Job(name, each) for each in needs[name]])
    assert [(job.name, isinstance(job, UnusableJob)) for job in jobs] == [
        ("a", False),
        ("a", False),
        ("b", True),
    ]


def test_an_entry_that_wants_nothing():
    """Makes no job."""
    assert build_jobs([1, 2], lambda entry: None) == []


@pytest.mark.parametrize("made", ["a job", 7, {"name": "x"}])
def test_a_builder_that_makes_something_else(made):
    """Is told what was expected of it."""
    (bad,) = build_jobs(["x"], lambda entry: made)
    assert (bad.name, bad.reason) == ("x", f"expected a Job, found {type(made).__name__}")


def test_a_queue_that_cannot_be_read_is_no_bad_entry():
    """The error goes on up: nobody knows what else waits."""

    def entries():
        yield {"name": "a"}
        raise OSError("qstat: connection refused")

    with pytest.raises(OSError, match="connection refused"):
        build_jobs(entries(), build, name)


def test_an_unusable_job_gets_no_node_of_a_loop_of_ones_own():
    """Its reason is that of the result."""
    calculator = new_demand_calculator(a_config(a_cluster()))
    calculator.add_jobs(build_jobs([{"name": "x", "iterations": -4}, {"name": "y"}], build, name))
    assert [node.assignments for node in calculator.get_demand().new_nodes] == [{"y"}]


def test_every_bad_job_is_in_the_summary_of_the_pass(run, scheduler):
    """By name, with its reason, also one that was made by hand; the others are served."""
    bad = [{"name": "bad", "constraints": {"ncpus": -4}}, {"name": "good"}]
    scheduler.jobs = [*build_jobs(bad, build, name), Job("by hand", node_count=-2)]
    summary = run()
    assert [str(job) for job in summary.set_aside] == [
        "job bad set aside: ncpus: expected an amount from 0 to 1e+250, found -4",
        "job by hand set aside: node_count: expected 0 or more, found -2",
    ]
    assert (summary.ok, summary.requested) == (True, ("htc-1",))
    assert [job.name for job in summary.unsatisfied] == []


@pytest.mark.parametrize(
    ("hosts", "stay"),
    [
        (lambda entry: ["host-2"], {"htc-2"}),
        (lambda entry: [], set()),
        (lambda entry: entry["where"], {"htc-1", "htc-2", "htc-3"}),
        (lambda entry: None, {"htc-1", "htc-2", "htc-3"}),
        (lambda entry: "host-2", {"htc-1", "htc-2", "htc-3"}),
        (lambda entry: [2], {"htc-1", "htc-2", "htc-3"}),
    ],
)
def test_what_cannot_be_read_may_run(run, scheduler, cluster, now, hosts, stay):
    """Where it runs, the node stays; where nobody knows, all do, however idle they look."""
    idle_cluster(cluster, run, now)
    bad = build_jobs([{"name": "bad", "iterations": -1}], build, name, hosts)
    scheduler.jobs = [*bad, Job("runs elsewhere")]
    scheduler.jobs[1].metadata["job_state"] = "running"
    summary = run()
    assert [job.name for job in summary.set_aside] == ["bad"]
    assert {"htc-1", "htc-2", "htc-3"} - set(summary.deleted) == stay


def test_one_of_which_nobody_knows_where_it_runs_may_come_between_the_two_looks(
    run, scheduler, cluster, now
):
    """The nodes are drained, and stay."""
    idle_cluster(cluster, run, now)
    scheduler.later = ([UnusableJob("bad", "no sense", None)], [])
    summary = run()
    assert (len(summary.drained), summary.deleted) == (3, ())


@pytest.mark.parametrize("name", [None, "", 5, b"host", ["host"]])
def test_a_host_without_a_name_stops_nothing(run, scheduler, cluster, now, name):
    """It is set aside by its number; nodes are created, and all that are there stay."""
    idle_cluster(cluster, run, now)
    scheduler.hosts = [a_host("own-1"), SchedulerNode(name, {"ncpus": 4})]
    scheduler.jobs = [a_job(tasks=20)]
    summary = run()
    (aside,) = summary.set_aside
    assert str(aside).startswith("host 2 of the scheduler set aside: expected the name of a host")
    expected = f"expected the name of a host, a text that is not empty, found {name!r}"
    assert aside.reason == expected
    assert summary.created and not summary.errors and not summary.deleted
    assert "host 2 of the scheduler" not in [told for told, _ in scheduler.explained]


@pytest.mark.parametrize("name", [None, 5, ["host"]])
def test_a_host_without_a_name_that_a_hook_returns_is_left_alone(run, scheduler, name):
    """It is a note, and the other nodes of the hook are taken."""
    scheduler.jobs = [a_job()]
    scheduler.add_nodes_to_cluster = lambda nodes: [*nodes, SchedulerNode(name, {})]
    run()
    scheduler.jobs = [a_job()]
    summary = run()
    assert summary.joined and summary.ok
    assert "expected nodes of those that were given" in " ".join(summary.notes)


@pytest.mark.parametrize("metadata", [[], "walltime", 7])
def test_a_job_whose_metadata_are_no_dict(run, scheduler, metadata):
    """It is set aside, with what was expected."""
    scheduler.jobs = [a_job("bad"), a_job("good")]
    scheduler.jobs[0].metadata = metadata
    summary = run()
    (aside,) = summary.set_aside
    assert (aside.name, aside.reason) == ("bad", f"metadata: expected a dict, found {metadata!r}")
    assert summary.created


def test_hosts_of_a_job_that_are_no_list():
    """The reason says which argument was meant."""
    (bad,) = build_jobs([{"name": "bad", "executing_hostnames": 5}], build, name)
    assert isinstance(bad, UnusableJob)
    assert bad.reason == "expected executing_hostnames to be a list of names, found 5"
