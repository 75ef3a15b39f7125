"""The one place where code that is not ours is called and may fail in any way: drivers, custom
constraints, bindings.

Drivers raise what their scheduler's tools raise, and one of them failing must not keep the rest of
a pass from being done. So `Faults.guard` catches everything, keeps it as a `PassError` and lets the
caller see that there is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any, TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.summary import PassError
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.node import Node
from hpc.autoscale.plaintext import on_one_line

T = TypeVar("T")


class Faults:
    """What went wrong so far. Errors of a `fatal` type are not kept but go on up."""

    def __init__(self, fatal: tuple[type[Exception], ...] = ()) -> None:
        self.found: list[PassError] = []
        self._fatal = fatal

    def add(self, phase: str, error: Exception | str) -> None:
        """Keep an error, and log it; the stack trace only at debug level. The same one again is
        kept once."""
        message = error if isinstance(error, str) else one_line(error)
        retry_after = getattr(error, "retry_after", None)
        found = PassError(phase, message, retry_after)
        if found not in self.found:
            self.found.append(found)
        logging.error("%s: %s", phase, message)
        if isinstance(error, Exception):
            logging.debug("%s: stack trace", phase, exc_info=error)

    def guard(self, phase: str, function: Callable[..., T | None], *args: Any) -> T | None:
        """The function's answer, or None after an error, which is kept."""
        try:
            return function(*args)
        except Exception as error:
            if isinstance(error, self._fatal):
                raise
            self.add(phase, error)
            return None

    def nodes(
        self, phase: str, function: Callable[..., Iterable[Node] | None], *args: Any
    ) -> list[Node]:
        """The nodes that a driver's method returned; none after an error, or when it returned
        nothing."""

        def returned() -> list[Node]:
            nodes = list(function(*args) or [])
            for node in nodes:
                if not isinstance(node, Node):
                    raise TypeError(f"expected nodes to be returned, found {node!r}")
            return nodes

        return self.guard(phase, returned) or []


def try_each(
    items: Iterable[T], action: Callable[[T], Any], set_aside: Callable[[T, str], None]
) -> None:
    """Do the action to every item; one for which it fails is set aside with the reason, the others
    are done."""
    for item in items:
        try:
            action(item)
        except Exception as error:  # noqa: BLE001 - see the top of this module
            logging.debug("set aside: %r", item, exc_info=error)
            set_aside(item, one_line(error))


def one_line(error: BaseException) -> str:
    """An error as one line. Those made for people explain themselves; others are given with their
    type."""
    text = on_one_line(" ".join(str(error).split()))
    explained = isinstance(error, AutoscaleError | OSError) or type(error) is RuntimeError
    if explained and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def call_with_up_to(function: Callable[..., T], *args: Any) -> T:
    """Call with as many of the arguments as the function takes: overrides may know fewer than are
    offered today."""
    return function(*args[: positional_count(function, len(args))])


def positional_count(function: Callable[..., Any], offered: int) -> int:
    """How many of `offered` positional arguments the function takes."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return offered
    if any(p.kind is Parameter.VAR_POSITIONAL for p in parameters):
        return offered
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return min(offered, sum(1 for p in parameters if p.kind in positional))
