"""A simulator that listens: a runtime behind an HTTP server, with or without TLS.

Only this module, `app` and `connections`, which it loads when a server starts, know werkzeug. The
command line and `serve` use it.
"""

import logging
import secrets
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

from hpc.autoscale.simulator.errors import StartError
from hpc.autoscale.simulator.runtime import Runtime

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

_log = logging.getLogger(__name__)


class SimulatorServer:
    """A simulator on an address, from `start` to `stop`.

    `port` 0 takes a free one. `tls` is the files of a certificate and its key. Without `password` a
    random one is made. Raises StartError when it cannot listen.
    """

    def __init__(
        self,
        runtime: Runtime,
        host: str = "127.0.0.1",
        port: int = 0,
        username: str = "simulator",
        password: str | None = None,
        tls: tuple[str, str] | None = None,
    ) -> None:
        self.runtime = runtime
        self.username = username
        # of letters and digits alone: one that begins with a dash would be taken for an option of a
        # command
        self.password = password or secrets.token_hex(16)
        self._http = self._listen(host, port, tls)
        scheme = "http" if tls is None else "https"
        shown_host = f"[{host}]" if ":" in host else host
        self.url = f"{scheme}://{shown_host}:{self._http.port}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def _listen(self, host: str, port: int, tls: tuple[str, str] | None) -> "BaseWSGIServer":
        try:
            from werkzeug.serving import make_server

            from hpc.autoscale.simulator.app import Application, Login
            from hpc.autoscale.simulator.connections import OpenConnections, PersistentHandler
        except ModuleNotFoundError as error:
            raise StartError(
                f"{error.name} is missing: pip install 'hpc-autoscale[simulator]'"
            ) from None

        self._connections = OpenConnections()

        class Handler(PersistentHandler):
            """A request handler that logs requests at the level DEBUG."""

            connections = self._connections

            def log(self, type: str, message: str, *args: Any) -> None:
                _log.debug("%s %s", self.address_string(), message % args)

        application = Application(self.runtime, Login(self.username, self.password))
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
        """Begin to answer, and let time pass in the model."""
        self.runtime.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop answering, then end all machines; returns when nothing is left."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._connections.close()
        self._http.server_close()
        self.runtime.stop()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StartError(f"cannot listen on {host} port {port}: {reason}") from None


def _tls_context(tls: tuple[str, str] | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(*tls)
    except OSError as error:  # ssl.SSLError is one
        raise StartError(
            f"TLS certificate {tls[0]} with key {tls[1]}: {error.strerror or error}"
        ) from None
    return context
