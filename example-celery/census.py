"""What a worker says about itself, in one answer. Loaded by the workers; asked by
`workers.WorkerRegistry`.

Celery has an inspect command for each part of it (active, reserved, scheduled, active_queues,
stats). Each of those waits for its own timeout, and a task that moves on between two of them is
seen twice or not at all. One command of our own is one round trip and one moment.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from celery.signals import celeryd_after_setup, worker_ready
from celery.worker import state as worker_state
from celery.worker.control import inspect_command
from celery.worker.request import Request

READY_FILE = "CELERY_EXAMPLE_READY_FILE"

_home_queues: list[str] = []


@celeryd_after_setup.connect
def _remember_home_queues(instance: Any, **_: Any) -> None:
    """Keep the queues that the worker was started for: it drains by leaving them, and may be called
    back."""
    _home_queues[:] = sorted(queue for queue in instance.app.amqp.queues.consume_from)


@worker_ready.connect
def _touch_ready_file(**_: Any) -> None:
    """Leave a sign for whoever started the worker that it is up, if it asked for one."""
    path = os.environ.get(READY_FILE)
    if path:
        Path(path).touch()


@inspect_command()
def census(state: Any) -> dict[str, Any]:
    """Who this worker is, how many tasks it can run at once, which it holds, and which queues it
    takes from."""
    consumer = state.consumer.task_consumer
    return {
        "node_id": node_id(),
        "pid": os.getpid(),
        "slots": state.consumer.pool.num_processes,
        "home_queues": list(_home_queues),
        "queues": sorted(queue.name for queue in consumer.queues) if consumer else [],
        "held": {request.id: _queue_of(request) for request in _held(state)},
    }


def node_id() -> str:
    """The NodeId of the node that this process runs on; empty outside a CycleCloud cluster."""
    return os.environ.get("CYCLECLOUD_NODE_ID", "")


def _held(state: Any) -> Iterator[Request]:
    """Every task that was fetched and is not finished: waiting, running, put off to a later time,
    or rate limited."""
    yield from list(worker_state.reserved_requests)
    yield from list(worker_state.active_requests)
    for waiting in list(state.consumer.timer.schedule.queue):
        for argument in getattr(waiting.entry, "args", ()) or ():
            if isinstance(argument, Request):
                yield argument
    for bucket in state.consumer.task_buckets.values():
        for request, _ in list(bucket.contents) if bucket else ():
            yield request


def _queue_of(request: Request) -> str:
    return str((request.delivery_info or {}).get("routing_key", ""))
