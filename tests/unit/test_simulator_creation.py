"""Adding nodes to the simulated cluster: names, machine types, limits, partial success, request
ids."""

import pytest

from builders.simulated_cloud import F2, F4, REGION, World, a_description
from hpc.autoscale.ccbindings import models
from hpc.autoscale.simulator.errors import Conflict, NotFound


def refusal(world, **request):
    """Why a create is refused; nothing may have happened."""
    before = len(world.journal)
    with pytest.raises(Conflict) as caught:
        world.cluster.create(models.NodeCreationRequest.from_dict(request))
    assert len(world.journal) == before
    return str(caught.value)


def a_set(**more):
    """A set of one node."""
    return {"nodearray": "htc", "count": 1, **more}


def test_nodes_are_numbered_from_one_and_free_numbers_are_used_again():
    """The lowest free index."""
    world = World()
    world.create(3)
    world.manage("terminate", names=["htc-2"])
    world.after(100)
    world.create(2)
    assert list(world.statuses()) == ["htc-1", "htc-3", "htc-2", "htc-4"]


def test_a_name_is_taken_as_long_as_there_is_a_record():
    """A node that is still being terminated keeps its name."""
    world = World()
    world.create(1)
    world.manage("terminate", names=["htc-1"])
    world.create(1)
    assert world.statuses() == {"htc-1": "Terminating", "htc-2": "Allocation"}


def test_name_format_and_offset():
    """A collision takes the next free index; upper and lower case are the same host."""
    world = World()
    world.create(1, nameFormat="hpc-pg0-%d", nameOffset=5)
    world.create(2, nameFormat="HPC-pg0-%d", nameOffset=4)
    world.create(1, nameFormat="n%03d", nameOffset=0)
    assert list(world.statuses()) == ["hpc-pg0-5", "HPC-pg0-4", "HPC-pg0-6", "n000"]


def test_a_plain_name_is_the_name_of_one_node():
    """As a scheduler that names its nodes sends it; a number to choose goes around it, whichever
    set comes first."""
    world = World()
    sets = [a_set(count=2), a_set(nameFormat="htc-2"), a_set(nameFormat="login")]
    result = world.cluster.create(models.NodeCreationRequest.from_dict({"sets": sets}))
    assert [one.added for one in result.sets] == [2, 1, 1]
    assert list(world.statuses()) == ["htc-1", "htc-3", "htc-2", "login"]
    assert "the name HTC-2 is in use" in refusal(world, sets=[a_set(nameFormat="HTC-2")])


def test_sets_of_one_request_do_not_collide():
    """Each takes the names after those of the one before."""
    world = World()
    sets = [a_set(count=2), a_set(count=2, definition={"machineType": F4})]
    world.cluster.create(models.NodeCreationRequest.from_dict({"sets": sets}))
    assert list(world.statuses()) == ["htc-1", "htc-2", "htc-3", "htc-4"]
    assert world.record("htc-3")["MachineType"] == F4


def test_without_definition_the_first_usable_machine_type_is_taken():
    """In the order of the nodearray."""
    types = [{"name": F2, "invalid_reason": "NotActivated"}, F4]
    world = World(a_description({"htc": {"machine_types": types}}))
    world.create(1)
    assert world.record("htc-1")["MachineType"] == F4
    assert (world.bucket().valid, world.bucket().invalid_reason) == (False, "NotActivated")


def test_a_machine_type_that_cannot_be_used_adds_nothing():
    """That is no invalid request, only one that cannot be met."""
    types = [{"name": F2, "invalid_reason": "NotActivated"}]
    world = World(a_description({"htc": {"machine_types": types}}))
    result = world.create(2)
    assert (result.added, world.bucket().available_count) == (0, 0)
    assert result.message == f"added 0 of 2 nodes: {F2} cannot be used: NotActivated"


def test_node_attributes_are_merged_over_those_of_the_nodearray():
    """Maps inside are merged too; what the simulator manages cannot be set."""
    array = {"machine_types": [F2], "attributes": {"Configuration": {"a": {"x": 1, "y": 2}}}}
    world = World(a_description({"htc": array}))
    given = {"configuration": {"a": {"y": 3}}, "Tags": {"k": "v"}, "NodeId": "mine", "status": "?"}
    world.create(1, nodeAttributes=given)
    record = world.record("htc-1")
    assert record["Configuration"] == {"a": {"x": 1, "y": 3}}
    assert record["Tags"] == {"k": "v"}
    assert (record["NodeId"] == "mine", record["Status"]) == (False, "Allocation")


QUOTAS = [
    ({"family_quotas": {"standardFSv2Family": 9}}, 4, "standardFSv2Family quota"),
    ({"quota": 11}, 5, "regional quota in westus2 (10 of 11 cores in use)"),
    ({"default_family_quota": 2}, 1, "(2 of 2 cores in use)"),
]


@pytest.mark.parametrize(("region", "added", "said"), QUOTAS)
def test_as_many_are_added_as_the_quota_allows(region, added, said):
    """And the message says which quota that is; asking again adds no more."""
    world = World(a_description(regions=region))
    result = world.create(60)
    assert result.added == added == len(world.statuses())
    assert f"added {added} of 60 nodes: " in result.message and said in result.message
    assert world.create(60).added == 0
    assert [entry["event"] for entry in world.journal].count("limited") == 2


def test_the_limits_of_the_cluster_hold_over_all_of_its_nodearrays():
    """Nodes and cores, whichever is tighter."""
    arrays = {name: {"machine_types": [F2], "max_count": 3} for name in ("a", "b")}
    world = World(a_description(arrays, max_count=4, max_core_count=100))
    assert (world.create(9, "a").added, world.create(9, "b").added) == (3, 1)
    world = World(a_description(arrays, max_count=100, max_core_count=9))
    world.create(9, "a")
    message = world.create(9, "b").message
    assert message == "added 1 of 9 nodes: MaxCoreCount of cluster c1 (8 of 9 cores in use)"


def test_nodearray_and_machine_type_have_limits_of_their_own():
    """MaxCount of one machine type, then of the nodearray."""
    array = {"machine_types": [{"name": F2, "max_count": 2}, F4], "max_count": 3}
    world = World(a_description({"htc": array}))
    assert f"limit on {F2} (2 of 2 nodes" in world.create(5).message
    more = world.create(5, definition={"machineType": F4})
    assert (more.added, "MaxCount of nodearray htc" in more.message) == (1, True)


def test_quotas_are_shared_between_clusters_of_a_region():
    """And between their nodearrays; another region has its own."""
    arrays = {
        "htc": {"machine_types": [F2]},
        "far": {"machine_types": [F2], "region": "eastus"},
    }
    description = a_description(arrays, regions={"family_quotas": {"standardFSv2Family": 8}})
    description["clusters"]["c2"] = description["clusters"]["c1"]
    world = World(description)
    assert world.create(3).added == 3
    assert world.create(3, cluster="c2").added == 1
    assert world.create(3, nodearray="far").added == 3


def test_sizes_whose_family_is_unknown_share_no_quota():
    """Each is a family of its own, in every nodearray."""
    sizes = ["Standard_D15i_v2", "Standard_D16as_v5_Promo"]
    arrays = {name: {"machine_types": sizes} for name in ("a", "b")}
    world = World(a_description(arrays, regions={"default_family_quota": 16}))
    first, second = ({"machineType": size} for size in sizes)
    assert world.create(9, "a", definition=first).added == 1
    assert world.create(9, "b", definition=first).added == 0
    assert world.create(9, "b", definition=second).added == 1


def test_spot_has_a_quota_of_its_own():
    """It takes nothing from the regular ones, and its family numbers are 0."""
    arrays = {"htc": {"machine_types": [F2]}, "spot": {"machine_types": [F2], "spot": True}}
    world = World(a_description(arrays, regions={"quota": 4, "spot_quota": 6}))
    assert (world.create(9).added, world.create(9, nodearray="spot").added) == (2, 3)
    bucket = world.bucket("spot")
    assert (bucket.family_quota_count, bucket.family_consumed_core_count) == (0, 0)
    assert (bucket.regional_quota_core_count, bucket.regional_consumed_core_count) == (6, 6)
    assert (bucket.quota_count, bucket.quota_core_count, bucket.consumed_core_count) == (3, 6, 6)


def test_placement_groups_take_so_many_nodes():
    """Per group; a group that is asked for exists, and one that was declared is always there."""
    array = {
        "machine_types": [F2],
        "max_placement_group_size": 2,
        "placement_groups": ["declared"],
    }
    world = World(a_description({"htc": array}))
    result = world.create(3, placementGroupId="pg0")
    assert (result.added, "size of placement group pg0 (2 of 2" in result.message) == (2, True)
    assert world.create(1, placementGroupId="pg1").added == 1
    groups = {
        g.name: (g.active_count, g.active_core_count) for g in world.bucket().placement_groups
    }
    assert groups == {"declared": (0, 0), "pg0": (2, 4), "pg1": (1, 2)}
    assert world.bucket().max_placement_group_size == 2


def test_a_huge_count_is_answered_with_what_there_is_room_for():
    """Not with an error, and not with that many nodes."""
    world = World(a_description(max_count=3))
    assert world.create(10**30).added == 3


INVALID = [
    ({"sets": []}, "sets: expected at least one set"),
    ({}, "sets: expected a list, found nothing"),
    ({"sets": 3}, "sets: expected a list, found 3"),
    ({"sets": [None]}, "sets[0]: expected an object"),
    ({"sets": [a_set(count=0)]}, "sets[0].count: expected 1 or more, found 0"),
    ({"sets": [a_set(count="1")]}, "sets[0].count: expected a whole number"),
    ({"sets": [a_set(count=True)]}, "sets[0].count: expected a whole number"),
    ({"sets": [a_set(count=1.5)]}, "sets[0].count: expected a whole number"),
    ({"sets": [{"count": 1}]}, "sets[0].nodearray: expected a string, found nothing"),
    ({"sets": [a_set(nodearray="hct")]}, "no nodearray 'hct' (it has htc); did you mean 'htc'?"),
    (
        {"sets": [a_set(definition={"machineType": "Standard_F2"})]},
        "sets[0].definition.machineType: nodearray htc has no 'Standard_F2'",
    ),
    ({"sets": [a_set(definition="F2")]}, "sets[0].definition: expected an object"),
    ({"sets": [a_set(nameFormat="a node")]}, "sets[0].nameFormat: expected"),
    ({"sets": [a_set(nameFormat="node", count=2)]}, "'node' is a name for one node"),
    (
        {"sets": [a_set(nameFormat="node"), a_set(nameFormat="Node")]},
        "sets[1].nameFormat: the name Node is in use",
    ),
    ({"sets": [a_set(nameFormat="n-%s")]}, "around one %d"),
    ({"sets": [a_set(nameFormat="%d-%d")]}, "around one %d"),
    ({"sets": [a_set(nameFormat="../%d")]}, "around one %d"),
    ({"sets": [a_set(nameFormat="n" * 90 + "%d")]}, "at most 60 characters"),
    ({"sets": [a_set(nameOffset=-1)]}, "sets[0].nameOffset: expected 0 to"),
    ({"sets": [a_set(nodeAttributes=["x"])]}, "sets[0].nodeAttributes: expected an object"),
    ({"sets": [a_set(placementGroupId="a\0b")]}, "printable"),
    ({"sets": [a_set()], "requestId": "  "}, "requestId: expected 1 to 256 characters"),
    ({"sets": [a_set(), a_set(count=-1)]}, "sets[1].count"),
]


@pytest.mark.parametrize(("request_", "said"), INVALID)
def test_one_invalid_thing_refuses_the_whole_request(request_, said):
    """With where, what was expected and what was found."""
    assert said in refusal(World(), **request_)


def test_keys_are_read_in_any_case_and_unknown_ones_ignored():
    """As CycleCloud does."""
    world = World()
    request = {"Sets": [{"NODEARRAY": "htc", "Count": 2, "colour": "red"}], "later": 1}
    result = world.cluster.create(models.NodeCreationRequest.from_dict(request))
    assert result.sets[0].added == 2


def test_a_request_id_works_once():
    """Whatever it is used for next, and in whatever cluster; what it did can be asked for."""
    description = a_description()
    description["clusters"]["c2"] = description["clusters"]["c1"]
    world = World(description)
    world.create(2, request_id="r1")
    for again in (
        lambda: world.create(2, request_id="r1"),
        lambda: world.create(2, request_id="r1", cluster="c2"),
        lambda: world.manage("terminate", names=["htc-1"], requestId="r1"),
    ):
        with pytest.raises(Conflict, match="r1 was used before"):
            again()
    listed = world.cluster.node_list(None, "r1")
    assert [node["Name"] for node in listed.nodes] == ["htc-1", "htc-2"]
    assert listed.operation.action == "create"
    assert {node["RequestId"] for node in listed.nodes} == {"r1"}


def test_a_refused_request_does_not_use_up_its_id():
    """The caller may correct it and send it again."""
    world = World()
    refusal(world, requestId="r1", sets=[a_set(count=0)])
    with pytest.raises(Conflict):
        world.manage("terminate", requestId="r1")
    assert world.create(1, request_id="r1").added == 1


def test_a_request_that_could_add_nothing_does_use_up_its_id():
    """It was carried out."""
    world = World(a_description(max_count=0))
    assert world.create(1, request_id="r1").added == 0
    assert world.cluster.node_list(None, "r1").nodes == []
    with pytest.raises(Conflict):
        world.create(1, request_id="r1")


def test_unknown_ids_are_not_found():
    """With the words that callers look for."""
    world = World()
    with pytest.raises(NotFound, match=r"^No operation found for request id r9$"):
        world.cluster.node_list(None, "r9")
    with pytest.raises(NotFound):
        world.cluster.node_list("no-such", None)
    with pytest.raises(NotFound, match="no cluster 'c3'"):
        world.cloud.cluster("c3")


def test_an_operation_of_another_cluster_is_not_found():
    """Its nodes are none of this cluster's."""
    description = a_description()
    description["clusters"]["c2"] = description["clusters"]["c1"]
    world = World(description)
    world.create(1, request_id="r1", cluster="c2")
    with pytest.raises(NotFound, match="No operation found for request id r1"):
        world.cluster.node_list(None, "r1")


def test_scale_adds_what_is_missing():
    """To a total of nodes or of cores; never more, and never less."""
    world = World()
    world.create(1, definition={"machineType": F4})
    assert world.cluster.scale("htc", None, 3).sets[0].added == 2
    assert world.cluster.scale("htc", 9, None).sets[0].added == 1  # 8 cores are there, 2 come
    assert world.cluster.scale("htc", 3, None).sets[0].added == 0
    assert len(world.statuses()) == 4


def test_scale_stops_at_the_limits():
    """Like create."""
    result = World(a_description(max_count=2)).cluster.scale("htc", None, 5).sets[0]
    assert (result.added, "MaxCount" in result.message) == (2, True)


@pytest.mark.parametrize("totals", [(None, None), (4, 4), (-1, None), (None, -1)])
def test_scale_takes_exactly_one_total(totals):
    """And none below zero."""
    with pytest.raises(Conflict):
        World().cluster.scale("htc", *totals)


def test_scale_knows_its_nodearrays():
    """A typo is a conflict."""
    with pytest.raises(Conflict, match="no nodearray 'htcc'"):
        World().cluster.scale("htcc", None, 1)


def test_status_without_nodes_has_neither_records_nor_names():
    """They are long."""
    world = World()
    world.create(1)
    status = world.cluster.status(False).to_dict()
    assert "nodes" not in status
    assert "activeNodes" not in status["nodearrays"][0]["buckets"][0]


def test_the_nodearray_record_defines_the_array():
    """Attributes of the description and those that the simulator knows."""
    array = {
        "machine_types": [F2, F4],
        "priority": 3,
        "max_placement_group_size": 7,
        "attributes": {"Azure": {"Overprovision": False}, "KeepAlive": True},
    }
    status = World(a_description({"htc": array})).cluster.status(False)
    record = status.nodearrays[0].nodearray
    assert (record["MachineType"], record["Region"], record["Priority"]) == ([F2, F4], REGION, 3)
    assert record["Azure"] == {"Overprovision": False, "MaxScalesetSize": 7}
    assert record["KeepAlive"] is True


def test_models_have_no_keys_beyond_the_protocol():
    """Only node records may."""
    world = World()
    world.create(1, placementGroupId="pg0")
    bucket = world.cluster.status(True).to_dict()["nodearrays"][0]["buckets"][0]
    assert set(bucket) == {
        *[
            "bucketId",
            "definition",
            "valid",
            "invalidReason",
            "activeCount",
            "activeCoreCount",
            "activeNodes",
        ],
        *["availableCount", "availableCoreCount", "maxCount", "maxCoreCount", "consumedCoreCount"],
        *["maxPlacementGroupSize", "maxPlacementGroupCoreSize", "quotaCount", "quotaCoreCount"],
        *["familyQuotaCount", "familyQuotaCoreCount", "familyConsumedCoreCount"],
        *["regionalQuotaCount", "regionalQuotaCoreCount", "regionalConsumedCoreCount"],
        *["lastCapacityFailure", "spotPlacementScore", "placementGroups", "virtualMachine"],
    }
    assert set(world.cluster.status(True).to_dict()) == {
        *["state", "targetState", "maxCount", "maxCoreCount", "nodearrays", "nodes"]
    }
