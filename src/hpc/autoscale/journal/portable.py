"""Values of jobs and hosts as `marshal` can write them, so that they can be had again: by another
process, or as one object for all that are equal.

Texts, numbers, and tuples, lists and dictionaries of them are what they are. A tuple whose first
element is one of three marks stands for something else: a size, a list or dictionary with one in
it, or what a job needs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from marshal import dumps
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.job.job import Job, as_read
from hpc.autoscale.node.constraints.base import Compiled, json_of

_SIZE, _CONTAINER, _NEEDS = "\0size", "\0container", "\0needs"
_SIZES: dict[str, type[ht.Size]] = {kind.__name__: kind for kind in (ht.Size, ht.Memory)}
_ATOMS = frozenset((type(None), bool, int, float, str))


def portable(value: Any) -> Any:
    """The value, as `restored` takes it. ValueError for one with other objects in it."""
    kind: type[Any] = value.__class__
    if kind in _ATOMS:
        return value
    if kind is tuple:
        if value and value[0].__class__ is str and value[0][:1] == "\0":
            raise ValueError(f"expected no text that begins like a mark, found {value[0]!r}")
        return tuple(map(portable, value))
    if kind is dict or kind is list:
        try:
            dumps(value)
        except ValueError:
            items = chain.from_iterable(value.items()) if kind is dict else value
            return (_CONTAINER, kind.__name__, *map(portable, items))
        return value  # nothing in it has to be restored
    if kind is Compiled and value.source is not None:
        return (_NEEDS, portable(json_of(value.source)))
    name = kind.__name__
    if _SIZES.get(name) is kind:
        return (_SIZE, name, *value.parts)
    raise ValueError(f"expected texts, numbers and sizes, found {name}")


def restored(value: Any) -> Any:
    """What `portable` was given. What a job needs is the very object that a job has whose driver
    says the same."""
    if value.__class__ is not tuple:
        return value
    make = _MADE_OF.get(value[0]) if value and value[0].__class__ is str else None
    return tuple(map(restored, value)) if make is None else make(*value[1:])


def _container(kind: str, *items: Any) -> Any:
    every = map(restored, items)
    return list(every) if kind == "list" else dict(zip(every, every, strict=True))


def _needs(constraints: Any) -> Any:
    _, (needs, *_) = as_read(Job("any", restored(constraints)))
    return needs


def _size(kind: str, *parts: Any) -> ht.Size:
    return _SIZES[kind].of_parts(*parts)


_MADE_OF: dict[str, Callable[..., Any]] = {_SIZE: _size, _CONTAINER: _container, _NEEDS: _needs}
