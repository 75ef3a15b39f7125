"""One pass, step by step, in the order that drivers rely on.

Looking (`learning`) and changing (`commanding`) are separate; here is only their order and what
stands between them. A pass that cannot look raises: then nothing is changed at all. Once it changes
things, errors are kept and it goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import commanding, hosts_alone, learning
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.learning import NewCalculator, SetContext, node_names
from hpc.autoscale.autoscaler.leaving import Leaving
from hpc.autoscale.autoscaler.reading import Prepared, Reading, Readings
from hpc.autoscale.autoscaler.scale_in import ScaleIn
from hpc.autoscale.autoscaler.smaller_hosts import notes_on_smaller_hosts
from hpc.autoscale.autoscaler.steps import PassSteps
from hpc.autoscale.autoscaler.summary import PassSummary
from hpc.autoscale.autoscaler.telling import Telling
from hpc.autoscale.autoscaler.unregistered import Unregistered
from hpc.autoscale.autoscaler.witness import Witness
from hpc.autoscale.autoscaler.workers_on_premises import HostsOfPass
from hpc.autoscale.autostop.decision import Surplus
from hpc.autoscale.autostop.ledger import Ledger
from hpc.autoscale.autostop.surplus import surplus_of
from hpc.autoscale.config.reported_hosts import reports_idle_hosts
from hpc.autoscale.errors import AutoscaleError, CycleCloudError, one_line
from hpc.autoscale.gangs.gathering import new_gangs
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.guards import AWAY, Gate, Refusal, is_taken_back, key_of
from hpc.autoscale.node.identity import claimed_ids, short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodehistory.draining import DrainState
from hpc.autoscale.node.nodehistory.watching import Rhythm
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.operations import where
from hpc.autoscale.requestsets.demand import RequestJob, WantedNodes, give_attributes
from hpc.autoscale.statefiles import STOPS, path_of
from hpc.autoscale.util import parse_boot_timeout
from hpc.autoscale.workers.keeping import boot_for_nobody, is_booting, keep_the_best, wanted_again

if TYPE_CHECKING:
    from hpc.autoscale.journal.recording import PassRecorder

ASSUMED_INTERVAL = 1200.0
"""Seconds from pass to pass, until it is known from the passes: longer ones are hardly used."""

READING_THE_CLUSTER = "reading the cluster"
"""The phase of the error that nothing can be started in the cluster."""

READING_CLUSTERS = "reading the clusters"
"""The phase of the errors about clusters that are set aside in a pass."""

ENOUGH = object()
"""The answer of `demand_known` with which a pass ends there."""


class Pass:
    """One pass over one cluster. Made for one run: `config` is its own copy, `outcome` what the
    summary is made of.

    `another_driver` makes one that has read nothing yet, or gives the same one where there is no
    other. `interval`: seconds from pass to pass, where that is known. `demand_known` is called
    with this pass when demand is known, and before anything is changed; it may say that this is
    `ENOUGH`.
    """

    def __init__(
        self,
        config: dict[str, Any],
        driver: SchedulerDriver,
        readings: Readings,
        another_driver: Callable[[], Prepared],
        new_calculator: NewCalculator,
        set_context: SetContext,
        dry_run: bool,
        interval: float | None = None,
        demand_known: Callable[[Pass], object] = lambda one: None,
    ) -> None:
        self.config = config
        self._demand_known = demand_known
        self.interval = interval
        self._rhythm = Rhythm(interval, ASSUMED_INTERVAL)
        self.driver = driver
        self.dry_run = dry_run
        self._recorder: PassRecorder | None = config.get("_journal")  # by `hpc.autoscale.journal`
        self.faults = Faults(recorder=self._recorder)
        self.outcome: dict[str, Any] = {}
        self.steps = PassSteps(self.outcome, self.faults.found)
        self.notes: list[str] = []
        self._readings = readings
        self._another_driver = another_driver
        self._given_up: set[object] = set()
        self._marked: list[Node] = []
        self._witness = Witness(readings, self.faults, reports_idle_hosts(config))
        self._late: list[Node] = []
        self._requests: list[str] = []
        self._jobs: Sequence[object] = ()
        self._required: set[object] = set()
        self._given_back: dict[str, list[Node]] = {}
        self._hosts = HostsOfPass(config, self.faults)
        self._calculator: DemandCalculator | None = None
        self._leaving = Leaving(NullNodeHistory(), (), self.faults)
        self._new_calculator = new_calculator
        self._set_context = set_context
        self._gangs = new_gangs(config, interval)
        self._facts = commanding.facts_of_the_loop(config)
        if self._recorder is not None:
            self._recorder.why = self._facts.why
        self._scale_in = ScaleIn(config, self.faults, self._witness, self._facts, self._hosts)
        self._unregistered = Unregistered(config, self.faults, self._witness, self._facts)
        self._gate: Gate | None = None
        self._away: set[str] = set()

    def run(self) -> None:
        """Look, then change. Raises whatever keeps it from looking."""
        marked = self._read()
        try:
            calculator, demand = self._calculate(marked)
        except CycleCloudError as error:
            self.faults.guard("serving hosts on premises alone", self._serve_hosts_alone, error)
            raise
        if self._demand_known(self) is ENOUGH or self.dry_run:
            self.outcome["requested"] = node_names(demand.new_nodes)
            return
        failed = self._handle_failed(demand.failed_nodes)
        self._grow(calculator, demand)
        with self.steps.doing("history"):
            may_shrink = self._remember(calculator)
        if may_shrink:
            self._shrink(calculator, [*self._marked, *failed])
        with self.steps.doing("tell"):
            self._tell_why_jobs_wait()

    def _tell_why_jobs_wait(self) -> None:
        """Let the driver put it where users look, for jobs of which there is something new."""
        telling = Telling(self.driver, self.config.get("verdicts_file"))
        with nullcontext() if self._recorder is None else self._recorder.outside():
            try:
                if telling.is_wanted:
                    has_names = self.driver.has_place_for_requests
                    jobs = [j for j in self._jobs if has_names or not isinstance(j, RequestJob)]
                    telling.tell(jobs, self.outcome["unsatisfied"], self.outcome["set_aside"])
            except Exception as error:  # noqa: BLE001  nothing depends on it
                telling.notes.append(f"telling why jobs wait: {one_line(error)}")
        self.notes += telling.notes
        if self._recorder is not None and telling.notes:
            self._recorder.heard_telling(telling.notes)

    @property
    def calculator(self) -> DemandCalculator | None:
        """What demand was calculated with; None before that."""
        return self._calculator

    @property
    def reported(self) -> Collection[object]:
        """Keys of the nodes whose hosts were among what was read at first."""
        return self._witness.found.reported

    @property
    def reported_on_premises(self) -> Collection[str]:
        """Names of the hosts on premises that were among what was read at first."""
        known = self._calculator.node_mgr.get_nodes() if self._calculator else ()
        return self._witness.reported_on_premises(known)

    def summary(self, started_at: float, ended_at: float) -> PassSummary:
        """What was done. A clock that went back makes the pass take no time, rather than a negative
        one."""
        holds = self._calculator.node_mgr.holds if self._calculator else None
        lately = holds.problems if holds else ()
        return PassSummary(
            started_at=started_at,
            duration=max(0.0, ended_at - started_at),
            dry_run=self.dry_run,
            notes=tuple(dict.fromkeys((*self.notes, *lately, *self.faults.notes))),
            refused=tuple(self._gate.refused.values()) if self._gate else (),
            errors=tuple(self.faults.found),
            **self.outcome,
        )

    def _read(self) -> list[Node]:
        """Read jobs and nodes; the nodes that the scheduler wants rid of and says may be deleted.

        The driver is asked also when there are none: some do there what is to be done in every
        pass.
        """
        with self.steps.doing("read"):
            jobs, scheduler_nodes = self._witness.reading = self._heard(self._readings.read)
            self.steps.note(jobs=len(jobs), hosts=len(scheduler_nodes))
            if twice := learning.hosts_listed_twice(self.driver, scheduler_nodes):
                self.faults.note(twice)
        logging.debug("read %d jobs and %d nodes", len(jobs), len(scheduler_nodes))
        if self.dry_run:
            return []
        marked: list[Node] = [node for node in scheduler_nodes if node.marked_for_deletion]
        return self._handle_failed(marked)

    def _heard(self, read: Callable[..., Reading], *more: Any) -> Reading:
        """What is read of the scheduler, which the recorder hears before anything is done with
        it."""
        if self._recorder is None:
            return read(self.driver, self.config, *more)
        with self._recorder.outside():
            try:
                reading = read(self.driver, self.config, *more)
            except Exception as error:
                self._recorder.heard_no_reading(error)
                raise
        self._recorder.heard_reading(*reading)
        return reading

    def _handle_failed(self, nodes: list[Node]) -> list[Node]:
        with self.steps.doing("failed"):
            given = (self.driver, "handle_failed_nodes", nodes)
            return self.faults.nodes("handling failed nodes", *given)

    def _calculate(self, marked: list[Node]) -> tuple[DemandCalculator, DemandResult]:
        with self.steps.doing("limits"):
            calculator, jobs = self._new_calculator(self.config, self.driver)
            nodes, buckets = calculator.node_mgr.get_nodes(), calculator.node_mgr.get_buckets()
            self.steps.note(nodes=len(nodes), buckets=len(buckets))
        for odd in learning.odd_amounts(self.driver, self._witness.reading[1], buckets):
            self.faults.note(odd)
        self._calculator = calculator
        if self._recorder is not None:
            self._recorder.heard_validation(self._witness.reading[1], calculator.node_mgr)
        self._jobs = jobs
        self._requests = [job.name for job in jobs if isinstance(job, WantedNodes)]
        with self.steps.doing("check"):
            self._hold_against_history(calculator, marked)
        with self.steps.doing("match"):
            return calculator, self._match(calculator, jobs)

    def _hold_against_history(self, calculator: DemandCalculator, marked: list[Node]) -> None:
        """Learn what of the reading can be believed, and close the nodes that are to get no
        work."""
        self._check(calculator.node_mgr)
        self._take_gate(calculator.node_mgr)
        calculator.node_history.rhythm = self._rhythm
        calculator.node_history.cluster = where(calculator.node_mgr.cluster_bindings)
        self._compare_with_history(calculator)
        nodes = calculator.node_mgr.get_nodes()
        self._leaving = Leaving(calculator.node_history, nodes, self.faults)
        lost = self._validate(calculator)
        self._late = self._scale_in.overdue(calculator)
        holds = calculator.node_mgr.holds
        self._unregistered.find(nodes, calculator.node_history, self._leaving, self._jobs)
        if holds is not None:
            holds.overdue(self._late)
            self._witness.tell(holds, nodes)
            self._unregistered.tell(holds)
        # work that is planned on a node that is to go would keep it there, and wait for it for ever
        hopeless = [node for node in self._late if not node.assignments]
        self._marked = learning.managed_nodes(calculator.node_mgr, marked)
        for node in [*self._marked, *hopeless, *self._unregistered.to_close]:
            node.closed = True
        self._give_up(calculator, [*marked, *lost])
        self._close_in_doubt(calculator.node_mgr)

    def _match(self, calculator: DemandCalculator, jobs: Sequence[Job]) -> DemandResult:
        """Place the jobs."""
        if reports_idle_hosts(self.config):
            # whoever makes a calculator in another way, or defines resources afterwards, has not
            calculator.await_hosts()
        self._note_required(calculator)
        unsatisfied, set_aside = learning.add_jobs(calculator, jobs, self._set_context, self._gangs)
        self.notes += self._gangs.notes
        from_scheduler = sum(not isinstance(job, RequestJob) for job in jobs)
        is_all = len(set_aside) >= from_scheduler and not learning.driver_wants(self.config)
        if set_aside and is_all:
            self._scale_in.demand_is_known = False
            self.faults.add(
                "looking at jobs",
                f"not one of {from_scheduler or len(jobs)} could be used: {set_aside[0].reason}",
            )
        self.faults.guard("choosing nodes of workers", self._choose_workers, calculator)
        demand = calculator.finish()
        self.notes += notes_on_smaller_hosts(demand, self._witness.found.reported)
        self.steps.note(wanted=len(demand.new_nodes))
        give_attributes(jobs, demand.new_nodes)
        self.outcome.update(
            jobs=len(jobs) - sum(each.is_host for each in set_aside),
            unsatisfied=tuple(unsatisfied),
            set_aside=tuple(set_aside),
            failed=node_names(demand.failed_nodes),
            demand=demand,
        )
        return demand

    def _note_required(self, calculator: DemandCalculator) -> None:
        """Remember which nodes are required before anything is placed on them, where workers are
        wanted."""
        if learning.want_workers(self._jobs):
            nodes = calculator.node_mgr.get_nodes()
            self._required = {key_of(node) for node in nodes if node.required}

    def _choose_workers(self, calculator: DemandCalculator) -> None:
        """Let workers be wanted on those of their nodes that are of most use, and learn which nodes
        boot for workers whom nobody wants."""
        if not learning.want_workers(self._jobs):
            return
        nodes = calculator.node_mgr.get_nodes()
        joined = self._witness.joined
        busy = self._witness.busy(nodes) | self._required
        keep_the_best(self._jobs, nodes, busy, joined)
        self._given_back = boot_for_nobody(self._jobs, nodes, joined)

    def _take_gate(self, node_mgr: NodeManager) -> None:
        """From now on the gate of the cluster is asked on behalf of the loop."""
        nodes = [n for n in node_mgr.get_nodes() if n.managed and n.exists and n.state != AWAY]
        self._facts.cluster_target = node_mgr.gate.facts.cluster_target
        self._facts.existing = len(nodes)
        self._facts.why.update(node_mgr.gate.facts.why)
        node_mgr.gate.facts = self._facts
        self._gate = node_mgr.gate

    def _compare_with_history(self, calculator: DemandCalculator) -> None:
        """Hold the hosts of the reading against those that were reported before."""
        history, nodes = calculator.node_history, calculator.node_mgr.get_nodes()
        found = self._witness.compare(nodes, history)
        self._facts.missing = self._witness.missing
        self._facts.is_complete = found.is_complete
        self._facts.now = history.now()
        self.outcome["missing"] = node_names(n for n in nodes if key_of(n) in found.missing)
        if found.missing:
            logging.warning("%s", found)
        if not found.is_complete:
            self.notes.append(f"{found}: no node is deleted for being idle")

    def _validate(self, calculator: DemandCalculator) -> list[SchedulerNode]:
        """Let the driver compare the scheduler's nodes with CycleCloud's, unless that was done when
        the calculator was made: whoever makes it in another way does not. The hosts that the driver
        takes out of the list, because they are lost.
        """
        if calculator.nodes_are_validated:
            return []
        hosts = self._witness.reading[1]
        before = list(hosts)
        learning.validate(self.driver, hosts, calculator.node_mgr)
        calculator.nodes_are_validated = True
        kept = set(map(id, hosts))
        return [host for host in before if id(host) not in kept]

    def _give_up(self, calculator: DemandCalculator, hosts: Sequence[Node]) -> None:
        """Hosts that are no node of the cluster, and that the scheduler has forgotten, get no work
        and are not joined again."""
        known = {(short_name(host.hostname), claimed_ids(host)) for host in hosts}
        if not known:
            return
        for node in calculator.node_mgr.get_nodes():
            if not node.managed and (short_name(node.hostname), claimed_ids(node)) in known:
                node.closed = True
                self._given_up.add(id(node))

    def _close_in_doubt(self, node_mgr: NodeManager) -> None:
        """Nodes whose removal may arrive at any moment get no work and are not joined again."""
        doubtful = commanding.removals_in_doubt(node_mgr)
        for node in doubtful:
            node.closed = True
            self._given_up.add(id(node))
        if doubtful:
            names = ", ".join(node_names(doubtful))
            logging.info("no work for nodes of which nobody knows whether they go: %s", names)

    def _check(self, node_mgr: NodeManager) -> None:
        """What of the cluster cannot be used is noted; when nothing at all can be, that is an
        error.

        It ends a dry run. A real pass goes on: nodes that exist can still be joined and deleted.
        """
        problem = learning.nothing_to_start(node_mgr)
        if not problem:
            set_aside = self._report_away(node_mgr)
            self.notes = [each for each in node_mgr.problems if each not in set_aside]
        elif self.dry_run:
            raise AutoscaleError(f"cluster {node_mgr.cluster_bindings.cluster_name}: {problem}")
        else:
            self.faults.add(READING_THE_CLUSTER, problem)

    def _report_away(self, node_mgr: NodeManager) -> Collection[str]:
        """A sentence on each of several clusters that does not take part in this pass any more;
        each is an error once."""
        away: Mapping[str, str] = getattr(node_mgr.cluster_bindings, "away", {})
        for name, problem in away.items():
            if name not in self._away:
                self._away.add(name)
                self.faults.add(READING_CLUSTERS, problem)
        return away.values()

    def _grow(self, calculator: DemandCalculator, demand: DemandResult) -> None:
        existing = [
            node
            for node in demand.compute_nodes
            if node.exists
            and node.state != AWAY
            and id(node) not in self._given_up
            and not is_taken_back(node)
        ]
        planned = list(demand.new_nodes)
        self._set_context("[joining]")
        with self.steps.doing("join"):
            self.outcome["undrained"] = self._leaving.take_back(self.driver, existing)
            joined = commanding.join(self.driver, existing, self.faults)
            known_before = self._witness.joined_of(existing)
            known = {node.name for node in existing if key_of(node) in known_before}
            new = tuple(name for name in joined if name not in known)
            self.outcome.update(joined=joined, newly_joined=new)
            self._unregistered.note_waited_for(existing, self.driver, joined)
        self._set_context("[scaling]")
        self._gangs.save()
        self.notes += self._gangs.problems
        with self.steps.doing("create"):
            booted, shortage = commanding.boot(
                calculator, planned, self.faults, self._jobs, self._gangs
            )
            self.outcome.update(booted)
        self.notes += shortage
        self.outcome["hosts_started"] = self._start_hosts(existing)
        self.outcome["booting"] = node_names(
            node for node in [*existing, *planned] if is_booting(node)
        )

    def _start_hosts(self, existing: Sequence[Node]) -> tuple[str, ...]:
        """Start the workers of hosts on premises that work was placed on."""
        with self.steps.doing("hosts"):
            started = self._hosts.start(
                existing,
                self._witness.reported_on_premises(existing),
                lambda node: parse_boot_timeout(self.config, node),
            )
        return node_names(started)

    def _serve_hosts_alone(self, error: CycleCloudError) -> None:
        """What a pass does for hosts on premises when it can do nothing else."""
        if self._hosts and not self.dry_run:
            look, start = self._new_calculator, self._start_hosts
            hosts_alone.serve(self.config, self.driver, look, start, self.faults, error)

    def _remember(self, calculator: DemandCalculator) -> bool:
        """Update the history. Without it nobody knows for how long a node has been idle, so nothing
        may be deleted."""
        known = len(self.faults.found)
        self.faults.guard("updating the node history", calculator.update_history)
        self.faults.guard(
            "updating the node history", self._witness.remember, calculator.node_history
        )
        self._leaving.forget_gone(calculator.node_mgr.get_nodes())
        problems: list[str] = getattr(calculator.node_history, "problems", [])
        self.notes += problems
        problems.clear()
        return len(self.faults.found) == known

    def _shrink(self, calculator: DemandCalculator, failed: list[Node]) -> None:
        gate = calculator.node_mgr.gate
        with self.steps.doing("idle"):
            idle, hosts = self._find_idle(calculator, failed)
        with self.steps.doing("drain"):
            leaving, drained = commanding.vacate(
                self.driver,
                gate,
                failed,
                self._late,
                idle,
                self.faults,
                self._leaving,
                self._claim,
            )
            self.outcome["drained"] = drained
        self._facts.why.update((key_of(node), "marked") for node in self._marked)
        if leaving:
            unsatisfied = self.outcome.get("unsatisfied", ())
            self.faults.guard("saying why jobs wait", learning.judge_now, unsatisfied)
            self._delete(calculator, leaving)
        if hosts:
            with self.steps.doing("hosts"):
                self._stop_hosts(calculator, hosts)

    def _find_idle(
        self, calculator: DemandCalculator, failed: Sequence[Node]
    ) -> tuple[list[Node], list[Node]]:
        """The nodes that may be drained, and the hosts on premises whose workers may stop."""
        idle, hosts, surplus = self._scale_in.find(
            calculator,
            [*failed, *self._late],
            self._gangs.releasing,
            chain.from_iterable(self._given_back.values()),
        )
        self.outcome.update(
            overdue=node_names(self._late),
            idle=node_names(idle),
            given_back=node_names(surplus),
        )
        return [*idle, *surplus], hosts

    def _stop_hosts(self, calculator: DemandCalculator, hosts: list[Node]) -> None:
        """Stop the workers of idle hosts on premises, once the scheduler has drained them and was
        asked again."""
        gate, nodes = calculator.node_mgr.gate, calculator.node_mgr.get_nodes()
        drained = commanding.drain(
            self.driver, gate, hosts, "draining hosts", self.faults, self._leaving
        )
        gate.facts.busy = None
        if drained:
            self._witness.give_up(drained, calculator.node_history)
            gate.facts.busy = self.faults.guard(
                "reading jobs again before workers are stopped",
                lambda: self._witness.busy(nodes, self._look_again(calculator)),
            )
        if gate.facts.busy is not None:
            free = gate.ask("drain", drained).allowed
            stopped = self._hosts.stop(free)
            self._leaving.move(stopped, DrainState.GONE, {})
            self.outcome["hosts_stopped"] = node_names(stopped)
            gate.facts.busy = None

    def _claim(self, idle: list[Node]) -> list[Node]:
        """Those of the nodes that may go, given which others were told that they may stop."""
        ledger = Ledger(path_of(STOPS, self.config, self.driver.autoscale_home))
        if not idle or not ledger.exists:
            return idle
        surplus = self.surplus()
        asked = [str(key_of(node)) for node in idle if key_of(node) in surplus.by_id]
        may_go = self.faults.guard(
            "asking who was told to stop", ledger.claim, surplus, asked, clock.time()
        )
        if may_go is None:
            return []
        stay = {each for each in asked if each not in may_go}
        return [node for node in idle if key_of(node) not in stay]

    def _delete(self, calculator: DemandCalculator, leaving: list[Node]) -> None:
        """Delete nodes that were drained, unless they are needed after all."""
        self._witness.give_up(leaving, calculator.node_history)
        read_again = functools.partial(self._look_again, calculator)
        with self.steps.doing("read_again"):
            free, spared = commanding.look_twice(
                calculator, read_again, self._witness.gone, leaving, self.faults, self._wanted_again
            )
            self._report_away(calculator.node_mgr)
            self.outcome["spared"] = spared
        with self.steps.doing("delete"):
            self.outcome["deleted"] = commanding.delete(
                calculator, self.driver, free, self.faults, self._leaving
            )

    def surplus(self, reported: Collection[str] | None = None) -> Surplus:
        """What demand leaves of the nodes; `reported` as in `surplus_of`."""
        demand: DemandResult = self.outcome["demand"]
        busy = self._witness.busy(demand.compute_nodes)
        return surplus_of(demand, self._requests, busy, reported)

    def stop(self, node_ids: Collection[str]) -> dict[object, Refusal]:
        """Drain and delete nodes of the demand that was calculated, unless they are needed after
        all. `outcome` and `faults` have what became of them, as after a pass; the result is what
        the gate refused, by `key_of`."""
        if self._calculator is None:
            return {}
        nodes = [node for node in self.outcome["demand"].compute_nodes if key_of(node) in node_ids]
        for node in nodes:
            # another node takes the place of one that a request set was placed on
            node.assignments.difference_update(self._requests)
        gate = self._calculator.node_mgr.gate
        idle = commanding.may_drain(gate, nodes, "asked", set())
        leaving, drained = commanding.vacate(
            self.driver, gate, [], [], idle, self.faults, self._leaving
        )
        self.outcome["drained"] = drained
        if leaving:
            self._delete(self._calculator, leaving)
        return {key: refusal for (key, _, _), refusal in gate.refused.items()}

    def _look_again(self, calculator: DemandCalculator) -> Reading:
        """The second reading, which is held against the first."""
        reading = self._heard(self._readings.read_for_deletion, self._another_driver)
        found = self._witness.compare_again(calculator.node_mgr.get_nodes(), reading)
        self._facts.missing = found.missing
        self._facts.is_complete = found.is_complete
        return reading

    def _wanted_again(self, reading: Reading) -> set[object]:
        """Keys of the nodes that were to be given back, and by a newer reading are not."""
        if not self._given_back:
            return set()
        booting = chain.from_iterable(self._given_back.values())
        reported = self._witness.reported_by(reading, booting)
        return wanted_again(self._given_back, self._jobs, reading[0], reported)
