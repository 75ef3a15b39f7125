"""A simulator that listens: a runtime behind an HTTP server, with or without TLS.

`app`, which knows werkzeug, is loaded when a server starts. The command line and `serve` use this
module.
"""

import secrets

from hpc.autoscale.simulator.errors import StartError
from hpc.autoscale.simulator.runtime import Runtime
from hpc.autoscale.wsgi.server import ListenError, WsgiServer


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
        try:
            from hpc.autoscale.simulator.app import Application
            from hpc.autoscale.wsgi.basic import Login
        except ModuleNotFoundError as error:
            raise StartError(
                f"{error.name} is missing: pip install 'hpc-autoscale[simulator]'"
            ) from None
        application = Application(runtime, Login(self.username, self.password))
        try:
            self._server = WsgiServer(application, host, port, tls)
        except ListenError as error:
            raise StartError(str(error)) from None
        self.url = self._server.url

    def start(self) -> None:
        """Begin to answer, and let time pass in the model."""
        self.runtime.start()
        self._server.start()

    def stop(self) -> None:
        """Stop answering, then end all machines; returns when nothing is left."""
        self._server.stop()
        self.runtime.stop()
