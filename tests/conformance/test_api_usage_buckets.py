"""Section 7: buckets, limits and the table of VM sizes."""

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster, names
from builders.published import row
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition
from hpc.autoscale.node.limits import BucketLimits, _SharedLimit


def a_definition(**changed):
    """The twelve arguments, by position, as Slurm's tests give them."""
    given = {
        "nodearray": "hpc",
        "bucket_id": "b1",
        "vm_size": "Standard_E4_v3",
        "location": "westus2",
        "spot": False,
        "subnet": "subnet",
        "vcpu_count": 4,
        "gpu_count": 0,
        "memory": Memory(32, "g"),
        "placement_group": "pg0",
        "resources": {"ncpus": 4},
        "software_configuration": {"slurm": {"partition": "hpc"}},
    }
    return NodeDefinition(*{**given, **changed}.values())


@pytest.fixture
def own():
    """A bucket as Slurm's tests make one: any truthy object will do for its limits."""
    return NodeBucket(a_definition(), "no limits here", 40, [])


@pytest.fixture
def bucket():
    """The bucket of a cluster: ten nodes of four cores."""
    return a_manager().get_buckets()[0]


@row("bucket.NodeDefinition")
def test_a_definition_takes_twelve_arguments_by_position():
    """And keeps them under their names; all but the placement group must be there."""
    resources = {"ncpus": 4}
    definition = a_definition(resources=resources)
    assert (definition.nodearray, definition.bucket_id, definition.subnet) == (
        "hpc",
        "b1",
        "subnet",
    )
    assert (definition.resources, definition.memory) == ({"ncpus": 4}, Memory(32, "g"))
    resources["ncpus"] = 8
    assert definition.resources == {"ncpus": 4}
    assert a_definition(placement_group=None).placement_group is None
    with pytest.raises(AssertionError):
        a_definition(vm_size=None)


@row("bucket.NodeBucket")
def test_a_bucket_with_any_limits_can_be_read():
    """Of four arguments, by position or by name, the last a list of nodes."""
    node = a_planned_node()
    by_name = NodeBucket(
        definition=a_definition(), limits=object(), max_placement_group_size=40, nodes=[node]
    )
    assert by_name.nodes == [node]
    assert "hpc" in str(by_name) and "Standard_E4_v3" in str(by_name)


PLAIN = [
    pytest.param("nodearray", "hpc", "htc", marks=row("bucket.nodearray")),
    pytest.param("vm_size", "Standard_E4_v3", "Standard_F4", marks=row("bucket.vm_size")),
    pytest.param(
        "vm_family", "standardEv3Family", "standardFFamily", marks=row("bucket.vm_family")
    ),
    pytest.param("placement_group", "pg0", None, marks=row("bucket.placement_group")),
    pytest.param("location", "westus2", "westus2", marks=row("bucket.location")),
    pytest.param("vcpu_count", 4, 4, marks=row("bucket.vcpu_count")),
    pytest.param("pcpu_count", 2, 4, marks=row("bucket.pcpu_count")),
    pytest.param("gpu_count", 0, 0, marks=row("bucket.gpu_count")),
    pytest.param("memory", Memory(32, "g"), Memory(8, "g"), marks=row("bucket.memory")),
    pytest.param("max_placement_group_size", 40, 100, marks=row("bucket.max_placement_group_size")),
]


@pytest.mark.parametrize(("attribute", "of_own", "of_cluster"), PLAIN)
def test_plain_reads(own, bucket, attribute, of_own, of_cluster):
    """Of a bucket made by hand, and of one that a cluster reports."""
    assert (getattr(own, attribute), getattr(bucket, attribute)) == (of_own, of_cluster)
    assert type(getattr(own, attribute)) is type(of_own)


@row("bucket.gpu_count")
def test_gpus_that_the_cluster_does_not_report_come_from_the_table():
    """Locked-down subscriptions report none."""
    gpu = NodeBucket(a_definition(vm_size="Standard_NC6", gpu_count=0), object(), 1, [])
    assert (gpu.gpu_count, gpu.example_node.gpu_count) == (1, 1)


@row("bucket.bucket_id")
def test_slurm_asks_for_nodes_of_a_bucket_by_its_id():
    """The id is a text, and a constraint on it leads to that bucket."""
    cluster = an_htc_cluster()
    cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    node_mgr = a_manager(cluster)
    second = node_mgr.get_buckets()[1]
    result = node_mgr.allocate({"node.bucket_id": second.bucket_id}, node_count=2)
    assert isinstance(second.bucket_id, str)
    assert [n.vm_size for n in result.nodes] == ["Standard_F8s"] * 2


@row("bucket.resources")
def test_resources_are_live_and_include_later_defaults():
    """`in` and `.get` see what is defined afterwards; what is written to them counts for new
    nodes."""
    node_mgr = a_manager()
    resources = node_mgr.get_buckets()[0].resources
    assert ("ncpus" in resources, "slots" in resources) == (True, False)
    node_mgr.add_default_resource({}, "slots", "node.vcpu_count")
    resources["licence"] = 1
    node = node_mgr.allocate({"slots": 1, "licence": 1}, slot_count=1).nodes[0]
    assert (resources.get("slots"), node.resources["slots"]) == (4, 4)
    assert node.available["licence"] == 0


@row("bucket.software_configuration")
def test_software_configuration_is_that_of_the_nodearray(own):
    """A mapping with nested dicts, for nodes and for buckets."""
    cluster = an_htc_cluster(software_configuration={"slurm": {"hpc": True}})
    bucket = a_manager(cluster).get_buckets()[0]
    assert own.software_configuration["slurm"]["partition"] == "hpc"
    assert bucket.software_configuration.get("slurm", {}).get("hpc") is True
    assert bucket.software_configuration.get("none", {}) == {}


@row("bucket.example_node")
def test_the_example_node_is_as_a_new_one_would_be(bucket):
    """Named `<nodearray>-0`; it does not exist, and has the bucket's resources."""
    example = bucket.example_node
    assert (example.name, example.exists, example.hostname) == ("htc-0", False, None)
    assert dict(example.resources) == dict(bucket.resources)
    assert bucket.example_node is example


@row("bucket.limits")
def test_limits_are_numbers_by_name(bucket):
    """Whoever walks `dir(limits)` for public whole numbers with `count` in their names finds these;
    str() works."""
    public = [name for name in dir(bucket.limits) if "count" in name and name[0] != "_"]
    found = {name: getattr(bucket.limits, name) for name in public}
    values = {name: value for name, value in found.items() if isinstance(value, int)}
    expected = {
        *("active_core_count", "active_count", "available_core_count", "available_count"),
        *("max_core_count", "max_count", "regional_consumed_core_count"),
        *("regional_quota_core_count", "regional_quota_count", "regional_available_count"),
        *(
            f"{shared}_{number}"
            for shared in ("cluster", "nodearray", "family")
            for number in ("consumed_core_count", "max_core_count", "max_count", "available_count")
        ),
        *("placement_group_max_count", "placement_group_available_count"),
    }
    assert isinstance(bucket.limits, BucketLimits)
    assert expected <= values.keys()
    assert (values["max_count"], values["placement_group_available_count"]) == (10, -1)
    assert "Cluster" in str(bucket.limits)


def _two_sizes(**quotas):
    cluster = MockClusterBinding()
    cluster.add_nodearray("htc", {}, max_core_count=64)
    cluster.add_bucket("htc", "Standard_F4s", 10, 10, **quotas)
    cluster.add_bucket("htc", "Standard_F8s", 10, 10, **quotas)
    return a_manager(cluster)


@row("bucket.available_count")
@row("bucket.family_available_count")
def test_available_is_the_least_of_all_limits():
    """What one bucket takes of a shared quota is gone for the other, at once."""
    node_mgr = _two_sizes(family_quota_core_count=40, family_consumed_core_count=0)
    small, large = node_mgr.get_buckets()
    before = [(b.available_count, b.family_available_count) for b in (small, large)]
    node_mgr.allocate({"node.vm_size": "Standard_F4s"}, node_count=6)
    after = [(b.available_count, b.family_available_count) for b in (small, large)]
    assert before == [(10, 10), (5, 5)]
    assert after == [(4, 4), (2, 2)]


@row("bucket.max_count")
@row("limits.counts")
def test_limits_in_nodes():
    """The bucket's own maximum, and those of nodearray and family in nodes of its size."""
    node_mgr = _two_sizes(family_quota_core_count=80, family_consumed_core_count=8)
    small, large = node_mgr.get_buckets()
    numbers = [
        (
            b.max_count,
            b.limits.max_count,
            b.limits.nodearray_available_count,
            b.limits.family_max_count,
            b.limits.family_available_count,
        )
        for b in (small, large)
    ]
    assert numbers == [(10, 10, 16, 20, 18), (10, 10, 8, 10, 9)]
    assert all(isinstance(n, int) for each in numbers for n in each)


@row("bucket.nodes")
def test_nodes_are_a_list():
    """Existing ones by number, then those planned."""
    cluster = an_htc_cluster()
    for name in ("htc-10", "htc-2"):
        cluster.add_node(name, "htc", state="Ready")
    node_mgr = a_manager(cluster)
    bucket = node_mgr.get_buckets()[0]
    assert isinstance(bucket.nodes, list)
    assert names(bucket.nodes) == ["htc-2", "htc-10"]
    node_mgr.allocate({"node.exists": False}, node_count=1)
    assert names(bucket.nodes) == ["htc-2", "htc-10", "htc-1"]


@row("bucket.last_capacity_failure")
@pytest.mark.parametrize(("said", "read"), [(-1.0, None), (None, None), (12.5, 12.5), (0, 0)])
def test_the_last_capacity_failure_is_none_or_seconds(said, read):
    """Symphony compares `int(x)` with a timeout; no failure at all is None, however the server says
    it."""
    cluster = an_htc_cluster()
    cluster.nodearrays["htc"].buckets[0].last_capacity_failure = said
    (bucket,) = a_manager(cluster).get_buckets()
    assert bucket.last_capacity_failure == read
    assert read is None or int(bucket.last_capacity_failure) < 300


@row("bucket.spot_placement_score")
def test_the_spot_placement_score_is_a_word_or_none(own):
    """Read by getattr with a default; older servers do not say."""
    cluster = an_htc_cluster()
    assert getattr(a_manager(cluster).get_buckets()[0], "spot_placement_score", None) is None
    cluster.nodearrays["htc"].buckets[0].spot_placement_score = "High"
    assert getattr(a_manager(cluster).get_buckets()[0], "spot_placement_score", None) == "High"
    assert getattr(own, "spot_placement_score", None) is None


@row("bucket.counter")
def test_reserved_places_show_at_once(bucket):
    """commit makes them used, rollback forgets them; more than there are cannot be reserved."""
    limits = bucket.limits
    bucket.decrement(3)
    bucket.increment(1)
    assert (bucket.available_count, limits.available_count) == (8, 10)
    bucket.rollback()
    assert (bucket.available_count, limits.available_count) == (10, 10)
    bucket.decrement(4)
    bucket.commit()
    assert (bucket.available_count, limits.available_count, limits.active_count) == (6, 6, 4)
    with pytest.raises(AssertionError):
        bucket.decrement(7)
    bucket.decrement()
    assert bucket.available_count == 5


@row("limits._SharedLimit")
def test_a_shared_limit_counts_in_cores_and_answers_in_nodes():
    """Upstream's tests use the private class and these members."""
    limit = _SharedLimit("Region(westus2)", 40, 100)
    counts = limit._max_count(8), limit._active_count(8), limit._available_count(8)
    assert (limit._max_core_count, limit._consumed_core_count) == (100, 40)
    assert counts == (12, 5, 7)
    limit._decrement(2, 8)
    assert (limit._consumed_core_count, limit._available_count(8)) == (56, 5)
    limit._decrement(-2, 8)
    assert limit._consumed_core_count == 40
    with pytest.raises(RuntimeError, match="OutOfCapacity"):
        limit._decrement(8, 8)
    assert limit._consumed_core_count == 40


@row("limits._SharedLimit")
def test_a_shared_limit_may_count_nodes_too():
    """The tighter of both counts; more in use than allowed is all in use."""
    limit = _SharedLimit("NodeArray(htc)", 8, 1000, consumed_count=2, max_count=5)
    overdrawn = _SharedLimit("Cluster", 200, 100)
    assert (limit._max_count(4), limit._available_count(4)) == (5, 3)
    limit._decrement(3, 4)
    assert limit._available_count(4) == 0
    with pytest.raises(RuntimeError):
        limit._decrement(1, 4)
    assert (overdrawn._consumed_core_count, overdrawn._available_count(4)) == (100, 0)


@row("vm_sizes.table")
def test_the_table_of_sizes_is_loaded_by_its_misspelt_loader():
    """Upstream's tests load it so and read the sizes of a location."""
    vm_sizes._inititialize_impl()
    sizes = vm_sizes.VM_SIZES["southcentralus"].keys()
    assert "Standard_F4" in sizes
    assert vm_sizes.VM_SIZES["southcentralus"]["Standard_F4"]["family"] == "standardFFamily"


@row("vm_sizes.table")
def test_sizes_are_known_or_unknown_but_never_an_error():
    """What is not in the table has the family `unknown` and counts of -1."""
    known = vm_sizes.get_aux_vm_size_info("westus2", "Standard_E4_v3")
    unknown = vm_sizes.get_aux_vm_size_info("westus2", "Standard_None")
    assert (known.vcpu_count, known.pcpu_count, known.memory) == (4, 2, Memory(32, "g"))
    assert (unknown.vm_family, unknown.vcpu_count, unknown.pcpu_count) == ("unknown", -1, -1)
    assert (unknown.gpu_count, unknown.memory, unknown.infiniband) == (0, Memory(-1, "g"), False)
    assert vm_sizes.get_aux_vm_size_info("nowhere", "Standard_F4").vm_family == "unknown"


@row("vm_sizes.table")
def test_a_record_can_be_read_by_itself():
    """`AuxVMSizeInfo(record)` of a record of the full form."""
    record = {
        "name": "Standard_X8",
        "family": "X",
        "capabilities": {
            "MemoryGB": "56",
            "vCPUs": "8",
            "vCPUsPerCore": "2",
            "RdmaEnabled": "True",
        },
    }
    info = vm_sizes.AuxVMSizeInfo(record)
    assert (info.vcpu_count, info.pcpu_count, info.cores_per_socket) == (8, 4, 2)
    assert (info.vm_family, info.memory, info.infiniband) == ("X", Memory(56, "g"), True)
    assert info.get("MemoryGB") == "56"
