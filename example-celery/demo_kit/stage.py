"""What every demo does around its play: a directory for its files, signals, an exit code, and an
end that leaves no process behind."""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from demo_kit.broker import Unavailable, skip
from demo_kit.processes import Processes, StartFailed

_ENDING = (signal.SIGINT, signal.SIGTERM)


class Failure(Exception):
    """A demo did not end as it must; one line per fault."""


class _Interrupted(BaseException):
    """Somebody wants the demo to end. No Exception, so that nothing on the way mistakes it for an
    error."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


def _interrupt(signum: int, frame: object) -> None:
    raise _Interrupted(signum)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every demo has."""
    parser.add_argument("--plain", action="store_true", help="lines instead of a live picture")
    parser.add_argument("--keep", action="store_true", help="keep logs and journal, and say where")


def perform(play: Callable[[Path, Processes], None], broker: str, keep: bool) -> int:
    """Call `play` with a directory and with what starts processes; the exit code of the demo: 0
    when it returned, 1 after a Failure or StartFailed, 128 and the signal that ended it.

    When a broker of the kind `broker` is Unavailable one line says so. Processes are ended and
    files removed in any case; files stay after a failure, and with `keep`.
    """
    for signum in _ENDING:
        signal.signal(signum, _interrupt)
    work = Path(tempfile.mkdtemp(prefix="hpc-autoscale-"))
    processes = Processes(work / "logs")
    code = 1
    try:
        play(work, processes)
        code = 0
    except _Interrupted as interrupted:
        print("interrupted: stopping what was started", flush=True)
        code = 128 + interrupted.signum
    except Unavailable as why:
        code = skip(broker, why)
    except (Failure, StartFailed) as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
    finally:
        for signum in _ENDING:
            signal.signal(signum, signal.SIG_IGN)  # nothing may keep the processes from being ended
        processes.stop_all()
        _tidy(work, keep=keep or code == 1)
    return code


def _tidy(work: Path, keep: bool) -> None:
    """Remove the demo's files, or say where they are."""
    if keep:
        print(f"logs and journal: {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)
