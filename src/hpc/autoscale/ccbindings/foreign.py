"""Working with CycleCloud's own Python client, when a caller brings one: its functions, and its exceptions as ours.

That client is not ours to ship and nothing here imports it unless a caller's session needs it. It reports a refusal as an
exception whose text is the body of the reply; its class has no public name. Used by `legacy` alone.
"""

from collections.abc import Callable
from typing import Any

from hpc.autoscale.ccbindings import errors
from hpc.autoscale.ccbindings.replies import NEVER_HAPPENED, server_message
from hpc.autoscale.errors import AutoscaleError, ConfigurationException


def clusters_module() -> Any:
    """The endpoint functions of the installed client. Raises ConfigurationException when there is none."""
    try:
        import cyclecloud.api.clusters
    except ImportError:
        raise ConfigurationException(
            "the session is none of ours and no `cyclecloud` package is installed; pass `clusters_module`"
        ) from None
    return cyclecloud.api.clusters


def guarded(
    where: str, function: Callable[[], Any], request_id: str | None, password: object
) -> Any:
    """The result of `function`, with every exception turned into a CycleCloudError that begins with `where`.

    A refusal has the server's message. Of a mutation (one with a request id) that ends in any other way it is not known
    whether it was carried out. The password is taken out of what the exception says.
    """
    try:
        return function()
    except AutoscaleError:
        raise
    except Exception as error:  # noqa: BLE001  the client's exception classes are not public
        text = str(error)
        if isinstance(password, str) and password:
            text = text.replace(password, "***")
        raise _ours(where, type(error).__name__, text, request_id) from None


def _ours(where: str, kind: str, text: str, request_id: str | None) -> errors.CycleCloudError:
    message = server_message(text)
    if message is None and request_id:
        return errors.MutationUnconfirmed(where, request_id, f"{kind}: {text}")
    if message is None:
        return errors.CycleCloudError(errors.shorten(f"{where}: {kind}: {text}"))
    if NEVER_HAPPENED in message.lower():
        return errors.OperationNotFound(where, 404, message)
    return errors.CycleCloudError(errors.shorten(f"{where}: {message}"))
