"""Existing nodes that nobody has looked at yet are what their records say, whenever somebody
does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import a_definition, a_manager, an_htc_cluster, names
from builders.replies import a_record
from hpc.autoscale.node.constraints import NodePropertyConstraint
from hpc.autoscale.node.default_resources import Defaults, definition_from
from hpc.autoscale.node.default_resources.definition import NodeIdDefault
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import NodeClass
from hpc.autoscale.node.node.state import BucketNodes
from hpc.autoscale.node.nodemanager.records import NodeRecords, listed, node_from, refresh

CONFIGURATIONS = st.sampled_from(
    [
        ...,
        None,
        {},
        {"autoscale": None},
        {"autoscale": {"resources": {}}},
        {"autoscale": {"resources": {"gold": 1}}},
        {"autoscale": {"resources": {"gold": True}}},
        {"autoscale": {"resources": {"gold": 1, "list": [1]}}, "color": "red"},
        {"autoscale": {"resources": {"m": "memory::1g"}}},
    ]
)
SAID = {
    "Status": st.sampled_from(["Ready", "Failed", "Acquiring"]),
    "Hostname": st.sampled_from([..., None, "ip-1", 7]),
    "PrivateIp": st.sampled_from([..., "10.0.0.4", "none"]),
    "InstanceId": st.sampled_from([..., "vm", 7]),
    "CoreCount": st.sampled_from([..., None, 4, 4.0, "4", 8, True]),
    "Memory": st.sampled_from([..., None, 4, 4.0, 8]),
    "Interruptible": st.sampled_from([..., None, True, False]),
    "KeepAlive": st.sampled_from([..., 0, 1, True]),
    "Configuration": CONFIGURATIONS,
}
RECORDS = st.lists(st.fixed_dictionaries(SAID), max_size=6).map(
    lambda said: [a_record(f"htc-{i}", **each) for i, each in enumerate(said)]
)


def sorted_out(records, assume_hostnames=False):
    """The classes and records of the nodes of all these records, and which cannot be used."""
    config = {"assume_standalone_hostnames": assume_hostnames}
    sorted_records = NodeRecords(config, records)
    classes, usable = sorted_records.listed("htc", a_definition(), None)
    return classes, usable, sorted_records.problems


def made_of(classes, records):
    """The nodes of these."""
    return [c.node(record) for c, record in zip(classes, records, strict=True)]


def all_of(node):
    """Everything that can be asked of a node, types of amounts included."""
    amounts = [
        [(name, type(value), value) for name, value in values.items()]
        for values in (node.resources, node.available)
    ]
    properties = [node.private_ip, node.vcpu_count, node.memory, node.keep_alive, node.fqdn]
    return node.to_dict(), amounts, properties, node.delayed_node_id.node_id, node.target_state


@given(RECORDS, st.booleans())
def test_a_node_is_what_its_record_says(records, assume_hostnames):
    """Made late and together with others, or at once and alone."""
    classes, usable, problems = sorted_out(records, assume_hostnames)
    assert not problems
    assert [record["Name"] for record in usable] == [record["Name"] for record in records]
    for node, record in zip(made_of(classes, usable), records, strict=True):
        assert all_of(node) == all_of(node_from(record, a_definition(), assume_hostnames))


@given(RECORDS)
def test_default_resources_are_those_of_a_node_made_at_once(records):
    """What can be told of classes is told of classes."""
    defaults = Defaults()
    for name, value in (
        ("ncpus", "node.vcpu_count"),
        ("id", NodeIdDefault()),
        ("gold", "node.name"),
    ):
        defaults.add(definition_from({}, name, value))
    classes, usable, _ = sorted_out(records)
    finer = [defaults.refined(each) for each in classes]
    for node_class, record in zip(finer, usable, strict=True):
        if node_class is not None:
            alone = node_from(record, a_definition(), False)
            defaults.apply(alone)
            assert all_of(node_class.node(record)) == all_of(alone)


def test_what_only_nodes_can_tell_is_left_to_them():
    """A function of an integration is not asked about a class."""
    defaults = Defaults()
    defaults.add(definition_from({}, "called", lambda node: node.name))
    classes, _, _ = sorted_out([a_record()])
    assert [defaults.refined(each) for each in classes] == [None]


def test_a_record_that_cannot_be_used_is_set_aside():
    """The others keep their places, in their order."""
    bad = a_record("htc-2", CoreCount="many")
    garbled = a_record("htc-4", Configuration="none")
    members = [[a_record("htc-10"), bad], [garbled, a_record("htc-3")]]
    classes, usable, problems = listed(a_definition(), members)
    assert names(made_of(classes, usable)) == ["htc-3", "htc-10"]
    assert [why.split(":")[0] for _, why in problems] == ["node htc-2", "node htc-4"]


@pytest.fixture
def manager():
    """A manager of three running nodes that nobody has looked at."""
    cluster = an_htc_cluster()
    for index in (1, 2, 3):
        cluster.add_node(f"htc-{index}", "htc", state="Ready", hostname=f"ip-{index}")
    return a_manager(cluster)


def count_made(monkeypatch):
    """Of which records nodes are made from now on, as a list of names that grows."""
    made = []
    make = NodeClass.node
    monkeypatch.setattr(
        NodeClass,
        "node",
        lambda self, source, *place: made.append(source["Name"]) or make(self, source, *place),
    )
    return made


def test_only_nodes_that_are_used_are_made(manager, monkeypatch):
    """Work is placed without looking at the nodes that get none."""
    made = count_made(monkeypatch)
    result = manager.allocate({"ncpus": 4}, slot_count=1)
    assert made == []
    assert (names(result.nodes), made) == (["htc-1"], ["htc-1"])
    assert names(manager.get_nodes()) == ["htc-1", "htc-2", "htc-3"]
    assert made == ["htc-1", "htc-2", "htc-3"]
    assert manager.get_nodes()[0] is result.nodes[0]


def test_a_constraint_on_names_finds_nodes_that_nobody_has_looked_at(manager):
    """It is answered by the nodes themselves."""
    named = NodePropertyConstraint("name", "htc-2")
    assert names(manager.allocate([named], node_count=1).nodes) == ["htc-2"]


def test_their_names_are_taken(manager):
    """New nodes get others."""
    assert names(manager.allocate({"ncpus": 4}, slot_count=4).nodes) == [
        "htc-1",
        "htc-2",
        "htc-3",
        "htc-4",
    ]


def test_known_hosts_are_not_added_again(manager):
    """A node that exists under a host name is not taken in a second time, looked at or not."""
    (bucket,) = manager.get_buckets()
    twin = node_from(a_record("htc-9", Hostname="ip-2"), a_definition(), False)
    bucket.add_nodes([twin])
    assert names(bucket.nodes) == ["htc-1", "htc-2", "htc-3"]


def test_a_definition_that_must_ask_each_node_reaches_all(manager):
    """They are made for it."""
    manager.add_default_resource({}, "called", lambda node: f"{node.name}!")
    assert [node.available["called"] for node in manager.get_nodes()] == [
        "htc-1!",
        "htc-2!",
        "htc-3!",
    ]


def test_the_engine_is_told_once_for_each_shape(manager):
    """Nodes of a class have one shape, though there is no node to ask."""
    (candidate,) = (c for c in manager._placer.planner.candidates if c.shapes)
    assert len(candidate.shapes) == 3
    assert len(set(candidate.shapes)) == 1
    assert all(type(node) is Node for node in manager.get_nodes())


def test_a_newer_record_is_looked_at_once(manager, monkeypatch):
    """What it says of state, target and existence is one thing for the engine."""
    (node,) = manager.allocate({"ncpus": 4, "node.exists": False}, node_count=1).nodes
    looked_at, look = [], BucketNodes.shape_now
    monkeypatch.setattr(
        BucketNodes,
        "shape_now",
        lambda self, node, *like: looked_at.append(str(node.name)) or look(self, node, *like),
    )
    refresh(node, a_record(node.name, Status="Acquiring", TargetState="Started"))
    assert (node.state, node.target_state, node.exists) == ("Acquiring", "Started", True)
    assert looked_at == [node.name]
