"""The world that the demo plays in: the simulated CycleCloud, what its VMs run, and what work there
is.

Only values. Three nodearrays, one per queue; the quotas let four nodes run at once, so that the
work has to wait for them and the limits can be seen at work.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo_kit.broker import Broker

EXAMPLE = Path(__file__).resolve().parent.parent
CLUSTER = "celery"
REGION = "southcentralus"
# Seconds. Short, because everybody waits for the end of the demo; on a real cluster these are
# minutes.
IDLE_TIMEOUT = 4
BOOT_TIMEOUT = 120
PASS_INTERVAL = 1.0
TIME_LIMIT = 200
TASK_SECONDS = 2.5


@dataclass(frozen=True)
class Array:
    """A nodearray of the demo: the VM size that it has, the queue its workers serve and with how
    many slots."""

    name: str
    vm_size: str
    queue: str
    slots: int


ARRAYS = (
    Array("htc", "Standard_F2s_v2", "default", slots=2),
    Array("himem", "Standard_E4s_v5", "memory", slots=1),
    Array("gpu", "Standard_NC4as_T4_v3", "gpu", slots=1),
)
QUEUES = tuple(array.queue for array in ARRAYS)


@dataclass(frozen=True)
class Work:
    """Tasks to submit: the name of one in `tasks`, its arguments, and how many of them."""

    task: str
    arguments: tuple[int, float]
    count: int


WORK = (
    Work("tasks.count_primes", (200_000, TASK_SECONDS), 12),
    Work("tasks.sort_in_memory", (24, TASK_SECONDS), 3),
    Work("tasks.render_frame", (1, TASK_SECONDS), 2),
)


def clusters(broker: Broker, delivery_log: Path) -> dict[str, Any]:
    """The simulator's description of the cluster. `delivery_log` is where workers note what they
    are given."""
    env = {
        "PYTHONPATH": str(EXAMPLE),
        "CELERY_BROKER_URL": broker.url,
        "CELERY_RESULT_BACKEND": broker.results,
        "CELERY_EXAMPLE_DELIVERY_LOG": str(delivery_log),
        "CELERY_EXAMPLE_READY_FILE": "{work_dir}/ready",
        "CYCLECLOUD_NODE_ID": "{node_id}",
    }
    nodearrays: dict[str, dict[str, Any]] = {
        array.name: {
            "machine_types": [array.vm_size],
            "machine": {
                "command": _worker(array),
                "env": env,
                "ready_file": "{work_dir}/ready",
                "grace": 20,
            },
        }
        for array in ARRAYS
    }
    nodearrays["himem"]["max_count"] = 1
    quotas = {"standardFSv2Family": 4, "Standard NCASv3_T4 Family": 4}
    return {
        "regions": {REGION: {"family_quotas": quotas}},
        "clusters": {CLUSTER: {"region": REGION, "nodearrays": nodearrays}},
        "lifecycle": {"allocation": 0.5, "acquiring": 0.5, "preparing": 0.5, "terminating": 0.5},
    }


def _worker(array: Array) -> list[str]:
    """The command that specs/worker/cluster-init gives to systemd on a real node."""
    options = {
        "--hostname": "celery@{hostname}",
        "--queues": array.queue,
        "--concurrency": str(array.slots),
        "--pool": "threads",
        "--loglevel": "info",
    }
    words = [word for option in options.items() for word in option]
    celery = ["{python}", "-m", "celery", "--app", "tasks", "worker"]
    return [*celery, *words, "--without-gossip", "--without-mingle"]


def overrides(url: str, password: str, directory: Path) -> dict[str, Any]:
    """What the demo's configuration has otherwise than autoscale.json."""
    return {
        "url": url,
        "username": "demo",
        "password": password,
        "lock_file": str(directory / "scalelib.lock"),
        "nodehistorydb": str(directory / "nodehistory.db"),
        "idle_timeout": IDLE_TIMEOUT,
        "boot_timeout": BOOT_TIMEOUT,
    }
