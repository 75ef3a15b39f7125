"""Celery's part: messages that say where there is work.

A ticket is a message with ranges of elements. Whether they still wait is asked when one of them is
to begin (`store`), so a ticket that comes twice, late or for nothing does no harm, and one that is
lost is written anew (`attendant`). There is a Celery queue for each definition.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpc_queue.errors import BrokerUnreachable
from hpc_queue.model import Range
from hpc_queue.patience import timeouts

if TYPE_CHECKING:
    from celery import Celery

TASK = "hpcq.run"
CHUNK = 100
"""The most elements that one ticket is for."""
_JOB, _TAG = "@JOB@", "@TAG@"
_VISIBILITY = 3600.0
_PERSISTENT = 2


def queue_name(definition: str) -> str:
    """The Celery queue of a definition."""
    return f"hpcq.{definition}"


def new_app(broker: str, definitions: Iterable[str], is_worker: bool = False) -> Celery:
    """The Celery application of a queue, whose messages are JSON and acknowledged late. That of a
    worker waits longer for a broker that does not answer."""
    from celery import Celery

    app = Celery("hpcq", broker=broker, set_as_current=False)
    app.conf.update(
        # so that CELERY_BROKER_URL in the environment means nothing
        broker_read_url=broker,
        broker_write_url=broker,
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_queues=[_kombu_queue(name) for name in definitions],
        task_create_missing_queues=True,
        task_default_queue=queue_name("default"),
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # a Redis whose disk is full answers with errors, and is waited for like one that is away
        broker_channel_error_retry=True,
        broker_transport_options=_transport_options(broker, is_worker),
    )
    return app


def _kombu_queue(definition: str) -> Any:
    from kombu.entity import Queue

    name = queue_name(definition)
    return Queue(name, routing_key=name, max_priority=9)  # type: ignore[no-untyped-call]


def is_redis(broker: str) -> bool:
    """Whether a broker is a Redis."""
    return broker.startswith("redis")


def _transport_options(broker: str, is_worker: bool) -> dict[str, Any]:
    if not is_redis(broker):
        return {}
    return {
        "priority_steps": list(range(10)),
        "queue_order_strategy": "priority",
        "visibility_timeout": _VISIBILITY,
        **timeouts(is_worker),
    }


def split(job: str, low: int, high: int, most: int = CHUNK) -> list[Range]:
    """A range as chunks: small enough for many workers to share an array, and few enough for one of
    a million."""
    size = max(1, min(most, (high - low) // 64))
    return [(job, at, min(at + size, high)) for at in range(low, high, size)]


class Tickets:
    """Sends tickets, on one connection that is kept. Not for several threads at once."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection: Any = None
        self._template: Any = None
        self._is_amqp = not is_redis(str(app.conf.broker_write_url))
        self._declared: set[str] = set()
        # by definition and priority: key of the list, and the text of a message
        self._texts: dict[tuple[str, int], tuple[str, str]] = {}

    def send(self, definition: str, priority: int, chunks: Sequence[Range]) -> None:
        """Write a ticket for each of these chunks. BrokerUnreachable when that cannot be done."""
        for chunk in chunks:
            self.send_one(definition, priority, [chunk])

    def send_one(self, definition: str, priority: int, ranges: Sequence[Range]) -> None:
        """Write one ticket for all of these ranges."""
        try:
            try:
                self._publish(definition, priority, ranges)
            except self._broken():
                self.close()  # the connection was lost since: once more, on a new one
                self._publish(definition, priority, ranges)
        except self._broken() as error:
            self.close()
            raise BrokerUnreachable(f"expected the broker to take a message: {error}") from error

    def written_by_redis(self, definition: str, priority: int) -> tuple[str, str]:
        """A ticket for one element of a job without an id yet, as Redis itself can write it: the
        key of a list, and the text to put there, with `@JOB@` in the place of the id."""
        known = self._texts.get((definition, priority))
        if known is None:
            try:
                channel = self._connected()
                self._declare(definition)
            except self._broken() as error:
                self.close()
                raise BrokerUnreachable(f"expected a broker for tickets: {error}") from error
            message = self._message(channel, priority, [(_JOB, 0, 1)], _TAG)
            name = queue_name(definition)
            # what the channel adds when it publishes
            message["properties"].update(
                body_encoding="utf-8",
                delivery_tag=_TAG,
                delivery_info={"exchange": "", "routing_key": name},
            )
            known = channel._q_for_pri(name, 9 - priority), json.dumps(message)
            self._texts[definition, priority] = known
        return known[0], known[1].replace(_TAG, uuid.uuid4().hex)

    def depth(self, definition: str) -> int:
        """How many tickets wait at the broker."""
        try:
            channel = self._connected()
            name = queue_name(definition)
            if hasattr(channel, "_size"):
                return int(channel._size(name))
            self._declare(definition)
            with channel.connection.channel() as other:
                return int(other.queue_declare(name, passive=True).message_count)
        except self._broken() as error:
            self.close()
            raise BrokerUnreachable(f"expected the length of a queue: {error}") from error

    def close(self) -> None:
        """Close the connection; the next ticket opens another one."""
        connection, self._connection = self._connection, None
        self._declared.clear()
        if connection is not None:
            connection.release()

    def _publish(self, definition: str, priority: int, ranges: Sequence[Range]) -> None:
        channel = self._connected()
        self._declare(definition)
        message = self._message(channel, priority, ranges, uuid.uuid4().hex)
        channel.basic_publish(message, exchange="", routing_key=queue_name(definition))

    def _message(self, channel: Any, priority: int, ranges: Sequence[Range], name: str) -> Any:
        task = self._task()
        # what Producer.publish does, without what it does for exchanges and compression
        return channel.prepare_message(
            json.dumps([[[list(one) for one in ranges]], *task.body[1:]]),
            # with Redis 0 is the first to go, with RabbitMQ the last
            priority=priority if self._is_amqp else 9 - priority,
            content_type="application/json",
            content_encoding="utf-8",
            headers={**task.headers, "id": name, "root_id": name},
            properties={
                **task.properties,
                "correlation_id": name,
                "delivery_mode": _PERSISTENT,
            },
        )

    def _task(self) -> Any:
        """A message of Celery, made once; each ticket has its own id and its own ranges."""
        if self._template is None:
            self._template = self._app.amqp.as_task_v2(
                "", TASK, ([],), {}, argsrepr="", kwargsrepr="", ignore_result=True
            )
        return self._template

    def _connected(self) -> Any:
        if self._connection is None:
            connection = self._app.connection_for_write()
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=5)
            self._connection = connection
        return self._connection.default_channel

    def _declare(self, definition: str) -> None:
        if definition not in self._declared:
            _kombu_queue(definition)(self._connected()).declare()
            self._declared.add(definition)

    def _broken(self) -> tuple[type[BaseException], ...]:
        from kombu.exceptions import OperationalError

        transport = self._app.connection_for_write().transport
        return (*transport.connection_errors, *transport.channel_errors, OperationalError, OSError)
