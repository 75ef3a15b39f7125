"""Changing something on a server whose reply may get lost, exactly once.

The server carries out one request id once, and can be asked what it did for one. So after a lost
reply it is asked, and only what it has never heard of is sent again, with the same id. `clusters`
builds the mutations; what becomes of a lost reply's result is `recovery`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings import errors
from hpc.autoscale.ccbindings.evidence import answers
from hpc.autoscale.ccbindings.models import NodeList
from hpc.autoscale.ccbindings.pacing import warn_of_try
from hpc.autoscale.ccbindings.replies import Reply
from hpc.autoscale.ccbindings.session import TRANSIENT, ResponseStatus, Session

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """How to find out what the server did for a request id.

    `ask(attempts)` lists the nodes of the operation and raises OperationNotFound when there is
    none; `recover` makes of them the result that the lost reply would have had.
    """

    request_id: str
    ask: Callable[[int], NodeList]
    recover: Callable[[NodeList], Any]


@dataclass(frozen=True)
class FailedAttempt:
    """One attempt that brought no result.

    `in_doubt` is True when the server may have carried it out all the same, `lingers` when it may
    do so even later, because no reply of the server's own has come back yet.
    """

    error: errors.CycleCloudError
    in_doubt: bool
    lingers: bool = False
    # the server's own waiting time will be kept before the next attempt, so that no back-off is
    # needed
    will_wait: bool = False


@dataclass(frozen=True)
class Mutation(Generic[T]):
    """A POST to `path`. `question` is None for the calls that the protocol gives no request id."""

    session: Session
    action: str
    path: str
    decode: Callable[[Reply], T]
    question: Question | None = None
    query: Mapping[str, Any] | None = None
    body: str | None = None

    def carry_out(self) -> tuple[ResponseStatus, T]:
        """The result, also when its reply was lost and the server could be asked for it.

        Raises MutationUnconfirmed when it stays unknown whether the request was carried out; with
        any other CycleCloudError it was not. A question for a lost reply has the attempts that are
        left, and one in any case.
        """
        lingers = False
        pacing = self.session.pacing
        for attempt in range(pacing.attempts):
            left = pacing.attempts - 1 - attempt
            outcome = self._attempt(lingers, left)
            if not isinstance(outcome, FailedAttempt):
                return outcome
            lingers = lingers or outcome.lingers
            if not outcome.will_wait:
                warn_of_try(outcome.error, attempt, pacing.attempts)
            recovered = self._recovered(outcome.error, left) if outcome.in_doubt else None
            if recovered is not None:
                return recovered
            waited = getattr(outcome.error, "waited", 0.0)
            if not left or not (outcome.will_wait or pacing.back_off(attempt, waited)):
                raise self._unconfirmed(str(outcome.error)) if lingers else outcome.error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _attempt(self, lingers: bool, left: int) -> tuple[ResponseStatus, T] | FailedAttempt:
        """Send the request once. Raises what makes another attempt pointless.

        `lingers` says that the server may yet carry out an earlier attempt.
        """
        try:
            reply = self.session.send("POST", self.path, self.query, self.body)
            if reply.succeeded:
                return ResponseStatus(reply.status_code), self.decode(reply)
        except (errors.Throttled, errors.CertificateError) as error:
            raise self._unconfirmed(str(error)) if lingers else error from None
        except errors.CycleCloudUnreachable as error:
            return FailedAttempt(error, in_doubt=error.sent, lingers=error.sent)
        except errors.BadReply as error:
            return FailedAttempt(error, in_doubt=True)
        return self._refused(reply, lingers, left)

    def _refused(
        self, reply: Reply, lingers: bool, left: int
    ) -> tuple[ResponseStatus, T] | FailedAttempt:
        """What follows from a reply that reports an error."""
        error = self.session.refusal(reply)
        if reply.status_code == 409:
            return self._duplicate(error, lingers, left)
        if isinstance(error, errors.Throttled):
            return FailedAttempt(error, in_doubt=False, will_wait=error.retry_after is not None)
        if isinstance(error, errors.ServerError):
            return FailedAttempt(error, in_doubt=True, lingers=reply.status_code in TRANSIENT)
        raise self._unconfirmed(str(error)) if lingers else error

    def _duplicate(
        self, conflict: errors.HttpError, lingers: bool, left: int
    ) -> tuple[ResponseStatus, T]:
        """The result after a reply with status 409 that means that our request id was used before.

        When the 409 means that the request is invalid, it is raised as Conflict.
        """
        if self.question is None:
            raise conflict
        try:
            listing = self._ask(conflict, left)
        except errors.NotFound:
            raise conflict from None
        action = listing.operation.action if listing.operation else None
        if not lingers and action and action.lower() != self.action:
            taken = f"request id {self.question.request_id} was used before, to {action}"
            raise errors.Conflict(conflict.url, 409, conflict.server_message, taken)
        return ResponseStatus(409), self.question.recover(listing)

    def _recovered(
        self, lost: errors.CycleCloudError, left: int
    ) -> tuple[ResponseStatus, T] | None:
        """The result of an attempt whose reply was lost, None when the server has not heard of
        it."""
        if self.question is None:
            raise self._unconfirmed(str(lost))
        try:
            listing = self._ask(lost, left)
        except errors.OperationNotFound:
            return None
        except errors.NotFound as error:
            raise self._unconfirmed(f"{lost}; and asking for it failed: {error}") from None
        logging.warning("%s: but request id %s was carried out", lost, self.question.request_id)
        return ResponseStatus(202), self.question.recover(listing)

    def _ask(self, lost: errors.CycleCloudError, left: int) -> NodeList:
        """The nodes of our request id. Raises NotFound, or MutationUnconfirmed when no answer can
        be had."""
        if self.question is None:
            raise AssertionError("only a mutation with a request id can be asked for")
        try:
            listing = self.question.ask(max(1, left))
        except errors.NotFound:
            raise
        except errors.CycleCloudError as error:
            raise self._unconfirmed(f"{lost}; and asking for it failed: {error}") from None
        if not answers(listing, self.question.request_id):
            raise self._unconfirmed(
                f"{lost}; and the answer does not say for which operation it is"
            )
        return listing

    def _unconfirmed(self, reason: str) -> errors.MutationUnconfirmed:
        request_id = self.question.request_id if self.question else None
        return errors.MutationUnconfirmed(self.session.url + self.path, request_id, reason)
