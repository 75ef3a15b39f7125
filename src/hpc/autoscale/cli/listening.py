"""Commands that listen: where, with which certificate, and until when.

What they answer is the business of the command.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable

from hpc.autoscale.cli.argtypes import CommandLineError, port_type
from hpc.autoscale.cli.autoscaling import stop_on_signals
from hpc.autoscale.wsgi.server import WsgiServer

_NOTICE_SECONDS = 0.5

Tls = tuple[str, str]
"""The files of a certificate chain and of its private key."""


def add_listening(parser: ArgumentParser, port: int) -> None:
    """Add --bind, --port, --tls-cert and --tls-key. `port`: the one by default."""
    add = parser.add_argument
    add("--bind", default="127.0.0.1", metavar="ADDRESS", help="listen here (127.0.0.1)")
    add("--port", type=port_type, default=port, help=f"and on this port; 0 for a free one ({port})")
    add("--tls-cert", metavar="FILE", help="certificate chain: listen with TLS")
    add("--tls-key", metavar="FILE", help="private key of the certificate")


def tls_of(certificate: str | None, key: str | None) -> Tls | None:
    """What the options of TLS say. CommandLineError when one of them is missing."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise CommandLineError("expected --tls-cert and --tls-key together, found only one")
    return certificate, key


def serve_until_stopped(server: WsgiServer, begun: Callable[[], None]) -> None:
    """Answer until SIGTERM, SIGINT or SIGHUP. `begun` is called once it listens."""
    with stop_on_signals() as stop:
        try:
            server.start()
            begun()
            while not stop.wait(_NOTICE_SECONDS):
                pass
        finally:
            server.stop()
