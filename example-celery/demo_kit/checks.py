"""What must have been true of a demo run: from what was recorded to the faults found, one line
each. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from demo_kit.scene import TaskRecord


@dataclass(frozen=True)
class Life:
    """What the simulator's journal tells of one node. `created` holds for nodes that a REST call
    made, no others."""

    name: str
    created: bool = False
    terminated: bool = False


def task_faults(tasks: Iterable[TaskRecord], lives: Mapping[str, Life]) -> list[str]:
    """Every task must have succeeded on a node that was created by a REST call and has been
    terminated since.

    `lives` is by NodeId.
    """
    faults = []
    for task in tasks:
        receipt = task.receipt or {}
        where = lives.get(str(receipt.get("node_id")))
        if task.state != "SUCCESS":
            faults.append(f"task {task.task_id} ended as {task.state}, expected SUCCESS")
        elif receipt.get("task_id") != task.task_id:
            faults.append(f"task {task.task_id} came with the receipt of {receipt.get('task_id')}")
        elif where is None or not where.created:
            faults.append(
                f"task {task.task_id} ran on node {receipt.get('node_id')!r}, which no REST call"
                " created"
            )
        elif not where.terminated:
            faults.append(f"task {task.task_id} ran on {where.name}, which was never terminated")
    return faults


def node_faults(lives: Iterable[Life]) -> list[str]:
    """Every node must have been terminated."""
    return [f"node {life.name} was never terminated" for life in lives if not life.terminated]


def redelivery_faults(deliveries: Iterable[Mapping[str, Any]], killed: str) -> list[str]:
    """A task of the worker that was killed, on the node with this id, must have been delivered once
    more elsewhere."""
    times: Counter[str] = Counter()
    lost = set()
    for delivery in deliveries:
        times[delivery["task_id"]] += 1
        if delivery["node_id"] == killed:
            lost.add(delivery["task_id"])
    if any(times[task] > 1 for task in lost):
        return []
    return [f"no task of the killed worker on node {killed} was delivered a second time"]
