"""How much CPU one pass over many small jobs costs: manager, jobs, placing and demand, all included.

    python benchmarks/first_fit.py [--jobs 10000] [--doublings 3]

Prints a row for each size, CPU seconds of this process, and beside them a fixed pure-Python loop that tells how fast the
machine was at that moment, so that rows of different machines can be read together.
"""

import argparse
import logging
import time
from collections.abc import Callable

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodehistory import NullNodeHistory

SIZES = ("Standard_F16s_v2", "Standard_F32s_v2", "Standard_D16s_v3")
PLENTY = 100_000_000


def cluster() -> MockClusterBinding:
    """Three VM sizes in one nodearray, with more quota than any run needs."""
    binding = MockClusterBinding()
    binding.max_core_count = PLENTY
    binding.add_nodearray("htc", {}, location="southcentralus", max_core_count=PLENTY)
    for size in SIZES:
        binding.add_bucket(
            "htc",
            size,
            max_count=100_000,
            available_count=100_000,
            family_quota_core_count=PLENTY,
            regional_quota_core_count=PLENTY,
        )
    return binding


def one_core_jobs(count: int) -> int:
    """Place `count` jobs of one core each; returns how many nodes that took."""
    calculator = new_demand_calculator(
        {"_mock_bindings": cluster()}, node_history=NullNodeHistory()
    )
    calculator.add_jobs([Job(f"j{i}", {"ncpus": 1}) for i in range(count)])
    return len(calculator.get_demand().new_nodes)


def calibration() -> int:
    """A fixed amount of plain interpreter work."""
    n = 0
    for i in range(3_000_000):
        n += i & 7
    return n


def cpu_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """The least CPU time of several runs: what the work costs when nothing disturbs it."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--doublings", type=int, default=3)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{'jobs':>8} {'nodes':>6} {'cpu s':>8} {'us/job':>7} {'loop s':>7}")
    for step in range(args.doublings + 1):
        count = args.jobs * 2**step
        nodes = one_core_jobs(count)
        seconds = cpu_seconds(lambda count=count: one_core_jobs(count))
        loop = cpu_seconds(calibration, runs=1)
        print(f"{count:>8} {nodes:>6} {seconds:>8.3f} {1e6 * seconds / count:>7.1f} {loop:>7.3f}")


if __name__ == "__main__":
    main()
