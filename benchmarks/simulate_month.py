"""How long a month of jobs takes to simulate: `azscale simulate` on 30,000 generated jobs.

    .venv/bin/python benchmarks/simulate_month.py --days 30 --interval 300

Prints seconds of CPU and of the clock, passes, and CPU for a pass. The machine may have other work:
the CPU is what to compare.
"""

import argparse
import tempfile
import time
from pathlib import Path

from hpc.autoscale.traces.choices import Choice, play_of
from hpc.autoscale.traces.measures import measures_of
from hpc.autoscale.traces.opening import read_trace
from hpc.autoscale.traces.playing import play_trace
from make_trace import lines_of


def main() -> None:
    """Simulate, and say how long it took."""
    parser = argparse.ArgumentParser(description="simulate a month")
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--interval", type=float, default=300.0)
    parser.add_argument("--load", type=float, default=0.5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "month.swf"
        lines = lines_of(args.jobs, args.nodes * 16, args.days, load=args.load)
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        trace = read_trace(str(path))
    choice = Choice(nodes=args.nodes, interval=args.interval)
    began, cpu = time.monotonic(), time.process_time()
    found = measures_of(play_trace(play_of(choice, trace), trace.jobs))
    took, cpu = time.monotonic() - began, time.process_time() - cpu
    passes = found.passes or 1
    print(
        f"{found.jobs} jobs, {found.node_hours:.0f} node-hours, {passes} passes:"
        f" {cpu:.1f} s of CPU, {took:.1f} s; {1000 * cpu / passes:.1f} ms of CPU for a pass"
    )


if __name__ == "__main__":
    main()
