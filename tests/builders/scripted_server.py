"""A real HTTP server on loopback that gives the answers a test has written down for it, faults
included.

Used by the tests of the REST client; not a test itself.
"""

import json
import socket
import ssl
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme

from hpc.autoscale.ccbindings.pacing import NotBefore, Pacing


@dataclass
class Answer:
    """One reply. `body` is JSON unless it is bytes. `fault`: `reset` or `silence` instead of it,
    `cut` half-way through."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    fault: str = ""

    def encoded(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ScriptedServer:
    """Answers by verb and path, each in turn and the last of them for ever; JSON 404 for everything
    else."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.enough = threading.Event()
        self._answers: dict[tuple[str, str], list[Answer]] = defaultdict(list)
        self.url = ""

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self._answers[method, path].extend(answers)

    def answer(self, seen: Seen) -> Answer:
        self.requests.append(seen)
        answers = self._answers.get((seen.method, seen.path))
        if not answers:
            return Answer(404, {"Message": f"nothing at {seen.path}"})
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def seen(self, method: str, path: str) -> list[Seen]:
        return [seen for seen in self.requests if (seen.method, seen.path) == (method, path)]


def _handler(script: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def _handle(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            seen = Seen(self.command, parts.path, parse_qs(parts.query), dict(self.headers), body)
            answer = script.answer(seen)
            if answer.fault == "reset":
                self._reset()
            elif answer.fault == "silence":
                script.enough.wait(10)
                self.close_connection = True
            else:
                self._send(answer)

        do_GET = do_POST = _handle

        def _send(self, answer: Answer) -> None:
            content = answer.encoded()
            self.send_response_only(answer.status)
            self.send_header("Content-Length", str(len(content)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if answer.fault == "cut":
                content = content[: len(content) // 2]
                self.close_connection = True
            self.wfile.write(content)

        def _reset(self) -> None:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()

        def log_message(self, *args: object) -> None:
            pass

    return Handler


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that a test has broken are not worth a traceback."""


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    """A scripted server for the time of a with-block."""
    script = ScriptedServer()
    server = _QuietServer(("127.0.0.1", 0), _handler(script))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    script.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        script.enough.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving_tls(authority: trustme.CA, host: str = "127.0.0.1") -> Iterator[ScriptedServer]:
    """`serving` over TLS, with a certificate for the host by this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    with serving(context) as script:
        yield script


class FakeTime:
    """A clock on which sleeping takes no time; `slept` is what was slept for."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    def pacing(self, not_before: NotBefore | None = None, **settings: Any) -> Pacing:
        """A pacing on this clock, with a memory of its own unless one is given."""
        return Pacing(
            now=self.now,
            sleep=self.sleep,
            wall_clock=self.now,
            jitter=lambda: 1.0,
            not_before=not_before or NotBefore(),
            **settings,
        )
