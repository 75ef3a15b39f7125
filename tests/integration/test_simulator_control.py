"""Faults, and the simulator's own endpoints: clock, journal, accidents."""

import time

import pytest
import requests

from builders.simulator_client import DESCRIPTION, F2, Client, message
from hpc.autoscale.simulator import serve


@pytest.fixture
def simulator():
    """A simulator with a driven clock."""
    with serve(DESCRIPTION) as running:
        yield running


@pytest.fixture
def http(simulator):
    """Calls to it."""
    return Client(simulator)


# ---------------------------------------------------------------- faults


def test_a_lost_reply_was_acted_upon(simulator, http):
    """The connection closes without an answer, and the nodes are there; the second call is
    answered."""
    simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    with pytest.raises(requests.ConnectionError):
        http.create(2, requestId="r1")
    assert len(simulator.cluster("c1").nodes()) == 2
    assert "used before" in message(http.create(2, requestId="r1"), 409)
    assert [e["message"] for e in simulator.journal.entries(event="fault")] == ["lost_reply"]


def test_no_reply_was_not_acted_upon(simulator, http):
    """The other half of what a caller cannot tell apart."""
    simulator.faults.add("no_reply", times=1)
    with pytest.raises(requests.ConnectionError):
        http.create(2, requestId="r1")
    assert http.create(2, requestId="r1").status_code == 202


def test_error_statuses_with_retry_after(simulator, http):
    """In seconds or as a date; carried out only when that is ordered."""
    simulator.faults.add("status", status=429, retry_after=3, message="slowly", calls=[1])
    response = http.create(1)
    assert (message(response, 429), response.headers["Retry-After"]) == ("slowly", "3")
    simulator.faults.clear()
    simulator.faults.add(
        "status", status=504, acts=True, retry_after="Fri, 01 Jan 2027 00:00:00 GMT"
    )
    response = http.create(1)
    assert message(response, 504) and response.headers["Retry-After"].startswith("Fri")
    assert len(simulator.cluster("c1").nodes()) == 1


def test_garbage_in_the_place_of_json(simulator, http):
    """A page, half a reply, a reply that breaks off, a reply without nodes."""
    http.create(2)
    simulator.faults.add("html", calls=[1])
    simulator.faults.add("truncated", calls=[2])
    simulator.faults.add("cut_off", calls=[3])
    simulator.faults.add("empty_nodes", calls=[4])
    path = "/clusters/c1/status?nodes=true"
    page = http("GET", path)
    assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html")
    half = http("GET", path)
    assert half.status_code == 200
    with pytest.raises(ValueError, match=r"Unterminated|Expecting|Invalid"):
        half.json()
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        http("GET", path)
    empty = http("GET", path).json()
    assert (empty["nodes"], empty["nodearrays"][0]["buckets"][0]["activeCount"]) == ([], 2)


def test_latency_is_real_time(simulator, http):
    """The caller's patience is tried; the answer is right."""
    simulator.faults.add("latency", seconds=0.3, times=1)
    with pytest.raises(requests.Timeout):
        requests.get(simulator.url + "/clusters/c1/nodes", auth=http.auth, timeout=0.1)
    assert http("GET", "/clusters/c1/nodes").json() == {"nodes": []}


# ---------------------------------------------------------------- control


def test_the_clock_is_driven_over_http(simulator, http):
    """advance and settle; backwards and nonsense are refused."""
    http.create(1)
    assert http("POST", "/simulator/clock", {"advance": 1}).json()["driven"] is True
    assert simulator.cluster("c1").nodes()[0]["Status"] == "Acquiring"
    now = http("POST", "/simulator/clock", {"settle": 1000}).json()["now"]
    assert (now, simulator.cluster("c1").nodes()[0]["Status"]) == (simulator.clock.now(), "Ready")
    assert http("GET", "/simulator/clock").json() == {"now": now, "driven": True}
    for wrong in ({}, {"advance": -1}, {"advance": 1, "settle": 1}, {"advance": "1"}, {"adv": 1}):
        assert message(http("POST", "/simulator/clock", wrong), 400)
    assert message(http("POST", "/simulator/clock", {"advance": 1e12}), 409)


def test_a_real_clock_cannot_be_driven():
    """But it can be fast: a boot of 16 seconds is over in a moment."""
    with serve(DESCRIPTION, clock="real", speed=1e6) as simulator:
        http = Client(simulator)
        assert message(http("POST", "/simulator/clock", {"advance": 1}), 409)
        http.create(1)
        deadline = time.monotonic() + 20
        while (status := simulator.cluster("c1").nodes()[0]["Status"]) != "Ready":
            assert time.monotonic() < deadline, status
            time.sleep(0.01)


def test_the_journal_can_be_read_in_parts(simulator, http):
    """After a number, and by its facts."""
    http.create(2)
    entries = http("GET", "/simulator/journal").json()["entries"]
    assert [entry["seq"] for entry in entries] == [1, 2, 3, 4, 5]
    later = http("GET", "/simulator/journal?since=3&event=created").json()["entries"]
    assert [entry["name"] for entry in later] == ["htc-2"]
    assert later[0]["cause"] == "rest"


def test_faults_are_ordered_over_http(http):
    """Installed, reported, taken back; wrong ones are refused."""
    faults = {"faults": [{"kind": "status", "endpoint": "get_nodes"}]}
    assert http("POST", "/simulator/faults", faults).status_code == 200
    assert http("GET", "/clusters/c1/nodes").status_code == 500
    assert http("GET", "/simulator/faults").json()["faults"][0]["fired"] == 1
    assert http("DELETE", "/simulator/faults").json() == {"faults": []}
    assert "kind" in message(http("POST", "/simulator/faults", {"faults": [{}]}), 400)
    assert message(
        http("POST", "/simulator/faults", {"faults": [{"kind": "html", "calls": [0]}]}), 400
    )


def test_accidents_are_ordered_over_http(simulator, http):
    """Eviction, failure, attributes, capacity."""
    http.create(1, "spot")
    http.create(1)
    simulator.clock.settle()
    base = "/simulator/clusters/c1"
    assert http("POST", f"{base}/evict", {"names": ["spot-1"]}).json() == {"names": ["spot-1"]}
    assert http("POST", f"{base}/fail", {"names": ["htc-1"], "message": "disk"}).status_code == 200
    edit = {"names": ["htc-1"], "attributes": {"KeepAlive": True}}
    assert http("POST", f"{base}/edit", edit).status_code == 200
    records = {node["Name"]: node for node in simulator.cluster("c1").nodes()}
    assert records["spot-1"]["Status"] == "Unavailable"
    assert (records["htc-1"]["StatusMessage"], records["htc-1"]["KeepAlive"]) == ("disk", True)
    assert http("POST", "/simulator/regions/westus2/capacity", {F2: 0}).status_code == 200
    assert message(http("POST", "/simulator/regions/eastus/capacity", {F2: 0}), 404)
    assert message(http("POST", "/simulator/regions/westus2/capacity", {F2: -1}), 400)
    assert message(http("POST", f"{base}/evict", {"names": "spot-1"}), 400)
    assert http("GET", "/simulator/clusters").json() == {"clusters": ["c1", "my_other.cluster"]}
    assert http("GET", "/simulator/machines").json() == {"machines": []}
