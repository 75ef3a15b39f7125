"""The published `NodeBucket`: facts, example node, nodes, counters, candidates."""

import pytest

from builders.nodes import a_bucket, a_definition, a_manager, a_planned_node, names, some_limits
from hpc.autoscale import util
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.bucket import (
    NodeBucket,
    NodeDefinition,
    bucket_candidates,
    node_from_bucket,
)
from hpc.autoscale.node.constraints import get_constraints

# -- definition


@pytest.mark.parametrize(
    "missing", ["nodearray", "bucket_id", "vm_size", "subnet", "gpu_count", "memory"]
)
def test_a_definition_needs_everything(missing):
    """But a placement group."""
    with pytest.raises(AssertionError, match=missing):
        a_definition(**{missing: None})


def test_a_definition_copies_its_resources():
    """Deeply."""
    given = {"tags": ["a"]}
    definition = a_definition(resources=given)
    definition.resources["tags"].append("b")
    assert given == {"tags": ["a"]}


def test_integrations_build_buckets_by_hand():
    """Twelve positional arguments, and any truthy object for the limits as long as nobody asks
    them."""
    memory = Memory(8, "g")
    definition = NodeDefinition(
        "htc",
        "b1",
        "Standard_F4",
        "westus2",
        False,
        "sub",
        4,
        0,
        memory,
        "pg0",
        {},
        {"a": {"b": 1}},
    )
    bucket = NodeBucket(definition, object(), 100, [])
    assert (bucket.nodearray, bucket.bucket_id, bucket.vm_size) == ("htc", "b1", "Standard_F4")
    assert (bucket.location, bucket.spot, bucket.subnet) == ("westus2", False, "sub")
    assert (bucket.vcpu_count, bucket.pcpu_count, bucket.gpu_count) == (4, 4, 0)
    assert (bucket.memory, bucket.placement_group) == (memory, "pg0")
    assert (bucket.max_placement_group_size, bucket.nodes, bucket.resources) == (100, [], {})
    assert bucket.software_configuration == {"a": {"b": 1}}
    assert (bucket.vm_family, bucket.cores_per_socket) == ("standardFFamily", 1)
    assert bucket.vm_capabilities["vCPUs"]
    assert (bucket.priority, bucket.valid, bucket._artificial) == (0, True, False)
    assert bucket.spot_placement_score is None
    assert "Standard_F4" in str(bucket)
    assert "pg0" in repr(bucket)


def test_gpus_of_a_bucket_reach_its_nodes():
    """Upstream's defect W24: what the definition says is not lost on the way."""
    bucket = a_bucket(vm_size="Standard_NC24", location="southcentralus", gpu_count=2)
    node = node_from_bucket(bucket, "htc-1")
    assert (bucket.gpu_count, node.gpu_count, node.clone().gpu_count) == (2, 2, 2)


def test_supports_colocation():
    """Unless the configuration says that it is not for HPC."""
    assert a_bucket().supports_colocation
    for autoscale, expected in (({"is_hpc": False}, False), ({"is_hpc": True}, True), (None, True)):
        bucket = a_bucket(software_configuration={"autoscale": autoscale})
        assert bucket.supports_colocation is expected


@pytest.mark.parametrize(
    ("given", "expected"), [(-1.0, None), (None, None), (0.0, 0.0), (90.0, 90.0)]
)
def test_last_capacity_failure(given, expected):
    """Negative or None is never (W26)."""
    bucket = NodeBucket(a_definition(), some_limits(), 20, [], last_capacity_failure=given)
    assert bucket.last_capacity_failure == expected


# -- the example node


def test_the_example_node():
    """A node that is not there, without host name, with the bucket's resources."""
    bucket = a_bucket(placement_group="pg0")
    node = bucket.example_node
    assert (node.name, node.hostname, node.exists) == ("htc-0", None, False)
    assert (node.state, node.target_state, node.placement_group) == ("Off", "Off", "pg0")
    assert (dict(node.resources), node.available) == ({"ncpus": 4}, {"ncpus": 4})
    assert bucket.example_node is node
    assert (node.managed, node.keep_alive, node.infiniband) == (True, False, True)


def test_a_node_from_a_bucket():
    """It has a made-up host name unless one is given, and shares nothing."""
    bucket = a_bucket(resources={"tags": ["a"]})
    node = node_from_bucket(bucket, "htc-3", "Ready", "Started", "Ready", exists=True)
    assert (node.name, node.state, node.target_state, node.exists) == (
        "htc-3",
        "Ready",
        "Started",
        True,
    )
    assert node.hostname != node_from_bucket(bucket, "htc-4").hostname
    assert node_from_bucket(bucket, "htc-4", hostname="mine").hostname == "mine"
    assert node_from_bucket(bucket, "htc-4").exists is True
    in_group = node_from_bucket(bucket, "htc-4", placement_group="pg1")
    assert (in_group.placement_group, in_group.infiniband) == ("pg1", True)
    node.available["tags"].append("b")
    assert bucket.resources["tags"] == ["a"]


def test_made_up_host_names_come_from_the_id_source(monkeypatch):
    """Which tests replace."""
    monkeypatch.setattr(util, "_uuid_func", util.IncrementingUUID())
    bucket = a_bucket()
    made = [node_from_bucket(bucket, f"htc-{i}").hostname for i in (1, 2)]
    assert made == ["hostname-0", "hostname-1"]


def write_resources(bucket, name, value):
    """As integrations do, in the four ways that there are."""
    return [
        lambda: bucket.resources.__setitem__(name, value),
        lambda: bucket.resources.update({name: value}),
        lambda: bucket.example_node._resources.__setitem__(name, value),
        lambda: bucket.example_node._resources.update({name: value}),
    ]


@pytest.mark.parametrize("way", range(4))
def test_a_write_into_a_bucket_shows_everywhere(way):
    """In its resources, its example node, what constraints see of it, and in nodes made from it
    later."""
    bucket = a_bucket()
    earlier = node_from_bucket(bucket, "htc-1")
    write_resources(bucket, "gold", 2)[way]()
    assert (bucket.resources["gold"], bucket.example_node.resources["gold"]) == (2, 2)
    assert bucket.example_node.available["gold"] == 2
    assert get_constraints([{"gold": 1}])[0].satisfied_by_bucket(bucket)
    assert node_from_bucket(bucket, "htc-2").resources["gold"] == 2
    assert "gold" not in earlier.resources


@pytest.mark.parametrize("way", range(4))
def test_a_write_into_a_bucket_decides_where_nodes_fit(way):
    """Also after the engine has been asked, and also when a value is taken back."""
    manager = a_manager()
    bucket = manager.get_buckets()[0]
    wanted = {"gold": 1, "node.nodearray": "htc"}
    assert not manager.allocate(wanted, slot_count=1)
    write_resources(bucket, "gold", 2)[way]()
    result = manager.allocate(wanted, slot_count=3)
    assert [(n.name, n.resources["gold"], n.available["gold"]) for n in result.nodes] == [
        ("htc-1", 2, 0),
        ("htc-2", 2, 1),
    ]
    write_resources(bucket, "gold", 0)[way]()
    assert not manager.allocate(wanted, slot_count=1)
    del bucket.resources["gold"]
    assert "gold" not in bucket.example_node.available


def test_planned_nodes_stay_what_they_were_planned_as():
    """Whether somebody has looked at them meanwhile or not."""
    manager = a_manager()
    bucket = manager.get_buckets()[0]
    unseen = manager.allocate({"ncpus": 1}, slot_count=1)
    bucket.resources["ncpus"] = 2
    bucket.resources["gold"] = 1
    assert dict(unseen.nodes[0].resources)["ncpus"] == 4
    assert "gold" not in unseen.nodes[0].resources
    assert manager.allocate({"ncpus": 2}, slot_count=1).nodes == unseen.nodes
    assert manager.allocate({"ncpus": 2}, slot_count=1).nodes[0].resources["ncpus"] == 2


def test_a_write_into_what_the_example_node_has_available():
    """Changes which demands the bucket is asked for."""
    manager = a_manager()
    bucket = manager.get_buckets()[0]
    bucket.example_node.available["ncpus"] = 0
    assert not manager.allocate({"ncpus": 1}, slot_count=1)


# -- nodes


def test_nodes_are_kept_in_order():
    """Those given first come first; one that is there already is left out, by transient id or by
    host name."""
    first = a_planned_node(name="htc-1", hostname="ip-1")
    bucket = a_bucket(nodes=[first])
    second = a_planned_node(name="htc-2", hostname="ip-2")
    again = a_planned_node(name="htc-9", hostname="ip-1")
    bucket.add_nodes([first, second, again, second])
    assert names(bucket.nodes) == ["htc-1", "htc-2"]


def test_no_node_of_the_server_is_lost():
    """Two machines that have one host name are two machines."""
    nodes = [a_planned_node(name=name, hostname="ip-1") for name in ("htc-1", "htc-2")]
    assert names(a_bucket(nodes=nodes).nodes) == ["htc-1", "htc-2"]


def test_an_invalid_bucket_takes_no_nodes():
    """It only shows those that it has."""
    bucket = NodeBucket(a_definition(), some_limits(), 20, [a_planned_node()], valid=False)
    with pytest.raises(AssertionError, match="not valid"):
        bucket.add_nodes([a_planned_node(name="htc-2")])
    assert names(bucket.nodes) == ["htc-1"]


# -- counters


def test_reserving_places():
    """A reservation shows at once; commit makes it used, rollback forgets it."""
    bucket = a_bucket(10)
    bucket.decrement(3)
    assert (bucket.available_count, bucket.limits.available_count) == (7, 10)
    assert bucket.family_available_count == bucket.limits.family_available_count - 3
    bucket.increment(1)
    assert bucket.available_count == 8
    bucket.rollback()
    assert bucket.available_count == 10
    bucket.decrement()
    bucket.commit()
    assert (bucket.available_count, bucket.limits.available_count) == (9, 9)
    bucket.rollback()
    assert bucket.available_count == 9


def test_what_was_not_reserved_cannot_be_taken_back():
    """Neither does it make room, nor is it committed."""
    bucket = a_bucket(10)
    bucket.decrement(1)
    bucket.increment(3)
    assert bucket.available_count == 10
    bucket.commit()
    assert (bucket.available_count, bucket.limits.active_count) == (10, 0)


def test_more_than_there_is_cannot_be_reserved():
    """AssertionError, and nothing is reserved."""
    bucket = a_bucket(2)
    with pytest.raises(AssertionError, match="expected room for 3"):
        bucket.decrement(3)
    assert bucket.available_count == 2


def test_reserved_places_are_not_given_away():
    """Also not to jobs."""
    manager = a_manager()
    bucket = manager.get_buckets()[0]
    bucket.decrement(8)
    assert len(manager.allocate({"exclusive": True}, node_count=5).nodes) == 2
    bucket.rollback()
    assert len(manager.allocate({"exclusive": True}, node_count=9).nodes) == 8


def test_assigning_the_available_count_takes_away():
    """A published oddity."""
    bucket = a_bucket(10)
    bucket.available_count = 4
    assert bucket.available_count == 6
    assert bucket.max_count == 10


# -- placement groups


def test_a_variant_in_a_placement_group():
    """It has the id and priority of its origin, no nodes, and the group's size as one more
    limit."""
    origin = NodeBucket(a_definition(), some_limits(100), 20, [a_planned_node()], priority=7)
    variant = origin.clone_with_placement_group("pg0")
    assert (variant.bucket_id, variant.priority, variant.nodes) == (origin.bucket_id, 7, [])
    assert (variant.placement_group, variant.example_node.placement_group) == ("pg0", "pg0")
    assert (variant.available_count, variant.max_count) == (20, 20)
    variant.limits.decrement(5)
    assert (variant.available_count, origin.available_count) == (15, 95)
    with pytest.raises(RuntimeError, match="without a placement group"):
        variant.clone_with_placement_group("pg1")
    variant.resources["x"] = 1
    assert "x" not in origin.resources


def test_a_variant_of_a_small_bucket():
    """No larger than what its origin has left."""
    assert a_bucket(3, group_size=20).clone_with_placement_group("pg0").available_count == 3


# -- candidates


def three(artificial=()):
    """Buckets a, b and c."""
    return [
        a_bucket(nodearray=n, resources={"own": n, "ncpus": 4}, artificial=n in artificial)
        for n in "abc"
    ]


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ([], "abc"),
        ([{"own": ["c", "b", "a"]}], "cba"),
        ([{"or": [{"own": "c"}, {"own": "a"}]}], "ca"),
        ([{"xor": [{"own": "c"}, {"own": "a"}]}], "ac"),
        ([{"not": {"own": "b"}}], "ac"),
        ([{"own": ["b", "a"]}, {"own": ["a", "b"]}], "ab"),
        ([{"node.nodearray": ["c", "*"]}], "cab"),
    ],
)
def test_order_of_candidates(constraints, expected):
    """Preferences add up; equals stay as they were given; what does not fit is left out."""
    result = bucket_candidates(three(), get_constraints(constraints))
    assert result
    assert "".join(b.nodearray for b in result.candidates) == expected


def test_artificial_candidates_come_first():
    """Each kind in its order."""
    result = bucket_candidates(three("b"), get_constraints([{"own": ["c", "b", "a"]}]))
    assert [b.nodearray for b in result.candidates] == ["b", "c", "a"]


def test_priority_does_not_order():
    """It only informs."""
    buckets = three()
    buckets[2].priority = 1000
    assert bucket_candidates(buckets, []).candidates == buckets


def test_no_candidates():
    """One refusal for each bucket, in the order in which they would have been asked."""
    wanted = get_constraints([{"own": ["c", "b", "a"]}, {"ncpus": 100}])
    result = bucket_candidates(three(), wanted)
    assert result.status == "CompoundFailure"
    assert [r.status for r in result.child_results] == ["InsufficientResource"] * 3
    assert all("InsufficientResource" in reason for reason in result.reasons)


def test_no_buckets():
    """Or none that is valid."""
    buckets = three()
    for bucket in buckets:
        bucket.valid = False
    for none in ([], buckets):
        result = bucket_candidates(none, [])
        assert (result.status, result.child_results) == ("NoBucketsDefined", [])


def test_an_equal_size_in_another_unit():
    """Written to a bucket it is what new nodes have, and plain numbers are asked of it in its own
    unit."""
    manager = a_manager()
    bucket = manager.get_buckets()[0]
    bucket.resources["mem"] = Memory(4, "g")
    assert not manager.allocate({"mem": 1000}, slot_count=1)
    bucket.resources["mem"] = Memory(4096, "m")
    assert bucket.example_node.available["mem"].magnitude == "m"
    assert manager.allocate({"mem": 1000}, slot_count=1)
