"""Connections to the simulator stay open between requests, and end with it."""

import http.client
import socket
from base64 import b64encode

import pytest

from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.simulator import serve
from hpc.autoscale.wsgi.connections import MOST_BYTES, OpenConnections

SIZE = "Standard_F4s_v2"
CLUSTERS = {"c": {"region": "westus2", "nodearrays": {"htc": {"machine_types": [SIZE]}}}}


@pytest.fixture
def simulator():
    """One that listens."""
    with serve({"clusters": CLUSTERS}) as running:
        yield running


@pytest.fixture
def connection(simulator):
    """A connection to it; asking on it again would connect anew if it were closed, so that is
    refused."""
    host = simulator.url.removeprefix("http://")
    made = http.client.HTTPConnection(host, timeout=10)
    made.connect()
    made.auto_open = 0
    yield made
    made.close()


def asked(connection, simulator, method="GET", path="/clusters/c/status", body=None):
    """The status of the reply, which is read."""
    there = simulator.connection("c")
    secret = b64encode(f"{there['username']}:{there['password']}".encode()).decode()
    connection.request(method, path, body, {"Authorization": f"Basic {secret}"})
    reply = connection.getresponse()
    reply.read()
    return reply.status


def test_many_requests_on_one_connection(simulator, connection):
    """Also after a body that nobody reads, after an error and without a body in the reply."""
    assert asked(connection, simulator) == 200
    assert asked(connection, simulator, path="/nowhere") == 404
    assert asked(connection, simulator, "POST", "/nowhere", b"x" * 100_000) == 404
    assert asked(connection, simulator, "POST", "/nowhere", iter([b"in", b"chunks"])) == 404
    assert asked(connection, simulator, "HEAD") in (200, 405)
    connection.request("GET", "/clusters/c/status")
    reply = connection.getresponse()
    reply.read()
    assert reply.status == 401
    assert asked(connection, simulator) == 200


def test_a_manager_is_made_over_one_connection(simulator, monkeypatch):
    """The status and the nodes come over the same."""
    callers = []
    original = OpenConnections.add

    def counted(self, caller):
        callers.append(caller)
        original(self, caller)

    monkeypatch.setattr(OpenConnections, "add", counted)
    new_node_manager(simulator.connection("c"))
    assert len(callers) == 1


def test_a_caller_that_wants_no_other_request(simulator, connection):
    """Is told that the connection ends."""
    connection.request("GET", "/nowhere", headers={"Connection": "close"})
    reply = connection.getresponse()
    reply.read()
    assert reply.getheader("Connection") == "close"
    assert connection.sock is None or connection.sock.recv(1) == b""


def test_a_body_without_an_end_is_refused(simulator, connection):
    """And the connection with it: where the next request begins cannot be told."""
    head = "POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"
    connection.sock.sendall(head.encode())
    said = b"".join(iter(lambda: connection.sock.recv(4096), b""))
    assert said.startswith(b"HTTP/1.1 411 ")


CHUNKED = "POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LONG = f"{MOST_BYTES + 9:x}\r\n{'x' * (MOST_BYTES + 9)}\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (f"{CHUNKED}no chunk\r\n", 400),
        (f"{CHUNKED}-5\r\n", 400),
        (f"{CHUNKED}5\r\nabc", 400),
        (f"{CHUNKED}5\r\nabcdefgh", 400),
        (f"{CHUNKED}{LONG}", 413),
        ("GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {'9' * 5000}\r\n\r\n", 413),
        (f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {MOST_BYTES + 1}\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 411),
    ],
    ids=lambda value: "".join(filter(str.isalnum, str(value)[:120][-40:])),
)
def test_requests_that_make_no_sense_are_refused(simulator, connection, said, status):
    """With a status, before anything is asked of who sends them, and the connection ends."""
    try:
        connection.sock.sendall(said.encode())
        connection.sock.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: connection.sock.recv(4096), b""))
        assert reply.startswith(f"HTTP/1.1 {status} ".encode())
    except ConnectionError:  # who sends more than is read is hung up on
        assert len(said) > MOST_BYTES
    again = http.client.HTTPConnection(simulator.url.removeprefix("http://"), timeout=10)
    assert asked(again, simulator) == 200
    again.close()


def test_nobody_is_answered_after_the_end():
    """Not even who is connected already."""
    with serve({"clusters": CLUSTERS}) as running:
        connection = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=10)
        assert asked(connection, running) == 200
        connection.auto_open = 0
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.request("GET", "/clusters/c/status")
        connection.getresponse()
    connection.close()
