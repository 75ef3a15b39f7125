"""The REST client against a real HTTP server: what it sends, what it makes of answers, and of
everything else."""

import base64
import logging
import re

import pytest
import requests

from builders.scripted_server import Answer, FakeTime, ScriptedServer, serving
from hpc.autoscale.ccbindings import clusters, deadlines, errors
from hpc.autoscale.ccbindings.models import NodeManagementRequest
from hpc.autoscale.ccbindings.pacing import NotBefore, Pacing
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.ccbindings.transport import Timeouts

STATUS = "/clusters/c/status"
NODES = "/clusters/c/nodes"
EMPTY = {"maxCount": 1, "maxCoreCount": 1, "nodearrays": []}
PASSWORD = 'pa"ss/wörd'


@pytest.fixture
def session(server: ScriptedServer, time: FakeTime) -> Session:
    return Session(server.url, "user", PASSWORD, timeouts=Timeouts(5, 5), pacing=time.pacing())


def test_sends_basic_credentials_beyond_latin_1(server: ScriptedServer, session: Session) -> None:
    """User name and password go as UTF-8 in a Basic Authorization header."""
    server.on("GET", STATUS, Answer(body=EMPTY))
    clusters.get_cluster_status(session, "c", nodes=True)
    sent = server.requests[0].headers["Authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")).decode() == f"user:{PASSWORD}"


def test_sends_booleans_in_lower_case_and_leaves_out_what_is_not_set(
    server: ScriptedServer, session: Session
) -> None:
    """`nodes=true`, and no parameter for None."""
    server.on("GET", STATUS, Answer(body=EMPTY))
    server.on("GET", NODES, Answer(body={"nodes": []}))
    clusters.get_cluster_status(session, "c", nodes=True)
    clusters.get_nodes(session, "c")
    assert server.requests[0].query == {"nodes": ["true"]}
    assert server.requests[1].query == {}


def test_a_name_is_one_path_segment(server: ScriptedServer, session: Session) -> None:
    """A cluster name with a slash, a space and a question mark stays one segment."""
    server.on("GET", "/clusters/a%2Fb%20c%3Fd/status", Answer(body=EMPTY))
    assert clusters.get_cluster_status(session, "a/b c?d")[1].max_count == 1


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_change_the_path_is_refused(session: Session, name: str) -> None:
    """Names that a path normaliser would swallow never leave."""
    with pytest.raises(Exception, match="expected the name of a cluster"):
        clusters.get_cluster_status(session, name)


def test_netrc_and_proxies_of_the_environment_are_ignored(
    server: ScriptedServer, session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    """Neither a .netrc entry nor a proxy with credentials changes who we are or where we go."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://p:q@127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://p:q@127.0.0.1:9")
    server.on("GET", STATUS, Answer(body=EMPTY))
    clusters.get_cluster_status(session, "c")
    sent = server.requests[0].headers["Authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")).decode().startswith("user:")


@pytest.mark.parametrize("fault", ["429", "502", "503", "504", "reset", "cut"])
def test_one_failure_of_a_read_is_no_error(
    server: ScriptedServer, session: Session, time: FakeTime, fault: str
) -> None:
    """A read is tried again after a back-off when the trouble may pass."""
    bad = Answer(int(fault), {}) if fault.isdigit() else Answer(body=EMPTY, fault=fault)
    server.on("GET", STATUS, bad, Answer(body=EMPTY))
    assert clusters.get_cluster_status(session, "c")[1].max_count == 1
    assert time.slept == [0.5]


def test_a_read_that_times_out_is_tried_again(server: ScriptedServer, time: FakeTime) -> None:
    """Silence beyond the timeout counts as a failure that may pass."""
    impatient = Session(server.url, "user", "x", timeouts=Timeouts(5, 0.1), pacing=time.pacing())
    server.on("GET", STATUS, Answer(fault="silence"), Answer(body=EMPTY))
    assert clusters.get_cluster_status(impatient, "c")[1].max_count == 1


def test_reads_give_up_in_the_end_with_growing_pauses(
    server: ScriptedServer, session: Session, time: FakeTime
) -> None:
    """Four attempts, pauses doubling, and the last failure is the error."""
    server.on("GET", STATUS, Answer(502, b"<html><title>Bad gateway</title></html>"))
    with pytest.raises(errors.ServerError, match="HTTP 502: an HTML page titled 'Bad gateway'"):
        clusters.get_cluster_status(session, "c")
    assert len(server.requests) == 4
    assert time.slept == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.AuthenticationFailed),
        (403, errors.AccessDenied),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (418, errors.BadRequest),
        (500, errors.ServerError),
    ],
)
def test_a_refused_read_is_not_repeated(
    server: ScriptedServer, session: Session, status: int, kind: type[errors.HttpError]
) -> None:
    """Each status has its error, with the server's words, after a single request."""
    server.on("GET", STATUS, Answer(status, {"message": "No.", "DETAIL": "Because."}))
    with pytest.raises(kind, match=rf"/clusters/c/status.*HTTP {status}: No. Because."):
        clusters.get_cluster_status(session, "c")
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_errors_that_name_their_target(
    server: ScriptedServer, session: Session, status: int
) -> None:
    """A redirect is not followed, so the credentials go nowhere else."""
    with serving() as elsewhere:
        server.on("GET", STATUS, Answer(status, {}, {"Location": f"{elsewhere.url}/login"}))
        with pytest.raises(errors.Redirected, match=f"redirected to {elsewhere.url}/login"):
            clusters.get_cluster_status(session, "c")
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", "an empty body"),
        (b"<html><head><title>Log\n in</title></head>", "an HTML page titled 'Log in'"),
        (b'{"maxCount": 1, "nodearr', "JSON that is cut off after 24 bytes"),
        (b"maintenance", "11 bytes that are not JSON: 'maintenance'"),
        (b"\xff\xfe\x00garbage", "not JSON"),
        (b'{"maxCount": NaN}', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "expected an object"),
        (b'"text"', "expected an object"),
        (b"{}", "maxCount: expected a whole number, found nothing"),
        (
            b'{"maxCount": "1", "maxCoreCount": 1, "nodearrays": []}',
            "maxCount: expected a whole number, found '1' (str)",
        ),
        (
            b'{"maxCount": 1, "maxCoreCount": 1, "nodearrays": [{"name": "a", "maxCount": 1,'
            b' "maxCoreCount": 1, "nodearray": {}, "buckets": [7]}]}',
            "nodearrays[0].buckets[0]: expected an object, found 7 (int)",
        ),
    ],
)
def test_garbage_instead_of_a_status(
    server: ScriptedServer, session: Session, body: bytes, found: str
) -> None:
    """Whatever comes with a 200, the error says what it was, and where."""
    server.on("GET", STATUS, Answer(body=body))
    with pytest.raises(errors.BadReply) as raised:
        clusters.get_cluster_status(session, "c")
    assert found in str(raised.value)
    assert f"{server.url}{STATUS}" in str(raised.value)
    assert "HTTP 200" in str(raised.value)


def test_error_texts_are_short_and_without_secrets(
    server: ScriptedServer, session: Session
) -> None:
    """A server that repeats our password at length gets neither into the text."""
    token = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
    server.on("GET", STATUS, Answer(500, {"Message": f"{PASSWORD} {token} " * 1000}))
    with pytest.raises(errors.ServerError) as raised:
        clusters.get_cluster_status(session, "c")
    text = str(raised.value)
    assert len(text) < 4000
    assert PASSWORD not in text and token not in text
    assert raised.value.__cause__ is None


def test_secrets_in_a_body_that_is_no_error_message_are_hidden(
    server: ScriptedServer, session: Session
) -> None:
    """The same in plain text, in JSON of another shape and in a wrong value."""
    for body in (PASSWORD.encode(), b'{"x": "%s"}' % b'pa\\"ss/w\\u00f6rd'):
        server.on("GET", f"/clusters/c{len(body)}/status", Answer(500, body))
        with pytest.raises(errors.ServerError) as raised:
            clusters.get_cluster_status(session, f"c{len(body)}")
        assert "***" in str(raised.value)
        assert "ss/w" not in str(raised.value)


def test_the_session_does_not_show_its_password(session: Session) -> None:
    """Neither repr nor the looked-up configuration has it."""
    assert PASSWORD not in repr(session)
    assert "password" not in session._config


def test_nothing_listens(time: FakeTime) -> None:
    """A refused connection is an error that names the URL, after as many attempts as any."""
    with serving() as gone:
        url = gone.url
    with pytest.raises(errors.CycleCloudUnreachable, match="Connection refused") as raised:
        clusters.get_cluster_status(Session(url, "user", "secret", pacing=time.pacing()), "c")
    assert url in str(raised.value)
    assert not raised.value.sent
    assert len(time.slept) == 3


def test_a_name_that_does_not_resolve(time: FakeTime) -> None:
    """So is a host name that does not exist."""
    session = Session(
        "http://no-such-host.invalid", "user", "secret", pacing=time.pacing(attempts=1)
    )
    with pytest.raises(errors.CycleCloudUnreachable, match=r"no-such-host\.invalid"):
        clusters.get_cluster_status(session, "c")


def test_retry_after_in_seconds_is_kept(
    server: ScriptedServer, session: Session, time: FakeTime
) -> None:
    """The server's own waiting time takes the place of the back-off."""
    server.on("GET", STATUS, Answer(503, {}, {"Retry-After": "7"}), Answer(body=EMPTY))
    clusters.get_cluster_status(session, "c")
    assert time.slept == [7.0]


def test_retry_after_as_a_date_is_held_against_the_date_of_the_server(
    server: ScriptedServer, session: Session, time: FakeTime
) -> None:
    """The clocks of server and client may differ by years."""
    headers = {
        "Retry-After": "Fri, 21 Nov 2008 10:00:30 GMT",
        "Date": "Fri, 21 Nov 2008 10:00:00 GMT",
    }
    server.on("GET", STATUS, Answer(429, {}, headers), Answer(body=EMPTY))
    clusters.get_cluster_status(session, "c")
    assert time.slept == [pytest.approx(30.0)]


def test_a_longer_wait_than_allowed_ends_at_once(
    server: ScriptedServer, session: Session, time: FakeTime
) -> None:
    """A demand beyond the limit is an error that says so, without waiting."""
    server.on("GET", STATUS, Answer(429, {"Message": "busy"}, {"Retry-After": "61"}))
    with pytest.raises(errors.Throttled, match=r"HTTP 429: busy.*61 s more, the limit is 60 s"):
        clusters.get_cluster_status(session, "c")
    assert len(server.requests) == 1
    assert time.slept == []


def test_a_wait_beyond_all_numbers_is_one(
    server: ScriptedServer, session: Session, time: FakeTime
) -> None:
    """Whatever the number of digits: nothing is sent again at once."""
    server.on("POST", f"{NODES}/shutdown", Answer(429, {}, {"Retry-After": "9" * 400}))
    with pytest.raises(errors.Throttled, match="asks to wait 1000000000 s more"):
        clusters.shutdown_nodes(session, "c", NodeManagementRequest(names=["n"]))
    assert len(server.requests) == 1


def test_a_reply_that_is_cut_off_is_called_so(server: ScriptedServer, session: Session) -> None:
    """After fewer bytes than were announced, and in the middle of a chunk."""
    server.on("GET", STATUS, Answer(body=EMPTY, fault="cut"))
    with pytest.raises(errors.CycleCloudUnreachable, match=r"/clusters/c/status.* cut off"):
        clusters.get_cluster_status(session, "c")
    server.on(
        "GET", NODES, Answer(body=b"ff\r\n{", headers={"Transfer-Encoding": "chunked"}, fault="cut")
    )
    with pytest.raises(errors.CycleCloudUnreachable, match=r"/clusters/c/nodes.* cut off"):
        clusters.get_nodes(session, "c")


def test_a_server_that_asks_for_a_day_is_read_after_the_ceiling(
    server: ScriptedServer, session: Session, time: FakeTime
) -> None:
    """The error says what the server asked for, and when it is asked all the same."""
    server.on("GET", STATUS, Answer(503, {}, {"Retry-After": "86400"}), Answer(body=EMPTY))
    for _ in range(2):
        with pytest.raises(errors.Throttled, match=r"86400 s more.*after 900 s.*ceiling") as raised:
            clusters.get_cluster_status(session, "c")
    assert raised.value.retry_after == pytest.approx(900.0)
    assert len(server.requests) == 1
    time.time += 900
    clusters.get_cluster_status(session, "c")


def test_the_error_after_all_attempts_has_what_the_server_asked_for(server: ScriptedServer) -> None:
    """Not what is made of it."""
    server.on("GET", STATUS, Answer(429, {}, {"Retry-After": "86400"}))
    pacing = Pacing(attempts=1, ceiling=9.0, not_before=NotBefore())
    session = Session(server.url, "user", "secret", pacing=pacing)
    with pytest.raises(errors.Throttled, match=r"asks to wait 86400 s; giving up") as raised:
        clusters.get_cluster_status(session, "c")
    assert raised.value.retry_after == 9.0


def test_a_new_session_keeps_the_promise_of_the_old_one(
    server: ScriptedServer, time: FakeTime
) -> None:
    """No request goes to that endpoint before its time; others may."""
    memory = NotBefore()
    server.on("GET", STATUS, Answer(503, {}, {"Retry-After": "100"}), Answer(body=EMPTY))
    server.on("GET", NODES, Answer(body={"nodes": []}))
    for _ in range(3):
        session = Session(server.url, "user", "secret", pacing=time.pacing(memory))
        with pytest.raises(errors.Throttled):
            clusters.get_cluster_status(session, "c")
    assert len(server.requests) == 1
    clusters.get_nodes(session, "c")
    time.time += 70
    clusters.get_cluster_status(session, "c")
    assert time.slept == [pytest.approx(30.0)]
    assert len(server.seen("GET", STATUS)) == 2


def test_throttling_without_a_time_gives_up_after_all_attempts(
    server: ScriptedServer, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """429 for ever is a Throttled that does not know for how long. No try is said to be the
    last while others follow."""
    server.on("GET", STATUS, Answer(429, {"Message": "slow down"}))
    with pytest.raises(errors.Throttled, match="slow down") as raised:
        clusters.get_cluster_status(session, "c")
    assert raised.value.retry_after is None
    assert len(server.requests) == 4
    assert "try 1 of 4" in caplog.text and "giving up" not in caplog.text


def test_node_records_answer_in_any_case(server: ScriptedServer, session: Session) -> None:
    """Records of a listing are looked up without regard to case."""
    server.on("GET", NODES, Answer(body={"Nodes": [{"name": "n-1", "NodeId": "i"}]}))
    record = clusters.get_nodes(session, "c")[1].nodes[0]
    assert (record["Name"], record.get("nodeid"), record.get("State")) == ("n-1", "i", None)


def test_nodes_of_a_request_that_never_happened(server: ScriptedServer, session: Session) -> None:
    """The server's words for it are an error of their own."""
    text = "No operation found for request id abc"
    server.on("GET", NODES, Answer(404, {"Message": text}))
    with pytest.raises(errors.OperationNotFound, match=text):
        clusters.get_nodes(session, "c", request_id="abc")


def test_a_missing_cluster_is_not_a_request_that_never_happened(
    server: ScriptedServer, session: Session
) -> None:
    """Any other 404 is evidence of nothing."""
    server.on("GET", NODES, Answer(404, {"Message": "No such cluster"}))
    with pytest.raises(errors.NotFound) as raised:
        clusters.get_nodes(session, "c", request_id="abc")
    assert not isinstance(raised.value, errors.OperationNotFound)


def test_an_operation_may_go_by_its_request_id(server: ScriptedServer, session: Session) -> None:
    """An operation id that the server does not know is tried as a request id."""
    listing = {"nodes": [], "operation": {"action": "create", "startTime": "t"}}
    unknown = Answer(404, {"Message": "No operation found for id r"})
    server.on("GET", NODES, unknown, Answer(body=listing))
    assert clusters.get_nodes(session, "c", operation="r")[1].operation is not None
    assert server.requests[1].query == {"request_id": ["r"]}


def test_usage_and_operations(server: ScriptedServer, session: Session) -> None:
    """The remaining documented reads decode to their models."""
    item = {"category": "cluster", "hours": 2.5}
    usage = {"usage": [{"start": "a", "end": "b", "total": item, "breakdown": [item]}]}
    operation = {"action": "create", "startTime": "t"}
    server.on("GET", "/clusters/c/usage", Answer(body=usage))
    server.on("GET", "/operations/o", Answer(body=operation))
    server.on("GET", "/operations/", Answer(body=[operation]))
    assert clusters.get_usage(session, "c", details=True)[1].usage[0].total.hours == 2.5
    assert server.requests[0].query == {"expand": ["details"]}
    assert clusters.get_operation(session, "o")[1].action == "create"
    assert [o.action for o in clusters.list_operations(session, "r")[1]] == ["create"]


@pytest.mark.parametrize("body", [{"a": 1}, 7, None, [7], [{"action": 1}]])
def test_garbage_instead_of_operations(
    server: ScriptedServer, session: Session, body: object
) -> None:
    """A list of operations that is none is a clear error too."""
    server.on("GET", "/operations/", Answer(body=body))
    with pytest.raises(errors.BadReply, match="a list of operations"):
        clusters.list_operations(session, "r")


def test_a_silent_server_is_left_after_its_timeout_times_the_tries(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """No pause is made on top of the waiting, and each try is said with server, time and number."""
    server.on("GET", STATUS, Answer(fault="silence"))
    session, slept = impatient(server, attempts=3)
    with caplog.at_level(logging.WARNING), pytest.raises(errors.CycleCloudUnreachable):
        clusters.get_cluster_status(session, "c")
    said = [record.getMessage() for record in caplog.records]
    assert [line.rpartition("; ")[2] for line in said] == [f"try {n} of 3)" for n in (1, 2, 3)]
    assert all(re.match(rf"{server.url}{STATUS}.*\(waited \d+\.\d s; ", line) for line in said)
    assert (len(server.requests), slept) == (3, [])


def test_a_change_asked_of_a_silent_server_takes_no_more_tries_than_a_read(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The question whether it was carried out is one of them."""
    shutdown = "/clusters/c/nodes/shutdown"
    for method, path in (("POST", shutdown), ("GET", NODES)):
        server.on(method, path, Answer(fault="silence"))
    session, slept = impatient(server, attempts=3)
    with caplog.at_level(logging.WARNING), pytest.raises(errors.MutationUnconfirmed):
        clusters.shutdown_nodes(session, "c", NodeManagementRequest(names=["htc-1"]))
    assert [seen.path for seen in server.requests] == [shutdown, NODES, NODES]
    assert (len(caplog.records), slept) == (3, [])


def test_loading_the_http_library_is_not_waiting_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However long it takes: where nobody listens, nothing is said of a wait."""
    now = [0.0]

    def load() -> requests.Session:
        now[0] += 5.0
        return requests.Session()

    monkeypatch.setattr(deadlines, "punctual_session", load)
    pacing = Pacing(attempts=1, now=lambda: now[0])
    with caplog.at_level(logging.WARNING), pytest.raises(errors.CycleCloudUnreachable) as raised:
        Session("http://127.0.0.1:1", "u", "p", pacing=pacing).read(NODES)
    assert raised.value.waited == 0.0
    (record,) = caplog.records
    assert "(waited 0.0 s; try 1 of 1)" in record.getMessage()
    assert record.name != "cyclecloud.waits"


def impatient(server: ScriptedServer, attempts: int) -> tuple[Session, list[float]]:
    """A session that waits 0.3 s for an answer, and what it has slept on top of that."""
    slept: list[float] = []
    pacing = Pacing(attempts, first_delay=0.2, longest_delay=0.2, sleep=slept.append)
    return Session(server.url, "u", "p", timeouts=Timeouts(0.3, 0.3), pacing=pacing), slept
