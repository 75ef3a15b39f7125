"""Which nodes may go: idle ones, those that nobody wants any more, and those that never got ready.

Only looking. What is wrong with a look is an error of the pass, and then no node may go for it.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hpc.autoscale.autoscaler import commanding
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.witness import Witness
from hpc.autoscale.autoscaler.workers_on_premises import HostsOfPass
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.node.guards import AWAY, Facts, Why, key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.onpremises.listing import is_on_premises
from hpc.autoscale.util import parse_boot_timeout, parse_idle_timeout


class MayGo(NamedTuple):
    """Nodes that may be drained, hosts on premises whose workers may stop, and those of the nodes
    that boot for nobody."""

    idle: list[Node]
    hosts: list[Node]
    surplus: list[Node]


class ScaleIn:
    """Looks for the nodes of a pass that may go. It writes what it learns of them into the facts
    of the gate, which is asked about each.

    `demand_is_known`: False when no job could be used, so that an idle node proves nothing.
    """

    def __init__(
        self,
        config: dict[str, Any],
        faults: Faults,
        witness: Witness,
        facts: Facts,
        hosts: HostsOfPass,
    ) -> None:
        self.demand_is_known = True
        self._config = config
        self._faults = faults
        self._witness = witness
        self._facts = facts
        self._hosts = hosts

    def find(
        self,
        calculator: DemandCalculator,
        going: Sequence[Node],
        releasing: Iterable[Node],
        booting: Iterable[Node],
    ) -> MayGo:
        """Who may go beside those that are `going` anyhow: idle nodes and hosts, nodes that gangs
        are `releasing`, nodes of removals that were never answered, and of the nodes `booting`
        for workers whom nobody wants those without work."""
        if not self.demand_is_known:
            return MayGo([], [], [])
        found = self._idle(calculator)
        hosts = [node for node in found if is_on_premises(node)]
        idle = [node for node in found if node.managed]
        idle += self._without_work(calculator, releasing, "gang", idle)
        idle += self._unfinished(calculator, [*going, *idle])
        unwanted = [node for node in booting if not node.assignments]
        return MayGo(
            idle, hosts, self._without_work(calculator, unwanted, "surplus", [*going, *idle])
        )

    def overdue(self, calculator: DemandCalculator) -> list[Node]:
        """Nodes that are not ready after their boot timeout, and may go for it."""

        def timeout(node: Node) -> float:
            return parse_boot_timeout(self._config, node)

        nodes = self._faults.guard("looking for boot timeouts", calculator.find_booting, timeout)
        return [node for node in nodes or [] if not node.keep_alive and node.state != AWAY]

    def _idle(self, calculator: DemandCalculator) -> list[Node]:
        """Nodes and hosts that have had no work for their idle timeout."""

        def timeout(node: Node) -> float:
            return parse_idle_timeout(self._config, node)

        def find() -> list[Node]:
            unmatched = calculator.find_unmatched_for(timeout)
            nodes = [node for node in unmatched if node.managed]
            nodes += self._hosts.may_stop(unmatched)
            if not nodes:
                return []
            self._count_idle_passes(calculator)
            self._note_unwitnessed(calculator)
            busy = self._busy(calculator)
            return commanding.may_drain(calculator.node_mgr.gate, nodes, "idle", busy)

        return self._faults.guard("looking for idle nodes", find) or []

    def _without_work(
        self,
        calculator: DemandCalculator,
        nodes: Iterable[Node],
        why: Why,
        known: Iterable[Node],
    ) -> list[Node]:
        """Those of the nodes without work that may be drained, without those that are known to
        go."""
        keys = set(map(key_of, known))
        others = [node for node in nodes if key_of(node) not in keys]
        if not others:
            return []

        def find() -> list[Node]:
            busy = self._busy(calculator)
            return commanding.may_drain(calculator.node_mgr.gate, others, why, busy)

        return self._faults.guard("looking for nodes that nobody wants", find) or []

    def _unfinished(self, calculator: DemandCalculator, known: Sequence[Node]) -> list[Node]:
        """Nodes of removals that were never answered, without those that are known to go."""

        def find() -> list[Node]:
            busy = functools.partial(self._busy, calculator)
            return commanding.unfinished(calculator.node_mgr, busy, known)

        return self._faults.guard("looking for unfinished removals", find) or []

    def _busy(self, calculator: DemandCalculator) -> set[object]:
        """The nodes that have work, also those known only by the name of a host."""
        return self._witness.busy(calculator.node_mgr.get_nodes())

    def _count_idle_passes(self, calculator: DemandCalculator) -> None:
        """Learn in how many passes nodes were idle, where the history keeps that."""
        sightings = calculator.node_history.sightings()
        if sightings is None:
            self._facts.min_idle_passes = 0
        else:
            self._facts.idle_passes = {i: each.idle_passes for i, each in sightings.items()}

    def _note_unwitnessed(self, calculator: DemandCalculator) -> None:
        """Learn of which nodes neither the history nor the scheduler knows what they did."""
        if self._witness.expects_idle:
            found_ready = set(calculator.node_history.found_ready())
            joined = self._witness.joined_of(calculator.node_mgr.get_nodes())
            self._facts.unwitnessed = found_ready - joined
