"""What can be wrong with a constraint, and where in the expression it stands.

All belong to `ConstraintError`; those for which the interface publishes another built-in type as well inherit that too.
Raised by the parser and by the constructors of the constraints; nothing else belongs here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hpc.autoscale.errors import AutoscaleError, ConstraintError


class MalformedConstraint(ConstraintError, AssertionError):
    """The wrong kind of container, or the wrong number of things in it."""


class UndefinedNodeProperty(ConstraintError, ValueError):
    """A `node.<name>` that is not one of QUERYABLE_PROPERTIES."""

    def __str__(self) -> str:
        return f"UndefinedNodeProperty: {super().__str__()}"


class InvalidAmount(ConstraintError, ValueError):
    """An amount that cannot be taken: negative, infinite or not a number."""


class NothingLeft(AutoscaleError):
    """`do_decrement` was called on a node that does not have what the constraint takes."""


class AmbiguousChoice(AutoscaleError, AssertionError):
    """`do_decrement` was called on an exclusive choice of which several alternatives fit."""


def join_path(outer: str, inner: str) -> str:
    """The path of what stands at `inner` within `outer`: `or[1]` and `ncpus` give `or[1].ncpus`."""
    if not outer or not inner or inner.startswith("["):
        return outer + inner
    return f"{outer}.{inner}"


@contextmanager
def located(path: str) -> Iterator[None]:
    """Errors of something that does not know where it stands are errors at `path`."""
    try:
        yield
    except ConstraintError as e:
        if e.path:
            raise
        raise type(e)(e.expected, e.found, path, e.hint) from None
