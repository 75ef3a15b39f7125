"""One pass, step by step, in the order that drivers rely on.

Looking (`learning`) and changing (`commanding`) are separate; here is only their order and what stands between them.
A pass that cannot look raises: then nothing is changed at all. Once it changes things, errors are kept and it goes on.
"""

from __future__ import annotations

from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import commanding, learning
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.learning import NewCalculator, SetContext, node_names
from hpc.autoscale.autoscaler.summary import PassSummary
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.util import parse_boot_timeout, parse_idle_timeout

_READY = frozenset({"Ready", "Started"})


class Pass:
    """One pass over one cluster. Made for one run: `config` is its own copy, `outcome` what the summary is made of."""

    def __init__(
        self,
        config: dict[str, Any],
        driver: SchedulerDriver,
        new_calculator: NewCalculator,
        set_context: SetContext,
        dry_run: bool,
    ) -> None:
        self.config = config
        self.driver = driver
        self.dry_run = dry_run
        self.faults = Faults()
        self.outcome: dict[str, Any] = {}
        self.notes: list[str] = []
        self._late: list[Node] = []
        self._demand_is_known = True
        self._new_calculator = new_calculator
        self._set_context = set_context
        self._max_new = commanding.cap_of(config, "max_new_nodes_per_pass")
        self._max_deletes = commanding.cap_of(config, "max_deletes_per_pass")

    def run(self) -> None:
        """Look, then change. Raises whatever keeps it from looking."""
        marked = self._read()
        calculator, demand = self._calculate(marked)
        if self.dry_run:
            self.outcome["requested"] = node_names(demand.new_nodes)
            return
        failed = self.faults.nodes(
            "handling failed nodes", self.driver.handle_failed_nodes, demand.failed_nodes
        )
        self._grow(calculator, demand)
        if self._remember(calculator):
            self._shrink(calculator, [*_managed(calculator, marked), *failed])

    def summary(self, started_at: float, ended_at: float) -> PassSummary:
        """What was done. A clock that went back makes the pass take no time, rather than a negative one."""
        return PassSummary(
            started_at=started_at,
            duration=max(0.0, ended_at - started_at),
            dry_run=self.dry_run,
            notes=tuple(self.notes),
            errors=tuple(self.faults.found),
            **self.outcome,
        )

    def _read(self) -> list[Node]:
        """Read jobs and nodes; the nodes that the scheduler wants rid of and says may be deleted."""
        jobs, scheduler_nodes = learning.read_again(self.driver, self.config)
        logging.debug("read %d jobs and %d nodes", len(jobs), len(scheduler_nodes))
        marked: list[Node] = [node for node in scheduler_nodes if node.marked_for_deletion]
        if not marked or self.dry_run:
            return []
        return self.faults.nodes(
            "handling nodes marked for deletion", self.driver.handle_failed_nodes, marked
        )

    def _calculate(self, marked: list[Node]) -> tuple[DemandCalculator, DemandResult]:
        calculator, jobs = self._new_calculator(self.config, self.driver)
        self._check(calculator.node_mgr)
        self._late = self._overdue(calculator)
        # work that is planned on a node that is to go would keep it there, and wait for it for ever
        hopeless = [node for node in self._late if not node.assignments]
        for node in [*_managed(calculator, marked), *hopeless]:
            node.closed = True
        unsatisfied, set_aside = learning.add_jobs(calculator, jobs, self._set_context)
        if set_aside and len(set_aside) == len(jobs):
            self._demand_is_known = False
            self.faults.add(
                "looking at jobs", f"not one of {len(jobs)} could be used: {set_aside[0].reason}"
            )
        demand = calculator.finish()
        self.outcome.update(
            jobs=len(jobs),
            unsatisfied=tuple(unsatisfied),
            set_aside=tuple(set_aside),
            failed=node_names(demand.failed_nodes),
            demand=demand,
        )
        return calculator, demand

    def _check(self, node_mgr: NodeManager) -> None:
        """What of the cluster cannot be used is noted; when nothing at all can be, that is an error.

        It ends a dry run. A real pass goes on: nodes that exist can still be joined and deleted.
        """
        problem = learning.nothing_to_start(node_mgr)
        if not problem:
            self.notes = list(node_mgr.problems)
        elif self.dry_run:
            raise AutoscaleError(f"cluster {node_mgr.cluster_bindings.cluster_name}: {problem}")
        else:
            self.faults.add("reading the cluster", problem)

    def _grow(self, calculator: DemandCalculator, demand: DemandResult) -> None:
        existing = [node for node in demand.compute_nodes if node.exists]
        planned = list(demand.new_nodes)
        self._set_context("[joining]")
        self.outcome["joined"] = commanding.join(self.driver, existing, self.faults)
        self._set_context("[scaling]")
        booted, shortage = commanding.boot(calculator, planned, self._max_new, self.faults)
        self.outcome.update(booted)
        self.notes += shortage
        self.outcome["booting"] = node_names(
            node for node in [*existing, *planned] if _is_booting(node)
        )

    def _remember(self, calculator: DemandCalculator) -> bool:
        """Update the history. Without it nobody knows for how long a node has been idle, so nothing may be deleted."""
        known = len(self.faults.found)
        self.faults.guard("updating the node history", calculator.update_history)
        return len(self.faults.found) == known

    def _shrink(self, calculator: DemandCalculator, failed: list[Node]) -> None:
        idle = self._idle(calculator)
        self.outcome.update(overdue=node_names(self._late), idle=node_names(idle))
        leaving, drained = commanding.vacate(
            self.driver, failed, self._late, idle, self._max_deletes, self.faults
        )
        self.outcome["drained"] = drained
        if not leaving:
            return
        free, spared = commanding.spare_the_needed(self.driver, self.config, leaving, self.faults)
        self.outcome["spared"] = spared
        self.outcome["deleted"] = commanding.delete(calculator, self.driver, free, self.faults)

    def _idle(self, calculator: DemandCalculator) -> list[Node]:
        if not self._demand_is_known:
            return []

        def timeout(node: Node) -> float:
            return parse_idle_timeout(self.config, node)

        nodes = self.faults.guard("looking for idle nodes", calculator.find_unmatched_for, timeout)
        return [node for node in nodes or [] if not node.keep_alive]

    def _overdue(self, calculator: DemandCalculator) -> list[Node]:
        def timeout(node: Node) -> float:
            return parse_boot_timeout(self.config, node)

        nodes = self.faults.guard("looking for boot timeouts", calculator.find_booting, timeout)
        return [node for node in nodes or [] if not node.keep_alive]


def _is_booting(node: Node) -> bool:
    return (
        node.delayed_node_id.node_id is not None
        and node.target_state == "Started"
        and node.state not in _READY
        and node.state != "Failed"
    )


def _managed(calculator: DemandCalculator, nodes: list[Node]) -> list[Node]:
    """CycleCloud's nodes for nodes that may be known only as the scheduler reports them, by short hostname."""
    if not nodes:
        return []
    hosts = {
        node.hostname.lower(): node for node in calculator.get_compute_nodes() if node.hostname
    }
    found = (node if node.managed else hosts.get((node.hostname or "").lower()) for node in nodes)
    return [node for node in found if node is not None and node.managed]
