"""Ready nodes whose hosts the scheduler does not report, though their boot timeout is over.

Its daemon may not have started there, or the driver may not let them in: a job that is counted on
such a node waits there for ever. Where the scheduler reports other nodes it would report these too
if it knew them; so they get no work, and go as idle ones do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hpc.autoscale.autoscaler.faults import Faults, name_of
from hpc.autoscale.autoscaler.learning import node_names
from hpc.autoscale.autoscaler.witness import Witness
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.guards import Facts, is_taken_back, key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.plaintext import shorten
from hpc.autoscale.requestsets.demand import RequestJob
from hpc.autoscale.util import parse_boot_timeout


class Strangers:
    """Those of the nodes of one pass."""

    def __init__(
        self, config: Mapping[str, Any], faults: Faults, witness: Witness, facts: Facts
    ) -> None:
        self._config, self._faults, self._witness, self._facts = config, faults, witness, facts
        self._found: list[Node] = []

    def find(self, nodes: Iterable[Node], jobs: Iterable[object]) -> Sequence[Node]:
        """Find them among the nodes, where hosts without work are reported; those that are of no
        use, which is noted: all where the scheduler reports others. `jobs` of request sets want
        nodes that no scheduler need know."""
        if not self._witness.expects_idle:
            return []
        known = self._witness.joined
        wanted = {job.nodearray for job in jobs if isinstance(job, RequestJob)}
        self._found = [
            node
            for node in nodes
            if node.managed
            and node.state in READY_STATES
            and not (node.assignments or is_taken_back(node) or key_of(node) in known)
            and node.nodearray not in wanted
            and self._facts.now - node.create_time_unix > parse_boot_timeout(self._config, node)
        ]
        if not (self._found and self._witness.found.is_complete and known):
            return []
        self._faults.note(
            f"{shorten(node_names(self._found))}: ready, and not reported by the scheduler within"
            " the boot timeout, and gets no work"
        )
        return self._found

    def note_waited_for(self, driver: SchedulerDriver, let_in: Collection[str]) -> None:
        """Note those that work is counted on, and that are not among the names of those that the
        driver lets in: the work waits there, and they are paid for."""
        waited_for = [n for n in self._found if n.assignments and n.name not in let_in]
        if waited_for:
            self._faults.note(
                f"{name_of(driver.add_nodes_to_cluster)}: did not let in"
                f" {shorten(node_names(waited_for))} within the boot timeout, which CycleCloud says"
                " is ready and work is counted on"
            )
