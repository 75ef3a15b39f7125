"""What there is to see at one moment of the demo, and what has happened so far. Views draw it,
checks read it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class TaskRecord:
    """One submitted task: where it was sent, and what Celery last said about it."""

    task_id: str
    queue: str
    state: str = "PENDING"
    receipt: Mapping[str, Any] | None = None

    @property
    def done(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in ("SUCCESS", "FAILURE", "REVOKED")


@dataclass
class Scene:
    """`nodes` as CycleCloud tells it, `demand` as the last pass of the loop saw it, `waiting` by
    queue from the broker."""

    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    passes: int = 0
    demand: list[dict[str, str]] = field(default_factory=list)
    unsatisfied: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    killed: str | None = None

    def count(self, queue: str, *states: str) -> int:
        """How many tasks of a queue are in one of these states."""
        return sum(t.queue == queue and t.state in states for t in self.tasks.values())

    @property
    def done(self) -> int:
        """How many tasks have finished."""
        return sum(task.done for task in self.tasks.values())

    def ran_on(self) -> Counter[str]:
        """How many tasks finished on each node, by NodeId."""
        receipts = (task.receipt for task in self.tasks.values() if task.receipt)
        return Counter(str(receipt["node_id"]) for receipt in receipts)
