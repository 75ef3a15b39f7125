"""A site as the checks of `azscale doctor` look at it, and what such a look may find.

The configuration, the driver, the servers and the cluster are read once, when the first check asks
for them. Nothing is changed. Used by `checkup` and `server_checks`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from hpc.autoscale.autoscaler.journaling import journal_path
from hpc.autoscale.cli.servers import Server
from hpc.autoscale.config.clusters import members_of
from hpc.autoscale.config.load import load_with_duplicates
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.rehearsal.state import files_of_state
from hpc.autoscale.statefiles import HISTORY, path_of
from hpc.autoscale.util import lock_file_of

Config = dict[str, Any]


class CheckState(StrEnum):
    """What came of a look."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Observation(NamedTuple):
    """One thing that was found; `of` is the cluster that it is about, where there are several.

    `remedy`: what to do about it, where that is known better than in the check's remedy; empty
    where the text says it.
    """

    verdict: CheckState
    text: str
    of: str = ""
    remedy: str | None = None


@dataclass
class Site:
    """What checks look at. `path`: of the configuration, or None; `looked`: where it was looked
    for.

    `prepare` gives the driver, and the configuration with what the driver adds to it; `connect`
    reads the cluster with these. `commands`: those that there are.
    """

    path: str | None
    looked: str
    commands: Sequence[str]
    prepare: Callable[[Config], tuple[SchedulerDriver, Config]]
    connect: Callable[[Config], NodeManager]
    home: Callable[[Config], str]

    @cached_property
    def config(self) -> Config:
        """The configuration; nothing is written with it."""
        loaded: Config = load_with_duplicates(self.path or "")[0]
        return {**loaded, "read_only": True, "lock_file": None}

    @cached_property
    def prepared(self) -> tuple[SchedulerDriver, Config]:
        """The driver, and the configuration with what it adds."""
        return self.prepare(dict(self.config))

    @cached_property
    def servers(self) -> list[Server]:
        """The server of each cluster."""
        several = [Server(name, own) for name, own in members_of(self.config)]
        return several or [Server("", self.config)]

    @cached_property
    def node_mgr(self) -> NodeManager:
        """The cluster, as a pass reads it."""
        return self.connect(self.prepared[1])

    @cached_property
    def files(self) -> dict[str, str]:
        """The files that a pass writes, by the key that names them."""
        config = load_with_duplicates(self.path or "")[0]
        home = self.home(config)
        files = {
            "lock_file": lock_file_of(config, os.path.join(home, "lock.file")),
            HISTORY.key: path_of(HISTORY, config, home),
            "requests_file": self.state["requests_file"],
        }
        return {key: os.path.abspath(str(path)) for key, path in files.items() if path}

    @cached_property
    def state(self) -> dict[str, str]:
        """The files in which passes remember things, there or not, by the key that names them."""
        return files_of_state(self.config, self.home(self.config))

    @property
    def figures(self) -> dict[str, str]:
        """The files of figures that a pass writes, by the key that names them."""
        metrics = self.config.get("metrics") or {}
        files = {f"metrics.{key}": metrics.get(key) for key in ("file", "health_file")}
        return {key: os.path.abspath(path) for key, path in files.items() if path}

    @property
    def journal(self) -> tuple[str, str] | None:
        """The directory of the journal, there or not, and the key that names it; None where a pass
        writes none."""
        path = journal_path(self.config, self.home(self.config))
        is_named = bool((self.config.get("journal") or {}).get("directory"))
        key = "journal.directory" if is_named else "journal"
        return (key, os.path.abspath(path)) if path else None


def ok(text: str, of: str = "") -> Observation:
    """Nothing is wrong with `text`, which is about the cluster `of`."""
    return Observation(CheckState.OK, text, of)


def warning(text: str, of: str = "", remedy: str | None = None) -> Observation:
    """Passes go on, but somebody should look."""
    return Observation(CheckState.WARNING, text, of, remedy)


def failed(text: str, of: str = "", remedy: str | None = None) -> Observation:
    """Passes cannot do their work like this."""
    return Observation(CheckState.FAILED, text, of, remedy)
