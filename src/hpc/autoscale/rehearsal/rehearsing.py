"""A pass as it would be now: the loop's own pass, with its commands recorded and not carried out.

It stands on doors that are there already: the binding, the driver, the files of the state, and the
commands of hosts on premises. Reads get through; each command is noted and answered as if all went
well; the files are a copy. No lock is taken. Called by plans, by questions about other
configurations, and by whoever decides again from a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hpc.autoscale import clock as clocks
from hpc.autoscale import results
from hpc.autoscale.autoscaler import hooks, learning
from hpc.autoscale.autoscaler.learning import NewCalculator
from hpc.autoscale.autoscaler.loop import Autoscaler, NewDriver
from hpc.autoscale.autoscaler.passes import ENOUGH, READING_THE_CLUSTER, Pass
from hpc.autoscale.autoscaler.reporting import Reporter
from hpc.autoscale.autoscaler.summary import PassSummary, SetAsideJob, UnsatisfiedJob
from hpc.autoscale.autostop.decision import Answer
from hpc.autoscale.autostop.ledger import Ledger
from hpc.autoscale.autostop.service import StopService
from hpc.autoscale.ccbindings import MADE_BY, new_cluster_bindings
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.config.reported_hosts import reports_idle_hosts
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.leastcost.searches import SEARCHES, Searches
from hpc.autoscale.node import operations
from hpc.autoscale.node.guards import Refusal
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.pricing import is_paid_for, node_price
from hpc.autoscale.node.requests import COPIED_REQUESTS
from hpc.autoscale.onpremises.listing import is_on_premises
from hpc.autoscale.onpremises.workers import RUN_EACH
from hpc.autoscale.rehearsal.changes import (
    Command,
    Cost,
    PlannedChange,
    Seen,
    in_turn,
    rows_of,
)
from hpc.autoscale.rehearsal.inputs import Inputs
from hpc.autoscale.rehearsal.reasons import ReasonsOfPass
from hpc.autoscale.rehearsal.recording import (
    Recorder,
    RecordingBinding,
    RecordingDriver,
    recording_runner,
)
from hpc.autoscale.rehearsal.state import StateCopy
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.results.verdicts import Stand
from hpc.autoscale.statefiles import REQUEST_SETS, STOPS, path_of

TIMED = (
    "least cost: the search for nodes ended with its time (packing.optimize_seconds): a pass may"
    " find other nodes, unless it carries out this plan (azscale apply)"
)
"""The note of a rehearsal that may come to something else with more time, or less."""

NewBinding = Callable[[Mapping[str, Any]], ClusterBindingInterface]
DemandKnown = Callable[[DemandResult], object]


@dataclass(frozen=True)
class Rehearsal:
    """What the next pass would do.

    `changes`: a row for each of its commands, in order. `before` and `after`: what the nodes of the
    cluster cost per hour. `demand` is that of `summary`; its nodes are as they would be after the
    commands. `calculator`: what demand was calculated with. `at`: the time, in unix seconds.
    `inputs`: what the pass was made from, as far as it decides. `searches`: how far
    searches for nodes at the least cost went (`leastcost.searches`). `idle`: for how many seconds
    nodes have had no work, by key (`guards.key_of`).
    """

    summary: PassSummary
    changes: tuple[PlannedChange, ...]
    before: Cost
    after: Cost
    at: float
    inputs: Inputs = field(default_factory=Inputs, repr=False, compare=False)
    calculator: DemandCalculator | None = field(default=None, repr=False, compare=False)
    searches: tuple[int | None, ...] = ()
    idle: Mapping[object, float] = field(default_factory=dict, repr=False, compare=False)

    @property
    def demand(self) -> DemandResult:
        """What the jobs come to."""
        return self.summary.demand or DemandResult([], [], [], [])

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the demand, each once, with those that are planned for gangs of which only a
        part could be had."""
        every = (*self.demand.compute_nodes, *self.demand.new_nodes)
        return list({id(node): node for node in every}.values())

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """Commands that a guard stood against."""
        return self.summary.refused

    @property
    def never(self) -> tuple[UnsatisfiedJob | SetAsideJob, ...]:
        """The jobs that can never run as things are set: those that wait and could not be looked
        at, and those of which the verdict says so."""
        aside, waiting = self.summary.aside_waiting, self.summary.unsatisfied
        return (*aside, *(job for job in waiting if job.verdict.stand is Stand.NEVER))

    @property
    def where(self) -> str:
        """The cluster and its server, in words."""
        manager = None if self.calculator is None else self.calculator.node_mgr
        return "" if manager is None else operations.where(manager.cluster_bindings)

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "at": self.at,
            "changes": [change.to_dict() for change in self.changes],
            "cost_per_hour": {"before": self.before.to_dict(), "after": self.after.to_dict()},
            "summary": self.summary.fields(),
        }


def rehearse(
    config: Mapping[str, Any],
    driver: SchedulerDriver | NewDriver,
    *,
    new_calculator: NewCalculator = learning.new_calculator,
    new_binding: NewBinding = new_cluster_bindings,
    result_handler: results.DefaultContextHandler | None = None,
    demand_known: DemandKnown = lambda demand: None,
    demand_only: bool = False,
    clock: clocks.Clock | None = None,
    interval: float | None = None,
) -> Rehearsal:
    """What a pass with this configuration and this driver would do now. Nothing is changed.

    Most arguments are as for `Autoscaler`. `new_binding` makes the binding that is read, where that
    is not the one of the configuration: one that answers from a journal, or with other limits.
    `demand_known` is given the demand before any node of it is changed by what is only recorded.
    With `demand_only` the rehearsal ends there, and inputs are not noted. `clock`: that of the
    process meanwhile. `interval`: seconds from pass to pass, where the configuration does not say
    so. Raises what a pass raises that cannot look; of demand alone also AutoscaleError where
    nothing of the cluster can be used and no node is there.
    """
    make, first = _first_of(driver)
    recorder = Recorder(notes_inputs=not demand_only)
    searches: Searches = config.get(SEARCHES) or Searches()
    config = {**config, SEARCHES: searches}
    began, at_first = 0.0, Cost()

    def note_demand(one: Pass) -> object:
        nonlocal at_first
        demand: DemandResult = one.outcome["demand"]
        at_first = Cost.of(node_price(node) for node in demand.compute_nodes if is_paid_for(node))
        (_check_offer if demand_only else _explain)(one)
        demand_known(demand)
        return ENOUGH if demand_only else None

    with StateCopy(config, first.autoscale_home) as state, _using(clock):
        recording = RecordingDriver(first, recorder, state)
        autoscaler = Autoscaler(
            _with_doors(config, state, recorder, new_binding),
            _one_after_another(recording, make) if make else recording,
            reporter=Reporter(),
            new_calculator=recorder.hearing_jobs(new_calculator),
            result_handler=result_handler,
            demand_known=note_demand,
        )
        try:
            began, one = clocks.time(), autoscaler.look(interval)
            notes = (TIMED,) if searches.are_timed and not demand_only else ()
            summary = _of_the_site(one.summary(began, clocks.time()), state, notes)
            rows, idle = _rows(one, recorder.commands)
        finally:
            autoscaler.driver.close_histories()
    recorder.heard_configuration(config)
    costs, inputs = (at_first, at_first.changed_by(rows)), recorder.inputs
    went = tuple(searches.went)
    return Rehearsal(summary, tuple(rows), *costs, began, inputs, one.calculator, went, idle)


def _first_of(driver: SchedulerDriver | NewDriver) -> tuple[NewDriver | None, SchedulerDriver]:
    """What makes drivers, None where one was given, and the first of them."""
    makes_one = callable(driver) and not isinstance(driver, SchedulerDriver)
    make = cast(NewDriver, driver) if makes_one else None
    return make, hooks.checked_driver(make() if make else driver)


def _check_offer(one: Pass) -> None:
    """AutoscaleError where nothing of the cluster can be used and no node is there: of such a
    demand there is nothing more to say."""
    for error in one.faults.found:
        if error.phase == READING_THE_CLUSTER and one.calculator is not None:
            if any(node.exists for node in one.calculator.node_mgr.get_nodes()):
                return
            name = one.calculator.node_mgr.cluster_bindings.cluster_name
            raise AutoscaleError(f"cluster {name}: {error.message}")


def _explain(one: Pass) -> None:
    """Work out now why jobs wait: what is recorded afterwards charges and releases limits."""
    learning.judge_now(one.outcome["unsatisfied"], None)


def rehearse_stop(
    config: Mapping[str, Any],
    driver: SchedulerDriver | NewDriver,
    instance: str,
    *,
    new_binding: NewBinding = new_cluster_bindings,
    has_scheduler: bool = True,
) -> Answer:
    """What a node is told now that asks whether it may stop, by its InstanceId or NodeId: the
    service's own answer. Nothing is changed, and nothing is reserved.

    `has_scheduler`: as for `autostop.service.StopService`; other arguments as for `rehearse`.
    """
    make, first = _first_of(driver)
    recorder, home = Recorder(notes_inputs=False), first.autoscale_home
    with StateCopy(config, home) as state:
        recording = RecordingDriver(first, recorder, state)
        doored = _with_doors(config, state, recorder, new_binding)
        service = StopService(
            doored,
            _one_after_another(recording, make) if make else lambda: recording,
            Ledger(path_of(STOPS, doored, home)),
            RequestStore(path_of(REQUEST_SETS, doored, home)),
            has_scheduler,
        )
        try:
            return service.ask(instance, "only explained: nothing is done")
        finally:
            recording.close_histories()


@contextmanager
def _using(clock: clocks.Clock | None) -> Iterator[None]:
    """With this clock as that of the process, where there is one."""
    if clock is None:
        yield
        return
    before = clocks.use_clock(clock)
    try:
        yield
    finally:
        clocks.use_clock(before)


def _one_after_another(first: RecordingDriver, make: NewDriver) -> NewDriver:
    """What gives a loop its drivers: the one that is there, then new ones."""
    ready = [first]
    recorder, state = first.recorder, first.state

    def next_driver() -> SchedulerDriver:
        if ready:
            return ready.pop()
        return RecordingDriver(hooks.checked_driver(make()), recorder, state)

    return next_driver


def _with_doors(
    config: Mapping[str, Any], state: StateCopy, recorder: Recorder, new_binding: NewBinding
) -> dict[str, Any]:
    """The configuration of the site, with the copies of its files and doors that record."""

    made_by = config.get(MADE_BY)

    def binding_of(own: Mapping[str, Any]) -> ClusterBindingInterface:
        # read-only, so that nothing could get through whatever is asked
        site = {**own, "read_only": True, **({MADE_BY: made_by} if made_by else {})}
        return RecordingBinding(new_binding(site), recorder)

    return {
        **config,
        **state.settings,
        COPIED_REQUESTS: state.settings["requests_file"],
        "read_only": False,  # all of the pass: its commands go nowhere
        "lock_file": None,
        MADE_BY: binding_of,
        RUN_EACH: recording_runner(recorder),
    }


def _rows(
    one: Pass, commands: Sequence[Command]
) -> tuple[list[PlannedChange], Mapping[object, float]]:
    """The rows of what was recorded, without joining what the scheduler knows already; and for how
    long nodes are idle, in seconds, by key."""
    calculator = one.calculator
    if calculator is None:
        return [], {}
    reasons = ReasonsOfPass(one.config, calculator)
    if not commands:
        return [], reasons.idle
    reports_hosts = reports_idle_hosts(one.config)
    on_premises = one.reported_on_premises

    hosts = {str(n.name): n for n in calculator.node_mgr.get_nodes() if is_on_premises(n)}

    def is_news(node: Seen) -> bool:
        is_known = node.key in one.reported or node.name in on_premises
        is_of_scheduler = not node.bucket and node.name not in hosts
        return reports_hosts and not (is_known or is_of_scheduler)

    found: list[Command] = []
    for action, nodes in commands:
        kept = [node for node in nodes if action != "join" or is_news(node)]
        if action in ("start_worker", "stop_worker"):
            kept = [Seen.of(hosts[node.name], node.key) for node in nodes if node.name in hosts]
        if kept:
            found.append((action, kept))
    members = getattr(calculator.node_mgr.cluster_bindings, "members", ())
    rows = rows_of(in_turn(found, tuple(members)), reasons)
    # several clusters are asked side by side, so that their creates come in any order
    first = next((i for i, row in enumerate(rows) if row.action == "create"), 0)
    creates = sorted((r for r in rows if r.action == "create"), key=lambda row: row.bucket)
    others = [row for row in rows if row.action != "create"]
    return [*others[:first], *creates, *others[first:]], reasons.idle


def _of_the_site(summary: PassSummary, state: StateCopy, more: tuple[str, ...]) -> PassSummary:
    """The summary with the names of the files of the site, and more notes."""
    errors = (replace(each, message=state.in_words(each.message)) for each in summary.errors)
    return replace(
        summary,
        notes=(*map(state.in_words, summary.notes), *more),
        errors=tuple(errors),
    )
