"""What the constraints of jobs mean, worked out once for each distinct text.

Thousands of queued jobs say the same, so what was understood of one is kept for all that say it, as
long as the parsers stay the same. Called by `job` for each job that is made.
"""

from __future__ import annotations

from copy import deepcopy
from marshal import dumps
from typing import Any

from hpc.autoscale.node.constraints import (
    Compiled,
    compile_constraints,
    compile_expressions,
    get_constraints,
    is_plain,
    json_of,
)
from hpc.autoscale.node.constraints.parse import _CUSTOM_PARSERS
from hpc.autoscale.packing.shape import freeze

_MOST_KNOWN = 10_000

_known: dict[object, Compiled] = {}
_known_with: dict[str, Any] = {}


def understand(constraints: Any) -> Compiled:
    """What JSON, a constraint, or a list of either means. ConstraintError where something cannot be
    understood.

    What has a `source` is shared by all jobs that say the same; without one, it belongs to the one
    job.
    """
    if constraints.__class__ is not list:
        constraints = _as_list(constraints)
    if _known_with != _CUSTOM_PARSERS:
        _known.clear()
        _known_with.clear()
        _known_with.update(_CUSTOM_PARSERS)
    # values through and through are told apart as bytes; this form has no references, so that equal
    # values are equal
    try:
        text = dumps(constraints, 2)
    except ValueError:  # an object
        return _understand_objects(constraints)
    return _known.get(text) or _learn(text, constraints)


def _understand_objects(constraints: list[Any]) -> Compiled:
    """The same for constraints that are not plain JSON."""
    if not is_plain(constraints):
        # told apart by their address, which may be used again
        return compile_constraints(get_constraints(constraints))
    key = freeze(constraints)
    return _known.get(key) or _learn(key, constraints)


def _learn(key: object, constraints: list[Any]) -> Compiled:
    """What values mean, kept by `key` where that is the same for every job."""
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    compiled = compile_expressions(constraints, key) if isinstance(key, bytes) else None
    if compiled is None:
        source = key if isinstance(key, bytes) else deepcopy(constraints)
        compiled = compile_constraints(get_constraints(json_of(source)))
        if not compiled.is_common:
            return compiled
        compiled.source = source
    _known[key] = compiled
    return compiled


def _as_list(constraints: Any) -> list[Any]:
    if constraints is None:
        return []
    return list(constraints) if isinstance(constraints, (list, tuple)) else [constraints]
