"""Results of asking for nodes, slots and buckets, and of holding constraints against them."""

import reprlib
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, Generic

from hpc.autoscale.errors import InvalidArgument, check_kinds
from hpc.autoscale.results.base import (
    HANDLERS,
    B,
    C,
    InvalidResultError,
    Later,
    N,
    Result,
    fire_result_handlers,
    made,
)


class AllocationResult(Result, Generic[N]):
    """Came of asking for nodes or slots.

    `nodes` are those that the slots were put on. `total_slots` is the number of slots, -1 when
    unknown; a failure may carry a number too. `where` names the cluster and the server that were
    asked, and is in the text of a failure. InvalidResultError (an AssertionError) for a success
    without nodes or without slots; nodes that are made later are not looked at.
    """

    def __init__(
        self,
        status: str,
        nodes: Later[N] = None,
        slots_allocated: int | None = None,
        reasons: Later[str] = None,
        where: str = "",
    ) -> None:
        Result.__init__(self, status, reasons)
        self.where = where
        if status == "success":
            if not nodes:
                raise InvalidResultError(
                    f"expected nodes in a successful allocation, found {nodes!r}"
                )
            if not slots_allocated or slots_allocated < 0:
                raise InvalidResultError(
                    "expected at least one slot in a successful allocation, "
                    f"found {slots_allocated!r}"
                )
        self._nodes = nodes
        self.total_slots = slots_allocated or -1
        if HANDLERS:
            fire_result_handlers(self)

    @property
    def nodes(self) -> list[N]:
        """The nodes that were found, in the order of first use; never None."""
        if not isinstance(self._nodes, list):
            self._nodes = made(self._nodes)
        return self._nodes

    @property
    def message(self) -> str:
        """`Allocated N slots on nodes=…`, or the reasons, one a line."""
        if self:
            return f"Allocated {self.total_slots} slots on nodes={[str(n) for n in self.nodes]}"
        return "\n".join(f"{self.where}: {r}" if self.where else r for r in self.reasons)

    def __str__(self) -> str:
        if self:
            names = [str(n) for n in self.nodes]
            return f"AllocationResult(status={self.status}, num_nodes={len(names)}, nodes={names})"
        where = f", where={self.where}" if self.where else ""
        return f"AllocationResult(status={self.status}, reason={self.reasons}{where})"


class MatchResult(Result, Generic[N]):
    """Came of putting tasks on one node; `total_slots` is how many fit, after a failure how many
    were asked for."""

    def __init__(
        self,
        status: str,
        node: N | Callable[[], N],
        slots: int,
        reasons: Later[str] = None,
    ) -> None:
        Result.__init__(self, status, reasons)
        self._node = node
        self.total_slots = slots
        if isinstance(reasons, list) and not all(isinstance(r, str) for r in reasons):
            raise InvalidResultError(f"expected reasons to be a list of texts, found {reasons!r}")
        if HANDLERS:
            fire_result_handlers(self)

    @property
    def node(self) -> N:
        """The node; one that was given as a function is made now."""
        if callable(self._node):
            self._node = self._node()
        return self._node

    def __str__(self) -> str:
        if self:
            return f"MatchResult(status={self.status}, node={self.node}, tasks={self.total_slots})"
        why = " AND ".join(self.reasons)
        return f"MatchResult(status={self.status}, node={self.node}, reason={why})"


class CandidatesResult(Result, Generic[B]):
    """Came of looking for buckets that might serve; `child_results` says of each other bucket why
    it cannot."""

    def __init__(
        self,
        status: str,
        candidates: list[B] | None = None,
        child_results: Later[Result] = None,
    ) -> None:
        Result.__init__(self, status)
        self.candidates = candidates or []
        self._child_results = child_results
        if HANDLERS:
            fire_result_handlers(self)

    @property
    def child_results(self) -> list[Result]:
        """One failed result for each bucket that was rejected."""
        if not isinstance(self._child_results, list):
            self._child_results = made(self._child_results)
        return self._child_results

    def _default_reasons(self) -> list[str]:
        return [str(child) for child in self.child_results]

    def __str__(self) -> str:
        if self:
            names = [str(c) for c in self.candidates]
            return f"CandidatesResult(status={self.status}, candidates={names})"
        why = list(islice(dict.fromkeys(self.reasons), 5))
        return f"CandidatesResult(status={self.status}, reason={why})"


class SatisfiedResult(Result, Generic[C, N]):
    """Came of holding one constraint against a node or a bucket.

    `int(result)` is the score, or 1 for success and 0 for failure when there is none. The score
    does not depend on the status: a failure keeps the default of 1.
    """

    def __init__(
        self,
        status: str,
        constraint: C | partial[C],
        node: N,
        reasons: Later[str] = None,
        score: int | None = 1,
    ) -> None:
        Result.__init__(self, status, reasons)
        self._constraint = constraint
        self.node = node
        self.score = score
        if HANDLERS:
            fire_result_handlers(self)

    @property
    def constraint(self) -> C:
        """The constraint; one that was given as a `partial` is found now."""
        if isinstance(self._constraint, partial):
            self._constraint = self._constraint()
        return self._constraint

    @constraint.setter
    def constraint(self, constraint: C) -> None:
        self._constraint = constraint

    def __int__(self) -> int:
        return int(bool(self)) if self.score is None else self.score

    def __str__(self) -> str:
        if self:
            return (
                f"SatisfiedResult(status={self.status}, node={self.node}, score={self.score}, "
                f"constraint={self.constraint})"
            )
        return (
            f"SatisfiedResult(status={self.status}, node={self.node}, reason={self.reasons}, "
            f"constraint={self.constraint})"
        )


class EarlyBailoutResult(Result, Generic[N]):
    """Came of asking a queue whether looking further is worth while."""

    def __init__(self, status: str, node: N | None = None, reasons: Later[str] = None) -> None:
        Result.__init__(self, status, reasons)
        self.node = node
        if HANDLERS:
            fire_result_handlers(self)

    def __str__(self) -> str:
        if self:
            return f"EarlyBailoutResult(status={self.status})"
        return f"EarlyBailoutResult(status={self.status}, node={self.node}, reason={self.reasons})"


# -- what constraints of integrations answer, held against what is published


def answer_of(constraint: Any, node: Any = None, bucket: Any = None) -> SatisfiedResult:
    """What a constraint says of a node, or of a bucket. InvalidResultError, which names the class
    of the constraint, for a refusal that is no result."""
    answer: Any
    if bucket is None:
        answer = constraint.satisfied_by_node(node)
    else:
        answer = constraint.satisfied_by_bucket(bucket)
    # reasons of a result are made when they are read, which takes long
    if answer or isinstance(answer, Result) or hasattr(answer, "reasons"):
        found: SatisfiedResult = answer
        return found
    method = "satisfied_by_node" if bucket is None else "satisfied_by_bucket"
    raise _odd(constraint, method, "a SatisfiedResult", answer)


def answers_of(constraints: Any, node: Any) -> list[SatisfiedResult]:
    """What each of a list of constraints says of a node. InvalidArgument for what is no list of
    constraints."""
    try:
        return [answer_of(constraint, node) for constraint in constraints]
    except (AttributeError, TypeError):
        check_kinds("decrement", Iterable, constraints=constraints)
        for constraint in constraints:
            _check_is_constraint(constraint, "satisfied_by_node")
        raise


def _check_is_constraint(constraint: object, method: str) -> None:
    if not hasattr(constraint, method):
        raise InvalidArgument(
            f"expected a constraint, as get_constraints makes them of JSON, found {constraint!r}"
        )


def space_of(constraint: Any, node: Any) -> int:
    """What `minimum_space` of a constraint says of a node. InvalidResultError for anything but a
    whole number."""
    space = constraint.minimum_space(node)
    if not isinstance(space, int):
        raise _odd(constraint, "minimum_space", "a whole number (-1: no opinion)", space)
    return space


def weights_of(constraint: Any, weights: list[tuple[B, float]]) -> list[tuple[B, float]]:
    """What `weight_buckets` of a constraint makes of buckets with their weights.
    InvalidResultError for anything but buckets with weights."""
    _check_is_constraint(constraint, "weight_buckets")
    given = constraint.weight_buckets(weights)
    try:
        found = [(bucket, weight) for bucket, weight in given]
        is_right = all(isinstance(weight, int | float) for _, weight in found)
    except (TypeError, ValueError):
        is_right = False
    if not is_right:
        raise _odd(constraint, "weight_buckets", "a list of (bucket, weight) pairs", given)
    return found


def is_any_preferred(constraints: Iterable[Any], buckets: Iterable[object]) -> bool:
    """Whether constraints make some of the buckets heavier than others, beside those that they give
    no weight."""
    weights = [(bucket, 1.0) for bucket in buckets]
    for constraint in constraints:
        weights = weights_of(constraint, weights)
    return len({weight for _, weight in weights if weight}) > 1


def _odd(constraint: object, method: str, expected: str, found: object) -> InvalidResultError:
    kind = type(constraint)
    return InvalidResultError(
        f"constraint {kind.__module__}.{kind.__qualname__}: expected {expected} from {method},"
        f" found {reprlib.repr(found)}"
    )
