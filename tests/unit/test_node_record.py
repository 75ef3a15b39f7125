"""The published JSON form of a node."""

import copy
import io
import json

import pytest

from builders.nodes import a_planned_node, a_running_node
from hpc.autoscale import util
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import CapacityFailureBackoffConstraint
from hpc.autoscale.node.node import Node

KEYS = (
    "name hostname private-ip instance-id nodearray placement_group node-id operation-id vm-size "
    "location job-ids "
    "resources software-configuration available bucket-id metadata spot state exists managed"
)


def through_json(d):
    """What a reader of the JSON gets."""
    text = io.StringIO()
    util.json_dump(d, text)
    return json.loads(text.getvalue())


def least(**more):
    """The least that a node can be read from."""
    d = {
        "hostname": "ip-1",
        "name": "htc-1",
        "node-id": "id-1",
        "nodearray": "htc",
        "vm-size": "Standard_F4",
        "location": "westus2",
        "bucket-id": "b1",
        "private-ip": "10.0.0.4",
        "instance-id": "vm-1",
    }
    return {**d, **more}


def test_keys():
    """Exactly the published ones; sizes stay objects."""
    d = a_planned_node(resources={"mem": Memory(8, "g")}).to_dict()
    assert sorted(d) == sorted(KEYS.split())
    assert d["resources"]["mem"] is d["available"]["mem"] or isinstance(d["available"]["mem"], Size)


def test_nothing_is_shared_with_the_node():
    """Writing into the dict does not write into the node."""
    node = a_planned_node(resources={"tags": ["a"]}, software_configuration={"x": {"y": 1}})
    node.metadata["m"] = [1]
    node.assign("job")
    d = node.to_dict()
    d["resources"]["tags"].append("b")
    d["available"]["tags"].append("b")
    d["software-configuration"]["x"]["y"] = 2
    d["metadata"]["m"].append(2)
    d["job-ids"].append("other")
    assert node.resources["tags"] == node.available["tags"] == ["a"]
    assert (node.software_configuration, node.metadata) == ({"x": {"y": 1}}, {"m": [1]})
    assert node.assignments == {"job"}


def test_round_trip():
    """What is written comes back, also through JSON."""
    node = a_running_node(
        id="id-1",
        resources={"ncpus": 4, "mem": Memory(8, "g"), "disk": Size(1.5, "t"), "tags": ["a"]},
        software_configuration={"slurm": {"hpc": True}},
        placement_group="pg0",
        private_ip="10.0.0.4",
        instance_id="vm-1",
        spot=True,
    )
    node.available["ncpus"] = 1
    node.available["mem"] = Memory(2, "g")
    node.assign("b")
    node.assign("a")
    node.metadata["m"] = {"n": 1}
    node.delayed_node_id.operation_id = "op"
    d = through_json(node.to_dict())
    assert d["job-ids"] == ["a", "b"]
    again = Node.from_dict(d)
    assert through_json(again.to_dict()) == d
    assert type(again.available["mem"]) is Memory
    assert type(again.resources["disk"]) is Size
    assert (again.available["mem"], again.resources["disk"]) == (Memory(2, "g"), Size(1.5, "t"))
    assert (again.placement_group, again.spot, again.exists) == ("pg0", True, True)


def test_objects_are_read_as_well_as_texts():
    """A dict that never went through JSON has sizes in it."""
    node = a_planned_node(
        resources={"mem": Memory(8, "g")}, id="id-1", private_ip="1", instance_id="2"
    )
    assert Node.from_dict(node.to_dict()).available == {"mem": Memory(8, "g")}


def test_the_argument_is_left_alone():
    """Upstream wrote the sizes back into it."""
    d = least(resources={"mem": "memory::8g"}, available={"mem": "memory::4g"}, metadata={"a": [1]})
    before = copy.deepcopy(d)
    node = Node.from_dict(d)
    node.available["mem"] = 0
    node.metadata["a"].append(2)
    assert d == before


def test_what_may_be_left_out():
    """Everything else has a default."""
    node = Node.from_dict(least())
    assert (node.assignments, dict(node.resources), node.available) == (set(), {}, {})
    assert (node.vcpu_count, node.memory) == (4, Memory(8, "g"))
    assert (node.spot, node.state, node.target_state, node.exists) == (
        False,
        "unknown",
        "unknown",
        True,
    )
    assert (node.placement_group, node.managed, node.keep_alive) == (None, False, False)
    assert (node.software_configuration, node.metadata) == ({}, {})


def test_null_is_as_good_as_left_out():
    """JSON writers differ."""
    keys = "job-ids resources available metadata software-configuration memory placement_group"
    node = Node.from_dict(least(**dict.fromkeys(keys.split()), **{"vcpu-count": None}))
    assert node.vcpu_count == 4
    assert (node.assignments, node.available, node.metadata) == (set(), {}, {})
    assert node.memory == Memory(8, "g")


def test_what_may_be_given():
    """Figures win over the catalogue; the state is the target too."""
    node = Node.from_dict(
        least(
            memory="memory::3g",
            **{"vcpu-count": 7, "keep-alive": True, "state": "Ready"},
            resources={"ncpus": 7},
        )
    )
    assert (node.memory, node.vcpu_count, node.keep_alive) == (Memory(3, "g"), 7, True)
    assert (node.state, node.target_state) == ("Ready", "Ready")
    # without an own `available` nothing is used yet
    assert node.available == {"ncpus": 7}


@pytest.mark.parametrize("key", list(least()))
def test_what_must_be_there(key):
    """The error names what is missing."""
    d = least()
    del d[key]
    with pytest.raises(RuntimeError, match=key):
        Node.from_dict(d)


@pytest.mark.parametrize("given", [None, 3, "abc", [1]])
@pytest.mark.parametrize(
    "read", [Node.from_dict, SchedulerNode.from_dict, CapacityFailureBackoffConstraint.from_dict]
)
def test_what_is_no_mapping(read, given):
    """It is refused by what was expected, as scripts of integrations read JSON with these."""
    with pytest.raises(AutoscaleError, match="expected d to be Mapping, found"):
        read(given)


@pytest.mark.parametrize(
    ("key", "given"),
    [
        *(("name", None), ("hostname", 3), ("vcpu-count", "4"), ("job-ids", "12")),
        *(("resources", [1]), ("available", 3), ("metadata", "m"), ("software-configuration", [1])),
    ],
)
def test_a_value_of_another_kind(key, given):
    """It is refused by its name, and not by what Python says of it, or later."""
    with pytest.raises(AutoscaleError, match=f"expected {key} to be .*, found"):
        Node.from_dict(least(**{key: given}))


def test_a_size_that_is_none():
    """It is refused, not taken for a text."""
    with pytest.raises(RuntimeError, match="banana"):
        Node.from_dict(least(resources={"mem": "size::4banana"}))
