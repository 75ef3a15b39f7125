"""The questions that every node history answers, and the history that remembers nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import check_kinds
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import server_id_of
from hpc.autoscale.node.nodehistory.draining import Drain
from hpc.autoscale.node.nodehistory.watching import Rhythm, Sighting

NodeHistoryResult = list[tuple[ht.NodeId, ht.Hostname | None, float]]
"""Node id, hostname as last seen, and the unix time that the question was about."""


class NodeHistory(ABC):
    """The interface of a node history.

    `rhythm` says what whoever updates it knows of how often that happens; a history that keeps
    times goes by it, so that time that nobody watched does not count. `cluster` says of which
    cluster the nodes are, so that a history that two of them share is found out.
    """

    rhythm: Rhythm = Rhythm()
    cluster: str = ""

    @abstractmethod
    def update(self, nodes: Iterable[Node]) -> None:
        """Learn from all nodes that exist now; known nodes that are not among them are gone."""

    @abstractmethod
    def find_unmatched(self, for_at_least: float = 300) -> NodeHistoryResult:
        """The nodes that have not been needed for more than so many seconds; all with -1."""

    @abstractmethod
    def find_booting(self, for_at_least: float = 1800) -> NodeHistoryResult:
        """The nodes that were first seen more than so many seconds ago and have never been ready.

        With -1 all nodes that have never been ready.
        """

    @abstractmethod
    def find_ignored(self) -> NodeHistoryResult:
        """The nodes that `mark_ignored` was called with."""

    @abstractmethod
    def mark_ignored(self, nodes: Iterable[Node]) -> None:
        """Mark nodes as ones to leave alone."""

    @abstractmethod
    def unmark_ignored(self, nodes: Iterable[Node]) -> None:
        """Undo `mark_ignored`."""

    def decorate(  # noqa: B027 - a history that knows no times has nothing to write
        self, nodes: Iterable[Node], config: Mapping[str, Any] | None = None
    ) -> None:
        """Write what is known of each node into its time attributes. This class writes nothing."""

    def sightings(self) -> Mapping[str, Sighting] | None:
        """What was seen of each existing node beside its times, by NodeId; None when this history
        keeps nothing of the kind."""
        return None

    def found_ready(self) -> Collection[str]:
        """The ids of existing nodes that were ready already when this history first saw them, as
        far as it keeps that: it knows nothing of what they did before."""
        return ()

    def ready_since(self) -> Mapping[str, float]:
        """When each existing node that has been ready was first seen so, in unix seconds, by
        NodeId, as far as that is kept."""
        return {}

    def gone(self) -> Collection[str]:
        """The ids of nodes that there were before and are not any more, as far as they are
        known."""
        return ()

    def note_scheduler(  # noqa: B027 - a history that keeps nothing of the kind
        self, reported: Collection[str], missing: Collection[str], given_up: Collection[str]
    ) -> None:
        """Note, after an update, of which nodes the scheduler reports a host, of which nothing is
        known, because it has reported theirs before and does not now, and which it has given
        up."""

    def drains(self) -> Mapping[str, Drain]:
        """The nodes that are on their way out, by NodeId; none where this history keeps nothing of
        the kind."""
        return {}

    def note_drains(  # noqa: B027 - a history that keeps nothing of the kind
        self, changes: Mapping[str, Drain | None]
    ) -> None:
        """Keep how far nodes are on their way out; None for those that are active, or gone."""

    def updates(self) -> Sequence[float]:
        """When it was updated the last times, in unix seconds, oldest first; none where that is not
        kept."""
        return ()

    def now(self) -> float:
        """The current unix time. May be overridden."""
        return clock.time()


class NullNodeHistory(NodeHistory):
    """A history that only remembers the nodes of the last update.

    All of them count as idle and as booting for ever.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def update(self, nodes: Iterable[Node]) -> None:
        self.nodes = list(nodes)

    def find_unmatched(self, for_at_least: float = 300) -> NodeHistoryResult:
        return [(node_id_of(node), node.hostname, 0.0) for node in with_ids(self.nodes)]

    def find_booting(self, for_at_least: float = 1800) -> NodeHistoryResult:
        return self.find_unmatched()

    def find_ignored(self) -> NodeHistoryResult:
        return []

    def mark_ignored(self, nodes: Iterable[Node]) -> None:
        pass

    def unmark_ignored(self, nodes: Iterable[Node]) -> None:
        pass


def with_ids(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that have been given a NodeId. InvalidArgument for what is no list of nodes."""
    check_kinds("node history", Iterable, nodes=nodes)
    nodes = list(nodes)
    for node in nodes:
        if not hasattr(node, "__dict__"):  # such as an id; what stands for a node will do
            check_kinds("node history", Node, node=node)
    return [node for node in nodes if server_id_of(node)]


def node_id_of(node: Node) -> ht.NodeId:
    """The NodeId of a node that has one."""
    return server_id_of(node) or ht.NodeId("")
