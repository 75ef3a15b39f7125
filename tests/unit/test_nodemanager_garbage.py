"""What a node manager makes of replies that make no sense: the bad item is set aside, and the
others work."""

import pytest

from builders.nodes import F4, names
from builders.replies import (
    a_record,
    array_status,
    bucket_status,
    build_from,
    cluster_status,
    only_bucket,
)
from hpc.autoscale.ccbindings.models import NodearrayBucketStatusVirtualMachine as Machine


@pytest.mark.parametrize(
    "garbled",
    [
        {"definition": ...},
        {"virtual_machine": ...},
        {"virtual_machine": "Standard_F8"},
        {"virtual_machine": Machine(vcpu_count=0, memory=1.0)},
        {"virtual_machine": Machine(vcpu_count="many", memory=1.0)},
        {"virtual_machine": Machine(vcpu_count=8, memory="much")},
        {"available_count": "lots"},
        {"max_placement_group_size": float("inf")},
        {"placement_groups": 7},
        {"bucket_id": ...},
    ],
)
def test_a_garbled_bucket_is_set_aside(garbled):
    """The others work, its nodes are shown, and one sentence says so."""
    sizes = [bucket_status("Standard_F8", 8, **garbled), bucket_status()]
    records = [a_record("htc-1", MachineType="Standard_F8"), a_record("htc-2")]
    result = build_from(cluster_status(array_status(buckets=sizes)), records)
    assert [(b.vm_size, b.valid, names(b.nodes)) for b in result.buckets] == [
        (F4, True, ["htc-2"]),
        ("Standard_F8", False, ["htc-1"]),
    ]
    assert "nodearray htc" in result.problems[0]
    assert "set aside" in result.problems[0]


@pytest.mark.parametrize(
    "record",
    [
        {"Region": ...},
        {"Region": 7},
        {"Configuration": {"autoscale": {"resources": ["x"]}}},
        {"Configuration": {"autoscale": {"resources": {"mem": "size::4q"}}}},
        {"Memory": "much"},
    ],
)
def test_a_garbled_nodearray_is_set_aside(record):
    """The other nodearrays work."""
    result = build_from(cluster_status(array_status("bad", **record), array_status("good")))
    assert [b.nodearray for b in result.buckets] == ["good"]
    assert any("nodearray bad" in problem for problem in result.problems)


def test_figures_that_are_none_are_not_heeded():
    """A limit that makes no sense is said, and the rest is used."""
    status = cluster_status(
        array_status(max_count="many", max_core_count=None, Priority="high"), max_core_count="all"
    )
    result = build_from(status)
    assert (result.buckets[0].available_count, result.buckets[0].priority) == (10, 1000)
    assert [p.partition(":")[0] for p in result.problems] == [
        "cluster",
        "nodearray htc",
        "nodearray htc",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        7,
        "text",
        {},
        {"Name": "x"},
        a_record("x", NodeId=...),
        a_record("x", MachineType=None),
        a_record("x", Template=["htc"]),
        a_record("x", Status=5),
        a_record("x", CoreCount="many"),
        a_record("x", Memory="much"),
        a_record("x", Hostname=5, PrivateIp=5),
        a_record("x", Configuration="none"),
        a_record("x", Configuration={"autoscale": {"resources": {"m": "size::4q"}}}),
    ],
)
def test_a_garbled_record_stops_nothing(bad):
    """The other nodes are there, in both listings."""
    bucket = only_bucket(cluster_status(), [a_record("htc-2"), bad, a_record("htc-1")])
    assert [n for n in names(bucket.nodes) if n != "x"] == ["htc-1", "htc-2"]


def test_a_node_without_a_target_is_ordinary():
    """W21: it is left alone, without a complaint; its name is taken."""
    result = build_from(
        cluster_status(), [a_record(TargetState=...), a_record("htc-2", TargetState=None)]
    )
    assert (result.buckets[0].nodes, result.problems) == ([], [])
    assert result.names == ["htc-1", "htc-2"]


def test_a_node_that_is_listed_twice_is_one():
    """By its id."""
    assert names(only_bucket(cluster_status(), [a_record(), a_record()]).nodes) == ["htc-1"]
