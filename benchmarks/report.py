"""Figures as a table for people and as JSON for programs."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from calibration import REFERENCE_SECONDS
from figures import DOUBLINGS
from fresh import ROOT
from summary import STRAYS_AT_MOST, Growth, Measured, growths, times, verdicts, withheld

TITLES = {
    "pass": "CPU of one whole pass, the first of a process: manager, jobs, add_jobs, get_demand",
    "startup": "CPU until the calculator is there",
    "import": "CPU of an import in a fresh process",
    "explain": "With a handler registered that keeps every result",
    "loop": "CPU of a whole dry pass of the loop; told: with a handler, as azscale has",
    "hard": "Queues of which most is refused, with a handler; an `or` of ten alternatives",
    "requests": "CPU of a dry pass over a request set: when nothing is there, and when all is",
    "custom": "Two site rules as built-in constraints, expressions, declared methods, methods",
    "cost": "Least cost: dollars per hour of new nodes, the lower bound, seconds of search allowed",
    "big": "Very many jobs against very many nodes",
    "growth": "Growth: scaled milliseconds at each size, and the exponent that fits them",
}
COLUMNS = (
    *("", "CPU ms", "loop s", "scaled ms", "at most", " "),
    *("next pass", "times", "peak MB", "new nodes", "unplaced", "plan checked"),
)
MOST_SHOWN = 20
COST_COLUMNS = (
    *("", "price", "bound", "gap %", "at most %", " "),
    *("by", "CPU ms", "scaled ms", "wall ms", "new nodes", "unplaced", "plan"),
)
GROWTH_COLUMNS = ("", *["size: ms"] * (DOUBLINGS + 1), "exponent", "at most", " ")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells under their heads, the first column to the left; columns without anything in
    them are left out."""
    columns = zip(heads, *rows, strict=True)
    used = [column for column in columns if any(cell for cell in column[1:])]
    widths = [max(len(cell) for cell in column) for column in used]
    lines = []
    for row in zip(*used, strict=True):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())
    return "\n".join(lines)


def text(measured: Sequence[Measured]) -> str:
    """The whole report."""
    others = {each.figure.name: each for each in measured}
    parts = [
        "CPU ms are as measured. Scaled ms are for a machine on which the calibration loop takes "
        f"{REFERENCE_SECONDS} s, and so are targets; they are withheld where the loops "
        f"right before and after a run differ by more than {STRAYS_AT_MOST:.0%}."
    ]
    for group, title in TITLES.items():
        of_group = [each for each in measured if each.figure.group == group]
        if group == "growth":
            heads = GROWTH_COLUMNS
            rows = [_growth_row(each) for each in growths(of_group)]
        elif group == "cost":
            heads = COST_COLUMNS
            rows = [_cost_row(each) for each in of_group if each.cost]
        else:
            heads = COLUMNS
            rows = [_row(each, others) for each in of_group if each.runs]
        if rows:
            parts.append(f"{title}\n{table(heads, rows)}")
    parts.extend(_problems(measured))
    return "\n\n".join(parts)


def _row(measured: Measured, others: Mapping[str, Measured]) -> list[str]:
    figure = measured.figure
    ratio = times(measured, others)
    counts = measured.run.get("counts", {})
    return [
        figure.name,
        _number(measured.cpu_ms),
        f"{measured.loop_s:.3f}",
        _scaled(measured.scaled_ms),
        _number(figure.at_most_ms),
        _mark(measured.scaled_ms, figure.at_most_ms),
        _number(measured.again_ms),
        _limited(ratio, figure.at_most_ratio),
        _limited(measured.peak_mb, figure.at_most_mb),
        str(counts.get("new", "")),
        str(counts.get("unplaced", "")),
        _checked(measured.violations),
    ]


def _cost_row(measured: Measured) -> list[str]:
    cost, gap, at_most = measured.cost or {}, measured.gap, measured.figure.at_most_gap
    counts = measured.run["counts"]
    return [
        measured.figure.name,
        f"{cost['price']:,.2f}",
        f"{cost['bound']:,.2f}",
        "" if gap is None else f"{100 * gap:.4f}",
        "" if at_most is None else f"{100 * at_most:g}",
        "" if gap is None else _mark(gap, at_most),
        cost["method"],
        _number(measured.cpu_ms),
        _scaled(measured.scaled_ms),
        _number(1000 * measured.run["wall"]),
        str(counts["new"]),
        str(counts["unplaced"]),
        _checked(measured.violations),
    ]


def _checked(violations: Sequence[str] | None) -> str:
    if violations is None:
        return ""
    return f"{len(violations)} WRONG" if violations else "ok"


def _growth_row(growth: Growth) -> list[str]:
    points = zip(growth.sizes, growth.scaled_ms, strict=True)
    cells = [f"{size:,}: {_number(ms)}" for size, ms in points]
    limit, mark = "", ""
    if growth.at_most is not None:
        limit, mark = f"{growth.at_most:g}", _mark(growth.exponent, growth.at_most)
    return [growth.name, *cells, f"{growth.exponent:.2f}", limit, mark]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _scaled(value: float | None) -> str:
    return "withheld" if value is None else _number(value)


def _mark(value: float | None, at_most: float | None) -> str:
    if at_most is None or value is None:
        return ""
    return "ok" if value <= at_most else "OVER"


def _limited(value: float | None, at_most: float | None) -> str:
    if value is None:
        return ""
    limit = "" if at_most is None else f" of {at_most:g} {_mark(value, at_most)}"
    return f"{value:.3g}{limit}" if value < 10 else f"{value:.0f}{limit}"


def _problems(measured: Sequence[Measured]) -> Iterator[str]:
    """What was not measured, what is not as it must be, and what did not come out the same each
    time."""
    unjudged = withheld(measured)
    if unjudged:
        yield "Withheld, because the machine was not steady: " + "; ".join(unjudged)
    failed = [f"{each.figure.name}: {each.failure}" for each in measured if each.failure]
    if failed:
        yield "Not measured\n" + "\n".join(failed)
    # how far a search comes in its time is not the same each time
    steady = (each for each in measured if each.figure.group != "cost")
    wavering = [each.figure.name for each in steady if len(each.plans) > 1]
    if wavering:
        yield "Different plans in different runs: " + "; ".join(wavering)
    differing = list(_unlike(measured))
    if differing:
        yield "Another plan than what it is compared to: " + "; ".join(differing)
    wrong = [f"{m.figure.name}: {each}" for m in measured for each in (m.violations or [])]
    if wrong:
        more = f"\n... and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
        yield "Wrong plans\n" + "\n".join(wrong[:MOST_SHOWN]) + more
    plans = [m.violations for m in measured if m.violations is not None]
    if plans:
        found = sum(bool(each) for each in plans)
        yield f"plan checked: {f'violations in {found} of' if found else 'ok, all'} {len(plans)}"
    checked = verdicts(measured)
    over = [v for v in checked if not v.holds]
    yield f"{len(checked) - len(over)} of {len(checked)} targets are met" + "".join(
        f"\n  {v.name}: {v.value:.4g} {v.what}, at most {v.at_most:g}" for v in over
    )


def _unlike(measured: Sequence[Measured]) -> Iterator[str]:
    others = {each.figure.name: each for each in measured}
    for each in measured:
        than = others.get(each.figure.than)
        if than is not None and than.plans and each.plans and than.plans != each.plans:
            yield each.figure.name


def as_json(measured: Sequence[Measured], arguments: Sequence[str]) -> dict[str, Any]:
    """Everything, with the single runs."""
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "arguments": list(arguments),
        "machine": _machine(),
        "reference_loop_s": REFERENCE_SECONDS,
        "figures": [_figure_json(each) for each in measured],
        "growth": [asdict(growth) for growth in growths(measured)],
        "targets": [{**asdict(v), "holds": v.holds} for v in verdicts(measured)],
    }


def _figure_json(measured: Measured) -> dict[str, Any]:
    made: dict[str, Any] = {**asdict(measured.figure), "failure": measured.failure}
    if measured.runs:
        made["cpu_ms"] = measured.cpu_ms
        made["loop_s"] = measured.loop_s
        made["scaled_ms"] = measured.scaled_ms
        made["scaled_ms_again"] = measured.again_ms
        made["peak_mb"] = measured.peak_mb
        made["violations"] = measured.violations
    return {**made, "runs": measured.runs}


def _machine() -> dict[str, Any]:
    return {
        "python": sys.version.split()[0],
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "commit": commit_of(ROOT),
    }


def commit_of(directory: Path) -> str | None:
    """The commit that is checked out, with "+" where files differ from it; None outside of git."""
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def write_json(report: Mapping[str, Any], path: Path) -> None:
    """Write it, making the directory if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
