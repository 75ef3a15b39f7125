"""The nodes that a demand calculator looks after, in the order in which an integration wants to use
them.

Integrations subclass `NodeQueue` for an order of their own. Which nodes fit a job is not decided
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpc.autoscale.errors import AutoscaleError, check_kinds
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import free_of_each
from hpc.autoscale.results import EarlyBailoutResult


def default_prioritizer(node: Node) -> float:
    """Free cores; 0 where there is no such resource, or where it is no number."""
    return _default_priorities((node,))[0]


def _default_priorities(nodes: Iterable[Node]) -> list[float]:
    cores = free_of_each(nodes, "ncpus")
    if {*map(type, cores)} <= {int, float}:
        return cores
    return [count if isinstance(count, (int, float)) else 0 for count in cores]


def default_early_bailout(node: Node) -> EarlyBailoutResult:
    """Always success: go on."""
    return EarlyBailoutResult("success")


class NodeQueue:
    """Nodes by descending priority, equals by ascending host name. Among equals those without a
    host name, or with one that is only made up because they are planned, come last, in the order in
    which they were pushed.

    A node's priority is asked for when it is pushed and when `update` is called, not in between.
    Pushing a node that is in the queue does nothing; nodes are told apart by identity. The first
    iteration after a push or an update sorts.
    """

    def __init__(self) -> None:
        # in the order of pushing
        self.__priorities: dict[Node, float] = {}
        self.__sorted: list[Node] | None = []

    def node_priority(self, node: Node) -> float:
        """How early the node comes; the highest first. To be overridden."""
        return default_prioritizer(node)

    def early_bailout(self, node: Node) -> EarlyBailoutResult:
        """Whether to go on after this node. A hook that integrations call, and nobody else."""
        return default_early_bailout(node)

    def push(self, node: Node) -> None:
        """Add a node, unless it is in the queue."""
        try:
            if node not in self.__priorities:
                self.__priorities[node] = self.node_priority(node)
                self.__sorted = None
        except (AttributeError, TypeError):
            check_kinds("NodeQueue.push", Node, node=node)
            raise

    def _push_all(self, nodes: Iterable[Node]) -> None:
        """`push` each."""
        if type(self).push is not NodeQueue.push:
            for node in nodes:
                self.push(node)
            return
        known = self.__priorities
        new = [node for node in nodes if node not in known]
        known.update(zip(new, self._priorities_of(new), strict=True))
        self.__sorted = None

    def update(self) -> None:
        """Ask for every node's priority anew."""
        nodes = self.__priorities
        self.__priorities = dict(zip(nodes, self._priorities_of(nodes), strict=True))
        self.__sorted = None

    def _priorities_of(self, nodes: Iterable[Node]) -> list[float]:
        """`node_priority` of each, which need not be called where it was not overridden."""
        if type(self).node_priority is NodeQueue.node_priority:
            return _default_priorities(nodes)
        return [self.node_priority(node) for node in nodes]

    def empty(self) -> bool:
        """True when there is no node."""
        return not self.__priorities

    def reversed(self) -> Iterator[Node]:
        """The nodes, lowest priority first, without those that are pushed meanwhile."""
        return iter(self.__in_order()[::-1])

    def __iter__(self) -> Iterator[Node]:
        return iter(tuple(self.__in_order()))

    def __reversed__(self) -> Iterator[Node]:
        return self.reversed()

    def __contains__(self, node: object) -> bool:
        return node in self.__priorities

    def __len__(self) -> int:
        return len(self.__priorities)

    def __in_order(self) -> list[Node]:
        if self.__sorted is None:
            priorities = self.__priorities
            named = {n: name for n in priorities if not n._is_planned and (name := n.hostname)}
            others = [node for node in priorities if node not in named]
            found = [*sorted(named, key=named.__getitem__), *others]
            try:
                self.__sorted = sorted(found, key=priorities.__getitem__, reverse=True)
            except TypeError as error:
                whose = f"{type(self).__name__}.node_priority"
                raise AutoscaleError(f"{whose}: expected numbers, {error}") from error
        return self.__sorted
