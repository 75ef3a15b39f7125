"""Asking a service of Azure over HTTP, patiently: what may pass is tried again, and no answer lasts
longer than its deadline.

What the answer means is the business of whoever asks (`retail`, and the scores of `weights`).
Certificates are always verified: `verify_certificates` and `ca_file` of the configuration are for
the CycleCloud server, while the proxies and certificate bundles of the environment are how one gets
to the internet and hold here.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale._version import __version__
from hpc.autoscale.ccbindings.pacing import Pacing, retry_after
from hpc.autoscale.ccbindings.replies import Reply
from hpc.autoscale.ccbindings.transport import Timeouts, innermost, read_body

if TYPE_CHECKING:
    import requests

TIMEOUTS = Timeouts(connect=5.0, read=30.0)

# "not now": of the service itself, and of what stands between it and us
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class PatientSession:
    """Sends requests, as long as `pacing` allows. `unavailable` makes the error for a URL at which
    nobody answers, with the reason. Nothing is opened until it is used."""

    def __init__(
        self,
        pacing: Pacing,
        unavailable: Callable[[str, str], Exception],
        timeouts: Timeouts = TIMEOUTS,
        trust_env: bool = True,
    ) -> None:
        self._pacing = pacing
        self._unavailable = unavailable
        self._timeouts = timeouts
        self._trust_env = trust_env
        self._http: requests.Session | None = None

    def read(self, url: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """The reply to GET, or to POST with a `body` of JSON: one with status 200, or another one
        that waiting does not change. Both have to be questions that change nothing."""
        last = self._pacing.attempts - 1
        for attempt in range(self._pacing.attempts):
            reply = self._exchange(url, body, headers, attempt == last)
            if reply is None:
                self._pacing.back_off(attempt)
                continue
            wait = retry_after(reply.headers, self._pacing.wall_clock)
            is_final = attempt == last or (wait or 0) > self._pacing.longest_wait
            if reply.status_code not in TRANSIENT or is_final:
                return reply
            if wait is None:
                self._pacing.back_off(attempt)
            else:
                self._pacing.wait(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _exchange(
        self, url: str, body: Any, headers: Mapping[str, str] | None, is_last: bool
    ) -> Reply | None:
        """Send one request. None stands for a reply that did not come and may be asked for again;
        after the last attempt that is an error."""
        import requests
        import urllib3

        failures = (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            http.client.HTTPException,
            OSError,
            ValueError,
        )
        verb = "GET" if body is None else "POST"
        logging.debug("%s %s", verb, url)
        # real time, because sockets wait by no other clock
        deadline = time.monotonic() + 5 * self._timeouts.read
        try:
            with self._connection().request(
                verb,
                url,
                json=body,
                headers=dict(headers or {}),
                timeout=(self._timeouts.connect, self._timeouts.read),
                allow_redirects=False,
                stream=True,
            ) as response:
                content = read_body(response, deadline)
                return Reply(url, response.status_code, response.headers, content, str)
        except failures as error:
            if is_last or isinstance(error, requests.exceptions.SSLError):
                raise self._unavailable(url, f"no answer: {innermost(error)}") from None
            logging.debug("%s %s: %s, trying again", verb, url, innermost(error))
            return None

    def _connection(self) -> requests.Session:
        if self._http is None:
            from hpc.autoscale.ccbindings.deadlines import punctual_session

            self._http = punctual_session()
            self._http.auth = _as_nobody  # or else `.netrc` would be looked up
            self._http.trust_env = self._trust_env
            self._http.headers["User-Agent"] = f"hpc-autoscale/{__version__}"
        return self._http


def _as_nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
