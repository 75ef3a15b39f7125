"""What the constraints of jobs mean, worked out once for each distinct text.

Thousands of queued jobs say the same, so what was understood of one is kept for all that say it, as
long as the parsers stay the same. Called by `job` for each job that is made.
"""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from marshal import dumps, loads
from typing import Any

from hpc.autoscale.node.constraints import (
    Compiled,
    compile_constraints,
    compile_expressions,
    get_constraints,
    is_plain,
    json_of,
)
from hpc.autoscale.node.constraints.compiled import Source
from hpc.autoscale.node.constraints.parse import CUSTOM_PARSERS
from hpc.autoscale.packing.shape import freeze

_MOST_KNOWN = 10_000

Parsers = tuple[tuple[str, Any], ...]
"""What is registered for constraints of integrations: a text means the same as long as these are
the same."""


def understand(constraints: Any) -> Compiled:
    """What JSON, a constraint, or a list of either means. ConstraintError where something cannot be
    understood.

    What has a `source` is shared by all jobs that say the same; without one, it belongs to the one
    job.
    """
    if constraints.__class__ is not list:
        constraints = _as_list(constraints)
    parsers = tuple(CUSTOM_PARSERS.items()) if CUSTOM_PARSERS else ()
    # values through and through are told apart as bytes; this form has no references, so that equal
    # values are equal
    try:
        text = dumps(constraints, 2)
    except ValueError:  # an object
        if not is_plain(constraints):
            # told apart by their address, which may be used again
            return compile_constraints(get_constraints(constraints))
        shared = _of_values(_Values(constraints), parsers)
        return shared or compile_constraints(get_constraints(deepcopy(constraints)))
    shared = _of_text(text, parsers)
    return shared or compile_constraints(get_constraints(loads(text)))


@lru_cache(_MOST_KNOWN)
def _of_text(text: bytes, parsers: Parsers) -> Compiled | None:
    """What JSON as `marshal` writes it means to every job; None where each job must have its
    own."""
    return compile_expressions(loads(text), text) or _shared(text)


@lru_cache(_MOST_KNOWN)
def _of_values(values: _Values, parsers: Parsers) -> Compiled | None:
    """As `_of_text`, for values that are not plain JSON."""
    return _shared(deepcopy(values.constraints))


def _shared(source: Source) -> Compiled | None:
    compiled = compile_constraints(get_constraints(json_of(source)))
    if not compiled.is_common:
        return None
    compiled.source = source
    return compiled


class _Values:
    """Constraints that are values through and through, equal to others that say the same."""

    __slots__ = ("_key", "constraints")

    def __init__(self, constraints: list[Any]) -> None:
        self.constraints = constraints
        self._key = freeze(constraints)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Values) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _as_list(constraints: Any) -> list[Any]:
    if constraints is None:
        return []
    return list(constraints) if isinstance(constraints, (list, tuple)) else [constraints]
