"""Checks of the records of a demo run, which give a line for each fault. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from demo_kit.scene import TaskRecord


@dataclass(frozen=True)
class Life:
    """What the simulator's journal tells of one node.

    `created` is True only for a node that a REST call made.
    """

    name: str
    created: bool = False
    terminated: bool = False


def task_faults(tasks: Iterable[TaskRecord], lives: Mapping[str, Life]) -> list[str]:
    """Tasks that did not succeed on a node that a REST call created and that was terminated since.

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
    """Nodes that were not terminated."""
    return [f"node {life.name} was never terminated" for life in lives if not life.terminated]


def redelivery_faults(deliveries: Iterable[Mapping[str, Any]], killed: str) -> list[str]:
    """A fault when no task of the worker that was killed was delivered again elsewhere.

    `killed` is the id of the worker's node.
    """
    times: Counter[str] = Counter()
    lost = set()
    for delivery in deliveries:
        times[delivery["task_id"]] += 1
        if delivery["node_id"] == killed:
            lost.add(delivery["task_id"])
    if any(times[task] > 1 for task in lost):
        return []
    return [f"no task of the killed worker on node {killed} was delivered a second time"]
