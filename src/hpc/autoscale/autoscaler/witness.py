"""Whether a reading of the scheduler is complete, held against the hosts that it reported before.

A scheduler in trouble can answer with no hosts, or with some of them, and a node whose host is
missing would look idle for as long as that lasts. So a host that was reported once and is not
reported now makes its node unknown, not idle. `Witness` has what the answers of one pass say of its
nodes. Nothing is read of the scheduler or decided here: the gate is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.learning import busy_nodes, hosts_named
from hpc.autoscale.autoscaler.reading import Reading, Readings
from hpc.autoscale.backoff.holds import Holds
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.identity import Identities
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory
from hpc.autoscale.node.nodehistory.watching import Sighting
from hpc.autoscale.onpremises.listing import is_on_premises

FORGOTTEN_AFTER = 3600.0
"""For so many watched seconds complete answers leave out a host, until its node counts as one that
the scheduler has forgotten."""

MISSING_SHARE = 0.1
"""An answer from which more of the known hosts are missing than this part, and than one, is not
complete; neither is one without any host."""


class Witnessed(NamedTuple):
    """What a reading says of nodes, by `key_of`: whose hosts it reports, whose are missing from it,
    because they were reported before, and whether it is complete but for those."""

    reported: frozenset[object]
    missing: frozenset[object]
    is_complete: bool

    def __str__(self) -> str:
        known = len(self.reported | self.missing)
        return (
            f"the scheduler reports no host of {len(self.missing)} of {known} nodes, and did before"
        )


def compare(
    nodes: Iterable[Node],
    hosts: Collection[SchedulerNode],
    reported_before: Collection[object],
    gone: Collection[str] = (),
    counts: Callable[[Node], bool] = lambda node: node.managed and node.exists,
) -> Witnessed:
    """Hold the hosts of a reading against the nodes that were reported before. `gone`: ids of nodes
    that there were before; `counts`: which of the nodes have to be reported, without it those of
    the cloud."""
    nodes = list(nodes)
    identities = Identities(nodes, gone)
    reported = {key_of(node) for host in hosts for node in identities.might_be(host)}
    there = {key_of(node) for node in nodes if counts(node)}
    known = there.intersection(reported_before)
    missing = known - reported
    few = max(1, int(len(known) * MISSING_SHARE))
    is_complete = not missing or (bool(hosts) and len(missing) <= few)
    return Witnessed(frozenset(reported & there), frozenset(missing), is_complete)


def without_forgotten(found: Witnessed, seen: Mapping[str, Sighting], now: float) -> Witnessed:
    """What was found, without nodes whose hosts were left out of complete answers for long."""
    if not found.is_complete:
        return found
    before = now - FORGOTTEN_AFTER
    forgotten = frozenset(
        key
        for key in found.missing
        if (since := seen.get(str(key), Sighting()).missing_time) is not None and since < before
    )
    return found._replace(missing=found.missing - forgotten)


def runs_on_premises(node: Node) -> bool:
    """Whether a node is a host on premises whose worker was started."""
    return is_on_premises(node) and node.state in READY_STATES


class Witness:
    """What the scheduler says of the nodes in one pass. `readings`: those of the loop, which
    outlive a pass; `found`: what was learnt when its first answer was held against the history;
    `gone`: ids of nodes that there were before; `expects_idle`: whether hosts without work are
    reported, too. Where they are not, a host that is missing has none, and no node is missing.
    `on_premises`: what was learnt of the hosts on premises. They are missing one by one: that some
    are down says nothing of the nodes of the cloud."""

    def __init__(self, readings: Readings, faults: Faults, expects_idle: bool = True) -> None:
        self.expects_idle = expects_idle
        self.reading: Reading = ([], [])
        self.found = self.on_premises = Witnessed(frozenset(), frozenset(), False)
        self.gone: Collection[str] = ()
        self._readings = readings
        self._faults = faults
        self._reported_before: set[object] = set()

    @property
    def missing(self) -> frozenset[object]:
        """Keys of the nodes and hosts on premises that the first answer lacks."""
        return self.found.missing | self.on_premises.missing

    @property
    def _reported(self) -> frozenset[object]:
        return self.found.reported | self.on_premises.reported

    @property
    def joined(self) -> set[object]:
        """Keys of the nodes whose hosts the scheduler reports, or has reported."""
        return self._reported_before | self.found.reported

    def compare(self, nodes: Iterable[Node], history: NodeHistory) -> Witnessed:
        """Hold the hosts of the first answer against those that were reported before. What is
        returned has also the missing nodes that the scheduler has forgotten, and the hosts on
        premises; `found` has not."""
        nodes = list(nodes)
        seen = self._faults.guard("reading the node history", history.sightings) or {}
        before = {node_id for node_id, each in seen.items() if each.reported}
        self._reported_before = before | self._readings.reported
        gone = self._faults.guard("reading the node history", history.gone)
        self.gone = () if gone is None else gone
        known, now = self._expected(self._reported_before), history.now()
        found = compare(nodes, self.reading[1], known, self.gone)
        self.found = without_forgotten(found, seen, now)
        site = self._compare_on_premises(nodes, self.reading, known)
        self.on_premises = without_forgotten(site, seen, now)
        return found._replace(
            reported=found.reported | site.reported,
            missing=found.missing | self.on_premises.missing,
        )

    def compare_again(self, nodes: Iterable[Node], reading: Reading) -> Witnessed:
        """Hold a second answer against the first one too; it is complete if both are. What is
        missing has hosts on premises among it."""
        nodes = list(nodes)
        heard = self._reported & self._readings.reported
        before = self._expected(self._reported_before | heard)
        found = compare(nodes, reading[1], before, self.gone)
        site = self._compare_on_premises(nodes, reading, before)
        is_complete = self.found.is_complete and found.is_complete
        return found._replace(missing=found.missing | site.missing, is_complete=is_complete)

    def _compare_on_premises(
        self, nodes: Iterable[Node], reading: Reading, before: Collection[object]
    ) -> Witnessed:
        there = [node for node in nodes if runs_on_premises(node)]
        return compare(there, reading[1] if there else (), before, self.gone, runs_on_premises)

    def _expected(self, before: Collection[object]) -> Collection[object]:
        """The nodes of those reported before whose hosts an answer has to report."""
        return before if self.expects_idle else ()

    def reported_by(self, reading: Reading, nodes: Iterable[Node]) -> frozenset[object]:
        """Keys of those of the nodes whose hosts an answer reports."""
        return compare(nodes, reading[1], (), self.gone).reported

    def tell(self, holds: Holds, nodes: Iterable[Node]) -> None:
        """Tell what the first answer says of the hosts of nodes that are watched."""
        if watched := holds.watched():
            jobs, hosts = self.reading
            identities = Identities((n for n in nodes if key_of(n) in watched), self.gone)
            holds.hosts_heard(identities.pairs(hosts), hosts_named(jobs))

    def reported_on_premises(self, nodes: Iterable[Node]) -> set[str]:
        """Names of those nodes that are hosts on premises and that the scheduler reports."""
        on_premises = [node for node in nodes if is_on_premises(node)]
        if not on_premises:
            return set()
        identities = Identities(on_premises)
        return {str(node.name) for host in self.reading[1] for node in identities.might_be(host)}

    def joined_of(self, nodes: Collection[Node]) -> set[object]:
        """`joined`, and keys of those of the nodes that are hosts on premises and that the
        scheduler reports."""
        names = self.reported_on_premises(nodes)
        return self.joined.union(key_of(node) for node in nodes if names and node.name in names)

    def busy(self, nodes: Iterable[Node], reading: Reading | None = None) -> set[object]:
        """Keys of those of the nodes that have work by an answer, the first one unless it is
        given; also of nodes that are known only by the name of a host."""
        return busy_nodes(nodes, *(reading or self.reading), self.gone)

    def remember(self, history: NodeHistory) -> None:
        """Note in the history whose hosts were reported."""
        reported, missing = self._reported, self.missing
        if not self.found.is_complete:
            # nobody knows anything then, of hosts that it reports either
            reported, missing = frozenset(), frozenset(self._reported_before)
        self._readings.reported |= reported
        history.note_scheduler(ids_of(reported), ids_of(missing), ())

    def give_up(self, nodes: Iterable[Node], history: NodeHistory) -> None:
        """The driver has given up nodes: that the scheduler reports their hosts no more is no sign
        of trouble from now on."""
        keys = set(map(key_of, nodes))
        self._readings.reported -= keys
        self._reported_before -= keys
        self._faults.guard(
            "updating the node history", history.note_scheduler, (), (), ids_of(keys)
        )


def ids_of(keys: Iterable[object]) -> list[str]:
    """The NodeIds among keys of nodes; what was never created has none."""
    return [key for key in keys if isinstance(key, str)]
