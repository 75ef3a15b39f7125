"""The commands of autostop: the service that nodes ask, and what runs on each node.

Only `azscale` has them. Who may stop is decided by the library; here is how it is started.
"""

from __future__ import annotations

from argparse import ArgumentParser

from hpc.autoscale.autostop.ledger import Ledger, ledger_path
from hpc.autoscale.autostop.service import StopService
from hpc.autoscale.autostop.settings import access_of
from hpc.autoscale.autostop.web import Application
from hpc.autoscale.cli.autoscaling import stop_on_signals
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.drivers import driver_for
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.requestsets.store import RequestStore, store_path
from hpc.autoscale.wsgi.server import WsgiServer

DEFAULT_PORT = 8444
_NOTICE_SECONDS = 0.5


def new_application(config: Config, home: str, directory: str = "") -> Application:
    """The WSGI application for the cluster of a configuration, which keeps its file in `home`.

    `directory` is where the module of the driver may be, too. ConfigurationException when the
    configuration or the driver cannot be used, LedgerError when the file cannot be.
    """
    store = RequestStore(store_path(config, home))
    service = StopService(
        config,
        lambda: driver_for(config, directory),
        Ledger(ledger_path(config, home)),
        # without a scheduler nobody but request sets says what is wanted
        None if config.get("driver") else store.nodearrays,
    )
    access = access_of(config)
    return Application(service, access.username, access.password)


class AutostopCommands(CommandLine):
    """The commands serve_autostop and autostop."""

    _directory = ""

    def serve_autostop_parser(self, parser: ArgumentParser) -> None:
        """Options of serve_autostop."""
        add = parser.add_argument
        parser.set_defaults(read_only=False)
        add("--bind", default="127.0.0.1", metavar="ADDRESS", help="listen here (127.0.0.1)")
        add(
            "--port",
            type=int,
            default=DEFAULT_PORT,
            help=f"and on this port; 0 for a free one ({DEFAULT_PORT})",
        )
        add("--tls-cert", metavar="FILE", help="certificate chain: listen with TLS")
        add("--tls-key", metavar="FILE", help="private key of the certificate")

    def serve_autostop(
        self,
        config: Config,
        bind: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        tls_cert: str | None = None,
        tls_key: str | None = None,
    ) -> None:
        """Answers nodes that ask whether they may stop, until SIGTERM or SIGINT."""
        tls = _tls(tls_cert, tls_key)
        application = new_application(config, self._state_home(config), self._directory)
        with stop_on_signals() as stop:
            server = WsgiServer(application, bind, port, tls)
            try:
                server.start()
                print(server.url, flush=True)
                while not stop.wait(_NOTICE_SECONDS):
                    pass
            finally:
                server.stop()


def _tls(certificate: str | None, key: str | None) -> tuple[str, str] | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise AutoscaleError("expected --tls-cert and --tls-key together, found only one")
    return certificate, key
