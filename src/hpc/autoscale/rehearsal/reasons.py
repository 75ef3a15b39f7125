"""Why a pass wants rid of a node, in words, and what would spare it.

The reason itself is what the pass has told the gate (`guards.Why`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.config.timeouts import DEFAULT_BOOT_TIMEOUT, DEFAULT_IDLE_TIMEOUT, parse_timeout
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.node.guards import Why
from hpc.autoscale.rehearsal.changes import Action, Said, Seen

_ANY_WORK = "a job that fits it{or_keep_alive}"

_WORDS: Mapping[Why, tuple[str, str]] = {
    "idle": ("has no work", _ANY_WORK + ", or an idle_timeout above {idle_timeout} s"),
    "asked": ("has asked whether it may stop", _ANY_WORK),
    "overdue": (
        "did not become ready within {boot_timeout} s",
        "becoming ready, or KeepAlive, or a longer boot_timeout",
    ),
    "failed": ("has failed", "KeepAlive; `azscale retry_failed_nodes` has it tried again"),
    "marked": ("the scheduler has given it up", "the scheduler taking that back, or KeepAlive"),
    "unfinished": ("was to be removed when no answer came", _ANY_WORK),
    "surplus": (
        "boots for workers whom nobody wants any more",
        "workers being wanted there again, or becoming ready",
    ),
    "gang": (
        "is of a gang of which too few nodes came",
        "the rest of the gang coming in time (autoscale.gang_deadline)",
    ),
}
"""For each reason, what is so, and what would spare the node."""

_WITHOUT_WORK = ("idle", "asked")


@dataclass(frozen=True)
class _Timeout:
    """The nodearray, for the timeouts of a configuration."""

    nodearray: str


class ReasonsOfPass:
    """The reasons of one pass. `config` is that of the pass."""

    def __init__(self, config: Mapping[str, Any], calculator: DemandCalculator) -> None:
        self._config = config
        self._facts = calculator.node_mgr.gate.facts
        history = calculator.node_history
        self._now = history.now()
        found = Faults().guard("reading the node history", history.find_unmatched, -1) or []
        self._since: dict[object, float] = {node_id: since for node_id, _, since in found}

    @property
    def idle(self) -> dict[object, float]:
        """For how many seconds nodes have had no work, by key, where the history knows that."""
        return {key: max(0.0, self._now - since) for key, since in self._since.items() if since}

    def of(self, action: Action, node: Seen) -> Said:
        """Why something is done with a node."""
        if action == "join":
            is_ready = node.state in READY_STATES
            state = "ready" if is_ready else node.state
            was = node.key in self._facts.missing
            ends = "does not report it any more" if was else "does not know it yet"
            text = f"is {state}, and the scheduler {ends}"
            return Said("Ready" if is_ready else "NotReady", text)
        if action == "undrain":
            return Said("WantedAgain", "was on its way out, and is wanted again")
        why = self._facts.why.get(node.key, "idle")
        text, spared_by = _WORDS[why]
        since = self._since.get(node.key) if why in _WITHOUT_WORK else None
        idle = None if since is None else max(0.0, self._now - since)
        idle_timeout = self._timeout("idle_timeout", DEFAULT_IDLE_TIMEOUT, node)
        words = {
            # one that is over already would not spare it
            "idle_timeout": max(idle_timeout, int(idle or 0)),
            "boot_timeout": self._timeout("boot_timeout", DEFAULT_BOOT_TIMEOUT, node),
            # what is of no bucket is no node of CycleCloud, which knows of KeepAlive
            "or_keep_alive": ", or KeepAlive" if node.bucket else "",
        }
        return Said(why.capitalize(), text.format(**words), idle, spared_by.format(**words))

    def _timeout(self, key: str, default: int, node: Seen) -> int:
        return parse_timeout(key, default, self._config, _Timeout(node.nodearray))
