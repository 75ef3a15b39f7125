"""The one place where code that is not ours is called and may fail in any way: drivers, custom
constraints, bindings.

Drivers raise what their scheduler's tools raise, and one of them failing must not keep the rest of
a pass from being done. So `Faults.guard` catches everything, keeps it as a `PassError` and lets the
caller see that there is no answer.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import Parameter, isroutine, signature
from reprlib import Repr
from typing import TYPE_CHECKING, Any, TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.summary import PassError
from hpc.autoscale.ccbindings.pacing import LONGEST_ASKED
from hpc.autoscale.errors import AutoscaleError, one_line, one_line_and_where, while_doing
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.plaintext import shorten

if TYPE_CHECKING:
    from hpc.autoscale.journal.recording import PassRecorder

T = TypeVar("T")

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 100


EXPECTED_NODES = "expected a list of nodes to be returned"


class HookError(AutoscaleError):
    """A driver answered something that is of no use; the text names driver, hook and
    expectation."""


@contextmanager
def without_exit(doing: str) -> Iterator[None]:
    """A context in which code that is not ours cannot end the process: HookError where it calls
    `sys.exit`, and where it lets the end of a coroutine or a generator out. `doing`: what is being
    done.

    A handler of signals that calls `sys.exit`, whoever has made it, ends the process, and so does
    whatever else is no Exception, such as KeyboardInterrupt.
    """
    try:
        yield
    except SystemExit as ended:
        if _is_by_signal(ended):
            raise
        raise HookError(f"{doing}: it called sys.exit({ended.code!r})") from ended
    except BaseException as ended:
        if not _is_within(ended):
            raise
        raise HookError(f"{doing}: {one_line(ended)}") from ended


@contextmanager
def calling(hook: str) -> Iterator[None]:
    """A context in which a hook is called, as `without_exit`. What it raises names the driver and
    the hook, if it says nothing of itself, as a KeyError does not. `hook`: both, as `name_of` has
    them."""
    try:
        with without_exit(hook):
            yield
    except Exception as error:
        while_doing(error, hook)
        raise


def _is_within(error: BaseException) -> bool:
    """Whether an error ends a coroutine or a generator, and is for whoever runs that: nobody who
    has called a function can have sent it."""
    known = sys.modules.get("asyncio.exceptions")  # where nobody has imported it, nobody raises it
    cancelled = (known.CancelledError,) if known is not None else ()
    return isinstance(error, (GeneratorExit, *cancelled))


def _is_by_signal(error: BaseException) -> bool:
    """Whether an error comes out of a handler of signals, which interrupts whatever runs."""
    handlers = filter(callable, map(signal.getsignal, signal.valid_signals()))
    known = {getattr(_function_of(each), "__code__", None) for each in handlers}
    return any(frame.f_code in known for frame, _ in traceback.walk_tb(error.__traceback__))


def _function_of(handler: Any) -> Any:
    """What is run of a function, a method, a partial one, or an object that can be called."""
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler if isroutine(handler) else handler.__call__, "__func__", handler)


def _retry_after(error: Exception | str) -> float | None:
    """After how many seconds to come back, as an error says it; None of one that does not. Errors
    of a driver's own libraries may have anything of that name."""
    try:
        found = getattr(error, "retry_after", None)
    except Exception:  # noqa: BLE001 - nothing was said
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    return float(found) if 0 <= found <= LONGEST_ASKED else None


class Faults:
    """What went wrong so far, and notes about what is odd. Errors of a `fatal` type are not kept
    but go on up. `recorder`: who hears of hooks before they are called."""

    def __init__(
        self, fatal: tuple[type[Exception], ...] = (), recorder: PassRecorder | None = None
    ) -> None:
        self.found: list[PassError] = []
        self.notes: list[str] = []
        self._fatal = fatal
        self._recorder = recorder

    def add(self, phase: str, error: Exception | str) -> None:
        """Keep an error, and log it; the stack trace only at debug level. The same one again is
        kept once."""
        message = error if isinstance(error, str) else one_line_and_where(error, phase)
        found = PassError(phase, message, _retry_after(error))
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

    def nodes(self, phase: str, driver: object, name: str, nodes: list[Node]) -> list[Node]:
        """Those of the nodes that the hook of that name returned; none after an error.

        Whatever else it returned is noted: it is not acted on. A driver may have one function for
        several of its hooks, so that which one is meant cannot be asked of the function.
        """
        hook = f"{driver}.{name}"

        def returned() -> list[Node]:
            answer = self._called(hook, getattr(driver, name), name, list(nodes))
            if answer is None:
                self.note(f"{hook}: {EXPECTED_NODES}, found None, taken for none of them")
                return []
            return self._given(hook, checked_nodes(hook, answer), nodes)

        return self.guard(phase, returned) or []

    def _called(
        self, hook: str, method: Callable[[list[Node]], object], name: str, nodes: list[Node]
    ) -> object:
        """What a hook answers, which the recorder hears by its name."""
        recorder = self._recorder
        if recorder is None:
            with calling(hook):
                return at_once(method(nodes))
        given = list(nodes)
        recorder.heard_hook(name, given)
        try:
            with recorder.outside(), calling(hook):
                answer = at_once(method(nodes))
        except Exception as error:
            recorder.heard_answer(name, given, error)
            raise
        recorder.heard_answer(name, given, answer)
        return answer

    def _given(self, hook: str, found: list[Node], given: list[Node]) -> list[Node]:
        """Those of the nodes that were given; a copy of one stands for it."""
        exactly = set(map(id, given))
        if all(id(node) in exactly for node in found):
            return found  # as most drivers do
        own = set(map(key_of, given))
        hostnames = {node.hostname for node in given if node.hostname}

        def is_given(node: Node) -> bool:
            key = key_of(node)
            # the scheduler's own have no NodeId
            is_host = not isinstance(key, str) and has_name(node)
            return key in own or (is_host and node.hostname in hostnames)

        others = [node for node in found if not is_given(node)]
        if others:
            self.note(
                f"{hook}: expected nodes of those that were given to be returned, found"
                f" {shorten(str(node.name) for node in others)}: left alone"
            )
        return list(filter(is_given, found))

    def note(self, text: str) -> None:
        """Keep what is worth knowing and no error, once, and log it."""
        if text not in self.notes:
            self.notes.append(text)
            logging.warning("%s", text)


def at_once(answer: T) -> T | list[Any]:
    """All that a hook answers, while it is called, since a generator runs the driver's code later,
    and once: a list of anything that is one of several. What is nothing of the kind stays."""
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping):
        return list(answer)
    return answer


def checked_nodes(hook: str, answer: object) -> list[Node]:
    """The nodes that a driver's hook returned. HookError for anything else. `hook`: as for
    `calling`."""
    nodes = at_once(answer)
    if not isinstance(nodes, list):
        raise HookError(f"{hook}: {EXPECTED_NODES}, found {short(answer)}")
    for node in nodes:
        if not isinstance(node, Node):
            raise HookError(f"{hook}: {EXPECTED_NODES}, found {short(node)} among them")
    return nodes


def has_name(host: Node) -> bool:
    """Whether a host has a name; a driver may have made it of anything."""
    given: object = host.fqdn
    return isinstance(given, str) and bool(given)


def name_of(hook: Callable[..., object]) -> str:
    """The driver and its method, as in `MyDriver(name).handle_draining`."""
    driver = getattr(hook, "__self__", None)
    name = getattr(hook, "__name__", repr(hook))
    return name if driver is None else f"{driver}.{name}"


def short(answer: object) -> str:
    """Whatever a hook returned, on one line of bearable length."""
    return " ".join(_SHORT.repr(answer).split())


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
