"""The node history of a pass whose file cannot be used: locked, not ours, or on a full disk."""

from __future__ import annotations

from collections.abc import Iterable

from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory.dbfile import NodeHistoryError
from hpc.autoscale.node.nodehistory.interface import NodeHistory, NodeHistoryResult


class NodeHistoryAway(NodeHistory):
    """A history that knows of no node that is idle or late, and cannot be updated.

    So a pass that has it creates nodes and deletes none: nobody knows for how long nodes have been
    idle. Every change raises `problem`, which says why.
    """

    def __init__(self, problem: NodeHistoryError) -> None:
        self.problem = problem

    def update(self, nodes: Iterable[Node]) -> None:
        raise self.problem

    def find_unmatched(self, for_at_least: float = 300) -> NodeHistoryResult:
        return []

    def find_booting(self, for_at_least: float = 1800) -> NodeHistoryResult:
        return []

    def find_ignored(self) -> NodeHistoryResult:
        raise self.problem

    def mark_ignored(self, nodes: Iterable[Node]) -> None:
        raise self.problem

    def unmark_ignored(self, nodes: Iterable[Node]) -> None:
        raise self.problem
