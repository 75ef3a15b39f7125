"""How many nodes a queue is given while it waits: `python benchmarks/count_orders.py [POLICY]
[--queues 300]`.

Queues of two to seven jobs of several kinds wait on an empty cluster whose nodes never get ready.
All that they need is ordered in the first pass; what the next three passes order beside it is too
much. Which queues are drawn is the same in each run.
"""

import argparse
import logging
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.testing import a_cluster

SIZES = {
    "htc": ["Standard_F4s_v2", "Standard_F16s_v2"],
    "hpc": ["Standard_F8s_v2"],
    "gpu": ["Standard_NC6"],
    "big": ["Standard_E16s_v3"],
}
RESOURCES = {"ncpus": "node.vcpu_count", "ngpus": "node.gpu_count", "memgb": "node.memory"}
PASSES = 4

KINDS: Mapping[str, Callable[[Random], tuple[dict[str, Any], dict[str, Any]]]] = {
    "gpu": lambda r: ({"ngpus": 1, "ncpus": r.choice([1, 4, 6])}, {}),
    "array": lambda r: ({"ncpus": r.choice([1, 2])}, {"iterations": r.randint(2, 12)}),
    "gang": lambda r: (
        {"ncpus": 1, "exclusive": True, "nodearray": "hpc"},
        {"node_count": r.randint(2, 4), "colocated": True},
    ),
    "small": lambda r: ({"ncpus": r.choice([1, 2, 3])}, {}),
    "big": lambda r: ({"ncpus": r.choice([4, 8]), "memgb": r.choice([8, 64])}, {}),
    "memory": lambda r: (
        {"ncpus": 1, "memgb": r.choice([2, 4, 8])},
        {"iterations": r.randint(2, 12)},
    ),
    "bound": lambda r: ({"ncpus": r.choice([4, 8]), "nodearray": "hpc"}, {}),
}
"""What a job of each kind asks for, and its other arguments."""


class WaitingDriver(GenericDriver):
    """A scheduler whose jobs wait for ever."""

    def __init__(self, seed: int) -> None:
        super().__init__("waiting")
        random = Random(seed)
        kinds = [random.choice(list(KINDS)) for _ in range(random.randint(2, 7))]
        self._asked = [(f"{kind}{n}", *KINDS[kind](random)) for n, kind in enumerate(kinds)]

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        return [Job(name, dict(needs), **more) for name, needs, more in self._asked], []


def nodes_of(seed: int, policy: str, home: Path) -> tuple[int, int]:
    """How many nodes a queue has after the first pass, and after all."""
    arrays = list(SIZES)
    Random(seed).shuffle(arrays)
    cluster = a_cluster(**{array: dict.fromkeys(SIZES[array], 100) for array in arrays})
    config = {
        "_mock_bindings": cluster,
        "lock_file": None,
        "nodehistorydb": str(home / "history.db"),
        "requests_file": str(home / "requests.db"),
        "default_resources": [
            {"select": {}, "name": name, "value": value} for name, value in RESOURCES.items()
        ],
        "packing": {"policy": policy},
    }
    loop = Autoscaler(config, WaitingDriver(seed))
    found = []
    for _ in range(PASSES):
        loop.run_once()
        found.append(len(cluster.nodes))
    return found[0], found[-1]


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("policy", nargs="?", default="declared")
    parser.add_argument("--queues", type=int, default=300)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    found = []
    for seed in range(args.queues):
        with tempfile.TemporaryDirectory() as home:
            found.append(nodes_of(seed, args.policy, Path(home)))
    more = sum(last > first for first, last in found)
    print(
        f"{args.policy}: {more} of {args.queues} queues were given more nodes by later passes:"
        f" {sum(last for _, last in found)} in all, {sum(first for first, _ in found)} at first"
    )


if __name__ == "__main__":
    main()
