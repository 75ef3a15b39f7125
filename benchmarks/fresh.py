"""Run one measurement in a process of its own, of the checkout that is asked for.

A process is fresh so that nothing is warm that a user's first pass would find cold, and so that
memory is its own. The process that starts it stays small: it never imports the library.
"""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SECONDS_AT_MOST = 1800


class MeasurementFailed(RuntimeError):
    """A measurement that gave no figures; the message is the last line of what the process said."""


def library_of(checkout: Path) -> Path:
    """The directory of a checkout in which the package `hpc` is. FileNotFoundError when there is
    none."""
    for place in (checkout / "src", checkout):
        if (place / "hpc" / "autoscale").is_dir():
            return place.resolve()
    raise FileNotFoundError(
        f"expected a checkout with src/hpc/autoscale, found none in {str(checkout)!r}"
    )


def measured(task: Mapping[str, Any], library: Path) -> dict[str, Any]:
    """The figures of one run, see `measure.measure`. MeasurementFailed when there are none."""
    if task["kind"] == "import":
        arguments = ["measure_import.py", task["module"], str(task.get("turns", ""))]
    elif task["kind"] == "requests":
        arguments = ["measure_requests.py", task["arrays"]]
        arguments += [str(task[key]) for key in ("turns", "part") if key in task]
    else:
        arguments = ["measure.py", json.dumps(task)]
    command = [sys.executable, str(HERE / arguments[0]), *filter(None, arguments[1:])]
    environment = {**os.environ, "PYTHONPATH": str(library), "PYTHONPYCACHEPREFIX": _bytecode()}
    for name in ("AUTOSCALE_LOG_CONFIG", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    # in a directory of its own, because the library may read or leave files in the working
    # directory
    with tempfile.TemporaryDirectory(prefix="hpc-autoscale-bench-") as directory:
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS_AT_MOST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MeasurementFailed(f"took more than {SECONDS_AT_MOST} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise MeasurementFailed(said[-1])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


@functools.cache
def _bytecode() -> str:
    """A directory of this run for bytecode, so that what was imported once is read and not
    compiled, as for a user of an installed library; in the checkout it may be stale, or not be
    wanted."""
    directory = tempfile.mkdtemp(prefix="hpc-autoscale-bytecode-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
