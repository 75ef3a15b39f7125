"""Section 14: the objects and functions of CycleCloud's client, as ours has them."""

import copy
import json

import pytest

from builders.foreign_client import FIELDS, wire
from builders.nodes import a_manager, an_htc_cluster, names
from builders.published import row
from hpc.autoscale.ccbindings import clusters, models
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
    NodeCreationRequest,
    NodeCreationRequestSet,
    NodeCreationRequestSetDefinition,
    NodeCreationResult,
    NodeCreationResultSet,
    NodeList,
    NodeManagementRequest,
    NodeManagementResult,
    NodeManagementResultNode,
    PlacementGroupStatus,
    Record,
)
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.simulator import serve

ROW_OF = {
    "ClusterStatus": row("model.ClusterStatus"),
    "ClusterNodearrayStatus": row("model.ClusterNodearrayStatus"),
    "NodearrayBucketStatus": row("model.NodearrayBucketStatus"),
    "NodearrayBucketStatusDefinition": row("model.bucket_parts"),
    "NodearrayBucketStatusVirtualMachine": row("model.bucket_parts"),
    "PlacementGroupStatus": row("model.bucket_parts"),
    "NodeList": row("model.NodeList"),
    "NodeManagementRequest": row("model.management"),
    "NodeManagementResult": row("model.management"),
    "NodeManagementResultNode": row("model.management"),
}
EVERY_MODEL = [
    pytest.param(name, marks=ROW_OF.get(name, row("model.creation")))
    for name in FIELDS
    if name != "OperationStatus"
]


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_a_model_is_a_bag_of_attributes(name):
    """All None at first, given by keyword or set later, unknown ones tolerated; JSON has its own
    names for them."""
    fields = FIELDS[name].split()
    kind = getattr(models, name)
    empty = kind()
    given = kind(**{field: f"<{field}>" for field in fields}, unheard_of=1)
    set_later = kind()
    for field in fields:
        setattr(set_later, field, f"<{field}>")
    assert [getattr(empty, field) for field in fields] == [None] * len(fields)
    assert set(fields) <= set(dir(empty))
    assert given == set_later == copy.deepcopy(given)
    assert set(given.to_dict()) == {wire(field) for field in fields}
    assert empty.to_dict() == {}


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_a_model_reads_json_in_any_case_of_letters(name):
    """Unknown keys are ignored, and what was read is what is written."""
    field = FIELDS[name].split()[0]
    kind = getattr(models, name)
    made = kind.from_dict({wire(field).upper(): None, "unheardOf": 1})
    assert made == kind()
    assert kind.json_decode(kind().json_encode()) == kind()


def _status():
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", placement_group="pg0")
    return cluster.get_cluster_status(nodes=True)


@row("model.ClusterStatus")
@row("model.ClusterNodearrayStatus")
def test_a_status_survives_its_json_form():
    """Nested objects are made again; nodes and nodearray records stay dicts."""
    status = _status()
    back = ClusterStatus.from_dict(json.loads(json.dumps(status.to_dict())))
    (array,) = back.nodearrays
    assert back == status
    assert isinstance(back.nodes[0], dict) and back.nodes[0]["Name"] == "htc-1"
    assert isinstance(array, ClusterNodearrayStatus) and isinstance(array.nodearray, dict)
    assert (array.nodearray["Region"], array.name) == ("westus2", "htc")
    assert isinstance(array.buckets[0], NodearrayBucketStatus)
    assert (back.max_core_count, back.max_count, back.state) == (10_000, 1_000, "Started")


@row("model.NodearrayBucketStatus")
@row("model.bucket_parts")
def test_a_bucket_of_the_mock_has_every_count():
    """Upstream's mock walks `dir()` for names with `count` in them; newer attributes are read by
    getattr."""
    bucket = _status().nodearrays[0].buckets[0]
    counts = {n: getattr(bucket, n) for n in dir(bucket) if "count" in n}
    assert None not in counts.values()
    assert (bucket.definition.machine_type, bucket.valid) == ("Standard_F4", True)
    machine = bucket.virtual_machine
    assert (machine.vcpu_count, machine.gpu_count, machine.memory, machine.infiniband) == (
        *(4, 0, 8.0, False),
    )
    assert getattr(bucket, "spot_placement_score", None) is None
    assert (bucket.placement_groups[0].name, bucket.placement_groups[0].active_count) == ("pg0", 1)


@row("model.bucket_parts")
def test_a_placement_group_by_keyword():
    """As mocks make it; it counts in the manager's limits."""
    cluster = an_htc_cluster(max_placement_group_size=5)
    bucket = cluster.nodearrays["htc"].buckets[0]
    bucket.placement_groups.append(
        PlacementGroupStatus(name="pg7", active_core_count=12, active_count=3)
    )
    in_group = a_manager(cluster).get_buckets()[0]
    assert (in_group.placement_group, in_group.available_count) == ("pg7", 2)


@row("model.NodeList")
def test_a_node_list_tolerates_an_operation_id():
    """A mock passes it, though the protocol has no such field."""
    listing = NodeList(nodes=[{"Name": "n"}], operation_id="op")
    assert listing.nodes == [{"Name": "n"}]
    assert listing.to_dict() == {"nodes": [{"Name": "n"}]}


@row("model.creation")
def test_a_creation_request_as_slurms_tests_compare_it():
    """validate() wants what must be there; to_dict() has the protocol's names."""
    wanted = NodeCreationRequestSet(
        nodearray="htc",
        count=2,
        name_format="htc-%d",
        name_offset=3,
        placement_group_id="pg0",
        node_attributes={"KeepAlive": True},
    )
    wanted.definition = NodeCreationRequestSetDefinition()
    wanted.definition.machine_type = "Standard_F4"
    request = NodeCreationRequest()
    request.sets = [wanted]
    request.request_id = "r"
    request.validate()
    assert request.to_dict() == {
        "requestId": "r",
        "sets": [
            {
                "count": 2,
                "definition": {"machineType": "Standard_F4"},
                "nameFormat": "htc-%d",
                "nameOffset": 3,
                "nodeAttributes": {"KeepAlive": True},
                "nodearray": "htc",
                "placementGroupId": "pg0",
            }
        ],
    }
    with pytest.raises(Exception, match="sets"):
        NodeCreationRequest().validate()


@row("model.creation")
def test_a_creation_result_has_sets():
    """Each says how many were added, and perhaps why not more."""
    result = NodeCreationResult(
        operation_id="op", sets=[NodeCreationResultSet(added=1, message="quota")]
    )
    assert [(s.added, s.message) for s in result.sets] == [(1, "quota")]
    assert result.to_dict() == {"operationId": "op", "sets": [{"added": 1, "message": "quota"}]}


@row("model.management")
def test_management_results_name_their_nodes():
    """The manager takes its nodes by id or name and status, whoever made the object."""
    cluster = an_htc_cluster()
    node = cluster.add_node("htc-1", "htc", state="Ready")
    node_mgr = a_manager(cluster)

    class Own(MockClusterBinding):
        def shutdown_nodes(self, nodes=None, request_id=None, **more):
            done = NodeManagementResultNode(name="htc-1", id=None, status="OK")
            done.id = nodes[0].delayed_node_id.node_id
            operation = cluster.shutdown_nodes(names=["htc-1"]).operation_id
            return NodeManagementResult(nodes=[done], operation_id=operation)

    own = Own()
    own.nodes, own.nodearrays, own.operations = (
        cluster.nodes,
        cluster.nodearrays,
        cluster.operations,
    )
    own.get_nodes = cluster.get_nodes
    result = a_manager(own).shutdown_nodes(node_mgr.get_nodes())
    assert names(result.nodes) == ["htc-1"]
    assert node.target_state == "Terminated"


@row("model.management")
def test_a_management_request_selects():
    """In any of its ways, with the protocol's names."""
    request = NodeManagementRequest(ids=["a"], ip_addresses=["10.0.0.1"], request_id="r")
    assert request.to_dict() == {"ids": ["a"], "ip_addresses": ["10.0.0.1"], "requestId": "r"}


CLOUD = {
    "clusters": {
        "c": {"region": "westus2", "nodearrays": {"htc": {"machine_types": ["Standard_F4s_v2"]}}}
    }
}


@pytest.fixture(scope="module")
def server():
    """A CycleCloud over HTTP."""
    with serve(CLOUD) as running:
        yield running


@row("client.Client")
def test_our_client_has_the_shape_of_theirs(server):
    """`clusters.get(name)`, `_client.session`, `nodes`, `get_status`; a Record finds its keys in
    any case."""
    client = Client(server.connection("c"))
    cluster = client.clusters.get("c")
    status = cluster.get_status(nodes=True)
    record = Record({"NodeId": "x"})
    assert cluster._client.session is client.session
    assert (cluster.name, client.clusters["c"].name) == ("c", "c")
    assert status.nodearrays[0].name == "htc"
    assert list(cluster.nodes) == []
    assert (record["nodeid"], record.get("NODEID"), "nodeId" in record) == ("x", "x", True)
    assert isinstance(record, dict)
    assert cluster.scale_by_nodes("htc", 2) is None
    assert [r["Name"] for r in cluster.nodes] == ["htc-1", "htc-2"]


@row("session.request")
def test_a_session_takes_requests_that_have_no_function(server):
    """A context with a path, a method, and what is expected; the status code comes first."""
    client = Client(server.connection("c"))
    context = clusters._RequestContext()
    context.path = "/clusters/c/status"
    status, value = client.session.request(
        context, "GET", query={"nodes": "true"}, headers={}, body=None,
        expected_responses=[(200, "object", lambda v: v)],
    )  # fmt: skip
    assert status.status_code == 200
    assert value["nodearrays"][0]["name"] == "htc"
    assert client.session._config.get("url") == client.session.url
    assert client.session._config.get("verify_certificates") is not None


@row("client.Client")
def test_a_session_takes_raw_requests(server):
    """`_request(verb, url, params, headers, body)`, as a public demo calls it: a reply of the HTTP
    library, not judged."""
    session = Client(server.connection("c")).session
    status = session._request("GET", "/clusters/c/status", {"nodes": True}, {}, None)
    whole = session._request("GET", f"{session.url}/clusters/none/status")
    sets = [{"nodearray": "htc", "count": 0, "definition": {"machineType": "Standard_F4s_v2"}}]
    refused = session._request("POST", "/clusters/c/nodes/create", body={"sets": sets})
    assert (status.status_code, status.ok, status.json()["nodearrays"][0]["name"]) == (
        *(200, True, "htc"),
    )
    assert (whole.status_code, whole.ok, refused.status_code) == (404, False, 409)
    assert "count" in refused.text
    with pytest.raises(ConfigurationException, match="expected a path on"):
        session._request("GET", "https://elsewhere/clusters")


@row("api.clusters")
def test_every_function_answers_with_a_status_and_a_model(server):
    """Session first, cluster second, over HTTP."""
    session = Client(server.connection("c")).session
    wanted = NodeCreationRequestSet(
        nodearray="htc", count=1, definition={"machineType": "Standard_F4s_v2"}
    )
    created, made = clusters.create_nodes(session, "c", NodeCreationRequest(sets=[wanted]))
    listed, listing = clusters.get_nodes(session, "c", made.operation_id)
    (node,) = listing.nodes
    request = NodeManagementRequest(ids=[node["NodeId"]])
    codes = [
        getattr(clusters, f"{verb}_nodes")(session, "c", request)[0].status_code
        for verb in ("start", "restart", "reimage", "deallocate", "shutdown", "terminate", "remove")
    ]
    status = clusters.get_cluster_status(session, "c", nodes=True)
    scaled = clusters.scale(session, "c", "htc", total_node_count=9)
    assert {created.status_code, listed.status_code, *codes, status[0].status_code} <= {200, 202}
    assert (made.sets[0].added, scaled[1].sets[0].added > 0) == (1, True)
    assert isinstance(status[1], ClusterStatus)
