"""Measure everything and print it beside the targets: `run.py [--only W1,W2] [--quick] [--runs 3]
[--seed N]`.

Each run is a process of its own. Every figure is measured once before any is measured again, so
that a spell of noise falls on all alike.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from figures import CALCULATOR, Figure, all_figures, chosen
from fresh import HERE, ROOT, MeasurementFailed, library_of, measured
from hpc.autoscale.packing.layers import LAYERS
from report import as_json, text, write_json
from summary import Measured, verdicts, withheld


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[Figure]]:
    """The options and the figures that they choose; exits where they cannot be understood."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--only", default="", metavar="NAMES", help="workloads and groups (W1,W2u,growth,import)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="each figure once; sweeps and the big case at a tenth"
    )
    parser.add_argument("--runs", type=int, help="how often each figure is measured (3; quick: 1)")
    parser.add_argument("--seed", type=int, help="of the workloads, in place of their own")
    parser.add_argument(
        "--without", default="", metavar="LAYERS", help=f"leave out some of {', '.join(LAYERS)}"
    )
    parser.add_argument("--out", type=Path, help="JSON file (benchmarks/out/bench-<time>.json)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit 1 when a target is not met, a plan is wrong or a figure is withheld",
    )
    options = parser.parse_args(arguments)
    if options.runs is not None and options.runs < 1:
        parser.error(f"--runs: expected 1 or more, found {options.runs}")
    try:
        figures = chosen(all_figures(options.quick, options.seed), names_in(options.only))
    except ValueError as error:
        parser.error(f"--only: {error}")
    without = names_in(options.without)
    if not set(without) <= set(LAYERS):
        parser.error(f"--without: expected some of {', '.join(LAYERS)}, found {options.without}")
    if without:
        figures = [replace(each, task={**each.task, "without": without}) for each in figures]
    return options, figures


def names_in(given: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in given.split(",") if name.strip()]


def measure_all(figures: Sequence[Figure], runs: int, library: Path) -> list[Measured]:
    """Measure each figure so many times. One that fails is not tried again, and keeps no other from
    being measured."""
    found = [Measured(figure) for figure in figures]
    # bytecode is compiled once and then read, and what is measured is the reading
    try_import(library)
    for turn in range(runs):
        for number, each in enumerate(found):
            if each.failure:
                continue
            show(f"run {turn + 1} of {runs}, {number + 1} of {len(found)}: {each.figure.name}")
            try:
                each.runs.append(measured(each.figure.task, library))
            except MeasurementFailed as error:
                each.failure = str(error)
    show("")
    return found


def show(progress: str) -> None:
    """Tell a terminal how far it is."""
    if sys.stderr.isatty():
        print(f"\r{progress:<78}\r", end="", file=sys.stderr, flush=True)


def try_import(library: Path) -> None:
    """Import the library once, so that its bytecode is there. A library that cannot be imported is
    found out later."""
    try:
        measured({"kind": "import", "module": CALCULATOR, "turns": 1000}, library)
    except MeasurementFailed as error:
        print(f"cannot be imported: {error}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. 1 when something could not be measured, or --check finds a target
    missed, a plan wrong or a figure withheld."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    options, figures = parse(given)
    runs = options.runs or (1 if options.quick else 3)
    found = measure_all(figures, runs, library_of(ROOT))
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    out = options.out or HERE / "out" / f"bench-{stamp}.json"
    write_json(as_json(found, given), out)
    print(text(found))
    print(f"\nWritten to {out}")
    missed = options.check and not all(verdict.holds for verdict in verdicts(found))
    wrong = options.check and any(each.violations for each in found)
    unjudged = options.check and bool(withheld(found))
    failed = any(each.failure for each in found)
    return int(missed or wrong or unjudged or failed)


if __name__ == "__main__":
    sys.exit(main())
