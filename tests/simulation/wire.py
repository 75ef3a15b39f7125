"""The network between a simulated process and the simulated server, and what goes wrong on it.

`Wire` is an adapter of the library `requests` that calls the simulator's WSGI application in this
process. Which request suffers what is decided by the troubles that are armed; a trouble waits for
the first request that it is about.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from simulation.script import Trouble

if TYPE_CHECKING:
    from simulation.world import World

URL = "http://simulated"
USER, PASSWORD = "simulator", "secret of the day"

SPOILED = frozenset({"old_reply", "behind", "page", "cut_off", "garbage", "no_nodes", "half_nodes"})
"""Kinds of trouble that change the reply to a request that was carried out."""

ON_THE_WIRE = SPOILED | {
    "lost_reply",
    "lost_request",
    "late_request",
    "sent_twice",
    "delay",
    "throttled",
    "unavailable",
    "failed_after",
}

BEHIND_AT_MOST = 3600.0
"""No reply is of a longer time ago, in seconds: for so long what creates have made is held against
listings, and nobody could find out an older one."""

Answer = tuple[int, Mapping[str, str], bytes]


class _Body(io.BytesIO):
    """A body as the HTTP library's responses have theirs."""

    @property
    def read1(self) -> Any:
        return self.read

    def read(self, amount: int | None = -1, decode_content: bool = False) -> bytes:
        return super().read(amount)

    def release_conn(self) -> None:
        """There is no connection to give back."""


def kind_of(method: str, url: str) -> str:
    """The kind of a request, as `Trouble.where` names it."""
    parts = urlsplit(url)
    last = parts.path.rpartition("/")[2]
    if method == "GET" and last == "nodes" and parts.query:
        return "operation"
    if last == "status" and "nodes=true" in parts.query:
        return "status_nodes"
    return last


class DirectSession(requests.Session):
    """A session that gives its requests to one adapter at once, without looking for cookies,
    proxies and redirects, which takes longer than the rest of a simulated request."""

    def __init__(self, adapter: BaseAdapter) -> None:
        super().__init__()
        self._adapter = adapter

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        request = requests.PreparedRequest()
        request.method, request.url = method, url
        given = options.get("headers") or {}
        request.headers = CaseInsensitiveDict({**dict(self.headers), **given})
        request.body = options.get("data")
        return self._adapter.send(request, stream=True, timeout=options.get("timeout"))


class Wire(BaseAdapter):
    """The way of one process to the server."""

    def __init__(self, world: World, step: Callable[[str], None]) -> None:
        super().__init__()
        self._world = world
        self._step = step
        self._last: dict[str, tuple[float, Answer]] = {}

    def close(self) -> None:
        """There is nothing to close."""

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        method, url = str(request.method), str(request.url)
        kind = kind_of(method, url)
        self._step(f"send {kind}")
        self._world.on_request(kind)
        body = json.loads(request.body or b"{}") if method == "POST" else None
        if body is not None:
            self._world.watch.before_command(urlsplit(url).path, body)
        trouble = self._world.trouble_for(kind)
        answer = self._exchange(request, kind, trouble)
        is_true = trouble is None or trouble.kind not in SPOILED
        if kind == "nodes":
            self._world.watch.told_nodes(answer[2].count(b'"NodeId"'), is_true and answer[0] == 200)
        elif kind.startswith("status") and is_true:
            self._world.watch.told_status(kind, answer[0], answer[2])
        elif body is not None and is_true:
            self._world.watch.answered(body, answer[0])
        self._step(f"received {kind}")
        status, headers, body = answer
        response = requests.Response()
        response.status_code = status
        response.headers.update(headers)
        response.url = url
        response.request = request
        response.raw = _Body(body)
        return response

    def _exchange(
        self, request: requests.PreparedRequest, kind: str, trouble: Trouble | None
    ) -> Answer:
        if trouble is None:
            return self._call(request, kind)
        what = trouble.kind
        if what == "lost_request":
            raise requests.ConnectionError("Connection reset by peer (the request was lost)")
        if what == "late_request":
            self._world.watch.sent_late(json.loads(request.body or b"{}").get("requestId"))
            self._world.later(trouble.seconds, lambda: void(self._call(request, kind)))
            raise requests.ConnectionError("Connection reset by peer (the request is on its way)")
        if what in ("throttled", "unavailable"):
            return _refusal(429 if what == "throttled" else 503, trouble.seconds)
        if what == "delay":
            return self._late(request, kind, trouble.seconds)
        if what == "sent_twice":
            self._call(request, kind)
            return self._call(request, kind)
        at, before = self._last.get(kind, (-math.inf, None))
        answer = self._call(request, kind)
        if what == "lost_reply":
            raise requests.ConnectionError("Connection reset by peer (the reply was lost)")
        if what == "failed_after":
            return _refusal(500, 0)
        if what in ("old_reply", "behind"):
            return before if before and self._world.now - at <= BEHIND_AT_MOST else answer
        return _spoiled(what, trouble.part, answer)

    def _late(self, request: requests.PreparedRequest, kind: str, seconds: float) -> Answer:
        """An answer after some time; none when that is longer than the client waits."""
        longest = self._world.timeout
        self._world.pass_time(min(seconds, longest))
        answer = self._call(request, kind)
        if seconds >= longest:
            raise requests.ReadTimeout("Read timed out.")
        return answer

    def _call(self, request: requests.PreparedRequest, kind: str) -> Answer:
        answer = self._world.serve(
            str(request.method), str(request.url), request.headers, request.body
        )
        self._last[kind] = self._world.now, answer
        return answer


def void(_: object) -> None:
    """Nothing."""


def _refusal(status: int, seconds: float) -> Answer:
    headers = {"Retry-After": f"{seconds:.0f}"} if seconds >= 1 else {}
    said = {"Code": "Trouble", "Message": "Not now", "Detail": "", "StatusCode": status}
    return status, headers, json.dumps(said).encode()


def _spoiled(what: str, part: float, answer: Answer) -> Answer:
    status, headers, body = answer
    if what == "page":
        page = b"<!DOCTYPE html><html><title>CycleCloud</title><h1>Log in</h1></html>"
        return 200, {"Content-Type": "text/html"}, page
    if what == "cut_off":
        return status, headers, body[: int(len(body) * part)]
    if what == "garbage":
        return status, headers, _garbage(part)
    try:
        value = json.loads(body)
    except ValueError:
        return answer
    if not isinstance(value, dict) or not isinstance(value.get("nodes"), list):
        return answer
    left = [] if what == "no_nodes" else value["nodes"][: len(value["nodes"]) // 2]
    return status, headers, json.dumps({**value, "nodes": left}).encode()


def _garbage(part: float) -> bytes:
    choices: Iterable[bytes] = (
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"nodes": null}',
        b'{"nodes": [null, 7, {"Name": 5}], "nodearrays": "none"}',
        b'{"nodearrays": [{"name": null, "buckets": [{"activeCount": -1}]}], "nodes": []}',
        b"\xff\xfe\x00\x01",
        b"[" * 2000,
        b'{"sets": [{"added": "many"}], "operationId": null, "nodes": {}}',
    )
    return list(choices)[int(part * 10)]
