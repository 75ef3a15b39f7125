"""Which of the nodes in a place are of a gang: those that came for it, and those that it had there.

Nodes are numbered when nodes are asked for for a gang: those that are in its place by then, and
have no number yet, get that of the asking. What comes for it has a higher one later, or none. So
of a thousand gangs that gather in one place nobody remembers for each which nodes were there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import inf

from hpc.autoscale.gangs.file import Gathering, Place
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import assigned_to, server_id_of

_NO_USE = ("Failed", "Unavailable", "Error", "Terminating", "Terminated")


class Members:
    """The nodes of a cluster that are there, of all its `nodes`; what is only planned is nobody's
    yet, and what has failed or goes is nobody's any more.

    `numbers`: those of nodes, by NodeId. Nodes that get work later are known by what they had when
    a gang was first asked about.
    """

    def __init__(self, nodes: Sequence[Node], numbers: Mapping[str, int]) -> None:
        self.numbers = dict(numbers)
        self._nodes = nodes
        self._has_forgotten = False

    @cached_property
    def _places(self) -> defaultdict[tuple[str, str, str], _Nodes]:
        """The nodes in each place. Most passes ask for none."""
        found: defaultdict[tuple[str, str, str], _Nodes] = defaultdict(_Nodes)
        for node in self._nodes:
            name = id_of(node)
            if (name or node.exists) and node.managed:
                where = str(node.nodearray), str(node.vm_size), str(node.placement_group or "")
                found[where].add(node, name, self.numbers.get(name, inf), _is_of_use(node))
        return found

    @cached_property
    def _by_id(self) -> dict[str, Node]:
        return {name: node for node in self._nodes if (name := id_of(node))}

    def of(self, gathering: Gathering) -> list[Node]:
        """The nodes of a gathering that exist and have no other work, in the order of the
        cluster."""
        nodes = self._nodes_in(gathering.place)
        return [nodes.nodes[position] for position in sorted(set(nodes.each_of(gathering)))]

    def has_some(self, gathering: Gathering) -> bool:
        """Whether a gathering has any such nodes; most need not be looked at for that."""
        return next(self._nodes_in(gathering.place).each_of(gathering), None) is not None

    def number(self, place: Place, number: int) -> None:
        """Give the nodes in a place that have none yet this number, which is higher than all before
        this was made. Of nodes that are gone from the cluster it is forgotten."""
        nodes = self._nodes_in(place)
        if nodes.is_numbered:
            return
        if not self._has_forgotten:
            self.numbers = {name: n for name, n in self.numbers.items() if name in self._by_id}
            self._has_forgotten = True
        self.numbers.update(dict.fromkeys(nodes.number(number), number))

    def without_work(self, node_ids: Iterable[str]) -> dict[str, Node]:
        """Those of the nodes with these NodeIds that exist, are of use and have no work."""
        found = {name: self._by_id[name] for name in node_ids if name in self._by_id}
        return {
            name: node
            for name, node in found.items()
            if node.exists and node.managed and _is_of_use(node) and not assigned_to(node)
        }

    def _nodes_in(self, place: Place) -> _Nodes:
        return self._places[place.nodearray, place.vm_size, place.group]


class _Nodes:
    """The nodes in one place, by position."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.is_numbered = False
        self._ids: list[str] = []
        self._numbers: list[float] = []
        # positions of those that are of use, by NodeId; with work of one job, by its name; and
        # without work
        self._positions: dict[str, int] = {}
        self._at_work: defaultdict[str, list[int]] = defaultdict(list)
        self._free: list[int] = []
        # the numbers of these, once both are in the order of numbers
        self._of_free: list[float] | None = None

    def add(self, node: Node, name: str, number: float, is_of_use: bool) -> None:
        """One more."""
        position = len(self.nodes)
        self.nodes.append(node)
        self._ids.append(name)
        self._numbers.append(number)
        if not is_of_use:
            return
        self._positions[name] = position
        jobs = assigned_to(node)
        if not jobs:
            self._free.append(position)
        elif len(jobs) == 1:
            self._at_work[next(iter(jobs))].append(position)

    def number(self, number: int) -> list[str]:
        """The NodeIds of those that had no number, which get this one."""
        new = [p for p, name in enumerate(self._ids) if name and self._numbers[p] == inf]
        for position in new:
            self._numbers[position] = number
        self.is_numbered, self._of_free = True, None
        return [self._ids[position] for position in new]

    def each_of(self, gathering: Gathering) -> Iterator[int]:
        """The positions of the nodes of a gathering that exist and have no other work. Some may
        come twice."""
        own, job = set(gathering.own), gathering.job
        for position in chain(
            self._newer(gathering.number),
            self._at_work.get(job, ()),
            (self._positions[name] for name in own if name in self._positions),
        ):
            node = self.nodes[position]
            is_new = self._numbers[position] > gathering.number
            if (is_new or self._ids[position] in own) and node.exists:
                jobs = assigned_to(node)
                if not jobs or (len(jobs) == 1 and job in jobs):
                    yield position

    def _newer(self, number: int) -> Iterator[int]:
        """The positions of nodes without work that have a higher number, or none."""
        if self._of_free is None:
            self._free.sort(key=self._numbers.__getitem__)
            self._of_free = [self._numbers[position] for position in self._free]
        first = bisect_right(self._of_free, number)
        return (self._free[at] for at in range(first, len(self._free)))


def _is_of_use(node: Node) -> bool:
    return node.state not in _NO_USE


def id_of(node: Node) -> str:
    """The NodeId; an empty text where there is none yet."""
    return str(server_id_of(node) or "")
