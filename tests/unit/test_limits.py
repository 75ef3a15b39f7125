"""Limits in cores and nodes, alone and as a bucket has them."""

import pytest

from builders.nodes import a_bucket, some_limits
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
)
from hpc.autoscale.explaining.raising import levels
from hpc.autoscale.node import limits
from hpc.autoscale.node.limits import BucketLimits, _SharedLimit, _SpotLimit, null_bucket_limits
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager


def shared(used=0, most=100, *counts, name="NodeArray(htc)"):
    """A shared limit."""
    return _SharedLimit(name, used, most, *counts)


def numbers(limits):
    """Every public number with `count` in its name, as integrations look for them."""
    found = {n: getattr(limits, n) for n in dir(limits) if "count" in n and not n.startswith("_")}
    return {name: value for name, value in found.items() if isinstance(value, int)}


# -- one shared limit


@pytest.mark.parametrize(
    ("limit", "vcpus", "most", "available", "active"),
    [
        (shared(0, 100), 4, 25, 25, 0),
        (shared(0, 100), 16, 6, 6, 0),
        (shared(10, 100), 4, 25, 22, 3),
        (shared(99, 100), 4, 25, 0, 25),
        (shared(0, 100, 0, 8), 4, 8, 8, 0),
        (shared(0, 100, 3, 8), 4, 8, 5, 3),
        (shared(0, 16, 1, 8), 4, 4, 4, 0),
        (shared(0, 0), 4, 0, 0, 0),
        (shared(0, 100), 0, 100, 100, 0),
    ],
)
def test_nodes_follow_from_cores(limit, vcpus, most, available, active):
    """The tighter of both counts; a size without cores counts as one of one core."""
    assert limit._max_count(vcpus) == most
    assert limit._available_count(vcpus) == available
    assert limit._active_count(vcpus) == active


def test_cores_below_zero_are_none():
    """Whatever a server says."""
    limit = shared(-5, -1)
    assert (limit._consumed_core_count, limit._max_core_count) == (0, 0)


@pytest.mark.parametrize(("used", "counts"), [(120, ()), (0, (9, 8))])
def test_more_in_use_than_allowed(caplog, used, counts):
    """Is all in use, also when a node goes, and one warning."""
    limit = shared(used, 100, *counts)
    assert limit._available_count(4) == 0
    limit.release(1, 4)
    assert limit._available_count(4) == 0
    assert len([r for r in caplog.records if "NodeArray(htc)" in r.getMessage()]) == 1


def test_what_is_beyond_a_limit_goes_first():
    """There is room once no more is left than the limit has, and nothing was planned."""
    limit = shared(0, 100, 10, 8)
    assert limit.planned_nodes == 0
    assert [(limit.release(1, 4), limit._available_count(4))[1] for _ in range(4)] == [0, 0, 1, 2]


def test_a_limit_as_high_as_numbers_go_is_none():
    """What servers write for no limit is not said as one, and nothing to raise."""
    limit, bounded = shared(8, 2**31 - 1), shared(8, 100)
    assert limit.describe() == "NodeArray(htc) has no limit in use"
    buckets = [a_bucket(limits=some_limits(nodearray_limits=each)) for each in (limit, bounded)]
    assert [level.limit for level in levels([limit, bounded], buckets)] == [bounded]


def test_decrement_uses_up_both():
    """And a negative one gives back, never below nothing."""
    limit = shared(0, 100, 0, 8)
    limit._decrement(3, 16)
    assert (limit._consumed_core_count, limit._available_count(16)) == (48, 3)
    limit._increment(1, 16)
    assert (limit._consumed_core_count, limit._available_count(16)) == (32, 4)
    limit._decrement(-1, 16)
    limit._increment(7, 16)
    assert (limit._consumed_core_count, limit._available_count(16)) == (0, 6)


@pytest.mark.parametrize(("nodes", "vcpus"), [(7, 16), (9, 1)])
def test_decrement_refuses_too_much(nodes, vcpus):
    """Either count will do; nothing is used up then."""
    limit = shared(0, 100, 0, 8)
    with pytest.raises(RuntimeError, match=r"^OutOfCapacity: NodeArray\(htc\)"):
        limit._decrement(nodes, vcpus)
    assert limit._available_count(1) == 8


def test_a_limit_says_what_it_is():
    """With its figures."""
    text = str(shared(20, 100, 5, 8))
    for part in ("NodeArray(htc)", "5 of 8 nodes", "20 of 100 cores"):
        assert part in text


# -- spot


def test_spot_reads_through_to_its_region():
    """Charging it does nothing; what the region uses is gone for it."""
    region = shared(45, 100, name="Spot(westus2)")
    spot = _SpotLimit(region)
    assert spot.name == "Spot"
    assert (spot._max_count(4), spot._available_count(4), spot._active_count(4)) == (25, 13, 12)
    spot._decrement(5, 4)
    assert spot._available_count(4) == 13
    region._decrement(5, 4)
    assert (spot._available_count(4), spot._consumed_core_count) == (8, 65)
    assert spot.bears(8, 35) and not spot.bears(8, 36)
    assert (
        str(spot)
        == str(region)
        == "Spot(westus2) has 65 of 100 cores in use or planned (20 cores planned)"
    )


# -- a kind of limit


ADDRESSES = limits.LimitKind(
    "subnet",
    text="Subnet({location})",
    scope=("location",),
    stated_by="bucket",
    max_nodes=("subnet_max_count",),
    used_nodes=("subnet_used_count",),
)


@pytest.fixture
def addresses(monkeypatch):
    """A kind of limit that there is not yet: addresses of a subnet, which buckets of a region
    share."""
    monkeypatch.setattr(limits, "KINDS", (*limits.KINDS, ADDRESSES))
    for number in ("max_count", "available_count", "consumed_count"):
        # forgotten after the test
        monkeypatch.setattr(BucketLimits, f"subnet_{number}", None, raising=False)
        delattr(BucketLimits, f"subnet_{number}")
    limits._publish(ADDRESSES)


def test_a_kind_of_limit_is_a_row(addresses):
    """It is read from the status, shared, charged, published and given as a reason."""
    cluster = MockClusterBinding()
    cluster.add_nodearray("htc", {"ncpus": "node.vcpu_count"})
    for size in ("Standard_F4", "Standard_F8"):
        bucket = cluster.add_bucket("htc", size, max_count=50, available_count=50)
        bucket.subnet_max_count, bucket.subnet_used_count = 10, 4
    manager = new_node_manager({"_mock_bindings": cluster}, NullNodeHistory())
    f4, f8 = manager.get_buckets()
    assert (f4.limits.subnet_max_count, f4.limits.subnet_available_count) == (10, 6)
    assert len(manager.allocate({"node.vm_size": "Standard_F4"}, node_count=5).nodes) == 5
    assert (f8.limits.subnet_available_count, f8.available_count) == (1, 1)
    refused = manager.allocate({"node.vm_size": "Standard_F8"}, node_count=2, all_or_nothing=True)
    assert "Subnet(westus2) has 10 of 10 nodes in use or planned" in str(refused.reasons)


def test_a_kind_that_a_server_does_not_know_is_no_limit(addresses):
    """And limits that somebody made without it have no number for it."""
    cluster = MockClusterBinding()
    cluster.add_nodearray("htc", {})
    cluster.add_bucket("htc", "Standard_F4", max_count=50, available_count=50)
    (bucket,) = new_node_manager({"_mock_bindings": cluster}, NullNodeHistory()).get_buckets()
    assert bucket.available_count == 50
    assert bucket.limits.subnet_available_count > 10**6
    assert some_limits().subnet_available_count == -1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([(100, 40), (None, None)], (100, 40)),
        ([(None, None), (100, 40)], (100, 40)),
        ([(100, 40), (50, 10)], (100, 40)),
        ([(None, 12), (None, None)], (2**31 - 1, 12)),
        ([(None, 12), (50, 10)], (50, 10)),
    ],
)
def test_the_first_that_says_the_most_there_can_be_counts(said, expected):
    """Quotas of a region, as its buckets say them; one that says nothing takes nothing back."""
    cluster = MockClusterBinding()
    cluster.add_nodearray("htc", {})
    for size, figures in zip(("Standard_F4", "Standard_F8"), said, strict=True):
        bucket = cluster.add_bucket("htc", size, max_count=50, available_count=50)
        bucket.regional_quota_core_count, bucket.regional_consumed_core_count = figures
    for bucket in new_node_manager({"_mock_bindings": cluster}, NullNodeHistory()).get_buckets():
        found = bucket.limits
        assert (found.regional_quota_core_count, found.regional_consumed_core_count) == expected


# -- the limits of a bucket


def test_published_names():
    """The command line shows all of these."""
    expected = (
        "active_core_count active_count available_core_count available_count max_core_count "
        "max_count regional_consumed_core_count regional_quota_core_count "
        "regional_quota_count regional_available_count cluster_consumed_core_count "
        "cluster_max_core_count cluster_max_count cluster_available_count "
        "nodearray_consumed_core_count nodearray_max_core_count nodearray_max_count "
        "nodearray_available_count family_consumed_core_count family_max_core_count "
        "family_max_count family_available_count placement_group_max_count "
        "placement_group_available_count"
    )
    assert set(expected.split()) <= set(numbers(some_limits()))


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("regional_limits", "NodeArray(x)"),
        ("cluster_limits", "Region(x)"),
        ("nodearray_limits", "Cluster"),
        ("family_limits", "Family(x)"),
        ("placement_group_limits", "Group(x)"),
    ],
)
def test_names_must_say_what_they_are(role, name):
    """They are in messages; a limit in the wrong place is refused."""
    with pytest.raises(AssertionError, match="limit named"):
        some_limits(**{role: shared(name=name)})


def test_decrement_charges_every_limit():
    """Own, region, cluster, nodearray, family and placement group; increment gives back."""
    group = shared(0, 40, name="PlacementGroup(pg0)")
    limits = some_limits(10, 4, placement_group_limits=group)
    before = numbers(limits)
    limits.decrement(3)
    after = numbers(limits)
    for name in before:
        if before[name] == -1:
            continue  # a kind that these limits do not have
        if name.endswith("available_count"):
            assert after[name] == before[name] - 3, name
        elif name.endswith("consumed_core_count"):
            assert after[name] == before[name] + 12, name
    assert (after["active_count"], after["active_core_count"]) == (3, 12)
    assert (after["available_core_count"], after["max_count"]) == (28, before["max_count"])
    limits.increment(3)
    assert numbers(limits) == before


@pytest.mark.parametrize(
    "role",
    ["regional_limits", "cluster_limits", "nodearray_limits", "family_limits"],
)
def test_decrement_is_all_or_nothing(role):
    """When one limit cannot bear it, none is charged."""
    start = {"family_limits": "VM Family", "regional_limits": "Region", "cluster_limits": "Cluster"}
    name = start.get(role, "NodeArray") + "(tight)"
    limits = some_limits(10, 4, **{role: shared(0, 11, name=name)})
    before = numbers(limits)
    with pytest.raises(RuntimeError, match="OutOfCapacity"):
        limits.decrement(3)
    assert numbers(limits) == before
    limits.decrement(2)


def test_no_more_is_given_back_than_is_in_use():
    """The nodes that the server had counted may go, and no others."""
    limits = null_bucket_limits(2, 4)
    for _ in range(3):
        limits.increment(1)
    assert (limits.available_count, limits.active_count, limits.active_core_count) == (2, 0, 0)


def test_a_placement_group_is_one_more_limit():
    """The smaller of both counts, in nodes and in cores."""
    tight = some_limits(3, 4, placement_group_limits=shared(0, 400, name="PlacementGroup(a)"))
    assert (tight.available_count, tight.available_core_count, tight.max_count) == (3, 12, 3)
    assert (tight.placement_group_available_count, tight.placement_group_max_count) == (100, 100)
    small = some_limits(100, 4, placement_group_limits=shared(0, 80, name="PlacementGroup(a)"))
    assert (small.available_count, small.available_core_count, small.max_count) == (20, 80, 20)
    assert small.max_core_count == 80
    outside = some_limits()
    assert (outside.placement_group_max_count, outside.placement_group_available_count) == (-1, -1)


def test_variants_of_a_bucket_share_its_count():
    """What a placement group uses is gone outside of it."""
    limits = some_limits(10)
    inside = limits.in_placement_group(shared(0, 80, name="PlacementGroup(a)"))
    inside.decrement(4)
    assert (limits.available_count, inside.available_count, limits.active_count) == (6, 6, 4)


def test_own_room_is_the_tighter_of_nodes_and_cores():
    """A server may report either."""
    arguments = {
        "regional_limits": shared(name="Region(a)"),
        "cluster_limits": shared(name="Cluster"),
        "nodearray_limits": shared(),
        "family_limits": shared(name="VM Family(f)"),
        "placement_group_limits": None,
        "active_core_count": 8,
        "active_count": 2,
        "available_core_count": 13,
        "available_count": 9,
        "max_core_count": 40,
        "max_count": 10,
    }
    limits = BucketLimits(4, **arguments)
    assert (limits.available_count, limits.active_count, limits.max_count) == (3, 2, 10)


def test_null_limits():
    """Everything in use, nothing to be had."""
    limits = null_bucket_limits(3, 4)
    assert (limits.available_count, limits.active_count, limits.max_count) == (0, 3, 3)
    assert (limits.regional_available_count, limits.nodearray_available_count) == (0, 0)
    with pytest.raises(RuntimeError, match="OutOfCapacity"):
        limits.decrement(1)
    assert "Bucket" in str(limits)
    assert null_bucket_limits(0, 0).available_count == 0


def a_status(most, *sizes):
    """A cluster of at most so many nodes, with a nodearray of buckets `(max, available)`."""
    buckets = [NodearrayBucketStatus(max_count=m, available_count=room) for m, room in sizes]
    array = ClusterNodearrayStatus(name="htc", buckets=buckets)
    return ClusterStatus(max_count=most, nodearrays=[array])


@pytest.mark.parametrize(
    ("status", "there", "running", "expected"),
    [
        (a_status(10, (10, 6), (8, 6)), 4, 4, (10, 4)),
        # a quota leaves less room: no contradiction
        (a_status(10, (10, 1)), 4, 4, (10, 4)),
        # the server does not count two nodes that are on their way out; they are there yet
        (a_status(10, (10, 6)), 6, 4, (10, 6)),
        # nor the head node, which takes no place then
        (a_status(10, (10, 6)), 7, 5, (10, 6)),
        # nobody holds to the figure, or there is none
        (a_status(10, (11, 0)), 4, 4, (limits.NO_LIMIT, 4)),
        (a_status(None, (11, 0)), 4, 4, (limits.NO_LIMIT, 4)),
        (a_status("many", (11, 0)), 4, 4, (limits.NO_LIMIT, 4)),
        (a_status(10, ("many", None), (10, 6)), 4, 4, (10, 4)),
    ],
)
def test_nodes_of_a_cluster_are_counted_as_its_server_does(status, there, running, expected):
    """What takes a place of the limit of a whole cluster, and whether there is such a limit."""
    assert limits.nodes_of_cluster(status, there, running) == expected


def test_a_mock_holds_to_a_number_of_nodes_that_was_written():
    """The 1,000 that it has at first never bound anybody; published figures are by cores."""
    mock = MockClusterBinding()
    for name in ("htc", "more"):
        mock.add_nodearray(name, {})
        mock.add_bucket(name, "Standard_F4", max_count=900, available_count=900)

    def planned():
        manager = new_node_manager({"_mock_bindings": mock})
        found = [manager.allocate({"node.nodearray": n}, node_count=900) for n in ("htc", "more")]
        first, *_ = manager.get_buckets()
        figures = first.limits.cluster_max_count, first.limits.cluster_available_count
        return [len(each.nodes) for each in found], figures

    assert planned() == ([900, 900], (2500, 700))
    mock.max_count = 1_000
    assert planned() == ([900, 100], (2500, 1500))


def test_what_a_bucket_can_take_counts_nodes_that_are_gone():
    """The places of nodes that have gone are free, and nothing is planned by that; what is planned
    afterwards takes them."""
    own = some_limits(available=2).own
    own.bear(1, 4)
    assert own.describe() == "Bucket can take 1 new nodes, and 0 are planned"
    own.release(1, 4)
    assert own.describe() == "Bucket can take 2 new nodes, and 0 are planned"
    own.charge(2, 8)
    assert own.describe() == "Bucket can take 2 new nodes, and 2 are planned"
