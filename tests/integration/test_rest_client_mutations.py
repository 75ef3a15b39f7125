"""Changing things over HTTP exactly once, whatever becomes of the replies."""

from typing import Any

import pytest

from builders.scripted_server import Answer, FakeTime, ScriptedServer, Seen, serving
from hpc.autoscale.ccbindings import clusters, errors
from hpc.autoscale.ccbindings.models import (
    NodeCreationRequest,
    NodeCreationRequestSet,
    NodeManagementRequest,
)
from hpc.autoscale.ccbindings.pacing import NotBefore
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.ccbindings.transport import Timeouts

CREATE = "/clusters/c/nodes/create"
SHUTDOWN = "/clusters/c/nodes/shutdown"
NODES = "/clusters/c/nodes"
STATUS = "/clusters/c/status"
CREATED = {"operationId": "op", "sets": [{"added": 2}]}
NEVER = Answer(404, {"Message": "No operation found for request id rid"})
LOST = [
    Answer(fault="reset"),
    Answer(202, CREATED, fault="cut"),
    Answer(202, b"<html>welcome</html>"),
    Answer(202, b""),
    Answer(202, {"operationId": 7}),
    Answer(502, b"<html>bad gateway</html>"),
    Answer(503, {"Message": "later"}),
    Answer(504, {}),
    Answer(500, {"Message": "NullPointerException"}),
]


def request(request_id: str | None = "rid", count: int = 2) -> NodeCreationRequest:
    wanted = NodeCreationRequestSet(nodearray="htc", count=count)
    return NodeCreationRequest(request_id=request_id, sets=[wanted])


def listing(count: int = 2, action: str = "create", **attributes: Any) -> Answer:
    nodes = [
        {"Name": f"htc-{i}", "NodeId": f"id{i}", "Template": "htc", **attributes}
        for i in range(1, count + 1)
    ]
    operation = {"action": action, "startTime": "2020-01-01T00:00:00Z"}
    return Answer(body={"nodes": nodes, "operation": operation})


@pytest.fixture
def session(server: ScriptedServer, time: FakeTime) -> Session:
    return Session(server.url, "user", "secret", timeouts=Timeouts(5, 5), pacing=time.pacing())


def ids(seen: list[Seen]) -> list[str]:
    return [one.json["requestId"] for one in seen]


def test_a_create_carries_its_request_id(server: ScriptedServer, session: Session) -> None:
    """The id of the caller goes with it, and the reply is the result."""
    server.on("POST", CREATE, Answer(202, CREATED))
    status, result = clusters.create_nodes(session, "c", request())
    assert (status.status_code, result.operation_id, result.sets[0].added) == (202, "op", 2)
    assert ids(server.requests) == ["rid"]


def test_every_mutation_is_given_an_id(server: ScriptedServer, session: Session) -> None:
    """A caller that brings none gets a new one each time; its request is left alone."""
    server.on("POST", CREATE, Answer(202, CREATED))
    wanted = request(None)
    for _ in range(2):
        clusters.create_nodes(session, "c", wanted)
    assert len(set(ids(server.requests))) == 2
    assert wanted.request_id is None


@pytest.mark.parametrize("lost", LOST)
def test_a_lost_reply_is_recovered(server: ScriptedServer, session: Session, lost: Answer) -> None:
    """The server is asked what it did, and nothing is sent twice."""
    server.on("POST", CREATE, lost)
    server.on("GET", NODES, listing(2))
    _, result = clusters.create_nodes(session, "c", request())
    assert result.sets[0].added == 2
    assert len(server.seen("POST", CREATE)) == 1
    assert server.seen("GET", NODES)[0].query == {"request_id": ["rid"]}


@pytest.mark.parametrize("lost", LOST)
def test_what_never_happened_is_sent_again_with_the_same_id(
    server: ScriptedServer, session: Session, lost: Answer
) -> None:
    """Only a request that the server has never heard of is repeated."""
    server.on("POST", CREATE, lost, Answer(202, CREATED))
    server.on("GET", NODES, NEVER)
    _, result = clusters.create_nodes(session, "c", request())
    assert result.operation_id == "op"
    assert ids(server.seen("POST", CREATE)) == ["rid", "rid"]


def test_a_request_that_arrives_late_is_found_by_its_duplicate(
    server: ScriptedServer, session: Session
) -> None:
    """Never heard of at first, then a 409 for the same id: it was carried out after all."""
    server.on("POST", CREATE, Answer(fault="reset"), Answer(409, {"Message": "duplicate"}))
    server.on("GET", NODES, NEVER, listing(2))
    _, result = clusters.create_nodes(session, "c", request())
    assert result.sets[0].added == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, {"Message": "broken"}),
        Answer(404, {"Message": "No such cluster"}),
        Answer(401, {}),
        Answer(fault="reset"),
        Answer(body=b"<html>"),
        Answer(body={"nodes": [{"Name": "old-1"}]}),
        Answer(body={"nodes": []}),
        Answer(429, {}, {"Retry-After": "3600"}),
    ],
)
def test_when_asking_fails_too_the_error_carries_the_id(
    server: ScriptedServer, session: Session, answer: Answer
) -> None:
    """No answer, or one that does not say for which operation it is, confirms nothing."""
    server.on("POST", CREATE, Answer(fault="reset"))
    server.on("GET", NODES, answer)
    with pytest.raises(errors.MutationUnconfirmed, match="request id rid") as raised:
        clusters.create_nodes(session, "c", request())
    assert raised.value.request_id == "rid"
    assert len(server.seen("POST", CREATE)) == 1


def test_replies_lost_for_ever_stay_unconfirmed(server: ScriptedServer, session: Session) -> None:
    """A request that never comes through may still be under way when we give up."""
    server.on("POST", CREATE, Answer(fault="reset"))
    server.on("GET", NODES, NEVER)
    with pytest.raises(errors.MutationUnconfirmed) as raised:
        clusters.create_nodes(session, "c", request())
    assert raised.value.request_id == "rid"
    assert set(ids(server.seen("POST", CREATE))) == {"rid"}


def test_a_server_that_keeps_failing_is_known_not_to_have_done_it(
    server: ScriptedServer, session: Session
) -> None:
    """500 from the server itself and no such operation: the plain error."""
    server.on("POST", CREATE, Answer(500, {"Message": "broken"}))
    server.on("GET", NODES, NEVER)
    with pytest.raises(errors.ServerError, match="broken"):
        clusters.create_nodes(session, "c", request())


def test_a_duplicate_of_an_earlier_pass_is_recovered(
    server: ScriptedServer, session: Session
) -> None:
    """The same id in a later pass gives the result of the first."""
    server.on("POST", CREATE, Answer(409, {"Message": "request id rid has been used"}))
    server.on("GET", NODES, listing(2))
    _, result = clusters.create_nodes(session, "c", request())
    assert result.sets[0].added == 2


def test_an_invalid_request_is_a_conflict(server: ScriptedServer, session: Session) -> None:
    """409 for an id that the server does not know is about the request, and has the server's
    words."""
    server.on("POST", CREATE, Answer(409, {"Message": "No nodearray htc"}))
    server.on("GET", NODES, NEVER)
    with pytest.raises(errors.Conflict, match="No nodearray htc"):
        clusters.create_nodes(session, "c", request())
    assert len(server.seen("POST", CREATE)) == 1


def test_an_id_used_for_something_else_is_a_conflict(
    server: ScriptedServer, session: Session
) -> None:
    """The operation of another action is not taken for ours."""
    server.on("POST", SHUTDOWN, Answer(409, {"Message": "duplicate"}))
    server.on("GET", NODES, listing(2))
    wanted = NodeManagementRequest(names=["htc-1"], request_id="rid")
    with pytest.raises(errors.Conflict, match="request id rid was used before, to create"):
        clusters.shutdown_nodes(session, "c", wanted)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 307])
def test_a_refusal_is_final(server: ScriptedServer, session: Session, status: int) -> None:
    """These are answers: nothing is asked and nothing sent again."""
    server.on("POST", CREATE, Answer(status, {"Message": "no"}, {"Location": "http://x/"}))
    with pytest.raises(errors.HttpError, match=f"HTTP {status}"):
        clusters.create_nodes(session, "c", request())
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_asked_to_wait_it_waits_and_sends_the_same_id(
    server: ScriptedServer, session: Session, time: FakeTime, status: int
) -> None:
    """A demand to wait means that nothing was done."""
    server.on("POST", CREATE, Answer(status, {}, {"Retry-After": "9"}), Answer(202, CREATED))
    clusters.create_nodes(session, "c", request())
    assert ids(server.requests) == ["rid", "rid"]
    assert time.slept == [9.0]


def test_asked_to_wait_too_long_it_ends_and_no_new_session_asks_before(
    server: ScriptedServer, time: FakeTime
) -> None:
    """The error says how long; the endpoint is left alone also by the next session."""
    memory = NotBefore()
    server.on("POST", CREATE, Answer(503, {"Message": "upgrading"}, {"Retry-After": "600"}))
    for _ in range(2):
        session = Session(server.url, "user", "secret", pacing=time.pacing(memory))
        with pytest.raises(errors.Throttled, match=r"upgrading.*limit is 60 s") as raised:
            clusters.create_nodes(session, "c", request())
        assert raised.value.retry_after == pytest.approx(600)
    assert len(server.requests) == 1


def stopping(server: ScriptedServer, time: FakeTime) -> Session:
    """A session of a process that is told to stop once the server was asked something."""
    pacing = time.pacing(told_to_stop=lambda: bool(server.requests))
    return Session(server.url, "user", "secret", timeouts=Timeouts(5, 5), pacing=pacing)


def test_who_is_told_to_stop_does_not_send_a_change_again(
    server: ScriptedServer, time: FakeTime
) -> None:
    """What the server put off was not done, and the error says so."""
    server.on("POST", CREATE, Answer(503, {"Message": "later"}, {"Retry-After": "9"}))
    with pytest.raises(errors.Throttled, match=r"later.*asks to wait 9 s; told to stop"):
        clusters.create_nodes(stopping(server, time), "c", request())
    assert (ids(server.requests), time.slept) == (["rid"], [])


def test_a_reply_that_is_lost_when_told_to_stop_stays_unconfirmed(
    server: ScriptedServer, time: FakeTime
) -> None:
    """It was asked about once, and the next pass asks again."""
    server.on("POST", CREATE, Answer(fault="reset"))
    server.on("GET", NODES, NEVER)
    with pytest.raises(errors.MutationUnconfirmed, match="request id rid"):
        clusters.create_nodes(stopping(server, time), "c", request())
    assert (ids(server.seen("POST", CREATE)), time.slept) == (["rid"], [])


@pytest.mark.parametrize("answer", [Answer(502, {}), Answer(fault="reset")])
def test_who_is_told_to_stop_does_not_read_again(
    server: ScriptedServer, time: FakeTime, answer: Answer
) -> None:
    """The trouble of the only try is the error, at once."""
    server.on("GET", STATUS, answer)
    with pytest.raises(errors.CycleCloudError):
        clusters.get_cluster_status(stopping(server, time), "c", nodes=False)
    assert (len(server.requests), time.slept) == (1, [])


def test_a_change_is_not_asked_for_again_before_the_server_said_so(
    server: ScriptedServer, time: FakeTime
) -> None:
    """However long that is; the error has the server's number, and a loop comes back before."""
    memory = NotBefore()
    server.on("POST", CREATE, Answer(503, {}, {"Retry-After": "7200"}), Answer(202, CREATED))
    for later, left in ((0, 7200), (1000, 6200), (6000, 200)):
        time.time += later
        session = Session(server.url, "user", "secret", pacing=time.pacing(memory))
        with pytest.raises(errors.Throttled, match=f"wait {left} s more, the limit") as raised:
            clusters.create_nodes(session, "c", request())
        assert raised.value.retry_after == pytest.approx(min(left, 900))
        assert len(server.requests) == 1
    time.time += 200
    clusters.create_nodes(session, "c", request())
    assert len(server.requests) == 2


def test_nothing_listening_means_that_it_did_not_happen(time: FakeTime) -> None:
    """A connection that is never made is tried again, and no question is asked."""
    with serving() as gone:
        url = gone.url
    session = Session(url, "user", "secret", pacing=time.pacing())
    with pytest.raises(errors.CycleCloudUnreachable) as raised:
        clusters.create_nodes(session, "c", request())
    assert not raised.value.sent


def test_a_lost_management_reply_is_recovered(server: ScriptedServer, session: Session) -> None:
    """Nodes on their way to where the action sends them were accepted, the others not."""
    answer = listing(2, "shutdown", TargetState="Terminated")
    answer.body["nodes"][1]["TargetState"] = "Started"
    server.on("POST", SHUTDOWN, Answer(fault="reset"))
    server.on("GET", NODES, answer)
    wanted = NodeManagementRequest(names=["htc-1", "htc-2"], request_id="rid")
    _, result = clusters.shutdown_nodes(session, "c", wanted)
    assert [(node.name, node.status) for node in result.nodes] == [
        ("htc-1", "OK"),
        ("htc-2", "Error"),
    ]


def test_address_selector_keeps_its_name_on_the_wire(
    server: ScriptedServer, session: Session
) -> None:
    """`ip_addresses` is the one request key in snake case."""
    server.on("POST", SHUTDOWN, Answer(202, {"operationId": "op", "nodes": []}))
    wanted = NodeManagementRequest(ip_addresses=["10.0.0.4"], request_id="rid")
    clusters.shutdown_nodes(session, "c", wanted)
    assert server.requests[0].json == {"ip_addresses": ["10.0.0.4"], "requestId": "rid"}


def test_scaling_has_no_id_and_is_never_repeated_in_doubt(
    server: ScriptedServer, session: Session
) -> None:
    """A lost reply to a call without an id is an error that says that nothing is known."""
    server.on("POST", "/clusters/c/scale/htc", Answer(fault="reset"))
    with pytest.raises(errors.MutationUnconfirmed) as raised:
        clusters.scale(session, "c", "htc", total_node_count=3)
    assert raised.value.request_id is None
    assert [seen.query for seen in server.requests] == [{"totalNodeCount": ["3"]}]


def test_retrying_failed_nodes_takes_any_body(server: ScriptedServer, session: Session) -> None:
    """That endpoint answers with nothing in particular."""
    server.on("POST", "/cloud/actions/retry/c", Answer(200, b"ok then"))
    assert clusters.retry_failed_nodes(session, "c")[1] == "ok then"


def test_an_invalid_request_never_leaves(server: ScriptedServer, session: Session) -> None:
    """What can be seen to be wrong here is refused here."""
    with pytest.raises(errors.InvalidModel, match=r"sets\[0\].count: expected a whole number"):
        clusters.create_nodes(session, "c", request(count="many"))  # type: ignore[arg-type]
    assert server.requests == []
