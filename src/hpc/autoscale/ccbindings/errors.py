"""Everything that can go wrong between this library and a CycleCloud server, as one tree.

Whoever catches `CycleCloudError` has all of it: exceptions of HTTP libraries, sockets, TLS or JSON
do not get past the client. Each error names the URL or the cluster and says what came instead of
what was expected. Texts are kept short: a server may answer with any number of pages.
"""

import re
from collections.abc import Iterable

from hpc.autoscale.errors import CycleCloudError
from hpc.autoscale.plaintext import on_one_line

__all__ = [
    "AccessDenied",
    "AuthenticationFailed",
    "BadReply",
    "BadRequest",
    "CertificateError",
    "ClusterAway",
    "Conflict",
    "CycleCloudError",
    "CycleCloudUnreachable",
    "HttpError",
    "InconsistentStatus",
    "InvalidModel",
    "InvalidSelection",
    "MutationUnconfirmed",
    "NotFound",
    "OperationNotFound",
    "Redirected",
    "ServerError",
    "Throttled",
    "shorten",
]

_LONGEST_TEXT = 2000


def shorten(text: str, longest: int = _LONGEST_TEXT) -> str:
    """`text` on one line, with its middle left out when it is longer than `longest` characters."""
    text = on_one_line(text)
    if len(text) <= longest:
        return text
    half = (longest - 7) // 2
    return f"{text[:half]} [...] {text[-half:]}"


class InvalidModel(CycleCloudError):
    """An object of the protocol lacks a field or has one of the wrong type; `faults` has one line
    for each."""

    def __init__(self, model: str, faults: Iterable[str]) -> None:
        self.model = model
        self.faults = list(faults)
        more = f"; and {len(self.faults) - 3} more" if len(self.faults) > 3 else ""
        super().__init__(shorten(f"{model}: {'; '.join(self.faults[:3])}{more}"))


class InvalidSelection(CycleCloudError):
    """A management call does not say for which nodes it is, or says it twice."""


class CycleCloudUnreachable(CycleCloudError):
    """No answer came: nobody was found or listens, the connection broke, or it timed out.

    `sent` is False when the request cannot have reached the server. `waited` is how many seconds
    passed until that was known; `timed_out` is True when the server was silent.
    """

    waited = 0.0
    timed_out = False

    def __init__(self, url: str, reason: str, sent: bool = True) -> None:
        self.url = url
        self.reason = reason
        self.sent = sent
        super().__init__(shorten(f"{url}: no answer from CycleCloud: {reason}"))


class CertificateError(CycleCloudUnreachable):
    """The server's TLS certificate is not trusted, or the server does not speak TLS.

    `is_plain` is True for one that speaks plain HTTP: that is no matter of certificates.
    """

    def __init__(self, url: str, reason: str) -> None:
        self.is_plain = bool(re.search("WRONG_VERSION|record layer", reason, re.IGNORECASE))
        plain = "plain HTTP is spoken there: see `url`"
        advice = plain if self.is_plain else "see `ca_file` and `verify_certificates`"
        super().__init__(url, f"{reason} ({advice})", sent=False)


class HttpError(CycleCloudError):
    """The server answered with an error status. `server_message` is its explanation, or what came
    instead.
    """

    def __init__(self, url: str, status_code: int, server_message: str, advice: str = "") -> None:
        self.url = url
        self.status_code = status_code
        self.server_message = shorten(server_message)
        self.advice = advice
        ending = f" ({advice})" if advice else ""
        super().__init__(f"{shorten(url, 500)}: HTTP {status_code}: {self.server_message}{ending}")


class BadRequest(HttpError):
    """The server did not understand the request (400 and other 4xx without a class of their
    own)."""


class AuthenticationFailed(HttpError):
    """User name or password are wrong or missing (401)."""


class AccessDenied(HttpError):
    """The user may not do this to this cluster (403)."""


class NotFound(HttpError):
    """There is no such cluster, node or operation (404)."""


class OperationNotFound(NotFound):
    """The server knows no operation for that request id: the request was never carried out."""


class Conflict(HttpError):
    """The request is invalid, or its request id has been used before (409)."""


class Redirected(HttpError):
    """The server redirects to another place (3xx), `target`, where the credentials must not go."""

    def __init__(self, url: str, status_code: int, target: str) -> None:
        self.target = target
        super().__init__(
            url,
            status_code,
            f"redirected to {shorten(target, 500)}",
            "redirects are not followed; check `url` in the configuration",
        )


class ServerError(HttpError):
    """The server failed (5xx)."""


class Throttled(HttpError):
    """The server asks to wait (429, or 503 with Retry-After) longer than one pass may take.

    Or it asks again and again. `retry_after` is after how many seconds to come back: as many as it
    asked for, at most `retry.ceiling`; None when it did not say. The text has what it asked for. No
    request to that endpoint leaves this process before they have passed.
    """

    def __init__(
        self,
        url: str,
        status_code: int,
        server_message: str,
        retry_after: float | None,
        advice: str,
    ) -> None:
        self.retry_after = retry_after
        super().__init__(url, status_code, server_message, advice)


class BadReply(CycleCloudError):
    """The server reported success, but the body is not what the protocol says: HTML, empty, cut
    off, wrongly typed."""

    def __init__(self, url: str, status_code: int, expected: str, found: str) -> None:
        self.url = url
        self.status_code = status_code
        self.expected = expected
        self.found = shorten(found)
        super().__init__(
            f"{shorten(url, 500)}: HTTP {status_code}: expected {expected}, found {self.found}"
        )


class MutationUnconfirmed(CycleCloudError):
    """A change was asked for, no usable answer came, and asking whether it happened did not help.

    Nothing may be concluded: ask again for the nodes of `request_id` in a later pass. It is None
    for the calls for which the protocol has no request id.
    """

    def __init__(self, url: str, request_id: str | None, reason: str) -> None:
        self.url = url
        self.request_id = request_id
        named = f"request id {request_id}" if request_id else "a request without an id"
        super().__init__(
            f"{shorten(url, 500)}: it is not known whether {named} was carried out:"
            f" {shorten(reason)}"
        )


class ClusterAway(CycleCloudError):
    """One of several clusters is set aside in this pass: it did not answer, or made no sense."""

    def __init__(self, cluster: str, reason: str) -> None:
        self.cluster = cluster
        super().__init__(shorten(f"cluster {cluster} is set aside: {reason}"))


class InconsistentStatus(CycleCloudError):
    """The listing of nodes contradicts the counts of the buckets, so neither may be acted on."""

    def __init__(self, cluster_name: str, disagreements: Iterable[str]) -> None:
        self.cluster_name = cluster_name
        self.disagreements = list(disagreements)
        shown = "; ".join(self.disagreements[:5])
        more = f"; and {len(self.disagreements) - 5} more" if len(self.disagreements) > 5 else ""
        super().__init__(
            shorten(f"cluster {cluster_name}: its node listing is no evidence: {shown}{more}")
        )
