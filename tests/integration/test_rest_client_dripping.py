"""A server that sends one byte at a time is late, wherever in the reply it does so."""

import socket
import time
from collections.abc import Iterator

import pytest

from builders.raw_server import RawServer
from builders.scripted_server import FakeTime
from hpc.autoscale.autostop.callback import Callback
from hpc.autoscale.ccbindings import clusters, errors
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.ccbindings.transport import Timeouts
from hpc.autoscale.cost.cache import ResponseCache
from hpc.autoscale.cost.errors import PriceServiceUnavailable
from hpc.autoscale.cost.retail import RetailPrices

READ = 0.1
# a reply may take five times as long; a client that goes on listening sees the end of it
LONGEST = 600
PAUSE = READ / 5


class Dripping(RawServer):
    """Sends `reply` at once, and then byte after byte."""

    def __init__(self, reply: bytes, drop: bytes) -> None:
        self._drop = drop
        self.patient: list[bool] = []
        super().__init__(reply)

    def send(self, connection: socket.socket) -> None:
        """`patient` is told whether the client listened to the end."""
        try:
            connection.sendall(self.reply)
            for _ in range(LONGEST):
                connection.sendall(self._drop)
                time.sleep(PAUSE)
            self.patient.append(True)
        except OSError:
            self.patient.append(False)


WHERE = {
    "status line": (b"HTTP/1.1 200 ", b"O"),
    "header": (b"HTTP/1.1 200 OK\r\nX-Long: ", b"y"),
    "interim replies": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b" "),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}


@pytest.fixture(params=WHERE.values(), ids=WHERE)
def server(request: pytest.FixtureRequest) -> Iterator[Dripping]:
    dripping = Dripping(*request.param)
    yield dripping
    dripping.close()
    assert dripping.patient and not any(dripping.patient)


def test_a_status_that_drips_is_no_answer(server: Dripping) -> None:
    """And the error says that the server was too slow."""
    session = Session(
        server.url, "u", "p", timeouts=Timeouts(read=READ), pacing=FakeTime().pacing(attempts=1)
    )
    with pytest.raises(errors.CycleCloudUnreachable) as raised:
        clusters.get_cluster_status(session, "c", False)
    assert raised.value.timed_out and raised.value.sent


def test_prices_that_drip_are_no_answer(server: Dripping, tmp_path: object) -> None:
    """The price service is asked with the same care."""
    timeouts = Timeouts(connect=5.0, read=READ)
    pacing = FakeTime().pacing(attempts=1)
    prices = RetailPrices(ResponseCache(f"{tmp_path}/cache"), server.url, timeouts, pacing)
    with pytest.raises(PriceServiceUnavailable):
        prices.of_meter("m")


def test_a_node_does_not_wait_for_a_dripping_service(
    server: Dripping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the question as not answered."""
    monkeypatch.setattr("hpc.autoscale.autostop.callback._READ", READ)
    config = {"cluster_name": "c", "url": server.url, "username": "u", "password": "p"}
    assert Callback(config, "i").ask("idle").accepted is None
