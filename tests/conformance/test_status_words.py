"""The words in which results say what came of a question. Callers and `analyze` tell cases apart by
them."""

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node import constraints as cons
from hpc.autoscale.node.bucket import bucket_candidates
from hpc.autoscale.node.constraints import get_constraint, get_constraints
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.results import register_result_handler
from hpc.autoscale.testing import a_config


def asked(expr, **changed):
    """What a constraint says of a node of four cores."""
    node = a_planned_node(**{"resources": {"ncpus": 4, "owner": "alice"}, **changed})
    constraint = expr if isinstance(expr, cons.NodeConstraint) else get_constraint(expr)
    return constraint.satisfied_by_node(node)


def in_use(constraint):
    """What a constraint says of a node that somebody works on."""
    node = a_planned_node()
    node.required = True
    node.assign("somebody")
    return constraint.satisfied_by_node(node)


def failed_lately():
    """What a bucket with a capacity failure five seconds ago says."""
    cluster = an_htc_cluster()
    cluster.nodearrays["htc"].buckets[0].last_capacity_failure = 5.0
    bucket = a_manager(cluster).get_buckets()[0]
    return get_constraint({"capacity-failure-backoff": 300}).satisfied_by_bucket(bucket)


def placed(expr=None, count=1, **job):
    """What the calculator says of a job on a cluster of two nodes."""
    dcalc = new_demand_calculator(a_config(an_htc_cluster(count=2)), node_history=NullNodeHistory())
    return dcalc._add_job(Job("1", expr or {"ncpus": 1}, **job))


def closed():
    """What a closed node says."""
    node = a_planned_node()
    node.closed = True
    return node.decrement(get_constraints([{"ncpus": 1}]))


def candidates(expr):
    """What comes of looking for buckets in a cluster with one."""
    return bucket_candidates(a_manager().get_buckets(), get_constraints([expr]))


POOL = cons.SharedConsumableResource("lic", "server", 1, 0)
VALUE = cons.SharedNonConsumableResource("mode", "server", "day")

WORDS = {
    # of an allocation
    "success": lambda: a_manager().allocate({"ncpus": 1}, slot_count=1),
    "NothingRequested": lambda: a_manager().allocate({"ncpus": 1}),
    "NoCandidatesFound": lambda: a_manager().allocate({"ncpus": 99}, slot_count=1),
    "NoAllocationSelected": lambda: a_manager().allocate(
        {"ncpus": 1}, slot_count=999, all_or_nothing=True
    ),
    "CompoundFailure": lambda: placed(node_count=9),
    # of one node
    "NodeClosed": closed,
    "NodeRejected": lambda: a_planned_node().decrement(get_constraints([{"ncpus": 9}])),
    # of buckets
    "NoBucketsDefined": lambda: bucket_candidates([], []),
    # of one constraint
    "UndefinedResource": lambda: asked({"none": 1}),
    "InsufficientResource": lambda: asked({"ncpus": 5}),
    "InvalidOption": lambda: asked({"owner": "bob"}),
    "ExclusiveRequirementFailed": lambda: in_use(get_constraint({"exclusive": True})),
    "NotInAPlacementGroup": lambda: asked({"in-a-placement-group": True}),
    "XORFailed": lambda: asked({"xor": [{"ncpus": 1}, {"ncpus": 2}]}),
    "not(success)": lambda: asked({"not": {"ncpus": 1}}),
    "AlreadyAllocated": lambda: in_use(cons.NotAllocated()),
    "Never": lambda: asked({"never": "why"}),
    "MissingResourceForAlias": lambda: asked(cons.ReadOnlyAlias("a", "none")),
    "SharedLimitReached": lambda: asked(cons.SharedConsumableConstraint([POOL], 1)),
    "InvalidSharedValue": lambda: asked(cons.SharedNonConsumableConstraint(VALUE, "night")),
    "CapacityFailureBackoff": failed_lately,
}


@pytest.mark.parametrize("word", WORDS)
def test_each_case_has_its_word(word):
    """And only success is true; every failure has a reason, but that there is nothing to choose
    from."""
    result = WORDS[word]()
    assert result.status == word
    assert bool(result) is (word == "success")
    assert bool(result.reasons) is (word not in ("success", "NoBucketsDefined"))


@pytest.mark.parametrize(
    "result",
    [lambda: asked({"or": [{"ncpus": 9}, {"none": 1}]}), lambda: candidates({"ncpus": 9})],
    ids=["or", "candidates"],
)
def test_failures_of_several_are_compound(result):
    """With the reasons of all of them, each of which names its own status."""
    made = result()
    assert made.status == "CompoundFailure"
    assert "InsufficientResource" in " ".join(made.reasons)


def test_a_pack_that_finds_nothing_is_failed():
    """The calculator's word for a job of which nothing could be placed."""
    assert placed({"ncpus": 99}).status == "Failed"


def test_handlers_hear_the_same_words():
    """A job that cannot be placed is reported with the word of the constraint that it fails."""
    heard = []
    register_result_handler(heard.append)
    placed({"ncpus": 99})
    assert "InsufficientResource" in {result.status for result in heard}
