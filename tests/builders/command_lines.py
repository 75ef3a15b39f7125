"""What command lines of integrations have in common in tests, for `grid_cli` and `integration_cli`:
a driver with the jobs and hosts of the test, and running one command as a process of its own would.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hpc.autoscale import cli, clilib
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode


def at_home(monkeypatch: pytest.MonkeyPatch, home: Path, **modules: str) -> None:
    """Let command lines run in this process as each would in one of its own.

    `home` is AUTOSCALE_HOME. `modules`: the source of each module that is written there, and
    imported anew. What a command adds to sys.path is gone after the test, and logging stays as it
    is.
    """
    for name, source in modules.items():
        (home / f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(home))
    monkeypatch.delenv("COLUMNS", raising=False)


class DriverOfTest(GenericDriver):
    """A driver whose scheduler has the jobs and hosts that the test gives it.

    `jobs` are kept as JSON, so that each reading makes new ones.
    """

    def __init__(self, name: str = "grid") -> None:
        super().__init__(name)
        self.jobs: list[dict[str, Any]] = []
        self.hosts: list[SchedulerNode] = []

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        return [Job.from_dict(job) for job in self.jobs], list(self.hosts)

    def queue(self, name: str, slots: int = 1, **constraints: Any) -> None:
        """Add a job."""
        job = Job(name, {"ncpus": 1, **constraints}, iterations=slots)
        self.jobs.append(job.to_dict())


class Ended(NamedTuple):
    """How a command has ended, and what it has printed."""

    code: str | int | None
    out: str
    err: str


def run_command(
    commands: clilib.CommonCLI,
    argv: tuple[str, ...],
    home: Path,
    config: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> Ended:
    """Write the configuration to autoscale.json in `home`, and run one command line."""
    (home / "autoscale.json").write_text(json.dumps(config))
    return _ended(lambda: clilib.main(list(argv), "grid", commands), capsys)


def run_azscale(
    words: tuple[object, ...], config: Path, capsys: pytest.CaptureFixture[str]
) -> Ended:
    """Run azscale with a configuration, in this process."""
    return _ended(lambda: cli.main([*map(str, words), "-c", str(config)]), capsys)


def _ended(run: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> Ended:
    code: str | int | None = 0
    try:
        run()
    except SystemExit as end:
        code = end.code or 0
    captured = capsys.readouterr()
    return Ended(code, captured.out, captured.err)
