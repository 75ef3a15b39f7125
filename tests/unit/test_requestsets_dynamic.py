"""Dynamic arrays as the node manager is shown them: membership, buckets, limits, what is sent."""

import pytest

from hpc.autoscale import clock
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.requestsets.dynamic import DynamicArray, DynamicArrays, listed_by, prefix_of
from hpc.autoscale.requestsets.store import RequestSet, RequestStore

F4, F8 = "Standard_F4s_v2", "Standard_F8s_v2"


def a_record(name="execute-1", **more):
    """The record of a node of execute."""
    return {"Name": name, "Template": "execute", "NodeId": name, **more}


def marked(array):
    """A configuration with the mark of an array."""
    return {"autoscale": {"dynamic_array": array}}


def arrays_of(records, *listed):
    """The array that each record is found to be of."""
    known = DynamicArrays([DynamicArray(name, "execute") for name in listed], ["execute", "gpu"])
    return [record["Template"] for record in known.named(records)]


def test_the_mark_says_which_array():
    """Whether anybody lists that array or not."""
    assert arrays_of([a_record(Configuration=marked("a")), a_record()]) == ["a", "execute"]


@pytest.mark.parametrize(
    "configuration",
    [None, "x", [], {}, {"autoscale": None}, {"autoscale": "x"}, marked(None), marked(3)],
)
def test_garbage_is_no_mark(configuration):
    """The node is one of the nodearray that its record names."""
    assert arrays_of([a_record(Configuration=configuration)]) == ["execute"]


def test_the_mark_of_a_nodearray():
    """Is none: the server says itself what is of its nodearrays."""
    assert arrays_of([a_record(Configuration=marked("gpu"))]) == ["execute"]


def test_the_name_says_it_where_there_is_no_configuration():
    """And where the array is listed, and is the only one with that name."""
    records = [a_record("a-64-3"), a_record("a-64"), a_record("a-64-x"), a_record("b-1")]
    assert arrays_of(records, "a:64") == ["a:64", "execute", "execute", "execute"]
    assert arrays_of(records, "a:64", "a-64") == ["execute"] * 4
    assert arrays_of([a_record("a-1", Configuration={"x": 1})], "a") == ["execute"]


def test_records_that_are_garbage():
    """Pass."""
    records = [{}, {"Template": 3}, {"Template": None, "Configuration": marked("a")}]
    known = DynamicArrays([DynamicArray("a", "execute")], ["execute"])
    assert known.named(records) == records


@pytest.mark.parametrize(
    ("array", "prefix"),
    [
        ("render", "render"),
        ("execute:64", "execute-64"),
        ("My_Array", "my-array"),
        (":", "dynamic"),
        ("x" * 80, "x" * 50),
    ],
)
def test_names_are_host_names(array, prefix):
    """Letters, digits and '-', and not too many of them."""
    assert prefix_of(array) == prefix


def a_set(name, at, *arrays):
    """A request set that was reported at a time and stands for 300 seconds."""
    return RequestSet(name, at, at + 300, list(arrays))


def test_what_several_sets_say_of_an_array():
    """Is merged in the order in which they said it; sets that have lapsed say nothing."""
    one = {"Name": "a", "Dynamic": True, "Extends": "execute", "Owner": "one", "MachineType": F4}
    two = {**one, "Owner": "two", "MachineType": F8, "Configuration": {"x": 1}}
    gone = {**one, "Name": "gone"}
    found = listed_by([a_set("b", 500, two), a_set("c", 510, one), a_set("a", 100, gone)], 520)
    assert found == [
        DynamicArray(
            "a",
            "execute",
            (F4.lower(), F8.lower()),
            {"Owner": "one", "Configuration": {"x": 1}},
        )
    ]


def test_groups_have_an_array_for_each_size():
    """Also for dynamic arrays; those of none are listed too."""
    wish = [
        {"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 64},
        {"Name": "a", "Dynamic": True, "Extends": ["b", "execute"], "TargetCount": 1},
        {"Name": "gpu", "TargetGroupCount": 0, "GroupInstanceCount": 3},
    ]
    found = listed_by([a_set("s", 0, *wish)], 1)
    assert [(array.name, array.extends) for array in found] == [
        ("execute:64", "execute"),
        ("a", "execute"),
        ("gpu:3i", "gpu"),
    ]


# -- in a node manager


@pytest.fixture
def made(tmp_path):
    """A manager of a cluster of execute, with two sizes, where a request set wants some arrays."""
    binding = MockClusterBinding("c")
    binding.add_nodearray("execute", {"slots": 2}, max_count=10, max_core_count=1000)
    binding.add_bucket("execute", F4, 10, 10)
    binding.add_bucket("execute", F8, 10, 10)
    path = str(tmp_path / "sets.db")
    clock.use_mock_clock()

    def make(*wish):
        RequestStore(path).replace(a_set("s", clock.time(), *wish), [])
        return new_node_manager({"_mock_bindings": binding, "requestsetsdb": path})

    make.binding = binding
    return make


def an_array(name, **more):
    """The definition of an array that extends execute."""
    return {"Name": name, "Dynamic": True, "Extends": "execute", **more}


def test_buckets_come_after_those_of_the_nodearray(made):
    """In the order of the machine types of the array; all have ids of their own."""
    manager = made(an_array("a", MachineType=[F8, F4]), an_array("b", MachineType=F8))
    found = [(bucket.nodearray, bucket.vm_size) for bucket in manager.get_buckets()]
    assert found == [("execute", F4), ("execute", F8), ("a", F8), ("a", F4), ("b", F8)]
    assert len(manager.get_buckets_by_id()) == 5


def test_limits_are_shared(made):
    """What is planned in the array is gone for the nodearray at once, also by its buckets."""
    manager = made(an_array("a"))
    manager.allocate([{"node.nodearray": "a"}, {"node.vm_size": F4}], node_count=7)
    rooms = {(b.nodearray, b.vm_size): b.available_count for b in manager.get_buckets()}
    assert set(rooms.values()) == {3}


def test_resources_are_those_of_both(made):
    """Those of the nodearray, with those of the array over them."""
    more = {"Configuration": {"autoscale": {"resources": {"licences": 1}}, "x": {"y": 1}}}
    manager = made(an_array("a", **more), an_array("b"))
    resources = {b.nodearray: dict(b.resources) for b in manager.get_buckets()}
    assert (resources["a"]["slots"], resources["a"]["licences"]) == (2, 1)
    assert "licences" not in resources["b"]
    assert resources["b"]["slots"] == 2
    bucket = next(b for b in manager.get_buckets() if b.nodearray == "a")
    assert bucket.software_configuration["x"] == {"y": 1}


def test_a_definition_that_cannot_be_used(made):
    """Leaves its array without buckets, says so, and touches no other."""
    wrong = {"Configuration": {"autoscale": {"resources": {"memory": "size::many"}}}}
    manager = made(an_array("a", **wrong), an_array("b"))
    assert {b.nodearray for b in manager.get_buckets()} == {"execute", "b"}
    assert [problem for problem in manager.problems if "dynamic array a" in problem]


def test_nodes_of_a_size_that_the_array_lost(made):
    """Stay in the array, and get no more of their kind."""
    manager = made(an_array("a"))
    manager.allocate([{"node.nodearray": "a"}, {"node.vm_size": F8}], node_count=2)
    assert [node.name for node in manager.bootup().nodes] == ["a-1", "a-2"]
    manager = made(an_array("a", MachineType=F4))
    buckets = {b.vm_size: b for b in manager.get_buckets() if b.nodearray == "a"}
    assert len(buckets[F8].nodes) == 2
    assert (buckets[F8].available_count, buckets[F4].available_count) == (0, 8)


def test_nodes_of_a_size_that_the_nodearray_lost(made):
    """Are in a bucket of the array that takes no work."""
    manager = made(an_array("a"))
    manager.allocate([{"node.nodearray": "a"}, {"node.vm_size": F8}], node_count=1)
    manager.bootup()
    del made.binding.nodearrays["execute"].buckets[1]
    manager = made(an_array("a"))
    (node,) = manager.get_nodes()
    assert node.nodearray == "a"
    assert [b.nodearray for b in manager.get_invalid_buckets()] == ["a"]


def test_what_is_sent(made):
    """Nodes of the nodearray, with a mark, the attributes of the array, and those of each node."""
    manager = made(an_array("a:1", Owner="me", Configuration={"x": 1}))
    (node,) = manager.allocate({"node.nodearray": "a:1"}, node_count=1).nodes
    assert node.name == "a-1-1"
    node.node_attribute_overrides["Configuration"] = {"y": 2}
    (booted,) = manager.bootup().nodes
    assert booted is node
    (record,) = made.binding.get_nodes().nodes
    assert (record["Template"], record["Name"]) == ("execute", "a-1-1")
    assert record["Configuration"]["autoscale"]["dynamic_array"] == "a:1"
    assert (record["Configuration"]["x"], record["Configuration"]["y"]) == (1, 2)
    assert node.exists
    (again,) = made().get_nodes()
    assert again.nodearray == "a:1"


def test_a_name_of_ones_own(made):
    """Is kept."""
    manager = made(an_array("a"))
    (node,) = manager.allocate({"node.nodearray": "a"}, node_count=1).nodes
    node.name_format = "special-%d"
    assert [each.name for each in manager.bootup().nodes] == ["special-1"]
    (again,) = made(an_array("a")).get_nodes()
    assert (again.name, again.nodearray) == ("special-1", "a")


def test_an_array_on_two_nodearrays(made):
    """As after its definition has changed: nodes stay where they are, and are of the array."""
    made.binding.add_nodearray("gpu", {}, max_count=10, max_core_count=1000)
    made.binding.add_bucket("gpu", F4, 10, 10)
    manager = made({**an_array("a"), "Extends": "gpu"})
    manager.allocate({"node.nodearray": "a"}, node_count=1)
    manager.bootup()
    manager = made(an_array("a", MachineType=F4))
    found = {b.bucket_id: b for b in manager.get_buckets() if b.nodearray == "a"}
    assert sorted((len(b.nodes), b.available_count) for b in found.values()) == [(0, 10), (1, 0)]
