"""Measure a pass over request sets: `measure_requests.py WHICH [TURNS [PART]]`.

One set wants a node of each of 999 nodearrays and 200 groups of 16 nodes of another one. WHICH is
`real`: the nodearrays are the cluster's; or `dynamic`: they are dynamic arrays, which extend that
other one. Prints the same JSON as `measure`: `cpu` is of a dry pass when nothing is there yet,
`cpu_again` of one when everything is. PART: so many times less of everything.
"""

import json
import logging
import resource
import sys
import time
from pathlib import Path
from typing import Any

from calibration import TURNS, loop_seconds
from clusters import MANY_CORES, MANY_NODES
from hpc.autoscale import hpclogging
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.cli.drivers import driver_for
from hpc.autoscale.requestsets.recording import record
from hpc.autoscale.requestsets.store import RequestStore

SIZE = "Standard_F4s_v2"
ARRAYS, GROUPS, GROUP_SIZE = 999, 200, 16


def cluster(which: str, part: int) -> MockClusterBinding:
    """Nodearrays without limits, and without nodes."""
    binding = MockClusterBinding()
    binding.max_core_count, binding.max_count = MANY_CORES, MANY_NODES
    names = ["execute", *(f"array{i}" for i in range(ARRAYS // part) if which == "real")]
    for name in names:
        binding.add_nodearray(name, {}, max_core_count=MANY_CORES, max_count=MANY_NODES)
        binding.add_bucket(name, SIZE, MANY_NODES, MANY_NODES)
    return binding


def wish(which: str, part: int) -> list[dict[str, Any]]:
    """What the request set wants."""
    own = {"Dynamic": True, "Extends": "execute"} if which == "dynamic" else {}
    arrays = [{"Name": f"array{i}", "TargetCount": 1, **own} for i in range(ARRAYS // part)]
    groups = {"TargetGroupCount": GROUPS // part, "GroupInstanceCount": GROUP_SIZE}
    return [*arrays, {"Name": "execute", **groups}]


def one_pass(config: dict[str, Any], dry_run: bool) -> tuple[float, int]:
    """CPU seconds of a pass, and how many nodes it wants to start."""
    loop = Autoscaler(config, lambda: driver_for(config), dry_run=dry_run)
    start = time.process_time()
    summary = loop.run_once()
    str(summary)
    return time.process_time() - start, len(summary.requested)


def main() -> None:
    """Measure, and print the figures."""
    which = sys.argv[1]
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else TURNS
    part = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    hpclogging.initialize_logging({})
    logging.getLogger().setLevel(logging.ERROR)
    here = Path.cwd()
    config = {
        "cluster_name": "benchmark",
        "_mock_bindings": cluster(which, part),
        "requestsetsdb": str(here / "requestsets.db"),
        "nodehistorydb": str(here / "nodehistory.db"),
        "lock_file": None,
    }
    record(config, RequestStore(config["requestsetsdb"]), wish(which, part))
    loops = [loop_seconds(turns)]
    seconds, new = one_pass(config, dry_run=True)
    loops.append(loop_seconds(turns))
    one_pass(config, dry_run=False)
    again, more = one_pass(config, dry_run=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wanted = ARRAYS // part + GROUPS // part * GROUP_SIZE
    figures = {
        "cpu": {"total": seconds},
        "cpu_again": {"total": again},
        "loop": sum(loops) / len(loops),
        "loops": loops,
        "memory_mb": {"peak": peak},
        "counts": {"new": new, "unplaced": wanted - new + more},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
