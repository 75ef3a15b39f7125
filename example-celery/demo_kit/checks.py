"""What must have been true of a demo run: pure functions from what was recorded to the faults found, one line each."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from demo_kit.scene import TaskRecord


def task_faults(tasks: Iterable[TaskRecord], nodes: Mapping[str, "Life"]) -> list[str]:
    """Every task must have succeeded, on a node that was created by a REST call and terminated afterwards."""
    faults = []
    for task in tasks:
        receipt = task.receipt or {}
        if task.state != "SUCCESS":
            faults.append(f"task {task.task_id} ended as {task.state}, not SUCCESS")
        elif receipt.get("task_id") != task.task_id:
            faults.append(f"task {task.task_id} returned the receipt of {receipt.get('task_id')}")
        elif fault := node_fault(str(receipt.get("node_id")), nodes):
            faults.append(f"task {task.task_id}: {fault}")
    return faults
