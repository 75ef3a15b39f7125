"""Logging of calls: who called what with which arguments, at FINE and TRACE for people, at REPRO as
JSON.

Only for `hpc.autoscale.hpclogging`, which publishes it.
"""

import functools
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from hpc.autoscale.hpclogging.records import FINE, REPRO, TRACE
from hpc.autoscale.redaction import redact

F = TypeVar("F", bound=Callable[..., Any])


def cut(value: object, limit: int = 120) -> str:
    """The value as text for a log line, shortened in the middle when it is longer than the
    limit."""
    text = repr(value)
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def reprolog(name: str, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None) -> None:
    """Log a call as JSON, so that it can be reproduced: logger `repro`, level REPRO. Secrets are
    left out."""
    logger = logging.getLogger("repro")
    if not logger.isEnabledFor(REPRO):
        return
    import jsonpickle

    call = {"function": name, "args": redact(list(args)), "kwargs": redact(dict(kwargs or {}))}
    # once more for what objects among the arguments have in them
    encoded = redact(json.loads(jsonpickle.encode(call, keys=True)))
    logger.log(REPRO, "%s", json.dumps(encoded))


def apitrace(
    function: F, repro_level: bool = True, fine_level: bool = True, trace_level: bool = True
) -> F:
    """Log each call: arguments and result in short at FINE, in full at TRACE, and as JSON at REPRO.

    Costs next to nothing while these levels are off. A function that is traced already is returned
    as it is.
    """
    if getattr(function, "is_apitraced", False):
        return function
    logger = logging.getLogger(function.__module__)
    name = function.__qualname__
    shows: list[tuple[int, Callable[[object], str]]] = []
    if fine_level:
        shows.append((FINE, cut))
    if trace_level:
        shows.append((TRACE, repr))

    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        if repro_level:
            reprolog(name, args, kwargs)
        for level, show in shows:
            if logger.isEnabledFor(level):
                shown = [show(redact(a)) for a in args]
                shown += [f"{k}={show(v)}" for k, v in redact(kwargs).items()]
                logger.log(level, "ENTER %s(%s)", name, ", ".join(shown))
        result = function(*args, **kwargs)
        for level, show in shows:
            if logger.isEnabledFor(level):
                logger.log(level, "EXIT %s -> %s", name, show(redact(result)))
        return result

    traced.is_apitraced = True  # type: ignore[attr-defined]
    return cast(F, traced)
