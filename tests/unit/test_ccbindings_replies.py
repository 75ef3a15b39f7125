"""Judging replies, waiting times, and what lost replies must have said."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.ccbindings import errors
from hpc.autoscale.ccbindings.models import (
    NodeCreationRequest,
    NodeCreationRequestSet,
    NodeCreationRequestSetDefinition,
    NodeList,
)
from hpc.autoscale.ccbindings.pacing import NotBefore, Pacing, RetryAfter, retry_after
from hpc.autoscale.ccbindings.recovery import creation_result, management_result
from hpc.autoscale.ccbindings.replies import Reply, decode, error_for

ENDPOINT = ("https://x", "GET", "/y")


def reply(body: bytes, status: int = 500) -> Reply:
    return Reply("https://x/y", status, {}, body, lambda text: text.replace("hunter2", "***"))


@given(st.integers(100, 599), st.binary(max_size=200))
def test_every_reply_without_success_is_an_error_of_ours(status: int, body: bytes) -> None:
    """Whatever the status and the bytes: the URL, the status, a short text."""
    error = error_for(reply(body, status))
    assert isinstance(error, errors.CycleCloudError)
    assert "https://x/y" in str(error) and str(status) in str(error)
    assert len(str(error)) < 4000


@given(st.binary(max_size=200))
def test_every_body_is_json_or_an_error_of_ours(body: bytes) -> None:
    """Decoding raises nothing else."""
    try:
        decode(reply(body, 200))
    except errors.BadReply as error:
        assert "expected JSON" in str(error)


@given(st.text(max_size=20), st.integers(1, 200))
def test_json_that_was_cut_off_is_recognised(text: str, cut: int) -> None:
    """An object cut anywhere is not mistaken for text of another kind."""
    whole = json.dumps({"nodes": [{"Name": text, "x": [1.5, None, True]}] * 5}).encode()
    with pytest.raises(errors.BadReply, match="cut off"):
        decode(reply(whole[: min(cut, len(whole) - 1)], 200))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"Message": "A", "Detail": "B"}', "A B"),
        (b'{"message": "A", "detail": "A"}', "A"),
        (b'{"Message": null, "Detail": "B"}', "B"),
        (b'{"Message": 7}', "'{\"Message\": 7}'"),
        (b'["a"]', "'[\"a\"]'"),
        (b"", "an empty body"),
        (b"hunter2", "7 bytes that are not JSON: '***'"),
        (b'{"Message": "hunter2 is wrong"}', "*** is wrong"),
    ],
)
def test_the_servers_words(body: bytes, message: str) -> None:
    """Message and Detail when there are any, else what there is, and no secret."""
    assert reply(body).message() == message


def test_long_words_are_shortened() -> None:
    """Beginning and end of a text remain."""
    text = str(error_for(reply(b'{"Message": "begin %s end"}' % (b"x" * 9000))))
    assert len(text) < 4000
    assert "begin" in text and text.endswith("end")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", None),
        ("soon", None),
        ("-5", None),
        ("inf", None),
        ("1e9", None),
        ("0", 0.0),
        ("120", 120.0),
        (" 1.5 ", 1.5),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Thu, 99 Jan 1970 00:00:00 GMT", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    """Seconds or a date; nonsense counts as nothing, the past as now."""
    assert retry_after({"Retry-After": value}, lambda: 10.0) == seconds


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone cannot be set")
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize(
    "date",
    ["Thu Jan  1 00:01:40 1970", "Thursday, 01-Jan-70 00:01:40 GMT", "1 Jan 1970 00:01:40 -0000"],
)
def test_a_date_is_in_utc(monkeypatch: pytest.MonkeyPatch, zone: str, date: str) -> None:
    """In each of the forms of HTTP, wherever the machine is."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        seconds = retry_after({"Retry-After": date, "Date": "Thu, 01 Jan 1970 00:00:10 GMT"}, float)
    time.tzset()
    assert seconds == 90.0


@given(st.text(max_size=40))
def test_no_retry_after_is_too_odd(value: str) -> None:
    """Any text is a time of at least 0, or none."""
    seconds = retry_after({"Retry-After": value, "Date": value}, lambda: 0.0)
    assert seconds is None or seconds >= 0


def test_the_longest_demand_counts_until_it_has_passed() -> None:
    """A shorter one does not cut a longer one short."""
    memory = NotBefore()
    memory.note(ENDPOINT, RetryAfter(50.0, 503, ""))
    memory.note(ENDPOINT, RetryAfter(20.0, 429, ""))
    assert memory.pending(ENDPOINT, 49.0) == RetryAfter(50.0, 503, "")
    assert memory.pending(ENDPOINT, 50.0) is None
    assert memory.pending(("https://z", "GET", "/y"), 0.0) is None


@given(st.integers(0, 60) | st.integers(1_000, 10**9), st.floats(0, 1))
def test_back_off_grows_and_is_bounded(attempt: int, jitter: float) -> None:
    """Between half and all of a delay that doubles up to its limit."""
    slept: list[float] = []
    Pacing(sleep=slept.append, jitter=lambda: jitter).back_off(attempt)
    nominal = min(8.0, 0.5 * 2.0 ** min(attempt, 60))
    assert nominal / 2 <= slept[0] <= nominal


def test_nodes_of_a_lost_create_are_counted_to_their_sets() -> None:
    """In the order of the request, by nodearray, size and placement group."""
    size = NodeCreationRequestSetDefinition(machine_type="Standard_F4")
    sets = [
        NodeCreationRequestSet(nodearray="htc", count=2, definition=size),
        NodeCreationRequestSet(nodearray="htc", count=2, definition=size),
        NodeCreationRequestSet(nodearray="htc", count=1, placement_group_id="pg"),
    ]
    records = [{"Template": "htc", "MachineType": "standard_f4", "PlacementGroupId": None}] * 3
    records.append({"Template": "htc", "MachineType": "Standard_F8", "PlacementGroupId": "pg"})
    result = creation_result(NodeCreationRequest(sets=sets), "rid", NodeList(nodes=records))
    assert [one.added for one in result.sets] == [2, 1, 1]
    assert result.sets[1].message == "1 fewer than asked for; the reply with the reason was lost"
    assert result.operation_id == "rid"


def test_sets_that_asked_for_a_name_have_the_node_of_that_name() -> None:
    """Whatever their order; the others have the rest."""
    names = ["c-1", "c-2", None, "c-3"]
    sets = [NodeCreationRequestSet(nodearray="htc", count=1, name_format=name) for name in names]
    made = [{"Name": name, "Template": "htc"} for name in ("C-3", "htc-1", "c-2")]
    result = creation_result(NodeCreationRequest(sets=sets), "rid", NodeList(nodes=made))
    assert [one.added for one in result.sets] == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("action", "target", "status"),
    [
        ("start", "Started", "OK"),
        ("shutdown", "Deallocated", "OK"),
        ("terminate", "Terminated", "OK"),
        ("terminate", "Started", "Error"),
        ("remove", None, "Error"),
    ],
)
def test_nodes_of_a_lost_management_call(action: str, target: str | None, status: str) -> None:
    """Where a node is headed says whether the action was accepted for it."""
    listing = NodeList(nodes=[{"Name": "n", "NodeId": "i", "TargetState": target}])
    assert management_result(action, "rid", listing).nodes[0].status == status


def test_a_node_of_a_lost_call_that_says_nothing_of_itself() -> None:
    """The result has no None where the protocol has texts."""
    listing = NodeList(nodes=[{"Name": None, "NodeId": None, "TargetState": "Started"}])
    management_result("start", "rid", listing).validate()
