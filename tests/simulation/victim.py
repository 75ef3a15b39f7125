"""A real process that runs one pass against a real server, and kills itself at one of its steps.

`multiprocessing` starts it; nothing of it survives but what it wrote to the disk and sent to the
server.
"""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import requests
from requests.adapters import HTTPAdapter
from requests.sessions import Session

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings import deadlines
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from simulation.disk import Disk, Step

INTERVAL = 400.0
"""Seconds from one pass to the next."""


class OneWish(SchedulerDriver):
    """The driver of a scheduler that wants so many whole nodes of nodearrays, and has no hosts."""

    def __init__(self, wanted: dict[str, int]) -> None:
        super().__init__("victim")
        self._wanted = wanted

    def initialize(self) -> None:
        """Nothing is to be prepared."""

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        return config

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs = [
            Job(f"job-{array}", {"node.nodearray": array, "ncpus": 4}, iterations=count)
            for array, count in self._wanted.items()
        ]
        return jobs, []

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        return nodes

    def _all(self, nodes: list[Node]) -> list[Node]:
        return nodes

    handle_post_join_cluster = handle_draining = handle_boot_timeout = _all
    handle_failed_nodes = handle_post_delete = _all


def one_pass(
    config: dict[str, Any], home: Path, now: float, wanted: dict[str, int], step: Step
) -> None:
    """A pass at a time, with jobs for so many nodes; `step` hears of every request and write."""
    with ExitStack() as stack:
        stack.callback(clock.use_clock, clock.use_clock(clock.MockClock(now)))
        stack.enter_context(
            mock.patch.object(deadlines, "punctual_session", lambda: _session(step))
        )
        stack.enter_context(Disk(step).in_use())
        files = {
            "lock_file": str(home / "lock.file"),
            "nodehistorydb": str(home / "nodehistory.db"),
        }
        driver = OneWish(wanted)
        times = {"idle_timeout": 1.5 * INTERVAL, "autoscale": {"interval": INTERVAL}}
        Autoscaler({**config, **files, **times}, driver).run_once()
        driver.close_histories()


def be_killed(
    config: dict[str, Any], home: Path, now: float, wanted: dict[str, int], at: int
) -> None:
    """The same, until the step of this number: then kill -9."""
    steps = 0

    def step(name: str) -> None:
        nonlocal steps
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)

    one_pass(config, home, now, wanted, step)


class _Adapter(HTTPAdapter):
    """Tells of requests and replies."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self._tell = step

    def send(self, request: requests.PreparedRequest, *args: Any, **more: Any) -> requests.Response:
        self._tell("send")
        response = super().send(request, *args, **more)
        self._tell("received")
        return response


def _session(step: Step) -> Session:
    session = Session()
    session.mount("http://", _Adapter(step))
    return session
