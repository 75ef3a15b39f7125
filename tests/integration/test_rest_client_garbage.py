"""Whatever bytes a server sends, what leaves the client is a result or an error of ours."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.raw_server import RawServer
from builders.scripted_server import FakeTime
from hpc.autoscale.ccbindings import clusters, errors
from hpc.autoscale.ccbindings.models import NodeManagementRequest
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.ccbindings.transport import Timeouts


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    raw = RawServer()
    yield raw
    raw.close()


STATUS_LINES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 202\r\n",
        b"HTTP/1.1 99999 ?\r\n",
        b"HTTP/1.1 307 T\r\nLocation: //\xff[\r\n",
        b"HTTP/9.9 -1 x\r\n",
        b"",
    ]
)
HEADERS = st.sampled_from(
    [
        b"Content-Length: -1\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 10000\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Content-Encoding: br, deflate\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Retry-After: 0\r\nDate: yesterday\r\n",
        b"X: " + b"y" * 70_000 + b"\r\n",
        b"no colon here\r\n",
        b"\xff\xfe: \x00\r\n",
        b"",
    ]
)
BODIES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"{}", b"[]", b"null", b"5\r\n{}{}{\r\nzz\r\n", b'{"nodes": null}']),
)


@given(st.one_of(st.binary(max_size=60), st.tuples(STATUS_LINES, HEADERS, HEADERS, BODIES)))
def test_no_bytes_bring_another_exception_out(server: RawServer, reply: object) -> None:
    """Neither for a read nor for a change; and every text is short and names the server."""
    server.reply = reply if isinstance(reply, bytes) else _assembled(*reply)  # type: ignore[misc]
    pacing = FakeTime().pacing(attempts=2)
    session = Session(server.url, "user", "secret", timeouts=Timeouts(5, 5), pacing=pacing)
    wanted = NodeManagementRequest(names=["n"])
    for call in (
        lambda: clusters.get_cluster_status(session, "c"),
        lambda: clusters.get_nodes(session, "c", request_id="rid"),
        lambda: clusters.shutdown_nodes(session, "c", wanted),
    ):
        with pytest.raises(errors.CycleCloudError) as raised:
            call()
        text = str(raised.value)
        assert server.url in text and len(text) < 4000 and "secret" not in text


@pytest.mark.parametrize("sent", [b"SSH-2.0-OpenSSH_9.2\r\n", b'{"nodes": []}' * 1000])
def test_what_is_no_http_is_said_to_be_none(server: RawServer, sent: bytes) -> None:
    """In a few words, with the beginning of what came."""
    server.reply = sent
    session = Session(server.url, "user", "secret", pacing=FakeTime().pacing(attempts=1))
    with pytest.raises(errors.CycleCloudUnreachable) as raised:
        clusters.get_cluster_status(session, "c")
    begun = f'no answer from CycleCloud: what came is no HTTP, but "{sent[:8].decode()}'
    assert begun in str(raised.value) and len(str(raised.value)) < 250


def _assembled(status_line: bytes, first: bytes, second: bytes, body: bytes) -> bytes:
    return status_line + first + second + b"\r\n" + body
