"""What constraints count with, so that a trial leaves no trace in it.

That is what is in pools, and of a class of an integration also what it counts in attributes of its
own, in slots too, or of containers and objects of the same package that hang on them, as a quota
that many constraints share. The engine tries a demand in more than one place before it decides:
what was counted for places that were not taken is put back. Objects of other packages, such as a
connection, are left alone.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, MutableMapping
from types import MemberDescriptorType
from typing import Any

_OURS = "hpc"
_KINDS: tuple[Any, ...] = (dict, list, set, deque)
_CONTAINERS = (*_KINDS, Counter, OrderedDict, defaultdict)
# what hangs on a constraint may be as large as the scheduler's whole state
_MOST = 1000

State = list[tuple[Any, Any]]
"""Containers, and what was in each."""


class _Slots(MutableMapping[str, Any]):
    """What is in the slots of an object, by name, as its `__dict__` has other attributes."""

    def __init__(self, of: object) -> None:
        self.of = of
        every = (vars(kind) for kind in reversed(type(of).__mro__))
        own = (each for kind in every if kind.get("__slots__") for each in kind.items())
        self._slots = {name: a for name, a in own if isinstance(a, MemberDescriptorType)}

    def __getitem__(self, name: str) -> Any:
        try:
            return self._slots[name].__get__(self.of)
        except AttributeError as error:
            raise KeyError(name) from error

    def __setitem__(self, name: str, value: Any) -> None:
        self._slots[name].__set__(self.of, value)

    def __delitem__(self, name: str) -> None:
        self._slots[name].__delete__(self.of)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._slots if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def copy(self) -> dict[str, Any]:
        """What is in them now."""
        return dict(self)


def own_state(constraint: object) -> State:
    """What a constraint counts with now. Of one that holds more than anybody counts with, only
    pools, as far as they are not in what is so large."""
    package = _package_of(constraint)
    only_pools = package == _OURS
    found: dict[tuple[int, bool], tuple[Any, Any]] = {}
    waiting = deque(_attributes(constraint))
    room = _MOST
    while waiting:
        each = waiting.popleft()
        key = (id(each.of), True) if isinstance(each, _Slots) else (id(each), False)
        if key not in found:
            if len(each) >= room:
                only_pools = True
                continue
            room -= 1 + len(each)
            found[key] = each, (copy := _copied(each))
            # others may write to it meanwhile, as a thread of the integration
            waiting.extend(_inner(copy, package))
    kept = found.values()
    return [pair for pair in kept if _is_of_a_pool(pair[0])] if only_pools else list(kept)


def put_back(state: State) -> None:
    """Make everything what it was, in place; what did not change is not written to."""
    for target, was in state:
        if isinstance(target, dict | _Slots):
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


def _copied(container: Any) -> Any:
    """What is in a container, however a class of its own makes copies."""
    if isinstance(container, deque):
        return [*container]
    kind = next((each for each in _KINDS if isinstance(container, each)), type(container))
    return kind.copy(container)


def _attributes(value: object) -> list[Any]:
    """The attributes of an object, as mappings."""
    own = getattr(value, "__dict__", None)
    found: list[Any] = [own] if isinstance(own, dict) else []
    has_slots = any(vars(kind).get("__slots__") for kind in type(value).__mro__)
    return [*found, _Slots(value)] if has_slots else found


def _inner(container: Any, package: str) -> Iterator[Any]:
    """The containers in a container, and the attributes of the pools in it and of objects of a
    package, but of ours."""
    for value in container.values() if isinstance(container, dict) else container:
        if type(value) in _CONTAINERS:
            yield value
        elif isinstance(value, tuple):
            yield from _inner(value, package)
        elif isinstance(value, type):
            continue
        elif _package_of(value) == package != _OURS:
            if isinstance(value, _KINDS):
                yield value
            yield from _attributes(value)
        elif _is_of_a_pool(attributes := getattr(value, "__dict__", None)):
            yield attributes
