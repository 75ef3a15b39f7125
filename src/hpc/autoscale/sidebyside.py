"""Asking several servers at once: each in a thread of its own, and none waits for another.

Only waiting is done side by side; what the answers mean is worked out by the caller, one after
another. Called by the binding of several clusters and by `node.operations`.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def side_by_side(
    calls: Mapping[K, Callable[[], T]], patience: Mapping[K, float] | None = None
) -> dict[K, T | Exception]:
    """What each call returned, or the exception that it raised; RuntimeError for one that would
    end the process.

    `patience`: for how many seconds an answer is waited for, by key; without end where there is
    none. A call that takes longer has a TimeoutError; its thread goes on, nobody hears of its
    result, and it keeps no process from ending. A single call without a deadline is made here.
    """
    limits = patience or {}
    if len(calls) == 1 and not limits:
        return {key: _result(call) for key, call in calls.items()}
    answers: dict[K, list[T | Exception]] = {key: [] for key in calls}
    began = time.monotonic()  # real time, because sockets wait by no other clock
    threads = {key: _started(call, answers[key]) for key, call in calls.items()}
    found: dict[K, T | Exception] = {}
    for key, thread in threads.items():
        limit = limits.get(key)
        thread.join(None if limit is None else max(0.0, began + limit - time.monotonic()))
        late = TimeoutError(f"no answer within {limit or 0.0:g} seconds")
        found[key] = answers[key][0] if answers[key] else late
    return found


def _started(call: Callable[[], T], into: list[T | Exception]) -> threading.Thread:
    here = contextvars.copy_context()
    thread = threading.Thread(target=lambda: into.append(here.run(_outcome, call)), daemon=True)
    thread.start()
    return thread


def _outcome(call: Callable[[], T]) -> T | Exception:
    """As `_result`, in a thread, which nothing but itself can end."""
    try:
        return _result(call)
    except SystemExit as error:
        return RuntimeError(f"it called sys.exit({error.code!r})")


def _result(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whoever asked decides what may be raised
        return error
