"""Passes on a file system of their own that is full for a while; run in a mount namespace.

python full_disk.py DIRECTORY    mounts the file system there, and prints what came of each pass
"""

import json
import logging
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from builders.nodes import an_htc_cluster
from builders.waiting_queue import WaitingQueue
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.util import SingletonFileLock


def main(directory: Path) -> None:
    """Two jobs, then three, then none for hours while the disk is full, and three again."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(directory)]
    subprocess.run(mount, check=True, capture_output=True)
    clock.use_clock(clock.MockClock(1_700_000_000))
    cluster = an_htc_cluster(20)
    config = {
        "cluster_name": "c",
        "_mock_bindings": cluster,
        "lock_file": None,
        "nodehistorydb": str(directory / "nodehistory.db"),
        "autoscale": {"interval": 60, "scheduler_reports_hosts": False},
    }
    told: list[dict[str, Any]] = []

    def run(jobs: int) -> None:
        clock.sleep(60)
        for node in cluster.nodes.values():
            cluster.update_state("Ready", [node.name])
        said: dict[str, Any] = {"jobs": jobs}
        try:
            summary = Autoscaler(config, WaitingQueue(jobs)).run_once()
            said["errors"] = [str(error) for error in summary.errors]
        except Exception as error:
            said["errors"] = [str(error)]
        started = [n.name for n in cluster.nodes.values() if n.target_state == "Started"]
        told.append({**said, "nodes": len(started)})

    run(2)
    run(2)
    _fill(directory / "filler")
    run(3)
    for _ in range(8):
        run(0)
    with _Heard() as heard:
        SingletonFileLock(str(directory / "lock.file")).unlock()
    (directory / "filler").unlink()
    run(3)
    print(json.dumps({"passes": told, "lock": heard.lines}))


def _fill(path: Path) -> None:
    """Write until nothing more goes in."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 512)


class _Heard(logging.Handler):
    """What is logged while this lasts."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> "_Heard":
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger().removeHandler(self)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
