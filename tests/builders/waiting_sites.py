"""Small clusters of many kinds whose queues wait while their nodes boot, drawn from a seed.

Two to seven jobs of several kinds wait, on five VM sizes in four nodearrays with limits that they
may meet. Some nodes are ready already, with a part of their cores taken.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.testing import a_cluster, a_host

SIZES = {
    "htc": {"Standard_F4s_v2": 4, "Standard_F16s_v2": 16},
    "hpc": {"Standard_F8s_v2": 8},
    "gpu": {"Standard_NC6": 6},
    "big": {"Standard_E16s_v3": 16},
}
"""The VM sizes of each nodearray, and their vCPUs."""
RESOURCES = {"ncpus": "node.vcpu_count", "ngpus": "node.gpu_count", "memgb": "node.memory"}
PACKINGS: list[dict[str, str]] = [
    *({"policy": each} for each in ("declared", "cheapest", "least-waste", "spot-first")),
    {"order": "declared"},
]

KINDS: Mapping[str, Callable[[Random], tuple[dict[str, Any], dict[str, Any]]]] = {
    "gpu": lambda r: ({"ngpus": 1, "ncpus": r.choice([1, 4, 6])}, {}),
    "array": lambda r: ({"ncpus": r.choice([1, 2])}, {"iterations": r.randint(2, 12)}),
    "gang": lambda r: (
        {"ncpus": 1, "exclusive": True, "nodearray": "hpc"},
        {"node_count": r.randint(2, 4), "colocated": True},
    ),
    "grouped": lambda r: (
        {"ncpus": r.choice([2, 4, 8]), "nodearray": "hpc", "in-a-placement-group": True},
        {"node_count": r.randint(2, 4), "colocated": True},
    ),
    "small": lambda r: ({"ncpus": r.choice([1, 2, 3])}, {}),
    "big": lambda r: ({"ncpus": r.choice([4, 8]), "memgb": r.choice([8, 64])}, {}),
    "memory": lambda r: (
        {"ncpus": 1, "memgb": r.choice([2, 4, 8])},
        {"iterations": r.randint(2, 12)},
    ),
    "bound": lambda r: ({"ncpus": r.choice([4, 8]), "nodearray": "hpc"}, {}),
    "prefers": lambda r: (
        {"ncpus": 2, "node.vm_size": [r.choice([*SIZES["htc"], "Standard_E16s_v3"]), "*"]},
        {"iterations": r.randint(1, 4)},
    ),
}
"""What a job of each kind asks for, and its other arguments."""


class WaitingSite(GenericDriver):
    """A cluster and the driver of its scheduler, whose jobs wait for ever."""

    def __init__(self, seed: int) -> None:
        super().__init__("waiting")
        self._random = random = Random(seed)
        self.packing = random.choice(PACKINGS)
        kinds = [random.choice(list(KINDS)) for _ in range(random.randint(2, 7))]
        self._asked = [(f"{kind}{n}", *KINDS[kind](random)) for n, kind in enumerate(kinds)]
        self._hosts: list[tuple[str, int, int]] = []
        self.cluster = self._made(random)

    def _made(self, random: Random) -> MockClusterBinding:
        arrays = list(SIZES)
        random.shuffle(arrays)
        most = random.choice([100, 100, 3, 6])
        cluster = a_cluster(**{array: dict.fromkeys(SIZES[array], most) for array in arrays})
        for array in arrays if random.random() < 0.5 else ():
            for size, cores in SIZES[array].items():
                for number in range(random.randint(0, 2)):
                    name = f"{array}-{cores}{number}"
                    cluster.add_node(name, array, size, "Ready", hostname=name)
                    self._hosts.append((name, cores, random.randint(0, cores)))
        return cluster

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        hosts = [
            a_host(name, "running", free={"ncpus": free}, ncpus=cores)
            for name, cores, free in self._hosts
        ]
        return [Job(name, dict(needs), **more) for name, needs, more in self._asked], hosts

    def ordered(self, home: Path, passes: int) -> list[int]:
        """How many nodes there are, or are asked to run, after each of some passes; between them
        some get ready, and the scheduler does not know them yet."""
        config = {
            "_mock_bindings": self.cluster,
            "lock_file": None,
            "nodehistorydb": str(home / "history.db"),
            "requests_file": str(home / "requests.db"),
            "default_resources": [
                {"select": {}, "name": name, "value": value} for name, value in RESOURCES.items()
            ],
            "packing": self.packing,
        }
        loop, found = Autoscaler(config, self), []
        for _ in range(passes):
            loop.run_once()
            nodes = list(self.cluster.nodes.values())
            found.append(sum(node.target_state == "Started" for node in nodes))
            booting = [node.name for node in nodes if node.state != "Ready"]
            self.cluster.update_state("Ready", self._random.sample(booting, len(booting) // 3))
        return found
