"""The life of simulated nodes: phases over time, management actions, selectors."""

import pytest

from builders.simulated_cloud import World, a_description, a_world, booted
from hpc.autoscale.simulator.errors import Conflict
from hpc.autoscale.simulator.lifecycle import FACTS, MEANING, TRANSITIONS, Event, Phase

# ---------------------------------------------------------------- the table


def test_every_phase_has_arrows_and_facts():
    """And only a record that is gone has nowhere to go."""
    assert set(TRANSITIONS) == set(FACTS) == set(Phase)
    assert [phase for phase, arrows in TRANSITIONS.items() if not arrows] == [Phase.REMOVED]
    assert set(MEANING) == set(Event)


def test_every_phase_is_reached_and_can_end():
    """From Off to everything, and from everything to the end of the record."""
    forward = {phase: set(arrows.values()) for phase, arrows in TRANSITIONS.items()}
    backward = {p: {q for q, targets in forward.items() if p in targets} for p in forward}
    for start, arrows in ((Phase.OFF, forward), (Phase.REMOVED, backward)):
        seen, todo = {start}, [start]
        while todo:
            todo += (new := arrows[todo.pop()] - seen)
            seen |= new
        assert seen == set(Phase)


def test_only_phases_that_end_by_themselves_have_a_duration_of_the_description():
    """Every name in the table is a key of the lifecycle."""
    from hpc.autoscale.simulator.description import Lifecycle

    for facts in FACTS.values():
        assert not facts.duration or hasattr(Lifecycle(), facts.duration)


# ---------------------------------------------------------------- boot and end


def test_a_node_boots_phase_by_phase():
    """Each for its time; the VM has id and address from Preparing on, the host name is told when it
    is Ready."""
    world = a_world()
    world.create(1)
    seen = []
    for _ in range(4):
        record = world.record("htc-1")
        known = [key for key in ("InstanceId", "PrivateIp", "Hostname") if key in record]
        seen.append((record["Status"], record["State"], record["TargetState"], known))
        world.after(10)
    assert seen == [
        ("Allocation", "Starting", "Started", []),
        ("Acquiring", "Starting", "Started", []),
        ("Preparing", "Starting", "Started", ["InstanceId", "PrivateIp"]),
        ("Ready", "Started", "Started", ["InstanceId", "PrivateIp", "Hostname"]),
    ]


def test_time_may_pass_in_one_go():
    """What happens does not depend on how often anybody looks."""
    worlds = [a_world(), a_world()]
    for world in worlds:
        world.create(2)
    worlds[0].after(35)
    for _ in range(350):
        worlds[1].after(0.1)
    assert worlds[0].journal == worlds[1].journal


def test_jitter_and_ids_repeat_with_the_seed():
    """The same seed and the same calls, the same journal; another seed, another."""
    journals = []
    for seed in (1, 1, 2):
        world = a_world(seed, lifecycle={"jitter": 0.5, "boot_failure_rate": 0.3})
        world.create(20)
        world.after(60)
        journals.append(world.journal)
    assert journals[0] == journals[1] != journals[2]


def test_host_names_are_made_of_names_or_of_addresses():
    """As the description wants."""
    world = booted(hostnames="address")
    assert (world.record("htc-1")["PrivateIp"], world.record("htc-1")["Hostname"]) == (
        "10.0.0.4",
        "ip-0A000004",
    )
    world = a_world()
    world.create(1, nameFormat="My_node-%d")
    world.after(30)
    assert world.record("My_node-1")["Hostname"] == "my-node-1"


def test_a_terminated_node_frees_its_place_at_once_and_its_quota_when_the_vm_is_gone():
    """Its record goes with the VM."""
    world = booted(2)
    assert world.manage("terminate", names=["htc-1"]) == {"htc-1": "OK"}
    assert (world.bucket().active_count, world.bucket().consumed_core_count) == (1, 4)
    assert world.record("htc-1")["TargetState"] == "Terminated"
    world.after(10)
    assert (list(world.statuses()), world.bucket().consumed_core_count) == (["htc-2"], 2)
    assert world.events("htc-1")[-3:] == ["terminating", "terminated", "removed"]


def test_fixed_nodes_keep_their_record_until_it_is_removed():
    """Terminate, then remove; and they can be started again in between."""
    world = booted(attributes={"Fixed": True})
    assert "must be terminated before" in world.manage("remove", names=["htc-1"])["htc-1"]
    world.manage("terminate", names=["htc-1"])
    world.after(10)
    record = world.record("htc-1")
    assert (record["Status"], record["State"], record["TargetState"]) == ("Terminated",) * 3
    assert "InstanceId" not in record
    assert world.cluster.status(True).nodes == []
    assert world.manage("start", names=["htc-1"]) == {"htc-1": "OK"}
    world.after(30)
    world.manage("terminate", names=["htc-1"])
    world.after(10)
    assert world.manage("remove", names=["htc-1"]) == {"htc-1": "OK"}
    assert world.statuses() == {}


def test_a_node_outside_of_nodearrays_is_there_from_the_start():
    """In the listings and in the quotas, in no bucket; its record says that it is its own template,
    and outlives its VM."""
    world = World(a_description(nodes={"scheduler": {"machine_type": "Standard_F4s_v2"}}))
    world.after(100)
    record = world.record("scheduler")
    assert (record["Template"], record["Status"]) == ("scheduler", "Ready")
    status = world.cluster.status(True)
    assert [node["Name"] for node in status.nodes or []] == ["scheduler"]
    assert [array.name for array in status.nodearrays] == ["htc"]
    assert [b.active_count for b in status.nodearrays[0].buckets] == [0, 0]
    assert {b.regional_consumed_core_count for b in status.nodearrays[0].buckets} == {4}
    world.manage("terminate", names=["scheduler"])
    world.after(100)
    assert world.statuses() == {"scheduler": "Terminated"}
    world.manage("start", names=["scheduler"])
    world.after(100)
    assert world.statuses() == {"scheduler": "Ready"}


def test_nobody_can_add_to_a_node_outside_of_nodearrays():
    """Its name is that of no nodearray, and is taken."""
    world = World(a_description(nodes={"htc-1": {"machine_type": "Standard_F4s_v2"}}))
    world.create(1)
    assert list(world.statuses()) == ["htc-1", "htc-2"]
    for refused in (
        lambda: world.create(1, nodearray="htc-1"),
        lambda: world.create(1, nameFormat="htc-1"),
    ):
        with pytest.raises(Conflict):
            refused()


def test_removing_a_running_node_terminates_it():
    """Unless it is Fixed."""
    world = booted()
    world.manage("remove", names=["htc-1"])
    assert world.statuses() == {"htc-1": "Terminating"}


def test_nodes_that_do_not_start_automatically_are_off_until_started():
    """They count against the limits on nodes, among themselves, and take no quota."""
    world = a_world(max_count=3)
    off = {"StartAutomatically": False, "Fixed": True}
    assert world.create(5, nodeAttributes=off).added == 3
    record = world.record("htc-1")
    assert (record["Status"], record["TargetState"]) == ("Off", "Terminated")
    assert (world.bucket().active_count, world.bucket().consumed_core_count) == (0, 0)
    assert world.manage("start", names=["htc-1", "htc-2"]) == {"htc-1": "OK", "htc-2": "OK"}
    assert world.bucket().active_nodes == ["htc-1", "htc-2"]
    assert world.manage("terminate", names=["htc-3"]) == {"htc-3": "OK"}
    assert world.statuses()["htc-3"] == "Off"


def test_a_node_that_is_off_and_not_fixed_goes_when_it_is_terminated():
    """Nothing keeps its record."""
    world = a_world()
    world.create(1, nodeAttributes={"StartAutomatically": "false"})
    world.manage("terminate", names=["htc-1"])
    assert world.statuses() == {}


def test_starting_nodes_that_are_off_stops_at_the_limits():
    """Each node that does not fit says which."""
    world = World(a_description(max_count=4, regions={"quota": 4}))
    world.create(4, nodeAttributes={"StartAutomatically": False})
    answers = world.manage("start", filter='Status === "Off"')
    assert list(answers.values())[:2] == ["OK", "OK"]
    assert "htc-3 cannot start: regional quota" in answers["htc-3"]
    assert world.bucket().active_count == 2


def test_a_deallocated_node_keeps_its_record_and_comes_back():
    """With its address and instance; it takes neither place nor quota meanwhile."""
    world = booted()
    before = world.record("htc-1")
    world.manage("deallocate", names=["htc-1"])
    assert world.statuses() == {"htc-1": "Deallocating"}
    world.after(10)
    record = world.record("htc-1")
    assert (record["Status"], record["TargetState"]) == ("Deallocated", "Deallocated")
    assert (world.bucket().active_count, world.bucket().consumed_core_count) == (0, 0)
    assert world.manage("start", names=["htc-1"]) == {"htc-1": "OK"}
    world.after(20)
    assert world.record("htc-1") == before


def test_deallocated_nodes_come_back_over_the_limits_of_the_nodearray_but_not_of_azure():
    """CycleCloud does not count them there; quotas hold for everybody."""
    world = booted(2, max_count=2)
    world.manage("deallocate", names=["htc-1", "htc-2"])
    world.after(10)
    world.create(2)
    assert set(world.manage("start", names=["htc-1", "htc-2"]).values()) == {"OK"}
    assert (world.bucket().active_count, world.bucket().available_count) == (4, 0)


def test_only_a_vm_that_runs_keeps_its_quota_while_it_is_terminated():
    """A node that was deallocated, or had no VM yet, gives everything back at once."""
    world = booted(1)
    world.manage("deallocate", names=["htc-1"])
    world.after(10)
    world.create(1)
    world.manage("terminate", names=["htc-1", "htc-2"])
    assert set(world.statuses().values()) == {"Terminating"}
    assert world.bucket().consumed_core_count == 0


def test_shutdown_follows_the_policy_of_each_node():
    """terminate unless the node says deallocate."""
    world = booted(1)
    world.create(1, nodeAttributes={"ShutdownPolicy": "Deallocate"})
    world.after(30)
    world.manage("shutdown", names=["htc-1", "htc-2"])
    assert world.statuses() == {"htc-1": "Terminating", "htc-2": "Deallocating"}


@pytest.mark.parametrize("action", ["terminate", "deallocate", "shutdown", "remove"])
def test_nodes_that_are_kept_alive_are_refused(action):
    """Each by itself; the others are carried out."""
    world = booted(attributes={"KeepAlive": True})
    world.create(1)
    answers = world.manage(action, filter='Template === "htc"')
    assert answers == {"htc-1": "htc-1 has KeepAlive set; clear it first", "htc-2": "OK"}
    world.cluster.edit(["htc-1"], {"KeepAlive": False})
    assert world.manage(action, names=["htc-1"]) == {"htc-1": "OK"}


def test_restart_and_reimage_pass_through_a_phase_of_their_own():
    """TargetState stays Started, and the node is Ready again."""
    for action, status in (("restart", "Restarting"), ("reimage", "Reimaging")):
        world = booted()
        world.manage(action, names=["htc-1"])
        record = world.record("htc-1")
        assert (record["Status"], record["TargetState"]) == (status, "Started")
        world.after(10)
        assert world.statuses() == {"htc-1": "Preparing"}
        world.after(10)
        assert world.statuses() == {"htc-1": "Ready"}


def test_restart_needs_a_vm():
    """A node that has none yet says so."""
    world = a_world()
    world.create(1)
    assert "has no running VM" in world.manage("restart", names=["htc-1"])["htc-1"]


def test_start_waits_for_nodes_that_are_on_their_way_down():
    """And does nothing to those that run."""
    world = booted(2)
    world.manage("terminate", names=["htc-1"])
    answers = world.manage("start", names=["htc-1", "htc-2"])
    assert answers == {"htc-1": "htc-1 is still terminating", "htc-2": "OK"}


def test_an_action_that_was_carried_out_may_be_asked_for_again():
    """Terminating twice is no error."""
    world = booted(2)
    for _ in range(2):
        assert world.manage("terminate", names=["htc-1"]) == {"htc-1": "OK"}
        assert world.manage("deallocate", names=["htc-2"]) == {"htc-2": "OK"}
    assert "not possible" in world.manage("deallocate", names=["htc-1"])["htc-1"]


# ---------------------------------------------------------------- selectors


def test_selectors_are_united():
    """Each node is in the answer once, the oldest first; who is unknown is not in it."""
    world = booted(5)
    records = {name: world.record(name) for name in world.statuses()}
    answers = world.manage(
        "restart",
        names=["htc-5", "htc-1", "nobody"],
        ids=[records["htc-1"]["NodeId"], "nothing"],
        hostnames=["HTC-2"],
        ip_addresses=[records["htc-3"]["PrivateIp"]],
        filter='Name === "htc-3"',
    )
    assert list(answers) == ["htc-1", "htc-2", "htc-3", "htc-5"]


@pytest.mark.parametrize("nothing", [{}, {"names": []}, {"names": [], "filter": ""}, {"ids": None}])
def test_a_selector_that_selects_by_nothing_is_refused(nothing):
    """Nobody means all nodes by it."""
    with pytest.raises(Conflict, match="expected a selector"):
        booted().manage("terminate", **nothing)


@pytest.mark.parametrize("wrong", [{"names": "htc-1"}, {"names": [1]}, {"filter": 3}])
def test_selectors_of_the_wrong_kind_are_refused(wrong):
    """In one line."""
    with pytest.raises(Conflict, match="expected"):
        booted().manage("terminate", **wrong)


def test_the_nodes_of_an_operation_are_those_that_it_touched():
    """Those with an error are not among them."""
    world = booted(2)
    world.cluster.edit(["htc-2"], {"KeepAlive": True})
    world.manage("terminate", names=["htc-1", "htc-2"], requestId="r1")
    listed = world.cluster.node_list(None, "r1")
    assert [node["Name"] for node in listed.nodes] == ["htc-1"]
    assert listed.operation.action == "terminate"
