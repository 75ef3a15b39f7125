"""The builders of the kit: what they make, and that it fits together."""

import pytest

from hpc.autoscale import clock
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.testing import (
    VM_SIZE,
    Nodearray,
    a_cluster,
    a_config,
    a_description,
    a_host,
    a_job,
    a_mock_clock,
    a_node,
    a_simulated_cluster,
)


def new_nodes(config, *jobs, hosts=()):
    """The nodes that these jobs need, by nodearray and number."""
    calculator = new_demand_calculator(config, list(hosts), node_history=NullNodeHistory())
    calculator.add_jobs(jobs)
    return [node.name for node in calculator.finish().new_nodes]


def test_a_cluster_says_nothing_and_has_one_nodearray():
    """Ten nodes of four cores."""
    (bucket,) = new_node_manager(a_config(a_cluster())).get_buckets()
    assert (bucket.nodearray, bucket.vm_size, bucket.vcpu_count) == ("htc", VM_SIZE, 4)
    assert bucket.available_count == 10


def test_a_cluster_of_several_nodearrays():
    """By VM size and count, or with everything that a nodearray can say."""
    cluster = a_cluster(
        "mine",
        htc={"Standard_F4s_v2": 3, "Standard_F2s_v2": 2},
        hpc=Nodearray(
            {"Standard_HB120rs_v3": 4},
            spot=True,
            resources={"slots": 7},
            placement_groups=["pg0"],
            configuration={"autoscale": {"enabled": True}, "site": {"rack": 3}},
        ),
    )
    buckets = new_node_manager(a_config(cluster)).get_buckets()
    assert [(b.nodearray, b.vm_size, b.placement_group) for b in buckets] == [
        ("htc", "Standard_F4s_v2", None),
        ("htc", "Standard_F2s_v2", None),
        ("hpc", "Standard_HB120rs_v3", "pg0"),
        ("hpc", "Standard_HB120rs_v3", None),
    ]
    assert [b.available_count for b in buckets] == [3, 2, 4, 4]
    assert buckets[3].spot
    assert buckets[3].resources["slots"] == 7
    assert buckets[3].software_configuration["site"] == {"rack": 3}


def test_a_job_needs_a_core_for_each_task():
    """Unless it says otherwise: needs, or whole nodes."""
    config = a_config(a_cluster(htc={VM_SIZE: 10}, gpu={"Standard_NC4as_T4_v3": 2}))
    assert new_nodes(config, a_job(tasks=5)) == ["htc-1", "htc-2"]
    assert new_nodes(config, a_job("train", {"ngpus": 1}, tasks=2)) == ["gpu-1", "gpu-2"]
    assert new_nodes(config, a_job(nodes=3)) == ["htc-1", "htc-2", "htc-3"]


def test_a_host_has_what_is_free():
    """Its jobs are assigned, and what is free is less than what it has."""
    cluster = a_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-0a010002")
    host = a_host("ip-0a010002", "41", "42", free={"ncpus": 1}, ncpus=4)
    assert host.assignments == {"41", "42"}
    assert host.resources["ncpus"] == 4
    assert new_nodes(a_config(cluster), a_job(tasks=1), hosts=[host]) == []
    assert new_nodes(a_config(cluster), a_job(tasks=2), hosts=[host]) == ["htc-2"]


def test_a_node_is_ready_and_has_a_host_name():
    """Nodearray from its name, cores from its size, an id since it exists."""
    node = a_node(
        "hpc-2", vm_size="Standard_HB120rs_v3", jobs=["7"], placement_group="pg0", slots=2
    )
    assert (node.nodearray, node.state, node.hostname) == ("hpc", "Ready", "hpc-2")
    assert (node.vcpu_count, node.available["ncpus"], node.available["slots"]) == (120, 120, 2)
    assert (node.delayed_node_id.node_id, node.exists) == ("id-hpc-2", True)
    assert (node.assignments, node.placement_group) == ({"7"}, "pg0")


def test_a_node_that_boots_has_no_host_name_unless_it_is_given():
    """As in CycleCloud."""
    assert a_node(state="Preparing").hostname is None
    assert a_node(state="Preparing", hostname="ip-0a010002").hostname == "ip-0a010002"


def test_a_planned_node_has_no_id():
    """It does not exist."""
    node = a_node(state="Off", exists=False)
    assert (node.delayed_node_id.node_id, node.exists, node.target_state) == (None, False, "Off")


def test_a_node_of_an_unknown_size():
    """The error guesses the typo."""
    with pytest.raises(AutoscaleError, match="Standard_F4s_v2"):
        a_node(vm_size="Standard_F4s_V22")


def test_the_mock_clock_is_the_clock_for_a_while():
    """And the one before it afterwards, also when something was raised."""
    before = clock._clock
    with pytest.raises(KeyError), a_mock_clock(5.0) as now:
        now.sleep(2)
        assert clock.time() == 7.0
        raise KeyError
    assert clock._clock is before


def test_a_simulated_cluster_is_the_same_cluster():
    """Behind a server: the same buckets, resources and needs, and nodes that boot when the clock
    moves."""
    pytest.importorskip("werkzeug")
    nodearrays = {
        "htc": {VM_SIZE: 3},
        "hpc": Nodearray({"Standard_HB120rs_v3": 4}, resources={"slots": 7}, max_count=2),
    }
    with a_simulated_cluster("mine", **nodearrays) as simulated:
        node_mgr = new_node_manager(simulated.config)
        expected = new_node_manager(a_config(a_cluster("mine", **nodearrays)))
        assert [seen_in(b) for b in node_mgr.get_buckets()] == [
            seen_in(b) for b in expected.get_buckets()
        ]
        assert node_mgr.allocate({"ncpus": 4}, slot_count=2)
        node_mgr.bootup()
        simulated.simulator.clock.settle()
        assert [node["Status"] for node in simulated.handle.nodes()] == ["Ready", "Ready"]


def seen_in(bucket):
    """What a bucket is, and how much of it there may be."""
    return (
        bucket.nodearray,
        bucket.vm_size,
        bucket.placement_group,
        bucket.available_count,
        bucket.resources.get("slots"),
    )


def test_a_description_is_a_dict_to_add_to():
    """Regions, lifecycle, faults."""
    description = a_description(htc={VM_SIZE: 3})
    assert list(description["clusters"]) == ["clusty"]
    assert description["clusters"]["clusty"]["nodearrays"]["htc"]["machine_types"] == [
        {"name": VM_SIZE, "max_count": 3}
    ]
