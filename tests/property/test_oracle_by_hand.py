"""The naive packer gives the numbers that were worked out by hand, and so does the engine; and it
stands on its own."""

import ast
from pathlib import Path

import pytest

from builders.engine_world import World
from builders.oracle_world import NaiveWorld
from builders.scenarios import MANY

BUILDERS = Path(__file__).parents[1] / "builders"


def cluster(*arrays, **more):
    """A cluster without trouble, but for what is said."""
    return {
        "order": "existing-first",
        "max_cores": MANY,
        "configured_groups": {},
        "arrays": list(arrays),
        "regions": {("westus2", spot): (0, MANY) for spot in (True, False)},
        "families": {
            ("westus2", family): (0, MANY) for family in ("standardFFamily", "standardNCFamily")
        },
        "nodes": [],
        "machines": [],
        "pools": {},
        **more,
    }


def array(name, *buckets, groups=(), **more):
    """A nodearray with buckets, as (VM size, nodes)."""
    return {
        "name": name,
        "location": "westus2",
        "spot": False,
        "resources": {},
        "max_nodes": MANY,
        "max_cores": MANY,
        "group_size": 100,
        "buckets": [
            {"size": size, "max": n, "available": n, "groups": list(groups), "failed": None}
            for size, n in buckets
        ],
        **more,
    }


class Pair:
    """The engine and the naive packer, which must agree on every answer."""

    def __init__(self, description):
        self.world = World(description)
        self.naive = NaiveWorld(self.world, description)
        self.count = 0
        assert self.world.picture() == self.naive.picture()

    def ask(self, units, *constraints, how="slots"):
        """What is placed: [(node, slots)]."""
        event = {"how": how, "units": units, "constraints": list(constraints)}
        self.count += 1
        placed = self.naive.request(event, f"job{self.count}")
        total, matches = self.world.reported(event, f"job{self.count}")
        assert matches == placed
        assert total == sum(slots for _, slots in placed)
        assert self.world.picture() == self.naive.picture()
        return placed

    def room(self):
        """How many more nodes each bucket may have."""
        return [room for room, _ in self.naive.picture()]


def test_slots_fill_nodes_up_to_the_limit():
    """Fifty slots of one core on ten nodes of four: forty are placed."""
    placed = Pair(cluster(array("htc", ("Standard_F4", 10)))).ask(50, {"ncpus": 1})
    assert placed == [(f"htc-{i}", 4) for i in range(1, 11)]


def test_slots_come_back_to_nodes_with_room():
    """Two, then four, then two: two nodes in all."""
    pair = Pair(cluster(array("htc", ("Standard_F4", 10))))
    assert pair.ask(2, {"ncpus": 1}) == [("htc-1", 2)]
    assert pair.ask(4, {"ncpus": 1}) == [("htc-1", 2), ("htc-2", 2)]
    assert pair.ask(2, {"ncpus": 1}) == [("htc-2", 2)]


def test_all_or_nothing():
    """Ten nodes where nine are left: none; without insisting, nine."""
    pair = Pair(cluster(array("htc", ("Standard_F4", 9))))
    assert pair.ask(10, {"ncpus": 1}, how="whole-nodes") == []
    assert len(pair.ask(10, {"ncpus": 1}, how="nodes")) == 9


def test_a_family_quota_is_shared():
    """Eighty cores for ten nodes of four and five of eight."""
    description = cluster(array("htc", ("Standard_F4", 10)), array("hpc", ("Standard_F8", 10)))
    description["families"]["westus2", "standardFFamily"] = (0, 80)
    pair = Pair(description)
    wanted = {"node.nodearray": ["htc", "hpc"], "exclusive": True}
    assert len(pair.ask(20, wanted, how="nodes")) == 15
    assert pair.room() == [0, 0]


def test_spot_has_a_quota_of_its_own():
    """55 cores of the regional spot quota are left: thirteen nodes of four; on-demand nodes do not
    touch it."""
    spot = array("spot", ("Standard_F4", 50), spot=True)
    description = cluster(array("htc", ("Standard_F4", 50)), spot)
    description["regions"]["westus2", True] = (45, 100)
    pair = Pair(description)
    assert pair.room() == [50, 13]
    pair.ask(10, {"node.nodearray": "htc", "exclusive": True}, how="nodes")
    assert pair.room() == [40, 13]


@pytest.mark.parametrize(("there", "room"), [(0, [20, 20, 100]), (1, [19, 20, 99])])
def test_placement_groups_share_their_bucket(there, room):
    """A group holds twenty of a bucket's hundred nodes; a node in one counts for the group and for
    the bucket."""
    hpc = array("hpc", ("Standard_F4", 100), groups=["pg0", "pg1"], group_size=20)
    node = {"slot": 0, "group": "pg0", "state": "Ready", "used": 0, "keep": False}
    assert Pair(cluster(hpc, nodes=[node] * there)).room() == room


def test_a_group_that_was_filled_leaves_less_for_its_bucket():
    """Variants of one bucket share its count."""
    hpc = array("hpc", ("Standard_F4", 100), groups=["pg0", "pg1"], group_size=20)
    pair = Pair(cluster(hpc))
    pair.ask(92, {"node.placement_group": [None], "exclusive": True}, how="nodes")
    assert pair.room() == [8, 8, 8]


def gang(pair, count):
    """The placement groups that a gang of exclusive nodes gets."""
    before = {node.name for node in pair.world.manager.get_nodes()}
    wanted = {"node.nodearray": "hpc", "exclusive": True, "in-a-placement-group": True}
    placed = {name for name, _ in pair.ask(count, wanted, how="whole-nodes")}
    nodes = pair.world.manager.get_nodes()
    return {n.placement_group for n in nodes if n.name in placed}, len(placed - before)


def test_gangs_open_as_few_groups_as_they_can():
    """Groups of ten: six, five and four fill two of them, although all three are there."""
    groups = ["pg0", "pg1", "pg2"]
    pair = Pair(cluster(array("hpc", ("Standard_F4", 100), groups=groups, group_size=10)))
    found = [gang(pair, count) for count in (6, 5, 4, 5, 11)]
    assert found == [({"pg0"}, 6), ({"pg1"}, 5), ({"pg0"}, 4), ({"pg1"}, 5), (set(), 0)]


def test_a_gang_goes_where_the_fewest_nodes_are_missing():
    """A group in use before an empty one, and of those in use the one with more idle nodes."""
    groups = ["pg0", "pg1", "pg2"]
    hpc = array("hpc", ("Standard_F4", 100), groups=groups, group_size=10)
    idle = {"slot": 0, "state": "Ready", "used": 0, "keep": False}
    nodes = [{**idle, "group": group} for group in ("pg1", "pg2", "pg2")]
    pair = Pair(cluster(hpc, nodes=nodes))
    assert [gang(pair, count) for count in (3, 2, 9, 7, 7)] == [
        ({"pg2"}, 1),
        ({"pg1"}, 1),
        ({"pg0"}, 9),
        ({"pg1"}, 7),
        ({"pg2"}, 7),
    ]


def test_a_nodearray_counts_nodes_and_its_family_cores():
    """At most eight nodes and sixteen cores; one node of four cores leaves seven, six or three."""
    description = cluster(array("htc", ("Standard_F2", 8), ("Standard_F4", 8), max_nodes=8))
    description["families"]["westus2", "standardFFamily"] = (0, 16)
    pair = Pair(description)
    assert pair.room() == [8, 4]
    pair.ask(1, {"node.vm_size": "Standard_F4", "exclusive": True}, how="nodes")
    assert pair.room() == [6, 3]


def test_what_shares_a_node_with_an_exclusive_job():
    """Iterations of the job itself, and nothing else."""
    pair = Pair(cluster(array("htc", ("Standard_F4", 10))))
    assert pair.ask(10, {"ncpus": 1, "exclusive": True}) == [
        ("htc-1", 4),
        ("htc-2", 4),
        ("htc-3", 2),
    ]
    assert pair.ask(1, {"ncpus": 1}) == [("htc-4", 1)]


def test_without_an_opinion_all_go_on_one_node():
    """A job that asks for no amount; and one that asks for nothing at all takes a node for each
    slot."""
    pair = Pair(cluster(array("htc", ("Standard_F4", 10))))
    assert pair.ask(5, {"node.nodearray": "htc"}) == [("htc-1", 5)]
    assert pair.ask(2) == [("htc-1", 1), ("htc-2", 1)]


@pytest.mark.parametrize("module", ["oracle", "oracle_reading"])
def test_the_naive_packer_imports_nothing_of_the_library(module):
    """What it shares with the engine, a mistake could hide in."""
    source = (BUILDERS / f"{module}.py").read_text(encoding="utf-8")
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    types = {"collections.abc", "typing"}
    assert imported <= {"fnmatch", "fractions", "builders.oracle", *types}
