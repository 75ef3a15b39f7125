"""The published `Node`: what it offers, placing work on it, its copies and what a scheduler says of
it."""

import logging as stdlib_logging

import pytest

from builders.constraints import Tokens
from builders.nodes import a_planned_node, a_running_node
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.constraints import get_constraints
from hpc.autoscale.node.node import minimum_space

# -- resources


def test_totals_are_a_live_view_and_what_is_left_a_live_dict():
    """Totals cannot be written but through the private dict; both are copies of what was given."""
    given = {"ncpus": 4, "tags": ["a"]}
    node = a_planned_node(resources=given)
    view = node.resources
    with pytest.raises(TypeError):
        view["ncpus"] = 1
    node._resources["gold"] = 1
    assert (view["gold"], "gold" in node.available) == (1, False)
    node.available["ncpus"] = 1
    node.available["tags"].append("b")
    assert (view["ncpus"], view["tags"], given) == (4, ["a"], {"ncpus": 4, "tags": ["a"]})


def test_nodes_of_one_dict_do_not_share_it():
    """Upstream's defect W8."""
    given = {"ncpus": 4}
    one, other = a_planned_node(resources=given), a_planned_node(resources=given)
    one._resources["host"] = "one"
    one.available["ncpus"] = 0
    assert (dict(other.resources), other.available, given) == ({"ncpus": 4}, {"ncpus": 4}, given)


def test_metadata_is_free():
    """A dict of the node's own."""
    node = a_planned_node()
    node.metadata["x"] = {"y": 1}
    assert (node.metadata, a_planned_node().metadata) == ({"x": {"y": 1}}, {})


# -- placing work on one node


def test_decrement():
    """As many iterations as fit are taken, and the job is noted."""
    node = a_planned_node()
    result = node.decrement(get_constraints([{"ncpus": 1}]), 3, "job")
    assert (result.status, result.total_slots, result.node) == ("success", 3, node)
    assert (node.available, dict(node.resources)) == ({"ncpus": 1}, {"ncpus": 4})
    assert (node.assignments, node.required) == ({"job"}, True)
    assert node.decrement(get_constraints([{"ncpus": 1}]), 5, "job").total_slots == 1
    refused = node.decrement(get_constraints([{"ncpus": 1}]), 5)
    assert (refused.status, refused.total_slots) == ("NodeRejected", 5)


def test_decrement_makes_up_an_id():
    """Without one, each call has its own."""
    node = a_planned_node()
    node.decrement(get_constraints([{"ncpus": 1}]))
    node.decrement(get_constraints([{"ncpus": 1}]))
    assert len(node.assignments) == 2


def test_a_closed_node_takes_nothing():
    """And says so."""
    node = a_planned_node()
    node.closed = True
    result = node.decrement(get_constraints([{"ncpus": 1}]), 2)
    assert (result.status, result.total_slots, bool(result.reasons)) == ("NodeClosed", 2, True)


def test_decrement_says_everything_that_is_wrong():
    """All constraints are asked, not only the first that refuses."""
    reasons = a_planned_node().decrement(get_constraints([{"ncpus": 9}, {"gold": 1}])).reasons
    assert len(reasons) == 2
    assert "ncpus" in reasons[0]
    assert "gold" in reasons[1]


def test_two_constraints_on_one_resource_add_up():
    """Three cores and two cores need five."""
    wanted = get_constraints([{"ncpus": 1}, {"ncpus": 1}])
    node = a_planned_node()
    assert node.decrement(wanted, 9, "job").total_slots == 2
    assert node.available["ncpus"] == 0
    assert not a_planned_node().decrement(get_constraints([{"ncpus": 3}, {"ncpus": 2}]))


def test_without_an_opinion_all_iterations_go_on_one_node():
    """And without any constraint, one."""
    here = get_constraints([{"node.nodearray": "htc"}])
    assert a_planned_node().decrement(here, 5).total_slots == 5
    assert a_planned_node().decrement([], 5).total_slots == 1


def test_sizes_go_down_in_their_unit():
    """What is left keeps the class and the unit."""
    node = a_planned_node(resources={"mem": Memory(8, "g")})
    node.decrement(get_constraints([{"mem": "memory::1.5g"}]), 2)
    left = node.available["mem"]
    assert (type(left), left.magnitude, left.value) == (Memory, "g", 5)


def test_a_refusal_on_the_way_leaves_no_trace():
    """Neither in amounts, assignments and metadata nor in the closed flag or the placement
    group."""

    def scribble(node):
        node.metadata["x"] = 1
        node.node_attribute_overrides["y"] = 2
        node.placement_group = "pg0"
        node.name_format = "f"

    class Fickle(Tokens):
        def do_decrement(self, node):
            return not super().do_decrement(node)

    node = a_planned_node(resources={"ncpus": 4, "tokens": 2})
    wanted = [*get_constraints([{"ncpus": 1}]), Fickle(scribble)]
    assert node.decrement(wanted, 2, "job").status == "NodeRejected"
    assert node.available == {"ncpus": 4, "tokens": 2}
    assert (node.assignments, node.required, node.closed) == (set(), False, False)
    assert (node.metadata, node.node_attribute_overrides) == ({}, {})
    assert (node.placement_group, node.name_format) == (None, None)


def test_a_constraint_that_raises_leaves_no_trace():
    """Its error reaches the caller."""

    def fail(node):
        raise ZeroDivisionError

    node = a_planned_node(resources={"ncpus": 4, "tokens": 1})
    with pytest.raises(ZeroDivisionError):
        node.decrement([*get_constraints([{"ncpus": 1}]), Tokens(fail)], 1, "job")
    assert (node.available, node.assignments) == ({"ncpus": 4, "tokens": 1}, set())


def test_minimum_space():
    """The least of the opinions; 1 without constraints, -1 without opinions."""
    node = a_planned_node()
    assert minimum_space([], node) == 1
    assert minimum_space(get_constraints([{"node.nodearray": "htc"}]), node) == -1
    assert minimum_space(get_constraints([{"ncpus": 1}, {"exclusive": True}]), node) == 4
    assert minimum_space(get_constraints([{"ncpus": 2}, {"ncpus": 1}]), node) == 2
    assert minimum_space(get_constraints([{"gold": 2}]), node) == 0


# -- copies and merging


def test_clone_is_independent():
    """Amounts, metadata, configuration and overrides are copied; assignments, closedness and times
    are not."""
    node = a_planned_node(
        resources={"ncpus": 4}, software_configuration={"a": {"b": 1}}, gpu_count=3, id="id"
    )
    node.available["ncpus"] = 1
    node.metadata["x"] = {"y": 1}
    node.node_attribute_overrides["z"] = {"w": 1}
    node.assign("job")
    node.required = True
    node.closed = True
    node.name_format = "f"
    node.create_time_unix = 7.0
    copied = node.clone()
    assert (copied.available, dict(copied.resources)) == ({"ncpus": 1}, {"ncpus": 4})
    assert (copied.metadata, copied.node_attribute_overrides) == (node.metadata, {"z": {"w": 1}})
    assert (copied.assignments, copied.closed, copied._allocated) == (set(), False, False)
    assert (copied.name_format, copied.create_time_unix) == (None, 0.0)
    assert copied.delayed_node_id.node_id == "id"
    assert copied.delayed_node_id.transient_id != node.delayed_node_id.transient_id
    for name in ("name", "nodearray", "bucket_id", "vm_size", "location", "spot", "vcpu_count"):
        assert getattr(copied, name) == getattr(node, name)
    for name in ("memory", "gpu_count", "state", "target_state", "exists", "managed", "keep_alive"):
        assert getattr(copied, name) == getattr(node, name)
    copied.available["ncpus"] = 0
    copied.metadata["x"]["y"] = 2
    copied.software_configuration["a"]["b"] = 2
    copied.node_attribute_overrides["z"]["w"] = 2
    assert node.available == {"ncpus": 1}
    assert (node.metadata, node.node_attribute_overrides) == ({"x": {"y": 1}}, {"z": {"w": 1}})
    assert node.software_configuration == {"a": {"b": 1}}


def test_the_clone_of_a_nameless_node_is_called_by_its_id():
    """So that it can be told which node it was made of."""
    node = a_planned_node()
    assert node.clone().hostname == node.hostname_or_uuid
    assert a_running_node(hostname="ip-1.x").clone().hostname == "ip-1"


def test_the_clone_of_an_existing_node_has_no_overrides():
    """They have become the node."""
    node = a_planned_node()
    node.node_attribute_overrides["z"] = 1
    node.exists = True
    assert node.clone().node_attribute_overrides == {}


def test_update_merges_the_schedulers_view():
    """Its amounts win key by key, assignments are added, metadata is copied."""
    node = a_running_node(resources={"ncpus": 4, "own": 1})
    node.assign("mine")
    seen = a_running_node(resources={"ncpus": 8, "new": 2})
    seen.available["ncpus"] = 3
    seen.assign("theirs")
    seen.metadata["x"] = {"y": 1}
    node.update(seen)
    assert dict(node.resources) == {"ncpus": 8, "own": 1, "new": 2}
    assert node.available == {"ncpus": 3, "own": 1, "new": 2}
    assert (node.assignments, node.required) == ({"mine", "theirs"}, True)
    seen.metadata["x"]["y"] = 2
    assert node.metadata == {"x": {"y": 1}}


def test_update_takes_another_unit_over():
    """Of an equal amount too: plain numbers are asked of a size in its own unit."""
    node = a_running_node(resources={"mem": Memory(4, "g")})
    node.update(a_running_node(resources={"mem": Memory(4096, "m")}))
    assert str(node.available["mem"]) == "4096.00m"
    assert node.decrement(get_constraints([{"mem": 1000}]))


def test_update_makes_required_and_never_unrequired():
    """A node stays required when the scheduler does not need it."""
    node, idle, kept = a_running_node(), a_running_node(), a_running_node(keep_alive=True)
    node.update(idle)
    assert not node.required
    node.update(kept)
    node.update(idle)
    assert node.required


@pytest.mark.parametrize(
    ("known", "assigned", "level"),
    [
        (True, False, stdlib_logging.WARNING),
        (True, True, logging.FINE),
        (False, False, logging.FINE),
    ],
)
def test_update_logs_what_changes(caplog, known, assigned, level):
    """A surprise is a warning; what a job explains, or what was not known before, is not."""
    node = a_running_node(resources={"ncpus": 4} if known else {})
    seen = a_running_node(resources={"ncpus": 2})
    if assigned:
        seen.assign("job")
    with caplog.at_level(logging.FINE):
        node.update(seen)
        node.update(seen)
    assert [r.levelno for r in caplog.records if "ncpus" in r.getMessage()] == [level]


def test_shellify():
    """Items become attributes, and the node works on."""
    node = a_running_node(resources={"ncpus": 4, "tokens": 3})
    node.metadata["k"] = 1
    node.shellify()
    assert (node.available.ncpus, node.metadata.k, node._resources.ncpus) == (4, 1, 4)
    assert node.decrement([Tokens(), *get_constraints([{"ncpus": 1}])], 2).total_slots == 2
    assert node.available == {"ncpus": 2, "tokens": 1}
