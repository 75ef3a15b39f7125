"""Counts what the library does in one pass over a workload: work that is the same on every machine.

Counted are the lines that are executed in the library, by module, and the calls of its functions.
That holds whatever the engine's parts are called, and finds a loop over all nodes wherever it
hides.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import clusters
import hpc.autoscale
import workloads
from hpc.autoscale.job import job as jobs_module
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.packing.expr import Expr

TraceFunction = Callable[[FrameType, str, Any], Any]
Extra = Callable[[DemandCalculator, list[Job]], object]

LIBRARY = str(Path(hpc.autoscale.__file__).parent)


def expressions(base: type[Expr] = Expr) -> set[type[Expr]]:
    """Every class of expressions."""
    return {base}.union(*(expressions(each) for each in base.__subclasses__()))


class Work:
    """What was done. `lines`: by path within the library. `calls`: by qualified name of the
    function."""

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = {}
        self._calls: dict[CodeType, list[int]] = {}
        self._tracers: dict[CodeType, TraceFunction | None] = {}

    @property
    def lines(self) -> Counter[str]:
        """Lines executed, by path within the library."""
        return Counter({module: count for module, (count,) in self._lines.items()})

    @property
    def calls(self) -> Counter[str]:
        """Calls, by qualified name of the function."""
        found: Counter[str] = Counter()
        for code, (count,) in self._calls.items():
            found[code.co_qualname] += count
        return found

    @property
    def total(self) -> int:
        """Lines executed."""
        return self.lines.total()

    @property
    def fits(self) -> int:
        """How often an expression was held against a node; answers that were remembered do not
        count."""
        return sum(self.calls[f"{each.__qualname__}.fit"] for each in expressions())

    @property
    def shapes(self) -> int:
        """How many different shapes of nodes were seen."""
        return self.calls["NodeShape.__init__"]

    @property
    def steps(self) -> int:
        """Lines executed where nodes with room are looked for."""
        return self.lines["packing/segment_tree.py"]

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what the library does inside of the `with`."""
        before = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> TraceFunction | None:
        code = frame.f_code
        if code not in self._tracers:
            self._tracers[code] = self._tracer(code)
        tracer = self._tracers[code]
        if tracer is not None:
            self._calls[code][0] += 1
        return tracer

    def _tracer(self, code: CodeType) -> TraceFunction | None:
        """What counts the lines of a function of the library."""
        if not code.co_filename.startswith(LIBRARY):
            return None
        self._calls[code] = [0]
        counted = self._lines.setdefault(code.co_filename[len(LIBRARY) + 1 :], [0])

        def on_line(frame: FrameType, event: str, arg: Any) -> TraceFunction:
            if event == "line":
                counted[0] += 1
            return on_line

        return on_line


def one_pass(name: str, extra: Extra | None = None, booting: bool = False, **scale: Any) -> Work:
    """What one pass over a workload takes, by a process that does not know the jobs' texts yet.
    `extra`: what is done besides with the calculator and the jobs, and counted. `booting`: no node
    is ready."""
    workload = workloads.make(name, **scale)
    binding = clusters.mock_cluster(workload)
    if booting:
        binding.update_state("Preparing")
    jobs_module._of_text.cache_clear()
    work = Work()
    with work.counted():
        calculator = new_demand_calculator(
            {"_mock_bindings": binding}, node_history=NullNodeHistory()
        )
    clusters.write_free_amounts(calculator.node_mgr.get_nodes(), workload)
    with work.counted():
        jobs = clusters.make_jobs(workload)
        calculator.add_jobs(jobs)
        calculator.get_demand()
        if extra is not None:
            extra(calculator, jobs)
    return work


@cache
def three_sizes(
    name: str, along: str, first: int, extra: Extra | None = None, **rest: Any
) -> list[Work]:
    """The work at a size, twice that and four times that; what is done once in a process is not in
    it."""
    one_pass(name, **{**rest, along: first})
    return [one_pass(name, extra, **{**rest, along: first * factor}) for factor in (1, 2, 4)]


def is_near_linear(counts: Sequence[int], at_most: float = 2.4) -> bool:
    """Whether the second doubling adds at most about twice what the first one added: squares would
    add four times."""
    one, two, four = counts
    return four - two <= at_most * max(two - one, one / 10)
