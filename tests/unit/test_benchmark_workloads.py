"""The workloads of the benchmarks: the same for the same seed, for ever, or figures of before mean
nothing."""

import pytest

import clusters
import workloads
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.node.nodehistory import NullNodeHistory

DIGESTS = [
    ("W1", {"n": 5}, "5018ae104c79cc799bc7e025589cb2bb724163ee7c74ae79f3d029dc6ebc2cf3"),
    ("W2", {"n": 200}, "c90e0c8f5c95df2e69e1867daf37848f9462115d8dc8484888c4e47f520c38b2"),
    (
        "W2",
        {"n": 200, "seed": 99},
        "73236d64f2e3504ec2e8009dce064fec7bf5178d27d03175945bef602fb4de87",
    ),
    ("W2u", {"n": 200}, "f624bda0844d26b4305313b9e32ddf49e8822de9619c20febb7f46ae6b117a72"),
    ("W3", {"n": 40}, "fc66c089e7c2b496086d8c7a7aef0cc9c2eeef3f5952f710b8ec75c4f2d5f3c0"),
    (
        "W4",
        {"n": 40, "nodes": 100},
        "fe9ff5b4d3c43e0d67582cc27dc0aeb192769bb607f6ae18ea7dedd4821de78b",
    ),
    ("W5", {"n": 200}, "6908b17a8f9a46edf78f4afa17bbab0627642e577128fa2434559a37813b69ff"),
    (
        "W6",
        {"n": 60, "nodes": 25},
        "622e12c1404b57a7b4b2b578115bb0a9944f95f7b3a85e970943cbb71156c36e",
    ),
    (
        "W6b",
        {"n": 60, "nodes": 25},
        "cc8f5bf5f434d7800a0f50b0ecc1202620f36068c5cf0ab0e07be062592de3af",
    ),
    (
        "big",
        {"n": 100, "nodes": 50},
        "e0836b9f61e09f7fcd6066b979ec901cb2c8c23390786c1b45ff6af02156c4af",
    ),
    ("drain", {"n": 200}, "8a26049aa91ff6526c1bd650262e52cfc5bfc58bf1d2ce897a73e5dc190b5abe"),
    (
        "full300",
        {"n": 100, "arrays": 20},
        "d60c37f8964a56234e87a4e1a07bfc03af7bd48fe3a3f25726c3e1d2dcb2bca0",
    ),
    (
        "or10",
        {"n": 40, "nodes": 30},
        "d983d96109211021ddbcf484e5f93311b4d9f4c92266077cea4c41f7cb64bdb5",
    ),
]


@pytest.mark.parametrize(("name", "scale", "digest"), DIGESTS)
def test_digest(name, scale, digest):
    """A workload of one scale and seed is what it always was, to the last digit."""
    assert workloads.digest(workloads.make(name, **scale)) == digest


@pytest.mark.parametrize("name", workloads.MAKERS)
def test_every_workload_has_a_digest(name):
    """None of them can change unnoticed."""
    assert name in {each for each, _, _ in DIGESTS}


def shapes(workload):
    """The different things that are asked for."""
    return {str((job["constraints"], job["node_count"])) for job in workload["jobs"]}


def test_full_scale():
    """Without a scale a workload is as large as it is described."""
    w2, w4, w6b = (workloads.make(name) for name in ("W2", "W4", "W6b"))
    assert (len(w2["jobs"]), len(shapes(w2)), len(w2["buckets"])) == (10_000, 24, 20)
    assert sum(job["iterations"] for job in w4["jobs"]) == 50_000
    assert len(w4["nodes"]) == 5_000
    assert (len(shapes(w6b)), len(w6b["nodes"])) == (2_000, 500)


def test_another_seed_gives_another_workload():
    """Where something is drawn."""
    for name in ("W2", "W2u", "W3", "W4", "W5", "big"):
        one, other = (workloads.make(name, n=20, seed=seed) for seed in (1, 2))
        assert one["jobs"] != other["jobs"]


def a_calculator(workload, **options):
    """A calculator for a workload's cluster."""
    binding = clusters.mock_cluster(workload, **options)
    return new_demand_calculator({"_mock_bindings": binding}, node_history=NullNodeHistory())


def test_cluster_has_the_nodes_and_their_free_amounts():
    """The mock cluster holds what the workload says, and handles what is free."""
    workload = workloads.make("W4", n=0, nodes=30)
    calculator = a_calculator(workload)
    nodes = {node.name: node for node in calculator.node_mgr.get_nodes()}
    clusters.write_free_amounts(list(nodes.values()), workload)
    for each in workload["nodes"]:
        node = nodes[each["name"]]
        assert node.vm_size == workload["buckets"][each["bucket"]]["vm_size"]
        assert node.available["ncpus"] == each["free"]["ncpus"]
        assert node.available["memgb"].value == each["free"]["memgb"]


def test_full_cluster_offers_nothing():
    """In W6b every bucket has as many nodes as it may."""
    calculator = a_calculator(workloads.make("W6b", n=1, nodes=40))
    assert {b.available_count for b in calculator.node_mgr.get_buckets()} == {0}


def test_scheduler_reports_the_same_nodes():
    """Joined by host name, none is left over."""
    workload = workloads.make("W4", n=0, nodes=10)
    calculator = a_calculator(workload, with_hostnames=True)
    calculator.update_scheduler_nodes(clusters.scheduler_nodes(workload))
    assert len(calculator.node_mgr.get_nodes()) == 10
