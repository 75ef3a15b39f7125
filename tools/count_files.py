"""Count the source files of the library that a simple thing passes through.

Whoever changes how a job is placed, or how a node is read, must know these files; the fewer, the
better. Prints a list for each of `TASKS`. `tests/docs/test_count_files.py` holds a ceiling for it.

    .venv/bin/python tools/count_files.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import hpc.autoscale
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager

LIBRARY = Path(hpc.autoscale.__file__).parent
SIZE = "Standard_F4s_v2"
MOCK = "ccbindings/mock/"
"""Where the stand-in for a server is; what it does is no part of the library's way."""


def files_of(task: Callable[[], object]) -> list[str]:
    """The files of the library, by path within it, that a task enters while it runs."""
    entered: set[str] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(before)
    paths = (Path(name) for name in entered if name.startswith(str(LIBRARY)))
    return sorted(str(path.relative_to(LIBRARY)) for path in paths)


def cluster() -> MockClusterBinding:
    """A cluster of one nodearray with one node that exists."""
    binding = MockClusterBinding("cluster")
    binding.add_nodearray("htc", {"slots": 4})
    binding.add_bucket("htc", SIZE, 10, 10)
    binding.add_node(name="htc-1", nodearray="htc", vm_size=SIZE)
    return binding


def config(binding: MockClusterBinding) -> dict[str, Any]:
    """The configuration of a program that uses the cluster."""
    return {"cluster_name": "cluster", "_mock_bindings": binding}


def first_job() -> list[str]:
    """The first job is placed on a node that exists."""
    calculator: DemandCalculator = new_demand_calculator(
        config(cluster()), node_history=NullNodeHistory()
    )
    job = Job("1", {"ncpus": 1})
    files = files_of(lambda: calculator.add_job(job))
    if [node.name for node in calculator.node_mgr.get_nodes() if node.assignments] != ["htc-1"]:
        raise RuntimeError(f"expected {job} on htc-1")
    return files


def listing() -> list[str]:
    """A server's status and listing of nodes become a manager."""
    made: list[NodeManager] = []
    settings = config(cluster())
    files = files_of(lambda: made.append(new_node_manager(settings)))
    if len(made[0].get_nodes()) != 1:
        raise RuntimeError("expected one node")
    return [file for file in files if not file.startswith(MOCK)]


TASKS: dict[str, Callable[[], list[str]]] = {
    "the first job, placed on an existing node": first_job,
    "a listing that becomes a manager": listing,
}


def main() -> int:
    """Print each list; the exit code."""
    for name, task in TASKS.items():
        files = task()
        print(f"{name}: {len(files)} files")
        print("".join(f"    {file}\n" for file in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
