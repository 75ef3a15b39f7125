"""What the loop makes of drivers that keep what they read: it works on nothing twice, and says
so."""

import logging
import threading

import pytest

from builders.fake_scheduler import FakeScheduler, cluster, idle_cluster, now, run, scheduler
from hpc.autoscale.autoscaler import Autoscaler, Reporter, StaleReading
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node.nodehistory.dbfile import NodeHistoryError
from hpc.autoscale.testing import a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures


class Queue:
    """What a scheduler has: slots by the name of a job, and jobs by the name of a host."""

    def __init__(self, **slots):
        self.slots = slots
        self.hosts = {}


class Keeping(FakeScheduler):
    """A driver that reads once and keeps what it read, and knows of no way to read again."""

    def __init__(self, queue):
        super().__init__()
        self.queue = queue
        self.kept = None

    def read_jobs_and_nodes(self, config):
        if self.kept is None:
            jobs = [a_job(name, tasks=slots) for name, slots in self.queue.slots.items()]
            hosts = [a_host(name, *running) for name, running in self.queue.hosts.items()]
            self.kept = jobs, hosts
        return self.kept


@pytest.fixture
def config(cluster):
    """Over ten nodes of four cores."""
    return {"cluster_name": "clusty", "_mock_bindings": cluster}


def known(cluster):
    """The state that each node is to reach."""
    return {name: node.target_state for name, node in cluster.nodes.items()}


# -- from pass to pass


def test_a_function_makes_a_driver_for_each_pass(config, cluster, now):
    """Each pass works on the queue that there is then."""
    queue = Queue(first=4)
    drivers = []

    def new_driver():
        drivers.append(Keeping(queue))
        return drivers[-1]

    autoscaler = Autoscaler(config, new_driver)
    assert autoscaler.run_once().created == ("htc-1",)
    queue.slots = {"first": 4, "second": 4}
    assert autoscaler.run_once().created == ("htc-2",)
    assert len(drivers) == 2
    assert autoscaler.driver is drivers[-1]


def test_the_history_of_a_driver_that_is_done_is_closed(config, now):
    """A loop of a thousand passes has one file open, not a thousand; the file goes on."""
    histories = []

    class Noting(Keeping):
        def new_node_history(self, config):
            histories.append(super().new_node_history(config))
            return histories[-1]

    autoscaler = Autoscaler(config, lambda: Noting(Queue(first=4)))
    autoscaler.run_once()
    autoscaler.run_once()
    with pytest.raises(NodeHistoryError):
        histories[0].find_ignored()
    assert len(histories[-1].read()) == 1


def test_a_function_may_return_the_same_driver(config, scheduler):
    """Whoever remembers things from pass to pass, and reads anew."""
    autoscaler = Autoscaler(config, lambda: scheduler)
    for slots in (4, 8):
        scheduler.jobs = [a_job(tasks=slots)]
        assert len(autoscaler.run_once().created) == 1


def test_the_first_driver_is_made_at_once(config):
    """A driver that cannot be made is an error for who starts the loop, and not one of a pass."""

    def new_driver():
        raise ConfigurationException("filequeue: expected a path")

    with pytest.raises(ConfigurationException, match="filequeue"):
        Autoscaler(config, new_driver)


@pytest.mark.parametrize("kept", ["jobs", "hosts"])
def test_the_reading_of_an_earlier_pass_changes_nothing(config, cluster, now, kept):
    """The error names the object, and nothing is created, joined or deleted, however often it is
    tried."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    queue = Queue(first=8) if kept == "jobs" else Queue()
    queue.hosts = {"host-1": []}
    driver = Keeping(queue)
    autoscaler = Autoscaler(config, driver)
    autoscaler.run_once()
    before = known(cluster)
    queue.slots, queue.hosts = {"second": 40}, {"host-1": ["second"]}
    now.sleep(10_000)
    for _ in range(3):
        driver.calls.clear()
        with pytest.raises(StaleReading, match="first object" if kept == "jobs" else "host-1"):
            autoscaler.run_once()
        assert driver.calls == ["initialize", "preprocess_config"]
    assert known(cluster) == before
    driver.kept = None
    assert autoscaler.run_once().ok


def test_some_of_an_earlier_reading_is_enough(config, scheduler):
    """What a pass placed is counted in its Job objects: the next pass would place nothing."""
    autoscaler = Autoscaler(config, scheduler)
    job = a_job("kept", tasks=4)
    scheduler.jobs = [job]
    autoscaler.run_once()
    scheduler.jobs = [a_job("new"), job]
    with pytest.raises(StaleReading, match="job kept"):
        autoscaler.run_once()


def test_lists_may_be_filled_anew(config, scheduler):
    """The same list with other jobs in it is another reading; so are equal jobs."""
    autoscaler = Autoscaler(config, scheduler)
    for _ in range(3):
        scheduler.jobs[:] = [a_job(tasks=4)]
        scheduler.hosts[:] = [a_host("tux")]
        assert autoscaler.run_once().ok


def test_empty_lists_that_are_always_the_same_are_warned_of_once(config, scheduler, caplog):
    """Nobody can tell whether there is nothing, or nobody was asked."""
    autoscaler = Autoscaler(config, scheduler)
    for _ in range(3):
        assert autoscaler.run_once().ok
    assert caplog.text.count("it will never see a job") == 1


@pytest.mark.parametrize("known_by", ["another list", "a stamp", "a job"])
def test_whoever_has_read_anew_is_not_warned_of(config, scheduler, caplog, known_by):
    """That there is nothing is known where an empty list is another one than before, or the driver
    says that the answer is."""
    stamps = iter(range(100))
    if known_by == "a stamp":
        scheduler.reading_stamp = lambda: next(stamps)
    autoscaler = Autoscaler(config, scheduler)
    for _ in range(3):
        if known_by == "another list":
            scheduler.jobs, scheduler.hosts = [], []
        elif known_by == "a job":
            scheduler.jobs[:] = [a_job()]
        assert autoscaler.run_once().ok
    assert "never see a job" not in caplog.text


def test_the_loop_goes_on_when_the_driver_reads_again(config, scheduler, now):
    """A stale reading is a failed pass like any other."""
    stop = threading.Event()
    failed, created = [], []

    class Diary(Reporter):
        def pass_failed(self, error, failures, pause):
            failed.append(error.message)
            scheduler.jobs = [a_job("fresh", tasks=8)]

        def pass_finished(self, summary):
            created.append(summary.created)
            if len(created) == 2:
                stop.set()

    scheduler.jobs = [a_job("stale", tasks=4)]
    assert Autoscaler(config, scheduler, reporter=Diary(), clock=now).run_forever(1, stop) == 3
    assert ["job stale" in message for message in failed] == [True]
    assert created == [("htc-1",), ("htc-2",)]


# -- before a deletion


@pytest.mark.parametrize("kept", ["jobs", "hosts"])
def test_what_was_read_before_deleting_is_not_the_reading_of_the_next_pass(
    config, cluster, run, now, kept
):
    """The jobs and hosts of both looks are of the pass before."""
    idle_cluster(cluster, run, now, count=2)
    answers = []

    class Late(FakeScheduler):
        def _read_jobs_and_nodes(self, config):
            jobs = [a_job("one")] if kept == "jobs" else []
            for job in jobs:
                job.metadata["job_state"] = "running"
            hosts = [a_host("host-1", "one"), a_host("host-2")]
            answers.append((jobs, hosts))
            # the third answer has what the second one had
            parts = answers[1 if len(answers) == 3 else -1]
            return (parts[0], hosts) if kept == "jobs" else (jobs, parts[1])

    autoscaler = Autoscaler({**config, "autoscale": {"min_idle_passes": 0}}, Late())
    assert autoscaler.run_once().deleted == ("htc-2",)
    assert len(answers) == 2
    with pytest.raises(StaleReading, match="job one" if kept == "jobs" else "host-1"):
        autoscaler.run_once()


def test_another_driver_is_asked_before_deleting(config, cluster, run, now):
    """The one at hand repeats itself; another, prepared as for a pass, knows that work has
    begun."""
    idle_cluster(cluster, run, now)
    queue = Queue()
    queue.hosts = {f"host-{i}": [] for i in (1, 2, 3)}
    drivers = []

    class Beginning(Keeping):
        def handle_draining(self, nodes):
            self.queue.hosts["host-2"] = ["just started"]
            return super().handle_draining(nodes)

    def new_driver():
        drivers.append(Beginning(queue))
        return drivers[-1]

    summary = Autoscaler(config, new_driver).run_once()
    assert (summary.spared, summary.deleted) == (("htc-2",), ("htc-1", "htc-3"))
    assert drivers[1].calls == ["initialize", "preprocess_config"]


def test_another_driver_that_cannot_be_made_is_no_evidence(config, cluster, run, now):
    """Then nothing is deleted, and the pass says why."""
    idle_cluster(cluster, run, now)
    queue = Queue()
    queue.hosts = {f"host-{i}": [] for i in (1, 2, 3)}
    made = []

    def new_driver():
        if made:
            raise OSError("qstat: connection refused")
        made.append(Keeping(queue))
        return made[0]

    summary = Autoscaler(config, new_driver).run_once()
    assert (summary.deleted, summary.ok) == ((), False)
    assert "connection refused" in str(summary)


def test_without_another_driver_nothing_is_deleted(config, cluster, run, now):
    """It read once and knows nothing newer: the error names the object and what to do, and what
    stays is told with its code."""
    idle_cluster(cluster, run, now)
    queue = Queue()
    queue.hosts = {"host-1": ["running"], "host-2": [], "host-3": []}
    driver = Keeping(queue)
    summary = Autoscaler(config, driver).run_once()
    assert driver.calls.count("preprocess_config") == 1  # it is not prepared once more
    assert (summary.deleted, summary.spared) == ((), ("htc-2", "htc-3"))
    assert "found the same node" in str(summary.errors[0])
    assert "give Autoscaler a function that makes the driver" in str(summary.errors[0])
    assert {r.code for r in summary.refused if r.command == "delete"} == {"SchedulerUnknown"}


def test_two_looks_without_anything_are_warned_of(config, cluster, run, now, caplog):
    """Nobody can tell whether the scheduler knows nothing, or was not asked again; it has never
    reported a host of these nodes."""
    idle_cluster(cluster, run, now)
    config["autoscale"] = {"scheduler_reports_hosts": False}
    assert len(Autoscaler(config, Keeping(Queue())).run_once().deleted) == 3
    warned = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert any("what it read at the start of the pass" in r.getMessage() for r in warned)


def test_a_driver_that_reads_again_is_not_replaced(config, cluster, run, now):
    """It is the one that knows what it drained."""
    idle_cluster(cluster, run, now)
    drivers = []

    class Fresh(FakeScheduler):
        def _read_jobs_and_nodes(self, config):
            return [], [a_host(f"host-{i}") for i in (1, 2, 3)]

    def new_driver():
        drivers.append(Fresh())
        return drivers[-1]

    assert len(Autoscaler(config, new_driver).run_once().deleted) == 3
    assert len(drivers) == 1
