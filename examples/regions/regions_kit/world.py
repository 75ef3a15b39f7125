"""The world of the demo: three clusters in three regions, two hosts on premises, two definitions of
jobs. Only values.

Twice as many nodes are wanted in the east as in each other region. These have room for three nodes
together, so that what the east loses does not fit there, and some of it waits until it is back.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpc_queue import JobSpec
from regions_kit import jobs

HERE = Path(__file__).resolve().parent.parent
SOURCE = HERE.parents[1] / "src"
SIZE = "Standard_F2s_v2"
SLOTS = 2
HOSTS = ("rack-1", "rack-2")
ON_PREMISES = "on premises"
# seconds, and short because everybody waits for the end; on a real cluster these are minutes
IDLE_TIMEOUT = 3
PASS_INTERVAL = 0.7
REST = 2


@dataclass(frozen=True)
class Place:
    """A cluster, its region, the weight of that, and how many nodes it has room for."""

    cluster: str
    region: str
    weight: int
    room: int


PLACES = (
    Place("east", "eastus", 2, 6),
    Place("west", "westus3", 1, 2),
    Place("central", "southcentralus", 1, 1),
)
LOSES = PLACES[0]
"""Whose capacity is lost for a while."""

RETRIES = 3
RETRIES_OF_FAILING = 2


@dataclass(frozen=True)
class Scale:
    """How many jobs there are, and workers at most by definition."""

    jobs: int

    @property
    def workers(self) -> dict[str, int]:
        """More than a few hundred jobs are worth six nodes of the cloud; fewer, two."""
        return {"short": 12, "script": 4} if self.jobs > 1000 else {"short": 6, "script": 2}

    @property
    def seconds(self) -> float:
        """How long a short job takes: all together, so long that a region can come and go."""
        return min(0.1, max(0.02, 150 / self.jobs))

    @property
    def time_limit(self) -> int:
        """Seconds that all may take: far more than it does."""
        return 300 + self.jobs // 50

    def specs(self) -> Iterator[JobSpec]:
        """What to submit: jobs that always fail and may do so three times, then processes and
        short ones."""
        failing = max(1, self.jobs // 400)
        scripts = self.jobs // 4
        # urgent, so that they have failed before any machine is lost
        yield JobSpec(
            "failing",
            {"call": "regions_kit.jobs:fail"},
            definition="short",
            priority=9,
            retries=RETRIES_OF_FAILING,
            retry_failed=True,
            count=failing,
            is_array=True,
        )
        yield _array("script", {"argv": ["sh", "-c", jobs.SCRIPT]}, scripts)
        short = {"call": "regions_kit.jobs:work", "args": [self.seconds]}
        yield _array("short", short, self.jobs - failing - scripts)


def _array(definition: str, command: dict[str, Any], count: int) -> JobSpec:
    return JobSpec(
        definition, command, definition=definition, retries=RETRIES, count=count, is_array=True
    )


def clusters(config: Path, runs: Path) -> dict[str, Any]:
    """The simulator's description of the clusters."""
    return {
        "regions": {place.region: {} for place in PLACES},
        "clusters": {place.cluster: _cluster(place, config, runs) for place in PLACES},
        "lifecycle": {
            "allocation": 0.4,
            "acquiring": 0.4,
            "preparing": 0.4,
            "terminating": 0.4,
            "allocation_failed": 0.4,
            "eviction_notice": 0.4,
        },
    }


def _cluster(place: Place, config: Path, runs: Path) -> dict[str, Any]:
    def nodearray(definition: str) -> dict[str, Any]:
        words = _worker(config, "{python}", definition, "{hostname}", "{work_dir}/ready")
        return {
            "machine_types": [SIZE],
            "spot": True,
            "throttle_capacity_time": 1,
            "attributes": {"Configuration": {"autoscale": {"resources": {"runs": definition}}}},
            "machine": {
                "command": words,
                "env": {
                    **_environment(place.region, "{node_id}", runs),
                    "CYCLECLOUD_NODE_ID": "{node_id}",
                },
                "ready_file": "{work_dir}/ready",
                "grace": 20,
            },
        }

    nodearrays = {definition: nodearray(definition) for definition in ("short", "script")}
    return {"region": place.region, "max_count": place.room, "nodearrays": nodearrays}


def _worker(config: Path, python: str, definition: str, host: str, ready: str) -> list[str]:
    words = [python, "-m", "hpc_queue.cli", "-C", str(config), "worker"]
    words += ["--definition", definition, "--slots", str(SLOTS), "--hostname", host]
    return [*words, "--ready-file", ready]


def _environment(region: str, machine: str, runs: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": f"{SOURCE}:{HERE}",
        "HPCQ_REGION": region,
        "DEMO_MACHINE": machine,
        jobs.RUNS: str(runs),
        "C_FORCE_ROOT": "1",
    }


def queue_section(broker: str, work: Path, scale: Scale) -> dict[str, Any]:
    """The section `hpcq` of the configuration."""

    def definition(name: str) -> dict[str, Any]:
        return {
            "resources": {"runs": name},
            "slots_per_node": SLOTS,
            "jobs_per_worker": 10,
            "maximum": scale.workers[name],
            "callables": ["regions_kit.jobs:*"],
            "directories": str(work / "jobs"),
            "keep_directories": "none",
        }

    return {
        "broker": broker,
        "home": str(work / "queue"),
        "lease": 5,
        "definitions": {name: definition(name) for name in scale.workers},
    }


def configuration(
    connection: dict[str, str], section: dict[str, Any], work: Path, config: Path, runs: Path
) -> dict[str, Any]:
    """The configuration of the loop, which is at `config`."""
    return {
        "driver": "hpc_queue.driver:lasting_driver",
        "clusters": [
            {"name": place.cluster, "cluster_name": place.cluster, **connection} for place in PLACES
        ],
        "on_premises": [_host(name, work, config, runs) for name in HOSTS],
        "packing": {"policy": {"regions": {place.region: place.weight for place in PLACES}}},
        "lock_file": str(work / "scalelib.lock"),
        "nodehistorydb": str(work / "nodehistory.db"),
        "idle_timeout": IDLE_TIMEOUT,
        "boot_timeout": 120,
        "backoff": {"capacity": REST, "evicted": REST, "boot": REST, "ceiling": 2 * REST},
        "hpcq": section,
    }


def _host(name: str, work: Path, config: Path, runs: Path) -> dict[str, Any]:
    script, file = str(HERE / "host.sh"), str(work / f"{name}.pid")
    words = _worker(config, sys.executable, "short", name, str(work / f"{name}.ready"))
    variables = [f"{key}={value}" for key, value in _environment("", name, runs).items()]
    return {
        "name": name,
        "resources": {"ncpus": SLOTS, "memgb": 4, "runs": "short"},
        "start": [script, "start", file, "env", *variables, *words],
        "stop": [script, "stop", file],
    }
