"""Compare two checkouts in one run: `compare.py OLD_CHECKOUT NEW_CHECKOUT [--only W1,W2] [--rounds
5]`.

Both are measured by this harness, in turn, A B A B, so that whatever else the machine does falls on
both. What counts is the ratio within each pair of runs; figures that were taken one after another
at different times say little.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from figures import Figure, all_figures, chosen
from fresh import MeasurementFailed, library_of, measured
from report import as_json, commit_of, table, write_json
from run import names_in, show, try_import
from summary import Measured

USUAL = ("pass", "startup", "import")


@dataclass
class Pairs:
    """One figure of two checkouts, run for run."""

    figure: Figure
    old: Measured = field(init=False)
    new: Measured = field(init=False)

    def __post_init__(self) -> None:
        self.old = Measured(self.figure)
        self.new = Measured(self.figure)

    @property
    def ratios(self) -> list[float]:
        """How many times what the old one costs the new one costs, lowest first."""
        pairs = zip(self.old.ratios, self.new.ratios, strict=True)
        return sorted(new / old for old, new in pairs)

    @property
    def same_plan(self) -> str:
        """Whether both came to one plan; "" where there is none."""
        if not self.old.plans or not self.new.plans:
            return ""
        return "yes" if self.old.plans == self.new.plans else "NO"

    @property
    def failure(self) -> str:
        """Why there are no figures."""
        sides = (("old", self.old.failure), ("new", self.new.failure))
        return "; ".join(f"{side}: {why}" for side, why in sides if why)


def compare(figures: Sequence[Figure], old: Path, new: Path, rounds: int) -> list[Pairs]:
    """Measure both libraries in turn, `rounds` times; a figure that fails in one of them is not
    tried again."""
    found = [Pairs(figure) for figure in figures]
    for library in (old, new):
        try_import(library)
    for turn in range(rounds):
        for number, pair in enumerate(found):
            if pair.failure:
                continue
            show(f"round {turn + 1} of {rounds}, {number + 1} of {len(found)}: {pair.figure.name}")
            for side, library in ((pair.old, old), (pair.new, new)):
                try:
                    side.runs.append(measured(pair.figure.task, library))
                except MeasurementFailed as error:
                    side.failure = str(error)
    show("")
    return found


def text(pairs: Sequence[Pairs]) -> str:
    """The ratios as a table; below 1 the new one is faster."""
    heads = ("", "old ms", "new ms", "new / old", "lowest", "highest", "same plan")
    rows = []
    for pair in pairs:
        if pair.failure:
            continue
        ratios = pair.ratios
        spread = (median(ratios), ratios[0], ratios[-1])
        times = (f"{each.cpu_ms:,.1f}" for each in (pair.old, pair.new))
        rows.append([pair.figure.name, *times, *(f"{r:.2f}" for r in spread), pair.same_plan])
    parts = ["CPU milliseconds are as measured; ratios are of figures in calibration loops."]
    if rows:
        parts.append(table(heads, rows))
    failed = [f"{pair.figure.name}: {pair.failure}" for pair in pairs if pair.failure]
    if failed:
        parts.append("Not measured\n" + "\n".join(failed))
    return "\n\n".join(parts)


def _json(pairs: Sequence[Pairs], arguments: Sequence[str]) -> dict[str, Any]:
    return {
        "old": as_json([pair.old for pair in pairs], arguments),
        "new": as_json([pair.new for pair in pairs], arguments),
        "ratios": {pair.figure.name: pair.ratios for pair in pairs if not pair.failure},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; 1 when something could not be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("old", type=Path, metavar="OLD_CHECKOUT")
    parser.add_argument("new", type=Path, metavar="NEW_CHECKOUT")
    parser.add_argument(
        "--only", default=",".join(USUAL), help="workloads and groups (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="sweeps and the big case at a tenth")
    parser.add_argument("--seed", type=int, help="of the workloads, in place of their own")
    parser.add_argument("--out", type=Path, help="also write JSON here")
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(given)
    if options.rounds < 1:
        parser.error(f"--rounds: expected 1 or more, found {options.rounds}")
    try:
        figures = chosen(all_figures(options.quick, options.seed), names_in(options.only))
        old, new = library_of(options.old), library_of(options.new)
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    pairs = compare(figures, old, new, options.rounds)
    print(f"old: {options.old} {commit_of(options.old) or ''}")
    print(f"new: {options.new} {commit_of(options.new) or ''}")
    print(text(pairs))
    if options.out:
        write_json(_json(pairs, given), options.out)
    return int(any(pair.failure for pair in pairs))


if __name__ == "__main__":
    sys.exit(main())
