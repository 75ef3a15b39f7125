"""The broker as the driver sees it: how many tasks wait in each queue, and which deliveries nobody
answers for.

This is the only module that talks to the broker behind Celery's back. Who the workers are belongs
to `workers`.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import AutoscaleError

# Seconds. A broker that does not answer must not hold up the loop: the pass ends with an error, and
# changes nothing.
_CONNECT_TIMEOUT = 5
_READ_TIMEOUT = 5
_TRANSPORT_OPTIONS = {
    "redis": {"socket_connect_timeout": _CONNECT_TIMEOUT, "socket_timeout": _READ_TIMEOUT},
    "amqp": {"read_timeout": _READ_TIMEOUT, "write_timeout": _READ_TIMEOUT},
}
_WHERE = "URL of the broker (CELERY_BROKER_URL, or broker_url in celeryconfig.py)"


class BrokerError(AutoscaleError):
    """The broker did not answer, or not as expected, so it is unknown how much work there is."""


@contextmanager
def connected(app: Celery) -> Iterator[Any]:
    """A connection to the app's broker that does not retry for ever.

    Everything that goes wrong on it is a BrokerError.
    """
    connection = _connection(app)
    expected = (
        OperationalError,
        OSError,
        *connection.connection_errors,
        *connection.channel_errors,
    )
    try:
        with connection:
            _connect(connection)
            yield connection
    except expected as error:
        said = str(error) or "no answer in time"  # as of RabbitMQ without memory or disk
        raise BrokerError(f"broker {connection.as_uri()}: {said}") from error


def _connection(app: Celery) -> Any:
    """A connection that is not yet made. BrokerError for a URL that cannot be read.

    It is not shown, nor the part of it that Python complains of: this may be a password that is not
    quoted.
    """
    try:
        connection = app.connection_for_read(connect_timeout=_CONNECT_TIMEOUT)
        limits = _TRANSPORT_OPTIONS.get(connection.transport.driver_type, {})
    except (KeyError, TypeError) as error:
        raise BrokerError(f"{_WHERE}: {error.args[0]}") from None
    except ValueError:
        raise BrokerError(
            f"{_WHERE}: expected one as redis://:PASSWORD@host:6379/0, where a password has %2F for"
            " / and so on, found one that is not shown, as it may have a password"
        ) from None
    connection.transport_options = {**limits, **connection.transport_options}
    return connection


def _connect(connection: Any) -> None:
    """Connect, once. BrokerError for a URL with options, or a database, that cannot be."""
    try:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=_CONNECT_TIMEOUT)
    except (TypeError, ValueError) as error:
        raise BrokerError(f"{_WHERE}: {error}") from error


def announce(app: Celery, connection: Any, kind: str, **fields: str) -> None:
    """Send an event to whoever listens, as `celery events` does."""
    with app.events.Dispatcher(connection, hostname="azscale") as dispatcher:
        dispatcher.send(kind, **fields)


def depths(connection: Any, queues: Collection[str]) -> dict[str, int]:
    """How many messages wait in each queue. Those that a worker has fetched are not among them."""
    return {queue: _depth(connection, queue) for queue in queues}


def _depth(connection: Any, queue: str) -> int:
    # a channel of its own: AMQP closes the channel on which an unknown queue was asked for
    with connection.channel() as channel:
        if hasattr(channel, "_size"):
            # Redis: the question that AMQP understands fails there for empty queues, and under a
            # `global_keyprefix`
            return int(channel._size(queue))
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors as error:
            if getattr(error, "reply_code", None) == 404:
                return 0  # nothing was ever sent to it
            raise


class Deliveries:
    """Deliveries that were never acknowledged: Redis keeps a list of them, and leaves it to its
    clients to act on it.

    A delivery that no worker answers for twice in a row belonged to a worker that is gone. Celery's
    workers would put it back when the visibility timeout is over, which must be longer than the
    longest task; and when no worker is left, nobody does. RabbitMQ sees the connection break and
    does all this by itself.
    """

    def __init__(self) -> None:
        self._suspects: set[str] = set()

    def requeue_orphans(self, connection: Any, held: Collection[str], complete: bool) -> list[str]:
        """Put back what nobody holds; returns the ids of those tasks.

        `held`: the tasks that workers answer for. `complete`: every worker that may hold one has
        answered; otherwise nothing is put back, because what a silent worker does is unknown.
        """
        with connection.channel() as channel:
            if not hasattr(channel, "unacked_key"):
                return []
            tags = _unacknowledged(channel)
            unclaimed = set(tags) - set(held)
            orphans = sorted(unclaimed & self._suspects) if complete else []
            self._suspects = unclaimed - set(orphans)
            for task_id in orphans:
                channel.qos.restore_by_tag(tags[task_id])
        if orphans:
            logging.warning("requeued, their worker is gone: %s", some(orphans))
        return orphans


def some(names: Sequence[str]) -> str:
    """The first ten names, and how many more there are."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more


def _unacknowledged(channel: Any) -> dict[str, str]:
    """Task id to delivery tag of everything that was delivered and not acknowledged.

    With the commands that kombu itself uses, because only to these it applies a `global_keyprefix`.
    """
    tags = channel.client.zrange(channel.unacked_index_key, 0, -1)
    pipeline = channel.client.pipeline()
    for tag in tags:
        pipeline.hget(channel.unacked_key, tag)
    found = {}
    for tag, content in zip(tags, pipeline.execute(), strict=True):
        message = json.loads(content)[0] if content else {}
        task_id = (message.get("headers") or {}).get("id")
        if task_id:
            found[task_id] = tag.decode() if isinstance(tag, bytes) else tag
    return found
