"""The order of nodes in a calculator's queue."""

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue, default_early_bailout, default_prioritizer
from hpc.autoscale.job.schedulernode import TempNode


def queue_of(*nodes, kind=NodeQueue):
    queue = kind()
    for node in nodes:
        queue.push(node)
    return queue


def names(queue):
    return [node.name for node in queue]


def test_free_cores_decide_then_names():
    """Most free cores first; equals by ascending name. Reversed is the same list from its end."""
    nodes = [
        TempNode("b", {"ncpus": 2}),
        TempNode("a", {"ncpus": 2}),
        TempNode("c", {"ncpus": 8}),
        TempNode("d"),
    ]
    queue = queue_of(*nodes)
    assert names(queue) == ["c", "a", "b", "d"]
    assert names(queue.reversed()) == names(reversed(queue)) == ["d", "b", "a", "c"]


def test_equals_without_a_host_name_come_last_as_pushed():
    """A host name that is made up decides nothing, so that the order is the same each time."""
    manager = a_manager(an_htc_cluster())
    planned = manager.allocate({"ncpus": 4}, slot_count=10).nodes
    nameless = a_planned_node(name="booting", hostname=None, resources={"ncpus": 0})
    nodes = [*planned, nameless, TempNode("b", {"ncpus": 0}), TempNode("a", {"ncpus": 0})]
    assert names(queue_of(*nodes)) == ["a", "b", *[f"htc-{i}" for i in range(1, 11)], "booting"]


def test_matched_nodes_come_in_the_order_they_were_planned():
    """Equal plans are equal lists."""
    orders = []
    for _ in range(2):
        manager = a_manager(an_htc_cluster())
        calculator = DemandCalculator({}, manager)
        calculator.add_job(Job("a", {"ncpus": 4}, iterations=10))
        orders.append([node.name for node in calculator.get_demand().matched_nodes])
    assert orders[0] == orders[1] == [f"htc-{i}" for i in range(1, 11)]


def test_a_node_is_in_the_queue_once():
    """Pushing it again does nothing; another node of the same name is another node."""
    node, twin = TempNode("a"), TempNode("a")
    queue = queue_of(node, node, twin)
    assert len(queue) == 2
    assert node in queue
    assert twin in queue
    assert TempNode("a") not in queue
    assert None not in queue


def test_emptiness():
    """A queue is empty until something is pushed."""
    queue = NodeQueue()
    assert queue.empty()
    assert (len(queue), names(queue)) == (0, [])
    queue.push(TempNode("a"))
    assert not queue.empty()


def test_priorities_change_only_on_update():
    """A node's place follows from its priority when it was pushed or the queue updated."""
    first, second = TempNode("a", {"ncpus": 4}), TempNode("b", {"ncpus": 2})
    queue = queue_of(first, second)
    first.available["ncpus"] = 1
    assert names(queue) == ["a", "b"]
    queue.push(TempNode("c"))
    assert names(queue) == ["a", "b", "c"]
    queue.update()
    assert names(queue) == ["b", "a", "c"]


def test_a_node_whose_priority_cannot_be_told_is_not_in_the_queue():
    """The others keep their places."""

    class Picky(NodeQueue):
        def node_priority(self, node):
            return {"a": 1, "b": 2}[node.name]

    queue = Picky()
    queue.push(TempNode("a"))
    for push in (queue.push, lambda node: queue._push_all([TempNode("b"), node])):
        with pytest.raises(KeyError):
            push(TempNode("c"))
    queue.push(TempNode("b"))
    assert names(queue) == ["b", "a"]


def test_priorities_that_have_no_order():
    """Each time that the nodes are asked for, one line says whose they are."""

    class OfSlots(NodeQueue):
        def node_priority(self, node):
            return node.available.get("slots")

    queue = queue_of(TempNode("a", {"slots": 1}), TempNode("b"), kind=OfSlots)
    for _ in range(2):
        with pytest.raises(AutoscaleError, match=r"OfSlots\.node_priority: expected numbers"):
            names(queue)


def test_subclasses_decide():
    """An integration's own priority is used, of any number, and is asked for once for each push and
    update."""
    asked = []

    class ByName(NodeQueue):
        def node_priority(self, node):
            asked.append(node.name)
            return -float(ord(node.name))

        def early_bailout(self, node):
            return super().early_bailout(node)

    queue = queue_of(TempNode("b"), TempNode("a"), kind=ByName)
    assert (names(queue), names(queue)) == (["a", "b"], ["a", "b"])
    assert asked == ["b", "a"]
    queue.update()
    assert len(asked) == 4
    assert queue.early_bailout(TempNode("a"))


def test_pushing_while_iterating():
    """Nodes pushed meanwhile come in the next iteration."""
    queue = queue_of(TempNode("a"), TempNode("b"))
    for node in queue:
        queue.push(TempNode(node.name + "x"))
    assert names(queue) == ["a", "ax", "b", "bx"]


@pytest.mark.parametrize(
    ("resources", "priority"),
    [({"ncpus": 3}, 3), ({"ncpus": 1.5}, 1.5), ({}, 0), ({"ncpus": "many"}, 0)],
)
def test_default_prioritizer(resources, priority):
    """Free cores, or 0 when there is no such number."""
    assert default_prioritizer(TempNode("a", resources)) == priority


def test_default_early_bailout():
    """Always to go on."""
    assert default_early_bailout(TempNode("a")).status == "success"
