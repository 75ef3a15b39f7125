"""The simulated CycleCloud of the demo: a process of its own, asked over HTTP, and audited by its
journal in the end."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from demo_kit.checks import Life
from demo_kit.processes import Processes
from demo_kit.world import CLUSTER
from hpc.autoscale.ccbindings import new_cluster_bindings


class Cloud:
    """A running simulator."""

    def __init__(
        self,
        processes: Processes,
        work: Path,
        description: Mapping[str, Any],
        username: str,
        password: str,
        clusters: Sequence[str] = (CLUSTER,),
    ) -> None:
        """Start it, on a port of its own choice. StartFailed when it does not come up. `clusters`
        are those whose nodes are listed."""
        self._journal = work / "journal.jsonl"
        files = {
            "--credentials": work / "credentials.json",
            "--journal": self._journal,
            "--ready-file": work / "simulator.json",
            "--work-dir": work / "machines",
        }
        path, ready = work / "clusters.json", files["--ready-file"]
        path.write_text(json.dumps(description, indent=2))
        files["--credentials"].touch(mode=0o600)
        files["--credentials"].write_text(json.dumps({"username": username, "password": password}))
        words = [str(word) for option in files.items() for word in option]
        command = [sys.executable, "-m", "hpc.autoscale.simulator", str(path), *words]
        self.process = processes.start("simulator", command)
        processes.wait_until("simulator", self.process, ready.exists, timeout=30)
        self.url = str(json.loads(ready.read_text())["url"])
        connection = {"url": self.url, "username": username, "password": password}
        self._bindings = {
            name: new_cluster_bindings({"cluster_name": name, **connection, "read_only": True})
            for name in clusters
        }

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes as CycleCloud lists them now."""
        return [
            {
                "id": record["NodeId"],
                "name": record["Name"],
                "cluster": cluster,
                "vm_size": record["MachineType"],
                "state": record["Status"],
            }
            for cluster, binding in self._bindings.items()
            for record in binding.get_nodes().nodes
        ]

    def journal(self) -> list[dict[str, Any]]:
        """All that has happened so far."""
        lines = self._journal.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def lives(self) -> dict[str, Life]:
        """What the journal tells of each node that there ever was, by NodeId."""
        found: dict[str, Life] = {}
        for entry in self.journal():
            if "node_id" in entry:
                life = found.get(entry["node_id"], Life(entry["name"]))
                found[entry["node_id"]] = _after(life, entry)
        return found


def _after(life: Life, entry: Mapping[str, Any]) -> Life:
    if entry["event"] == "created":
        asked_for = (entry.get("cause"), entry.get("action")) == ("rest", "create")
        return replace(life, created=asked_for)
    return replace(life, terminated=life.terminated or entry["event"] == "terminated")
