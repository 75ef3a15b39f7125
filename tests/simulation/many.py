"""Many days, in several processes, and what they had in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import get_context

from simulation.day import Report, run_day
from simulation.script import draw


def many(seeds: Sequence[int], processes: int) -> Iterator[Report]:
    """The days of these seeds, without their traces, as they are done."""
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_day, seeds, chunksize=4)


def _day(seed: int) -> Report:
    report = run_day(draw(seed))
    report.trace.clear()
    return report


def summary(reports: Sequence[Report]) -> str:
    """What the days had, together and at least."""
    fired: Counter[str] = sum((report.fired for report in reports), Counter())
    rows = [
        ("passes", [report.passes for report in reports]),
        ("jobs", [report.jobs for report in reports]),
        ("gangs", [report.gangs for report in reports]),
        ("nodes made", [report.made for report in reports]),
        ("nodes at most", [report.most_nodes for report in reports]),
        ("faults", [report.faults for report in reports]),
        ("kinds of faults", [len(report.fired) for report in reports]),
        ("kills", [report.kills for report in reports]),
    ]
    lines = [f"{len(reports)} days"]
    lines += [
        f"  {name}: {sum(counts)} in all, {min(counts)} to {max(counts)} a day"
        for name, counts in rows
    ]
    lines.append(f"  {kinds(fired)}")
    return "\n".join(lines)


def kinds(fired: Counter[str]) -> str:
    """How often each kind of fault happened, most often first."""
    return ", ".join(f"{kind} {count}" for kind, count in fired.most_common())
