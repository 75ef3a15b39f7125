"""What goes wrong with simulated nodes: lack of capacity, failed boots, evictions; and the journal
of all of it."""

import pytest

from builders.simulated_cloud import F2, F4, REGION, World, a_description, a_world, booted
from hpc.autoscale.simulator.errors import Conflict, NotFound


def out_of_capacity():
    """Three nodes were asked for where Azure has two VMs; the last one has just been refused."""
    array = {"machine_types": [F2, F4], "throttle_capacity": True, "throttle_capacity_time": 60}
    world = World(a_description({"htc": array}, regions={"capacity": {F2: 2}}))
    world.create(3)
    world.after(20)
    return world


def test_a_node_too_many_for_the_region_fails_and_is_given_up():
    """With an Azure error in its message."""
    world = out_of_capacity()
    record = world.record("htc-3")
    assert (record["Status"], record["State"], record["PhaseFailed"]) == ("Failed", "Error", True)
    assert record["StatusMessage"].startswith("AllocationFailed")
    world.after(10)
    assert world.statuses()["htc-3"] == "Terminating"
    world.after(10)
    assert list(world.statuses()) == ["htc-1", "htc-2"]
    assert [e["cause"] for e in world.journal if e["event"] == "terminated"] == [
        "allocation_failed"
    ]


def test_a_lack_of_capacity_is_told_and_holds_the_bucket_back():
    """The age of the last failure grows; other machine types are not concerned; then it is over."""
    world = out_of_capacity()
    assert (world.bucket().last_capacity_failure, world.bucket().available_count) == (0.0, 0)
    assert world.bucket(vm_size=F4).last_capacity_failure == -1.0
    assert "had no capacity 0 s ago and is held back 60 s more" in world.create(1).message
    world.after(50)
    assert (world.bucket().last_capacity_failure, world.bucket().available_count) == (50.0, 0)
    world.after(10)
    assert world.bucket().available_count > 0


def test_capacity_can_change():
    """For a region and any of its sizes."""
    world = out_of_capacity()
    world.cloud.set_capacity(REGION, {F2.lower(): 3})
    assert world.cluster.retry_failed() == ["htc-3"]
    world.after(30)
    record = world.record("htc-3")
    assert (record["Status"], record["RetryCount"]) == ("Ready", 1)
    with pytest.raises(NotFound, match="did you mean 'westus2'"):
        world.cloud.set_capacity("westus1", {})


def test_nodes_whose_configuration_fails_stay_until_somebody_acts():
    """Retry starts them again, terminate ends them."""
    world = a_world(lifecycle={"boot_failure_rate": 1.0})
    world.create(2)
    world.after(1000)
    assert world.statuses() == {"htc-1": "Failed", "htc-2": "Failed"}
    assert world.bucket().active_count == 2
    world.manage("terminate", names=["htc-2"])
    assert world.cluster.retry_failed() == ["htc-1"]
    assert world.statuses() == {"htc-1": "Allocation", "htc-2": "Terminating"}
    assert a_world().cluster.retry_failed() == []


def test_a_spot_node_gets_notice_and_then_it_is_gone():
    """The journal says why."""
    world = booted(spot=True)
    assert world.cluster.evict(["htc-1"]) == ["htc-1"]
    assert world.statuses() == {"htc-1": "Unavailable"}
    world.after(9)
    assert world.statuses() == {"htc-1": "Unavailable"}
    world.after(1)
    assert world.statuses() == {}
    assert {e["cause"] for e in world.journal if e["event"] == "terminated"} == {"evicted"}


def test_spot_nodes_are_evicted_by_themselves_when_that_is_described():
    """After a random time."""
    world = booted(5, spot=True, lifecycle={"time_to_eviction": 1000})
    world.after(100_000)
    assert world.statuses() == {}


def test_only_running_spot_nodes_can_be_evicted():
    """Others are refused, and unknown ones not found."""
    with pytest.raises(Conflict, match="no running spot node"):
        booted().cluster.evict(["htc-1"])
    with pytest.raises(NotFound, match="has no node 'htc-9'"):
        booted(spot=True).cluster.evict(["htc-9"])


def test_nodes_can_be_made_to_fail():
    """Those that can; with a message."""
    world = booted(2)
    world.manage("terminate", names=["htc-2"])
    assert world.cluster.fail(["htc-1", "htc-2"], "disk") == ["htc-1"]
    assert world.record("htc-1")["StatusMessage"] == "disk"


def test_what_the_simulator_manages_cannot_be_edited():
    """Only other attributes."""
    with pytest.raises(Conflict, match="set by the simulator"):
        booted().cluster.edit(["htc-1"], {"status": "Ready"})


def test_the_journal_tells_who_caused_what():
    """Each entry has node, operation and request."""
    world = a_world()
    world.create(1, request_id="r1")
    world.after(30)
    world.manage("shutdown", names=["htc-1"], requestId="r2")
    world.after(10)
    told = [(e["event"], e["action"], e["request_id"], e["cause"]) for e in world.journal]
    assert told == [
        ("created", "create", "r1", "rest"),
        ("allocation", "create", "r1", "rest"),
        ("acquiring", "create", "r1", "rest"),
        ("preparing", "create", "r1", "rest"),
        ("ready", "create", "r1", "rest"),
        ("terminating", "shutdown", "r2", "rest"),
        ("terminated", "shutdown", "r2", "rest"),
        ("removed", "shutdown", "r2", "rest"),
    ]
    assert {e["node_id"] for e in world.journal} == {world.journal[0]["node_id"]}
    assert world.journal[0]["time"] == "1970-01-12T13:46:40.000Z"
