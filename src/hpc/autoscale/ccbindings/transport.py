"""One HTTP request and its reply: credentials, TLS, timeouts and limits.

Every failure becomes an error of ours. `session` decides when to send and whether to try again; the
price client borrows `Timeouts`, `read_body` and `innermost`, and nothing else uses this. The
environment decides neither the credentials nor the address: `.netrc` and proxy variables are
ignored, and a configured `ca_file` or `verify_certificates: false` comes before its certificate
bundles.
"""

import base64
import os
import re
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hpc.autoscale import hpclogging as logging
from hpc.autoscale._version import __version__
from hpc.autoscale.ccbindings import errors
from hpc.autoscale.ccbindings.replies import Reply
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.redaction import Hiding

if TYPE_CHECKING:
    import requests

LONGEST_CONNECT = 10.0
# a cluster of 50,000 nodes with long records stays well below this
LARGEST_BODY = 512 * 1024 * 1024

# enough to tell which protocol is spoken there
_QUOTED_LINE = 80

_unverified: set[str] = set()


@dataclass(frozen=True)
class Timeouts:
    """Seconds to wait for a connection, and for each part of a reply.

    A whole reply may take five times as long as a part.
    """

    connect: float = LONGEST_CONNECT
    read: float = 60.0


class Transport:
    """The way to the server at `url`. Nothing is opened until it is used.

    Raises ConfigurationException when url, credentials or `ca_file` cannot be used.
    """

    def __init__(
        self,
        url: str,
        username: str,
        password: str,
        verify_certificates: bool,
        ca_file: str | None,
        timeouts: Timeouts,
    ) -> None:
        if ":" in username:
            raise ConfigurationException(f"username: must not contain a colon, found {username!r}")
        self.url = _checked_url(url)
        self._timeouts = timeouts
        # made here, because the HTTP library would refuse a password beyond Latin-1
        self._token = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._hide = Hiding(password, self._token)
        self._verify = _verification(verify_certificates, ca_file)
        self._http: requests.Session | None = None

    def redact(self, text: str) -> str:
        """`text` without the password, in any of the forms in which it may come back."""
        return self._hide(text)

    def prepare(self) -> None:
        """Load the HTTP library, the first time. That can take a second, and is no time in which a
        server did not answer."""
        self._connection()

    def exchange(self, method: str, url: str, body: str | None) -> Reply:
        """Send a request and receive its reply; every failure becomes CycleCloudUnreachable."""
        import http.client

        import requests
        import urllib3

        failures = (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            http.client.HTTPException,
            OSError,
            ValueError,
        )
        # real time, because sockets wait by no other clock
        deadline = time.monotonic() + 5 * self._timeouts.read
        try:
            with self._connection().request(
                method,
                url,
                data=None if body is None else body.encode(),
                headers=None if body is None else {"Content-Type": "application/json"},
                verify=self._verify,
                timeout=(self._timeouts.connect, self._timeouts.read),
                allow_redirects=False,
                stream=True,
            ) as response:
                content = read_body(response, deadline)
                return Reply(url, response.status_code, response.headers, content, self.redact)
        except failures as error:
            raise self._unreachable(url, error) from None

    def _connection(self) -> "requests.Session":
        if self._http is None:
            from hpc.autoscale.ccbindings.deadlines import punctual_session

            self._http = punctual_session()
            self._http.trust_env = False
            self._http.headers.update(
                {
                    "Accept": "*/*",
                    "Authorization": f"Basic {self._token}",
                    "User-Agent": f"hpc-autoscale/{__version__}",
                    "X-Cycle-Client-Version": f"hpc-autoscale-cli:{__version__}",
                }
            )
            if self._verify is False:
                warn_unverified(self.url)
        return self._http

    def _unreachable(self, url: str, error: Exception) -> errors.CycleCloudUnreachable:
        """The error for an exception of the HTTP library, saying whether the request may have been
        sent.
        """
        reason = self.redact(innermost(error))
        if re.search(
            r"certificate|hostname .* doesn't match|WRONG_VERSION|record layer",
            reason,
            re.IGNORECASE,
        ):
            return errors.CertificateError(url, reason)
        unreachable = errors.CycleCloudUnreachable(url, reason, sent=not _never_connected(error))
        unreachable.timed_out = any(isinstance(cause, TimeoutError) for cause in _causes(error))
        return unreachable


def _checked_url(url: str) -> str:
    """The server's base URL without a slash at its end; ConfigurationException when it is no such
    URL.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (AttributeError, TypeError, ValueError):
        raise ConfigurationException("url: expected https://host[:port], found no URL") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationException(
            f"url: must not contain credentials (found some for host {parts.hostname});"
            " use `username` and `password`"
        )
    if not usable or parts.query or parts.fragment:
        raise ConfigurationException(f"url: expected https://host[:port], found {url!r}")
    return url.rstrip("/")


def _verification(verify: bool, ca_file: str | None) -> bool | str:
    """What to check the server's certificate against.

    It is a bundle of certificates, True for the library's own bundle, or False for no check.
    """
    if not verify:
        return False
    if ca_file is not None:
        if not os.path.exists(os.path.expanduser(ca_file)):
            raise ConfigurationException(
                f"ca_file: expected a file of certificates, found no {ca_file!r}"
            )
        return os.path.expanduser(ca_file)
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        bundle = os.environ.get(variable)
        if bundle:
            return bundle
    return True


def warn_unverified(url: str) -> None:
    """Warn, once per process and server, that the server's certificate is not verified.

    urllib3 is kept from warning as well.
    """
    import urllib3

    if url in _unverified or not url.startswith("https:"):
        return
    _unverified.add(url)
    host = re.escape(urlsplit(url).hostname or "")
    warnings.filterwarnings(
        "ignore",
        message=f"Unverified HTTPS request is being made to host '{host}'",
        category=urllib3.exceptions.InsecureRequestWarning,
    )
    logging.warning(
        "%s: its certificate is not verified, because verify_certificates is false", url
    )


def read_body(response: "requests.Response", deadline: float) -> bytes:
    """The whole body, decoded.

    Raises OSError when it is larger than any reply can be, or has not come by the deadline.
    """
    read = getattr(response.raw, "read1", response.raw.read)
    chunks: list[bytes] = []
    size = 0
    while chunk := read(65536, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST_BODY:
            raise OSError(f"the reply is longer than {LARGEST_BODY} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("the reply did not end in time")
    return b"".join(chunks)


def _causes(error: BaseException) -> list[BaseException]:
    """The exceptions that are wrapped in one another, outermost first.

    HTTP libraries nest them in several ways.
    """
    chain: list[BaseException] = []
    inner: object = error
    while isinstance(inner, BaseException) and inner not in chain:
        chain.append(inner)
        wrapped = [arg for arg in inner.args if isinstance(arg, BaseException)]
        inner = getattr(inner, "reason", None) or next(iter(wrapped), None) or inner.__cause__
    return chain


def innermost(error: BaseException) -> str:
    """The innermost of the exceptions that are wrapped in one another: the cause of the others."""
    import http.client

    cause = _causes(error)[-1]
    text = re.sub(r"^<[^>]*>: |^\w+\(host=[^)]*\): ", "", str(cause))
    # the text of this one is the line that came; a line that did not come is of a class below it
    if type(cause) is http.client.BadStatusLine:
        return f'what came is no HTTP, but "{errors.shorten(text.strip(), _QUOTED_LINE)}"'
    if text.startswith(("IncompleteRead", "InvalidChunkLength")):
        return f"the reply is cut off: {text}"
    return text or type(cause).__name__


def _never_connected(error: BaseException) -> bool:
    """Whether no connection was made, so that the server cannot have seen the request."""
    import urllib3

    failures = (
        urllib3.exceptions.NewConnectionError,
        urllib3.exceptions.ConnectTimeoutError,
        ConnectionRefusedError,
    )
    return any(isinstance(cause, failures) for cause in _causes(error))
