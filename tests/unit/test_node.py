"""The published `Node`: every property and setter rule."""

import datetime

import pytest

from builders.nodes import a_planned_node, a_running_node
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node, UnmanagedNode

# -- identity


def test_delayed_node_id():
    """Four mutable ids, and a transient one that each object has for itself, clones too."""
    node_id = DelayedNodeId("htc-1", "id-1", "op", 3)
    copied = node_id.clone()
    assert (copied.name, copied.node_id, copied.operation_id, copied.operation_offset) == (
        "htc-1",
        "id-1",
        "op",
        3,
    )
    assert copied.transient_id != node_id.transient_id
    assert node_id.transient_id == node_id.transient_id
    assert (node_id.to_json(), DelayedNodeId("x").to_json()) == ("id-1", "")
    for part in ("htc-1", "id-1", "op", "3", node_id.transient_id):
        assert part in str(node_id)
    node_id.node_id = None
    node_id.transient_id = "t"
    assert (node_id.to_json(), node_id.transient_id) == ("", "t")


def test_host_names():
    """The short form, the full one, and what stands for them while there is none."""
    node = a_running_node(hostname="ip-1.example.com")
    assert (node.hostname, node.fqdn, node.hostname_or_uuid) == ("ip-1", "ip-1.example.com", "ip-1")
    assert node.hostname_required == "ip-1"
    for none in (None, ""):
        nameless = a_planned_node(hostname=none)
        assert (nameless.hostname, nameless.fqdn) == (none, none)
        assert nameless.hostname_or_uuid == nameless.delayed_node_id.transient_id
        with pytest.raises(AssertionError, match="null hostname"):
            _ = nameless.hostname_required


@pytest.mark.parametrize(
    ("name", "index"), [("htc-12", 12), ("htc-a", None), ("a-b-3", 3), ("htc-", None)]
)
def test_node_index(name, index):
    """The number behind the last dash."""
    assert a_planned_node(name=name)._node_index == index


def test_the_properties_that_can_be_asked_for():
    """Exactly these; the list is public."""
    assert type(QUERYABLE_PROPERTIES) is list
    assert sorted(QUERYABLE_PROPERTIES) == sorted(
        [
            "state",
            "exists",
            "instance_id",
            "keep_alive",
            "placement_group",
            "create_time_unix",
            "last_match_time_unix",
            "delete_time_unix",
            "create_time_remaining",
            "name",
            "nodearray",
            "bucket_id",
            "vm_size",
            "vm_family",
            "hostname",
            "fqdn",
            "hostname_or_uuid",
            "private_ip",
            "location",
            "spot",
            "vcpu_count",
            "memory",
            "infiniband",
            "colocated",
            "version",
            "pcpu_count",
            "gpu_count",
            "cores_per_socket",
            "create_time",
            "last_match_time",
            "delete_time",
        ]
    )


def test_every_queryable_property_is_there_and_no_other_can_be_asked_for():
    """Whatever else a node has is refused as a constraint."""
    node = a_running_node()
    for name in QUERYABLE_PROPERTIES:
        getattr(node, name)
        get_constraint({f"node.{name}": None})
    for name in dir(Node):
        if name not in QUERYABLE_PROPERTIES:
            with pytest.raises(ValueError, match="a property of nodes"):
                get_constraint({f"node.{name}": None})


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "nodearray",
        "bucket_id",
        "vm_size",
        "spot",
        "location",
        "private_ip",
        "infiniband",
        "memory",
        "version",
        "hostname",
        "fqdn",
        "hostname_or_uuid",
        "hostname_required",
        "vcpu_count",
        "pcpu_count",
        "gpu_count",
        "cores_per_socket",
        "vm_family",
        "vm_capabilities",
        "colocated",
        "create_time",
        "last_match_time",
        "delete_time",
        "resources",
        "available",
        "assignments",
        "software_configuration",
        "node_attribute_overrides",
    ],
)
def test_read_only_properties(name):
    """They cannot be assigned."""
    with pytest.raises(AttributeError):
        setattr(a_running_node(), name, "x")


def test_plain_attributes_can_be_assigned():
    """Also ones that nobody has declared."""
    node = a_planned_node()
    for name in ("state", "target_state", "exists", "managed", "instance_id", "create_time_unix"):
        setattr(node, name, "x")
        assert getattr(node, name) == "x"
    for name in ("last_match_time_unix", "delete_time_unix", "name_format", "name_offset", "mine"):
        setattr(node, name, 7)
        assert getattr(node, name) == 7
    assert a_planned_node().marked_for_deletion is False
    assert (a_planned_node().name_format, a_planned_node().name_offset) == (None, None)
    assert not hasattr(node, "power_state")


def test_private_names_that_integrations_write():
    """The mangled nodearray and address are what the properties and constraints read."""
    node = a_running_node()
    node._Node__nodearray = "other"
    node._Node__private_ip = "10.0.0.9"
    assert (node.nodearray, node.private_ip) == ("other", "10.0.0.9")
    assert get_constraint({"node.nodearray": "other"}).satisfied_by_node(node)


# -- hardware


def test_memory_must_be_a_memory():
    """A number, or a Size that is no Memory, is refused."""
    for wrong in (8, Size(8, "g"), None):
        with pytest.raises(AssertionError, match="Memory"):
            a_planned_node(memory=wrong)


def test_catalogue_figures():
    """Family, physical cores and GPUs are those of the VM size."""
    node = a_planned_node(vm_size="Standard_E8s_v3", location="southcentralus", vcpu_count=-1)
    assert (node.vcpu_count, node.pcpu_count, node.cores_per_socket) == (4, 4, 2)
    assert node.vm_family != "unknown"
    assert node.vm_capabilities["MemoryGB"]
    assert a_planned_node(vcpu_count=7).vcpu_count == 7


def test_an_unknown_size():
    """Physical cores are what the node says; everything else is unknown, GPUs are 0."""
    node = a_planned_node(vm_size="Standard_Nope", vcpu_count=6)
    assert (node.vm_family, node.vcpu_count, node.pcpu_count) == ("unknown", 6, 6)
    assert (node.gpu_count, node.cores_per_socket) == (0, -1)


@pytest.mark.parametrize(("given", "shown"), [(None, 4), (0, 4), (-1, 4), (2, 2), (8, 8)])
def test_gpus_given_to_a_node(given, shown):
    """A number above 0 wins; otherwise the catalogue's counts."""
    node = a_planned_node(vm_size="Standard_NC24", location="southcentralus", gpu_count=given)
    assert node.gpu_count == shown


# -- standing


def test_keep_alive_is_fixed_once_the_node_exists():
    """RuntimeError then; before, it makes the node required."""
    planned = a_planned_node()
    planned.keep_alive = True
    assert (planned.keep_alive, planned.required) == (True, True)
    with pytest.raises(RuntimeError, match="exists"):
        a_running_node().keep_alive = True


def test_required():
    """Kept alive, allocated, or assigned; setting it sets the allocated flag alone."""
    node = a_planned_node()
    assert node.required is False
    node.required = True
    assert (node.required, node._allocated, node.assignments) == (True, True, set())
    node.required = False
    node.assign("job")
    assert (node.required, node.assignments) == (True, {"job"})
    assert a_planned_node(keep_alive=True).required


def test_closed_goes_one_way():
    """Opening an open node is nothing; opening a closed one is an error."""
    node = a_planned_node()
    node.closed = False
    node.closed = True
    node.closed = True
    assert node.closed
    with pytest.raises(RuntimeError, match="closed"):
        node.closed = False


def test_placement_group():
    """Empty is none; an existing node cannot be moved, but may be put into a group."""
    node = a_planned_node()
    node.placement_group = "pg_0-A"
    assert (node.placement_group, node.colocated) == ("pg_0-A", True)
    node.placement_group = "other"
    node.placement_group = ""
    assert (node.placement_group, node.colocated) == (None, False)
    existing = a_running_node()
    existing.placement_group = "pg0"
    existing.placement_group = "pg0"
    with pytest.raises(RuntimeError, match="exists"):
        existing.placement_group = "pg1"
    with pytest.raises(RuntimeError, match="exists"):
        existing.placement_group = None
    assert existing.placement_group == "pg0"
    assert a_planned_node(placement_group="").placement_group is None


def test_illegal_placement_groups():
    """The value stays what it was; there is a way to have the name made legal."""
    node = a_planned_node(placement_group="pg0")
    for wrong in ("a b", "a.b", "a/b", "ä", "a\n"):
        with pytest.raises(RuntimeError, match="letters"):
            node.placement_group = wrong
    assert node.placement_group == "pg0"
    assert node.set_placement_group_escaped("a.b c/d") == "a_b_c_d" == node.placement_group
    assert node.set_placement_group_escaped(None) is None
    assert node.set_placement_group_escaped("") is None


def test_times():
    """Local datetimes of the unix times; the epoch where there is none."""
    node = a_planned_node()
    epoch = datetime.datetime.fromtimestamp(0)
    assert (node.create_time, node.last_match_time, node.delete_time) == (epoch, epoch, epoch)
    assert node.delete_time_unix == 0.0
    node.create_time_unix = 1000.0
    node.delete_time_unix = 2000.0
    assert node.create_time == datetime.datetime.fromtimestamp(1000)
    assert node.delete_time == datetime.datetime.fromtimestamp(2000)


def test_remaining_times():
    """-1 once ready, and while work is assigned; otherwise what was set, with a floor."""
    node = a_planned_node()
    assert (node.create_time_remaining, node.idle_time_remaining) == (0.0, 0.0)
    node.create_time_remaining, node.idle_time_remaining = 5, 6
    assert (node.create_time_remaining, node.idle_time_remaining) == (5, 6)
    node.create_time_remaining, node.idle_time_remaining = -5, -6
    assert (node.create_time_remaining, node.idle_time_remaining) == (0, -1)
    node.create_time_remaining, node.idle_time_remaining = 5, 6
    node.state = "Ready"
    node.assign("job")
    assert (node.create_time_remaining, node.idle_time_remaining) == (-1, -1)


def test_overrides_and_configuration():
    """Overrides are live until the node exists, and lie over the configuration, not into it."""
    base = {"slurm": {"hpc": True, "part": "a"}, "x": 1}
    node = a_planned_node(software_configuration=base)
    assert node.software_configuration is base
    node.node_attribute_overrides["Configuration"] = {"slurm": {"hpc": False}}
    assert node.software_configuration == {"slurm": {"hpc": False}, "x": 1}
    assert base["slurm"]["hpc"] is True
    node.exists = True
    with pytest.raises(TypeError):
        node.node_attribute_overrides["KeepAlive"] = True
    with pytest.raises(TypeError):
        node.software_configuration["x"] = 2
    assert node.software_configuration["slurm"] == {"hpc": False}


def test_nested_configuration_stays_shared():
    """Callers change what is in it, also of nodes that exist."""
    base = {"slurm": {"part": "a"}}
    a_running_node(software_configuration=base).software_configuration["slurm"]["part"] = "b"
    assert base == {"slurm": {"part": "b"}}


# -- order and text


def test_order_is_reversed():
    """So that a max-heap gives ascending host names; equality is identity."""
    a, b = a_running_node(hostname="a"), a_running_node(hostname="b")
    assert b < a
    assert not a < b
    assert sorted([a, b]) == [b, a]
    assert a_running_node(hostname="a") != a
    assert len({a, b, a}) == 2


def test_texts():
    """An example node prints as its bucket; a host name is shown once the node exists."""
    planned = a_planned_node(hostname="fake", placement_group="pg0")
    assert str(planned) == "Node(htc-1, ..., Standard_F4, pg0)"
    assert repr(planned) == "Node(htc-1, ..., pg0)"
    running = a_running_node(id="id-1")
    assert str(running) == "Node(htc-1, ip-1, Standard_F4, id-1)"
    assert repr(running) == "Node(htc-1, ip-1, None)"
    assert str(a_running_node(hostname=None, id="id-1")) == "Node(htc-1, ..., Standard_F4, id-1)"
    example = a_planned_node(name="htc-0")
    assert str(example) == "NodeBucket(nodearray=htc, vm_size=Standard_F4, pg=None)"
    assert example._is_example_node()
    assert not running._is_example_node()


# -- machines that CycleCloud does not know


def test_an_unmanaged_node():
    """It exists, is nobody's, and is always required."""
    node = UnmanagedNode("tux.example", {"ncpus": 4})
    assert (node.name, node.hostname, node.state) == ("tux.example", "tux", "running")
    assert (node.exists, node.managed, node.keep_alive, node.required) == (True, False, True, True)
    assert (node.nodearray, node.bucket_id, node.vm_size) == ("unknown", "unknown", "unknown")
    assert (node.vcpu_count, node.memory) == (-1, Memory(-1, "g"))
    assert node.delayed_node_id.node_id is None
    assert str(node).startswith("UnmanagedNode(")
    assert repr(node).startswith("UnmanagedNode(")


def test_an_unmanaged_node_of_a_known_size():
    """A size needs a region, and gives the figures that were not given."""
    node = UnmanagedNode("tux", vm_size="Standard_F4", location="westus2", placement_group="pg0")
    assert (node.vcpu_count, node.memory, node.placement_group) == (4, Memory(8, "g"), "pg0")
    own = UnmanagedNode("tux", vcpu_count=3, memory=Memory(1, "g"))
    assert (own.vcpu_count, own.memory) == (3, Memory(1, "g"))
    with pytest.raises(AssertionError, match="location"):
        UnmanagedNode("tux", vm_size="Standard_F4")
