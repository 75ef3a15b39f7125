"""What the constraints of jobs mean, worked out once for each distinct text.

Thousands of queued jobs say the same, so what was understood of one is kept for all that say it, as long as the parsers
stay the same. Called by `job` for each job that is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from marshal import dumps, loads
from typing import Any

from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node.constraints import (
    Compiled,
    compile_constraints,
    compile_resources,
    get_constraints,
)
from hpc.autoscale.node.constraints.parse import _CUSTOM_PARSERS
from hpc.autoscale.packing.shape import freeze

_MOST_KNOWN = 10_000


class Understood:
    """Constraints as the engine takes them, and a copy of their JSON to make the constraints of one job of. `is_shared`:
    it is that of all jobs that say the same; otherwise `compiled.constraints` belong to the one job.
    """

    __slots__ = ("compiled", "is_shared", "source")

    def __init__(self, compiled: Compiled, source: list[Any], is_shared: bool) -> None:
        self.compiled = compiled
        self.source = source
        self.is_shared = is_shared


_known: dict[object, Understood] = {}
_known_with: dict[str, Any] = {}


def understand(constraints: Any) -> Understood:
    """What JSON, a constraint, or a list of either means. ConstraintError where something cannot be understood."""
    if constraints.__class__ is not list:
        constraints = _as_list(constraints)
    if _known_with != _CUSTOM_PARSERS or len(_known) > _MOST_KNOWN:
        _known.clear()
        _known_with.clear()
        _known_with.update(_CUSTOM_PARSERS)
    # values through and through are told apart as bytes; this form has no references, so that equal values are equal
    try:
        key: object = dumps(constraints, 2)
    except ValueError:  # an object
        key = freeze(constraints)
    return _known.get(key) or _learn(constraints, key)


def _learn(constraints: list[Any], key: object) -> Understood:
    source = None
    if isinstance(key, bytes):
        source = loads(key)
    elif _is_plain(constraints):
        source = deepcopy(constraints)
    if source is None:  # objects are told apart by their address, which may be used again
        return Understood(compile_constraints(get_constraints(constraints)), [], False)
    compiled = compile_resources(source) or compile_constraints(get_constraints(source))
    understood = Understood(compiled, source, compiled.is_common)
    if understood.is_shared:
        _known[key] = understood
    return understood


def _is_plain(source: Any) -> bool:
    """Whether it is values through and through."""
    if isinstance(source, Mapping):
        return all(_is_plain(value) for value in source.values())
    if isinstance(source, (list, tuple)):
        return all(_is_plain(value) for value in source)
    return source is None or isinstance(source, (str, int, float, Size))


def _as_list(constraints: Any) -> list[Any]:
    if constraints is None:
        return []
    return list(constraints) if isinstance(constraints, (list, tuple)) else [constraints]
