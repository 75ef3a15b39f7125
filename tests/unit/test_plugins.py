"""Monitoring and autoscale plug-ins: states, their file, and the driver that is made of the two."""

import sqlite3

import pytest

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import Hostname
from hpc.autoscale.plugins import (
    ClusterState,
    PluginDriver,
    ScaleByJobs,
    StateLog,
    StateLogError,
)
from hpc.autoscale.testing import a_cluster, a_config


class Queue:
    """A monitoring plug-in whose state a test says."""

    def __init__(self, *jobs):
        self.jobs = jobs
        self.stored = []

    def collect(self):
        return ClusterState(clock.time(), self.jobs)

    def store(self, state):
        self.stored.append(state)

    def states(self, since):
        return [state for state in self.stored if state.taken_at >= since]


class LookingBack:
    """An autoscale plug-in that keeps what it was given."""

    past_seconds = 100.0

    def decide(self, now, past):
        self.given = (now, list(past))
        return []


@pytest.fixture
def now():
    """The clock that a test moves."""
    return clock.use_mock_clock()


def test_what_runs_and_what_is_wanted():
    """Jobs that run become jobs on their hosts; the cores of all of them are wanted."""
    driver = PluginDriver(
        Queue(
            {"name": "a", "request_cpus": 4, "hostnames": ["one", "two"]},
            {"name": "b", "request_cpus": 3, "hostnames": []},
        )
    )
    (job,), hosts = driver.read_jobs_and_nodes({})
    assert (job.name, job.executing_hostnames, hosts) == ("a", ["one", "two"], [])
    assert job.metadata["job_state"] == "running"
    assert driver.wanted_arrays({}) == [{"Name": "execute", "TargetCoreCount": 7}]


@pytest.mark.parametrize(("given", "name"), [({"name": 17}, "17"), ({}, "entry 2")])
def test_what_runs_under_no_text(given, name):
    """A number for a name, or none, ends no pass: the hosts of that job are known."""
    queue = Queue(
        {"name": "a", "request_cpus": 4}, {"request_cpus": 4, "hostnames": ["x"], **given}
    )
    (job,), _ = PluginDriver(queue).read_jobs_and_nodes({})
    assert (job.name, job.executing_hostnames) == (name, ["x"])


def test_definitions_are_merged():
    """As in jetpack.scale_by_jobs."""
    state = ClusterState(0.0, [{"name": "a", "request_cpus": 4}])
    (array,) = ScaleByJobs([{"Name": "execute", "MachineType": "F4"}]).decide(state, ())
    assert array == {"Name": "execute", "TargetCoreCount": 4, "MachineType": "F4"}


def test_past_states(now):
    """The autoscale plug-in gets those that it wants to look back on, and not the present one."""
    now.now = 1000.0
    queue, decider = Queue(), LookingBack()
    driver = PluginDriver(queue, decider)
    for _ in range(4):
        driver.read_jobs_and_nodes({}, force=True)
        now.now += 40
    driver.wanted_arrays({})
    present, past = decider.given
    assert (present.taken_at, [state.taken_at for state in past]) == (1120, [1040, 1080])


def test_a_dry_run_stores_nothing():
    """It looks, and that is all."""
    queue = Queue()
    driver = PluginDriver(queue)
    driver.read_jobs_and_nodes({"read_only": True})
    driver.wanted_arrays({"read_only": True})
    assert queue.stored == []


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (None, "Queue.collect: expected a ClusterState, found None"),
        (ClusterState(699.0), "found one that was taken 301 seconds ago"),
        (ClusterState(None), "Queue.collect: expected taken_at to be a number, found None"),
        (ClusterState(1000.0, None), "Queue.collect: expected jobs to be Sequence, found None"),
        (ClusterState(1000.0, (), {}, []), "expected set_aside to be Mapping, found"),
    ],
)
def test_a_state_that_is_none_or_old(now, state, problem):
    """Is an error that names the plug-in, and not an empty system."""
    now.now = 1000.0
    queue = Queue()
    queue.collect = lambda: state
    driver = PluginDriver(queue)
    with pytest.raises(AutoscaleError, match=problem):
        driver.read_jobs_and_nodes({})
    assert queue.stored == []


def test_plug_ins_that_are_none():
    """Are refused when the driver is made."""
    with pytest.raises(AutoscaleError, match="PluginDriver: expected monitoring to have an attr"):
        PluginDriver(None)
    with pytest.raises(AutoscaleError, match="ScaleByJobs: expected array_definitions to be Iter"):
        ScaleByJobs(5)


class Seen(LookingBack):
    """It sees no job that makes no sense."""

    past_seconds = 0.0


def test_jobs_that_make_no_sense(now):
    """Are set aside by name, with the hosts on which they run; the others are what is decided
    from, and what is stored."""
    queue, decider = Queue({"name": "good", "request_cpus": 4}), Seen()
    queue.jobs += (
        {"name": "negative", "request_cpus": -4, "hostnames": ["one"]},
        {"name": "anywhere", "request_cpus": 4, "hostnames": "one"},
        None,
        {"request_cpus": "4"},
    )
    driver = PluginDriver(queue, decider)
    jobs, _ = driver.read_jobs_and_nodes({})
    driver.wanted_arrays({})
    assert [(job.name, job.runs_who_knows_where) for job in jobs] == [
        ("negative", False),
        ("anywhere", True),
        ("entry 4", True),
        ("entry 5", False),
    ]
    assert jobs[0].executing_hostnames == ["one"]
    assert "request_cpus: expected a whole number of 0 or more, found -4" in jobs[0].reason
    assert [job["name"] for job in decider.given[0].jobs] == ["good"]
    assert [job["name"] for job in queue.stored[0].jobs] == ["good"]


def test_what_the_plug_in_sets_aside(now):
    """Is set aside by name in the summary, and its reason is the plug-in's."""
    queue = Queue()
    queue.collect = lambda: ClusterState(clock.time(), set_aside={"18": "no JSON"})
    (job,), _ = PluginDriver(queue).read_jobs_and_nodes({})
    assert (job.name, job.reason) == ("18", "no JSON")


def test_a_state_that_is_handed_over_again(now):
    """Is found out, although jobs are made anew of it: it may be an old one."""
    queue = Queue({"name": "a", "request_cpus": 4, "hostnames": ["one"]})
    kept = queue.collect()
    queue.collect = lambda: kept
    driver = PluginDriver(queue)
    driver.read_jobs_and_nodes({}, force=True)
    with pytest.raises(AutoscaleError, match=r"Queue\.collect: expected the state of now, found"):
        driver.read_jobs_and_nodes({}, force=True)


# -- the file of states


def state(taken_at, **facts):
    return ClusterState(taken_at, [{"name": "a", "request_cpus": 1}], facts)


def test_states_come_back(tmp_path):
    """As they were, oldest first, from another process as well."""
    path = str(tmp_path / "states.db")
    given = [state(10.0, load=0.5), state(20.0)]
    for one in given:
        StateLog(path).store(one)
    assert list(StateLog(path).states(0)) == given
    assert list(StateLog(path).states(20)) == given[1:]


def test_no_file_has_no_states(tmp_path):
    """And is not made by looking."""
    path = tmp_path / "states.db"
    assert StateLog(str(path)).states(0) == []
    assert not path.exists()


def test_old_states_are_forgotten(tmp_path):
    """After `keep` seconds; so are states of the future, once the clock was put back."""
    log = StateLog(str(tmp_path / "states.db"), keep=100)
    for at in (0.0, 100.0, 101.0):
        log.store(state(at))
    assert [one.taken_at for one in log.states(0)] == [100, 101]
    log.store(state(50.0))
    assert [one.taken_at for one in log.states(0)] == [50]


def test_a_state_that_is_no_json(tmp_path):
    """Is refused, and what is in the file stays."""
    log = StateLog(str(tmp_path / "states.db"))
    log.store(state(1.0))
    with pytest.raises(TypeError):
        log.store(state(2.0, load=object()))
    assert len(log.states(0)) == 1


def test_a_damaged_file(tmp_path):
    """Is an error that says what to do."""
    path = tmp_path / "states.db"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StateLogError, match=r"it is damaged .*: move it away"):
        StateLog(str(path)).states(0)


@pytest.mark.parametrize("change", ["jobs = '[{'", "jobs = '7'", "facts = '[]'", "jobs = x'00'"])
def test_a_damaged_state(tmp_path, change):
    """Is an error that says what to do, and no plug-in gets to see it."""
    log = StateLog(str(tmp_path / "states.db"))
    log.store(state(1.0))
    with sqlite3.connect(log.path) as db:
        db.execute(f"UPDATE states SET {change}")
    db.close()
    with pytest.raises(StateLogError, match=r"it is damaged .*: move it away"):
        log.states(0)


class TellingQueue(Queue):
    """A monitoring plug-in that wants to know why jobs wait."""

    def __init__(self, *jobs):
        super().__init__(*jobs)
        self.told = []

    def explain(self, name, verdict):
        self.told.append((name, verdict.code))


def test_a_plug_in_is_told_why_jobs_wait_where_it_wants_to_know(tmp_path, now):
    """By nodearray, and by the name of a job that makes no sense; once."""
    cluster = a_cluster(execute={"Standard_F4s_v2": 1})
    config = {**a_config(cluster), "nodehistorydb": str(tmp_path / "history.db")}
    queue = TellingQueue({"name": "17", "request_cpus": 400}, {"name": "18", "request_cpus": -1})
    for _ in range(2):
        Autoscaler(config, lambda: PluginDriver(queue)).run_once()
    assert sorted(queue.told) == [("18", "SetAside"), ("execute", "BucketLimit")]
    assert not PluginDriver(Queue()).has_place_for_verdicts


@pytest.fixture
def scaled(tmp_path, now):
    """Makes the nodes for jobs, which come up, and lets 800 seconds go by: the nodes that go."""

    def scale(first, then):
        cluster = a_cluster(execute={"Standard_F4s_v2": 10})
        queue = Queue(*first)
        config = a_config(cluster, idle_timeout=300, nodehistorydb=str(tmp_path / "history.db"))
        loop = Autoscaler({**config, "lock_file": str(tmp_path / "lock")}, PluginDriver(queue))
        loop.run_once()
        cluster.assign_ip(list(cluster.nodes))
        for node in cluster.nodes.values():
            node._settle(Hostname(f"ip-{node.private_ip}"), node.private_ip)
        cluster.update_state("Ready", list(cluster.nodes))
        loop.run_once()
        gone = []
        for jobs in then:
            queue.jobs = jobs(list(cluster.nodes.values()))
            gone.append([])
            for _ in range(4):
                now.sleep(200)
                gone[-1] += loop.run_once().deleted
        return gone

    return scale


@pytest.mark.parametrize("called", ["hostname", "name"])
def test_nodes_at_work_are_kept_and_idle_ones_go(scaled, called):
    """Of four nodes the last two are at work and stay, whether the plug-in calls them by host name
    or by node name. So does one on which a job runs that cannot be read, and one for what waits."""

    def at_work(nodes):
        hosts = [str(getattr(node, called)) for node in nodes[2:]]
        return [{"name": host, "request_cpus": 4, "hostnames": [host]} for host in hosts]

    def and_others(nodes):
        cannot_be_read = {"name": "odd", "request_cpus": -1, "hostnames": [str(nodes[1].name)]}
        return [*at_work(nodes), {"name": "new", "request_cpus": 4}, cannot_be_read]

    first = [{"name": f"{n}", "request_cpus": 4} for n in range(4)]
    none, idle = scaled(first, [and_others, at_work])
    assert none == []
    assert sorted(idle) == ["execute-1", "execute-2"]


def test_groups_at_work_are_kept_and_idle_ones_go(scaled):
    """Of three groups of two nodes the last one is at work: it counts as the one that is wanted."""
    job = {"request_cpus": 8, "grouped": True}

    def last_one(nodes):
        return [{"name": "2", **job, "hostnames": [str(node.hostname) for node in nodes[4:]]}]

    (gone,) = scaled([{"name": f"{n}", **job} for n in range(3)], [last_one])
    assert sorted(gone) == [f"execute-8-{number}" for number in range(1, 5)]
