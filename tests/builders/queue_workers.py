"""Real workers of hpcq, as processes, for tests that kill and end them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builders.processes import until
from hpc_queue.queue import Queue

SOURCE = Path(__file__).resolve().parents[2] / "src"


def ended(queue: Queue, job: str) -> Callable[[], bool]:
    """Whether a job has ended."""
    return lambda: not queue.store.job(job).open


def hpcq_words(config: Path, *words: str) -> list[str]:
    """A command line of hpcq, as a process of its own."""
    return [sys.executable, "-m", "hpc_queue.cli", "-C", str(config), *words]


@contextmanager
def worker_processes(
    section: Mapping[str, Any], directory: Path
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts workers of a queue, by the section `hpcq` of its configuration, and waits until each
    is up; all are killed in the end."""
    config = directory / "autoscale.json"
    config.write_text(json.dumps({"hpcq": dict(section)}))
    started: list[subprocess.Popen[bytes]] = []

    def start(slots: int = 2) -> subprocess.Popen[bytes]:
        ready = directory / f"ready-{len(started)}"
        words = ["worker", "--slots", str(slots), "--ready-file", str(ready)]
        with open(directory / "worker.log", "ab") as log:
            process = subprocess.Popen(
                hpcq_words(config, *words),
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(SOURCE), "C_FORCE_ROOT": "1"},
                cwd=directory,
            )
        started.append(process)
        until(ready.exists)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()
