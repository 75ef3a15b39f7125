"""Talking to one CycleCloud server: when to send, whether to try again, how long to wait. No
endpoint is known here.

The functions in `clusters` call it. It sends through `transport`, judges with `replies` and waits
as `pacing` says.
"""

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings import errors
from hpc.autoscale.ccbindings.pacing import Pacing, RetryAfter, retry_after, warn_of_try
from hpc.autoscale.ccbindings.replies import Reply, error_for
from hpc.autoscale.ccbindings.transport import Timeouts, Transport
from hpc.autoscale.errors import ConfigurationException

if TYPE_CHECKING:
    import requests

# statuses with which a server or a proxy says "not now"
TRANSIENT = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class ResponseStatus:
    """The status of a reply, as callers of the functions in `clusters` get it beside the model."""

    status_code: int


class Session:
    """A session with the server at `url`; making one sends nothing.

    The arguments are those of `Transport`, and `pacing` for how patient to be.
    """

    def __init__(
        self,
        url: str,
        username: str,
        password: str,
        verify_certificates: bool = True,
        ca_file: str | None = None,
        timeouts: Timeouts | None = None,
        pacing: Pacing | None = None,
    ) -> None:
        self._transport = Transport(
            url, username, password, verify_certificates, ca_file, timeouts or Timeouts()
        )
        self.url = self._transport.url
        self.pacing = pacing or Pacing()
        # what users of CycleCloud's own client look up here
        self._config = {
            "url": self.url,
            "username": username,
            "verify_certificates": verify_certificates,
        }

    def __repr__(self) -> str:
        return f"Session(url={self.url!r}, username={self._config['username']!r})"

    def read(
        self, path: str, query: Mapping[str, Any] | None = None, attempts: int | None = None
    ) -> Reply:
        """GET `path`, tried again while the trouble may pass, `attempts` times in all (None: as
        often as is usual).

        Returns a reply that succeeded, or raises CycleCloudError.
        """
        attempts = attempts or self.pacing.attempts
        for attempt in range(attempts):
            is_last = attempt == attempts - 1
            try:
                reply = self.send("GET", path, query)
            except errors.CertificateError:
                raise
            except errors.CycleCloudUnreachable as error:
                warn_of_try(error, attempt, attempts)
                if is_last or not self.pacing.back_off(attempt, error.waited):
                    raise
                continue
            if reply.succeeded:
                return reply
            refusal = self.refusal(reply)
            if reply.status_code not in TRANSIENT or is_last:
                raise refusal
            if self.asked_to_wait(reply) is None:
                warn_of_try(refusal, attempt, attempts)
                if not self.pacing.back_off(attempt):
                    raise refusal
        raise AssertionError("unreachable: the last attempt returns or raises")

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: str | None = None,
    ) -> Reply:
        """Send one request; returns its reply, whatever the status.

        First the time passes for which the server asked to be left alone. Raises Throttled, without
        sending, when that time is too long or the process is told to stop; CycleCloudUnreachable
        when no reply comes.
        """
        self._await_turn(method, path)
        url = self.url + path + _encoded(query)
        logging.debug("%s %s", method, url)
        self._transport.prepare()
        began = self.pacing.now()
        try:
            reply = self._transport.exchange(method, url, body)
        except errors.CycleCloudUnreachable as error:
            error.waited = self.pacing.now() - began
            raise
        logging.debug("%s %s: HTTP %s, %d bytes", method, url, reply.status_code, len(reply.body))
        wait = self.asked_to_wait(reply)
        if wait is not None:
            held = self.pacing.come_back_after(wait) if method == "GET" else wait
            said = errors.shorten(reply.message())
            asked = RetryAfter(self.pacing.now() + held, reply.status_code, said, wait - held)
            self.pacing.not_before.note((self.url, method, path), asked)
        return reply

    def asked_to_wait(self, reply: Reply) -> float | None:
        """The seconds that a reply with status 429 or 503 asks to wait.

        None for other statuses, and when the reply does not say.
        """
        if reply.status_code not in (429, 503):
            return None
        return retry_after(reply.headers, self.pacing.wall_clock)

    def refusal(self, reply: Reply) -> errors.HttpError:
        """The error for a reply that reports no success."""
        wait = self.asked_to_wait(reply)
        if wait is None and reply.status_code != 429:
            return error_for(reply)
        asked = "asks to slow down" if wait is None else f"asks to wait {wait:.0f} s; giving up"
        advice = f"the server {asked}"
        again = None if wait is None else self.pacing.come_back_after(wait)
        return errors.Throttled(reply.url, reply.status_code, reply.message(), again, advice)

    def request(
        self,
        request_context: Any,
        method: str,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        expected_responses: Iterable[tuple[int, str, Callable[[Any], Any]]] = (),
    ) -> tuple[ResponseStatus, Any]:
        """The call that CycleCloud's own client offers for endpoints without a function:
        `request_context.path`, sent once.

        The body of the reply is decoded when it is JSON, text otherwise, and goes through the
        converter that `expected_responses` has for its status. A status that is not expected raises
        the error for it. `headers` are accepted and not used.
        """
        reply = self.send(method, request_context.path, query, body)
        converters = {code: converter for code, _, converter in expected_responses}
        if reply.status_code not in converters:
            raise self.refusal(reply)
        try:
            value = json.loads(reply.body)
        except (ValueError, RecursionError):
            value = reply.body.decode("utf-8", "replace")
        return ResponseStatus(reply.status_code), converters[reply.status_code](value)

    def _request(
        self,
        verb: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> "requests.Response":
        """What demos written for CycleCloud's own client call: one request, whose reply is not
        judged.

        `url` is a path of the server, or the whole address of one; `body` is a text, or what is to
        be sent as JSON. `headers` are accepted and not used.
        """
        import requests

        path = url.removeprefix(self.url)
        if not path.startswith("/"):
            raise ConfigurationException(f"expected a path on {self.url}, found {url!r}")
        sent = body if body is None or isinstance(body, str) else json.dumps(body)
        reply = self.send(verb, path, params, sent)
        response = requests.Response()
        response.status_code, response.url, response.encoding = (
            reply.status_code,
            reply.url,
            "utf-8",
        )
        response.headers.update(reply.headers)
        response.raw = io.BytesIO(reply.body)
        return response

    def _await_turn(self, method: str, path: str) -> None:
        asked = self.pacing.not_before.pending((self.url, method, path), self.pacing.now())
        if asked is None:
            return
        wait = asked.until - self.pacing.now()
        limit = self.pacing.longest_wait
        if wait > limit:
            advice = (
                f"the server asks to wait {wait + asked.beyond:.0f} s more, the limit is"
                f" {limit:.0f} s; this pass ends"
            )
            if asked.beyond > 0.0:
                advice += f"; asked again after {wait:.0f} s (`retry.ceiling`)"
            if self.pacing.not_before.kept_in:
                advice += f"; kept in {self.pacing.not_before.kept_in}"
            again = self.pacing.come_back_after(wait)
            raise errors.Throttled(self.url + path, asked.status_code, asked.message, again, advice)
        logging.info("%s asks to wait, trying again in %.1f s: %s", self.url, wait, asked.message)
        if not self.pacing.wait(wait):
            advice = f"the server asks to wait {wait:.0f} s; told to stop, this pass ends"
            raise errors.Throttled(self.url + path, asked.status_code, asked.message, wait, advice)


def path_of(*segments: str) -> str:
    """The path of an endpoint: each segment is percent-encoded as a whole, a slash in a name
    included.

    Raises ConfigurationException for names that cannot be a segment: empty, `.` and `..`.
    """
    for segment in segments:
        if not isinstance(segment, str) or segment in ("", ".", ".."):
            raise ConfigurationException(
                f"expected the name of a cluster, nodearray or operation, found {segment!r}"
            )
    return "".join(f"/{quote(segment, safe='')}" for segment in segments)


def _encoded(query: Mapping[str, Any] | None) -> str:
    """The query string: parameters without a value left out, booleans in lower case."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    words = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }
    return f"?{urlencode(words)}" if words else ""
