"""Laws of the node queue."""

from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import TempNode

NODES = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(-2, 3)), max_size=20)


@given(NODES, st.data())
def test_order_is_priority_then_name_whatever_was_done_before(entries, data):
    """Every node once, by descending priority and ascending name, after any mix of pushes, updates
    and looks."""
    queue = NodeQueue()
    nodes = [TempNode(name, {"ncpus": cores}) for name, cores in entries]
    for node in nodes:
        queue.push(node)
        action = data.draw(st.sampled_from(["push", "update", "look", "none"]))
        if action == "push":
            queue.push(data.draw(st.sampled_from(nodes[: nodes.index(node) + 1])))
        elif action == "update":
            queue.update()
        elif action == "look":
            list(queue)
    for node in data.draw(st.lists(st.sampled_from(nodes), max_size=5)) if nodes else []:
        node.available["ncpus"] = data.draw(st.integers(-2, 3))
    queue.update()
    found = list(queue)
    assert sorted(map(id, found)) == sorted(map(id, nodes))
    keys = [(-node.available["ncpus"], node.hostname_or_uuid) for node in found]
    assert keys == sorted(keys)
    assert list(queue.reversed()) == found[::-1]
    assert len(queue) == len(found)
