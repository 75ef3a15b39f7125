"""What the jobs of the demo do: they write down that they ran. Called by workers.

Each run adds a line to a file: id of the job, index, which try, region, and the machine.
"""

import os
import time

RUNS = "DEMO_RUNS"
"""The variable with the path of that file."""

SCRIPT = (
    'printf \'%s %s %s %s %s\\n\' "$HPCQ_JOB_ID" "$HPCQ_ARRAY_INDEX" "$HPCQ_TRY"'
    f' "$HPCQ_REGION" "$DEMO_MACHINE" >> "${RUNS}"'
)
"""The same in the language of the shell."""


def record() -> None:
    """Write down this run."""
    names = ("HPCQ_JOB_ID", "HPCQ_ARRAY_INDEX", "HPCQ_TRY", "HPCQ_REGION", "DEMO_MACHINE")
    line = " ".join(os.environ[name] for name in names) + "\n"
    # in one piece: other processes write to this file as well
    file = os.open(os.environ[RUNS], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def work(seconds: float) -> None:
    """A short job."""
    record()
    time.sleep(seconds)


def fail() -> None:
    """A job that always fails."""
    record()
    raise SystemExit(1)
