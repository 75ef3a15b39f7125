"""Working with CycleCloud's own Python client, or with one like it.

Its exceptions become ours, its replies are held against our models, and lost replies are recovered.
That client is not ours to ship and
nothing here imports it unless a caller's session needs it. It reports a refusal as an exception
whose text is the body of the reply; its class has no public name. It sends a request once and does
not recover, so asking again is done here. Used by `legacy` alone.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings import errors
from hpc.autoscale.ccbindings.evidence import answers
from hpc.autoscale.ccbindings.models import NodeList
from hpc.autoscale.ccbindings.pacing import Pacing, warn_of_try
from hpc.autoscale.ccbindings.replies import NEVER_HAPPENED, M, server_message
from hpc.autoscale.errors import AutoscaleError, ConfigurationException

T = TypeVar("T")


def clusters_module() -> Any:
    """The endpoint functions of the installed client. Raises ConfigurationException when there is
    none."""
    try:
        import cyclecloud.api.clusters
    except ImportError:
        raise ConfigurationException(
            "the session is none of ours and no `cyclecloud` package is installed; pass"
            " `clusters_module`"
        ) from None
    return cyclecloud.api.clusters


def guarded(
    where: str, function: Callable[[], Any], request_id: str | None, hide: Callable[[str], str]
) -> Any:
    """The result of `function`, with every exception turned into a CycleCloudError.

    The text of the error begins with `where`; for a refusal it has the server's message. A mutation
    (a call with a request id) that fails in any other way may have been carried out or not. `hide`
    takes the password out of the texts of exceptions.
    """
    try:
        return function()
    except AutoscaleError:
        raise
    except Exception as error:  # noqa: BLE001  the client's exception classes are not public
        said = f"{type(error).__name__}: {hide(str(error))}"
        raise _ours(where, said, request_id, isinstance(error, OSError)) from None


def judged(
    where: str,
    reply: Any,
    model: type[M],
    request_id: str | None,
    hide: Callable[[str], str],
) -> M:
    """The result in a reply of that client, as one of our models, by the rules for our own client.

    A reply is a pair of a status and a result. Raises BadReply, naming the fields that are wrong;
    MutationUnconfirmed for a call with a request id, which may have been carried out. A result of
    our own classes is taken as it is: whoever made it knows them.
    """
    status, result = reply if isinstance(reply, tuple) and len(reply) == 2 else (None, reply)
    if isinstance(result, model):
        return result
    try:
        adopted = model.adopt(result)
        if not isinstance(adopted, model):
            adopted = model.from_dict(result)  # says what was found
        adopted.validate()
    except errors.InvalidModel as error:
        found = str(error)
    except Exception as error:  # noqa: BLE001  its `to_dict` is somebody else's code
        found = f"{type(error).__name__}: {error}"
    else:
        return adopted
    code = getattr(status, "status_code", None)
    bad = errors.BadReply(
        where, code if isinstance(code, int) else 200, f"a {model.__name__}", hide(found)
    )
    raise errors.MutationUnconfirmed(where, request_id, str(bad)) if request_id else bad


def patiently(call: Callable[[], T], pacing: Pacing, attempts: int | None = None) -> T:
    """The result of a read, tried again while no answer comes.

    There are `attempts` attempts in all; None means as many as `pacing` says.
    """
    attempts = attempts or pacing.attempts
    for attempt in range(attempts):
        began = pacing.now()
        try:
            return call()
        except errors.CertificateError:
            raise
        except errors.CycleCloudUnreachable as error:
            error.waited = pacing.now() - began
            warn_of_try(error, attempt, attempts)
            if attempt == attempts - 1 or not pacing.back_off(attempt, error.waited):
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def carried_out_once(
    call: Callable[[], T],
    action: str,
    request_id: str,
    ask: Callable[[], NodeList],
    recover: Callable[[NodeList], T],
) -> T:
    """The result of a mutation, also when its reply was lost or its request id had been used
    before.

    In doubt the server is asked for the nodes of the request id, and `recover` makes the result of
    them. When the server does not know the id, or cannot be asked, the error of `call` is raised.
    """
    try:
        return call()
    except errors.CycleCloudError as error:
        listing = _listing_for(action, request_id, ask)
        if listing is None:
            raise
        logging.warning("%s: but request id %s was carried out", error, request_id)
        return recover(listing)


def _listing_for(action: str, request_id: str, ask: Callable[[], NodeList]) -> NodeList | None:
    """The nodes of a request id, if the server has carried it out as this action."""
    try:
        listing = ask()
    except errors.CycleCloudError:
        return None
    done = listing.operation.action if listing.operation else None
    if not answers(listing, request_id) or (done and done.lower() != action):
        return None
    return listing


def _ours(where: str, said: str, request_id: str | None, lost: bool) -> errors.CycleCloudError:
    """The error of ours for the text of an exception; `lost` is True when the connection failed."""
    message = server_message(said.partition(": ")[2])
    if message is None and re.search(r"certificate[ _]verify[ _]failed", said, re.IGNORECASE):
        return errors.CertificateError(where, said)
    if message is None and request_id:
        return errors.MutationUnconfirmed(where, request_id, said)
    if message is None and lost:
        return errors.CycleCloudUnreachable(where, said)
    if message is None:
        return errors.CycleCloudError(errors.shorten(f"{where}: {said}"))
    if NEVER_HAPPENED in message.lower():
        return errors.OperationNotFound(where, 404, message)
    return errors.CycleCloudError(errors.shorten(f"{where}: {message}"))
