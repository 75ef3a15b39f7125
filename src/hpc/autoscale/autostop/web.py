"""The callback of nodes over HTTP, as a WSGI application that needs no framework.

    GET or POST /cloud/actions/autoscale/{cluster}/stop?instance=ID[&reason=TEXT]

Status 200 is a yes; every other status is a no. The body is JSON and says why.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autostop.decision import Answer, Code
from hpc.autoscale.plaintext import in_words
from hpc.autoscale.wsgi.basic import Login

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ASK_AGAIN_SECONDS = 60
"""When a node that was told no should ask again."""

_BEFORE, _AFTER = "/cloud/actions/autoscale/", "/stop"
_LONGEST = 256
_PHRASES = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_Headers = list[tuple[str, str]]


class Answers(Protocol):
    """What answers nodes: a `StopService`."""

    cluster_name: str
    cluster_names: Collection[str]

    def ask(self, instance: str, reason: str = "") -> Answer:
        """Whether a node may stop."""


class _Refused(Exception):
    """A request that is not passed on."""

    def __init__(self, status: int, code: str, text: str, *headers: tuple[str, str]) -> None:
        self.status = status
        self.code = code
        self.headers = list(headers)
        super().__init__(text)


class Application:
    """The WSGI application. `username` and `password` are what each request has to bring, by HTTP
    Basic."""

    def __init__(self, service: Answers, username: str, password: str) -> None:
        self._service = service
        self._login = Login(username, password)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            status, headers, body = self._respond(environ)
        except _Refused as refused:
            status, headers = refused.status, refused.headers
            body = _body(False, refused.code, str(refused))
        except Exception:  # noqa: BLE001  the edge: the caller gets an answer whatever went wrong
            logging.exception("autostop: a request could not be answered")
            status, headers = 500, []
            body = _body(False, "internal_error", "the service failed; its log has the details")
        data = (json.dumps(body) + "\n").encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(data))),
            ("Cache-Control", "no-store"),
            *headers,
        ]
        start_response(f"{status} {_PHRASES[status]}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [data]

    def _respond(self, environ: Mapping[str, Any]) -> tuple[int, _Headers, dict[str, Any]]:
        if not self._login.admits(environ.get("HTTP_AUTHORIZATION")):
            raise _Refused(
                401,
                "unauthorized",
                "the user name or the password is wrong or missing",
                ("WWW-Authenticate", 'Basic realm="autostop"'),
            )
        cluster = _cluster_of(environ)
        method = environ["REQUEST_METHOD"]
        if method not in ("GET", "POST"):
            text = f"expected GET or POST, found {method}"
            raise _Refused(405, "bad_request", text, ("Allow", "GET, POST"))
        instance, reason = _arguments(str(environ.get("QUERY_STRING") or ""))
        if cluster not in self._service.cluster_names:
            text = f"there is no cluster {cluster!r} here: {self._service.cluster_name} is served"
            answer = Answer(Code.UNKNOWN_CLUSTER, text)
        else:
            answer = self._service.ask(instance, reason)
        later = answer.code.status in (409, 503)
        headers = [("Retry-After", str(ASK_AGAIN_SECONDS))] if later else []
        return answer.code.status, headers, body_of(answer, instance)


def body_of(answer: Answer, instance: str) -> dict[str, Any]:
    """What a node is told, as JSON."""
    more = {"instance": instance, "node": answer.node}
    return _body(answer.accepted, answer.code.word, answer.text, more)


def _body(
    accepted: bool, code: str, text: str, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {"accepted": accepted, "code": code, "message": text, **(more or {})}


def _cluster_of(environ: Mapping[str, Any]) -> str:
    """The cluster in the path, which WSGI hands over as bytes in the guise of text."""
    try:
        path = str(environ.get("PATH_INFO") or "").encode("latin-1").decode()
    except UnicodeError:
        raise _Refused(400, "bad_request", "the path: expected UTF-8") from None
    cluster = path.removeprefix(_BEFORE).removesuffix(_AFTER)
    if path != f"{_BEFORE}{cluster}{_AFTER}" or not cluster:
        expected = f"{_BEFORE}CLUSTER{_AFTER}?instance=ID"
        raise _Refused(404, "unknown_path", f"expected {expected}, found {path[:_LONGEST]}")
    return cluster


def _arguments(query: str) -> tuple[str, str]:
    """Instance and reason; the reason is cut to one line of a decent length."""
    try:
        given = parse_qs(query, keep_blank_values=True, errors="strict", max_num_fields=20)
    except (UnicodeError, ValueError) as error:
        raise _Refused(400, "bad_request", f"the query cannot be read: {error}") from None
    instances = given.get("instance", [])
    if len(instances) != 1 or not instances[0].strip():
        found = f"{len(instances)} of them" if len(instances) > 1 else "none"
        raise _Refused(400, "bad_request", f"instance: expected one id, found {found}")
    instance = instances[0].strip()
    if len(instance) > _LONGEST or not instance.isprintable():
        text = f"instance: expected at most {_LONGEST} printable characters"
        raise _Refused(400, "bad_request", text)
    return instance, in_words(given.get("reason", [""])[0], _LONGEST)
