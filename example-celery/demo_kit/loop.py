"""The autoscaler's loop as the demo sees it: a process that prints the demand of each pass, and a
line about it."""

import json
import sys
from pathlib import Path
from subprocess import Popen
from typing import Any

from demo_kit.processes import Processes
from demo_kit.world import EXAMPLE, PASS_INTERVAL, QUEUES
from driver import UNKNOWN_WORK

_COLUMNS = "name,state,slots,job_ids"


class Loop:
    """`azscale autoscale --interval …`, with its output read as it comes."""

    def __init__(self, processes: Processes, config: Path) -> None:
        self._log = processes.log_of("loop")
        self._table = processes.logs / "demand.json"
        command = [sys.executable, "-m", "hpc.autoscale.cli", "autoscale", "--config", str(config)]
        options = ["--interval", str(PASS_INTERVAL), "-F", "json", "-o", _COLUMNS]
        self.process: Popen[bytes] = processes.start(
            "loop", command + options, {"PYTHONPATH": str(EXAMPLE)}, stdout=self._table
        )
        self._read = {self._log: 0, self._table: 0}
        self._unparsed = ""
        self._unsatisfied: list[str] = []

    def unsatisfied(self) -> list[str]:
        """What the last pass said about jobs that could not get all they want."""
        for line in self._new_text(self._log).splitlines():
            if not line.startswith(" "):
                self._unsatisfied = []  # the first line about another pass
            elif line.startswith("  job "):
                self._unsatisfied.append(line.strip())
        return self._unsatisfied

    def new_passes(self) -> list[list[dict[str, str]]]:
        """The demand tables of the passes since the last call: name, state and work of each
        node."""
        self._unparsed = (self._unparsed + self._new_text(self._table)).lstrip()
        found = []
        while self._unparsed:
            try:
                table, end = json.JSONDecoder().raw_decode(self._unparsed)
            except ValueError:
                break  # the rest is on its way
            found.append([_row(node) for node in table])
            self._unparsed = self._unparsed[end:].lstrip()
        return found

    def _new_text(self, path: Path) -> str:
        """The whole lines that were added to a file since the last call."""
        with open(path, "rb") as file:
            file.seek(self._read[path])
            added = file.read()
        lines = added[: added.rfind(b"\n") + 1]
        self._read[path] += len(lines)
        return lines.decode(errors="replace")


def _row(node: dict[str, Any]) -> dict[str, str]:
    """A row of the table. Jobs are queues, and what runs already is known by the ids of its
    tasks."""
    queues = [job for job in node["job_ids"] if job in QUEUES]
    running = [job for job in node["job_ids"] if job not in (*QUEUES, UNKNOWN_WORK)]
    work = [f"{len(running)} running"] if running else []
    work += [f"for queue {queue}" for queue in queues]
    work += ["no answer"] if UNKNOWN_WORK in node["job_ids"] else []
    return {"name": node["name"], "state": node["state"], "work": ", ".join(work) or "idle"}
