"""Region weights: how many nodes each region gets, whatever a queue is made of."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.constraints import Owned, of_class, saying
from builders.waiting_queue import WaitingQueue
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node.node import UnmanagedNode
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.node.vm_sizes import all_possible_locations, get_aux_vm_size_info
from hpc.autoscale.packing import search, shares
from hpc.autoscale.packing.shares import NodeShare, apportioned, in_turn, new_nodes
from hpc.autoscale.workers import WorkerDemand, prepare

SIZE = "Standard_F4s_v2"  # four vCPUs
REGIONS = ("eastus", "westus3", "northeurope")
WEIGHTS = {"eastus": 3, "westus3": 1, "northeurope": 0}
NODE = {"ncpus": 4}

weights = st.lists(st.integers(0, 1000), min_size=1, max_size=6).filter(any)
counts = st.integers(0, 2000)


def a_cluster(most=None, regions=REGIONS, sizes=(SIZE,)):
    """A nodearray in each region, which may have so many nodes of each size; 5,000 unless told."""
    binding = MockClusterBinding("c")
    binding.max_core_count = 10**6
    for region in regions:
        binding.add_nodearray(region, {}, location=region)
        for size in sizes:
            count = (most or {}).get(region, 5000)
            binding.add_bucket(region, size, max_count=count, available_count=count)
    return binding


def a_manager(binding=None, weights=WEIGHTS, **packing):
    """A manager as a pass makes it."""
    policy = {"regions": weights, **packing.pop("policy", {})}
    config = {
        "_mock_bindings": binding or a_cluster(),
        "packing": {"policy": policy, **packing},
    }
    return new_node_manager(config, disable_default_resources=False)


def split(manager):
    """How many nodes each region has and gets."""
    return Counter(node.location for node in manager.get_nodes())


def one_by_one(manager, nodes, wanted=NODE):
    """A job for each node."""
    for _ in range(nodes):
        assert manager.allocate(wanted, slot_count=1)


def at_once(manager, nodes, wanted=NODE):
    """One job of so many tasks."""
    manager.allocate(wanted, slot_count=nodes)


def as_nodes(manager, nodes):
    """One job of so many nodes."""
    manager.allocate({}, node_count=nodes)


WAYS = [one_by_one, at_once, as_nodes]


@given(weights, counts)
def test_seats_are_by_largest_remainder(given, total):
    """All of them, each part within one of its exact share, and nothing for weight 0."""
    seats = apportioned(given, total)
    assert sum(seats) == total
    for weight, seat in zip(given, seats, strict=True):
        assert total * weight // sum(given) <= seat <= -(-total * weight // sum(given))


@given(weights, st.lists(counts, min_size=6, max_size=6), counts)
def test_new_nodes_make_up_for_what_is_short(given, there, nodes):
    """All of them are given out; with nobody above their share the outcome is exact, and who has
    more than their share gets none."""
    there = there[: len(given)]
    found = new_nodes(given, there, nodes)
    assert sum(found) == nodes and min(found) >= 0
    assert not any(new for new, weight in zip(found, given, strict=True) if not weight)
    live = [count for count, weight in zip(there, given, strict=True) if weight]
    whole = apportioned([weight for weight in given if weight], sum(live) + nodes)
    if all(seat >= count for seat, count in zip(whole, live, strict=True)):
        new = [each for each, weight in zip(found, given, strict=True) if weight]
        assert [a + b for a, b in zip(live, new, strict=True)] == whole


@given(weights, st.integers(0, 60))
def test_one_by_one_comes_nearly_to_the_same(given, nodes):
    """Of two parts exactly; of more it may be short, where one seat more takes one from another."""
    parts = [NodeShare("part", weight) for weight in given]
    for _ in range(nodes):
        next(in_turn(parts)).charge(1, 0)
    exact = apportioned(given, nodes)
    most = max(0, len(given) - 2)
    assert all(abs(s.used_nodes - e) <= most for s, e in zip(parts, exact, strict=True))


def test_whose_turn_it_is_costs_a_node_the_same_in_any_number_of_regions(monkeypatch):
    """It is worked out for who is asked, and not for all who might be."""
    asked = []
    for module in (shares, search):
        monkeypatch.setattr(
            module, "new_nodes", lambda *given: asked.append(given) or new_nodes(*given)
        )
    for count in (3, 30):
        regions = [each for each in all_possible_locations() if _has_size(each)][:count]
        manager = a_manager(a_cluster(regions=regions), dict.fromkeys(regions, 2))
        asked.clear()
        one_by_one(manager, count)
        assert split(manager) == dict.fromkeys(regions, 1)
        assert len(asked) <= 2 * count


def _has_size(region):
    return get_aux_vm_size_info(region, SIZE).vcpu_count == 4


@pytest.mark.parametrize("way", WAYS)
def test_a_thousand_nodes(way):
    """3:1:0 is 750, 250 and none."""
    manager = a_manager()
    way(manager, 1000)
    assert split(manager) == {"eastus": 750, "westus3": 250}


@pytest.mark.parametrize(
    ("most", "first", "second"),
    [
        ({}, {"eastus": 75, "westus3": 25}, {"eastus": 150, "westus3": 50}),
        ({"eastus": 20}, {"eastus": 20, "westus3": 80}, {"eastus": 120, "westus3": 80}),
    ],
)
def test_the_loop_gives_each_job_its_node_by_weight(tmp_path, most, first, second):
    """3:1:0, in two passes; and with one region capped in the first of them."""
    binding = a_cluster(most)
    config = {
        "_mock_bindings": binding,
        "lock_file": None,
        "nodehistorydb": str(tmp_path / "nodehistory.db"),
        "packing": {"policy": {"regions": WEIGHTS}},
    }
    for jobs, expected in ((100, first), (200, second)):
        assert Autoscaler(config, WaitingQueue(jobs)).run_once().errors == ()
        assert Counter(node.nodearray for node in binding.nodes.values()) == expected
        bucket = binding.nodearrays["eastus"].buckets[0]
        bucket.max_count = bucket.available_count = 5000


@pytest.mark.parametrize("way", WAYS[:2])
def test_ten_passes_of_a_hundred(way):
    """What runs is counted: the same as at once, after each of them."""
    binding = a_cluster()
    for number in range(1, 11):
        manager = a_manager(binding)
        for node in manager.get_nodes():
            node.closed = True  # they have work
        way(manager, 100)
        assert manager.bootup()
        assert split(manager) == {"eastus": 75 * number, "westus3": 25 * number}


@pytest.mark.parametrize("way", WAYS[:2])
def test_a_region_at_its_limit_leaves_its_share_to_the_others(way):
    """And the rest is by weight."""
    manager = a_manager(a_cluster({"eastus": 100}), {"eastus": 3, "westus3": 2, "northeurope": 1})
    way(manager, 1000)
    assert split(manager) == {"eastus": 100, "westus3": 600, "northeurope": 300}


@pytest.mark.parametrize("way", WAYS[1:])
def test_only_new_nodes_move_when_the_limit_is_lifted(way):
    """They all go where the share is short, until it is not."""
    binding = a_cluster({"eastus": 10})
    manager = a_manager(binding)
    way(manager, 100)
    manager.bootup()
    assert split(manager) == {"eastus": 10, "westus3": 90}
    bucket = binding.nodearrays["eastus"].buckets[0]
    bucket.max_count = bucket.available_count = 5000
    manager = a_manager(binding)
    for node in manager.get_nodes():
        node.closed = True
    way(manager, 260)
    assert split(manager) == {"eastus": 270, "westus3": 90}


def test_weight_0_is_never():
    """Also where nothing else is left; the reason says so."""
    manager = a_manager(a_cluster({"eastus": 1, "westus3": 1}))
    refused = manager.allocate(NODE, slot_count=3)
    assert split(manager) == {"eastus": 1, "westus3": 1}
    assert any("Region northeurope has weight 0" in reason for reason in refused.reasons)


def test_a_gang_is_whole_in_one_region():
    """In the one that is the furthest behind; and the next ones make up for it."""
    manager = a_manager()
    for _ in range(4):
        assert manager.allocate(NODE, slot_count=20, all_or_nothing=True)
    assert split(manager) == {"eastus": 60, "westus3": 20}


def test_nodes_are_counted_and_not_slots():
    """Of nodes that hold several, and of sizes that hold more than others."""
    manager = a_manager()
    manager.allocate({"ncpus": 1}, slot_count=1000)
    assert split(manager) == {"eastus": 188, "westus3": 62}
    binding = a_cluster(regions=("eastus",))
    binding.add_nodearray("westus3", {}, location="westus3")
    binding.add_bucket("westus3", "Standard_F8s_v2", max_count=5000, available_count=5000)
    manager = a_manager(binding, {"eastus": 3, "westus3": 1})
    manager.allocate({"ncpus": 1}, slot_count=2000)
    found = split(manager)
    assert abs(found["eastus"] - 3 * found["westus3"]) <= 3
    assert 4 * found["eastus"] + 8 * found["westus3"] >= 2000


def test_a_job_that_can_run_in_one_region_runs_there():
    """Whatever the weights are; the others make up for it. What a job prefers goes first, too."""
    manager = a_manager()
    manager.allocate({**NODE, "node.location": "westus3"}, slot_count=10)
    manager.allocate(NODE, slot_count=30)
    assert split(manager) == {"eastus": 30, "westus3": 10}
    manager.allocate({**NODE, "node.location": ["westus3", "eastus"]}, slot_count=10)
    assert split(manager) == {"eastus": 30, "westus3": 20}


def test_within_a_region_another_policy_decides():
    """By its name."""
    binding = a_cluster(sizes=("Standard_F32s_v2", SIZE))
    manager = a_manager(binding, policy={"within": "cheapest"})
    manager.allocate({"ncpus": 1}, slot_count=4)
    assert {node.vm_size for node in manager.new_nodes} == {SIZE}


@pytest.mark.parametrize("way", [one_by_one, at_once])
@pytest.mark.parametrize("prefers", [False, True])
def test_weights_hold_for_constraints_of_an_integration(way, prefers):
    """Unless these prefer a region themselves, be it the one that comes first in any case."""

    def first(self, weights):
        return [(b, w + 100 * (b.location == "eastus")) for b, w in weights]

    changes = {"weight_buckets": first} if prefers else {}
    wanted = of_class(Owned, satisfied_by_node=saying(lambda self, node: True), **changes)
    manager = a_manager()
    manager.add_default_resource({}, "tokens", 1)
    way(manager, 8, [NODE, wanted("me")])
    assert split(manager) == ({"eastus": 8} if prefers else {"eastus": 6, "westus3": 2})


def test_a_resource_that_each_node_is_asked_for_changes_no_weights():
    """Whether nodes are told apart by what they look like or one by one."""
    manager = a_manager()
    manager.add_default_resource({}, "seats", lambda node: 4)
    at_once(manager, 8, {**NODE, "seats": 1})
    assert split(manager) == {"eastus": 6, "westus3": 2}


def test_weights_hold_for_jobs_that_ask_for_more_than_amounts():
    """As long as they prefer nothing."""
    manager = a_manager()
    at_once(manager, 8, {**NODE, "node.vm_size": SIZE})
    assert split(manager) == {"eastus": 6, "westus3": 2}


def test_weights_hold_beside_machines_that_cannot_be_ordered():
    """They are used first and are in no region's share."""
    manager = a_manager()
    manager.add_unmanaged_nodes([UnmanagedNode("tux", NODE)])
    at_once(manager, 9)
    assert split(manager) == {"unknown": 1, "eastus": 6, "westus3": 2}


def test_the_first_node_goes_where_most_of_a_node_is_due():
    """With one node for three shares it is the region with two of them, in any order."""
    manager = a_manager(weights={"eastus": 1, "westus3": 2, "northeurope": 0})
    one_by_one(manager, 1)
    assert split(manager) == {"westus3": 1}


WRONG = [
    ({"eastsu": 1}, {}, "regions of the buckets .* found 'eastsu'; did you mean 'eastus'"),
    ({"eastus": 0}, {}, "a region with a weight above 0"),
    ({"eastus": -1}, {}, "regions.eastus: expected a weight, a number of 0 or more, found -1"),
    ({"eastus": "3"}, {}, "regions.eastus: expected a weight"),
    ({}, {}, "weights by region, an object with at least one"),
    ({"eastus": 1}, {"objective": "cost"}, "no weights of regions with packing.objective 'cost'"),
    ({"eastus": 1}, {"order": "declared"}, "no weights of regions with packing.order 'declared'"),
    ({"eastus": 1}, {"policy": {"within": "cheepest"}}, "within: .*did you mean 'cheapest'"),
    ({"eastus": 1}, {"policy": {"witihn": "cheapest"}}, "witihn: unknown key"),
]


@pytest.mark.parametrize(("weights", "packing", "said"), WRONG)
def test_weights_that_make_no_sense_are_refused(weights, packing, said):
    """In one line, with a guess."""
    with pytest.raises(ConfigurationException, match=said):
        a_manager(None, weights, **packing)


@pytest.mark.parametrize(
    ("configuration", "has_bucket"), [({}, False), ({"autoscale": {"enabled": False}}, True)]
)
def test_a_region_whose_nodearray_is_disabled_keeps_no_other_from_growing(
    configuration, has_bucket
):
    """Nor one without any machine type that can be used at the time. A typo is still one."""
    binding = a_cluster(regions=("eastus", "westus3"))
    binding.add_nodearray("off", {}, location="northeurope", software_configuration=configuration)
    if has_bucket:
        binding.add_bucket("off", SIZE, max_count=9, available_count=9)
    manager = a_manager(binding, {"eastus": 2, "westus3": 1, "northeurope": 1})
    manager.allocate(NODE, slot_count=30)
    assert split(manager) == {"eastus": 20, "westus3": 10}
    with pytest.raises(ConfigurationException, match="'northeurpe'; did you mean 'northeurope'"):
        a_manager(binding, {"eastus": 2, "northeurpe": 1})


def test_a_region_without_a_weight_is_a_doubt():
    """Nothing is opened there, and somebody may have forgotten it."""
    manager = a_manager(None, {"eastus": 1, "westus3": 0.5})
    assert manager.doubts == [
        "packing.policy.regions: says nothing of northeurope, where no new node is made"
    ]
    manager.allocate(NODE, slot_count=3)
    assert split(manager) == {"eastus": 2, "westus3": 1}


def test_nodes_of_workers_that_are_wanted_by_number_are_shared_out():
    """They may run on nodes that say nothing of whose they are, and on their own, and prefer
    neither."""
    manager = a_manager()
    demand = WorkerDemand(10_000, jobs_per_worker=10, slots_per_node=10).jobs()
    prepare(manager, demand)
    for job in demand:
        assert job.do_allocate(manager, all_or_nothing=False)
    assert split(manager) == {"eastus": 75, "westus3": 25}
