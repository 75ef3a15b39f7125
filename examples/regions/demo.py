"""Watch 20,000 short jobs use three clusters and two hosts on premises: `make demo-regions`, or
`python examples/regions/demo.py --help`.

The same processes take part as on a real site: a broker, CycleCloud (here a simulator with three
clusters, whose VMs are workers of hpcq on this machine), the autoscaler's loop, the hosts' workers,
and this one, which submits jobs and watches. Half-way one region loses its machines and gets them
back later. Exit code 0 only when every job ran exactly as often as its retries say, and all
workers are gone.
"""

import argparse
import sys
from pathlib import Path

# the first demo has what both need around their play
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "example-celery"))

from demo_kit import stage
from demo_kit.display import open_view
from demo_kit.processes import Processes
from regions_kit import view
from regions_kit.show import Show

FEWEST = 8
MOST = 1_000_000


def main() -> int:
    """Run the demo; the exit code."""
    options = parse(sys.argv[1:])
    return stage.perform(
        lambda work, processes: play(options, work, processes), "embedded", options.keep
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the demo."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument(
        "--jobs", type=_number, default=20_000, metavar="N", help="default: %(default)s"
    )
    stage.add_options(parser)
    return parser.parse_args(arguments)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not FEWEST <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"expected {FEWEST} to {MOST} jobs, found {text!r}")
    return int(text)


def play(options: argparse.Namespace, work: Path, processes: Processes) -> None:
    """From the first process to the verdict; Failure or StartFailed when something is not as it
    must be."""
    show = Show(work, processes, options.jobs)
    show.open()
    with open_view(options.plain, view.Lines, view.Picture) as screen:
        show.watch(screen)
    show.close()


if __name__ == "__main__":
    sys.exit(main())
