"""TLS: verified by default, and what the configuration and the environment may change about it."""

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from builders.scripted_server import Answer, FakeTime, ScriptedServer, serving, serving_tls
from hpc.autoscale.ccbindings import clusters, errors, transport
from hpc.autoscale.ccbindings.pacing import NotBefore, Pacing
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.errors import ConfigurationException

STATUS = "/clusters/c/status"
EMPTY = {"maxCount": 1, "maxCoreCount": 1, "nodearrays": []}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture(autouse=True)
def no_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def tls_server(authority: trustme.CA, host: str) -> Iterator[ScriptedServer]:
    with serving_tls(authority, host) as script:
        script.on("GET", STATUS, Answer(body=EMPTY))
        yield script


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[ScriptedServer]:
    with tls_server(authority, "127.0.0.1") as script:
        yield script


def read(url: str, **settings: object) -> int:
    session = Session(url, "user", "secret", pacing=FakeTime().pacing(), **settings)  # type: ignore[arg-type]
    return clusters.get_cluster_status(session, "c")[1].max_count


def test_an_unknown_issuer_is_refused(server: ScriptedServer) -> None:
    """Verification is on unless it is turned off, and its failure is not retried."""
    with pytest.raises(errors.CertificateError, match=r"certificate verify failed.*ca_file"):
        read(server.url)
    assert server.requests == []


def test_a_configured_issuer_is_trusted(server: ScriptedServer, ca_file: str) -> None:
    """`ca_file` names the certificates to trust."""
    assert read(server.url, ca_file=ca_file) == 1


def test_a_certificate_for_another_host_is_refused(authority: trustme.CA, ca_file: str) -> None:
    """A trusted issuer is not enough."""
    wrong_host = pytest.raises(errors.CertificateError, match=r"IP address mismatch|doesn't match")
    with tls_server(authority, "example.invalid") as server, wrong_host:
        read(server.url, ca_file=ca_file)


def test_a_bundle_of_the_environment_is_trusted(
    server: ScriptedServer, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is configured, the usual variable counts."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", ca_file)
    assert read(server.url) == 1


def test_turning_verification_off_beats_the_environment(
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    recwarn: pytest.WarningsRecorder,
) -> None:
    """`verify_certificates: false` holds whatever the environment says, with one warning in all."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert read(server.url, verify_certificates=False) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not verified" in caplog.text
    assert not [w for w in recwarn if "Unverified" in str(w.message)]


def test_a_ca_file_that_is_not_there(server: ScriptedServer) -> None:
    """It is a mistake in the configuration, found before anything is sent."""
    with pytest.raises(ConfigurationException, match="ca_file: expected a file"):
        read(server.url, ca_file="/no/such/file")


def test_a_ca_file_that_holds_no_certificate(server: ScriptedServer, tmp_path: Path) -> None:
    """Its TLS library's error is one of ours."""
    path = tmp_path / "empty.pem"
    path.write_text("nothing\n")
    with pytest.raises(errors.CycleCloudUnreachable):
        read(server.url, ca_file=str(path))


def test_a_server_that_does_not_speak_tls() -> None:
    """https to a plain server is a clear error, for which no certificate is to blame."""
    with serving() as plain, pytest.raises(errors.CycleCloudUnreachable, match="no answer") as told:
        read(plain.url.replace("http:", "https:"))
    assert "plain HTTP is spoken there: see `url`" in str(told.value)
    assert "verify_certificates" not in str(told.value)


def test_a_certificate_that_changes_during_a_create(authority: trustme.CA, ca_file: str) -> None:
    """What was sent before may arrive yet, so that nobody may take the create for one that was
    not carried out."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    def change(_: float) -> None:
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    pacing = Pacing(attempts=2, sleep=change, not_before=NotBefore())
    never = {"Message": "No operation found for request id rid"}
    request = {"requestId": "rid", "sets": [{"nodearray": "htc", "count": 2}]}
    with serving(context) as script:
        session = Session(script.url, "user", "secret", ca_file=ca_file, pacing=pacing)
        script.on("POST", "/clusters/c/nodes/create", Answer(fault="reset"))
        script.on("GET", "/clusters/c/nodes", Answer(404, never, {"Connection": "close"}))
        with pytest.raises(errors.MutationUnconfirmed, match="certificate verify failed"):
            clusters.create_nodes(session, "c", request)
    assert [seen.method for seen in script.requests] == ["POST", "GET"]


def test_an_overlong_reply_is_not_read_to_its_end(
    server: ScriptedServer, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a limit to what is taken for a reply."""
    monkeypatch.setattr(transport, "LARGEST_BODY", 10)
    with pytest.raises(errors.CycleCloudUnreachable, match="longer than 10 bytes"):
        read(server.url, ca_file=ca_file)
