"""Colocated jobs on a mock cluster: which placement groups they open, and what is said of one that
fits nowhere."""

from collections import Counter

import pytest

from builders.nodes import a_manager
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.job import Job
from hpc.autoscale.results import SatisfiedResult, register_result_handler

TOGETHER = {"in-a-placement-group": True, "exclusive": True, "ncpus": 1}


def a_site(groups=("pg0", "pg1", "pg2"), available=100, running=(), **keys):
    """Groups of at most ten nodes of one size; `running`: the groups of nodes that are there."""
    binding = MockClusterBinding("mock")
    binding.add_nodearray("hpc", {}, location="westus2", max_placement_group_size=10)
    binding.add_bucket("hpc", "Standard_F4", available, available, placement_groups=list(groups))
    for number, group in enumerate(running, 1):
        binding.add_node(
            f"hpc-{number}", "hpc", "Standard_F4", state="Ready", placement_group=group
        )
    return a_manager(binding, **keys)


def groups_of(result):
    """How many nodes in which groups."""
    return dict(Counter(node.placement_group for node in result.nodes))


def gang(manager, nodes, name="gang"):
    """A colocated job of nodes."""
    return Job(name, TOGETHER, node_count=nodes, colocated=True).do_allocate(manager)


def test_the_fewest_groups_are_opened():
    """One after another: what fits in a group in use goes there."""
    manager = a_site()
    found = [groups_of(gang(manager, n, f"j{n}")) for n in (7, 6, 3, 4)]
    assert found == [{"pg0": 7}, {"pg1": 6}, {"pg0": 3}, {"pg1": 4}]
    assert {node.placement_group for node in manager.new_nodes} == {"pg0", "pg1"}


def test_a_group_with_nodes_before_an_empty_one():
    """Those that run are used, and the rest is added to them."""
    result = gang(a_site(running=["pg2", "pg2"]), 5)
    assert groups_of(result) == {"pg2": 5}
    assert sorted(node.exists for node in result.nodes) == [False, False, False, True, True]


def test_bucket_by_bucket_is_in_declared_order():
    """The first group that takes all, in use or not."""
    manager = a_site(running=["pg2", "pg2"], packing={"order": "declared"})
    assert groups_of(gang(manager, 5)) == {"pg0": 5}


def test_a_group_that_is_added_is_like_the_others():
    """It is opened when the others are full."""
    manager = a_site(groups=["pg0"])
    assert groups_of(gang(manager, 8)) == {"pg0": 8}
    plain = next(b for b in manager.get_buckets() if not b.placement_group)
    manager.add_placement_group("later", plain)
    assert groups_of(gang(manager, 5)) == {"later": 5}
    assert groups_of(gang(manager, 2)) == {"pg0": 2}


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (
            {"node_count": 12, "constraints": TOGETHER},
            "pg=pg1) could take 10 of the 12 nodes that must go together",
        ),
        (
            {"iterations": 44, "constraints": {"in-a-placement-group": True, "ncpus": 1}},
            "pg=pg1) could take 40 of the 44 slots that must go together",
        ),
    ],
)
def test_how_close_the_best_group_came(job, said):
    """It comes first, in the right unit and with its limit; the others are summed up; nothing has
    changed."""
    manager = a_site(groups=[f"pg{i}" for i in range(30)])
    for number in (0, *range(2, 30)):
        manager.allocate({"node.placement_group": f"pg{number}", "exclusive": True}, node_count=2)
    before = len(manager.new_nodes)
    result = Job("gang", colocated=True, **job).do_allocate(manager)
    close = [line for line in result.reasons if line.startswith("GangTooLarge")]
    assert said in close[0] and "PlacementGroup(pg1) has 40 of 40 cores" in close[0]
    assert "(and 28 more alike)" in close[1] and len(close) == 2
    assert len(manager.new_nodes) == before


def test_handlers_hear_of_every_group():
    """The closest first."""
    told = []
    register_result_handler(told.append)
    manager = a_site()
    gang(manager, 4)
    told.clear()
    assert not gang(manager, 11)
    refused = [r for r in told if isinstance(r, SatisfiedResult) and r.status == "GangTooLarge"]
    assert [r.node.placement_group for r in refused] == ["pg1", "pg2", "pg0"]
    assert "could take 6 of the 11 nodes" in refused[-1].reasons[0]


def test_a_shared_limit_stops_a_gang_in_every_group():
    """And is named."""
    manager = a_site(available=5)
    result = gang(manager, 6)
    assert not result
    assert "could take 5 of the 6 nodes" in result.reasons[2]
    assert "Bucket(hpc, Standard_F4) can take 5 new nodes" in result.reasons[2]
