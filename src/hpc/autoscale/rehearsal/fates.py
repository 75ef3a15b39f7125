"""What becomes of single nodes in the next pass, for whoever explains one.

The pass is rehearsed once, when somebody asks first. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from hpc.autoscale.autostop.decision import Answer
from hpc.autoscale.explaining.scene import Fate
from hpc.autoscale.explaining.words import in_time
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.rehearsal.rehearsing import Rehearsal

_LEAVING = ("delete", "stop_worker")
_COMMANDS = ("start", "drain", "delete", "shutdown")


class Fates:
    """What a rehearsal has of each node. `rehearse`: makes it. `ask`: what a node of this NodeId is
    told that asks whether it may stop, or None where nodes do not ask."""

    def __init__(
        self, rehearse: Callable[[], Rehearsal], ask: Callable[[str], Answer | None]
    ) -> None:
        self._rehearse = rehearse
        self._ask = ask

    @cached_property
    def _found(self) -> Rehearsal:
        return self._rehearse()

    def of(self, node: Node) -> Fate:
        """What becomes of a node that exists."""
        found, name, key = self._found, str(node.name), key_of(node)
        node_id = node.delayed_node_id.node_id
        rows = [row for row in found.changes if row.node == name and row.node_id == node_id]
        leaves = next((row for row in rows if row.action in _LEAVING), None)
        reason = "" if leaves is None else leaves.reason
        if leaves is not None and leaves.idle_seconds is not None:
            reason += f" for {in_time(leaves.idle_seconds)}"
        refusals = tuple(
            each
            for each in found.refused
            if each.command in _COMMANDS and (key_of(each.node), str(each.node.name)) == (key, name)
        )
        summary = found.summary
        actions = tuple(row.action for row in rows)
        is_left = name in summary.idle and not refusals
        asks = bool(node.managed and node.state == "Ready" and node_id)
        return Fate(
            actions,
            reason,
            "" if leaves is None else leaves.spared_by,
            refusals,
            found.idle.get(key),
            is_left and not {"drain", *_LEAVING}.intersection(actions),
            tuple(map(str, summary.errors)),
            self._ask(str(node_id)) if asks else None,
        )
