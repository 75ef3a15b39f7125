"""From a server's replies to buckets, nodes and limits."""

import pytest

from builders.nodes import F4, a_manager, an_htc_cluster, names
from builders.replies import (
    a_record,
    array_status,
    bucket_status,
    build_from,
    cluster_status,
    only_bucket,
)
from hpc.autoscale.ccbindings.models import NodearrayBucketStatusVirtualMachine as Machine
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.vm_sizes import gpu_count


def shown(buckets):
    """Nodearray, VM size and placement group of each bucket."""
    return [(b.nodearray, b.vm_size, b.placement_group) for b in buckets]


# -- buckets


def test_a_bucket_is_what_the_server_says():
    """Size, figures, configuration, resources and counts."""
    configuration = {
        "autoscale": {"resources": {"gold": 1, "disk": "size::20g", "m": "memory::1g"}}
    }
    bucket = only_bucket(
        cluster_status(
            array_status(
                buckets=[bucket_status(available=7, active_count=3, last_capacity_failure=5.0)],
                Configuration=configuration,
            )
        )
    )
    assert (bucket.nodearray, bucket.vm_size, bucket.location) == ("htc", F4, "westus2")
    assert (bucket.vcpu_count, bucket.memory, bucket.subnet) == (4, Memory(8, "g"), "rg/net/sub")
    assert (bucket.available_count, bucket.max_count, bucket.limits.active_count) == (7, 7, 3)
    assert (bucket.priority, bucket.valid, bucket.last_capacity_failure) == (1000, True, 5.0)
    assert (bucket.max_placement_group_size, bucket.spot) == (100, False)
    assert dict(bucket.resources) == {"gold": 1, "disk": Size(20, "g"), "m": Memory(1, "g")}
    assert type(bucket.resources["m"]) is Memory
    assert bucket.software_configuration == configuration
    configuration["autoscale"]["resources"]["gold"] = 2
    assert bucket.resources["gold"] == 1


def test_order_and_priority():
    """Nodearrays and buckets as declared; priorities only inform."""
    sizes = [bucket_status(F4), bucket_status("Standard_F8", 8)]
    status = cluster_status(
        array_status("b", sizes), array_status("a", [bucket_status()], Priority=0)
    )
    buckets = build_from(status).buckets
    assert [(b.nodearray, b.vm_size, b.priority) for b in buckets] == [
        ("b", F4, 1000),
        ("b", "Standard_F8", 999),
        ("a", F4, 0),
    ]


def test_placement_groups():
    """Those of the server by name, those configured for all and for the nodearray, its own, those
    that nodes are in; and last the bucket outside of any."""
    status = cluster_status(
        array_status(buckets=[bucket_status(groups=[("z", 2), ("a", 0)])], PlacementGroupId="own")
    )
    record = a_record(PlacementGroupId="used")
    configured = {"default": {"placement_groups": ["x"]}, "htc": {"placement_groups": ["y", "a"]}}
    buckets = build_from(status, [record], nodearrays=configured).buckets
    assert [b.placement_group for b in buckets] == ["a", "z", "x", "y", "own", "used", None]
    assert {b.bucket_id for b in buckets} == {buckets[0].bucket_id}
    assert buckets[1].limits.placement_group_available_count == 98
    assert names(buckets[5].nodes) == ["htc-1"]
    assert buckets[5].nodes[0].placement_group == "used"


def test_memory_of_the_nodearray_wins():
    """It is set where the server's own figure is wrong."""
    assert only_bucket(cluster_status(array_status(Memory=6.5))).memory == Memory(6.5, "g")


def test_disabled_nodearrays_are_invisible():
    """Their nodes too, but their names are taken."""
    off = array_status("off", Configuration={"autoscale": {"enabled": False}})
    on = array_status("on", Configuration={"autoscale": {"enabled": True}})
    result = build_from(cluster_status(off, on), [a_record("off-1", Template="off")])
    assert shown(result.buckets) == [("on", F4, None)]
    assert (result.names, result.problems) == (["off-1"], [])


def test_invalid_buckets_show_their_nodes_and_take_no_work():
    """W22: what runs can be idled out, but nothing is placed on it."""
    cluster = an_htc_cluster()
    cluster.add_bucket("htc", "Standard_F8", 10, 10, valid=False)
    cluster.add_node("htc-1", "htc", "Standard_F8", state="Ready", hostname="ip-1")
    manager = a_manager(cluster)
    assert [b.vm_size for b in manager.get_buckets()] == [F4]
    assert [b.vm_size for b in manager.get_invalid_buckets()] == ["Standard_F8"]
    assert names(manager.get_nodes()) == ["htc-1"]
    assert manager.get_nodes()[0].resources["ncpus"] == 8
    assert not manager.allocate({"ncpus": 8}, slot_count=1)
    assert manager.delete(manager.get_nodes()).nodes[0].name == "htc-1"
    assert manager.get_nodes() == []


def test_nodes_without_a_bucket_are_shown_too():
    """A size that was taken out of a nodearray, or one whose bucket makes no sense."""
    records = [
        a_record("htc-1", MachineType="Standard_F8", CoreCount=8, Memory=16.0),
        a_record("htc-2", MachineType="Standard_F8", PlacementGroupId="pg0"),
        a_record("htc-3"),
    ]
    result = build_from(cluster_status(), records)
    assert [
        (*key, b.valid) for key, b in zip(shown(result.buckets), result.buckets, strict=True)
    ] == [
        ("htc", F4, None, True),
        ("htc", "Standard_F8", None, False),
        ("htc", "Standard_F8", "pg0", False),
    ]
    node = result.buckets[1].nodes[0]
    assert (node.name, node.vcpu_count, node.memory) == ("htc-1", 8, Memory(16, "g"))
    assert all("Standard_F8" in problem for problem in result.problems)


def test_nodes_of_unknown_nodearrays_are_left_alone():
    """The head node is one of them. W20: they stop nothing, and their names are taken."""
    record = a_record("scheduler", Template="scheduler", MachineType="Standard_D8s_v3", CoreCount=8)
    result = build_from(cluster_status(), [record])
    assert [b.nodes for b in result.buckets] == [[]]
    assert (result.names, result.problems) == (["scheduler"], [])
    assert result.buckets[0].limits.cluster_consumed_core_count == 8


def test_nodes_of_a_nodearray_that_was_taken_out_of_the_cluster():
    """Nobody deletes them, and they cost: that is said, once for each nodearray."""
    gone = {"Status": "Off", "TargetState": "Terminated"}
    records = [
        *(a_record(f"old-{n}", Template="old") for n in (1, 2)),
        a_record("old-3", Template="old", **gone),
        a_record("older-1", Template="older", **gone),
        a_record("htc-1"),
    ]
    result = build_from(cluster_status(), records)
    assert result.problems == [
        "nodearray old: the cluster has none of this name, and 2 nodes of it; left alone until"
        " somebody terminates them in CycleCloud"
    ]


def test_a_nodearray_without_buckets():
    """One clear sentence, and its nodes are shown."""
    result = build_from(cluster_status(array_status(buckets=[])), [a_record()])
    assert "nodearray htc: expected at least one bucket" in result.problems[0]
    assert names(result.buckets[0].nodes) == ["htc-1"]
    assert not result.buckets[0].valid


def test_mimicked_machines():
    """Nodes that are to be taken for machines on premises are in neither listing, and their names
    are free."""
    records = [a_record("htc-1"), a_record("htc-2")]
    result = build_from(cluster_status(), records, _mimic_on_prem=["htc-1"])
    assert names(result.buckets[0].nodes) == ["htc-2"]
    assert result.names == ["htc-2"]
    assert result.buckets[0].limits.cluster_consumed_core_count == 4


# -- nodes


def test_a_node_is_what_its_record_says():
    """And what it does not say is the bucket's."""
    record = a_record(
        CoreCount=2,
        Memory=3.5,
        KeepAlive=True,
        Interruptible=True,
        Configuration={"autoscale": {"resources": {"gold": 1}}, "slurm": {"x": 1}},
    )
    node = only_bucket(cluster_status(), [record]).nodes[0]
    assert (node.name, node.delayed_node_id.node_id) == ("htc-1", "id-htc-1")
    assert (node.hostname, node.private_ip, node.instance_id) == (
        "ip-htc-1",
        "10.0.0.4",
        "vm-htc-1",
    )
    assert (node.state, node.target_state, node.exists) == ("Ready", "Started", True)
    assert (node.vcpu_count, node.memory, node.spot) == (2, Memory(3.5, "g"), True)
    assert (node.keep_alive, node.required, node.managed) == (True, True, True)
    assert dict(node.resources) == {"gold": 1}
    assert node.software_configuration["slurm"] == {"x": 1}
    assert (node.placement_group, node.infiniband) == (None, False)
    plain = only_bucket(cluster_status(array_status(Interruptible=True)), [a_record()]).nodes[0]
    assert (plain.vcpu_count, plain.memory, plain.spot) == (4, Memory(8, "g"), True)


def test_nodes_in_natural_order():
    """htc-2 before htc-10; names without a number by name."""
    records = [a_record(n) for n in ("htc-10", "htc-2", "zed", "htc-1", "abc")]
    assert names(only_bucket(cluster_status(), records).nodes) == [
        "abc",
        "htc-1",
        "htc-2",
        "htc-10",
        "zed",
    ]


@pytest.mark.parametrize(
    ("status", "target", "member", "exists"),
    [
        ("Ready", "Started", True, True),
        ("Allocating", "Started", True, True),
        ("Failed", "Started", True, True),
        ("Deallocated", "Started", True, True),
        ("Deallocated", "Deallocated", True, False),
        ("Deallocating", "Deallocated", False, False),
        ("Terminating", "Terminated", False, False),
        ("Off", "Terminated", False, False),
        ("Off", "Off", False, False),
    ],
)
def test_who_is_a_member(status, target, member, exists):
    """What runs or boots, and what rests deallocated and can be started."""
    nodes = only_bucket(cluster_status(), [a_record(Status=status, TargetState=target)]).nodes
    assert [n.exists for n in nodes] == ([exists] if member else [])


@pytest.mark.parametrize(
    ("status", "target", "counts"),
    [
        ("Ready", "Started", 1),
        ("Allocating", "Started", 1),
        ("Started", "Started", 1),
        ("Failed", "Started", 1),
        ("Terminating", "Terminated", 1),
        ("Deallocating", "Deallocated", 1),
        ("Deallocated", "Deallocated", 0),
        ("Terminated", "Terminated", 0),
        ("Off", "Off", 0),
    ],
)
def test_who_counts_against_limits(status, target, counts):
    """Booting, running and terminating nodes do; those at rest do not."""
    record = a_record(Status=status, TargetState=target)
    limits = only_bucket(cluster_status(array_status(max_count=5)), [record]).limits
    assert limits.nodearray_available_count == 5 - counts
    assert limits.nodearray_consumed_core_count == limits.cluster_consumed_core_count == 4 * counts


@pytest.mark.parametrize(
    ("address", "hostname"),
    [("10.1.0.2", "ip-0A010002"), ("fe80::1", "ip-htc-1"), (None, "ip-htc-1")],
)
def test_assumed_host_names(address, hostname):
    """With standalone DNS the name follows from the address."""
    records = [a_record(PrivateIp=address)]
    node = only_bucket(cluster_status(), records, assume_standalone_hostnames=True).nodes[0]
    assert node.hostname == hostname
    off = {"cyclecloud": {"hosts": {"standalone_dns": {"enabled": False}}}}
    status = cluster_status(array_status(Configuration=off))
    assert (
        only_bucket(status, records, assume_standalone_hostnames=True).nodes[0].hostname
        == "ip-htc-1"
    )
    assert only_bucket(cluster_status(), records).nodes[0].hostname == "ip-htc-1"


# -- limits


def test_available_is_the_tighter_of_bucket_and_nodearray():
    """Terminating nodes are left out of the server's own count."""
    going = [a_record(f"htc-{i}", Status="Terminating", TargetState="Terminated") for i in range(8)]
    assert only_bucket(cluster_status(array_status(max_count=10)), going).available_count == 2


def test_availability_that_is_not_said_is_worked_out():
    """From the counts that are."""
    status = bucket_status(available=10, available_count=..., active_count=4)
    assert only_bucket(cluster_status(array_status(buckets=[status]))).available_count == 6


def test_what_is_not_said_of_nodes_in_use_is_none():
    """Neither nodes nor cores."""
    status = bucket_status(active_count=..., active_core_count=...)
    limits = only_bucket(cluster_status(array_status(buckets=[status]))).limits
    assert (limits.active_count, limits.active_core_count) == (0, 0)


@pytest.mark.parametrize(("said", "cores"), [({}, 8), ({"CoreCount": 6}, 6)])
def test_cores_of_a_size_that_has_no_bucket(said, cores):
    """As the record has it, else as the catalogue does."""
    record = a_record(MachineType="Standard_F8s_v2", Region="westus2", **said)
    buckets = build_from(cluster_status(), [record]).buckets
    assert buckets[0].limits.cluster_consumed_core_count == cores


def test_a_server_that_says_nothing_of_how_many_there_may_be_has_room_for_none():
    """Neither how many in all, nor how many more."""
    status = bucket_status(max_count=..., available_count=...)
    assert only_bucket(cluster_status(array_status(buckets=[status]))).available_count == 0


@pytest.mark.parametrize(
    ("spot", "quotas"),
    [
        (False, ["Region(westus2)", "VM Family(standardFFamily, westus2)"]),
        (True, ["Spot(westus2)", "Spot"]),
    ],
)
def test_what_limits_are_called(spot, quotas):
    """Those of spot nodes are others."""
    limits = only_bucket(cluster_status(array_status(Interruptible=spot))).limits
    region, family = quotas
    assert [limit.name for limit in limits.parts] == [
        "Bucket(htc, Standard_F4)",
        region,
        "Cluster",
        "NodeArray(htc)",
        family,
    ]


def test_spot_has_a_quota_of_its_own():
    """Regional, in the place of the family's."""
    spot = array_status(
        "spot",
        [bucket_status(regional_consumed_core_count=45, regional_quota_core_count=100)],
        Interruptible=True,
    )
    on_demand = array_status("htc", [bucket_status(regional_quota_core_count=1000)])
    buckets = build_from(cluster_status(spot, on_demand)).buckets
    limits = buckets[0].limits
    assert (limits.family_max_count, limits.family_available_count) == (25, 13)
    buckets[1].limits.decrement(10)
    assert (limits.family_available_count, limits.regional_available_count) == (13, 13)
    limits.decrement(3)
    assert (limits.family_available_count, limits.regional_available_count) == (10, 10)
    assert buckets[1].limits.regional_available_count == 240


def test_older_servers():
    """Neither family nor region: the family's figures are under the plain names, and nobody limits
    the region."""
    old = dict.fromkeys(
        (
            "family_consumed_core_count",
            "family_quota_core_count",
            "regional_consumed_core_count",
            "regional_quota_core_count",
        ),
        ...,
    )
    status = bucket_status(consumed_core_count=60, quota_core_count=80, **old)
    bucket = only_bucket(cluster_status(array_status(buckets=[status])))
    assert bucket.limits.family_available_count == 5
    assert bucket.limits.regional_available_count > 1_000_000
    assert bucket.available_count == 5


def test_the_first_bucket_that_says_something_defines_a_quota():
    """Buckets of one family share it; one that leaves it out takes part."""
    silent = bucket_status(
        regional_quota_core_count=..., family_quota_core_count=..., quota_core_count=...
    )
    said = bucket_status(
        "Standard_F8",
        8,
        family_quota_core_count=48,
        family_consumed_core_count=8,
        regional_quota_core_count=64,
    )
    later = bucket_status("Standard_F2", 2, family_quota_core_count=4, regional_quota_core_count=6)
    buckets = build_from(cluster_status(array_status(buckets=[silent, said, later]))).buckets
    assert [b.limits.family_available_count for b in buckets] == [10, 5, 20]
    assert [b.limits.regional_available_count for b in buckets] == [16, 8, 32]
    assert "or planned" not in str(buckets[0].limits)
    buckets[1].limits.decrement(5)
    assert [b.available_count for b in buckets] == [0, 0, 0]


def test_families_are_counted_by_region():
    """As Azure does."""
    arrays = [
        array_status(n, [bucket_status(family_quota_core_count=40)], Region=r)
        for n, r in (("a", "westus2"), ("b", "eastus"))
    ]
    one, other = build_from(cluster_status(*arrays)).buckets
    one.limits.decrement(10)
    assert (one.available_count, other.available_count) == (0, 10)


@pytest.mark.parametrize(
    ("config", "reported", "catalogue", "expected"),
    [
        ({}, 0, 4, 4),
        ({}, None, 4, 4),
        ({}, 2, 4, 4),
        ({}, 4, 2, 4),
        ({}, 0, 0, 0),
        ({"vm_sizes": {"gpu_count": "reported"}}, 2, 4, 2),
        ({"vm_sizes": {"gpu_count": "reported"}}, 0, 4, 4),
    ],
)
def test_gpus(config, reported, catalogue, expected):
    """The higher of both, unless the configuration trusts what is reported."""
    assert gpu_count(config, reported, catalogue) == expected


def test_gpus_of_buckets_and_nodes():
    """The rule holds for both, and their copies (W24)."""
    machine = Machine(vcpu_count=24, gpu_count=0, memory=224.0, infiniband=False)
    status = array_status(
        buckets=[bucket_status("Standard_NC24", 24, virtual_machine=machine)],
        Region="southcentralus",
    )
    bucket = only_bucket(cluster_status(status), [a_record(MachineType="Standard_NC24")])
    assert (bucket.gpu_count, bucket.nodes[0].gpu_count, bucket.nodes[0].clone().gpu_count) == (
        4,
        4,
        4,
    )
