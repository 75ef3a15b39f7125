"""What azscale makes of a server whose replies are odd in one place: an error that names the place,
or the rest of the cluster; nothing that only a programmer understands, and no command to it.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.command_lines import Ended, at_home, run_azscale
from builders.replies import a_record, array_status, bucket_status, cluster_status
from builders.scripted_server import Answer, ScriptedServer

UNREADABLE = re.compile(r"Traceback|\w+Error\b|unhashable|NoneType|debug shows more")
STATUS = cluster_status(array_status(buckets=[bucket_status(active_count=2)])).to_dict()
CREATE = "/clusters/demo/nodes/create"
RECORDS = [a_record("htc-1", NodeId="one"), a_record("htc-2", NodeId="two")]

Run = Callable[..., Ended]


@pytest.fixture
def azscale(
    server: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Run:
    """Run a command against a server with these node records, and what else a status has. What it
    logs counts as printed."""
    at_home(monkeypatch, tmp_path)
    config = tmp_path / "autoscale.json"

    def run(command: str, records: list[dict[str, Any]], *words: object, **status: Any) -> Ended:
        said = {**STATUS, "nodes": records, **status}
        server.on("GET", "/clusters/demo/status", Answer(body=said))
        server.on("GET", "/clusters/demo/nodes", Answer(body={"nodes": records}))
        user = {"url": server.url, "username": "me", "password": "secret"}
        files = {"lock_file": str(tmp_path / "lock"), "nodehistorydb": str(tmp_path / "nodes.db")}
        config.write_text(json.dumps({"cluster_name": "demo", **user, **files}))
        config.chmod(0o600)
        ended = run_azscale((command, *words), config, capsys)
        assert not UNREADABLE.search(ended.out + ended.err), ended
        sent = [seen.path for seen in server.requests if seen.method == "POST"]
        assert sent == [CREATE] * (command == "create_nodes")
        return ended._replace(err=ended.err + caplog.text)

    return run


@pytest.mark.parametrize("command", ["autoscale", "nodes"])
@pytest.mark.parametrize("value", [["x"], 10**30])
@pytest.mark.parametrize("key", ["Name", "NodeId", "Template", "Status", "TargetState"])
def test_a_record_that_is_no_record_of_a_node(
    azscale: Run, command: str, key: str, value: object
) -> None:
    """It is set aside, or the listing is no evidence without it."""
    ended = azscale(command, [{**RECORDS[0], key: value}, RECORDS[1]])
    assert f"{key}: expected a text, found " in ended.err
    assert "htc-2" in ended.out or "is no evidence" in ended.err


@pytest.mark.parametrize("key", ["InstanceId", "PlacementGroupId", "RequestId", "PrivateIp"])
@pytest.mark.parametrize("value", [{"a": 1}, 10**30])
def test_a_record_with_an_odd_detail(azscale: Run, key: str, value: object) -> None:
    """The node is one that does not say it."""
    assert azscale("autoscale", [{**RECORDS[0], key: value}, RECORDS[1]]).code == 0
    assert "htc-1" in azscale("nodes", []).out


@pytest.mark.parametrize("key", ["Name", "NodeId", "Hostname", "InstanceId", "RequestId"])
def test_half_of_a_surrogate_pair(azscale: Run, key: str) -> None:
    """It is a replacement character: JSON can write it, and no file can keep it."""
    ended = azscale("autoscale", [{**RECORDS[0], key: "h\ud800"}, RECORDS[1]])
    assert ended.code == 0, ended
    assert "htc-2" in azscale("nodes", []).out


@pytest.mark.parametrize("command", ["autoscale", "limits"])
def test_a_number_beyond_all_floats(azscale: Run, command: str) -> None:
    """The error names the field."""
    buckets = [bucket_status(active_count=2, last_capacity_failure=10**400)]
    ended = azscale(command, RECORDS, **cluster_status(array_status(buckets=buckets)).to_dict())
    assert "nodearrays[0].buckets[0].lastCapacityFailure: expected a number" in ended.err


@pytest.mark.parametrize("configuration", [1.5, "x", ["x"], {"autoscale": 7}])
def test_a_nodearray_whose_configuration_is_no_object(azscale: Run, configuration: object) -> None:
    """It is set aside with a sentence that says so; its nodes are listed, and others work."""
    odd = array_status(buckets=[bucket_status(active_count=2)], Configuration=configuration)
    arrays = cluster_status(odd, array_status("good")).to_dict()["nodearrays"]
    said = azscale("nodes", RECORDS, nodearrays=arrays)
    assert "htc-1" in said.out and "expected an object" in said.err
    assert "good" in azscale("buckets", []).out


@pytest.mark.parametrize(
    ("configuration", "key"),
    [
        (7, "Configuration"),
        ({"autoscale": "x"}, "autoscale"),
        ({"autoscale": {"resources": 5}},) * 2,
    ],
)
def test_a_node_whose_configuration_is_no_object(
    azscale: Run, configuration: object, key: object
) -> None:
    """It is set aside with a sentence that says so, and the others work."""
    ended = azscale("nodes", [{**RECORDS[0], "Configuration": configuration}, RECORDS[1]])
    key = key if isinstance(key, str) else "resources"
    assert (
        f"node htc-1: set aside, its record cannot be used: {key}: expected an object" in ended.err
    )
    assert "htc-2" in ended.out


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"maxCount": NaN}', "NaN is not JSON"),
        ('{"state": "h\xe9"}'.encode("latin-1"), "position 12"),
        (b'{"a" 1}', "line 1 column 6"),
    ],
)
def test_a_reply_that_is_no_json(
    azscale: Run, server: ScriptedServer, body: bytes, said: str
) -> None:
    """The error says what is wrong with it, and where."""
    server.on("GET", "/clusters/demo/status", Answer(body=body))
    assert said in azscale("buckets", RECORDS).err


@pytest.mark.parametrize("twin", [{}, {"NodeId": "twin"}])
def test_a_new_node_that_is_listed_twice(
    azscale: Run, server: ScriptedServer, twin: dict[str, str]
) -> None:
    """It is one node; two ids of one name are two, and neither is lost."""
    made = a_record("htc-3", NodeId="three", Status="Acquiring", RequestId=...)
    listing = {
        "nodes": [made, {**made, **twin}],
        "operation": {"action": "create", "startTime": "x"},
    }
    server.on("POST", CREATE, Answer(202, {"operationId": "op", "sets": [{"added": 2}]}))
    server.on("GET", "/clusters/demo/nodes", Answer(body={"nodes": RECORDS}), Answer(body=listing))
    ended = azscale("create_nodes", RECORDS, "-n", 2, "-F", "table_headerless")
    assert len(ended.out.splitlines()) == 1 + len(twin), ended


def test_more_new_nodes_than_can_be_counted(azscale: Run, server: ScriptedServer) -> None:
    """Such a reply is none: the server is asked what it made."""
    made = a_record("htc-3", NodeId="three", Status="Acquiring")
    listing = {"nodes": [made], "operation": {"action": "create", "startTime": "x"}}
    server.on("POST", CREATE, Answer(202, {"operationId": "op", "sets": [{"added": 10**30}]}))
    server.on(
        "GET", "/clusters/demo/nodes", Answer(body={"nodes": RECORDS}), *[Answer(body=listing)] * 2
    )
    ended = azscale("create_nodes", RECORDS, "-n", 1)
    assert ended.code == 0 and "htc-3" in ended.out
    assert "sets[0].added: expected a whole number, found 1000" in ended.err


def test_a_vm_size_in_another_case(azscale: Run, server: ScriptedServer) -> None:
    """It is the size of the bucket: the nodes take work, and new ones are those that were asked
    for."""
    records = [{**record, "MachineType": "STANDARD_f4"} for record in RECORDS]
    made = {**records[0], "Name": "htc-3", "NodeId": "three", "Status": "Acquiring"}
    listing = {"nodes": [made], "operation": {"action": "create", "startTime": "x"}}
    server.on("POST", CREATE, Answer(202, {"operationId": "op", "sets": [{"added": 1}]}))
    server.on("GET", "/clusters/demo/nodes", Answer(body={"nodes": records}), Answer(body=listing))
    ended = azscale("create_nodes", records, "-n", 1)
    assert ended.code == 0 and "htc-3" in ended.out, ended
    assert "no usable bucket" not in ended.err


def test_a_new_node_of_a_size_that_is_not_to_be_used(azscale: Run, server: ScriptedServer) -> None:
    """The nodes that were asked for are there, and the other one is logged."""
    retired = bucket_status("Standard_F8", 8, valid=False, invalid_reason="DisabledMachineType")
    both = array_status(buckets=[bucket_status(active_count=2), retired])
    said = {"nodearrays": cluster_status(both).to_dict()["nodearrays"]}
    made = a_record("htc-3", NodeId="three", Status="Acquiring")
    odd = {**made, "Name": "htc-4", "NodeId": "four", "MachineType": "Standard_F8"}
    listing = {"nodes": [made, odd], "operation": {"action": "create", "startTime": "x"}}
    server.on("POST", CREATE, Answer(202, {"operationId": "op", "sets": [{"added": 1}]}))
    server.on("GET", "/clusters/demo/nodes", Answer(body={"nodes": RECORDS}), Answer(body=listing))
    ended = azscale("create_nodes", RECORDS, "-n", 1, "--vm-size", "Standard_F4", **said)
    assert ended.code == 0 and "htc-3" in ended.out, ended
    assert "created node htc-4 belongs to no known bucket" in ended.err
