"""How long a Redis may be silent: the one that keeps jobs, and the one that has messages."""

from __future__ import annotations

ANSWER_TIMEOUT = 5.0
"""Seconds that somebody who has typed a command waits for an answer."""
_WORKER_TIMEOUT = 60.0
_CONNECT_TIMEOUT = 5.0


def timeouts(is_worker: bool) -> dict[str, float]:
    """The time limits of a connection in seconds, as clients of Redis call them."""
    answer = _WORKER_TIMEOUT if is_worker else ANSWER_TIMEOUT
    return {
        "socket_connect_timeout": min(_CONNECT_TIMEOUT, answer),
        "socket_timeout": answer,
    }
