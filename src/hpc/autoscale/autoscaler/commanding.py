"""The half of a pass that changes things: join, boot, drain, delete. Nothing in this module decides
what is wanted.

Every command is guarded: what fails is kept in the pass's faults, and a step that did not succeed
frees no later step from its own conditions. In particular nothing is deleted that has work, or of
which it is not known whether it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.learning import busy_nodes, key_of, node_names
from hpc.autoscale.autoscaler.reading import Reading
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager.manager import look_again

Names = tuple[str, ...]


def cap_of(config: Mapping[str, Any], key: str) -> int | None:
    """A limit on what one pass may do, from the section `autoscale`; None where there is none."""
    value = (config.get("autoscale") or {}).get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigurationException(
            f"autoscale.{key}: expected a whole number of nodes, 0 or more, found {value!r}"
        )
    return value


def join(driver: SchedulerDriver, nodes: Sequence[Node], faults: Faults) -> Names:
    """Give existing nodes to the scheduler; the names of those that it took."""
    joined = faults.nodes("joining nodes", driver.add_nodes_to_cluster, list(nodes))
    faults.nodes("after joining nodes", driver.handle_post_join_cluster, joined)
    return node_names(joined)


def boot(
    calculator: DemandCalculator, wanted: Sequence[Node], cap: int | None, faults: Faults
) -> tuple[dict[str, Names], list[str]]:
    """Ask CycleCloud for the planned nodes, at most `cap` of them. What came of it, and why it was
    less than asked."""
    asked = list(wanted[:cap])
    outcome: dict[str, Names] = {
        "requested": node_names(wanted),
        "deferred": node_names(wanted[len(asked) :]),
    }
    if not asked:
        return outcome, []
    off = {id(node) for node in asked if node.delayed_node_id.node_id}  # deallocated, not planned
    result = faults.guard("starting nodes", calculator.bootup, asked)
    if result is None:
        return outcome, []
    if not result:
        faults.add("starting nodes", result.message)
    found = result.nodes or []
    outcome["created"] = node_names(node for node in found if id(node) not in off)
    outcome["started"] = node_names(node for node in found if id(node) in off)
    if result and len(found) < len(asked):
        said = "; ".join(result.reasons) or "CycleCloud gave no reason"
        return outcome, [f"{len(found)} of {len(asked)} nodes came into being: {said}"]
    return outcome, []


def vacate(
    driver: SchedulerDriver,
    failed: Sequence[Node],
    overdue: Sequence[Node],
    idle: Sequence[Node],
    cap: int | None,
    faults: Faults,
) -> tuple[list[Node], Names]:
    """Let the scheduler give up nodes; those that may be deleted, at most `cap`, and the names of
    those drained.

    No more nodes are drained than may be deleted: a drained node that stays is of no use to
    anybody.
    """
    leaving = list(failed[:cap])
    late = overdue[: _left(cap, leaving)]
    if late:
        leaving += faults.nodes("handling boot timeouts", driver.handle_boot_timeout, list(late))
    unused = idle[: _left(cap, leaving)]
    drained: list[Node] = []
    if unused:
        drained = faults.nodes("draining nodes", driver.handle_draining, list(unused))
    distinct = {id(node): node for node in [*leaving, *drained]}
    return list(distinct.values()), node_names(drained)


def _left(cap: int | None, leaving: Sequence[Node]) -> int | None:
    return None if cap is None else max(0, cap - len(leaving))


def spare_the_needed(
    look_again: Callable[[], Reading],
    nodes: Iterable[Node],
    leaving: Sequence[Node],
    faults: Faults,
) -> tuple[list[Node], Names]:
    """Who may still be deleted now that draining is done, and the names of those that have work or
    are to be kept alive.

    The scheduler is asked again, because work may have started between the first look and the
    drain. When it does not answer, nothing may be deleted. `nodes` are all of the cluster: a host
    is one of them.
    """

    def look() -> set[object]:
        return busy_nodes([*nodes, *leaving], *look_again())

    busy = faults.guard("reading jobs again before deleting", look)
    if busy is None:
        return [], node_names(leaving)
    free: list[Node] = []
    spared: list[Node] = []
    for node in leaving:
        needed = node.assignments or node.keep_alive or key_of(node) in busy
        (spared if needed else free).append(node)
    if spared:
        logging.warning("not deleted, because they are needed: %s", ", ".join(node_names(spared)))
    return free, node_names(spared)


def still_there(
    calculator: DemandCalculator, leaving: Sequence[Node], faults: Faults
) -> tuple[list[Node], Names]:
    """Who may still be deleted now that the cluster was read again, and the names of those that are
    to be kept alive.

    When it cannot be read, or contradicts itself, nothing may be deleted.
    """
    if not leaving:
        return [], ()
    binding = calculator.node_mgr.cluster_bindings
    records = faults.guard("reading the cluster again before deleting", look_again, binding)
    if records is None:
        return [], node_names(leaving)
    kept = {record.get("NodeId") for record in records if record.get("KeepAlive")}
    kept.discard(None)
    spared = [node for node in leaving if node.delayed_node_id.node_id in kept]
    return [node for node in leaving if node not in spared], node_names(spared)


def delete(
    calculator: DemandCalculator, driver: SchedulerDriver, nodes: Sequence[Node], faults: Faults
) -> Names:
    """Shut nodes down and let the scheduler forget them; the names of those that CycleCloud took
    on."""
    if not nodes:
        return ()
    result = faults.guard("deleting nodes", calculator.delete, list(nodes))
    if result is None:
        return ()
    if not result:
        faults.add("deleting nodes", result.message)
    deleted = list(result.nodes or [])
    if deleted:
        faults.nodes("after deleting nodes", driver.handle_post_delete, deleted)
    return node_names(deleted)
