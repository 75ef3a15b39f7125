"""The nodes of workers: whose each is, which of them are kept, and which boot for nobody any more.

Nodes of one definition are as good as each other to the queue, and not to whoever pays or waits:
those at work are kept before those that are ready, and these before those that boot, of which the
oldest will be ready first. What exceeds the demand and still boots can be given back at once, as
nothing can run there. Nothing here commands anything; the loop does, through the gate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.guards import AWAY, is_taken_back, key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.offerings import offering_of
from hpc.autoscale.workers.demand import DEFINITION, NODES, WorkerJob, worker_jobs


def definition_of(node: Node) -> str:
    """Whose workers a node runs, as its configuration says; empty where it does not."""
    configuration = node.software_configuration
    found = configuration.get(DEFINITION) if isinstance(configuration, Mapping) else None
    return found if isinstance(found, str) else ""


def prepare(node_mgr: NodeManager, jobs: Iterable[object]) -> None:
    """Give nodes the resources by which the workers among the jobs are counted. The loop does this;
    whoever makes a calculator calls it before jobs are added."""
    if worker_jobs(jobs):
        node_mgr.add_default_resource({}, NODES, 1)
        node_mgr.add_default_resource({}, DEFINITION, definition_of)


def is_booting(node: Node) -> bool:
    """Whether a node was asked for, should run, and is not ready."""
    return (
        node.delayed_node_id.node_id is not None
        and node.target_state == "Started"
        and node.state not in ht.READY_STATES
        and node.state not in ("Failed", AWAY)
        and not is_taken_back(node)
    )


def keep_the_best(
    jobs: Iterable[object],
    nodes: Iterable[Node],
    busy: Collection[object],
    joined: Collection[object],
) -> None:
    """Let the demand for workers be for those of its nodes that are of most use, where there are
    more than it wants.

    `busy`, `joined`: keys of the nodes with work or that somebody else says are required, and of
    those that the scheduler knows.
    """
    wanted = [str(job.name) for job in worker_jobs(jobs)]
    if not wanted:
        return
    pools: dict[tuple[Any, ...], list[Node]] = {}
    for node in nodes:
        if node.managed and node.exists:
            pools.setdefault(_pool(node), []).append(node)
    for members in pools.values():
        for name in wanted:
            taken = [node for node in members if name in node.assignments]
            spare = [node for node in members if node.available.get(NODES) == 1]
            if not (taken and spare):
                continue
            spare = [node for node in spare if node.state != "Failed" and not node.closed]
            mine = sorted([*taken, *spare], key=lambda node: _use(node, busy, joined))
            for place, node in enumerate(mine):
                _assign(node, name, place < len(taken), busy)


def _pool(node: Node) -> tuple[Any, ...]:
    """Nodes with the same one can take each other's place."""
    return (*offering_of(node), definition_of(node))


def _use(node: Node, busy: Collection[object], joined: Collection[object]) -> tuple[Any, ...]:
    """Of how much use a node is; less sorts first."""
    key = key_of(node)
    if key in busy:
        return (0,)
    if key in joined or not is_booting(node):
        return (1,)
    return (2, *_age(node))


def _age(node: Node) -> tuple[Any, ...]:
    """The oldest sorts first; one that was just made last."""
    return (not node.create_time_unix, node.create_time_unix, ht.name_order(str(node.name)))


def _assign(node: Node, name: str, is_wanted: bool, busy: Collection[object]) -> None:
    if is_wanted == (name in node.assignments):
        return
    node.available[NODES] = int(not is_wanted)
    if is_wanted:
        node.assignments.add(name)
        return
    node.assignments.discard(name)
    if not node.assignments and key_of(node) not in busy:
        node.required = False


def boot_for_nobody(
    jobs: Iterable[object], nodes: Iterable[Node], joined: Collection[object]
) -> dict[str, list[Node]]:
    """The nodes that boot for workers whom nobody wants any more, by their definition, the youngest
    first.

    Only nodes that were started for a definition of which something is known now, and that the
    scheduler has never reported. Where a few are too many, none is meant (`WorkerDemand.slack`).
    """
    wanted: dict[str, list[WorkerJob]] = {}
    for job in worker_jobs(jobs):
        wanted.setdefault(job.demand.name, []).append(job)
    if not wanted:
        return {}
    idle: dict[str, list[Node]] = {}
    for node in nodes:
        definition = definition_of(node)
        is_candidate = definition in wanted and not node.assignments and not node.required
        if is_candidate and node.managed and is_booting(node) and key_of(node) not in joined:
            idle.setdefault(definition, []).append(node)
    found = {}
    for definition, candidates in idle.items():
        alike = wanted[definition]
        surplus = len(candidates) - sum(job.iterations_remaining for job in alike)
        if surplus > sum(job.demand.slack for job in alike):
            youngest = sorted(candidates, key=_age, reverse=True)
            found[definition] = youngest[:surplus]
    return found


def wanted_again(
    given_back: Mapping[str, Sequence[Node]],
    before: Iterable[object],
    now: Iterable[object],
    reported: Collection[object],
) -> set[object]:
    """Keys of the nodes that were to be given back and are not to be, by a newer reading: more are
    wanted of their definition than before, nothing is said of it, or the scheduler knows them.

    `before`, `now`: the jobs of the two readings.
    """
    then, later = _nodes_wanted(before), _nodes_wanted(now)
    kept: set[object] = set()
    for name, nodes in given_back.items():
        more = len(nodes) if name not in later else later[name] - then[name]
        oldest_first = list(reversed(nodes))
        kept.update(map(key_of, oldest_first[: max(0, more)]))
        kept.update(key for key in map(key_of, nodes) if key in reported)
    return kept


def _nodes_wanted(jobs: Iterable[object]) -> Counter[str]:
    """How many nodes are wanted of each definition of which something is said."""
    found: Counter[str] = Counter()
    for job in worker_jobs(jobs):
        found[job.demand.name] += job.demand.nodes
    return found
