"""Measure `azscale status` at size: `measure_status.py [NODES [JOBS]]` (5,000 and 10,000).

Half of the nodes run a job each; of the jobs that wait most have a place, a tenth are of twenty
shapes that fit nowhere. Prints JSON: `look_s`, CPU seconds from the server's answer (the mock
cluster's) to how things stand, and `screen_s`, those for the lines at 200 columns.
"""

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hpc.autoscale import hpclogging
from hpc.autoscale.autoscaler import new_calculator
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.cli.standing import look
from hpc.autoscale.cli.standing_text import screen
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.lockstate import lock_state
from hpc.autoscale.rehearsal import Rehearsal, rehearse

SIZE = "Standard_F4s_v2"
SHAPES_THAT_FIT_NOWHERE = 20


class Scheduler(GenericDriver):
    """Knows every node, and has the queue."""

    def __init__(self, nodes: int, jobs: int) -> None:
        super().__init__("benchmark")
        self.nodes, self.jobs = nodes, jobs

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        hosts = [SchedulerNode(f"ip-{n}", {"ncpus": 4}) for n in range(self.nodes)]
        found = []
        for n in range(self.nodes // 2):
            running = Job(f"r{n}", {"ncpus": 4}, executing_hostnames=[f"ip-{n}"])
            running.metadata["job_state"] = "running"
            found.append(running)
            hosts[n].assign(running.name)
        for n in range(self.jobs):
            stuck = n % 10 == 0
            cores = 100 + n // 10 % SHAPES_THAT_FIT_NOWHERE if stuck else 1
            found.append(Job(f"w{n}", {"ncpus": cores}))
        return found, hosts


class Answering(MockClusterBinding):
    """Notes when it has answered last."""

    answered = 0.0

    def get_nodes(self, **options: Any) -> Any:
        found = super().get_nodes(**options)
        self.answered = time.process_time()
        return found


def main() -> None:
    """Measure, and print."""
    nodes, jobs = [*map(int, sys.argv[1:]), *(5_000, 10_000)[len(sys.argv) - 1 :]]
    hpclogging.initialize_logging({"logging": {"config": {"version": 1}}})
    logging.getLogger().setLevel(logging.WARNING)
    binding = Answering()
    binding.add_nodearray("htc", {}, max_count=nodes * 2)
    binding.add_bucket("htc", SIZE, nodes * 2, nodes)
    for n in range(nodes):
        binding.add_node(f"htc-{n}", "htc", SIZE, state="Ready", hostname=f"ip-{n}")
    with tempfile.TemporaryDirectory() as home:
        config = {
            "cluster_name": "benchmark",
            "_mock_bindings": binding,
            "lock_file": None,
            "nodehistorydb": str(Path(home) / "nodehistory.db"),
        }

        def rehearsed(calculator: Any) -> Rehearsal:
            return rehearse(
                config,
                lambda: Scheduler(nodes, jobs),
                new_calculator=calculator,
                demand_only=True,
            )

        standing = look(config, new_calculator, rehearsed, lambda: lock_state(config, None))
        looked = time.process_time()
        lines = screen(standing, 200)
        drawn = time.process_time()
    figures = {"look_s": looked - binding.answered, "screen_s": drawn - looked}
    print(json.dumps({**figures, "lines": len(lines), "jobs": dict(standing.jobs)}))


if __name__ == "__main__":
    main()
