"""Order policies from the configuration to the plan: which buckets of a mock cluster get the
jobs."""

from collections import Counter
from copy import deepcopy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import a_manager
from hpc.autoscale import results
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import BaseNodeConstraint
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.vm_sizes.info import configure
from hpc.autoscale.packing.order import (
    PolicyError,
    least_waste,
    register_policy,
    unregister_policy,
)
from hpc.autoscale.results import SatisfiedResult
from hpc.autoscale.testing import a_cluster

PRICES = {"westus2": {"Standard_F8": 0.2, "Standard_F4": 0.2, "Standard_F2": {"spot": 0.01}}}
"""A node of F4 is as cheap as one of F8, which is the cheapest regular one for each core."""


def cluster(spot_limit=2, **facts):
    """Regular F4, F16 (of which nobody knows the price here) and F8, spot F2; `facts` by size."""
    binding = MockClusterBinding("mock")
    binding.add_nodearray("htc", {}, location="westus2")
    binding.add_nodearray("low", {}, location="westus2", spot=True)
    made = {
        size: binding.add_bucket("htc", f"Standard_{size}", 2, 2) for size in ("F4", "F16", "F8")
    }
    made["F2"] = binding.add_bucket("low", "Standard_F2", spot_limit, spot_limit)
    for size, (since, score) in facts.items():
        made[size].last_capacity_failure, made[size].spot_placement_score = since, score
    return binding


def calculator(binding, **packing):
    """A demand calculator as an integration makes one."""
    config = {"_mock_bindings": binding, "packing": packing, "vm_sizes": {"prices": PRICES}}
    return new_demand_calculator(config, node_history=NullNodeHistory())


def sizes(binding, jobs=8, constraints=None, **packing):
    """The sizes that exclusive jobs get, one after another."""
    demand = calculator(binding, **packing)
    names = [f"j{i}" for i in range(jobs)]
    wanted = [{"ncpus": 1, "exclusive": True}, *(constraints or ())]
    demand.add_jobs([Job(name, wanted) for name in names])
    by_job = {job: node for node in demand.get_demand().new_nodes for job in node.assignments}
    return " ".join(
        by_job[name].vm_size.removeprefix("Standard_") for name in names if name in by_job
    )


@pytest.fixture(autouse=True)
def own_prices():
    """The price list of this file is forgotten afterwards."""
    yield
    configure({})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("declared", "F4 F4 F16 F16 F8 F8 F2 F2"),
        ("cheapest", "F2 F2 F4 F4 F8 F8 F16 F16"),
        ("spot-first", "F2 F2 F4 F4 F16 F16 F8 F8"),
        ("capacity-aware", "F16 F16 F8 F8 F2 F2 F4 F4"),
    ],
)
def test_each_policy(policy, expected):
    """F4 failed ten minutes ago and spot is scarce; F16 has the packaged price, above the other
    two. A job takes one node."""
    facts = {"F4": (600.0, None), "F2": (-1.0, "Medium")}
    assert sizes(cluster(**facts), policy=policy) == expected


def test_the_default_is_declared():
    """Nothing said and `declared` come to the same."""
    assert sizes(cluster()) == sizes(cluster(), policy="declared") == "F4 F4 F16 F16 F8 F8 F2 F2"


def test_spot_falls_back_to_regular():
    """Beyond the spot limit, and altogether while there was no capacity."""
    assert sizes(cluster(spot_limit=1), jobs=3, policy="spot-first") == "F2 F4 F4"
    assert sizes(cluster(F2=(60.0, "High")), jobs=7, policy="spot-first") == (
        "F4 F4 F16 F16 F8 F8 F2"
    )


def test_what_a_job_prefers_goes_before_the_policy():
    """Earlier values of its list; the policy decides among the rest."""
    wanted = [{"node.vm_size": ["Standard_F16", "*"]}]
    assert sizes(cluster(), 4, wanted, policy="cheapest") == "F16 F16 F2 F2"


class AnyBucket(BaseNodeConstraint):
    """A constraint that the engine cannot look into."""

    def satisfied_by_node(self, node):
        return SatisfiedResult("success", self, node)

    def do_decrement(self, node):
        return True

    def to_dict(self):
        return {"any-bucket": True}

    def __str__(self):
        return "any bucket"


def test_constraints_that_the_engine_does_not_know_follow_the_policy_too():
    """The order is the same as without them."""
    found = sizes(cluster(), 8, [AnyBucket()], policy="cheapest")
    assert found == sizes(cluster(), 8, policy="cheapest") == "F2 F2 F4 F4 F8 F8 F16 F16"


def test_order_and_policy_are_two_things():
    """`packing.order` says whether nodes with room come first, the policy in which order buckets
    come."""
    for order, expected in (("existing-first", "Standard_F8"), ("declared", "Standard_F4")):
        binding = cluster(spot_limit=0)
        binding.add_node("htc-1", "htc", "Standard_F8", state="Ready", hostname="ip-1")
        demand = calculator(binding, order=order, policy="cheapest")
        demand.add_job(Job("a", {"ncpus": 1}))
        assert [n.vm_size for n in demand.node_mgr.get_nodes() if n.assignments] == [expected]


HB, F2S = "Standard_HB120rs_v3", "Standard_F2s_v2"


def small_and_large(**nodes):
    """Large nodes of 120 cores, a third cheaper for each core, and small ones of two; `nodes` of
    theirs that are ready."""
    binding = MockClusterBinding("mock")
    binding.max_core_count = 1_000_000
    for name, size in (("hpc", HB), ("htc", F2S)):
        binding.add_nodearray(name, {})
        binding.add_bucket(name, size, 500, 500)
        for number in range(1, nodes.get(name, 0) + 1):
            binding.add_node(f"{name}-{number}", name, state="Ready", hostname=f"{name}{number}")
    return binding


def new_sizes(binding, *jobs, policy="cheapest", prices=None, **packing):
    """The sizes of the new nodes that jobs get, with how many there are of each."""
    demand = new_demand_calculator(
        {
            "_mock_bindings": binding,
            "packing": {"policy": policy, **packing},
            "vm_sizes": {"prices": {"*": prices or {HB: 4.0, F2S: 0.1}}},
        },
        node_history=NullNodeHistory(),
    )
    demand.add_jobs(jobs)
    return Counter(node.vm_size for node in demand.get_demand().new_nodes)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (Job("a", {"ncpus": 2}), {F2S: 1}),
        (Job("a", {"ncpus": 2}, iterations=39), {F2S: 39}),
        (Job("a", {"ncpus": 2}, iterations=41), {HB: 1}),
        (Job("a", {"ncpus": 1}, iterations=78), {F2S: 39}),
        (Job("a", {"ncpus": 1}, iterations=82), {HB: 1}),
        # one to a node, so that most of a large one is paid for nothing
        (Job("a", {"ncpus": 2}, node_count=60), {F2S: 60}),
        (Job("a", {"ncpus": 2}, iterations=60, packing_strategy="scatter"), {F2S: 60}),
        (Job("a", {"ncpus": 2}, iterations=60, colocated=True), {HB: 1}),
        (Job("a", {"ncpus": 2}, node_count=5, colocated=True), {F2S: 5}),
        (Job("a", {"ncpus": 2, "exclusive": True}, iterations=41), {HB: 1}),
        (Job("a", {"ncpus": 2, "exclusive": True}), {F2S: 1}),
        (Job("a", [{"ncpus": 2}, AnyBucket()]), {F2S: 1}),
        (Job("a", [{"ncpus": 2}, AnyBucket()], iterations=41), {HB: 1}),
        (Job("a", [{"ncpus": 2}, {"not": {"node.name": "x"}}]), {F2S: 1}),
        (Job("a", {"ncpus": 3}), {HB: 1}),
        (Job("a", {"ncpus": 2, "node.vm_size": [HB, "*"]}), {HB: 1}),
    ],
    ids=lambda it: str(it.to_dict()) if isinstance(it, Job) else "",
)
@pytest.mark.parametrize("order", ["existing-first", "declared"])
def test_the_cheapest_is_what_is_cheapest_for_the_job(order, job, expected):
    """Nodes needed times price; a core of the large node costs a third less, which is no use to who
    needs two."""
    job = deepcopy(job)  # a job counts what was placed
    assert new_sizes(small_and_large(), job, order=order) == expected


def test_only_what_is_left_counts():
    """Of 45 tasks four fit on nodes that are there; 41 would go to a large node, and 39 to small
    ones."""
    binding = small_and_large(htc=4)
    assert new_sizes(binding, Job("a", {"ncpus": 2}, iterations=45)) == {HB: 1}
    assert new_sizes(binding, Job("a", {"ncpus": 2}, iterations=43)) == {F2S: 39}


def test_each_job_of_a_queue_for_itself():
    """The first fills small nodes, the second takes a large one; what is planned already is used by
    who comes after."""
    counts = (3, 50, 10, 2)
    jobs = [Job(f"{n}", {"ncpus": 2}, iterations=n) for n in counts]
    assert new_sizes(small_and_large(), *jobs) == {F2S: 5, HB: 1}


def test_where_the_cheapest_has_no_room_the_next_one_is_asked():
    """Whatever it costs."""
    binding = MockClusterBinding("mock")
    for name, size, limit in (("hpc", HB, 5), ("htc", F2S, 3)):
        binding.add_nodearray(name, {})
        binding.add_bucket(name, size, limit, limit)
    assert new_sizes(binding, Job("a", {"ncpus": 2}, iterations=10)) == {F2S: 3, HB: 1}


def test_a_bucket_of_unknown_price_is_asked_last():
    """However few nodes of it would do."""
    job = Job("a", {"ncpus": 2}, iterations=41)
    binding = MockClusterBinding("mock")
    for name, size in (("new", "Standard_D372ids_v7"), ("htc", F2S)):
        binding.add_nodearray(name, {})
        binding.add_bucket(name, size, 50, 50)
    assert new_sizes(binding, job) == {F2S: 41}


def test_the_packaged_prices():
    """A two-core task does not get a node of 120 cores."""
    binding = MockClusterBinding("mock")
    for name, size in (("hpc", HB), ("htc", F2S)):
        binding.add_nodearray(name, {}, location="southcentralus")
        binding.add_bucket(name, size, 10, 10)
    demand = calculator(binding, policy="cheapest")
    demand.add_job(Job("a", {"ncpus": 2}))
    assert [node.vm_size for node in demand.get_demand().new_nodes] == [F2S]


def test_a_policy_of_ones_own_may_look_at_what_is_needed():
    """It is asked once for each bucket and each demand that differs, not for each job."""
    asked = []

    def fewest_nodes(offering):
        asked.append((offering.vm_size, offering.nodes_needed))
        return offering.nodes_needed or 0

    register_policy("fewest", fewest_nodes)
    jobs = [Job(f"{n}-{i}", {"ncpus": 1}, iterations=n) for i in range(200) for n in (3, 121)]
    found = new_sizes(small_and_large(), *jobs, policy="fewest")
    assert (found[F2S], found[HB]) == (0, 207)
    assert {(F2S, None), (HB, None), (HB, 1), (F2S, 2)} <= set(asked)
    assert len(asked) < 2 * 124


def test_a_policy_that_does_not_look_is_asked_once():
    """As ever: the old interface has no demand."""
    asked = []

    def smallest(offering):
        asked.append(offering)
        return offering.vcpu_count

    register_policy("smallest", smallest)
    jobs = [Job(f"{n}", {"ncpus": 1}, iterations=n) for n in range(1, 20)]
    assert set(new_sizes(small_and_large(), *jobs, policy="smallest")) == {F2S}
    assert len(asked) == 2


def test_gangs_in_placement_groups():
    """The family of groups that is cheaper for the gang is asked first, and within it the group in
    use."""
    binding = MockClusterBinding("mock")
    for name, size in (("hpc", HB), ("htc", F2S)):
        binding.add_nodearray(name, {}, max_placement_group_size=50)
        binding.add_bucket(name, size, 500, 500, placement_groups=["pg0", "pg1"])
    gang = {"ncpus": 2, "in-a-placement-group": True}
    few = Job("few", gang, node_count=3, colocated=True)
    many = Job("many", gang, iterations=100, colocated=True)
    more = Job("more", gang, node_count=5, colocated=True)
    assert new_sizes(binding, few, many, more) == {F2S: 8, HB: 2}


REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 5),  # cores
        st.integers(1, 150),  # slots, or nodes
        st.sampled_from([{}, {"exclusive": True}, {"node.vm_size": [HB, "*"]}]),
        st.sampled_from(["slots", "nodes", "gang"]),
    ),
    max_size=6,
)


@given(REQUESTS)
def test_who_listens_changes_nothing(requests):
    """Demands go where they go by the long way, with reasons for whoever wants to hear them, or by
    the short one."""
    found = []
    for handlers in ([], [lambda result: None]):
        results.HANDLERS[:] = handlers
        demand = calculator(small_and_large(htc=3, hpc=1), policy="cheapest")
        for number, (cores, units, more, kind) in enumerate(requests):
            wanted = {"ncpus": cores, **more}
            how = {"iterations": units} if kind == "slots" else {"node_count": units}
            job = Job(str(number), wanted, colocated=kind == "gang", **how)
            demand.add_job(job)
        nodes = demand.node_mgr.get_nodes()
        found.append([(n.name, n.vm_size, n.available["ncpus"], n.assignments) for n in nodes])
    assert found[0] == found[1]


def test_a_wrong_name_is_found_before_anything_is_read():
    """No binding is asked."""
    with pytest.raises(ConfigurationException, match="did you mean 'cheapest'"):
        new_demand_calculator({"packing": {"policy": "cheapst"}, "_mock_bindings": object()})


def test_a_policy_of_ones_own():
    """By its name in the configuration."""
    register_policy("largest", lambda offering: -offering.vcpu_count)
    assert sizes(cluster(), policy="largest") == "F16 F16 F8 F8 F4 F4 F2 F2"


def test_the_policy_of_a_manager():
    """By name or as a function, when it is made or later; what is placed stays."""

    def largest(offering):
        return -offering.vcpu_count

    binding = cluster()
    given = calculator(binding).node_mgr
    manager = NodeManager(binding, given.get_buckets(), policy=largest)
    manager.set_system_default_resources()
    assert manager.order_policy is largest
    assert manager.allocate({"exclusive": True}, node_count=1).nodes[0].vm_size == "Standard_F16"
    manager.set_order_policy("cheapest")
    assert manager.order_policy == "cheapest"
    new = manager.allocate({"exclusive": True}, node_count=1)
    assert [node.vm_size for node in new.nodes] == ["Standard_F2"]
    assert len(manager.new_nodes) == 2


@pytest.mark.parametrize(
    ("policy", "error"), [("chepest", ConfigurationException), (3, PolicyError)]
)
def test_what_is_no_policy_changes_nothing(policy, error):
    """The manager keeps the one it has."""
    manager = a_manager()
    with pytest.raises(error):
        manager.set_order_policy(policy)
    assert manager.order_policy == "declared"


ANY_BUCKET = st.tuples(
    st.sampled_from(["Standard_F2", "Standard_F4", "Standard_F8", "Standard_F16"]),
    st.integers(0, 3),
    st.none() | st.floats(-1, 8000),
)


@given(st.lists(ANY_BUCKET, max_size=5, unique_by=lambda b: b[0]), st.integers(1, 20), st.data())
def test_a_policy_does_not_decide_what_can_be_had(described, cores, data):
    """One slot finds a place under every policy or under none, alone on the cluster; so do all of
    many slots together."""
    found = []
    for policy in ("declared", "cheapest", "spot-first", "capacity-aware"):
        binding = MockClusterBinding("mock")
        binding.add_nodearray("htc", {}, location="westus2")
        for size, limit, since in described:
            binding.add_bucket("htc", size, limit, limit).last_capacity_failure = since
        one = a_manager(binding, packing={"policy": policy})
        alone = one.allocate({"ncpus": cores}, slot_count=1).total_slots
        many = a_manager(binding, packing={"policy": policy})
        together = many.allocate({"ncpus": cores}, slot_count=1000).total_slots
        found.append((alone, together))
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("packing", "said"),
    [
        ({"objective": "costs"}, "packing.objective: expected .* did you mean 'cost'"),
        ({"objective": "cost", "optimize_seconds": -1}, "packing.optimize_seconds: expected"),
        ({"ordre": "declared"}, "packing.ordre.* did you mean 'order'"),
    ],
)
def test_a_mistake_in_the_section_is_said_before_anything_is_read(packing, said):
    """Also where the configuration is a dict, which nobody has checked yet."""
    with pytest.raises(ConfigurationException, match=said):
        new_demand_calculator({"_mock_bindings": None, "packing": packing})


WASTE_PRICES = {
    "westus2": {
        "Standard_F8": 0.40,
        "Standard_E8_v3": 0.50,
        "Standard_F16": 0.80,
        "Standard_F4": 0.21,
    }
}


def wasteful(jobs, policy="least-waste", **packing):
    """The sizes of new nodes in order, of sizes with much memory and with little."""
    binding = MockClusterBinding("mock")
    binding.add_nodearray("htc", {}, location="westus2")
    for size in ("F16", "F8", "F4", "E8_v3"):
        binding.add_bucket("htc", f"Standard_{size}", 50, 50, placement_groups=["pg0"])
    config = {"_mock_bindings": binding, "packing": {"policy": policy, **packing}}
    calc = new_demand_calculator(
        {**config, "vm_sizes": {"prices": WASTE_PRICES}}, node_history=NullNodeHistory()
    )
    calc.add_jobs(jobs)
    found = calc.get_demand().new_nodes
    return [str(node.vm_size).removeprefix("Standard_") for node in found]


def test_least_waste_looks_at_what_a_slot_takes():
    """Much memory goes where there is much for each core; equal parts to the cheaper node; all of
    it for whole nodes."""
    for much in ("memory::30g", 30):
        assert wasteful([Job("a", {"ncpus": 1, "memgb": much})]) == ["E8_v3"]
    assert wasteful([Job("a", {"ncpus": 1, "memgb": "memory::1g"})]) == ["F8"]
    assert wasteful([Job("a", {"ncpus": 1, "exclusive": True})]) == ["F4"]
    assert wasteful([Job("a", {"ncpus": 1}, iterations=3, packing_strategy="scatter")]) == (
        ["F4"] * 3
    )
    gang = Job("a", [{"ncpus": 8}, {"exclusive": True}], node_count=2, colocated=True)
    assert wasteful([gang]) == ["F8"] * 2
    assert wasteful([Job("a", {"ncpus": 1, "node.vm_size": ["Standard_F16", "*"]})]) == ["F16"]


def test_least_waste_looks_at_nodes_with_room_in_the_same_order():
    """A job with much memory leaves the cores of the other size to others."""
    heavy = {"ncpus": 2, "memgb": "memory::30g"}
    jobs = [Job("cores", {"ncpus": 4}), Job("heavy", heavy), Job("more", heavy)]
    assert sorted(wasteful(jobs)) == ["E8_v3", "F8"]


@pytest.mark.parametrize("order", ["existing-first", "declared"])
@pytest.mark.parametrize("seed", range(25))
def test_a_policy_of_ones_own_may_say_what_least_waste_says(seed, order):
    """A function that reads the share and the price of an offering comes to the same nodes as the
    library's short way."""
    draw = Random(seed)

    def jobs():
        made = []
        for number in range(draw.randint(1, 12)):
            asked = {"ncpus": draw.choice((1, 2, 3, 4))}
            if draw.random() < 0.5:
                asked["memgb"] = draw.choice((2, 2.5, "memory::20g", "memory::7g"))
            if draw.random() < 0.3:
                asked["exclusive"] = True
            if draw.random() < 0.3:
                asked["node.vm_size"] = ["Standard_F8", "Standard_*"]
            how = draw.choice(({}, {"iterations": 5}, {"colocated": True, "node_count": 2}))
            made.append((f"j{number}", asked, how))
        return made

    described = jobs()
    placed = [
        wasteful([Job(n, asked, **how) for n, asked, how in described], policy, order=order)
        for policy in ("least-waste", "my own")
    ]
    assert placed[0] == placed[1]


@pytest.mark.parametrize("order", ["existing-first", "declared"])
@pytest.mark.parametrize("policy", ["declared", "cheapest", "spot-first", "least-waste"])
def test_hosts_on_premises_come_first_under_every_policy(policy, order):
    """Also for a job that would rather be on nodes of the cloud, of which one is there."""
    binding = cluster()
    binding.add_node("htc-1", "htc", "Standard_F4", hostname="ip-1")
    rack = [{"name": "rack-1", "resources": {"ncpus": 8}}]
    packing = {"policy": policy, "order": order}
    config = {"_mock_bindings": binding, "packing": packing, "on_premises": rack}
    demand = new_demand_calculator(config, node_history=NullNodeHistory())
    demand.add_job(Job("j", {"ncpus": 1, "node.vm_size": ["Standard_F4", "*"]}, iterations=8))
    assert [n.name for n in demand.node_mgr.get_nodes() if n.assignments] == ["rack-1"]


@pytest.fixture(autouse=True)
def my_own():
    """A policy that says what the library's does."""
    register_policy("my own", lambda offering: least_waste(offering))
    yield
    unregister_policy("my own")


def test_least_waste_opens_the_fewest_nodes_for_an_array_at_one_price():
    """Of sizes of one price for each core the larger one, where an array fills its nodes."""
    assert wasteful([Job("a", {"ncpus": 8}, iterations=4)]) == ["F16"] * 2
    assert wasteful([Job("a", {"ncpus": 8}, iterations=3)]) == ["F8"] * 3
    assert wasteful([Job("a", {"ncpus": 8})]) == ["F8"]


def test_the_order_of_least_waste_does_not_depend_on_who_asks_first():
    """Jobs that ask for the same resources in the same ratio share an order, however small."""
    little, much = {"ncpus": 0, "memgb": "memory::1k"}, {"ncpus": 0, "memgb": "memory::20g"}
    assert wasteful([Job("b", much)]) == ["E8_v3"]
    assert wasteful([Job("a", little)]) == ["E8_v3"]
    together = [Job("a", little), *(Job(f"b{n}", much) for n in range(3))]
    assert set(wasteful(together)) == {"E8_v3"}


@pytest.mark.parametrize("policy", ["cheapest", "least-waste"])
def test_nodes_that_boot_take_all_of_an_array(policy):
    """And nobody asks in which order nodes are opened for nothing."""
    cluster = a_cluster(htc={"Standard_F4s_v2": 10})
    cluster.add_node("htc-1", "htc", state="Preparing")
    calculator = new_demand_calculator(
        {"_mock_bindings": cluster, "packing": {"policy": policy}}, node_history=NullNodeHistory()
    )
    calculator.add_job(Job("a", {"ncpus": 1, "exclusive": True}, iterations=2))
    assert [node.name for node in calculator.get_demand().matched_nodes] == ["htc-1"]


def test_nodes_that_boot_are_taken_in_the_order_for_all_that_is_left_of_a_job(tmp_path):
    """For eight tasks one F8 is cheaper than two F4, which are cheaper for one."""
    prices = tmp_path / "prices.json"
    prices.write_text(
        '{"*": {"Standard_F4": {"ondemand": 0.15}, "Standard_F8": {"ondemand": 0.2}}}'
    )
    cluster = a_cluster(a={"Standard_F4": 10}, b={"Standard_F8": 10})
    for name in ("a-1", "a-2", "b-1"):
        cluster.add_node(name, name[0], state="Preparing")
    config = {
        "_mock_bindings": cluster,
        "packing": {"policy": "cheapest"},
        "vm_sizes": {"prices": str(prices)},
    }
    calculator = new_demand_calculator(config, node_history=NullNodeHistory())
    calculator.add_job(Job("eight", {"ncpus": 1}, iterations=8))
    calculator.add_job(Job("one", {"ncpus": 1}))
    matched = calculator.get_demand().matched_nodes
    assert {node.name: set(node.assignments) for node in matched} == {
        "b-1": {"eight"},
        "a-1": {"one"},
    }


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("policy", ["cheapest", "least-waste"])
def test_what_was_opened_for_a_job_is_used_for_it_once_it_is_there(policy, tasks):
    """And not what another one needs, for which one more would be opened."""
    cluster = a_cluster(hpc={"Standard_F8s_v2": 10}, htc={"Standard_F4s_v2": 10})
    made = []
    for _ in range(3):
        queue = [
            Job("any", {"ncpus": 2}, iterations=tasks),
            Job("whole", {"ncpus": 8, "nodearray": "hpc"}),
        ]
        calculator = new_demand_calculator(
            {"_mock_bindings": cluster, "packing": {"policy": policy}},
            node_history=NullNodeHistory(),
        )
        calculator.add_jobs(queue)
        made.append(len(calculator.get_demand().new_nodes))
        calculator.bootup()
    assert made == [2, 0, 0]
