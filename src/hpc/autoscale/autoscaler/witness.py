"""Whether a reading of the scheduler is complete, held against the hosts that it reported before.

A scheduler in trouble can answer with no hosts, or with some of them, and a node whose host is
missing would look idle for as long as that lasts. So a host that was reported once and is not
reported now makes its node unknown, not idle. Nothing is read or decided here: the gate is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.identity import Identities
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory.watching import Sighting

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
) -> Witnessed:
    """Hold the hosts of a reading against the nodes that were reported before. `gone`: ids of nodes
    that there were before."""
    nodes = list(nodes)
    identities = Identities(nodes, gone)
    reported = {key_of(node) for host in hosts for node in identities.might_be(host)}
    there = {key_of(node) for node in nodes if node.managed and node.exists}
    known = there.intersection(reported_before)
    missing = known - reported
    few = max(1, int(len(known) * MISSING_SHARE))
    is_complete = not missing or (bool(hosts) and len(missing) <= few)
    return Witnessed(frozenset(reported & there), frozenset(missing), is_complete)


def without_forgotten(found: Witnessed, seen: Mapping[str, Sighting], now: float) -> Witnessed:
    """The same without nodes whose hosts were left out of complete answers for long."""
    if not found.is_complete:
        return found
    before = now - FORGOTTEN_AFTER
    forgotten = frozenset(
        key
        for key in found.missing
        if (since := seen.get(str(key), Sighting()).missing_time) is not None and since < before
    )
    return found._replace(missing=found.missing - forgotten)
