"""What the journal costs a pass of a loop: `python benchmarks/journal_cost.py [--nodes 5000]`.

Passes with and without a journal take turns, over two clusters that are alike: nodes that all run a
job, and jobs that wait for a quota. Printed are the CPU seconds of both, the best of each, and by
how much a journal adds to that; the first passes, whose records stand by themselves, are apart.
"""

import argparse
import gc
import os
import tempfile
import time
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode


class BusyDriver(GenericDriver):
    """Every node runs a job, and others wait."""

    def __init__(self, nodes: int, waiting: int) -> None:
        super().__init__("benchmark")
        self._nodes = nodes
        self._waiting = waiting

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs, hosts = [], []
        for number in range(self._nodes):
            host = SchedulerNode(f"host-{number}", {"ncpus": 4})
            host.assign(f"running-{number}")
            host.available["ncpus"] = 0
            hosts.append(host)
            job = Job(f"running-{number}", {"ncpus": 4}, executing_hostnames=[f"host-{number}"])
            job.metadata["job_state"] = "running"
            jobs.append(job)
        jobs += [Job(f"waiting-{n}", {"ncpus": 1 + n % 4}) for n in range(self._waiting)]
        return jobs, hosts


def new_loop(nodes: int, waiting: int, home: str, journal: bool) -> Autoscaler:
    """A loop over a cluster of its own."""
    cluster = MockClusterBinding("benchmark")
    cluster.add_nodearray("htc", {}, max_count=nodes, max_core_count=4 * nodes)
    cluster.add_bucket("htc", "Standard_F4s", max_count=nodes, available_count=nodes)
    for number in range(nodes):
        cluster.add_node(f"htc-{number + 1}", "htc", state="Ready", hostname=f"host-{number}")
    config = {
        "cluster_name": "benchmark",
        "_mock_bindings": cluster,
        "nodehistorydb": os.path.join(home, f"history-{journal}.db"),
        "lock_file": None,
        "autoscale": {"interval": 60},
        "journal": {"directory": os.path.join(home, "journal")} if journal else False,
    }
    return Autoscaler(config, lambda: BusyDriver(nodes, waiting))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--waiting", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    now = clock.use_mock_clock()
    now.now = 1_790_000_000.0
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as home:
        loops = {on: new_loop(args.nodes, args.waiting, home, on) for on in (False, True)}
        for _ in range(args.rounds + 1):
            for on, loop in loops.items():
                gc.collect()
                begun = time.process_time()
                loop.run_once()
                seconds[on].append(time.process_time() - begun)
            now.sleep(60)
        size = sum(each.stat().st_size for each in os.scandir(os.path.join(home, "journal")))
    first = {on: each.pop(0) for on, each in seconds.items()}
    best = {on: min(each) for on, each in seconds.items()}
    added = 100 * (best[True] / best[False] - 1)
    print(f"a pass: {best[False]:.3f} s, with a journal {best[True]:.3f} s: {added:+.1f} %")
    print(f"the first pass: {first[False]:.3f} s, with a journal {first[True]:.3f} s")
    print(f"{args.rounds + 1} records: {size} bytes")


if __name__ == "__main__":
    main()
