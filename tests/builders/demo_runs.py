"""Demos as their users run them, as processes that leave nothing behind."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

_MARK = "DEMO_TEST"
TIMEOUT = 240
"""Seconds; far more than a demo takes, for machines that are slow or busy."""


class Demo:
    """A demo that runs, with a mark in the environment that everything it starts inherits."""

    def __init__(self, script: Path, tmp_path: Path, *options: str) -> None:
        self.mark = uuid.uuid4().hex
        self.files = tmp_path / "tmp"
        self.files.mkdir()
        self._output = tmp_path / "output"
        environment = {**os.environ, _MARK: self.mark, "TMPDIR": str(self.files)}
        with open(self._output, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(script), "--plain", *options],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._output.read_text()

    def wait_for(self, text: str) -> None:
        """Wait until it has printed this."""
        deadline = time.monotonic() + TIMEOUT
        while text not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.1)

    def left_behind(self) -> list[object]:
        """Command lines of processes that bear the mark, and the files that are still there."""
        return [*processes_with(self.mark), *self.files.iterdir()]

    def end(self) -> None:
        """End it, if it still runs."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


def processes_with(mark: str) -> list[str]:
    """Command lines of the processes whose environment holds the mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended, or is not ours
    return found
