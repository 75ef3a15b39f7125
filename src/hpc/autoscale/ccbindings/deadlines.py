"""Connections on which a whole reply has a deadline: status line, header and body together.

HTTP libraries limit the time between two pieces of a reply, and a server that sends one byte at a
time is never late. Here each piece may take the read timeout, and all of them `PIECES` times that.
TLS handshakes and sending are limited as a whole by the socket itself. Whoever opens sessions uses
this; it is imported with the HTTP library and not before.
"""

import http.client
import io
import socket
import time
from typing import TYPE_CHECKING, Any

import requests
import requests.adapters
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# how many read timeouts a whole reply may take
PIECES = 5


class _PunctualBytes(io.RawIOBase):
    """What comes out of a socket until a deadline; TimeoutError from then on."""

    def __init__(self, inner: io.RawIOBase, sock: socket.socket, patience: float) -> None:
        self._inner = inner
        self._sock = sock
        self._patience = patience
        # real time, because sockets wait by no other clock
        self._deadline = time.monotonic() + PIECES * patience

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the reply did not end in time")
        self._sock.settimeout(min(left, self._patience))
        return self._inner.readinto(buffer)

    def close(self) -> None:
        self._inner.close()
        super().close()


class _PunctualResponse(http.client.HTTPResponse):
    """A response whose socket has its read timeout set."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        patience = sock.gettimeout()
        if patience is not None:
            self.fp = io.BufferedReader(_PunctualBytes(self.fp.detach(), sock, patience))


class _HttpConnection(HTTPConnection):
    response_class = _PunctualResponse


class _HttpsConnection(HTTPSConnection):
    response_class = _PunctualResponse


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


_POOLS = {"http": _HttpPool, "https": _HttpsPool}


class _PunctualAdapter(requests.adapters.HTTPAdapter):
    """Opens connections of these classes, through a proxy as well."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not proxy.lower().startswith("socks"):  # which has pools of its own
            manager.pool_classes_by_scheme = _POOLS
        return manager


def punctual_session() -> requests.Session:
    """A session on whose connections replies have a deadline. Each request must give a timeout."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _PunctualAdapter())
    return session
