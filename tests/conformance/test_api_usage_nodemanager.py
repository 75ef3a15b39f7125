"""Section 10, first half: what a node manager knows, and default resources."""

import pytest

from builders.nodes import a_manager, an_htc_cluster, names
from builders.published import row
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node, UnmanagedNode
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.testing import a_config
from hpc.autoscale.util import load_config


@row("node_mgr.new_node_manager")
def test_a_manager_from_a_loaded_configuration():
    """`_mock_bindings` takes the place of a connection, and default resources apply in order."""
    defaults = [
        {"select": {}, "name": "slots", "value": "node.vcpu_count"},
        {"select": {}, "name": "slots", "value": 1},
        {"select": {"slots": 4}, "name": "size", "value": "large"},
    ]
    cluster = an_htc_cluster()
    node_mgr = new_node_manager(load_config(a_config(cluster, default_resources=defaults)))
    resources = node_mgr.get_buckets()[0].resources
    assert isinstance(node_mgr, NodeManager)
    assert (resources["slots"], resources["size"], resources["ncpus"]) == (4, "large", 4)
    assert node_mgr.cluster_bindings is cluster


@row("node_mgr.new_node_manager")
@row("private.existing_nodes")
def test_existing_nodes_are_accepted_and_not_used():
    """As upstream does; add_unmanaged_nodes is the way."""
    config = a_config(an_htc_cluster())
    node_mgr = new_node_manager(config, existing_nodes=[SchedulerNode("onprem", {"ncpus": 4})])
    assert node_mgr.get_nodes() == []
    assert names(b.example_node for b in node_mgr.get_buckets()) == ["htc-0"]


@row("node_mgr.new_node_manager")
def test_switches_of_the_configuration():
    """System defaults, nodes that are to be taken for on-premises ones, host names made of
    addresses."""
    cluster = an_htc_cluster()
    for name in ("htc-1", "htc-2"):
        cluster.add_node(name, "htc", state="Ready")
    cluster.assign_ip(["htc-1", "htc-2"])
    off = a_manager(cluster, disable_default_resources=True)
    hidden = a_manager(cluster, _mimic_on_prem=["htc-1"])
    named = a_manager(cluster, assume_standalone_hostnames=True)
    assert dict(off.get_buckets()[0].resources) == {}
    assert names(hidden.get_nodes()) == ["htc-2"]
    assert [n.hostname for n in named.get_nodes()] == ["ip-0A010002", "ip-0A010003"]


@row("node_mgr.new_node_manager")
def test_placement_groups_of_the_configuration():
    """Those of `default` and of the nodearray; the bucket without a group comes last."""
    cluster = an_htc_cluster()
    cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    groups = {"default": {"placement_groups": ["x"]}, "htc": {"placement_groups": ["y"]}}
    buckets = a_manager(cluster, nodearrays=groups).get_buckets()
    assert [(b.vm_size, b.placement_group) for b in buckets] == [
        (size, group) for size in ("Standard_F4", "Standard_F8s") for group in ("x", "y", None)
    ]
    assert [b.priority for b in buckets] == [1000] * 3 + [999] * 3


@row("node_mgr.NodeManager")
def test_a_manager_made_by_hand():
    """Of a binding and a list of buckets, which may be empty."""
    node_mgr = NodeManager(MockClusterBinding(), [])
    assert (node_mgr.get_buckets(), node_mgr.get_nodes(), node_mgr.new_nodes) == ([], [], [])
    assert not node_mgr.allocate({"ncpus": 1}, node_count=1)
    node_mgr.add_unmanaged_nodes([SchedulerNode("onprem", {"ncpus": 4})])
    assert node_mgr.allocate({"ncpus": 1}, slot_count=4).total_slots == 4


@row("node_mgr.get_buckets")
@row("node_mgr.get_buckets_by_id")
def test_buckets_are_the_valid_ones():
    """In declared order; by id only where ids do not repeat."""
    cluster = an_htc_cluster()
    cluster.add_bucket("htc", "Standard_F8s", 10, 10, valid=False)
    cluster.add_bucket("htc", "Standard_F2", 10, 10)
    node_mgr = a_manager(cluster)
    buckets = node_mgr.get_buckets()
    assert [b.vm_size for b in buckets] == ["Standard_F4", "Standard_F2"]
    assert node_mgr.get_buckets_by_id() == {b.bucket_id: b for b in buckets}
    node_mgr.add_placement_group("pg0", buckets[0])
    with pytest.raises(RuntimeError):
        node_mgr.get_buckets_by_id()


@row("node_mgr.get_nodes")
@row("node_mgr.get_failed_nodes")
@row("node_mgr.get_new_nodes")
def test_nodes_by_what_they_are():
    """All, failed and new ones; the list of failed nodes is the caller's, as PBS appends to it."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready")
    cluster.add_node("htc-2", "htc", state="Failed")
    node_mgr = a_manager(cluster)
    node_mgr.allocate({"ncpus": 1, "node.exists": False}, node_count=1)
    failed = node_mgr.get_failed_nodes()
    failed.append(node_mgr.get_nodes()[0])
    assert names(node_mgr.get_nodes()) == ["htc-1", "htc-2", "htc-3"]
    assert names(failed) == ["htc-2", "htc-1"]
    assert names(node_mgr.get_failed_nodes()) == ["htc-2"]
    assert names(node_mgr.get_new_nodes()) == names(node_mgr.new_nodes) == ["htc-3"]


FORMS = [
    (17, 17),
    ("text", "text"),
    (True, True),
    ("node.vcpu_count", 4),
    ("node.vm_size", "Standard_F4"),
    ("node.resources.ncpus", 4),
    ("node.resources.memgb.value", 8.0),
    ("node.software_configuration.owner", "alice"),
    ("size::20g", Size(20, "g")),
    ("memory::4g", Memory(4, "g")),
    (lambda node: node.vcpu_count * 2, 8),
]


@row("node_mgr.add_default_resource")
@pytest.mark.parametrize(
    ("value", "expected"), FORMS, ids=["function" if callable(v) else str(v) for v, _ in FORMS]
)
def test_values_of_default_resources(value, expected):
    """On buckets, on nodes that exist, and on later ones."""
    cluster = an_htc_cluster(software_configuration={"owner": "alice"})
    cluster.add_node("htc-1", "htc", state="Ready")
    node_mgr = a_manager(cluster)
    node_mgr.add_default_resource(selection={}, resource_name="r", default_value=value)
    later = node_mgr.allocate({"node.exists": False}, node_count=1).nodes[0]
    holders = [node_mgr.get_buckets()[0].resources, node_mgr.get_nodes()[0].resources]
    for holder in (*holders, later.resources, later.available):
        assert holder["r"] == expected
        assert type(holder["r"]) is type(expected)


@row("node_mgr.add_default_resource")
def test_the_first_definition_wins():
    """What the cluster says of itself comes before any; a selection chooses where one applies."""
    cluster = MockClusterBinding()
    cluster.add_nodearray("htc", {"slots": 100})
    cluster.add_bucket("htc", "Standard_F4", 10, 10)
    cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    node_mgr = a_manager(cluster)
    node_mgr.add_default_resource({}, "slots", 1)
    node_mgr.add_default_resource({"node.vm_size": "Standard_F8s"}, "kind", "large")
    node_mgr.add_default_resource([{"ncpus": 1}], "kind", "small")
    assert [b.resources["slots"] for b in node_mgr.get_buckets()] == [100, 100]
    assert [b.resources["kind"] for b in node_mgr.get_buckets()] == ["small", "large"]


@row("node_mgr.add_default_resource")
@pytest.mark.parametrize(
    ("modifier", "magnitude", "expected"),
    [
        ("add", 1, 5),
        ("subtract", 1, 3),
        ("multiply", 2, 8),
        ("divide", 8, 0.5),
        ("divide_floor", 3, 1),
    ],
)
def test_modifiers_of_numbers(modifier, magnitude, expected):
    """One arithmetic step with the value."""
    node_mgr = a_manager()
    node_mgr.add_default_resource({}, "r", "node.vcpu_count", modifier, magnitude)
    assert node_mgr.get_buckets()[0].resources["r"] == expected


@row("node_mgr.add_default_resource")
def test_modifiers_of_sizes():
    """A magnitude may be a text with a unit, as installers write it; a constant size is modified
    too."""
    node_mgr = a_manager()
    node_mgr.add_default_resource({}, "mem", "node.memory", "subtract", "1g")
    node_mgr.add_default_resource(
        {}, "most", "node.memory", modifier="multiply", modifier_magnitude=0.5
    )
    node_mgr.add_default_resource({}, "disk", "size::20g", "subtract", "size::1g")
    resources = node_mgr.get_buckets()[0].resources
    assert (resources["mem"], resources["most"]) == (Memory(7, "g"), Memory(4, "g"))
    assert resources["disk"] == Size(19, "g")


@row("node_mgr.add_default_resource")
def test_none_may_be_left_undefined():
    """With allow_none=False a value of None defines nothing; otherwise None is there and may be
    replaced later."""
    node_mgr = a_manager()
    node_mgr.add_default_resource({}, "no", lambda node: None, allow_none=False)
    node_mgr.add_default_resource({}, "maybe", lambda node: None)
    resources = node_mgr.get_buckets()[0].resources
    assert ("no" in resources, resources.get("maybe", "absent")) == (False, None)
    node_mgr.add_default_resource({}, "maybe", 3)
    assert resources["maybe"] == 3


@row("node_mgr.add_default_resource")
def test_a_default_that_cannot_be_is_refused():
    """An attribute that no node has is a RuntimeError."""
    with pytest.raises(RuntimeError, match=r"Invalid node\.attribute"):
        a_manager().add_default_resource({}, "r", "node.no_such_thing")


@row("node_mgr.set_system_default_resources")
def test_system_defaults():
    """Cores, GPUs, memory in five units, nodearray and the node's id."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready")
    node_mgr = a_manager(cluster, disable_default_resources=True)
    node_mgr.set_system_default_resources()
    node_mgr.set_system_default_resources()
    resources = node_mgr.get_nodes()[0].resources
    assert list(resources) == [
        *("ncpus", "pcpus", "ngpus", "memb", "memkb", "memmb", "memgb", "memtb"),
        *("nodearray", "ccnodeid"),
    ]
    assert [resources[n] for n in ("ncpus", "pcpus", "ngpus", "nodearray")] == [4, 4, 0, "htc"]
    assert [repr(resources[f"mem{u}b"].convert_to("g")) for u in ("", "k", "m", "g", "t")] == [
        "8.0g"
    ] * 5
    assert resources["ccnodeid"] == node_mgr.get_nodes()[0].delayed_node_id.node_id


@row("node_mgr.add_unmanaged_nodes")
def test_unmanaged_nodes_take_work_and_come_first():
    """In buckets of their own without room for more; the same machine twice is once, and defaults
    apply."""
    node_mgr = a_manager()
    machines = [UnmanagedNode("onprem-1", {"ncpus": 4}), SchedulerNode("onprem-2", {"ncpus": 4})]
    node_mgr.add_unmanaged_nodes(machines)
    node_mgr.add_unmanaged_nodes([SchedulerNode("onprem-2", {"ncpus": 4})])
    node_mgr.add_default_resource({}, "queue", "q")
    used = node_mgr.allocate({"ncpus": 1}, slot_count=10)
    assert sorted(names(used.nodes)) == ["htc-1", "onprem-1", "onprem-2"]
    assert names(used.nodes)[-1] == "htc-1"
    assert [m.resources["queue"] for m in machines] == ["q", "q"]
    assert names(node_mgr.new_nodes) == ["htc-1"]


@row("node_mgr.example_node")
def test_an_example_of_any_size():
    """Whether the cluster has a bucket for it or not, with the defaults applied."""
    node_mgr = a_manager()
    example = node_mgr.example_node("westus2", "Standard_E4_v3")
    assert isinstance(example, Node)
    assert (example.vcpu_count, example.memory, example.resources["ncpus"]) == (
        4,
        Memory(32, "g"),
        4,
    )
    assert example.exists is False


@row("node_mgr.regions")
def test_limits_of_regions_and_of_the_cluster():
    """Each region by itself; one without a bucket is a RuntimeError."""
    cluster = an_htc_cluster()
    cluster.add_nodearray("east", {}, location="eastus")
    cluster.add_bucket("east", "Standard_F8s", 10, 10, regional_quota_core_count=64)
    cluster.add_node("east-1", "east", state="Ready")
    node_mgr = a_manager(cluster)
    numbers = [
        (node_mgr.get_regional_max_core_count(x), node_mgr.get_regional_consumed_core_count(x))
        for x in node_mgr.get_locations()
    ]
    assert node_mgr.get_locations() == ["westus2", "eastus"]
    assert numbers == [(1_000_000, 0), (64, 8)]
    assert (node_mgr.cluster_max_core_count, node_mgr.cluster_consumed_core_count) == (10_000, 8)
    with pytest.raises(RuntimeError):
        node_mgr.get_regional_max_core_count("nowhere")


@row("node_mgr.cluster_bindings")
def test_the_mock_found_there_lasts_across_managers():
    """Tests keep it as the cluster that several passes work on."""
    first = a_manager()
    first.allocate({"ncpus": 4}, slot_count=2)
    first.bootup()
    bindings = first.cluster_bindings
    bindings.update_state("Ready", ["htc-1"])
    second = new_node_manager(a_config(bindings))
    assert second.cluster_bindings is bindings
    assert [r["Name"] for r in bindings.get_nodes().nodes] == ["htc-1", "htc-2"]
    assert {n.name: n.state for n in second.get_nodes()} == {"htc-1": "Ready", "htc-2": "Off"}
    assert sorted(bindings.nodes) == ["htc-1", "htc-2"]


@row("node_mgr.placement_groups")
def test_placement_groups_are_added_at_the_end():
    """Each with its nodearray's limits; a second of the same name and size is left out."""
    cluster = an_htc_cluster()
    cluster.add_nodearray("hpc", {}, max_placement_group_size=5)
    cluster.add_bucket("hpc", "Standard_F8s", 10, 10)
    node_mgr = a_manager(cluster)
    hpc = node_mgr.get_buckets()[1]
    for name in ("Standard_F8s_pg0", "Standard_F8s_pg1", "Standard_F8s_pg0"):
        node_mgr.add_placement_group(name, hpc)
    added = node_mgr.get_buckets()[2:]
    assert node_mgr.get_placement_groups(hpc) == ["Standard_F8s_pg0", "Standard_F8s_pg1"]
    assert node_mgr.get_placement_groups(node_mgr.get_buckets()[0]) == []
    assert [(b.placement_group, b.available_count, b.bucket_id) for b in added] == [
        ("Standard_F8s_pg0", 5, hpc.bucket_id),
        ("Standard_F8s_pg1", 5, hpc.bucket_id),
    ]
