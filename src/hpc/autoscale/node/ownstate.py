"""What constraints count with, so that a trial leaves no trace in it.

That is what is in pools, and of a class of an integration also what it counts in attributes of its
own, or of containers and objects of the same package that hang on them, as a quota that many
constraints share. The engine tries a demand in more than one place before it decides: what was
counted for places that were not taken is put back. Objects of other packages, such as a connection,
are left alone.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

_OURS = "hpc"
_CONTAINERS = (dict, list, set, deque, Counter, OrderedDict, defaultdict)
# what hangs on a constraint may be as large as the scheduler's whole state
_MOST = 1000

State = list[tuple[Any, Any]]
"""Containers, and what was in each."""


def own_state(constraint: object) -> State:
    """What a constraint counts with now. Of one that holds more than anybody counts with, only
    pools, as far as they are not in what is so large."""
    package = _package_of(constraint)
    only_pools = package == _OURS
    found: dict[int, tuple[Any, Any]] = {}
    waiting: deque[Any] = deque([getattr(constraint, "__dict__", {})])
    room = _MOST
    while waiting:
        each = waiting.popleft()
        if id(each) not in found:
            if len(each) >= room:
                only_pools = True
                continue
            room -= 1 + len(each)
            found[id(each)] = each, (copy := each.copy())
            # others may write to it meanwhile, as a thread of the integration
            waiting.extend(_inner(copy, package))
    kept = found.values()
    return [pair for pair in kept if _is_of_a_pool(pair[0])] if only_pools else list(kept)


def put_back(state: State) -> None:
    """Make everything what it was, in place; what did not change is not written to."""
    for target, was in state:
        if isinstance(target, dict):
            for key in target.keys() - was.keys():
                del target[key]
            for key, value in was.items():
                if key not in target or target[key] is not value:
                    target[key] = value  # one by one: `update` of a Counter adds
        elif len(target) != len(was) or any(a is not b for a, b in zip(target, was, strict=True)):
            target.clear()
            target.update(was) if isinstance(target, set) else target.extend(was)


def _is_of_a_pool(attributes: Any) -> bool:
    return isinstance(attributes, dict) and "current_value" in attributes


def _package_of(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _inner(container: Any, package: str) -> Iterator[Any]:
    """The containers in a container, and the attributes of the pools in it and of objects of a
    package, but of ours."""
    for value in container.values() if isinstance(container, dict) else container:
        if type(value) in _CONTAINERS:
            yield value
        elif isinstance(value, tuple):
            yield from _inner(value, package)
        elif not isinstance(value, type):
            attributes = getattr(value, "__dict__", None)
            is_of_it = _package_of(value) == package != _OURS
            if isinstance(attributes, dict) and (is_of_it or _is_of_a_pool(attributes)):
                yield attributes
