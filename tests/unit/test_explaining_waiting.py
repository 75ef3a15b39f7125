"""What is in the way of a job that waits: one cause for what is equal, nearest first."""

import json

import pytest

from hpc.autoscale.autoscaler.summary import UnsatisfiedJob
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.explaining import known
from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.explaining.waiting import verdict_on_waiting
from hpc.autoscale.gangs.gathering import GangNews
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    BaseNodeConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
)
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.results import SatisfiedResult
from hpc.autoscale.results.verdicts import Stand
from hpc.autoscale.simulator import serve
from hpc.autoscale.testing import a_cluster, a_host

SMALL, LARGE = "Standard_F4s_v2", "Standard_F16s_v2"
OFF = {"Configuration": {"autoscale": {"enabled": False}}}
CLOUD = {
    "clusters": {
        "demo": {
            "region": "westus2",
            "nodearrays": {
                "htc": {
                    "machine_types": [SMALL, {"name": LARGE, "invalid_reason": "NotActivated"}]
                },
                "hpc": {
                    "machine_types": ["Standard_HB120rs_v3"],
                    "max_placement_group_size": 4,
                    "placement_groups": [f"pg{number}" for number in range(10)],
                },
                "off": {"machine_types": ["Standard_E64s_v3"], "attributes": OFF},
            },
        }
    },
    "regions": {"westus2": {"family_quotas": {"standardFSv2Family": 8}}},
}


@pytest.fixture(scope="module")
def manager():
    """Two small nodes at most, ten groups of four large ones, and sizes that cannot be used."""
    with serve(CLOUD) as simulator:
        yield new_node_manager(simulator.connection("demo"))


ON_HTC = {"nodearray": "htc", "ncpus": 4}
ROWS = [
    ("NotActivated", {"node.vm_size": LARGE}, {}, "SizeNotActivated", Stand.NEVER),
    ("disabled", {"nodearray": "off", "ncpus": 64}, {}, "NodearrayDisabled", Stand.NEVER),
    ("typo", {"ncpsu": 4}, {}, "UnknownResource", Stand.NEVER),
    ("typo in an array", {"nodearray": "hcp"}, {}, "UnknownValue", Stand.NEVER),
    ("too large", {"nodearray": "htc", "ncpus": 32}, {}, "TooLarge", Stand.NEVER),
    ("quota", {"nodearray": "htc", "ncpus": 4}, {"iterations": 3}, "FamilyQuota", Stand.WAITS),
    (
        "group",
        {"nodearray": "hpc", "in-a-placement-group": True},
        {"node_count": 5, "colocated": True},
        "GroupTooSmall",
        Stand.NEVER,
    ),
]


def test_room_that_has_come_since(manager):
    """Says that the job waits, whatever other nodearrays say of it."""
    verdict = verdict_on_waiting(Job("j1", ON_HTC), manager)
    assert (verdict.code, verdict.stand) == ("RoomByNow", Stand.WAITS)
    assert verdict.line.startswith("Job j1 waits: there is room by now")


def test_of_a_gang_no_room_is_told_that_it_may_not_use(manager):
    """The next pass does not ask for it while the gang waits."""
    verdict = verdict_on_waiting(Job("j1", ON_HTC), manager, GangNews("gang j1 came short"))
    assert verdict.line == "Job j1 waits: gang j1 came short"
    assert "RoomByNow" not in {cause.code for cause in verdict.causes}


def test_news_of_a_gang_that_no_try_can_help_come_last(manager):
    """What is in its way for ever comes first."""
    gang = Job("j1", {"nodearray": "htc", "ncpus": 32}, node_count=2, colocated=True)
    verdict = verdict_on_waiting(gang, manager, GangNews("gang j1 came short"))
    codes = [cause.code for cause in verdict.causes]
    assert (codes[0], codes[-1], verdict.stand) == ("TooLarge", "GangGathers", Stand.NEVER)


def test_an_exact_size_that_other_nodes_have(manager):
    """Is known as such, and what these have is said as a size."""
    verdict = verdict_on_waiting(Job("j1", {"memgb": [8], "nodearray": "hpc"}), manager)
    assert verdict.causes[0].code == "OtherValue"
    assert verdict.causes[0].text == "memgb is 456g, and the job wants 8"


def test_of_the_nodearray_that_a_job_wants_the_largest_node_is_named(manager):
    """Nodes of others are of another nodearray, whatever else they lack."""
    verdict = verdict_on_waiting(Job("j1", {"ncpus": 500, "nodearray": "htc"}), manager)
    causes = {cause.code: cause for cause in verdict.causes}
    text = "the job needs 500 ncpus on one node, and the largest has 4"
    assert (causes["TooLarge"].text, causes["TooLarge"].count) == (text, 1)
    assert causes["OtherNodearray"].where.startswith("hpc/")


def test_all_values_that_nodes_have_are_said_once():
    """Of buckets that have another than the job wants."""
    cluster = MockClusterBinding()
    for nodearray, kind in (("w", "wanted"), ("a", "x"), ("b", "y"), ("c", "x")):
        cluster.add_nodearray(nodearray, {"kind": kind})
        cluster.add_bucket(nodearray, SMALL, 0 if kind == "wanted" else 9, 0)
    node_mgr = new_node_manager({"_mock_bindings": cluster})
    found = verdict_on_waiting(Job("j1", {"kind": "wanted"}), node_mgr).causes
    (other,) = (cause for cause in found if cause.code == "OtherValue")
    assert (other.text, other.where[:7]) == ("kind is x, y, and the job wants 'wanted'", "a, b, c")


@pytest.mark.parametrize("wanted", ["{x}", "{0}", "}"])
def test_a_value_with_braces_that_other_nodes_have(wanted):
    """Is said as the job writes it."""
    cluster = MockClusterBinding()
    for nodearray, kind, available in (("htc", "a", 9), ("hpc", wanted, 0)):
        cluster.add_nodearray(nodearray, {"kind": kind})
        cluster.add_bucket(nodearray, SMALL, available, available)
    node_mgr = new_node_manager({"_mock_bindings": cluster})
    found = {
        c.code: c.text for c in verdict_on_waiting(Job("j1", {"kind": wanted}), node_mgr).causes
    }
    assert found["OtherValue"] == f"kind is a, and the job wants {wanted!r}"


@pytest.mark.parametrize(
    ("constraints", "shape", "code", "stand"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_the_cause_that_is_lifted_first(manager, constraints, shape, code, stand):
    """Is what the line says, before wrong nodearrays, which come last."""
    verdict = verdict_on_waiting(Job("j1", constraints, **shape), manager)
    assert (verdict.code, verdict.stand) == (code, stand)
    assert verdict.causes[0].text in verdict.line
    assert verdict.line.startswith("Job j1 ")
    nearness = [cause.nearness for cause in verdict.causes]
    assert nearness == sorted(nearness)
    if "nodearray" in constraints and code != "UnknownValue":
        assert verdict.causes[-1].code == "OtherNodearray"
    assert {cause.code for cause in verdict.causes} <= CODES.keys()
    assert json.loads(json.dumps(verdict.to_dict()))["code"] == code


@pytest.mark.parametrize(("left", "verb"), [(0, "are"), (1, "is")])
def test_constraints_on_one_pool_are_one_cause(manager, left, verb):
    """With what they ask together, also where there is enough for each of them alone."""
    pool = SharedConsumableResource("licences", "site", 5, left)
    wanted = [SharedConsumableConstraint(pool, amount) for amount in (1, 1)]
    verdict = verdict_on_waiting(Job("j", [ON_HTC, *wanted]), manager)
    said = f"the job needs 2 of licences, and {left} of them {verb} left"
    assert [cause.text for cause in verdict.causes if cause.code == "PoolEmpty"] == [said]
    assert verdict.line == f"Job j waits: {said}"


@pytest.mark.parametrize(
    ("amount", "left", "shape", "needed"),
    [(6, 5, {}, 6), (6, 0, {"iterations": 3}, 6), (2, 5, {"node_count": 3}, 6)],
)
def test_more_than_a_pool_has_when_nobody_draws_on_it(manager, amount, left, shape, needed):
    """Is never there, whatever else is in the way."""
    pool = SharedConsumableResource("licences", "site", 5, left)
    wanted = [{"nodearray": "htc", "ncpus": 4}, SharedConsumableConstraint(pool, amount)]
    verdict = verdict_on_waiting(Job("j", wanted, **shape), manager)
    said = f"the job needs {needed} of licences, and there are 5 in all"
    assert verdict.line == f"Job j can never run: {said}"


def test_of_a_pool_that_has_nothing_at_all_nobody_says_never(manager):
    """Its server may be down."""
    pool = SharedConsumableResource("licences", "site", 0, 0)
    verdict = verdict_on_waiting(Job("j", [ON_HTC, SharedConsumableConstraint(pool, 1)]), manager)
    assert verdict.line == "Job j waits: the job needs 1 of licences, and 0 of them are left"


def test_a_whole_array_may_need_more_than_a_pool_has(manager):
    """Its tasks run one after another."""
    pool = SharedConsumableResource("licences", "site", 5, 5)
    wanted = [{"nodearray": "hpc"}, SharedConsumableConstraint(pool, 1)]
    verdict = verdict_on_waiting(Job("j", wanted, iterations=9), manager)
    assert verdict.line == "Job j waits: licences: enough is left for 5 of 9"


@pytest.mark.parametrize("left", [0, 5])
def test_a_job_that_fits_nowhere_does_not_wait_for_licences(manager, left):
    """It could not run with them."""
    pool = SharedConsumableResource("licences", "site", 5, left)
    wanted = [{"ncpus": 500}, SharedConsumableConstraint(pool, 1)]
    verdict = verdict_on_waiting(Job("j", wanted), manager)
    said = "the job needs 500 ncpus on one node, and the largest has 120"
    assert verdict.line == f"Job j can never run: {said}"


class InGroup(BaseNodeConstraint):
    """A constraint of an integration, of which the engine knows nothing; all nodes are in `a`."""

    def __init__(self, group):
        self.group = group

    def satisfied_by_node(self, node):
        said = [] if self.group == "a" else [f"{node.name} is not in {self.group}"]
        return SatisfiedResult("WrongGroup" if said else "success", self, node, said)

    def to_dict(self):
        return {"in-group": self.group}

    def __str__(self):
        return f"InGroup({self.group})"


@pytest.mark.parametrize(
    ("group", "needs", "amount", "said"),
    [
        ("a", ON_HTC, 3, "waits: the job needs 3 of licences, and 2 of them are left"),
        ("a", ON_HTC, 9, "can never run: the job needs 9 of licences, and there are 5 in all"),
        ("a", {"ncpsu": 4}, 1, "can never run: no node has a resource 'ncpsu'"),
        ("a", {"ncpus": 999}, 1, "can never run: the job needs 999 ncpus on one node, and the"),
        ("a", {"never": "held"}, 1, "waits: the job says: held"),
        ("b", ON_HTC, 1, "can never run: htc-0 is not in b"),
        ("b", ON_HTC, 3, "waits: the job needs 3 of licences, and 2 of them are left"),
    ],
)
def test_of_a_constraint_that_nobody_understands_the_others_are_told(
    manager, group, needs, amount, said
):
    """Where these are in the way: as they are of jobs that have no such constraint."""
    pool = SharedConsumableResource("licences", "site", 5, 2)
    wanted = [needs, InGroup(group), SharedConsumableConstraint(pool, amount)]
    verdict = verdict_on_waiting(Job("j", wanted), manager)
    assert verdict.line.startswith(f"Job j {said}")


@pytest.mark.parametrize(
    ("shape", "once", "needs"),
    [({"iterations": 3}, False, 4), ({"node_count": 3}, False, 12), ({"node_count": 3}, True, 4)],
)
def test_a_job_that_starts_as_a_whole_needs_the_licences_of_all_of_it(manager, shape, once, needs):
    """It was told what one of its nodes needs, and waits on when that is there."""
    pool = SharedConsumableResource("licences", "site", 20, 2)
    job = Job("j", [ON_HTC, SharedConsumableConstraint(pool, 4, decrement_once=once)], **shape)
    said = f"the job needs {needs} of licences, and 2 of them are left"
    assert verdict_on_waiting(job, manager).line == f"Job j waits: {said}"


def test_what_is_in_the_way_has_no_limits_of_hosts_that_nobody_can_have_more_of(manager):
    """Of a gang, for which a host of the scheduler's own has no room."""
    calculator = new_demand_calculator({"_mock_bindings": a_cluster(htc={SMALL: 0})})
    calculator.update_scheduler_nodes([a_host("own", "x", ncpus=4, free={"ncpus": 0})])
    verdict = verdict_on_waiting(Job("j", {"ncpus": 4}, node_count=2), calculator.node_mgr)
    (busy,) = (cause for cause in verdict.causes if cause.where.startswith("hosts that are not"))
    said = "the job needs 2 nodes together, and there is 1 machine"
    assert (busy.code, busy.text) == ("Busy", said)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (Job("j", {"ncpus": 1}, iterations=9, colocated=True), "1 machine takes 4 at most"),
        (Job("j", {"ncpus": 1}, iterations=4, colocated=True), "all that would do have other work"),
    ],
)
def test_slots_that_go_together_do_not_wait_for_a_host_that_is_too_small(job, said):
    """It has no room for all of them when its work has ended, either; until then it may."""
    calculator = new_demand_calculator({"_mock_bindings": a_cluster(htc={SMALL: 0})})
    calculator.update_scheduler_nodes([a_host("own", "x", ncpus=4, free={"ncpus": 1})])
    verdict = verdict_on_waiting(job, calculator.node_mgr)
    (busy,) = (cause for cause in verdict.causes if cause.where.startswith("hosts that are not"))
    assert busy.code == "Busy"
    assert said in busy.text
    assert (verdict.stand is Stand.NEVER) == (job.iterations > 4)


def test_groups_that_are_equal_are_one_line(manager):
    """With how many they are."""
    job = Job("gang", {"nodearray": "hpc", "in-a-placement-group": True}, node_count=5, colocated=1)
    first = verdict_on_waiting(job, manager).causes[0]
    assert (first.where, first.count) == ("hpc/Standard_HB120rs_v3 (10 placement groups)", 10)
    assert first.text == "a placement group takes at most 4 nodes, and 5 are needed"


def test_a_guess_for_unknown_names(manager):
    """Of a resource, of a nodearray, and of a VM size."""
    for constraints, meant in (
        ({"ncpsu": 4}, "did you mean 'ncpus'?"),
        ({"nodearray": "hcp"}, "did you mean 'hpc'?"),
        ({"node.vm_size": "Standard_F4sv2"}, "did you mean 'Standard_F4s_v2'?"),
    ):
        assert meant in verdict_on_waiting(Job("j", constraints), manager).line


def test_a_size_that_azure_does_not_have_there(manager):
    """Is told from one that no nodearray has."""
    verdict = verdict_on_waiting(Job("j", {"node.vm_size": "Standard_ND96isr_H100_v5"}), manager)
    assert verdict.code in ("SizeNotInRegion", "UnknownValue")


def test_a_reason_that_somebody_gives_in_words_has_a_verdict_too():
    """Of a job that is not satisfied."""
    verdict = UnsatisfiedJob("j", 2, "because").verdict
    assert (verdict.line, verdict.stand) == ("Job j waits: because", Stand.WAITS)


def test_a_guess_is_worked_out_once_for_all_buckets(manager, monkeypatch):
    """There may be thousands of placement groups, and the catalogue has thousands of sizes."""
    asked = []
    monkeypatch.setattr(known, "did_you_mean", lambda word, of: asked.append(word) or "")
    for constraints in ({"ncpsu": 4}, {"nodearray": "hcp"}):
        (cause,) = verdict_on_waiting(Job("j", constraints), manager).causes
        assert cause.count > 10
    assert asked == ["ncpsu", "hcp"]
