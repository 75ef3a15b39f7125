"""The engine places work where the naive packer does: same nodes, same slots, same order, same
limits left."""

from unittest.mock import patch

from builders.engine_world import World
from builders.opaque_constraints import TWINS_OF, with_twins
from builders.oracle_world import NaiveWorld
from builders.scenario_laws import for_scenarios, tell
from hpc.autoscale.node.constraints.declared import Declarations, is_declared
from hpc.autoscale.packing import cursor


@for_scenarios(times=8)
def test_same_placements(scenario):
    """Whatever the cluster, the jobs and their constraints."""
    place_as_the_naive_packer(scenario)


@for_scenarios(times=4)
def test_same_placements_where_new_nodes_are_looked_up(scenario):
    """As nodes are of which thousands are added before an expression is asked again."""
    with patch.object(cursor, "_NEAR", 1):
        place_as_the_naive_packer(scenario)


def place_as_the_naive_packer(scenario):
    """The same nodes for each request, and the same state in the end."""
    world = World(scenario["cluster"])
    naive = NaiveWorld(world, scenario["cluster"])
    assert world.picture() == naive.picture()
    ask = world.reported if scenario["report"] else world.request
    for index, event in enumerate(scenario["events"]):
        name = f"job{index}"
        if event["do"] == "request":
            placed = naive.request(event, name)
            tell(scenario, f"{event}: {placed}")
            total, nodes = ask(event, name)
            assert total == sum(count for _, count in placed)
            assert nodes == (placed if scenario["report"] else [node for node, _ in placed])
        else:
            about = naive.named(event)
            tell(scenario, f"{event}: {about}")
            naive.happen(event, about)
            world.happen(event, about)
        if scenario["look"]:
            assert world.picture() == naive.picture()
    assert world.picture() == naive.picture()
    assert world.left_in_pools() == naive.left_in_pools()


def place_alike(scenario, level):
    """Constraints that are written on a level of their own end on the same nodes as the built-in
    ones; what the manager knows of declared ones by then."""
    share = 1 if scenario["look"] else 0.3
    known = World(scenario["cluster"])
    unknown = World(scenario["cluster"], with_twins(scenario["seed"], share, level))
    for index, event in enumerate(scenario["events"]):
        name = f"job{index}"
        if event["do"] != "request":
            about = known.named(event)
            for world in (known, unknown):
                world.happen(event, about)
        else:
            answers = [world.request(event, name) for world in (known, unknown)]
            tell(scenario, f"{event}: {answers}")
            assert answers[0] == answers[1]
            assert known.picture() == unknown.picture()
    assert known.left_in_pools() == unknown.left_in_pools()
    return unknown.manager._placer.declarations


@for_scenarios(times=4)
def test_opaque_twins_place_alike(scenario):
    """Classes of which the engine knows nothing but their methods."""
    place_alike(scenario, "opaque")


@for_scenarios(times=4)
def test_declared_twins_place_alike(scenario):
    """Classes that say what they read; and what they say is believed to the end."""
    known = place_alike(scenario, "declared")
    assert believed_in(known, TWINS_OF["declared"].values())


@for_scenarios(times=2)
def test_lowered_twins_place_alike(scenario):
    """Classes that say what they mean."""
    place_alike(scenario, "lowered")


@for_scenarios(times=3)
def test_twins_of_all_levels_place_alike(scenario):
    """Side by side in one demand."""
    place_alike(scenario, "mixed")


def believed_in(known: Declarations, classes):
    """Whether none of the classes has been found to read or do more than it says."""
    return not known._disbelieved.intersection(classes)


def test_declared_twins_are_expressions():
    """Or the test above would say nothing: but for those that must know who is on a node."""
    known = {kind: is_declared(twin(*A_LEAF[kind])) for kind, twin in TWINS_OF["declared"].items()}
    assert {kind for kind, is_known in known.items() if not is_known} == {
        "exclusive",
        "exclusive-task",
    }


A_LEAF = {
    "number": ("ncpus", 1),
    "size": ("memgb", "memory::1g"),
    "resource": ("owner", "ann"),
    "property": ("node.vm_size", "Standard_F4"),
    "exclusive": ("exclusive", True),
    "exclusive-task": ("exclusive-task", True),
    "in-a-placement-group": ("in-a-placement-group", True),
    "never": ("never", "today"),
}
