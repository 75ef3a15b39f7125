"""From the runs of a figure to numbers that can be compared, and whether they are what they must
be. No printing.

A run's CPU seconds are divided by those that the calibration loop took right before and after it. A
run beside which the loop strays says nothing about another machine. Of several runs that say
something the one in the middle counts: on a shared machine the best may be as much of an accident
as the worst.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibration import REFERENCE_SECONDS
from figures import Figure

STRAYS_AT_MOST = 0.1
"""By how much the slower of the calibration loops before and after a run may exceed the faster, as
a part of that."""


@dataclass
class Measured:
    """A figure with what its runs said; `failure` is why there is none."""

    figure: Figure
    runs: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""

    @property
    def steady_runs(self) -> list[dict[str, Any]]:
        """The runs beside which the calibration loop took the same time before and after."""
        return [run for run in self.runs if _strays_by(run) <= STRAYS_AT_MOST]

    @property
    def run(self) -> dict[str, Any]:
        """The run in the middle, of the steady ones if there are any."""
        by_ratio = sorted(self.steady_runs or self.runs, key=_ratio)
        return by_ratio[(len(by_ratio) - 1) // 2]

    @property
    def ratios(self) -> list[float]:
        """CPU seconds in calibration loops, of each run."""
        return [_ratio(run) for run in self.runs]

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds, as measured."""
        return 1000 * float(self.run["cpu"]["total"])

    @property
    def loop_s(self) -> float:
        """Seconds of the calibration loop beside it."""
        return float(self.run["loop"])

    @property
    def scaled_ms(self) -> float | None:
        """CPU milliseconds of a machine on which the loop takes `REFERENCE_SECONDS`; None where no
        run was steady."""
        if not self.steady_runs:
            return None
        return 1000 * REFERENCE_SECONDS * _ratio(self.run)

    @property
    def again_ms(self) -> float | None:
        """The same of the next pass in the same process, where that was measured."""
        seconds = [
            run["cpu_again"]["total"] / run["loop"]
            for run in self.steady_runs
            if "cpu_again" in run
        ]
        return (
            1000 * REFERENCE_SECONDS * sorted(seconds)[(len(seconds) - 1) // 2] if seconds else None
        )

    @property
    def peak_mb(self) -> float | None:
        """The most memory that any of the runs took."""
        return max(
            (run["memory_mb"]["peak"] for run in self.runs if "memory_mb" in run), default=None
        )

    @property
    def cost(self) -> dict[str, Any] | None:
        """What the dearest plan of its runs costs, for its bound; None where nothing was priced."""
        found = [run["cost"] for run in self.runs if "cost" in run]
        return max(found, key=lambda cost: cost["price"] - cost["bound"], default=None)

    @property
    def gap(self) -> float | None:
        """By how much a plan of its runs is above its lower bound at most, as a part of that; None
        where that is not known."""
        gaps = [run["cost"]["gap"] for run in self.runs if "cost" in run]
        if not gaps:
            return None
        return math.inf if None in gaps else max(gaps)

    @property
    def plans(self) -> set[str]:
        """The different plans of its runs: one, when all is well."""
        return {run["plan"] for run in self.runs if "plan" in run}

    @property
    def violations(self) -> list[str] | None:
        """What is wrong with its plans; None where no plan was checked."""
        checked = [run["violations"] for run in self.runs if "violations" in run]
        return sorted({each for found in checked for each in found}) if checked else None


def _ratio(run: Mapping[str, Any]) -> float:
    return float(run["cpu"]["total"]) / float(run["loop"])


def _strays_by(run: Mapping[str, Any]) -> float:
    """By how much the calibration loops beside a run differ, as a part of the fastest."""
    loops = run.get("loops") or [run["loop"]]
    return float(max(loops) / min(loops) - 1)


def withheld(measured: Iterable[Measured]) -> list[str]:
    """The figures that were measured and cannot be scaled."""
    return [each.figure.name for each in measured if each.runs and each.scaled_ms is None]


@dataclass(frozen=True)
class Verdict:
    """Whether a figure is at most what it must be."""

    name: str
    what: str
    value: float
    at_most: float

    @property
    def holds(self) -> bool:
        """Whether it is."""
        return self.value <= self.at_most


@dataclass(frozen=True)
class Growth:
    """How the cost of a workload grows: `scaled_ms` at `sizes`, and the exponent that fits them
    best."""

    name: str
    sizes: tuple[int, ...]
    scaled_ms: tuple[float, ...]
    exponent: float
    at_most: float | None


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The k for which cost = c · size^k fits best (least squares of the logarithms). ValueError
    below two sizes."""
    if len(sizes) != len(costs) or len(set(sizes)) < 2:
        raise ValueError(f"expected as many costs as sizes, two at least; found {sizes}, {costs}")
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return slope / sum((a - mean_x) ** 2 for a in x)


def growths(measured: Iterable[Measured]) -> list[Growth]:
    """The sweeps of which every size was measured and could be scaled."""
    sweeps: dict[str, list[Measured]] = {}
    for each in measured:
        if each.figure.sweep:
            sweeps.setdefault(each.figure.sweep, []).append(each)
    found = []
    for name, points in sweeps.items():
        costs = tuple(ms for point in points if point.runs and (ms := point.scaled_ms) is not None)
        if len(costs) == len(points):
            sizes = tuple(point.figure.size for point in points)
            at_most = points[0].figure.at_most_exponent
            found.append(Growth(name, sizes, costs, exponent(sizes, costs), at_most))
    return found


def times(measured: Measured, others: Mapping[str, Measured]) -> float | None:
    """How many times what it is compared to it costs; None where there is nothing to compare to."""
    than = others.get(measured.figure.than)
    if than is None or not than.runs or not measured.runs:
        return None
    if measured.scaled_ms is None or than.scaled_ms is None:
        return None
    return measured.scaled_ms / than.scaled_ms


def verdicts(measured: Sequence[Measured]) -> list[Verdict]:
    """What every target says. A figure that could not be measured has none; see its `failure`."""
    others = {each.figure.name: each for each in measured}
    found = []
    for each in measured:
        figure = each.figure
        if not each.runs:
            continue
        targets = (
            ("CPU ms", each.scaled_ms, figure.at_most_ms),
            ("peak MB", each.peak_mb, figure.at_most_mb),
            ("times", times(each, others), figure.at_most_ratio),
            ("above the bound", each.gap, figure.at_most_gap),
        )
        for what, value, at_most in targets:
            if value is not None and at_most is not None:
                found.append(Verdict(figure.name, what, value, at_most))
    for growth in growths(measured):
        if growth.at_most is not None:
            found.append(Verdict(growth.name, "exponent", growth.exponent, growth.at_most))
    return found
