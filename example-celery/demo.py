"""Watch real tasks scale a cluster up and down: `make demo`, or `python example-celery/demo.py
--help`.

The same processes take part as on a real cluster: a broker, CycleCloud (here a simulator that
speaks its REST protocol and whose VMs are Celery workers on this machine), the autoscaler's loop,
and this one, which submits tasks and watches. Exit code 0 only when every task succeeded on a node
that the loop caused to exist, and all nodes are gone.
"""

import argparse
import os
import sys
from pathlib import Path

from demo_kit import stage, view
from demo_kit.broker import KINDS, start_broker
from demo_kit.display import open_view
from demo_kit.processes import Processes
from demo_kit.show import Show


def main() -> int:
    """Run the demo; the exit code."""
    options = parse(sys.argv[1:])
    return stage.perform(
        lambda work, processes: play(options, work, processes), options.broker, options.keep
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the demo."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--broker", choices=KINDS, default="embedded", help="default: %(default)s")
    parser.add_argument(
        "--kill-worker", action="store_true", help="kill -9 one worker when half the work is done"
    )
    stage.add_options(parser)
    return parser.parse_args(arguments)


def play(options: argparse.Namespace, work: Path, processes: Processes) -> None:
    """From the first process to the verdict; Failure or StartFailed when something is not as it
    must be."""
    broker = start_broker(options.broker, work / "broker", processes)
    # Celery takes them from here, in this process as in the others
    os.environ.update(CELERY_BROKER_URL=broker.url, CELERY_RESULT_BACKEND=broker.results)
    show = Show(work, processes, broker)
    show.open()
    with open_view(options.plain, view.Lines, view.Picture) as screen:
        show.watch(screen, kill_worker=options.kill_worker)
    show.close()


if __name__ == "__main__":
    sys.exit(main())
