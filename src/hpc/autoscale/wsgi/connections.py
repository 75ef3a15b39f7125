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
"""Of a request's body; one that is longer is refused."""


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


class _Unreadable(Exception):
    """A request that cannot be read, and the status that its caller is told."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


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
        try:
            self.environ = environ = self._read()
        except _Unreadable as refused:
            self.close_connection = True  # nobody knows where the next request would begin
            self.send_error(refused.status)
            return
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

    def _read(self) -> dict[str, Any]:
        """The request, with its whole body."""
        body = self._body()
        incoming, self.rfile = self.rfile, io.BytesIO(body)
        try:
            environ: dict[str, Any] = self.make_environ()
        except ValueError as error:  # the path is no address
            raise _Unreadable(400) from error
        finally:
            self.rfile = incoming
        return {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}

    def _body(self) -> bytes:
        """The body of the request. _Unreadable when it cannot be told where it ends, or when it is
        too long."""
        if self.headers.get("Transfer-Encoding", "").strip().lower() == "chunked":
            return self._chunks()
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            raise _Unreadable(411)
        # thousands of digits are no number for int()
        if len(length.lstrip("0")) > len(str(MOST_BYTES)) or int(length) > MOST_BYTES:
            raise _Unreadable(413)
        return self.rfile.read(int(length))

    def _chunks(self) -> bytes:
        chunks: Any = DechunkedInput(cast(Any, self.rfile))
        try:
            body = io.BufferedReader(chunks).read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:  # these are no chunks, or the last one is cut off
            raise _Unreadable(400) from error
        if len(body) > MOST_BYTES:
            raise _Unreadable(413)
        return body

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """In one line, also where the path is no address."""
        try:
            super().log_request(code, size)
        except ValueError:
            self.log("info", "%r %s %s", self.requestline, code, size)

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
