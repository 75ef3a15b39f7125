"""Measure one thing, once, in this process: `measure.py '{"kind": "pass", "workload": "W2"}'`
prints the figures as JSON.

What is measured is whichever `hpc.autoscale` this process finds. `fresh` starts it; see `Task` for
what can be asked. The clock is the CPU time of the process. Setting up, and reading what came out,
are outside of it.
"""

import gc
import hashlib
import json
import logging
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

import custom
import leastcost
from calibration import TURNS, loop_seconds
from check_plan import violations
from clusters import make_jobs, mock_cluster, plan_of, scheduler_nodes, write_free_amounts
from hpc.autoscale import hpclogging
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.results import Result, register_result_handler
from loop_pass import LoopPass, QueueDriver
from workloads import digest, make


class Task(TypedDict):
    """What to measure. `kind`: a whole "pass", the "startup", which ends when the calculator is
    there, or a dry pass of the "loop" (see `loop_pass`; `handler`: with a handler of results, as
    the command line has one).

    `rules`: every job is also held to the site's rules, written in this way (see `custom`).
    `keep_results`: a handler is registered that keeps every result. `again`: the pass is measured
    once more, on a cluster of its own, in a process that knows the jobs' texts by then.
    `scheduler_nodes`: the calculator is also given the nodes as the scheduler sees them. `config`:
    added to the configuration. `check`: the plan is checked from first principles, see
    `check_plan`. `prices`: those of the workload are the user's own, and what the plan costs is
    reported. `limit`: so many nodes at most of each bucket. `turns`: of the calibration loop.
    `without`: layers of speed that are left out, see
    `hpc.autoscale.packing.layers`.
    """

    kind: str
    workload: str
    scale: NotRequired[dict[str, Any]]
    rules: NotRequired[str]
    keep_results: NotRequired[bool]
    handler: NotRequired[bool]
    again: NotRequired[bool]
    scheduler_nodes: NotRequired[bool]
    config: NotRequired[dict[str, Any]]
    check: NotRequired[bool]
    prices: NotRequired[bool]
    limit: NotRequired[int]
    turns: NotRequired[int]
    without: NotRequired[Sequence[str]]


Seconds = dict[str, float]
T = TypeVar("T")


class Pass:
    """A pass over a workload: set up when it is made, carried out and measured by `run`."""

    def __init__(self, workload: dict[str, Any], task: Task) -> None:
        for bucket in workload["buckets"]:
            bucket["max_count"] = task.get("limit", bucket["max_count"])
        self.workload = workload
        self._has_rules = "rules" in task
        way = task.get("rules")
        self._rules = custom.rules(way) if way else []
        reported = task.get("scheduler_nodes", False)
        binding = mock_cluster(workload, custom.RESOURCES if way else None, reported)
        self._config = {**task.get("config", {}), "_mock_bindings": binding}
        self._hosts = scheduler_nodes(workload) if reported else None
        self._kind = task["kind"]
        self._has_handler = task.get("handler", False)
        self._has_prices = task.get("prices", False)
        self.calculator: DemandCalculator | None = None
        self.jobs: list[Job] = []
        self.wall = 0.0

    def run(self) -> Seconds:
        """CPU seconds of each part, and of all."""
        if self._has_prices:
            leastcost.use_prices(self.workload)
        gc.collect()
        start = time.perf_counter()
        if self._kind == "loop":
            total = self._run_loop()
            self.wall = time.perf_counter() - start
            return {"total": total}
        seconds: Seconds = {}
        calculator = _timed(seconds, "manager", self._start)
        self.calculator = calculator
        if self._kind != "startup":
            write_free_amounts(calculator.node_mgr.get_nodes(), self.workload)
            self.jobs = _timed(seconds, "jobs", lambda: make_jobs(self.workload, self._rules))
            _timed(seconds, "add_jobs", lambda: calculator.add_jobs(self.jobs))
            _timed(seconds, "get_demand", calculator.get_demand)
        self.wall = time.perf_counter() - start
        return {**seconds, "total": sum(seconds.values())}

    def _run_loop(self) -> float:
        workload = self.workload
        driver = QueueDriver(
            lambda: make_jobs(workload, self._rules),
            lambda manager: write_free_amounts(manager.get_nodes(), workload),
        )
        loop = LoopPass(self._config, driver, self._has_handler)
        seconds = loop.run()
        self.calculator, self.jobs = loop.calculator, driver.jobs
        return seconds

    def _start(self) -> DemandCalculator:
        history = NullNodeHistory()
        if self._hosts is None:
            return new_demand_calculator(self._config, node_history=history)
        return new_demand_calculator(self._config, self._hosts, node_history=history)

    def outcome(self) -> dict[str, Any]:
        """What came of it, in numbers, and a digest of the plan."""
        if self.calculator is None:
            raise RuntimeError("run has not been called")
        demand = self.calculator.get_demand()
        nodes = self.calculator.node_mgr.get_nodes()
        counts = {
            "new": len(demand.new_nodes),
            "matched": len(demand.matched_nodes),
            "unmatched": len(demand.unmatched_nodes),
            "unplaced": len(_unplaced(self.jobs, nodes)),
        }
        made: dict[str, Any] = {"counts": counts, "plan": _plan_digest(nodes), "wall": self.wall}
        if self._has_prices:
            made["cost"] = leastcost.cost_of(self.calculator, self.workload)
        return made

    def violations(self) -> list[str]:
        """What is wrong with the plan, by a checker that knows nothing of the library; however site
        rules are written, they mean what the built-in constraints say."""
        if self.calculator is None:
            raise RuntimeError("run has not been called")
        workload = self.workload
        if self._has_rules:
            also = custom.rules("builtin")
            jobs = [{**j, "constraints": [*j["constraints"], *also]} for j in workload["jobs"]]
            workload = {**workload, "jobs": jobs, "resources": custom.RESOURCES}
        return violations(workload, plan_of(self.calculator, self.jobs))


def _timed(seconds: Seconds, part: str, work: Callable[[], T]) -> T:
    start = time.process_time()
    done = work()
    seconds[part] = time.process_time() - start
    return done


def _unplaced(jobs: Sequence[Job], nodes: Sequence[Node]) -> list[Job]:
    """Jobs of which nothing, or not everything, found a place."""
    placed = set().union(*(node.assignments for node in nodes))
    return [
        j for j in jobs if j.name not in placed or (not j.node_count and j.iterations_remaining)
    ]


def _plan_digest(nodes: Sequence[Node]) -> str:
    """The same for plans that put the same jobs on the same nodes and leave the same amounts
    free."""
    hashed = hashlib.sha256()
    for node in sorted(nodes, key=lambda n: (n.nodearray, n.name)):
        free = [str(node.available.get(name)) for name in ("ncpus", "memgb", "ngpus", "seats")]
        said = [node.name, node.vm_size, node.placement_group, sorted(node.assignments), free]
        hashed.update(json.dumps(said).encode())
    return hashed.hexdigest()


def _megabytes(field: str) -> float:
    """Memory of this process: "VmRSS" now, "VmHWM" at most so far. Not inherited from whoever
    started it, which the usual `ru_maxrss` may be; only where there is no /proc that has to do."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(each for each in status.read_text().splitlines() if each.startswith(field))
        return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _quiet() -> None:
    """Log at WARNING, whatever the library sets up by itself."""
    hpclogging.initialize_logging({})
    logging.getLogger().setLevel(logging.WARNING)


def measure(task: Task) -> dict[str, Any]:
    """The figures: CPU seconds by part, those of the second pass, of the calibration loop,
    megabytes, and the outcome."""
    _quiet()
    kept: list[Result] = []
    if task.get("keep_results"):
        register_result_handler(kept.append)
    if task.get("without"):
        # a checkout to compare with may have none
        from hpc.autoscale.packing import layers

        layers.leave_out(*task["without"])
    workload = make(task["workload"], **task.get("scale", {}))
    current = Pass(workload, task)
    before = _megabytes("VmRSS")
    turns = task.get("turns", TURNS)
    loops = [loop_seconds(turns)]
    cpu = current.run()
    loops.append(loop_seconds(turns))
    figures = {
        "cpu": cpu,
        "loop": sum(loops) / len(loops),
        "loops": loops,
        "memory_mb": {"before": before, "peak": _megabytes("VmHWM")},
        "workload": digest(workload),
        **current.outcome(),
    }
    figures["counts"]["results"] = len(kept)
    if task.get("check"):
        figures["violations"] = current.violations()
    if task.get("again"):
        del current
        figures["cpu_again"] = Pass(workload, task).run()
    return figures


def main() -> None:
    """Measure what the argument asks for and print it."""
    print(json.dumps(measure(json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
