"""What is measured, and what each figure must be at most.

Targets are for a machine on which the calibration loop takes `REFERENCE_SECONDS`. What
cyclecloud-scalelib needs was measured elsewhere, on such a machine. Nothing here measures: `run`
and `compare` do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CALCULATOR = "hpc.autoscale.job.demandcalculator"


@dataclass(frozen=True)
class Figure:
    """One thing to measure. `at_most_ms`, `at_most_mb`: targets, None where there is none. `sweep`,
    `size`: of what row of growing sizes it is a part, and where, with `at_most_exponent` for the
    row. `than`: the name of the figure that it is compared to, and `at_most_ratio` how many times
    that it may cost. `at_most_gap`: how far a plan's price may be above its lower bound, as a part
    of that.
    """

    name: str
    group: str
    task: Mapping[str, Any]
    at_most_ms: float | None = None
    at_most_mb: float | None = None
    sweep: str = ""
    size: int = 0
    at_most_exponent: float | None = None
    than: str = ""
    at_most_ratio: float | None = None
    at_most_gap: float | None = None

    @property
    def workload(self) -> str:
        """The workload that it is about; "" for an import."""
        return str(self.task.get("workload", ""))


@dataclass(frozen=True)
class Upstream:
    """What cyclecloud-scalelib needs for a workload of `jobs` jobs, and how many times faster we
    must be."""

    jobs: int
    seconds: float
    times: int

    @property
    def at_most_ms(self) -> float:
        """The time that is that many times faster."""
        return 1000 * self.seconds / self.times


PASS_MS = {"W1": 80, "W2": 110, "W2u": 1_500, "W3": 80, "W4": 150, "W5": 90, "W6": 30, "W6b": 60}
# where being so many times faster asks for more than the times above: W1, W6 and W6b were measured
# at the same scale
UPSTREAM = {
    "W2": Upstream(4_000, 36.5, 800),
    "W2u": Upstream(2_000, 21.7, 100),
    "W3": Upstream(80, 11.2, 1_000),
    "W5": Upstream(2_000, 27.2, 1_000),
}
UPSTREAM_STARTUP = Upstream(0, 72.9, 500)
MEMORY_MB = {"W4": 120.0}
BIG_MS, BIG_MB = 2_000, 400
IMPORT_MS = 60.0
EXPLAINED_RATIO = 2.0
# a dry pass of the loop, without and with a handler of results: so many times what a pass may take,
# but for these
LOOP_RATIO, LOOP_MS = 1.3, {"W6": 60.0}
HANDLER_RATIO, HANDLER_MS = 1.6, {"W6": 80.0}
# queues of which most is refused, through the loop with a handler: milliseconds and megabytes
REFUSED = {"drain": (1_000.0, 250.0), "full300": (1_500.0, 300.0)}
OR10_MS, OR10_MB = 1_600.0, 200.0
REQUESTS_MS = 2_000.0
EXPONENT = 1.1
# least-cost mode: by seconds of search, how far above the lower bound a plan may be
GAPS: Mapping[float, Mapping[str, float | None]] = {
    0.25: {"W2": 0.005, "W4": 0.005, "W5": 0.005, "W2u": None},
    2.0: {"W2": 0.001, "W4": 0.001, "W5": 0.001, "W2u": 0.01},
}
# the policy least-waste: how far above the lower bound, and so many times what first fit in
# declared order takes
WASTE_GAPS = {"W2": 0.12, "W2u": 0.12, "W4": 0.12}
WASTE_RATIO = 1.3
# least-cost mode with so many nodes of each bucket at most
LIMITS = {"W2": 150, "W4": 900}
LIMITED_GAP = 0.01

# Sweeps: (workload, what grows, four sizes of which each is twice the one before, what stays)
Sweep = tuple[str, str, int, Mapping[str, int]]
SWEEPS: tuple[Sweep, ...] = (
    ("W1", "n", 5_000, {}),
    ("W2", "n", 5_000, {}),
    ("W2u", "n", 2_500, {}),
    ("W3", "n", 125, {}),
    ("W4", "n", 250, {"nodes": 500}),
    ("W5", "n", 2_500, {}),
    ("W6", "n", 1_000, {}),
    ("W6b", "n", 1_000, {}),
    ("or10", "n", 1_000, {}),
    ("W4", "nodes", 2_500, {"n": 100}),
    ("W6", "nodes", 2_500, {"n": 500}),
    ("W6b", "nodes", 2_500, {"n": 500}),
)
DOUBLINGS = 3


def all_figures(quick: bool = False, seed: int | None = None) -> list[Figure]:
    """Everything. `quick`: sweeps and the big case at a tenth, which is too small to judge them.
    `seed`: in place of the workloads' own."""
    return [_seeded(each, seed) for each in _figures(10 if quick else 1)]


def chosen(figures: Sequence[Figure], only: Sequence[str]) -> list[Figure]:
    """Those of some workloads and groups, named in any letter case, with what they are compared to.
    ValueError for a name that is neither."""
    if not only:
        return list(figures)
    known = {each.lower(): each for f in figures for each in (f.workload, f.group) if each}
    wrong = [each for each in only if each.lower() not in known]
    if wrong:
        raise ValueError(f"expected some of {', '.join(known.values())}; found {', '.join(wrong)}")
    wanted = {known[each.lower()] for each in only}
    found = [f for f in figures if f.workload in wanted or f.group in wanted]
    names = {f.name for f in found} | {f.than for f in found}
    return [f for f in figures if f.name in names]


def _seeded(figure: Figure, seed: int | None) -> Figure:
    if seed is None or not figure.workload:
        return figure
    scale = {**figure.task.get("scale", {}), "seed": seed}
    return Figure(**{**figure.__dict__, "task": {**figure.task, "scale": scale}})


def _figures(part: int) -> Iterator[Figure]:
    yield from _passes()
    yield from _startups()
    yield from _imports()
    yield from _explaining()
    yield from _loops()
    yield from _hard()
    yield from _requests()
    yield from _custom()
    yield from _costs()
    nodes, jobs = 20_000 // part, 100_000 // part
    task = {"kind": "pass", "workload": "big", "scale": {"n": jobs, "nodes": nodes}, "check": True}
    targets = (BIG_MS, BIG_MB) if part == 1 else (None, None)
    yield Figure(f"big: {jobs:,} jobs, {nodes:,} nodes", "big", task, *targets)
    for sweep in SWEEPS:
        yield from _sweep(sweep, part)


def _passes() -> Iterator[Figure]:
    for name, target in PASS_MS.items():
        task = {"kind": "pass", "workload": name, "again": True, "check": True}
        yield Figure(name, "pass", task, target, MEMORY_MB.get(name))
    for name, upstream in UPSTREAM.items():
        task = {"kind": "pass", "workload": name, "scale": {"n": upstream.jobs}, "check": True}
        yield Figure(f"{name}, {upstream.jobs:,} jobs", "pass", task, upstream.at_most_ms)


def _costs() -> Iterator[Figure]:
    for seconds, gaps in GAPS.items():
        packing = {"objective": "cost", "optimize_seconds": seconds}
        for workload, gap in gaps.items():
            yield Figure(
                f"{workload}, {seconds:g} s", "cost", _cost(workload, packing), at_most_gap=gap
            )
    for workload in GAPS[0.25]:
        packing = {"objective": "cost", "optimize_rounds": 0}
        yield Figure(f"{workload}, greedy", "cost", _cost(workload, packing))
    for workload in WASTE_GAPS:
        task = _cost(workload, {"policy": "least-waste"})
        gap, than = WASTE_GAPS[workload], f"{workload}, first fit"
        yield Figure(than, "cost", _cost(workload, {}))
        name = f"{workload}, least-waste"
        yield Figure(name, "cost", task, than=than, at_most_ratio=WASTE_RATIO, at_most_gap=gap)
    packing = {"objective": "cost", "optimize_seconds": 0.25}
    for workload, limit in LIMITS.items():
        task = {**_cost(workload, packing), "limit": limit}
        yield Figure(f"{workload}, limits that bind", "cost", task, at_most_gap=LIMITED_GAP)


def _cost(workload: str, packing: dict[str, Any]) -> dict[str, Any]:
    config = {"packing": packing}
    return {"kind": "pass", "workload": workload, "prices": True, "check": True, "config": config}


def _startups() -> Iterator[Figure]:
    task = {"kind": "startup", "workload": "W4", "scale": {"n": 0}}
    target = UPSTREAM_STARTUP.at_most_ms
    yield Figure("start-up, 5,000 nodes", "startup", task, target)
    yield Figure("start-up, reported too", "startup", {**task, "scheduler_nodes": True})


def _imports() -> Iterator[Figure]:
    for module in ("hpc.autoscale", CALCULATOR):
        yield Figure(f"import {module}", "import", {"kind": "import", "module": module}, IMPORT_MS)


def _explaining() -> Iterator[Figure]:
    task = {"kind": "pass", "workload": "W2", "keep_results": True, "check": True}
    yield Figure("W2, results kept", "explain", task, than="W2", at_most_ratio=EXPLAINED_RATIO)


def _loops() -> Iterator[Figure]:
    """Each workload through the loop, without and with a handler of results."""
    for workload, of_pass in PASS_MS.items():
        task = {"kind": "loop", "workload": workload, "check": True}
        at_most = LOOP_MS.get(workload, LOOP_RATIO * of_pass)
        yield Figure(f"{workload}, the loop", "loop", task, at_most)
        at_most = HANDLER_MS.get(workload, HANDLER_RATIO * of_pass)
        yield Figure(f"{workload}, the loop, told", "loop", {**task, "handler": True}, at_most)


def _hard() -> Iterator[Figure]:
    """Queues of which most is refused, with a handler of results, and queues with many
    alternatives."""
    for workload, targets in REFUSED.items():
        task = {"kind": "loop", "workload": workload, "handler": True, "check": True}
        yield Figure(f"{workload}, the loop, told", "hard", task, *targets)
    task = {"kind": "pass", "workload": "or10", "check": True}
    yield Figure("or10", "hard", task, OR10_MS, OR10_MB)


def _requests() -> Iterator[Figure]:
    """A request set of 1,000 arrays and 200 groups, of the cluster's nodearrays or dynamic ones."""
    for arrays in ("real", "dynamic"):
        name = f"1,000 arrays, 200 groups, {arrays}"
        yield Figure(name, "requests", {"kind": "requests", "arrays": arrays}, REQUESTS_MS)


def _custom() -> Iterator[Figure]:
    scales = {"W2": {"n": 1_000}, "W4": {"n": 50, "iters": 10, "nodes": 500}}
    for workload, scale in scales.items():
        for rules in ("builtin", "lowered", "declared", "opaque"):
            on = {"workload": workload, "scale": scale}
            task = {"kind": "pass", **on, "rules": rules, "check": True}
            than = f"{workload}, site rules builtin" if rules != "builtin" else ""
            yield Figure(f"{workload}, site rules {rules}", "custom", task, than=than)


def _sweep(sweep: Sweep, part: int) -> Iterator[Figure]:
    workload, along, first, rest = sweep
    kind = "jobs" if along == "n" else along
    for step in range(DOUBLINGS + 1):
        size = first * 2**step // part
        task = {"kind": "pass", "workload": workload, "scale": {**rest, along: size}}
        name = f"{workload} by {kind}"
        yield Figure(
            f"{name}, {size:,}",
            "growth",
            task,
            sweep=name,
            size=size,
            at_most_exponent=EXPONENT if part == 1 else None,
        )
