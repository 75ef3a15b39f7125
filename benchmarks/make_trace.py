"""A month of jobs that nobody ever submitted, in the standard workload format.

    .venv/bin/python benchmarks/make_trace.py month.swf --jobs 30000 --cores 3200 --days 30

Arrivals follow the hours of the day and the days of the week; widths are mostly small powers of
two, run times are spread over five orders of magnitude, and users ask for more time than they need.
Used where a real log may not be copied.
"""

import argparse
import math
import random
from collections.abc import Iterator

DAY = 86400.0
START = 1_767_225_600  # 2026-01-01, a Thursday


def lines_of(
    jobs: int, cores: int, days: float, seed: int = 0, load: float = 0.5, widest: int = 512
) -> Iterator[str]:
    """The lines of a workload that keeps so many cores busy for a part `load` of the time."""
    rng = random.Random(f"trace {seed}")
    yield from (
        "; Version: 2.2",
        "; Computer: none, generated",
        f"; UnixStartTime: {START}",
        f"; MaxProcs: {cores}",
    )
    drawn = sorted(_arrival(rng, days) for _ in range(jobs))
    shapes = [_shape(rng, widest) for _ in range(jobs)]
    work = sum(width * seconds for width, seconds in shapes)
    scale = load * cores * days * DAY / work
    for number, (at, (width, seconds)) in enumerate(zip(drawn, shapes, strict=True), 1):
        run = max(1, round(seconds * scale))
        asked = min(30 * DAY, max(600, run * rng.choice((1.1, 1.5, 2, 4, 10))))
        user = rng.randint(1, 60)
        yield (
            f"{number} {at:.0f} -1 {run} {width} -1 -1 {width} {asked:.0f} -1 1 {user} 1 -1 1 1"
            " -1 -1"
        )


def _arrival(rng: random.Random, days: float) -> float:
    """A time at which somebody submits: less at night and at the weekend."""
    while True:
        at = rng.uniform(0, days * DAY)
        hour, day = at % DAY / 3600, int(at // DAY + 3) % 7
        busy = 0.35 + 0.65 * max(0.0, math.sin(math.pi * (hour - 6) / 16))
        if rng.random() < busy * (0.4 if day >= 5 else 1.0):
            return at


def _shape(rng: random.Random, widest: int) -> tuple[int, float]:
    width = (
        min(widest, 2 ** int(rng.expovariate(0.35))) if rng.random() < 0.8 else rng.randint(1, 24)
    )
    return width, min(2 * DAY, rng.lognormvariate(7.0, 1.8))


def main() -> None:
    """Write a file."""
    parser = argparse.ArgumentParser(description="make a workload")
    parser.add_argument("path")
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument("--cores", type=int, default=3200)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", type=float, default=0.5)
    args = parser.parse_args()
    with open(args.path, "w", encoding="ascii") as file:
        for line in lines_of(args.jobs, args.cores, args.days, args.seed, args.load):
            file.write(line + "\n")


if __name__ == "__main__":
    main()
