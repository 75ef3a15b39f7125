"""`make simulate`: many days, or one seed in detail.

python -m simulation --seeds 1000         days 1 to 1000, in two processes
python -m simulation --seed 17            one day; when it fails, its shortest script
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from simulation.day import run_day
from simulation.many import kinds, many, summary
from simulation.script import draw
from simulation.shrink import shrink, written


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 when an invariant failed on some day."""
    parser = argparse.ArgumentParser(prog="make simulate", description="Simulate days.")
    parser.add_argument("--seeds", type=int, default=100, help="how many days, from seed 1 on")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="one day only, told in full")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(arguments)
    if given.seed is not None:
        return _one(given.seed)
    return _many(range(given.first, given.first + given.seeds), given.processes)


def _one(seed: int) -> int:
    script = draw(seed)
    report = run_day(script)
    print("\n".join(report.trace))
    print(report)
    print(kinds(report.fired))
    if report.invariant is None:
        return 0
    print("\nIt fails with no more than this:\n")
    short = shrink(script, report.invariant)
    print(written(short))
    print("\n".join(run_day(short).trace))
    return 1


def _many(seeds: Sequence[int], processes: int) -> int:
    began = time.monotonic()
    reports = []
    for report in many(seeds, processes):
        reports.append(report)
        if report.violation or len(seeds) <= 20:
            print(report, flush=True)
    failed = sorted(report.seed for report in reports if report.violation)
    print(summary(reports))
    print(f"{time.monotonic() - began:.0f} s")
    for seed in failed:
        print(f"seed {seed} failed: make simulate SEED={seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
