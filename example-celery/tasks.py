"""The tasks of the example: three kinds of work with three kinds of needs, each in a queue of its
own.

They do a little real work and then take their time, as a stand-in for the hours that yours take.
Each returns a `Receipt`: on which node it ran, and whether the broker had already delivered it to
another worker before.
"""

import json
import os
import random
import time
from typing import TypedDict

from celery import Celery, Task

from census import node_id

app = Celery("tasks")
app.config_from_object("celeryconfig")

DELIVERY_LOG = "CELERY_EXAMPLE_DELIVERY_LOG"


class Receipt(TypedDict):
    """What a finished task says about its run."""

    task_id: str
    node_id: str
    worker: str
    redelivered: bool
    value: int


class NodeTask(Task):  # type: ignore[misc]
    """A task that can say where it runs, and that notes each of its deliveries when asked to (by
    the demo)."""

    def before_start(self, task_id: str, args: object, kwargs: object) -> None:
        """Append a line to the delivery log; a worker that is killed later has still left its
        line."""
        path = os.environ.get(DELIVERY_LOG)
        if path:
            line = {"task_id": task_id, "node_id": node_id(), "redelivered": self.redelivered()}
            with open(path, "a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")

    def redelivered(self) -> bool:
        """Whether the broker delivered this task before and never heard that it was finished."""
        return bool((self.request.delivery_info or {}).get("redelivered"))

    def receipt(self, value: int) -> Receipt:
        """The return value of the task, with where it ran."""
        return {
            "task_id": self.request.id,
            "node_id": node_id(),
            "worker": self.request.hostname,
            "redelivered": self.redelivered(),
            "value": value,
        }


@app.task(bind=True, base=NodeTask)
def count_primes(self: NodeTask, below: int, seconds: float = 0.0) -> Receipt:
    """How many primes there are below a number: one core."""
    sieve = bytearray([1]) * max(below, 2)
    sieve[0:2] = b"\0\0"
    for number in range(2, int(below**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, below, number)))
    time.sleep(seconds)
    return self.receipt(sum(sieve))


@app.task(bind=True, base=NodeTask)
def sort_in_memory(self: NodeTask, megabytes: int, seconds: float = 0.0) -> Receipt:
    """Sort that much data without touching a disk: a node with enough memory. Returns the number of
    bytes."""
    chunk = sorted(random.Random(megabytes).randbytes(1 << 16))
    held = bytes(chunk) * (megabytes << 4)
    time.sleep(seconds)
    return self.receipt(len(held))


@app.task(bind=True, base=NodeTask)
def render_frame(self: NodeTask, frame: int, seconds: float = 0.0) -> Receipt:
    """Render one frame: a node with a GPU. (The example asks for the node and leaves the GPU
    alone.)"""
    time.sleep(seconds)
    return self.receipt(frame)
