"""What it means that a promise is broken, and the one way in which the kit asks a world for its
hosts.

A driver breaks a promise of `conformance`; a world breaks one of `SchedulerWorld`, whose author is
told so in the same way, and not by whatever the world raised. Used by `watching`, `stage` and the
checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from hpc.autoscale.errors import one_line
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.testing.world import Host, NotInThisWorld, SchedulerWorld, SelfStartingWorld

T = TypeVar("T")

_HOSTS_ANSWER = "an answer, also inside unreachable(), where only drivers get none"
_SETTLE_RETURNS = (
    "it to return, also inside unreachable(), where only drivers get no answer, and while a host"
    " is silent or its machine is down: such a host starts nothing, and is not to be waited for"
)


class BrokenPromise(AssertionError):
    """A driver, or a world, did not do what is counted on; the text says what was expected and what
    was found."""


def expect(holds: object, otherwise: str) -> None:
    """BrokenPromise with this text, unless it holds."""
    __tracebackhide__ = True
    if not holds:
        raise BrokenPromise(otherwise)


def hosts_of(world: SchedulerWorld) -> dict[str, Host]:
    """What the scheduler says of its hosts, by short names in lower case. BrokenPromise when the
    world does not say."""
    __tracebackhide__ = True
    found = _answer(world, world.hosts, _HOSTS_ANSWER)
    if not isinstance(found, Mapping) or not all(isinstance(h, Host) for h in found.values()):
        raise BrokenPromise(
            f"{_named(world, world.hosts)}: expected a Host for each name, found {found!r}"
        )
    return {short_name(name): host for name, host in found.items()}


def settle(world: SchedulerWorld) -> None:
    """Let a scheduler that starts tasks by itself start what it can. BrokenPromise when the world
    raises."""
    __tracebackhide__ = True
    if isinstance(world, SelfStartingWorld):
        _answer(world, world.settle, _SETTLE_RETURNS)


def _answer(world: SchedulerWorld, method: Callable[[], T], expected: str) -> T:
    __tracebackhide__ = True
    try:
        return method()
    except NotInThisWorld:
        raise
    except Exception as error:
        raise BrokenPromise(
            f"{_named(world, method)}: expected {expected}; found {one_line(error)}"
        ) from error


def _named(world: SchedulerWorld, method: Callable[..., object]) -> str:
    return f"{type(world).__name__}.{method.__name__}()"
