"""CycleCloud's own client, where it is installed: when it is used, what it is told, and a cluster's
life through it."""

import importlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.binding_contract import ROOM, BindingContract, created, planned
from builders.foreign_package import importable, write_package
from builders.nodes import a_planned_node
from builders.scripted_server import Answer, FakeTime, serving
from hpc.autoscale.ccbindings import (
    ClusterBindingInterface,
    clusters,
    errors,
    new_cluster_bindings,
    settings,
)
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.simulator import Simulator, serve

DESCRIPTION = {
    "clusters": {
        "c.1": {
            "region": "westus2",
            "nodearrays": {"htc": {"machine_types": ["Standard_F4"], "max_count": ROOM}},
        }
    }
}
SERVER = {
    "cluster_name": "c.1",
    "url": "https://cc:9443",
    "username": "u",
    "password": "hunter2",
    "cyclecloud_client": "auto",
}
CREDENTIALS = ("cluster_name", "url", "username", "password")


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with serve(DESCRIPTION) as running:
        yield running


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """A directory from which Python imports; nothing in it yet."""
    with importable(tmp_path / "packages"):
        yield tmp_path / "packages"


@pytest.fixture
def installed(packages: Path) -> Any:
    """The package is there; its module `client`."""
    write_package(packages)
    return importlib.import_module("cyclecloud.client")


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Pauses take no time."""
    time = FakeTime()
    monkeypatch.setattr(settings, "pacing", lambda config: time.pacing())
    return time


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING)
    return caplog


def through_it(simulator: Simulator) -> dict[str, Any]:
    """A configuration that insists on that client."""
    return {**simulator.connection("c.1"), "cyclecloud_client": "installed"}


def is_ours(binding: Any) -> bool:
    """Whether the binding speaks through our client."""
    ours = (isinstance(binding.client, Client), isinstance(binding.session, Session))
    assert len({*ours, binding.clusters_module is clusters}) == 1
    return ours[0]


def is_theirs(binding: Any) -> bool:
    """Whether it speaks through the installed one."""
    return not is_ours(binding) and type(binding.session).__module__ == "cyclecloud.session"


class TestContract(BindingContract):
    """What every binding promises, held by a binding over that client."""

    @pytest.fixture
    def binding(self, installed: Any, simulator: Simulator) -> ClusterBindingInterface:
        return new_cluster_bindings(through_it(simulator))

    @pytest.fixture
    def settle(self, simulator: Simulator) -> Callable[[], None]:
        return simulator.clock.settle


def test_a_cluster_grows_and_shrinks_through_it(installed: Any, simulator: Simulator) -> None:
    """Status, create, ready, delete, gone: managers made of the configuration alone, and every
    request is that client's."""
    config = through_it(simulator)
    first = new_node_manager(config)
    first.allocate({"ncpus": 4}, node_count=3)
    assert [node.name for node in first.bootup().nodes] == ["htc-1", "htc-2", "htc-3"]
    simulator.clock.settle()
    second = new_node_manager(config)
    assert {node.state for node in second.get_nodes()} == {"Ready"}
    assert second.delete(second.get_nodes()[:2])
    simulator.clock.settle()
    third = new_node_manager(config)
    assert is_theirs(third.cluster_bindings)
    sent = importlib.import_module("cyclecloud.session").SENT
    assert [node.name for node in third.get_nodes()] == ["htc-3"]
    assert third.get_buckets()[0].available_count == ROOM - 1
    assert {"/clusters/c.1/nodes/create", "/clusters/c.1/nodes/shutdown"} <= {p for _, p in sent}


def test_it_is_told_what_the_configuration_says(installed: Any) -> None:
    """Credentials wherever they come from, certificates verified, one timeout; the configuration
    stays as it is."""
    config = {**SERVER, "timeout": {"connect": 5, "read": 30}, "pbspro": {}}
    given = dict(config)
    binding = new_cluster_bindings(config)
    assert installed.MADE == [
        {**SERVER, "verify_certificates": True, "timeout": 30.0, "pbspro": {}}
    ]
    assert config == given
    assert "https://cc:9443" in str(binding) and "hunter2" not in str(binding)


def test_credentials_of_the_environment_reach_it(
    installed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its exceptions are shown without the password."""
    for key in ("url", "username", "password"):
        monkeypatch.setenv(f"CYCLECLOUD_{key.upper()}", SERVER[key])
    binding = new_cluster_bindings({"cluster_name": "c.1", "cyclecloud_client": "installed"})
    assert {key: installed.MADE[0][key] for key in ("url", "username", "password")} == {
        key: SERVER[key] for key in ("url", "username", "password")
    }

    def failing(*args: Any) -> None:
        raise Exception("login u:hunter2 failed")

    importlib.import_module("cyclecloud.api.clusters").get_nodes = failing
    with pytest.raises(errors.CycleCloudError, match=r"login u:\*\*\* failed"):
        binding.get_nodes()


def test_not_verifying_is_passed_on_with_a_warning(
    installed: Any, log: pytest.LogCaptureFixture
) -> None:
    """As for our own client."""
    url = "https://not-verified:9443"
    new_cluster_bindings({**SERVER, "url": url, "verify_certificates": False})
    assert installed.MADE[0]["verify_certificates"] is False
    assert f"{url}: its certificate is not verified" in log.text


def test_a_certificate_that_it_does_not_trust(installed: Any) -> None:
    """Is reported with the keys that are about it."""
    binding = new_cluster_bindings(SERVER)

    def failing(*args: Any) -> None:
        raise Exception("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed")

    importlib.import_module("cyclecloud.api.clusters").get_nodes = failing
    with pytest.raises(errors.CycleCloudError, match=r"see `ca_file` and `verify_certificates`"):
        binding.get_nodes()


def test_a_create_whose_reply_is_lost(installed: Any, simulator: Simulator) -> None:
    """That client sends once and gives up; the server is asked, and nothing is created twice."""
    simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    node_mgr = new_node_manager(through_it(simulator))
    node_mgr.allocate({"ncpus": 4}, node_count=2)
    assert [node.name for node in node_mgr.bootup().nodes] == ["htc-1", "htc-2"]
    assert len(simulator.cluster("c.1").nodes()) == 2


def test_reads_are_tried_again(installed: Any, simulator: Simulator, no_waiting: FakeTime) -> None:
    """As long as no answer comes, with pauses, as our own client does."""
    binding = new_cluster_bindings(through_it(simulator))
    simulator.faults.add("no_reply", endpoint="get_cluster_status", times=3)
    assert binding.get_cluster_status().nodearrays[0].name == "htc"
    assert no_waiting.slept == [0.5, 1.0, 2.0]
    simulator.faults.add("no_reply", endpoint="get_nodes", times=4)
    with pytest.raises(
        errors.CycleCloudUnreachable, match=r"cluster c\.1 at http:\S*: get_nodes: no answer"
    ):
        binding.get_nodes()


def test_a_create_that_nobody_can_be_asked_about(
    installed: Any, simulator: Simulator, no_waiting: FakeTime
) -> None:
    """It stays unconfirmed, with its id, for the next pass to find out."""
    simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    simulator.faults.add("lost_reply", endpoint="get_nodes", times=4)
    binding = new_cluster_bindings(through_it(simulator))
    with pytest.raises(errors.MutationUnconfirmed) as raised:
        binding.create_nodes(planned(binding, "htc-1"), "the-id")
    assert raised.value.request_id == "the-id"
    again = binding.create_nodes(planned(binding, "htc-1"), "the-id")
    assert [one.added for one in again.sets] == [1]
    assert len(simulator.cluster("c.1").nodes()) == 1


def test_an_id_of_another_action_is_no_success(installed: Any, simulator: Simulator) -> None:
    """A create under the id of a shutdown stays refused."""
    binding = new_cluster_bindings(through_it(simulator))
    (record,) = created(binding, "htc-1")
    binding.shutdown_nodes(node_ids=[record["NodeId"]], request_id="one-id")
    with pytest.raises(errors.CycleCloudError, match="used before"):
        binding.create_nodes(planned(binding, "htc-2"), "one-id")


def test_a_dry_run_through_it_changes_nothing(installed: Any, simulator: Simulator) -> None:
    """`read_only` holds for either client."""
    node_mgr = new_node_manager({**through_it(simulator), "read_only": True})
    node_mgr.allocate({"ncpus": 4}, node_count=1)
    assert node_mgr.bootup()
    assert is_theirs(node_mgr.cluster_bindings)
    assert simulator.cluster("c.1").nodes() == []


def test_a_client_that_keeps_its_session_behind_its_clusters(packages: Path) -> None:
    """`client.session` is documented; what every autoscaler uses is the cluster's back
    reference."""
    client = """
from types import SimpleNamespace as Some

def Client(config):
    inner = Some(session="theirs")
    return Some(clusters={config["cluster_name"]: Some(_client=inner)})
"""
    write_package(packages, client=client)
    assert new_cluster_bindings(SERVER).session == "theirs"


def test_ours_is_used_beside_an_installed_one(installed: Any) -> None:
    """Unless the configuration asks for that; it is not even made."""
    assert is_ours(new_cluster_bindings({**SERVER, "cyclecloud_client": None}))
    assert is_ours(new_cluster_bindings({k: SERVER[k] for k in SERVER if k in CREDENTIALS}))
    assert installed.MADE == []


STATUS = {"maxCount": 1, "maxCoreCount": 4, "nodearrays": []}
NODEARRAY = {"name": "htc", "nodearray": {}, "buckets": [], "maxCount": 1, "maxCoreCount": 4}


@pytest.mark.parametrize(
    ("call", "reply", "said"),
    [
        ("get_cluster_status", {}, "nodearrays: expected a list, found nothing"),
        ("get_cluster_status", {**STATUS, "nodearrays": None}, "nodearrays: expected a list"),
        (
            "get_cluster_status",
            {**STATUS, "maxCount": "1"},
            "maxCount: expected a whole number, found '1'",
        ),
        (
            "get_cluster_status",
            {**STATUS, "nodearrays": [{**NODEARRAY, "maxCoreCount": "many"}]},
            r"nodearrays\[0\]\.maxCoreCount: expected a whole number",
        ),
        ("get_cluster_status", {**STATUS, "nodes": ["htc-1"]}, r"nodes\[0\]: expected an object"),
        ("get_cluster_status", {**STATUS, "nodes": {}}, "nodes: expected a list"),
        ("get_nodes", {}, "nodes: expected a list, found nothing"),
        ("get_nodes", {"nodes": [{}, 7]}, r"nodes\[1\]: expected an object, found 7"),
        ("get_nodes", [], "expected an object"),
        ("get_nodes", None, "expected an object, found None"),
        ("get_nodes", "hunter2", r"expected an object, found '\*\*\*'"),
    ],
)
def test_its_replies_are_checked_like_ours(
    installed: Any, call: str, reply: Any, said: str
) -> None:
    """The same errors by the same models, which name the fields; for our client, too."""
    model = importlib.import_module("cyclecloud.model")
    kind = model.ClusterStatus if call == "get_cluster_status" else model.NodeList
    made = kind.from_dict(reply) if isinstance(reply, dict) else reply
    api = importlib.import_module("cyclecloud.api.clusters")
    setattr(api, call, lambda *args: (None, made))
    binding = new_cluster_bindings(SERVER)
    with pytest.raises(errors.BadReply, match=said) as theirs:
        getattr(binding, call)()
    assert "cluster c.1 at https://cc:9443" in str(theirs.value)
    with serving() as server:
        path = "/clusters/c.1/status" if call == "get_cluster_status" else "/clusters/c.1/nodes"
        server.on("GET", path, Answer(200, reply))
        ours = new_cluster_bindings({**SERVER, "url": server.url, "cyclecloud_client": "own"})
        with pytest.raises(errors.BadReply, match=said):
            getattr(ours, call)()


@pytest.mark.parametrize("result", [None, 7, (), (None, {"sets": "many"}), ("a", "b", "c")])
def test_a_create_whose_reply_is_garbage(
    installed: Any, no_waiting: FakeTime, result: object
) -> None:
    """It may have been carried out; the server is asked, and else the next pass is to."""
    api = importlib.import_module("cyclecloud.api.clusters")
    api.create_nodes = lambda *args: result

    def lost(*args: Any) -> None:
        raise OSError("gone")

    api.get_nodes = lost
    binding = new_cluster_bindings(SERVER)
    nodes = [a_planned_node(name="htc-1", bucket_id="b", resources={})]
    with pytest.raises(errors.MutationUnconfirmed) as raised:
        binding.create_nodes(nodes, "the-id")
    assert raised.value.request_id == "the-id"


def test_our_client_is_used_without_one(log: pytest.LogCaptureFixture) -> None:
    """Nothing is said about it."""
    assert is_ours(new_cluster_bindings(SERVER))
    assert log.text == ""


def test_the_package_of_the_command_line_is_none(
    packages: Path, log: pytest.LogCaptureFixture
) -> None:
    """It has the same name, and no client."""
    write_package(packages, client=None)
    assert is_ours(new_cluster_bindings(SERVER))
    assert log.text == ""


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"client": "raise OSError('hunter2\\n' * 9000)"}, "cannot be imported: OSError"),
        ({"client": "import no_such_dependency"}, "cannot be imported: ModuleNotFoundError"),
        ({"client": "def ("}, "cannot be imported: SyntaxError"),
        ({"api__clusters": "import cyclecloud.nothing"}, "cannot be imported: ModuleNotFound"),
        ({"client": "Client = None"}, "cannot be set up: TypeError"),
        (
            {"client": "def Client(config): raise ValueError(config['password'])"},
            r"cannot be set up: ValueError: \*\*\*",
        ),
    ],
)
def test_a_broken_one_costs_a_line_and_no_more(
    packages: Path, log: pytest.LogCaptureFixture, broken: dict[str, str], said: str
) -> None:
    """Ours does the work; to insist on the broken one is an error in the same words."""
    write_package(packages, **broken)
    assert is_ours(new_cluster_bindings(SERVER))
    (record,) = log.records
    assert "\n" not in record.getMessage() and len(record.getMessage()) < 5000
    assert record.getMessage().endswith("using the client of this library")
    with pytest.raises(ConfigurationException, match=f"cyclecloud_client: installed: .*{said}"):
        new_cluster_bindings({**SERVER, "cyclecloud_client": "installed"})


def test_ours_can_be_asked_for(installed: Any) -> None:
    """`own`: the other one is not even made."""
    assert is_ours(new_cluster_bindings({**SERVER, "cyclecloud_client": "own"}))
    assert installed.MADE == []


def test_one_that_is_not_there_can_be_insisted_on() -> None:
    """Which is an error."""
    with pytest.raises(ConfigurationException, match="there is no package `cyclecloud`"):
        new_cluster_bindings({**SERVER, "cyclecloud_client": "installed"})


def test_authorities_of_ones_own_need_ours(
    installed: Any, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    """The other client has no setting for them, and is not used with less than was asked for."""
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text("")
    assert is_ours(new_cluster_bindings({**SERVER, "ca_file": str(ca_file)}))
    assert "ca_file" in log.text
    with pytest.raises(ConfigurationException, match="ca_file: the installed `cyclecloud` client"):
        new_cluster_bindings({**SERVER, "ca_file": str(ca_file), "cyclecloud_client": "installed"})


@pytest.mark.parametrize(
    ("key", "value"), [("cyclecloud_client", "theirs"), ("url", "cc"), ("timeout", "soon")]
)
def test_settings_are_checked_for_either(installed: Any, key: str, value: str) -> None:
    """In the same words."""
    with pytest.raises(ConfigurationException, match=f"{key}: expected"):
        new_cluster_bindings({**SERVER, key: value})
    assert installed.MADE == []
