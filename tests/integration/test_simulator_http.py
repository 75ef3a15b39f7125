"""The simulator over HTTP: every endpoint, credentials, TLS, wrong requests."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
import requests
import trustme

from builders.simulator_client import DESCRIPTION, Client, message
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


# ---------------------------------------------------------------- the protocol


def test_a_create_is_accepted_with_the_url_of_its_operation(simulator, http):
    """202, Location, the operation, its nodes."""
    response = http.create(2, requestId="r1")
    assert response.status_code == 202
    assert response.json()["sets"] == [{"added": 2}]
    operation_id = response.json()["operationId"]
    assert response.headers["Location"] == f"{simulator.url}/operations/{operation_id}"
    operation = http("GET", f"/operations/{operation_id}").json()
    assert operation == {"action": "create", "startTime": "2026-01-01T00:00:00Z"}
    for query in (f"operation={operation_id}", "request_id=r1"):
        listed = http("GET", f"/clusters/c1/nodes?{query}").json()
        assert [node["Name"] for node in listed["nodes"]] == ["htc-1", "htc-2"]
        assert listed["operation"] == operation
    assert http("GET", "/operations/?request_id=r1").json() == [operation]
    assert http("GET", "/operations?request_id=r1").json() == [operation]


def test_status_has_nodes_when_asked_for(simulator, http):
    """As records, and as names in the buckets."""
    http.create(2)
    plain = http("GET", "/clusters/c1/status").json()
    full = http("GET", "/clusters/c1/status?nodes=true").json()
    assert "nodes" not in plain and len(full["nodes"]) == 2
    assert full["nodearrays"][0]["buckets"][0]["activeNodes"] == ["htc-1", "htc-2"]


@pytest.mark.parametrize(
    "action", ["terminate", "remove", "deallocate", "shutdown", "start", "restart", "reimage"]
)
def test_every_action_answers_for_each_node(simulator, http, action):
    """202, an operation, and OK or Error with its reason."""
    http.create(1)
    simulator.clock.settle()
    response = http("POST", f"/clusters/c1/nodes/{action}", {"names": ["htc-1", "unknown"]})
    assert response.status_code == 202
    assert response.headers["Location"].endswith(response.json()["operationId"])
    (node,) = response.json()["nodes"]
    assert (node["name"], node["status"]) == ("htc-1", "OK")


def test_scale_and_retry(simulator, http):
    """Both without a body."""
    response = http("POST", "/clusters/c1/scale/htc?totalNodeCount=3")
    assert (response.status_code, response.json()["sets"]) == (202, [{"added": 3}])
    assert message(http("POST", "/clusters/c1/scale/htc"), 409)
    assert message(http("POST", "/clusters/c1/scale/htc?totalCoreCount=x"), 400)
    simulator.cluster("c1").fail("htc-1")
    response = http("POST", "/cloud/actions/retry/c1")
    assert (response.status_code, response.json()) == (200, {"retried": ["htc-1"]})


def test_names_in_paths_may_be_percent_encoded(http):
    """Whether they need it or not."""
    assert http("GET", "/clusters/%6dy_other%2Ecluster/status").status_code == 200


def test_any_content_type_will_do(http):
    """Or none."""
    for content_type in ("text/plain", "application/json", "application/x-www-form-urlencoded"):
        headers = {"Content-Type": content_type}
        body = {"names": ["nobody"]}
        assert http("POST", "/clusters/c1/nodes/start", body, headers=headers).status_code == 202


def test_a_chunked_body_is_read(simulator, http):
    """Its length is not known beforehand."""
    chunks = iter([b'{"names": ', b'["nobody"]}'])
    url = simulator.url + "/clusters/c1/nodes/start"
    assert requests.post(url, data=chunks, auth=http.auth, timeout=10).status_code == 202


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize("auth", [None, ("simulator", "wrong"), ("", ""), ("other", "x:y")])
def test_without_the_credentials_nothing_is_answered(http, auth):
    """Neither the protocol nor the simulator's own endpoints."""
    for verb, path in (("GET", "/clusters/c1/status"), ("GET", "/simulator/journal"), ("GET", "/")):
        response = http(verb, path, auth=auth)
        assert "password" in message(response, 401)
        assert response.headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/clusters/c3/status", 404),
        ("GET", "/clusters/c3/usage", 404),
        ("POST", "/clusters/c1/nodes/htc-1/ghr", 404),
        ("GET", "/clusters/c1/nodes/htc-1/ghr", 404),
        ("GET", "/operations/unknown", 404),
        ("GET", "/operations/?request_id=unknown", 404),
        ("GET", "/operations/?request_id=", 400),
        ("GET", "/clusters/c1/nodes?request_id=unknown", 404),
        ("GET", "/clusters/c1/status?nodes=maybe", 400),
        ("DELETE", "/clusters/c1/status", 405),
        ("GET", "/clusters/c1/nodes/create", 405),
        ("POST", "/cloud/actions/retry/c3", 404),
        ("POST", "/clusters/c3/scale/htc?totalNodeCount=1", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/clusters/%00/status", 404),
    ],
)
def test_what_is_not_there_is_said_in_json(http, verb, path, status):
    """With a Message; nothing is redirected."""
    assert message(http(verb, path, allow_redirects=False), status)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b'"text"',
        b'{"sets": [}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"sets": 1, "sets": 2}',
    ],
)
@pytest.mark.parametrize("path", ["nodes/create", "nodes/terminate"])
def test_bodies_that_are_no_json_object_are_bad_requests(simulator, http, body, path):
    """Whatever they are."""
    url = f"{simulator.url}/clusters/c1/{path}"
    response = requests.post(url, data=body, auth=http.auth, timeout=10)
    assert "expected a JSON object" in message(response, 400)


@pytest.mark.parametrize(
    "sets",
    [None, {}, "x", 3, [3], [[]], [{}], [{"nodearray": None, "count": {}}], [{"count": 1e300}]],
)
def test_sets_of_the_wrong_kind_are_conflicts(http, sets):
    """Never an error of the server's own."""
    assert message(http("POST", "/clusters/c1/nodes/create", {"sets": sets}), 409)


def test_unknown_request_ids_are_told_in_the_words_that_callers_look_for(http):
    """They match on this text."""
    response = http("GET", "/clusters/c1/nodes?request_id=r7")
    assert "No operation found for request id r7" in message(response, 404)


def test_a_body_that_is_too_large_is_refused(simulator, http):
    """Before it is read."""
    url = simulator.url + "/clusters/c1/nodes/create"
    response = requests.post(url, data=b" " * (17 * 2**20), auth=http.auth, timeout=10)
    assert "at most" in message(response, 413)


# ---------------------------------------------------------------- transport


def test_many_at_once_never_get_more_than_the_limit(simulator, http):
    """Requests are carried out one after the other."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: http.create(3).json()["sets"][0]["added"], range(8)))
    assert (sum(answers), len(simulator.cluster("c1").nodes())) == (10, 10)


def test_tls_with_a_verified_certificate(tmp_path):
    """And a caller that connects and says nothing holds up nobody."""
    authority = trustme.CA()
    identity = authority.issue_cert("127.0.0.1")
    certificate, key, ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    certificate.write_bytes(identity.cert_chain_pems[0].bytes())
    key.write_bytes(identity.private_key_pem.bytes())
    authority.cert_pem.write_to_path(ca)
    with serve(DESCRIPTION, tls=(str(certificate), str(key))) as simulator:
        port = urlsplit(simulator.url).port
        with socket.create_connection(("127.0.0.1", port)):
            http = Client(simulator)
            assert simulator.url.startswith("https:")
            response = http("GET", "/clusters/c1/nodes", verify=str(ca))
            assert response.json() == {"nodes": []}
            created = http("POST", "/clusters/c1/scale/htc?totalNodeCount=1", verify=str(ca))
            assert created.headers["Location"].startswith(simulator.url)
            simulator.faults.add("lost_reply", times=1)
            with pytest.raises(requests.ConnectionError):
                http("GET", "/clusters/c1/nodes", verify=str(ca))
            with pytest.raises(requests.exceptions.SSLError):
                http("GET", "/clusters/c1/nodes")


def test_a_journal_file_has_every_entry_as_a_line(tmp_path):
    """Also after the simulator has ended; a second run appends."""
    path = tmp_path / "journal.jsonl"
    for _ in range(2):
        with serve(DESCRIPTION, journal=path) as simulator:
            Client(simulator).create(1)
            entries = simulator.journal.entries()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    half = len(lines) // 2
    assert lines[:half] == lines[half:] == simulator.journal.entries()
    assert lines[: len(entries)] == entries
    assert [lines[0]["event"], lines[-1]["event"]] == ["server_started", "server_stopped"]
