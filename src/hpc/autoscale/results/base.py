"""What every result has, and who is told when one is made. Nothing here knows what a result is
about."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from hpc.autoscale.errors import AutoscaleError, InvalidArgument
from hpc.autoscale.plaintext import on_one_line

T = TypeVar("T")
Later = list[T] | Callable[[], list[T]] | None
ResultHandler = Callable[["Result"], Any]
H = TypeVar("H", bound=ResultHandler)

# What a result is about is above this package: a node, a bucket, a constraint. It is Any where
# nobody says which.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    N = TypeVarWithDefault("N", default=Any)
    B = TypeVarWithDefault("B", default=Any)
    C = TypeVarWithDefault("C", default=Any)
else:
    N, B, C = TypeVar("N"), TypeVar("B"), TypeVar("C")

HANDLERS: list[ResultHandler] = []
"""Who is told about results, in the order of registration. Always the same list."""


class InvalidResultError(AutoscaleError, AssertionError):
    """A result was constructed that contradicts itself, such as a success without nodes."""


def register_result_handler(handler: H) -> H:
    """From now on call `handler(result)` for each result that is made; returns the handler.
    InvalidArgument for what cannot be called."""
    if not callable(handler):
        raise InvalidArgument(f"expected a handler to call with each result, found {handler!r}")
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


class _Muted:
    # of each job that handlers hear of there is one; a generator takes three times as long
    __slots__ = ("_handlers",)

    def __enter__(self) -> None:
        self._handlers = HANDLERS[:]
        HANDLERS.clear()

    def __exit__(self, *_: object) -> None:
        HANDLERS[:0] = self._handlers


def muted() -> AbstractContextManager[None, None]:
    """Results that are made meanwhile are told to nobody: for trying things out."""
    return _Muted()


def _is_harmless(reason: object) -> bool:
    return not isinstance(reason, str) or reason.isprintable()


def fire_result_handlers(result: "Result") -> None:
    """Call each handler with the result; what a handler raises reaches whoever made the result."""
    if len(HANDLERS) == 1:
        HANDLERS[0](result)
        return
    for handler in tuple(HANDLERS):
        handler(result)


def made(later: Later[T]) -> list[T]:
    """The list, made now if it was to be made later."""
    if later is None:
        return []
    made = later() if callable(later) else later
    return made if isinstance(made, list) else list(made)


class Report:
    """What handlers are told of one demand: results that are made when somebody reads them, by
    `make`, which is called once at most."""

    __slots__ = ("_made_by", "_results")

    def __init__(self, make: "Callable[[], Sequence[Result]]" = tuple) -> None:
        self._made_by = make
        self._results: Sequence[Result] | None = None

    @property
    def results(self) -> "Sequence[Result]":
        """The results, in the order in which handlers hear them. Making them is told to nobody."""
        if self._results is None:
            with muted():
                self._results = self._make()
        return self._results

    def _make(self) -> "Sequence[Result]":
        return self._made_by()

    def nodes(self) -> "Sequence[Any]":
        """The nodes that took the demand, where a result of the report has them."""
        return ()

    def __bool__(self) -> bool:
        """False where something was refused."""
        return False


def tell(report: Report) -> None:
    """Call each handler with each result of a report; one with a method `hear_report` is given the
    report as it is."""
    for handler in tuple(HANDLERS):
        hear_report = getattr(type(handler), "hear_report", None)
        if hear_report is not None:
            hear_report(handler, report)
            continue
        for result in report.results:
            handler(result)


def settle() -> None:
    """Jobs have been placed, and whoever asked for that goes on: handlers with a method `settle` do
    what they put off."""
    for handler in tuple(HANDLERS):
        settle_it = getattr(type(handler), "settle", None)
        if settle_it is not None:
            settle_it(handler)


class Result(ABC):
    """What every answer has: a status word, reasons, an id and a sentence. True when the status is
    "success"."""

    def __init__(self, status: str, reasons: Later[str] = None) -> None:
        self.status = status
        self._reasons = reasons
        self._result_id: str | None = None

    @property
    def reasons(self) -> list[str]:
        """Why it did not succeed, one sentence each; empty when there is nothing to say.

        Each is one line that acts on no terminal, whatever a server has said.
        """
        if not isinstance(self._reasons, list):
            later = self._default_reasons if self._reasons is None else self._reasons
            self._reasons = [later] if isinstance(later, str) else made(later)
        if not all(map(_is_harmless, self._reasons)):
            self._reasons[:] = map(on_one_line, self._reasons)
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


def why_failed(result: Result) -> str:
    """The reasons of a result that is no success, as a part of a sentence."""
    return "; ".join(result.reasons) or result.status
