"""Where this library behaves otherwise than upstream on purpose, and the list of it:
differences.json.

Each entry has an id (W: a known defect of upstream; F: any other difference), what it is about,
what is so there and here, why, and the tests that pin it, as paths below tests/. `kept`: upstream's
behaviour was looked at and kept.
"""

import ast
import functools
import json
import re
from pathlib import Path

import pytest

from builders import case_replay
from builders.nodes import a_manager, a_planned_node, an_htc_cluster, names
from builders.slurm_like import SlurmCLI, Slurmctld
from hpc.autoscale import cli, clilib
from hpc.autoscale.errors import ConstraintError
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.testing import a_config
from hpc.autoscale.util import new_singleton_lock

HERE = Path(__file__).parent
DIFFERENCES = json.loads((HERE / "differences.json").read_text(encoding="utf-8"))
DEFECTS = [
    *(n for start, end in ((1, 19), (20, 26), (30, 35), (40, 45)) for n in range(start, end + 1)),
    *(n for start, end in ((50, 53), (60, 64), (70, 81)) for n in range(start, end + 1)),
]

# -- the list


@functools.cache
def _tests_of(path):
    tree = ast.parse((HERE.parent / path).read_text(encoding="utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


def test_every_known_defect_is_listed():
    """W1 to W81, as far as there are such numbers."""
    listed = {int(match[1]) for d in DIFFERENCES if (match := re.match(r"W(\d+)", d["id"]))}
    assert sorted(listed) == DEFECTS


def test_entries_are_complete():
    """Each has a unique id, says in a line what is so there, here and why, and has a test."""
    ids = [d["id"] for d in DIFFERENCES]
    assert len(set(ids)) == len(ids)
    for d in DIFFERENCES:
        assert set(d) - {"kept"} == {"id", "what", "upstream", "here", "why", "test"}
        assert all(d[key] and "\n" not in d[key] for key in ("what", "upstream", "here", "why"))
        assert d["test"], d["id"]


def test_every_test_that_is_named_is_there():
    """A path below tests/, the name of a function, and for a case its name in brackets."""
    cases = {name for name, _ in case_replay.load()}
    missing = []
    for path in (t for d in DIFFERENCES for t in d["test"]):
        file, _, rest = path.partition("::")
        function, _, case = rest.removesuffix("]").partition("[")
        if function not in _tests_of(file) or (case and case not in cases):
            missing.append(path)
    assert missing == []


# -- differences that no other test pins


def test_node_overrides_of_the_configuration_do_nothing():
    """W23: upstream reads the key and never finds anything under it."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready")
    overridden = a_manager(cluster, **{"_node-overrides": {"": {"Status": "Failed"}, "htc-1": {}}})
    assert [n.state for n in overridden.get_nodes()] == ["Ready"]


def test_default_arguments_are_not_shared():
    """W50: what is put into one result is not in the next."""
    DemandResult([], [], [], []).buckets.append("mine")
    assert DemandResult([], [], [], []).buckets == []
    first = new_demand_calculator(a_config(an_htc_cluster()))
    second = new_demand_calculator(a_config(an_htc_cluster()))
    assert first.node_history is not second.node_history
    assert NullNodeHistory().nodes is not NullNodeHistory().nodes


def test_lock_path_is_read_too(tmp_path):
    """W51: upstream documents `lock_path` and reads `lock_file`."""
    with pytest.warns(UserWarning):
        lock = new_singleton_lock({"lock_path": str(tmp_path / "own")})
    lock.unlock()
    assert lock.lockpath == str(tmp_path / "own")


def test_equal_nodes_are_not_looked_at_one_by_one():
    """W60: two thousand slots fill five hundred nodes without one of them being made or asked."""
    node_mgr = a_manager(an_htc_cluster(count=500))
    looked_at = []
    bucket = node_mgr.get_buckets()[0]
    handle = bucket._nodes.handle
    bucket._nodes.handle = lambda position: looked_at.append(position) or handle(position)
    for _ in range(20):
        assert node_mgr.allocate({"ncpus": 1}, slot_count=100)
    assert looked_at == []
    assert bucket.available_count == 0


@pytest.mark.parametrize(
    ("main", "code"),
    [(cli.main, 2), (lambda argv: clilib.main(argv, "slurm", SlurmCLI(Slurmctld())), 1)],
)
def test_saved_nodes_without_a_status(tmp_path, monkeypatch, capsys, main, code):
    """W72: `--nodes-response` alone is an error in one line, and no crash, also for command lines
    of integrations."""
    (tmp_path / "c.json").write_text('{"cluster_name": "c"}')
    (tmp_path / "nodes.json").write_text('{"nodes": []}')
    monkeypatch.setenv("AZURE_HPC_DEV", "1")
    with pytest.raises(SystemExit) as end:
        main(["nodes", "-c", "c.json", "--nodes-response", "nodes.json"])
    assert end.value.code == code
    assert "expected --cluster-response beside --nodes-response" in capsys.readouterr().err


def test_demand_of_azscale_without_a_driver_can_be_called():
    """W73: it is hidden, and there."""
    demand = cli.ScaleLibCLI().demand(a_config(an_htc_cluster()), ["name"], "table")
    assert demand.new_nodes == []


def test_the_mock_lists_deallocated_nodes():
    """W78: so that a manager can start them."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready")
    cluster.deallocate_nodes(names=["htc-1"])
    node_mgr = a_manager(cluster)
    (node,) = node_mgr.get_nodes()
    assert (node.state, node.target_state, node.exists) == ("Deallocated", "Deallocated", False)
    node_mgr.bootup(node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes)
    assert cluster.nodes["htc-1"].target_state == "Started"


def test_the_mock_gives_back_places():
    """W78: a full cluster has room again for every node that is shut down."""
    cluster = an_htc_cluster(count=2)
    for _ in range(3):
        node_mgr = a_manager(cluster)
        nodes = node_mgr.allocate({"ncpus": 4}, node_count=2).nodes
        node_mgr.bootup()
        assert names(nodes) == ["htc-1", "htc-2"]
        assert a_manager(cluster).get_buckets()[0].available_count == 0
        cluster.shutdown_nodes(names=names(nodes))


def test_the_mock_keeps_what_is_to_be_kept():
    """KeepAlive: the answer for such a node is an error, and it goes on running."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", keep_alive=True)
    (refused,) = cluster.shutdown_nodes(names=["htc-1"]).nodes
    assert (refused.status, cluster.nodes["htc-1"].target_state) == ("Error", "Started")


def test_the_list_of_a_buckets_nodes_is_the_callers():
    """What is put into it stays there; add_nodes adds."""
    node_mgr = a_manager()
    bucket = node_mgr.get_buckets()[0]
    bucket.nodes.append(a_planned_node(name="htc-7"))
    assert node_mgr.get_nodes() == []
    bucket.add_nodes([a_planned_node(name="htc-7", hostname="ip-7")])
    assert names(bucket.nodes) == names(node_mgr.get_nodes()) == ["htc-7"]


def test_a_partly_placed_job_reports_what_it_got():
    """The result and the job agree."""
    dcalc = new_demand_calculator(a_config(an_htc_cluster(count=2)), node_history=NullNodeHistory())
    job = Job("1", {"ncpus": 1}, iterations=20)
    result = dcalc._add_job(job)
    assert (result.total_slots, job.iterations_remaining) == (8, 12)


def test_an_alternative_is_chosen_when_the_node_is_reached():
    """The first that the node satisfies; with the alternatives the other way round the job fits."""
    either = {"or": [{"ncpus": 1}, {"owner": "x"}]}
    turned = {"or": [{"owner": "x"}, {"ncpus": 1}]}
    refused, placed = (
        a_manager(
            an_htc_cluster(), default_resources=[{"select": {}, "name": "owner", "value": "x"}]
        ).allocate([{"ncpus": 4}, alternatives], node_count=1)
        for alternatives in (either, turned)
    )
    assert (bool(refused), bool(placed)) == (False, True)
    assert any("5 is needed" in reason for reason in refused.reasons)


@pytest.mark.parametrize(
    "wanted", [{"node.exists": True}, {"node.state": "Ready"}, {"node.keep_alive": True}]
)
def test_properties_of_existing_nodes_match_nothing(wanted):
    """The example node of a bucket does not exist and is off, so no node of the bucket is asked."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", keep_alive=True)
    node_mgr = a_manager(cluster)
    assert not node_mgr.allocate([wanted, {"ncpus": 1}], slot_count=1)
    assert names(node_mgr.allocate({"ncpus": 1}, slot_count=1).nodes) == ["htc-1"]


def test_a_tuple_of_values_is_as_a_list():
    """As a text of JSON it is one anyway."""
    assert get_constraint({"owner": ("a", "b")}) == get_constraint({"owner": ["a", "b"]})


@pytest.mark.parametrize("keyword", ["and", "or", "xor"])
@pytest.mark.parametrize("value", ["x", 1, True, None])
def test_a_keyword_is_no_resource(keyword, value):
    """Whatever is no list of constraints is a mistake, and so is a reason that is no text."""
    with pytest.raises(ConstraintError, match=f"{keyword}: expected a list of constraints"):
        get_constraint({keyword: value})
    with pytest.raises(ConstraintError, match="never: expected the reason as a text"):
        get_constraint({"never": [value]})


def test_overrides_of_the_way_to_the_nodes_are_not_called():
    """Queues go to the engine at once; who calls an override directly gets it."""
    called = []

    class OwnJob(Job):
        def do_allocate(self, node_mgr, allow_existing, all_or_nothing):
            called.append("do_allocate")
            return super().do_allocate(node_mgr, allow_existing, all_or_nothing)

    class OwnCalculator(DemandCalculator):
        def _add_job(self, job):
            called.append("_add_job")
            return super()._add_job(job)

    class OwnManager(NodeManager):
        def allocate(self, *args, **kwargs):
            called.append("allocate")
            return super().allocate(*args, **kwargs)

    node_mgr = a_manager()
    node_mgr.__class__ = OwnManager
    calculator = OwnCalculator({}, node_mgr)
    calculator.add_job(OwnJob("a", {"ncpus": 1}))
    calculator.add_jobs([OwnJob("b", {"ncpus": 1})])
    assert node_mgr.new_nodes[0].assignments == {"a", "b"}
    assert called == []
    OwnJob("c", {"ncpus": 1}).do_allocate(node_mgr, True, False)
    calculator._add_job(Job("d", {"ncpus": 1}))
    node_mgr.allocate({"ncpus": 1}, slot_count=1)
    assert called == ["do_allocate", "_add_job", "allocate"]


def test_overrides_of_how_a_node_is_used_are_not_called():
    """A host of the scheduler's is used all the same; what its class says of itself is heeded."""
    called = []

    class OwnHost(SchedulerNode):
        @property
        def vm_family(self):
            return "own"

        def decrement(self, constraints, iterations=1, assignment_id=None):
            called.append("decrement")
            return super().decrement(constraints, iterations, assignment_id)

        def assign(self, assignment_id):
            called.append("assign")
            super().assign(assignment_id)

    node_mgr = a_manager()
    calculator = DemandCalculator({}, node_mgr)
    host = OwnHost("tux", {"ncpus": 4})
    calculator.update_scheduler_nodes([host])
    calculator.add_job(Job("a", {"ncpus": 1, "node.vm_family": "own"}))
    node_mgr.allocate({"ncpus": 1, "node.vm_family": "own"}, slot_count=1, assignment_id="b")
    assert (host.assignments, host.available["ncpus"], called) == ({"a", "b"}, 2, [])
    host.decrement([get_constraint({"ncpus": 1})], assignment_id="c")
    assert (host.assignments, called) == (set("abc"), ["decrement", "assign"])


@pytest.mark.parametrize("verb", ["delete", "shutdown_nodes", "restart_nodes", "start_nodes"])
def test_management_results_have_their_request_ids(verb):
    """One for each call of the server; none where nothing was asked of it."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready")
    node_mgr = a_manager(cluster)
    (request_id,) = getattr(node_mgr, verb)(node_mgr.get_nodes()).request_ids
    assert request_id
    assert getattr(node_mgr, verb)([]).request_ids is None
