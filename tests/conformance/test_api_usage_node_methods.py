"""Section 6, second half: what can be done with a node, and configuration that belongs to it."""

import io
import json
from types import SimpleNamespace

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster
from builders.published import row
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.models import NodeCreationResult, NodeCreationResultSet
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import (
    SharedConsumableConstraint,
    SharedConsumableResource,
    get_constraint,
    get_constraints,
)
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node, UnmanagedNode, minimum_space
from hpc.autoscale.results import MatchResult
from hpc.autoscale.util import json_dump

SLURM = {"slurm": {"partition": "htc", "autoscale": True}, "autoscale": {"is_hpc": False}}


def _through_json(d):
    """A dict as it comes out of a hook script at the other end of a pipe."""
    stream = io.StringIO()
    json_dump(d, stream)
    return json.loads(stream.getvalue())


@row("node.software_configuration")
def test_software_configuration_of_a_node_that_exists():
    """Read-only at the top, `.get` as in any mapping, and nested dicts are shared with the
    cluster's own node."""
    cluster = an_htc_cluster(software_configuration=SLURM)
    made = cluster.add_node("htc-1", "htc", state="Ready")
    made.software_configuration["slurm"]["partition"] = "changed"
    (node,) = a_manager(cluster).get_nodes()
    assert node.software_configuration.get("slurm", {})["partition"] == "changed"
    assert node.software_configuration.get("none", {}) == {}
    with pytest.raises(TypeError):
        node.software_configuration["slurm"] = {}
    node.software_configuration["slurm"]["partition"] = "again"
    assert made.software_configuration["slurm"]["partition"] == "again"
    assert node.software_configuration["slurm"]["partition"] == "again"


@row("node.software_configuration")
def test_software_configuration_of_a_planned_node():
    """That of the nodearray."""
    node_mgr = a_manager(an_htc_cluster(software_configuration=SLURM))
    (node,) = node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes
    assert node.software_configuration.get("slurm") == SLURM["slurm"]


@row("node.node_attribute_overrides")
def test_overrides_may_be_written_until_the_node_exists():
    """`Configuration` in them lies over the software configuration, whole key by whole key."""
    node = a_planned_node(software_configuration={"a": {"x": 1}, "b": 2})
    node.node_attribute_overrides["Configuration"] = {"a": {"y": 1}}
    node.node_attribute_overrides["Extra"] = True
    assert dict(node.software_configuration) == {"a": {"y": 1}, "b": 2}
    node.exists = True
    with pytest.raises(TypeError):
        node.node_attribute_overrides["Extra"] = False
    assert node.node_attribute_overrides["Extra"] is True


class Recorder:
    """A clusters module that notes the creation request and grants it."""

    def create_nodes(self, session, cluster_name, request):
        self.request = request.to_dict()
        sets = [NodeCreationResultSet(added=s["count"]) for s in self.request["sets"]]
        return SimpleNamespace(status_code=202), NodeCreationResult(operation_id="op", sets=sets)


@row("node.name_format")
def test_the_name_format_is_asked_of_the_server():
    """None at first; what Slurm sets after allocating arrives as `nameFormat`, and splits the
    request."""
    nodes = a_manager().allocate({"ncpus": 4}, slot_count=3).nodes
    assert [n.name_format for n in nodes] == [None] * 3
    for node in nodes[1:]:
        node.name_format = "slurm-%d"
    clusters = Recorder()
    ClusterBinding({"cluster_name": "clusty"}, object(), object(), clusters).create_nodes(nodes)
    formats = [(s.get("nameFormat"), s["count"]) for s in clusters.request["sets"]]
    assert formats == [(None, 1), ("slurm-%d", 2)]


@row("node.assign")
def test_assign_adds_a_job():
    """Twice the same job is once."""
    node = a_planned_node()
    for job in ("1", "2", "1"):
        node.assign(job)
    assert node.assignments == {"1", "2"}
    assert node.required


@row("node.decrement")
def test_decrement_checks_subtracts_and_assigns():
    """PBS calls it with constraints only."""
    node = a_planned_node(resources={"ncpus": 4})
    result = node.decrement(get_constraints([{"ncpus": 1}]))
    assert isinstance(result, MatchResult)
    assert (bool(result), result.total_slots, node.available["ncpus"]) == (True, 1, 3)
    result = node.decrement(get_constraints([{"ncpus": 1}]), iterations=9, assignment_id="job-1")
    assert (result.total_slots, node.available["ncpus"]) == (3, 0)
    assert "job-1" in node.assignments and len(node.assignments) == 2


@row("node.decrement")
@pytest.mark.parametrize(
    ("closed", "asked", "status"),
    [(False, {"ncpus": 9}, "NodeRejected"), (True, {"ncpus": 1}, "NodeClosed")],
)
def test_a_refused_decrement_says_why_and_changes_nothing(closed, asked, status):
    """Also when one of several constraints fails, and with shared resources among them."""
    node = a_planned_node(resources={"ncpus": 4})
    if closed:
        node.closed = True
    licences = SharedConsumableResource("lic", "server", 5, 5)
    shared = SharedConsumableConstraint([licences], 1)
    result = node.decrement([shared, *get_constraints([asked])], iterations=2)
    assert (result.status, bool(result), result.total_slots) == (status, False, 2)
    assert result.reasons
    assert (node.available, node.assignments, licences.current_value) == ({"ncpus": 4}, set(), 5)


@row("node.clone")
def test_a_clone_is_independent_and_unassigned():
    """Amounts and metadata are copied, assignments are not; what is done to the copy stays
    there."""
    node = a_planned_node(resources={"ncpus": 4, "list": [1]}, hostname="ip-1.x", gpu_count=2)
    node.available["ncpus"] = 3
    node.metadata["a"] = {"b": 1}
    node.assign("1")
    copy = node.clone()
    copy.decrement(get_constraints([{"ncpus": 3}]))
    copy._resources["ncpus"] = 100
    copy.metadata["a"]["b"] = 2
    copy.available["list"].append(2)
    assert (copy.name, copy.vm_size, copy.gpu_count) == (node.name, node.vm_size, 2)
    assert (node.available, node.resources["ncpus"]) == ({"ncpus": 3, "list": [1]}, 4)
    assert node.metadata == {"a": {"b": 1}}
    assert (node.assignments, "1" in copy.assignments) == ({"1"}, False)
    assert copy.delayed_node_id.transient_id != node.delayed_node_id.transient_id


KEYS = {
    *("name", "hostname", "private-ip", "instance-id", "nodearray", "placement_group", "node-id"),
    *("operation-id", "vm-size", "location", "job-ids", "resources", "software-configuration"),
    *("available", "bucket-id", "metadata", "spot", "state", "exists", "managed"),
}


@row("node.json")
def test_a_node_survives_the_pipe_to_a_hook_script():
    """to_dict, JSON, from_dict and back give the same dict; its keys are dashed."""
    resources = {
        "ncpus": 4,
        "mem": Memory(8, "g"),
        "disk": Size(20, "g"),
        "q": ["a", "b"],
        "x": None,
    }
    node = a_planned_node(resources=resources, exists=True, state="Ready", placement_group="pg0")
    node.available["ncpus"] = 1
    node.assign("12")
    node.metadata["k"] = "v"
    sent = _through_json(node.to_dict())
    back = Node.from_dict(sent)
    assert set(sent) == KEYS
    assert (sent["vm-size"], sent["job-ids"], sent["resources"]["mem"]) == (
        "Standard_F4",
        ["12"],
        "memory::8.00g",
    )
    assert _through_json(back.to_dict()) == sent
    assert isinstance(back.resources["mem"], Memory) and type(back.resources["disk"]) is Size
    assert back.assignments == {"12"}
    assert sent["resources"]["mem"] == "memory::8.00g"


@row("node.json")
def test_a_scheduler_node_survives_the_pipe_too():
    """As a SchedulerNode, with its figures."""
    node = SchedulerNode("ip-1", {"slots": 4})
    node.available["slots"] = 2
    sent = _through_json(node.to_dict())
    back = SchedulerNode.from_dict(sent)
    assert {"memory", "vcpu-count", "pcpu-count", "gpu-count"} <= set(sent) - KEYS
    assert isinstance(back, SchedulerNode)
    assert _through_json(back.to_dict()) == sent
    assert (back.hostname, back.available["slots"], back.resources["slots"]) == ("ip-1", 2, 4)


@row("node.shellify")
def test_a_shellified_node_reads_by_attribute():
    """In the shell `node.resources.ncpus` is what `node.resources["ncpus"]` is."""
    node = a_planned_node(resources={"ncpus": 4, "k-v": 1})
    node.metadata["pbs_state"] = "free"
    node.shellify()
    assert node.resources.ncpus == node.resources["ncpus"] == 4
    assert node.resources.k_v == 1
    assert node.available.ncpus == 4
    assert node.metadata.pbs_state == "free"
    assert node.decrement(get_constraints([{"ncpus": 1}]))
    assert node.available["ncpus"] == 3


@row("node.update")
def test_what_the_scheduler_says_of_a_node_is_merged_in():
    """Its amounts win, other keys stay, jobs and metadata are added."""
    node = a_planned_node(resources={"ncpus": 4, "only": "here"}, exists=True)
    said = SchedulerNode("ip-1", {"ncpus": 8, "queue": "q"})
    said.available["ncpus"] = 2
    said.assign("9")
    said.metadata["m"] = [1]
    node.update(said)
    assert dict(node.resources) == {"ncpus": 8, "only": "here", "queue": "q"}
    assert node.available == {"ncpus": 2, "only": "here", "queue": "q"}
    assert (node.assignments, node.required, node.metadata) == ({"9"}, True, {"m": [1]})
    said.metadata["m"].append(2)
    assert node.metadata == {"m": [1]}


@row("node.set_placement_group_escaped")
def test_illegal_characters_become_underscores():
    """What was set is returned."""
    node = a_planned_node()
    assert node.set_placement_group_escaped("a.b c/d-e_f") == "a_b_c_d-e_f"
    assert node.placement_group == "a_b_c_d-e_f"
    node.set_placement_group_escaped(None)
    assert node.placement_group is None


@row("node.UnmanagedNode")
def test_machines_that_cyclecloud_does_not_know():
    """They exist, are nobody's to delete, and know their size only with a location."""
    node = UnmanagedNode("onprem-1.x", {"ncpus": 16})
    sized = UnmanagedNode(
        hostname="a",
        resources={},
        vm_size="Standard_F4",
        location="westus2",
        placement_group="pg0",
    )
    told = UnmanagedNode("b", {}, vcpu_count=3, memory=Memory(5, "g"))
    assert (node.exists, node.managed, node.keep_alive, node.required) == (True, False, True, True)
    assert (node.hostname, node.resources["ncpus"], node.state) == ("onprem-1", 16, "running")
    assert (sized.vcpu_count, sized.memory, sized.placement_group) == (4, Memory(8, "g"), "pg0")
    assert (told.vcpu_count, told.memory) == (3, Memory(5, "g"))
    with pytest.raises(AssertionError):
        UnmanagedNode("c", {}, vm_size="Standard_F4")


@row("node.minimum_space")
@pytest.mark.parametrize(
    ("asked", "space"),
    [
        ([], 1),
        ([{"owner": "alice"}], -1),
        ([{"ncpus": 2}], 2),
        ([{"ncpus": 1}, {"gb": 3}], 2),
        ([{"ncpus": 1}, {"owner": "alice"}], 4),
        ([{"none": 1}], 0),
    ],
    ids=str,
)
def test_minimum_space_is_the_least_that_fits(asked, space):
    """-1 where no constraint cares, 1 where there is none."""
    node = a_planned_node(resources={"ncpus": 4, "gb": 8, "owner": "alice"})
    assert minimum_space(get_constraints(asked), node) == space
    assert minimum_space(constraints=get_constraints(asked), node=node) == space


@row("node.QUERYABLE_PROPERTIES")
def test_exactly_the_queryable_properties_can_be_asked_for():
    """Upstream's test walks `dir(Node)`: every other name is refused as `node.<name>`."""
    refused = []
    for name in dir(Node):
        if name in QUERYABLE_PROPERTIES:
            assert get_constraint({f"node.{name}": "x"}).to_dict() == {f"node.{name}": ["x"]}
        else:
            with pytest.raises(ValueError, match=name):
                get_constraint({f"node.{name}": "x"})
            refused.append(name)
    assert isinstance(QUERYABLE_PROPERTIES, list)
    assert {"resources", "idle_time_remaining", "target_state", "closed"} <= set(refused)
    node = a_planned_node()
    assert all(hasattr(node, name) for name in QUERYABLE_PROPERTIES)


@row("node.QUERYABLE_PROPERTIES")
def test_the_property_object_reads_a_node():
    """`Node.vcpu_count` is a property, which upstream's tests hand about."""
    assert isinstance(Node.vcpu_count, property)
    assert Node.vcpu_count.fget(a_planned_node(vcpu_count=3)) == 3
