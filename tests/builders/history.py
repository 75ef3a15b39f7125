"""A node history whose clock stands still, and nodes for it to remember."""

from pathlib import Path
from typing import Any

from builders.nodes import a_running_node
from hpc.autoscale.hpctypes import NodeId
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory


class History(SQLiteNodeHistory):
    """A history whose clock the test sets: `at` is the time in seconds."""

    def __init__(self, path: str | Path = ":memory:", at: float = 1000.0) -> None:
        super().__init__(str(path))
        self.at = at

    def now(self) -> float:
        return self.at

    def idle(self, t: float = 300) -> list[NodeId]:
        """Ids of nodes that have had no work for more than so many seconds."""
        return [node_id for node_id, _, _ in self.find_unmatched(t)]

    def booting(self, t: float = 1800) -> list[NodeId]:
        """Ids of nodes that have not been ready for more than so many seconds."""
        return [node_id for node_id, _, _ in self.find_booting(t)]


def a_started_node(
    node_id: str | None = "N-1",
    state: str = "Ready",
    hostname: str | None = "host-1",
    **changed: Any,
) -> Node:
    """A node that was started, known by its id."""
    return a_running_node(
        id=node_id, name=f"node {node_id}", state=state, hostname=hostname, **changed
    )
