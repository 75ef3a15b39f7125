"""Unregistered nodes: ready for as long as their boot timeout, and their hosts not reported by the
scheduler.

Its daemon may not have started there, or the driver may not let them in: a job that is counted on
such a node waits there for ever. Where the scheduler reports other nodes it would report these too
if it knew them; so they get no work, and go as idle ones do.

The time counts from when a node was first seen ready, as only then a driver can let it in: where
passes are further apart than the timeout, it is over when a node is seen for the second time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hpc.autoscale.autoscaler.faults import Faults, name_of
from hpc.autoscale.autoscaler.learning import node_names
from hpc.autoscale.autoscaler.leaving import Leaving
from hpc.autoscale.autoscaler.witness import Witness
from hpc.autoscale.backoff.holds import Holds
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.guards import Facts, is_taken_back, key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import server_ids_of
from hpc.autoscale.node.nodehistory import NodeHistory, NullNodeHistory
from hpc.autoscale.plaintext import shorten
from hpc.autoscale.requestsets.demand import RequestJob
from hpc.autoscale.util import parse_boot_timeout


class Unregistered:
    """The unregistered nodes of one pass. `to_close`: those that the scheduler would report if it
    knew them, as it reports others. `need_no_host`: those that request sets want, which no
    scheduler need know."""

    def __init__(
        self, config: Mapping[str, Any], faults: Faults, witness: Witness, facts: Facts
    ) -> None:
        self._config, self._faults, self._witness, self._facts = config, faults, witness, facts
        self._history: NodeHistory = NullNodeHistory()
        self._elsewhere: Collection[str] = ()
        self.to_close: Sequence[Node] = ()
        self.need_no_host: Sequence[Node] = ()

    def find(
        self,
        nodes: Sequence[Node],
        history: NodeHistory,
        leaving: Leaving,
        jobs: Iterable[object],
    ) -> None:
        """Find them among the nodes, and note those to close. The scheduler has let those go that
        are `leaving`, which may be wanted again. `jobs` of request sets say what those want."""
        self._history = history
        self._elsewhere = {job.nodearray for job in jobs if isinstance(job, RequestJob)}
        known = self._witness.joined
        is_heard = bool(known) and any(node.managed and key_of(node) in known for node in nodes)
        if not (is_heard or self._elsewhere):
            return
        late = [each for each in self._late(nodes, known) if leaving.is_active(each)]
        self.need_no_host = [node for node in late if node.nodearray in self._elsewhere]
        if is_heard and self._witness.found.is_complete:
            self.to_close = [node for node in self._of_scheduler(late) if not node.assignments]
        # who keeps one alive knows of it, as of a login node
        if noted := [node for node in self.to_close if not node.keep_alive]:
            self._faults.note(
                f"{shorten(node_names(noted))}: ready, and not reported by the scheduler within"
                " the boot timeout, and gets no work"
            )

    def tell(self, holds: Holds) -> None:
        """Tell what this says of the buckets: the nodes that need no host are no failures either
        when nobody wants them any more."""
        holds.need_no_host(self.need_no_host)
        holds.never_heard(self.to_close)

    def note_waited_for(
        self, nodes: Sequence[Node], driver: SchedulerDriver, let_in: Collection[str]
    ) -> None:
        """Note those of the nodes that work is counted on, and that are not among the names of
        those that the driver lets in: the work waits there, and they are paid for."""
        late = self._of_scheduler(self._late(nodes, self._witness.joined))
        found = [node for node in late if node.assignments and node.name not in let_in]
        if found:
            self._faults.note(
                f"{name_of(driver.add_nodes_to_cluster)}: did not let in"
                f" {shorten(node_names(found))} within the boot timeout, which CycleCloud says"
                " is ready and work is counted on"
            )

    def _of_scheduler(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Those of the nodes that are not for request sets."""
        return (node for node in nodes if node.nodearray not in self._elsewhere)

    def _late(self, nodes: Sequence[Node], known: Collection[object]) -> list[Node]:
        """Those of the nodes, also for request sets, that have been ready for as long as their boot
        timeout and are none of those with the keys that are `known`, which were reported; none
        where hosts without work are not reported."""
        if not self._witness.expects_idle:
            return []
        silent = [
            (node, its_id)
            for node, its_id in zip(nodes, server_ids_of(nodes), strict=True)
            if its_id not in known
            and node.managed
            and node.state in READY_STATES
            and not is_taken_back(node)
        ]
        if not silent:
            return []
        since = self._faults.guard("reading the node history", self._history.ready_since) or {}
        return [
            node
            for node, its_id in silent
            if since.get(its_id or "", math.inf)
            < self._facts.now - parse_boot_timeout(self._config, node)
        ]
