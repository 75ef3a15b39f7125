"""Watch real tasks scale a cluster up and down: `make demo`, or `python example-celery/demo.py
--help`.

The same processes take part as on a real cluster: a broker, CycleCloud (here a simulator that
speaks its REST protocol and whose VMs are Celery workers on this machine), the autoscaler's loop,
and this one, which submits tasks and watches. Exit code 0 only when every task succeeded on a node
that the loop caused to exist, and all nodes are gone.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from demo_kit import view
from demo_kit.broker import KINDS, Unavailable, skip, start_broker
from demo_kit.processes import Processes, StartFailed
from demo_kit.show import Failure, Show

ENDING = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Somebody wants the demo to end. No Exception, so that nothing on the way mistakes it for an
    error."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


def interrupt(signum: int, frame: object) -> None:
    """Handle a signal."""
    raise Interrupted(signum)


def main() -> int:
    """Run the demo; the exit code."""
    options = parse(sys.argv[1:])
    for signum in ENDING:
        signal.signal(signum, interrupt)
    work = Path(tempfile.mkdtemp(prefix="hpc-autoscale-"))
    processes = Processes(work / "logs")
    code = 1
    try:
        code = play(options, work, processes)
    except Interrupted as interrupted:
        print("interrupted: stopping what was started", flush=True)
        code = 128 + interrupted.signum
    except Unavailable as why:
        code = skip(options.broker, why)
    except (Failure, StartFailed) as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
    finally:
        for signum in ENDING:
            signal.signal(signum, signal.SIG_IGN)  # nothing may keep the processes from being ended
        processes.stop_all()
        tidy(work, keep=options.keep or code == 1)
    return code


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the demo."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--broker", choices=KINDS, default="embedded", help="default: %(default)s")
    parser.add_argument(
        "--kill-worker", action="store_true", help="kill -9 one worker when half the work is done"
    )
    parser.add_argument("--plain", action="store_true", help="lines instead of a live picture")
    parser.add_argument("--keep", action="store_true", help="keep logs and journal, and say where")
    return parser.parse_args(arguments)


def play(options: argparse.Namespace, work: Path, processes: Processes) -> int:
    """From the first process to the verdict; Failure or StartFailed when something is not as it
    must be."""
    broker = start_broker(options.broker, work / "broker", processes)
    # Celery takes them from here, in this process as in the others
    os.environ.update(CELERY_BROKER_URL=broker.url, CELERY_RESULT_BACKEND=broker.results)
    show = Show(work, processes, broker)
    show.open()
    with view.open_view(view.is_terminal() and not options.plain) as screen:
        show.watch(screen, kill_worker=options.kill_worker)
    show.close()
    return 0


def tidy(work: Path, keep: bool) -> None:
    """Remove the demo's files, or say where they are."""
    if keep:
        print(f"logs and journal: {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
