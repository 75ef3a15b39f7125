"""Connections that stay open between requests, as those of a real server do (HTTP/1.1 keep-alive).

werkzeug's own handler closes each connection, because it reads on for ten milliseconds after every
reply. The handler here reads the whole body before the application runs, so that nothing is left
before the next request. Made by `server`.
"""

import io
import logging
import socket
import threading
from collections.abc import Iterable
from typing import Any, cast

from werkzeug.serving import DechunkedInput, WSGIRequestHandler

_log = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
"""How long a connection may say nothing before it is closed."""

MOST_BYTES = 64 * 1024 * 1024
"""Of a request's body; what announces more is refused."""


class OpenConnections:
    """The connections of one server, so that they end with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_closed = False

    def add(self, connection: socket.socket) -> None:
        """A caller has connected."""
        with self._lock:
            self._open.add(connection)
            if self._is_closed:
                _hang_up(connection)

    def discard(self, connection: socket.socket) -> None:
        """A connection has ended."""
        with self._lock:
            self._open.discard(connection)

    def close(self) -> None:
        """End them all; nobody is answered any more."""
        with self._lock:
            self._is_closed = True
            for connection in self._open:
                _hang_up(connection)


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the caller was faster
        return


class PersistentHandler(WSGIRequestHandler):
    """Answers one request after another on a connection. `connections` is set by a subclass for
    each server."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    connections: OpenConnections

    def setup(self) -> None:
        """A caller has connected."""
        self.connections.add(self.request)
        super().setup()

    def finish(self) -> None:
        """The connection ends."""
        self.connections.discard(self.request)
        super().finish()

    def run_wsgi(self) -> None:
        """Let the application answer the request that was read."""
        body = self._body()
        if body is None:
            return
        incoming, self.rfile = self.rfile, io.BytesIO(body)
        try:
            self.environ = environ = self.make_environ()
            environ.update({"wsgi.input": self.rfile, "CONTENT_LENGTH": str(len(body))})
        finally:
            self.rfile = incoming
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> Any:
            begun[:] = [(status, headers)]
            return self.wfile.write

        # whatever goes wrong from here on leaves a reply that is not whole
        keeps_open, self.close_connection = not self.close_connection, True
        reply: Iterable[bytes] = ()
        try:
            reply = self.server.app(environ, start_response)
            self._send(*begun[0], reply, keeps_open)
            self.close_connection = not keeps_open
        except OSError as error:
            self.connection_dropped(error, environ)
        except Exception:  # noqa: BLE001 - whatever it is, the server goes on
            _log.exception("%s %s could not be answered", self.command, self.path)
            if not begun:
                self.send_error(500)
        finally:
            close = getattr(reply, "close", None)
            if close is not None:
                close()

    def _body(self) -> bytes | None:
        """The body of the request; None when it cannot be told where it ends, and the caller has
        been told so."""
        if self.headers.get("Transfer-Encoding", "").strip().lower() == "chunked":
            chunks: Any = DechunkedInput(cast(Any, self.rfile))
            return io.BufferedReader(chunks).read()
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            self.close_connection = True
            self.send_error(411)
            return None
        if int(length) > MOST_BYTES:
            self.close_connection = True
            self.send_error(413)
            return None
        return self.rfile.read(int(length))

    def _send(
        self, status: str, headers: list[tuple[str, str]], reply: Iterable[bytes], keeps_open: bool
    ) -> None:
        code, _, phrase = status.partition(" ")
        self.send_response(int(code), phrase)
        known = {name.lower() for name, _ in headers}
        has_body = self.command != "HEAD" and int(code) not in (204, 304)
        in_chunks = has_body and "content-length" not in known
        for name, value in headers:
            self.send_header(name, value)
        if in_chunks:
            self.send_header("Transfer-Encoding", "chunked")
        if not keeps_open:
            self.send_header("Connection", "close")
        self.end_headers()
        for part in reply:
            if part and has_body:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if in_chunks else part)
        if in_chunks:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
