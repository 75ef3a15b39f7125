"""The answers of the library, and who is told about them.

A result says what came of a question or an action: a status word, the nodes concerned, and reasons when it failed. Each
one is reported to the registered handlers as soon as it is made. Deciding anything does not belong here. Made by the
constraints, the node manager and the calculator; read by integrations, the command line and `DefaultContextHandler`.

Results are made by the million and rarely read, so ids, sentences and lists come into being when somebody reads them:
wherever a constructor takes reasons or nodes, it also takes a function without arguments that makes the list later.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from hpc.autoscale import hpclogging
from hpc.autoscale.errors import AutoscaleError

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket import NodeBucket
    from hpc.autoscale.node.constraints import NodeConstraint
    from hpc.autoscale.node.node import Node

T = TypeVar("T")
Later = list[T] | Callable[[], list[T]] | None
ResultHandler = Callable[["Result"], Any]
H = TypeVar("H", bound=ResultHandler)

HANDLERS: list[ResultHandler] = []
"""Who is told about results, in the order of registration. Always the same list."""

_log = hpclogging.getLogger(__name__)


class InvalidResultError(AutoscaleError, AssertionError):
    """A result was constructed that contradicts itself, such as a success without nodes."""


def register_result_handler(handler: H) -> H:
    """From now on call `handler(result)` for each result that is made; returns the handler."""
    HANDLERS.append(handler)
    return handler


def unregister_result_handler(handler: H) -> H | None:
    """Stop calling this handler; returns it, or None when it was not registered."""
    if handler not in HANDLERS:
        return None
    HANDLERS.remove(handler)
    return handler


def unregister_all_result_handlers() -> None:
    """Stop calling anybody."""
    HANDLERS.clear()


@contextmanager
def muted() -> Iterator[None]:
    """Results that are made meanwhile are told to nobody: for trying things out."""
    handlers = HANDLERS[:]
    HANDLERS.clear()
    try:
        yield
    finally:
        HANDLERS[:0] = handlers


def fire_result_handlers(result: "Result") -> None:
    """Call each handler with the result; what a handler raises reaches whoever made the result."""
    if len(HANDLERS) == 1:
        HANDLERS[0](result)
        return
    for handler in tuple(HANDLERS):
        handler(result)


def _made(later: Later[T]) -> list[T]:
    if later is None:
        return []
    made = later() if callable(later) else later
    return made if isinstance(made, list) else list(made)


class Result(ABC):
    """What every answer has: a status word, reasons, an id and a sentence. True when the status is "success"."""

    def __init__(self, status: str, reasons: Later[str] = None) -> None:
        self.status = status
        self._reasons = reasons
        self._result_id: str | None = None

    @property
    def reasons(self) -> list[str]:
        """Why it did not succeed, one sentence each; empty when there is nothing to say."""
        if not isinstance(self._reasons, list):
            later = self._default_reasons if self._reasons is None else self._reasons
            self._reasons = _made(later)
        return self._reasons

    @reasons.setter
    def reasons(self, reasons: Later[str]) -> None:
        self._reasons = reasons

    def _default_reasons(self) -> list[str]:
        """The reasons of a result that was given none; called at most once."""
        return []

    @property
    def result_id(self) -> str:
        """A unique id of this result."""
        if self._result_id is None:
            # asks the platform when imported, and few results are asked for their id
            from uuid import uuid4

            self._result_id = str(uuid4())
        return self._result_id

    @property
    def message(self) -> str:
        """The result as a sentence for people."""
        return str(self)

    def __bool__(self) -> bool:
        return self.status == "success"

    @abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return str(self)


class AllocationResult(Result):
    """Came of asking for nodes or slots.

    `nodes` are those that the slots were put on. `total_slots` is the number of slots, -1 when unknown; a failure may
    carry a number too. InvalidResultError (an AssertionError) for a success without nodes or without slots; nodes that
    are made later are not looked at.
    """

    def __init__(
        self,
        status: str,
        nodes: "Later[Node]" = None,
        slots_allocated: int | None = None,
        reasons: Later[str] = None,
    ) -> None:
        Result.__init__(self, status, reasons)
        if status == "success":
            if not nodes:
                raise InvalidResultError(
                    f"expected nodes in a successful allocation, found {nodes!r}"
                )
            if not slots_allocated or slots_allocated < 0:
                raise InvalidResultError(
                    f"expected at least one slot in a successful allocation, found {slots_allocated!r}"
                )
        self._nodes = nodes
        self.total_slots = slots_allocated or -1
        if HANDLERS:
            fire_result_handlers(self)

    @property
    def nodes(self) -> "list[Node]":
        """The nodes that were found, in the order of first use; never None."""
        if not isinstance(self._nodes, list):
            self._nodes = _made(self._nodes)
        return self._nodes

    @property
    def message(self) -> str:
        """`Allocated N slots on nodes=…`, or the reasons, one a line."""
        if self:
            return f"Allocated {self.total_slots} slots on nodes={[str(n) for n in self.nodes]}"
        return "\n".join(self.reasons)

    def __str__(self) -> str:
        if self:
            names = [str(n) for n in self.nodes]
            return f"AllocationResult(status={self.status}, num_nodes={len(names)}, nodes={names})"
        return f"AllocationResult(status={self.status}, reason={self.reasons})"


class MatchResult(Result):
    """Came of putting tasks on one node; `total_slots` is how many fit, after a failure how many were asked for."""

    def __init__(
        self,
        status: str,
        node: "Node | Callable[[], Node]",
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
    def node(self) -> "Node":
        """The node; one that was given as a function is made now."""
        if callable(self._node):
            self._node = self._node()
        return self._node

    def __str__(self) -> str:
        if self:
            return f"MatchResult(status={self.status}, node={self.node}, tasks={self.total_slots})"
        why = " AND ".join(self.reasons)
        return f"MatchResult(status={self.status}, node={self.node}, reason={why})"


class CandidatesResult(Result):
    """Came of looking for buckets that might serve; `child_results` says of each other bucket why it cannot."""

    def __init__(
        self,
        status: str,
        candidates: "list[NodeBucket] | None" = None,
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
            self._child_results = _made(self._child_results)
        return self._child_results

    def _default_reasons(self) -> list[str]:
        return [str(child) for child in self.child_results]

    def __str__(self) -> str:
        if self:
            names = [str(c) for c in self.candidates]
            return f"CandidatesResult(status={self.status}, candidates={names})"
        why = list(islice(dict.fromkeys(self.reasons), 5))
        return f"CandidatesResult(status={self.status}, reason={why})"


class SatisfiedResult(Result):
    """Came of holding one constraint against a node or a bucket.

    `int(result)` is the score, or 1 for success and 0 for failure when there is none. The score does not depend on
    the status: a failure keeps the default of 1.
    """

    def __init__(
        self,
        status: str,
        constraint: "NodeConstraint",
        node: "Node | NodeBucket",
        reasons: Later[str] = None,
        score: int | None = 1,
    ) -> None:
        Result.__init__(self, status, reasons)
        self.constraint = constraint
        self.node = node
        self.score = score
        if HANDLERS:
            fire_result_handlers(self)

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


class NodeOperationResult(Result):
    """Came of asking the cluster to do something with nodes; `nodes` is None when there was nothing to do."""

    def __init__(
        self,
        status: str,
        operation_id: str,
        request_ids: list[str] | None,
        nodes: "Later[Node]" = None,
        reasons: Later[str] = None,
    ) -> None:
        Result.__init__(self, status, reasons)
        self.operation_id = operation_id
        self.request_ids = request_ids
        self._nodes = nodes
        if HANDLERS:
            fire_result_handlers(self)

    @property
    def nodes(self) -> "list[Node] | None":
        """The nodes that the cluster accepted the operation for, or None."""
        if callable(self._nodes):
            self._nodes = self._nodes()
        return self._nodes

    def __str__(self) -> str:
        name = type(self).__name__
        if self:
            names = [str(n) for n in self.nodes or []]
            return f"{name}(status={self.status}, nodes={names})"
        return f"{name}(status={self.status}, reason={self.reasons})"


class BootupResult(NodeOperationResult):
    """Nodes were created or started."""


class DeallocateResult(NodeOperationResult):
    """Nodes were deallocated."""


class DeleteResult(NodeOperationResult):
    """Nodes were deleted."""


class RemoveResult(NodeOperationResult):
    """Nodes were removed."""


class ShutdownResult(NodeOperationResult):
    """Nodes were shut down."""


class StartResult(NodeOperationResult):
    """Nodes were started."""


class TerminateResult(NodeOperationResult):
    """Nodes were terminated."""


class ReimageResult(NodeOperationResult):
    """Nodes were reimaged."""


class RestartResult(NodeOperationResult):
    """Nodes were restarted."""


class EarlyBailoutResult(Result):
    """Came of asking a queue whether looking further is worth while."""

    def __init__(self, status: str, node: "Node | None" = None, reasons: Later[str] = None) -> None:
        Result.__init__(self, status, reasons)
        self.node = node
        if HANDLERS:
            fire_result_handlers(self)

    def __str__(self) -> str:
        if self:
            return f"EarlyBailoutResult(status={self.status})"
        return f"EarlyBailoutResult(status={self.status}, node={self.node}, reason={self.reasons})"


class ResultsHandler(ABC):
    """A handler of results that is an object."""

    @abstractmethod
    def __call__(self, result: Result) -> None: ...


class DefaultContextHandler(ResultsHandler):
    """Files results under whatever is being worked on, and says so in the log and on the nodes.

    `by_context` maps each context to its results in order. So that a process that runs for weeks does not grow, only
    the newest `max_contexts` contexts stay, and when one of them has more than twice `max_results` results, it is cut
    back to `max_results`: failures stay rather than successes, and newer ones rather than older ones. A result with nodes adds the context to the set `node.metadata["contexts"]` of each.
    """

    def __init__(self, ctx: Hashable, max_results: int = 1000, max_contexts: int = 100_000) -> None:
        self.by_context: dict[Hashable, list[Result]] = {}
        self.max_results = max_results
        self.max_contexts = max_contexts
        self.set_context(ctx)

    def set_context(self, ctx: Hashable, ctx_str: str | None = None) -> None:
        """File what comes from now on under `ctx`; the log shows `ctx_str`, or `ctx` as text."""
        self.ctx = ctx
        hpclogging.set_context(ctx_str or str(ctx))

    def __call__(self, result: Result) -> None:
        if _log.isEnabledFor(hpclogging.DEBUG):
            _log.debug("%s: %s", self.ctx, result)
        results = self.by_context.setdefault(self.ctx, [])
        results.append(result)
        if len(results) > 2 * self.max_results:
            self._forget_some(results)
        if len(self.by_context) > self.max_contexts:
            del self.by_context[next(iter(self.by_context))]
        for node in getattr(result, "nodes", None) or ():
            node.metadata.setdefault("contexts", set()).add(self.ctx)

    def _forget_some(self, results: list[Result]) -> None:
        """Shorten the list in place to `max_results`, keeping the order of what stays."""
        by_worth = sorted(range(len(results)), key=lambda i: (bool(results[i]), -i))
        kept = sorted(by_worth[: self.max_results])
        results[:] = [results[i] for i in kept]
