"""An HTTP server for one WSGI application, in a thread of this process.

Only this module and `connections`, which it loads when a server starts, know werkzeug.
"""

import logging
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

from hpc.autoscale.errors import AutoscaleError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from werkzeug.serving import BaseWSGIServer

_log = logging.getLogger(__name__)


class ListenError(AutoscaleError):
    """A server cannot listen."""


class WsgiServer:
    """An application on an address, from `start` to `stop`. A thread answers each connection.

    `port` 0 takes a free one. `tls` is the files of a certificate and its key. `needed_by` is what
    of the package's extras brings werkzeug. Raises ListenError when it cannot listen.
    """

    def __init__(
        self,
        application: "WSGIApplication",
        host: str = "127.0.0.1",
        port: int = 0,
        tls: tuple[str, str] | None = None,
        needed_by: str = "simulator",
    ) -> None:
        self._http = self._listen(application, host, port, tls, needed_by)
        scheme = "http" if tls is None else "https"
        shown_host = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{shown_host}:{self._http.port}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def _listen(
        self,
        application: "WSGIApplication",
        host: str,
        port: int,
        tls: tuple[str, str] | None,
        needed_by: str,
    ) -> "BaseWSGIServer":
        try:
            from werkzeug.serving import make_server

            from hpc.autoscale.wsgi.connections import OpenConnections, PersistentHandler
        except ModuleNotFoundError as error:
            raise ListenError(
                f"{error.name} is missing: pip install 'hpc-autoscale[{needed_by}]'"
            ) from None

        self._connections = OpenConnections()

        class Handler(PersistentHandler):
            """A request handler that logs requests at the level DEBUG."""

            connections = self._connections

            def log(self, type: str, message: str, *args: Any) -> None:
                _log.debug("%s %s", self.address_string(), message % args)

        context = _tls_context(tls)
        # bound here, because werkzeug prints and exits when the address is taken
        with _bound(host, port) as bound:
            http = make_server(
                host,
                port,
                application,
                threaded=True,
                request_handler=Handler,
                fd=bound.fileno(),
            )
        if context is not None:
            # no handshake in accept, where a caller that says nothing would hold up all others
            http.socket = context.wrap_socket(
                http.socket, server_side=True, do_handshake_on_connect=False
            )
            http.ssl_context = context
        return http

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering, and end all connections."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._connections.close()
        self._http.server_close()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        # newer interpreters put the address behind it, which is said already
        reason = str(getattr(error, "strerror", None) or error).partition(" (while attempting ")[0]
        raise ListenError(f"cannot listen on {host} port {port}: {reason}") from None


def _tls_context(tls: tuple[str, str] | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(*tls)
    except OSError as error:  # ssl.SSLError is one
        raise ListenError(
            f"TLS certificate {tls[0]} with key {tls[1]}: {error.strerror or error}"
        ) from None
    return context
