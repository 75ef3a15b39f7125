"""Section 6, first half: what can be read of a node, and what may be written to it."""

import io
import json
from datetime import datetime, timedelta

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster, names, node_arguments
from builders.published import row
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandprinter import print_demand
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import Node


def _in_a_cluster(state="Ready", **arguments):
    """A cluster with one node that exists, and that node as a new manager sees it."""
    cluster = an_htc_cluster()
    made = cluster.add_node("htc-1", "htc", state=state, hostname="ip-1.example.com", **arguments)
    made.instance_id = "vm-1"
    cluster.assign_ip(["htc-1"])
    (node,) = a_manager(cluster).get_nodes()
    return cluster, node


@row("Node.init")
def test_subclasses_pass_everything_by_keyword():
    """Upstream's tests subclass Node; what was given is what is read, and new attributes may be set
    at will."""

    class MyNode(Node):
        def __init__(self, **more):
            super().__init__(**node_arguments(gpu_count=2, **more))

    node = MyNode(state="Ready", exists=True, hostname="host", private_ip="10.0.0.1")
    node.brand_new = [1]
    assert isinstance(node, Node)
    assert (node.state, node.exists, node.hostname, node.gpu_count) == ("Ready", True, "host", 2)
    assert node.brand_new == [1]


@row("Node.init")
def test_memory_must_be_a_memory():
    """AssertionError for anything else."""
    with pytest.raises(AssertionError):
        a_planned_node(memory=8)


PLAIN = [
    pytest.param("name", "n-7", "htc-1", marks=row("node.name")),
    pytest.param("instance_id", "i-7", "vm-1", marks=row("node.instance_id")),
    pytest.param("vm_size", "Standard_F8s", "Standard_F4", marks=row("node.vm_size")),
    pytest.param("location", "eastus", "westus2", marks=row("node.location")),
    pytest.param("spot", True, False, marks=row("node.spot")),
    pytest.param("infiniband", True, False, marks=row("node.infiniband")),
    pytest.param("managed", False, True, marks=row("node.managed")),
    pytest.param("private_ip", "10.0.0.7", "10.1.0.2", marks=row("node.private_ip")),
]


@pytest.mark.parametrize(("attribute", "given", "of_the_cluster"), PLAIN)
def test_plain_reads(attribute, given, of_the_cluster):
    """What the constructor was given, or what the cluster says of a node."""
    _, node = _in_a_cluster()
    assert getattr(a_planned_node(**{attribute: given}), attribute) == given
    assert getattr(node, attribute) == of_the_cluster


@row("node.bucket_id")
def test_bucket_id_leads_to_the_bucket():
    """A node of a cluster has the id of its bucket."""
    cluster, node = _in_a_cluster()
    assert a_planned_node(bucket_id="b7").bucket_id == "b7"
    assert node.bucket_id == cluster.nodearrays["htc"].buckets[0].bucket_id


@row("node.nodearray")
def test_the_mangled_nodearray_is_the_nodearray():
    """Grid Engine's tests write `node._Node__nodearray`, and constraints follow."""
    node = a_planned_node(nodearray="htc")
    node._Node__nodearray = "hpc"
    assert node.nodearray == "hpc"
    assert get_constraint({"node.nodearray": "hpc"}).satisfied_by_node(node)
    assert not get_constraint({"node.nodearray": "htc"}).satisfied_by_node(node)
    assert node.decrement([get_constraint({"node.nodearray": "hpc"})])


@row("node.hostname")
@pytest.mark.parametrize(
    ("given", "short"),
    [("ip-0A.example.com", "ip-0A"), ("ip-0A", "ip-0A"), (None, None), ("", "")],
)
def test_the_host_name_is_short(given, short):
    """What stands before the first dot; None and the empty text as they are."""
    assert a_planned_node(hostname=given).hostname == short
    assert a_planned_node(hostname=given).fqdn == given
    assert _in_a_cluster()[1].hostname == "ip-1"


@row("node.hostname_or_uuid")
def test_there_is_always_something_to_call_a_node_by():
    """The host name, else a text of the node's own that stays the same."""
    nodes = [
        a_planned_node(hostname=None),
        a_planned_node(hostname=""),
        a_planned_node(hostname=None),
    ]
    ids = [n.hostname_or_uuid for n in nodes]
    assert a_planned_node(hostname="ip-1.x").hostname_or_uuid == "ip-1"
    assert len(set(ids)) == 3
    assert all(isinstance(i, str) and i for i in ids)
    assert ids == [n.hostname_or_uuid for n in nodes]


@row("node.private_ip")
def test_the_mangled_private_ip_is_the_private_ip():
    """Upstream's own mock writes it; there may be none."""
    node = a_planned_node(private_ip=None)
    assert node.private_ip is None
    node._Node__private_ip = "10.1.0.9"
    assert node.private_ip == "10.1.0.9"


@row("node.vm_family")
def test_the_family_comes_from_the_table():
    """`unknown` for a size that is not in it."""
    assert a_planned_node(vm_size="Standard_F4").vm_family == "standardFFamily"
    assert a_planned_node(vm_size="Standard_None").vm_family == "unknown"


@row("node.vcpu_count")
def test_vcpus_are_those_given_unless_negative():
    """A negative number means that the table is to be asked, which counts physical cores here."""
    assert a_planned_node(vcpu_count=3).vcpu_count == 3
    assert a_planned_node(vcpu_count=-1).vcpu_count == 4
    assert a_planned_node(vcpu_count=-1, vm_size="Standard_E4_v3").vcpu_count == 2
    assert isinstance(Node.vcpu_count, property)


@row("node.pcpu_count")
def test_physical_cores_are_vcpus_by_vcpus_per_core():
    """From the table; what the node has where the table does not know the size."""
    assert a_planned_node(vm_size="Standard_E4_v3").pcpu_count == 2
    assert a_planned_node(vm_size="Standard_F4").pcpu_count == 4
    assert a_planned_node(vm_size="Standard_None", vcpu_count=7).pcpu_count == 7


@row("node.gpu_count")
def test_gpus_are_those_given_when_there_are_any():
    """Else those of the table."""
    assert a_planned_node(vm_size="Standard_NC6", gpu_count=3).gpu_count == 3
    assert a_planned_node(vm_size="Standard_NC6", gpu_count=0).gpu_count == 1
    assert a_planned_node(vm_size="Standard_NC6").gpu_count == 1
    assert a_planned_node().gpu_count == 0


@row("node.cores_per_socket")
def test_cores_per_socket_is_the_tables_number():
    """-1 where it is unknown."""
    assert a_planned_node(vm_size="Standard_E4_v3").cores_per_socket == 2
    assert a_planned_node(vm_size="Standard_None").cores_per_socket == -1


@row("node.memory")
def test_memory_of_cloud_nodes_is_in_gigabytes():
    """A Memory, whose value Slurm prints as `memgb`."""
    _, node = _in_a_cluster()
    assert isinstance(node.memory, Memory)
    assert (node.memory.value, node.memory.magnitude) == (8, "g")
    assert node.memory.convert_to("m").value == 8192


@row("node.state")
@row("node.getattr")
def test_states_are_texts_and_may_be_set():
    """Compared as they are, also through getattr."""
    _, node = _in_a_cluster(state="Preparing")
    assert getattr(node, "state") == node.state == "Preparing"  # noqa: B009 - as they write it
    for state in ("Ready", "Started", "Failed", "Acquiring", "Deallocated"):
        node.state = state
        assert getattr(node, "state", None) == state


@row("node.target_state")
def test_target_states_may_be_set():
    """`Started` for nodes that run; compared with `Deallocated` and `Terminated`."""
    _, node = _in_a_cluster()
    assert node.target_state == "Started"
    node.target_state = "Terminated"
    assert node.target_state == "Terminated"


@row("node.exists")
def test_exists_may_be_set():
    """Grid Engine's tests make a planned node exist."""
    node = a_manager().allocate({"ncpus": 1}, slot_count=1).nodes[0]
    assert node.exists is False
    node.exists = True
    assert node.exists is True
    assert _in_a_cluster()[1].exists is True


@row("node.placement_group")
def test_a_planned_node_may_be_put_in_a_placement_group():
    """As Grid Engine does while placing; the empty text means none."""
    node = a_planned_node(placement_group="")
    assert node.placement_group is None
    node.placement_group = "pg-1_x"
    assert (node.placement_group, node.colocated) == ("pg-1_x", True)
    node.placement_group = ""
    assert node.placement_group is None


@row("node.placement_group")
def test_a_placement_group_that_cannot_be_is_refused():
    """RuntimeError for other characters than letters, digits, _ and -, and for moving a node that
    exists."""
    planned, existing = a_planned_node(placement_group="pg0"), a_planned_node(
        placement_group="pg0", exists=True
    )
    for group in ("a b", "a.b", "a/b"):
        with pytest.raises(RuntimeError):
            planned.placement_group = group
    with pytest.raises(RuntimeError):
        existing.placement_group = "pg1"
    existing.placement_group = "pg0"
    assert planned.placement_group == existing.placement_group == "pg0"


@row("node.resources")
def test_resources_are_a_live_view_that_cannot_be_written():
    """`.get`, `in` and `.items()` work, and what is defined later shows."""
    node_mgr = a_manager()
    node = node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes[0]
    held = node.resources
    with pytest.raises(TypeError):
        held["ncpus"] = 100
    node_mgr.add_default_resource({}, "owner", "alice")
    assert (held.get("owner"), "owner" in held, held.get("none", 1)) == ("alice", True, 1)
    assert dict(held.items())["ncpus"] == 4


@row("node._resources")
def test_the_private_resources_are_the_store_behind(tmp_path):
    """Grid Engine writes items into it and updates it; the printer shows that."""
    _, node = _in_a_cluster()
    node._resources["slots"] = 7
    node._resources.update({"hostgroup": "@htc"})
    stream = io.StringIO()
    print_demand(["name", "slots", "hostgroup"], DemandResult([], [node], [], []), stream, "json")
    assert (node.resources["slots"], node.resources["hostgroup"]) == (7, "@htc")
    assert json.loads(stream.getvalue()) == [{"name": "htc-1", "slots": 7, "hostgroup": "@htc"}]


@row("node.available")
def test_available_goes_down_by_allocation_and_may_be_written():
    """What is written to it counts for the next job."""
    cluster = an_htc_cluster(count=1)
    node_mgr = a_manager(cluster)
    (node,) = node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes
    assert (node.available["ncpus"], node.resources["ncpus"]) == (3, 4)
    node.available["ncpus"] = 0
    assert not node_mgr.allocate({"ncpus": 1}, slot_count=1)
    node.available.update({"ncpus": 2, "licence": 1})
    assert node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes == [node]
    assert (node.available["ncpus"], node.available["licence"]) == (1, 1)


@row("node.metadata")
def test_metadata_is_a_free_dict():
    """Anything may be kept there, and stays."""
    node_mgr = a_manager()
    node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes[0].metadata["pbs_state"] = {"free"}
    (node,) = node_mgr.get_nodes()
    assert node.metadata == {"pbs_state": {"free"}}
    node.metadata = {"other": 1}
    assert node.metadata["other"] == 1


@row("node.keep_alive")
def test_keep_alive_of_planned_and_of_existing_nodes():
    """It may be set until the node exists; RuntimeError then."""
    planned, existing = a_planned_node(), a_planned_node(exists=True)
    planned.keep_alive = True
    assert (planned.keep_alive, planned.required) == (True, True)
    with pytest.raises(RuntimeError):
        existing.keep_alive = True
    assert existing.keep_alive is False


@row("node.keep_alive")
def test_keep_alive_of_a_node_that_the_mock_holds():
    """Slurm's tests set it on the mock's own node; the next manager sees it."""
    cluster, _ = _in_a_cluster()
    cluster.nodes["htc-1"].keep_alive = True
    assert a_manager(cluster).get_nodes()[0].keep_alive is True


@row("node.closed")
def test_closed_is_one_way():
    """A closed node is not allocated, and cannot be opened again."""
    node_mgr = a_manager(an_htc_cluster(count=1))
    (node,) = node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes
    node.closed = False
    node.closed = True
    with pytest.raises(RuntimeError):
        node.closed = False
    assert node.closed is True
    assert not node_mgr.allocate({"ncpus": 1}, slot_count=1)


@row("node.assignments")
def test_assignments_are_a_set_of_job_ids():
    """Filled by allocation, and free to change."""
    (node,) = a_manager().allocate({"ncpus": 1}, slot_count=1, assignment_id="job-1").nodes
    assert node.assignments == {"job-1"}
    node.assignments.add("job-2")
    node.assignments.discard("job-1")
    assert node.assignments == {"job-2"}
    assert isinstance(node.assignments, set)


@row("node.required")
def test_required_is_allocated_assigned_or_kept_alive():
    """And nothing else; setting it sets the allocated flag."""
    nodes = {kind: a_planned_node() for kind in ("idle", "assigned", "allocated")}
    nodes["kept"] = a_planned_node(keep_alive=True)
    nodes["assigned"].assign("1")
    nodes["allocated"].required = True
    required = {kind: node.required for kind, node in nodes.items()}
    assert required == {"idle": False, "assigned": True, "allocated": True, "kept": True}
    assert nodes["allocated"]._allocated is True


@row("node.marked_for_deletion")
def test_nodes_may_be_marked_for_deletion():
    """False unless somebody sets it."""
    node = a_planned_node()
    assert node.marked_for_deletion is False
    node.marked_for_deletion = True
    assert node.marked_for_deletion is True


@row("node.create_time")
@row("node.create_time_unix")
def test_times_of_creation():
    """A local datetime that PBS adds to, from unix seconds that Grid Engine adds to and that may be
    set."""
    node = a_planned_node()
    node.create_time_unix = 1_700_000_000.0
    assert node.create_time == datetime.fromtimestamp(1_700_000_000)
    assert node.create_time + timedelta(seconds=1800) == datetime.fromtimestamp(1_700_001_800)
    assert node.create_time_unix + 1800 == 1_700_001_800.0


@row("node.create_time_remaining")
def test_time_left_to_boot():
    """Settable, not below 0; -1 once the node is ready."""
    node = a_planned_node(state="Preparing")
    node.create_time_remaining = 12.5
    assert node.create_time_remaining == 12.5
    node.create_time_remaining = -5
    assert node.create_time_remaining == 0
    node.state = "Ready"
    assert node.create_time_remaining == -1


@row("node.idle_time_remaining")
def test_time_left_to_be_idle():
    """Settable, not below -1; -1 while something is assigned."""
    node = a_planned_node(state="Ready")
    node.idle_time_remaining = 12.5
    assert node.idle_time_remaining == 12.5
    node.idle_time_remaining = -5
    assert node.idle_time_remaining == -1
    node.idle_time_remaining = 60
    node.assign("1")
    assert node.idle_time_remaining == -1


@row("node.delayed_node_id")
def test_the_node_id_comes_with_creation():
    """None for a planned node, the server's id for one that exists."""
    node_mgr = a_manager()
    (node,) = node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes
    assert isinstance(node.delayed_node_id, DelayedNodeId)
    assert node.delayed_node_id.node_id is None
    node_mgr.bootup()
    assert node.delayed_node_id.node_id == node_mgr.cluster_bindings.get_nodes().nodes[0]["NodeId"]


@row("node.vm_capabilities")
@row("node.version")
def test_capabilities_and_version():
    """Azure's capabilities of the size, by item and by attribute; the version is a constant."""
    node = a_planned_node(vm_size="Standard_F4")
    assert node.vm_capabilities["vCPUs"] == node.vm_capabilities.vCPUs == 4
    assert node.version == "7.9"


def test_names_of_the_nodes_of_a_cluster():
    """The kit makes what these tests look at."""
    assert names(a_manager().allocate({"ncpus": 1}, slot_count=8).nodes) == ["htc-1", "htc-2"]
