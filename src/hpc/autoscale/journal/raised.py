"""Errors in terms of JSON, and made again: of the same type, with the same text and attributes.

What is made again is an error of this library, one of Python's own, or else one that only has the
name of the type: nothing is imported that a journal names.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from typing import Any

from hpc.autoscale.ccbindings import errors as _of_clusters
from hpc.autoscale.errors import AutoscaleError, text_of

_PLAIN = (str, int, float, bool, type(None))


def as_json(error: BaseException) -> dict[str, Any]:
    """An error: its type, its arguments as far as they are plain, its text, and its attributes."""
    return {
        "type": type(error).__name__,
        "text": text_of(error),
        "args": [each if isinstance(each, _PLAIN) else str(each) for each in error.args],
        "known": {k: v for k, v in vars(error).items() if isinstance(v, _PLAIN)},
    }


def again(found: Mapping[str, Any]) -> Exception:
    """The error once more."""
    name = str(found["type"])
    kind = _known().get(name)
    error: Exception
    if kind is None:
        error = type(name, (Exception,), {})(str(found["text"]))
    elif issubclass(kind, OSError):
        error = kind(*found["args"])
    else:
        error = kind.__new__(kind)
        error.args = tuple(found["args"])
    vars(error).update(found["known"])
    return error


def _known() -> dict[str, type[Exception]]:
    """The types of errors that can be made again, by name."""
    found = {
        name: each
        for name, each in vars(builtins).items()
        if isinstance(each, type) and issubclass(each, Exception)
    }
    found.update((each.__name__, each) for each in _below(AutoscaleError))
    found[_of_clusters.CycleCloudError.__name__] = _of_clusters.CycleCloudError
    return found


def _below(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__.startswith("hpc.autoscale."):
            yield from _below(each)
