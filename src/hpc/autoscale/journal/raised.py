"""Errors in terms of JSON, and made again: of the same type, with the same text and attributes.

What is made again is an error of this library, one of Python's own, or else one that only has the
name of the type: nothing is imported that a journal names.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpc.autoscale.ccbindings import errors as _of_clusters
from hpc.autoscale.errors import AutoscaleError, text_of

_PLAIN = (str, int, float, bool, type(None))


def as_json(error: BaseException) -> dict[str, Any]:
    """An error: its type, its arguments as far as they are plain, its text, and its attributes.
    `is_of_system`: whether it is an OSError, which types of others may be too."""
    return {
        "type": type(error).__name__,
        "is_of_system": isinstance(error, OSError),
        "text": text_of(error),
        "args": [each if isinstance(each, _PLAIN) else str(each) for each in _arguments(error)],
        "known": {k: v for k, v in vars(error).items() if isinstance(v, _PLAIN)},
    }


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """The arguments of an error; of one about files, their names are among them."""
    if not isinstance(error, OSError) or error.filename is None or len(error.args) != 2:
        return error.args
    more = () if error.filename2 is None else (None, error.filename2)
    return (*error.args, error.filename, *more)


def again(found: Mapping[str, Any]) -> Exception:
    """The error once more."""
    name, text = str(found["type"]), str(found["text"])
    kind = _known().get(name) or (OSError if found.get("is_of_system") else Exception)
    error = _made(kind, found["args"])
    if (type(error).__name__, text_of(error)) != (name, text):
        kind = type(name, (type(error),), {"__str__": lambda self: text})
        error = _made(kind, found["args"])
    vars(error).update(found["known"])
    return error


def _made(kind: type[Exception], arguments: Sequence[Any]) -> Exception:
    if issubclass(kind, OSError):
        return kind(*arguments)
    try:
        error = kind.__new__(kind)
    except TypeError:  # such as a group of errors, which is none without its members
        error = Exception()
    error.args = tuple(arguments)
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
