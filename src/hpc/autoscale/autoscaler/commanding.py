"""The half of a pass that changes things: join, boot, drain, delete. Nothing in this module decides
what is wanted.

The gate (`node/guards`) is asked before each command, and what it refuses is left out. What fails
is kept in the pass's faults, and a step that did not succeed frees no later step from its own
conditions. In particular nothing is deleted that has work, or of which it is not known whether it
has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.learning import busy_nodes, node_names
from hpc.autoscale.autoscaler.leaving import Leaving
from hpc.autoscale.autoscaler.reading import Reading
from hpc.autoscale.autoscaler.summary import name_of_job
from hpc.autoscale.config import check_config
from hpc.autoscale.config.clusters import split_name
from hpc.autoscale.gangs.gathering import Gangs
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.guards import Asker, Clearance, Command, Facts, Gate, Why, key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory.draining import DrainState
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.nodemanager.manager import look_again
from hpc.autoscale.node.requests import is_elsewhere, is_old
from hpc.autoscale.results import why_failed

Names = tuple[str, ...]

MAX_DELETE_SHARE = 0.5
"""Which part of the nodes may go in one pass, where the configuration says nothing."""

MIN_IDLE_PASSES = 2
"""In how many passes in a row a node has to be idle, where the configuration says nothing."""


BOUNDS = "_bounds"
"""The entry of a configuration with what is in the way of commands (`guards.Facts.bounds`), where a
pass carries out what was planned and nothing else."""


def facts_of_the_loop(config: Mapping[str, Any]) -> Facts:
    """What the gate is told at the start of a pass: who asks, and the limits of the section
    `autoscale`. ConfigurationException for a limit that is none: a driver may have written it."""
    section = config.get("autoscale") or {}
    check_config({"autoscale": section})
    facts = Facts(Asker.LOOP)
    facts.max_new = _whole(section.get("max_new_nodes_per_pass"))
    facts.max_deletes = _whole(section.get("max_deletes_per_pass"))
    facts.max_share = section.get("max_delete_share", MAX_DELETE_SHARE)
    facts.share_above = int(section.get("max_delete_share_above", facts.share_above))
    facts.min_idle_passes = int(section.get("min_idle_passes", MIN_IDLE_PASSES))
    facts.min_lifetime = float(section.get("min_lifetime") or 0)
    facts.bounds = config.get(BOUNDS)
    return facts


def _whole(number: float | None) -> int | None:
    """A whole number that JSON may have as 3.0."""
    return None if number is None else int(number)


def join(driver: SchedulerDriver, nodes: Sequence[Node], faults: Faults) -> Names:
    """Give existing nodes to the scheduler; the names of those that it took."""
    joined = faults.nodes("joining nodes", driver, "add_nodes_to_cluster", list(nodes))
    faults.nodes("after joining nodes", driver, "handle_post_join_cluster", joined)
    return node_names(joined)


def boot(
    calculator: DemandCalculator,
    wanted: Sequence[Node],
    faults: Faults,
    jobs: Sequence[object],
    gangs: Gangs,
) -> tuple[dict[str, Names], list[str]]:
    """Ask CycleCloud for the planned nodes, as many as the gate allows, those for the first of the
    `jobs` first; that it allows no more is no fault of the `gangs` that lack some then. What came
    of it, and why it was less than asked."""
    gate = calculator.node_mgr.gate
    asked, deferred = _ask_to_come(
        gate, wanted if gate.facts.max_new is None else _in_turn(wanted, jobs)
    )
    outcome: dict[str, Names] = {
        "requested": node_names(wanted),
        "deferred": node_names(deferred),
    }
    if not asked:
        return outcome, []
    gangs.put_off(deferred)
    rested = {id(node) for node in asked if node.delayed_node_id.node_id}  # the others are planned
    result = faults.guard("starting nodes", calculator.bootup, asked)
    if result is None:
        return outcome, []
    if not result:
        faults.add("starting nodes", why_failed(result))
    found = result.nodes or []
    outcome["created"] = node_names(node for node in found if id(node) not in rested)
    outcome["started"] = node_names(node for node in found if id(node) in rested)
    if result and len(found) < len(asked):
        said = "; ".join(result.reasons) or "CycleCloud gave no reason"
        return outcome, [f"{len(found)} of {len(asked)} nodes came into being: {said}"]
    return outcome, []


def _ask_to_come(gate: Gate, nodes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes that the gate allows to be created or started, the first ones first, and those that
    are left for the next pass. Where no more may come, the others are asked about together."""
    allowed: list[Node] = []
    deferred: list[Node] = []
    rest = list(nodes)
    while rest:
        if deferred:
            rest.sort(key=_is_at_rest)
        at_rest, first = next(groupby(rest, _is_at_rest))
        alike = list(first)
        rest = rest[len(alike) :]
        clearance = gate.ask("start" if at_rest else "create", alike)
        allowed += clearance.allowed
        deferred += [refusal.node for refusal in clearance.refused if refusal.is_ration]
    return allowed, deferred


def _is_at_rest(node: Node) -> bool:
    return node.delayed_node_id.node_id is not None


def _in_turn(nodes: Sequence[Node], jobs: Sequence[object]) -> list[Node]:
    """The nodes in the order of the first of the jobs that are placed on each."""
    turns: dict[str, int] = {}
    for turn, job in enumerate(jobs):
        turns.setdefault(name_of_job(job), turn)
    last = len(turns)
    return sorted(
        nodes, key=lambda n: min((turns.get(str(j), last) for j in n.assignments), default=last)
    )


def vacate(
    driver: SchedulerDriver,
    gate: Gate,
    failed: Sequence[Node],
    overdue: Sequence[Node],
    idle: Sequence[Node],
    faults: Faults,
    leaving_states: Leaving,
    claim: Callable[[list[Node]], list[Node]] = list,
) -> tuple[list[Node], Names]:
    """Let the scheduler give up nodes; those that may be deleted, and the names of those drained.

    No more nodes are drained than may be deleted: a drained node that stays is of no use to
    anybody. Idle nodes must have been allowed to go already; `claim` says which of them nobody else
    counts on.
    """
    _note_why(gate, failed, "failed")
    _note_why(gate, overdue, "overdue")
    leaving = _take_places(gate, failed, leaving_states)
    late = _take_places(gate, overdue, leaving_states)
    if late:
        given = faults.nodes("handling boot timeouts", driver, "handle_boot_timeout", list(late))
        gate.give_back(_not_among(given, late))
        leaving += given
    drained = drain(driver, gate, idle, "draining nodes", faults, leaving_states, claim)
    distinct = {id(node): node for node in [*leaving, *drained]}
    return list(distinct.values()), node_names(drained)


def _take_places(gate: Gate, nodes: Sequence[Node], leaving_states: Leaving) -> list[Node]:
    """The nodes that go before idle ones, as many as may. Those that stay as far as is known come
    last and keep no place: the gate is asked once more before anything is deleted."""
    stay = [node for node in nodes if gate.keeps(node) or leaving_states.is_kept(node)]
    going = gate.ration("delete", _not_among(stay, nodes)).allowed
    tried = gate.ration("delete", stay).allowed
    gate.give_back(tried)
    return [*going, *tried]


def drain(
    driver: SchedulerDriver,
    gate: Gate,
    idle: Iterable[Node],
    phase: str,
    faults: Faults,
    leaving_states: Leaving,
    claim: Callable[[list[Node]], list[Node]] = list,
) -> list[Node]:
    """Let the scheduler give up idle nodes, or hosts on premises, as many as may go; those that it
    let go. The rest is as for `vacate`."""
    rationed = gate.ration("drain", leaving_states.in_turn(idle)).allowed
    unused = claim(rationed)
    gate.give_back(_not_among(unused, rationed))
    # nobody is told to drain what a later pass would not know of
    if not unused or not leaving_states.move(unused, DrainState.DRAINING, gate.facts.why):
        return []
    drained = faults.nodes(phase, driver, "handle_draining", list(unused))
    keys = set(map(key_of, drained))
    given = [node for node in unused if key_of(node) in keys]
    leaving_states.move(given, DrainState.DRAINED, {})
    # hosts, which come after nodes, do not wait for what the scheduler may keep for ever
    gate.give_back(filter(leaving_states.is_kept, _not_among(given, unused)))
    return drained


def may_drain(gate: Gate, nodes: Sequence[Node], why: Why, busy: set[object]) -> list[Node]:
    """The nodes without work that may be drained as far as they themselves are concerned."""
    return _ask_to_drain(gate, nodes, why, busy).allowed


def _ask_to_drain(gate: Gate, nodes: Sequence[Node], why: Why, busy: set[object]) -> Clearance:
    _note_why(gate, nodes, why)
    gate.facts.busy = busy
    try:
        return gate.ask("drain", nodes, rationed=False)
    finally:
        gate.facts.busy = None  # it is older than what may be decided now


def removals_in_doubt(node_mgr: NodeManager) -> list[Node]:
    """The nodes that were to be removed by a request that may still be under way, whoever sent
    it."""
    ids = {removal.node_id for removal in node_mgr.requests.removals if not is_old(removal)}
    return [node for node in node_mgr.get_nodes() if key_of(node) in ids] if ids else []


def unfinished(
    node_mgr: NodeManager, busy: Callable[[], set[object]], known: Iterable[Node]
) -> list[Node]:
    """The nodes that were to be removed when no answer came, and that are still there without work.

    They are to go again. A removal of a node that is gone is done, and that of a node that got work
    meanwhile, or is to be kept alive, is called off: it is remembered for as long as the request
    may arrive all the same. `known` are nodes that go anyway; `busy` is asked for only when there
    are removals. Those of a cluster that is set aside wait until it is back.
    """
    requests = node_mgr.requests
    away = getattr(node_mgr.cluster_bindings, "away", ())
    ours = (r for r in requests.removals if split_name(r.node_id)[0] not in away)
    removals = {r.node_id: r for r in ours if not is_elsewhere(r)}
    if not removals:
        return []
    there = [
        node
        for node in node_mgr.get_nodes()
        if node.delayed_node_id.node_id in removals and node.target_state == "Started"
    ]
    due = [node for node in there if not removals[str(node.delayed_node_id.node_id)].called_off]
    others = _not_among(known, due)
    again, refused = _ask_to_drain(node_mgr.gate, others, "unfinished", busy())
    wanted = [refusal.node for refusal in refused if refusal.code in ("HasJobs", "KeepAlive")]
    stay = {str(node.delayed_node_id.node_id) for node in wanted}
    requests.call_off([removals[node_id] for node_id in stay])
    stay.update(r.node_id for r in removals.values() if r.called_off)
    left = {str(node.delayed_node_id.node_id) for node in there}
    requests.forget_removals(
        [r for r in removals.values() if r.node_id not in left or (r.node_id in stay and is_old(r))]
    )
    for node in wanted:
        logging.info("%s is not removed after all: it is wanted again", node)
    if again:
        names = ", ".join(node_names(again))
        logging.info("nodes of which nobody knows whether they were removed: %s", names)
    return again


def _note_why(gate: Gate, nodes: Iterable[Node], why: Why) -> None:
    known = gate.facts.why  # what the scheduler has given up stays that
    known.update((key, why) for key in map(key_of, nodes) if known.get(key) != "marked")


def _not_among(some: Iterable[Node], every: Iterable[Node]) -> list[Node]:
    keys = set(map(key_of, some))
    return [node for node in every if key_of(node) not in keys]


def look_twice(
    calculator: DemandCalculator,
    read_again: Callable[[], Reading],
    gone: Collection[str],
    leaving: Sequence[Node],
    faults: Faults,
    wanted_again: Callable[[Reading], set[object]] = lambda reading: set(),
    command: Command = "delete",
) -> tuple[list[Node], Names]:
    """Who may still be deleted now that draining is done, and the names of those that stay, by the
    guards of a command.

    The scheduler and CycleCloud are asked again, because work may have started between the first
    look and the drain. When either does not answer, the gate lets nothing go. `gone`: ids of nodes
    that there were before. `wanted_again`: keys of the nodes that may have work soon, by a reading.
    """
    gate = calculator.node_mgr.gate
    every = [*calculator.node_mgr.get_nodes(), *leaving]

    def find_busy() -> set[object]:
        reading = read_again()
        return busy_nodes(every, *reading, gone) | wanted_again(reading)

    gate.facts.busy = faults.guard("reading jobs again before deleting", find_busy)
    if gate.facts.busy is not None:
        binding = calculator.node_mgr.cluster_bindings
        records = faults.guard("reading the cluster again before deleting", look_again, binding)
        if records is not None:
            gate.facts.listed = {str(record.get("NodeId")): record for record in records}
    free, refused = gate.ask(command, leaving)
    return free, node_names(refusal.node for refusal in refused)


def delete(
    calculator: DemandCalculator,
    driver: SchedulerDriver,
    nodes: Sequence[Node],
    faults: Faults,
    leaving_states: Leaving,
) -> Names:
    """Shut nodes down and let the scheduler forget them; the names of those that CycleCloud took
    on."""
    why = calculator.node_mgr.gate.facts.why
    if not nodes or not leaving_states.move(nodes, DrainState.DELETING, why):
        return ()
    result = faults.guard("deleting nodes", calculator.delete, list(nodes))
    if result is None:
        return ()
    if not result:
        faults.add("deleting nodes", why_failed(result))
    deleted = list(result.nodes or [])
    if deleted:
        faults.nodes("after deleting nodes", driver, "handle_post_delete", deleted)
    return node_names(deleted)
