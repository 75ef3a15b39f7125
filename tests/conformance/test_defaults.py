"""What the attributes of published classes are on an object of which only the needful was said, as
the interface tells.

An attribute is given by its path: `delayed_node_id.node_id`, `get_demand().new_nodes`. What the
reader may write into is held to be the object's own as well.
"""

import datetime
import inspect
import logging

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster
from hpc.autoscale import codeanalysis, hpclogging, results, util
from hpc.autoscale.ccbindings import models
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.mock import MockClusterBinding, MockNodeManagementResult
from hpc.autoscale.ccbindings.reproduce import ReproduceFromResponse
from hpc.autoscale.cli import GenericDriver, ScaleLibCLI
from hpc.autoscale.clock import MockClock
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.demandprinter import DemandPrinter, ExcludeDemandPrinterFilter
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition, node_from_bucket
from hpc.autoscale.node.constraints import (
    BaseNodeConstraint,
    CapacityFailureBackoffConstraint,
    ExclusiveNode,
    InAPlacementGroup,
    MinResourcePerNode,
    NodePropertyConstraint,
    NodeResourceConstraint,
    Not,
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedNonConsumableResource,
)
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.limits import BucketLimits, _SharedLimit, _SpotLimit, null_bucket_limits
from hpc.autoscale.node.node import Node, UnmanagedNode
from hpc.autoscale.node.nodehistory import NullNodeHistory, SQLiteNodeHistory
from hpc.autoscale.node.vm_sizes import get_aux_vm_size_info

EPOCH = datetime.datetime.fromtimestamp(0)

TIMES = {
    "create_time_unix": 0.0,
    "last_match_time_unix": 0.0,
    "delete_time_unix": 0.0,
    "create_time": EPOCH,
    "last_match_time": EPOCH,
    "delete_time": EPOCH,
    "create_time_remaining": 0.0,
    "idle_time_remaining": 0.0,
}
ANY_NODE = {
    **TIMES,
    "version": "7.9",
    "marked_for_deletion": False,
    "name_format": None,
    "name_offset": None,
    "metadata": {},
    "assignments": set(),
    "closed": False,
    "_allocated": False,
    "node_attribute_overrides": {},
    "colocated": False,
    "placement_group": None,
    "infiniband": False,
    "private_ip": None,
    "instance_id": None,
    "spot": False,
    "delayed_node_id.node_id": None,
    "delayed_node_id.operation_id": None,
    "delayed_node_id.operation_offset": None,
}
REPORTED = {
    **ANY_NODE,
    "name": "ip-1",
    "hostname": "ip-1",
    "fqdn": "ip-1",
    "hostname_or_uuid": "ip-1",
    "hostname_required": "ip-1",
    "nodearray": "unknown",
    "vm_size": "unknown",
    "vm_family": "unknown",
    "location": "unknown",
    "vcpu_count": 1,
    "pcpu_count": 1,
    "gpu_count": 0,
    "cores_per_socket": -1,
    "vm_capabilities": {},
    "memory": Memory(0, "b"),
    "exists": True,
    "managed": False,
    "keep_alive": False,
    "required": False,
    "state": "running",
    "target_state": "running",
    "resources": {},
    "available": {},
    "software_configuration": {},
    "_node_index": 1,
}
NEW = {
    **ANY_NODE,
    "managed": True,
    "keep_alive": False,
    "required": False,
    "state": "Off",
    "target_state": "Off",
    "exists": False,
}
# the catalogue's, which are the same for all nodes of a size
FACTS = ("capabilities", "vm_capabilities")
NO_GROUP = {"placement_group_max_count": -1, "placement_group_available_count": -1}


def _definition():
    return NodeDefinition(
        *("htc", "b1", "Standard_F4", "westus2", False, "subnet", 4, 0, Memory(8, "g"), None),
        *({}, {}),
    )


def _bucket(**more):
    return NodeBucket(_definition(), null_bucket_limits(0, 4), 100, [], **more)


def _limits():
    region = _SharedLimit("Region(westus2)", 0, 40)
    cluster, array = _SharedLimit("Cluster(c)", 0, 400), _SharedLimit("NodeArray(htc)", 0, 80)
    return BucketLimits(4, region, cluster, array, _SpotLimit(region), None, 0, 0, 40, 10, 40, 10)


class _Simple(BaseNodeConstraint):
    """The least that a constraint of somebody else says."""

    def satisfied_by_node(self, node):
        return results.SatisfiedResult("success", self, node)

    def to_dict(self):
        return {}

    def __str__(self):
        return "simple"


def _driver():
    return GenericDriver("sched")


def _calculator():
    return DemandCalculator({}, a_manager(), singleton_lock=util.NullSingletonLock())


def _operation(kind):
    return lambda: kind("success", "op", None)


OPERATIONS = [
    kind
    for kind in vars(results).values()
    if inspect.isclass(kind) and issubclass(kind, results.NodeOperationResult)
]
MODELS = [
    kind
    for kind in vars(models).values()
    if inspect.isclass(kind) and issubclass(kind, models.Model) and kind is not models.Model
]

TABLE = [
    # core
    ("MockClock", MockClock, {"now": 1000.0}),
    (
        "AllocationResult",
        lambda: results.AllocationResult("Failed"),
        {"nodes": [], "total_slots": -1, "reasons": []},
    ),
    (
        "MatchResult",
        lambda: results.MatchResult("NodeRejected", None, 3),
        {"node": None, "total_slots": 3, "reasons": []},
    ),
    (
        "CandidatesResult",
        lambda: results.CandidatesResult("NoBucketsDefined"),
        {"candidates": [], "child_results": [], "reasons": []},
    ),
    (
        "SatisfiedResult",
        lambda: results.SatisfiedResult("Failed", None, None),
        {"score": 1, "reasons": [], "constraint": None, "node": None},
    ),
    (
        "EarlyBailoutResult",
        lambda: results.EarlyBailoutResult("Failed"),
        {"node": None, "reasons": []},
    ),
    *(
        (
            kind.__name__,
            _operation(kind),
            {"nodes": None, "reasons": [], "request_ids": None, "operation_id": "op"},
        )
        for kind in OPERATIONS
    ),
    (
        "DefaultContextHandler",
        lambda: results.DefaultContextHandler("ctx"),
        {"ctx": "ctx", "by_context": {}},
    ),
    (
        "HPCLogger",
        lambda: hpclogging.HPCLogger("x"),
        {"name": "x", "level": logging.DEBUG, "non_rotated_files": []},
    ),
    # nodes
    (
        "DelayedNodeId",
        lambda: DelayedNodeId("n"),
        {"name": "n", "node_id": None, "operation_id": None, "operation_offset": None},
    ),
    (
        "Node",
        a_planned_node,
        {**NEW, "hostname": None, "fqdn": None, "gpu_count": 0, "_node_index": 1},
    ),
    (
        "UnmanagedNode",
        lambda: UnmanagedNode("ip-1"),
        {
            **REPORTED,
            "bucket_id": "unknown",
            "keep_alive": True,
            "required": True,
            "vcpu_count": -1,
            "pcpu_count": -1,
            "memory": Memory(-1, "g"),
        },
    ),
    ("SchedulerNode", lambda: SchedulerNode("ip-1"), REPORTED),
    ("TempNode", lambda: TempNode("ip-1"), REPORTED),
    (
        "Node.from_dict",
        lambda: Node.from_dict(
            {
                "hostname": "ip-1",
                "name": "htc-1",
                "node-id": "id",
                "nodearray": "htc",
                "vm-size": "Standard_F4",
                "location": "westus2",
                "bucket-id": "b1",
                "private-ip": None,
                "instance-id": None,
            }
        ),
        {
            **ANY_NODE,
            "delayed_node_id.node_id": "id",
            "resources": {},
            "available": {},
            "memory": Memory(8, "g"),
            "vcpu_count": 4,
            "gpu_count": 0,
            "state": "unknown",
            "target_state": "unknown",
            "exists": True,
            "managed": False,
            "keep_alive": False,
            "required": False,
            "software_configuration": {},
        },
    ),
    (
        "NodeDefinition",
        _definition,
        {"placement_group": None, "resources": {}, "software_configuration": {}},
    ),
    (
        "NodeBucket",
        _bucket,
        {
            "_artificial": False,
            "priority": 0,
            "last_capacity_failure": None,
            "valid": True,
            "spot_placement_score": None,
            "nodes": [],
            "placement_group": None,
            "supports_colocation": True,
            "resources": {},
        },
    ),
    (
        "NodeBucket, of which nothing is known about failures",
        lambda: _bucket(last_capacity_failure=None),
        {"last_capacity_failure": None},
    ),
    (
        "NodeBucket.example_node",
        lambda: _bucket().example_node,
        {**NEW, "name": "htc-0", "hostname": None, "_node_index": 0},
    ),
    (
        "node_from_bucket",
        lambda: node_from_bucket(_bucket(), "htc-1", "Off", "Off", "Off", exists=False),
        NEW,
    ),
    (
        "a new node of a manager",
        lambda: a_manager().allocate({"ncpus": 4}, node_count=1, assignment_id="1").nodes[0],
        {
            **NEW,
            "required": True,
            "_allocated": True,
            "assignments": {"1"},
            "idle_time_remaining": -1,
        },
    ),
    (
        "_SharedLimit",
        lambda: _SharedLimit("Region(x)", 0, 10),
        {"_max_core_count": 10, "_consumed_core_count": 0},
    ),
    ("BucketLimits", _limits, {**NO_GROUP, "available_count": 10, "max_count": 10}),
    (
        "null_bucket_limits",
        lambda: null_bucket_limits(2, 4),
        {**NO_GROUP, "available_count": 0, "available_core_count": 0, "active_count": 2},
    ),
    (
        "AuxVMSizeInfo",
        lambda: get_aux_vm_size_info("nowhere", "Standard_Unheard_Of"),
        {
            "memory": Memory(-1, "g"),
            "infiniband": False,
            "vm_family": "unknown",
            "vcpu_count": -1,
            "pcpu_count": -1,
            "gpu_count": 0,
            "cores_per_socket": -1,
            "capabilities": {},
        },
    ),
    ("NullNodeHistory", NullNodeHistory, {"nodes": []}),
    (
        "SQLiteNodeHistory",
        lambda: SQLiteNodeHistory(),
        {"path": "nodehistory.db", "read_only": False},
    ),
    # constraints
    (
        "NodeResourceConstraint",
        lambda: NodeResourceConstraint("a", "X"),
        {"weight": 100, "case_insensitive": False, "values": ["X"], "get_children()": []},
    ),
    (
        "NodePropertyConstraint",
        lambda: NodePropertyConstraint("vm_size", "x"),
        {"attr": "vm_size", "values": ["x"], "get_children()": []},
    ),
    (
        "MinResourcePerNode",
        lambda: MinResourcePerNode("ncpus", 1),
        {"value": 1, "get_children()": []},
    ),
    ("ExclusiveNode", ExclusiveNode, {"is_exclusive": True, "job_exclusive": True}),
    (
        "InAPlacementGroup",
        InAPlacementGroup,
        {"to_dict()": {"in-a-placement-group": True}, "get_children()": []},
    ),
    (
        "SharedConsumableConstraint",
        lambda: SharedConsumableConstraint([], 1),
        {"shared_resources": [], "amount": 1, "get_children()": []},
    ),
    (
        "SharedConsumableResource",
        lambda: SharedConsumableResource("l", "q", 2, 1),
        {"is_consumable": True, "initial_value": 2, "current_value": 1},
    ),
    (
        "SharedNonConsumableResource",
        lambda: SharedNonConsumableResource("l", "q", 1),
        {"is_consumable": False, "current_value": 1},
    ),
    (
        "CapacityFailureBackoffConstraint",
        lambda: CapacityFailureBackoffConstraint(300),
        {"get_children()": []},
    ),
    ("BaseNodeConstraint", _Simple, {"get_children()": []}),
    # jobs and demand
    (
        "Job",
        Job,
        {
            "iterations": 1,
            "iterations_remaining": 1,
            "node_count": 0,
            "colocated": False,
            "packing_strategy": "pack",
            "executing_hostnames": [],
            "metadata": {},
            "_constraints": [],
        },
    ),
    (
        "Job.to_dict",
        lambda: _Bag(Job("j").to_dict()),
        {
            "name": "j",
            "constraints": [],
            "iterations": 1,
            "iterations-remaining": 1,
            "node-count": 0,
            "colocated": False,
            "packing-strategy": "pack",
            "executing-hostnames": [],
            "metadata": {},
        },
    ),
    (
        "Job.from_dict",
        lambda: Job.from_dict({"name": "j", "constraints": []}),
        {
            "iterations": 1,
            "iterations_remaining": 1,
            "node_count": 1,
            "colocated": False,
            "packing_strategy": "scatter",
            "executing_hostnames": [],
            "metadata": {},
        },
    ),
    ("NodeQueue", NodeQueue, {"__len__()": 0, "empty()": True}),
    (
        "DemandResult",
        lambda: DemandResult([], [], [], []),
        {"buckets": [], "compute_nodes": [], "buckets_by_id": {}},
    ),
    (
        "DemandCalculator",
        _calculator,
        {
            "node_history.__class__": NullNodeHistory,
            "get_demand().new_nodes": [],
            "get_demand().failed_nodes": [],
            "get_compute_nodes()": [],
        },
    ),
    (
        "SchedulerDriver",
        _driver,
        {"name": "sched", "autoscale_home": "/opt/azurehpc/sched"},
    ),
    (
        "DemandPrinter",
        DemandPrinter,
        {"column_names": [], "output_format": "table", "long": False},
    ),
    ("ExcludeDemandPrinterFilter", ExcludeDemandPrinterFilter, {"name": ""}),
    # bindings
    (
        "ClusterBinding",
        lambda: ClusterBinding({"cluster_name": "c"}, None, None, clusters_module=models),
        {"read_only": False, "session": None, "client": None},
    ),
    *((kind.__name__, kind, dict.fromkeys(kind._fields)) for kind in MODELS),
    (
        "MockClusterBinding",
        MockClusterBinding,
        {
            "cluster_name": "clusty",
            "nodes": {},
            "nodearrays": {},
            "operations": {},
            "max_core_count": 10000,
            "max_count": 1000,
            "subnet_id": "subnetid1",
            "state": "Started",
            "target_state": "Started",
            "last_used_ip": [10, 1, 0, 1],
        },
    ),
    (
        "MockClusterBinding.add_nodearray",
        lambda: MockClusterBinding().add_nodearray("htc", {}),
        {
            "name": "htc",
            "max_core_count": 1_000_000,
            "max_count": 100_000,
            "buckets": [],
        },
    ),
    (
        "MockClusterBinding.add_nodearray, the record",
        lambda: _Bag(MockClusterBinding().add_nodearray("htc", {}).nodearray),
        {
            "Region": "westus2",
            "Interruptible": False,
            "SubnetId": "subnetid1",
            "Configuration": {"autoscale": {"resources": {}}},
            "Azure": {"MaxScalesetSize": 100},
        },
    ),
    (
        "MockClusterBinding.add_bucket",
        lambda: an_htc_cluster().nodearrays["htc"].buckets[0],
        {
            "valid": True,
            "active_count": 0,
            "active_core_count": 0,
            "family_consumed_core_count": 0,
            "family_quota_core_count": 1_000_000,
            "family_quota_count": 10_000,
            "regional_consumed_core_count": 0,
            "regional_quota_core_count": 1_000_000,
            "regional_quota_count": 10_000,
            "placement_groups": [],
            "spot_placement_score": None,
        },
    ),
    (
        "MockClusterBinding.add_node",
        lambda: an_htc_cluster().add_node("htc-1", "htc"),
        {
            "state": "Started",
            "target_state": "Started",
            "hostname": None,
            "private_ip": None,
            "spot": False,
            "placement_group": None,
            "keep_alive": False,
            "exists": True,
            "managed": True,
            "vm_size": "Standard_F4",
            "metadata": {},
            "assignments": set(),
            **TIMES,
        },
    ),
    (
        "MockNodeManagementResult",
        lambda: MockNodeManagementResult("op", []),
        {"operation_id": "op", "nodes": []},
    ),
    (
        "ReproduceFromResponse",
        lambda: ReproduceFromResponse(
            {"cluster_response": {"maxCount": 1, "maxCoreCount": 1, "nodearrays": []}}
        ),
        {
            "cluster_name": "mock-reproduce-cluster",
            "get_cluster_status().nodes": [],
            "get_nodes().nodes": [],
        },
    ),
    # the command line
    (
        "CommonCLI",
        lambda: ScaleLibCLI("sched"),
        {"project_name": "sched", "example_nodes": [], "node_names": [], "hostnames": []},
    ),
]


class _Bag(dict):
    """A dict whose keys are read as attributes, whatever they are called."""

    def __getattr__(self, name):
        return self[name]


def _read(thing, path):
    """What is found at a path of attributes and calls."""
    for step in path.split("."):
        thing = getattr(thing, step.removesuffix("()"))
        if step.endswith("()"):
            thing = thing()
    return thing


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """Files are made in a directory of their own, nothing is looked up, and no environment has a
    say."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)
    monkeypatch.delenv("AUTOSCALE_HOME", raising=False)


@pytest.mark.parametrize(("make", "expected"), [pytest.param(*t[1:], id=t[0]) for t in TABLE])
def test_what_nobody_said(make, expected):
    """Each attribute is what the interface says, as the kind of thing that it says."""
    thing = make()
    found = {path: _read(thing, path) for path in expected}
    assert found == expected
    kinds = {path: (type(found[path]), type(expected[path])) for path in expected}
    assert {path: kind for path, kind in kinds.items() if not _same_kind(*kind)} == {}


def _same_kind(found, expected):
    """Whether a caller can treat one as the other: no int for a bool, a float for a float, a list
    to append to."""
    if expected in (bool, type(None), list, float):
        return found is expected
    return True


@pytest.mark.parametrize(("make", "expected"), [pytest.param(*t[1:], id=t[0]) for t in TABLE])
def test_what_can_be_written_into_is_each_ones_own(make, expected):
    """No two objects share a list, a dict or a set."""
    one, other = make(), make()
    for path, value in expected.items():
        if isinstance(value, (list, dict, set)) and path not in FACTS:
            assert _read(one, path) is not _read(other, path), path


@pytest.mark.parametrize(
    "make",
    [Job, a_planned_node, lambda: SchedulerNode("ip-1"), lambda: UnmanagedNode("ip-1")],
    ids=["Job", "Node", "SchedulerNode", "UnmanagedNode"],
)
def test_what_is_written_into_stays(make):
    """Callers append to what they read, and read it again."""
    thing = make()
    thing.metadata["seen"] = True
    assert thing.metadata == {"seen": True}
    if isinstance(thing, Job):
        thing.executing_hostnames.append("ip-1")
        assert thing.executing_hostnames == ["ip-1"]
    else:
        thing.assignments.add("1")
        thing.available["a"] = 1
        assert (thing.assignments, thing.available.get("a"), thing.required) == ({"1"}, 1, True)


def test_settings_of_the_process():
    """As integrations read them."""
    assert util.LEGACY is True
    assert util.AZURE_HPC_DEV is False
    assert codeanalysis.RUNTIME_TYPE_CHECKING is False
    assert codeanalysis.TRACE_FUNCTIONS == ["all"]
    assert (hpclogging.FINE, hpclogging.TRACE, hpclogging.REPRO) == (5, 2, 1)


def test_timeouts_of_a_configuration_without_any():
    """Five minutes idle, half an hour to boot."""
    assert (util.parse_idle_timeout({}), util.parse_boot_timeout({})) == (300, 1800)


@pytest.mark.parametrize(
    "constraint",
    [
        _Simple(),
        Not({"ncpus": 1}),
        NodeResourceConstraint("owner", "x"),
        NodePropertyConstraint("vm_size", "Standard_F4"),
        ExclusiveNode(),
        CapacityFailureBackoffConstraint(300),
    ],
    ids=lambda constraint: type(constraint).__name__,
)
def test_a_constraint_without_an_opinion(constraint):
    """It has room for anything, and taking nothing is done."""
    node = a_planned_node(resources={"owner": "x"})
    assert constraint.minimum_space(node) == -1
    assert constraint.do_decrement(node) is True
    assert node.available == {"owner": "x"}


def test_names_of_their_own():
    """Jobs get numbers, exclusive constraints and node ids something unique."""
    assert int(Job().name) + 1 == int(Job().name)
    assert ExclusiveNode().assignment_id != ExclusiveNode().assignment_id
    assert DelayedNodeId("n").transient_id != DelayedNodeId("n").transient_id
