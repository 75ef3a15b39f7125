"""A cluster over HTTP with a reporter beside it: a script that uses the auto-scale plug-in API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpc.autoscale import cli, clock
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.simulator import Simulator

F4, F8, F16 = "Standard_F4s_v2", "Standard_F8s_v2", "Standard_F16s_v2"
CLOUD = {
    "clusters": {
        "demo": {
            "region": "westus2",
            "nodearrays": {
                "execute": {"machine_types": [F4]},
                "gpu": {"machine_types": [F8]},
                "mixed": {"machine_types": [F4, F8, F16], "throttle_capacity": True},
                "few": {"machine_types": [F4], "max_count": 3},
                "viz": {"machine_types": [F4]},
            },
        }
    }
}


class Site:
    """Where a reporter runs: on a clock that the test moves."""

    def __init__(
        self, simulator: Simulator, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.simulator = simulator
        self.cluster = simulator.cluster("demo")
        self.home = home
        self.path = home / "autoscale.json"
        self.capsys = capsys
        self.errors = ""
        self.clock = clock.use_mock_clock()
        self.configure()

    def configure(self, **more: object) -> None:
        """Write the configuration."""
        config = {**self.simulator.connection("demo"), "retry": {"attempts": 1}, **more}
        self.path.write_text(json.dumps(config))
        self.path.chmod(0o600)

    def later(self, seconds: float = 0) -> None:
        """Let time pass, here and in the cluster."""
        self.clock.now += seconds
        self.simulator.clock.advance(seconds)
        self.simulator.clock.settle()

    def running(self) -> list[dict[str, Any]]:
        """The records of the nodes that run or will run."""
        return [dict(n) for n in self.cluster.nodes() if n["TargetState"] == "Started"]

    def nodes(self) -> Counter[str]:
        """How many there are of each nodearray of the server."""
        return Counter(node["Template"] for node in self.running())

    def names(self) -> set[str]:
        """Their names."""
        return {node["Name"] for node in self.running()}

    def created(self) -> int:
        """How many nodes the server has ever made."""
        return len([e for e in self.simulator.journal.entries() if e["event"] == "created"])

    def __call__(self, command: str, *args: str, code: int = 0) -> str:
        """Run azscale in this process; what it printed on stdout."""
        ended: object = 0
        try:
            cli.main([command, "-c", str(self.path), *args])
        except SystemExit as end:
            ended = end.code
        captured = self.capsys.readouterr()
        self.errors = captured.err
        assert ended == code, captured
        return captured.out

    def passes(self, seconds: int, step: int = 60) -> None:
        """Let a loop without a scheduler run for so long."""
        for _ in range(seconds // step):
            self.later(step)
            self("autoscale")

    def sets(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        """What is recorded: the definitions of each request set."""
        store = RequestStore(str(self.home / "requestsets.db"))
        return {one.name: one.arrays for one in store.sets()}

    def start(self, code: str) -> subprocess.Popen[str]:
        """Run Python code in a process of its own."""
        environment = {**os.environ, "AUTOSCALE_CONFIG": str(self.path)}
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
