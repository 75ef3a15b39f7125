"""Several constraints that must all hold, sorted by who can answer for them.

Most become one expression of the engine. Constraints that draw on what all nodes share are
`pooled`. The rest is opaque: only its own methods know. Called once for each distinct list of
constraints; the engine works with the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from marshal import loads
from typing import TYPE_CHECKING, Any

from hpc.autoscale.node.constraints.declared import is_declared
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import AnyNode, Expr

if TYPE_CHECKING:
    from hpc.autoscale.node.constraints.base import NodeConstraint
    from hpc.autoscale.node.constraints.shared import SharedConstraint


Source = bytes | list[Any]
"""JSON as `marshal` writes it, which takes the least room, or as a list that nobody changes."""


def json_of(source: Source) -> list[Any]:
    """The JSON itself."""
    return loads(source) if isinstance(source, bytes) else source


class Compiled:
    """A list of constraints as the engine uses it; together `parts`, `pooled` and `opaque` say what
    `constraints` say.

    `parts` must all hold. `opaque` is in the order of the list. `source`: what this is made of,
    where every job that says so may use it. Where nothing else is given, the constraints are made
    when they are first asked for.
    """

    __slots__ = ("_constraints", "_expr", "opaque", "parts", "pooled", "source")

    def __init__(
        self,
        parts: tuple[Expr, ...] = (),
        constraints: tuple[NodeConstraint, ...] | None = None,
        source: Source | None = None,
    ) -> None:
        self.parts = parts
        self.pooled: tuple[SharedConstraint, ...] = ()
        self.opaque: tuple[NodeConstraint, ...] = ()
        self.source = source
        self._constraints = constraints
        self._expr: Expr | None = None

    @property
    def expr(self) -> Expr:
        """All parts as one; made when it is first asked for, which for a job that fits nowhere is
        never."""
        if self._expr is None:
            self._expr = self.parts[0] if len(self.parts) == 1 else AllOf(self.parts)
        return self._expr

    @property
    def constraints(self) -> tuple[NodeConstraint, ...]:
        """The constraints themselves."""
        if self._constraints is None:
            self._constraints = tuple(self.made_anew())
        return self._constraints

    def made_anew(self) -> list[NodeConstraint]:
        """The same constraints once more, of the source: nobody else has them."""
        # parsing makes constraints, which are compiled here
        from hpc.autoscale.node.constraints.parse import get_constraints

        return get_constraints(json_of(self.source or []))

    @property
    def is_common(self) -> bool:
        """Whether it does for every job that says the same: all are expressions, or declare what
        they read."""
        return not self.pooled and all(map(is_declared, self.opaque))


def conjunction(constraints: Sequence[NodeConstraint]) -> Compiled:
    """Constraints that must all hold, sorted; those inside an `And` count as if they stood in the
    list itself."""
    compiled = Compiled((), tuple(constraints))
    for constraint in constraints:
        constraint.join(compiled)
    return compiled


def compile_constraints(constraints: Sequence[NodeConstraint]) -> Compiled:
    """A job's constraints, sorted. Without any, the job asks for one slot per node."""
    return conjunction(constraints) if constraints else Compiled((AnyNode(),), ())
