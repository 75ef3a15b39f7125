"""Planned nodes become the nodes that the server made."""

from builders.nodes import a_planned_node, names
from builders.replies import a_record
from hpc.autoscale.node.adopting import adopt


def test_adoption_goes_set_by_set():
    """Nodearray, VM size and placement group must agree."""
    nodes = [
        a_planned_node(name="a-1", nodearray="a"),
        a_planned_node(name="b-1", nodearray="b"),
        a_planned_node(name="b-2", nodearray="b", placement_group="pg0"),
        a_planned_node(name="b-3", nodearray="b", vm_size="Standard_F8"),
    ]
    records = [
        a_record("x1", Template="b", PlacementGroupId="pg0"),
        a_record("x2", Template="b", PlacementGroupId=""),
        a_record("x3", Template="a", MachineType="Standard_F8"),
        a_record("x4", Template="a"),
    ]
    adopted, surplus, missing = adopt(nodes, records)
    assert [(n.name, r["Name"]) for n, r in adopted] == [
        ("a-1", "x4"),
        ("b-1", "x2"),
        ("b-2", "x1"),
    ]
    assert ([r["Name"] for r in surplus], names(missing)) == (["x3"], ["b-3"])


def test_adoption_heeds_attributes():
    """A node that was asked for with attributes of its own gets a record that has them, more or
    not."""
    plain, special, kept = (a_planned_node(name=n) for n in ("htc-1", "htc-2", "htc-3"))
    special.node_attribute_overrides["Configuration"] = {"slurm": {"x": 1}}
    kept.keep_alive = True
    records = [
        a_record("r1", Configuration={"slurm": {"x": 1, "y": 2}, "z": 3}),
        a_record("r2", KeepAlive=True, Configuration={}),
        a_record("r3", Configuration={"slurm": {"x": 2}}),
    ]
    adopted, _, _ = adopt([plain, special, kept], records)
    assert [(n.name, r["Name"]) for n, r in adopted] == [
        ("htc-1", "r3"),
        ("htc-2", "r1"),
        ("htc-3", "r2"),
    ]


def test_adoption_by_name_then_by_order():
    """Where the server gave the planned names, each node keeps its own; htc-9 comes before
    htc-10."""
    nodes = [a_planned_node(name=f"htc-{i}") for i in (8, 9, 10)]
    records = [a_record(n) for n in ("htc-11", "htc-10", "htc-9")]
    adopted, _, _ = adopt(nodes, records)
    assert [(n.name, r["Name"]) for n, r in adopted] == [
        ("htc-8", "htc-11"),
        ("htc-9", "htc-9"),
        ("htc-10", "htc-10"),
    ]


def test_fewer_records_go_to_those_planned_first():
    """Whatever they are called."""
    nodes = [a_planned_node(name=f"htc-{i}") for i in (1, 2, 3, 4)]
    adopted, _, missing = adopt(nodes, [a_record("htc-3"), a_record("htc-4")])
    assert (names([n for n, _ in adopted]), names(missing)) == (
        ["htc-1", "htc-2"],
        ["htc-3", "htc-4"],
    )


def test_adoption_heeds_formats_of_names():
    """A node that was asked for with a format of names is one of that format, from its offset on,
    whatever it was planned as; one that the server calls otherwise is taken all the same."""
    nodes = [a_planned_node(name=f"htc-{i}") for i in (1, 2, 3, 4, 5)]
    _, first, late, other, last = nodes
    first.name_format = late.name_format = last.name_format = "My-%d"
    late.name_offset, other.name_format = 10, "n%d-x"
    records = [a_record(n) for n in ("htc-1", "htc-2", "my-1", "my-10", "n3-x")]
    adopted, _, _ = adopt(nodes, records)
    assert [(n.name, r["Name"]) for n, r in adopted] == [
        ("htc-1", "htc-1"),
        ("htc-2", "my-1"),
        ("htc-3", "my-10"),
        ("htc-4", "n3-x"),
        ("htc-5", "htc-2"),
    ]
