"""Making a binding from a configuration: credentials, saved replies, mistakes."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from hpc.autoscale import ccbindings
from hpc.autoscale.ccbindings import auth, settings
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.reproduce import ReproduceFromResponse
from hpc.autoscale.ccbindings.transport import Timeouts
from hpc.autoscale.errors import ConfigurationException

SERVER = {
    "cluster_name": "c",
    "url": "https://x:9443",
    "username": "u",
    "password": "hunter2",
}
STATUS = {"maxCount": 1, "maxCoreCount": 1, "nodearrays": []}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials and no jetpack but those of the test."""
    for name in ("CYCLECLOUD_URL", "CYCLECLOUD_USERNAME", "CYCLECLOUD_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("CYCLECLOUD_HOME", str(tmp_path / "cycle"))


def install_jetpack(tmp_path: Path, script: str) -> None:
    command = tmp_path / "cycle" / "bin" / "jetpack"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


def test_a_binding_to_a_server() -> None:
    """Made from the configuration, which stays as it was; certificates are verified."""
    config = dict(SERVER)
    binding = ccbindings.new_cluster_bindings(config)
    assert isinstance(binding, ClusterBinding)
    assert (binding.cluster_name, binding.read_only) == ("c", False)
    assert binding.session._config["verify_certificates"] is True
    assert config == SERVER


def test_a_dry_run() -> None:
    """`read_only` of the configuration."""
    assert ccbindings.new_cluster_bindings({**SERVER, "read_only": True}).read_only


def test_a_given_binding_is_used_as_it_is() -> None:
    """Whatever it is."""
    given = object()
    assert ccbindings.new_cluster_bindings({"_mock_bindings": given}) is given


@pytest.mark.parametrize("more", [{}, {"name": "reproduce"}])
def test_saved_replies(more: dict[str, Any]) -> None:
    """With or without their name."""
    config = {"_mock_bindings": {"cluster_response": STATUS, **more}}
    assert isinstance(ccbindings.new_cluster_bindings(config), ReproduceFromResponse)


def test_an_unknown_kind_of_mock() -> None:
    """Is a programming error."""
    with pytest.raises(AssertionError, match="unsupported _mock_bindings"):
        ccbindings.new_cluster_bindings({"_mock_bindings": {"name": "other"}})


@pytest.mark.parametrize("name", [None, "", 7])
def test_no_cluster_name(name: Any) -> None:
    """One clear line."""
    with pytest.raises(ConfigurationException, match="cluster_name: expected the name"):
        ccbindings.new_cluster_bindings({**SERVER, "cluster_name": name})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("url", "x:9443", "url: expected https://"),
        ("url", "ftp://x", "url: expected https://"),
        ("url", "https://x:http", "url: expected https://"),
        ("url", "https://x/?q=1", "url: expected https://"),
        ("url", "https://u:hunter2@x", "url: must not contain credentials"),
        ("username", "a:b", "username: must not contain a colon"),
        ("verify_certificates", "no", "verify_certificates: expected true or false"),
        ("timeout", 0, "timeout: expected seconds"),
        ("timeout", "soon", "timeout: expected seconds"),
        ("timeout", float("nan"), "timeout: expected seconds"),
        ("timeout", {"read": -1}, "timeout.read: expected seconds"),
        ("retry", 3, "retry: expected an object"),
        ("retry", {"attempts": 0}, "retry.attempts: expected a whole number"),
        ("retry", {"max_retry_after": "x"}, "retry.max_retry_after: expected seconds"),
        ("ca_file", 7, "ca_file: expected a text"),
        ("timeout", True, "timeout: expected seconds"),
        ("ca_file", "/no/such", "ca_file: expected a file"),
    ],
)
def test_settings_that_cannot_be_used(key: str, value: Any, message: str) -> None:
    """Each names its key, and none the password."""
    with pytest.raises(ConfigurationException, match=message) as raised:
        ccbindings.new_cluster_bindings({**SERVER, key: value})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "connect", "read"),
    [
        (None, 10.0, 60.0),
        (5, 5.0, 5.0),
        ("30", 10.0, 30.0),
        ({"connect": 20, "read": 90}, 20.0, 90.0),
        ({"read": 3}, 3.0, 3.0),
    ],
)
def test_timeouts(value: Any, connect: float, read: float) -> None:
    """One number for both, where connecting is cut at ten seconds, or each for itself."""
    assert settings.timeouts({"timeout": value}) == Timeouts(connect, read)


def test_patience() -> None:
    """How often, and how long at most."""
    patience = settings.pacing({"retry": {"attempts": 2, "max_retry_after": 0}})
    assert (patience.attempts, patience.longest_wait) == (2, 0.0)
    assert settings.pacing({}).longest_wait == 60.0


def test_jetpack_knows_who_we_are(tmp_path: Path) -> None:
    """Where the configuration has no credentials; only the end of the line is cut off."""
    install_jetpack(tmp_path, 'case "$2" in *username) echo node-user;; *) echo " pass ";; esac')
    credentials = auth.resolve_credentials({"url": "https://x"})
    assert (credentials.username, credentials.password) == ("node-user", " pass ")
    assert auth._find_jetpack().endswith("bin/jetpack")


def test_the_configuration_comes_before_jetpack(tmp_path: Path) -> None:
    """jetpack is not asked for what is known."""
    install_jetpack(tmp_path, "echo jetpack")
    assert auth.resolve_credentials(SERVER).username == "u"


def test_without_jetpack(tmp_path: Path) -> None:
    """What is missing is said in terms of the configuration."""
    with pytest.raises(auth.JetpackNotFoundError, match="expected jetpack on PATH"):
        auth.get_cyclecloud_access_credentials()
    with pytest.raises(ConfigurationException, match="username of the CycleCloud server"):
        ccbindings.new_cluster_bindings({"cluster_name": "c", "url": "https://x"})


@pytest.mark.parametrize("script", ["exit 3", "true", "echo hunter2; exit 1"])
def test_a_jetpack_that_does_not_know(tmp_path: Path, script: str) -> None:
    """Both reasons are given, and nothing that it printed."""
    install_jetpack(tmp_path, script)
    with pytest.raises(ConfigurationException, match=r"username .*; .*jetpack config") as raised:
        auth.resolve_credentials({"url": "https://x"})
    assert "hunter2" not in str(raised.value)


def test_the_client_look_alike() -> None:
    """The names that code for CycleCloud's own client looks up."""
    client = Client({"cluster_name": "c"}, url="https://x/", username="u", password="p")
    cluster = client.clusters.get("c")
    assert cluster.name == "c"
    assert cluster._client.session is client.session
    assert client.session._config.get("url") == "https://x"


@pytest.mark.parametrize("missing", ["url", "username", "password"])
def test_the_client_needs_all_three(missing: str) -> None:
    """Without one of them it says which."""
    config = {key: value for key, value in SERVER.items() if key != missing}
    with pytest.raises(ConfigurationException, match=f"{missing} of the .* is not set"):
        Client(config)


class TestReproduce:
    """A binding made of saved replies."""

    def test_from_files(self, tmp_path: Path) -> None:
        """Paths, under either name of the listing."""
        status, nodes = tmp_path / "status.json", tmp_path / "nodes.json"
        status.write_text(json.dumps(STATUS))
        nodes.write_text(json.dumps({"nodes": [{"Name": "n"}]}))
        for key in ("node_list", "nodes_response"):
            binding = ReproduceFromResponse({"cluster_response": str(status), key: str(nodes)})
            assert binding.get_nodes().nodes[0]["Name"] == "n"
            assert binding.get_cluster_status(nodes=True).nodes == []
            assert binding.cluster_name == "mock-reproduce-cluster"

    def test_without_a_listing(self) -> None:
        """The nodes of the status stand in."""
        binding = ReproduceFromResponse({"cluster_response": {**STATUS, "nodes": [{"Name": "n"}]}})
        assert binding.get_nodes().nodes[0]["Name"] == "n"
        binding.check_listing(binding.get_cluster_status(nodes=True), binding.get_nodes())

    def test_nothing_can_be_changed(self) -> None:
        """Every mutation is an AssertionError."""
        binding = ReproduceFromResponse({"cluster_response": STATUS})
        for call in (
            lambda: binding.create_nodes([]),
            lambda: binding.delete_nodes([]),
            lambda: binding.scale("htc", total_node_count=1),
            lambda: binding.start_nodes(names=["n"]),
            lambda: binding.reimage_nodes(names=["n"]),
            binding.retry_failed_nodes,
        ):
            with pytest.raises(AssertionError, match="cannot be changed"):
                call()

    def test_nothing_saved(self) -> None:
        """`cluster_response` must be there."""
        with pytest.raises(AssertionError, match="cluster_response"):
            ReproduceFromResponse({})

    @pytest.mark.parametrize("content", ["{", "[]", None])
    def test_a_file_that_cannot_be_used(self, tmp_path: Path, content: str | None) -> None:
        """The error names the file."""
        path = tmp_path / "status.json"
        if content is not None:
            path.write_text(content)
        with pytest.raises(ConfigurationException, match=r"cluster_response '.*status.json'"):
            ReproduceFromResponse({"cluster_response": str(path)})
