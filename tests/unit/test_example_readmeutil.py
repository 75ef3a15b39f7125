"""What documents run their examples with."""

import pytest

from hpc.autoscale import hpclogging, results
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.example.readmeutil import clone_dcalc, example, withcontext
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.results import DefaultContextHandler, EarlyBailoutResult


@pytest.fixture(autouse=True)
def tidy(tmp_path, monkeypatch):
    """A directory for whatever is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)


@pytest.fixture
def cluster():
    cluster = MockClusterBinding("clusty")
    cluster.add_nodearray("htc", {})
    cluster.add_bucket("htc", "Standard_F4", 10, 10)
    return cluster


def a_dcalc(cluster, **keys):
    """A calculator over the mock cluster, with a machine of the scheduler's own."""
    config = {"cluster_name": "clusty", "_mock_bindings": cluster, "lock_file": None, **keys}
    machines = [SchedulerNode("tux", {"ncpus": 2})]
    return new_demand_calculator(config, machines, node_history=NullNodeHistory())


def context():
    """The context that a record made now would show."""
    return hpclogging.getLogger("x").makeRecord("x", 10, "", 1, "", (), None).context


def new_names(dcalc):
    return [node.name for node in dcalc.finish().new_nodes]


def test_a_clone_knows_nothing_of_the_others_jobs(cluster):
    """Nor does the original of the clone's."""
    original = a_dcalc(cluster)
    first, second = clone_dcalc(original), clone_dcalc(original)
    first.add_job(Job("1", {"ncpus": 4}, iterations=3))
    assert (len(new_names(first)), new_names(second), new_names(original)) == (3, [], [])
    original.add_job(Job("2", {"ncpus": 4}))
    assert (new_names(original), new_names(second)) == (["htc-1"], [])


def test_clones_share_the_cluster(cluster):
    """What one of them creates is there for the next."""
    original = a_dcalc(cluster)
    first = clone_dcalc(original)
    first.add_job(Job("1", {"ncpus": 4}))
    first.bootup()
    assert list(cluster.nodes) == ["htc-1"]
    assert "htc-1" in [node.name for node in clone_dcalc(original).node_mgr.get_nodes()]


def test_a_clone_has_the_same_default_resources(cluster):
    """From the configuration, of the system, and defined in code."""
    definitions = [{"select": {}, "name": "licences", "value": 7}]
    original = a_dcalc(cluster, default_resources=definitions)
    original.node_mgr.add_default_resource({}, "scratch", 100)
    bucket = clone_dcalc(original).node_mgr.get_buckets()[0]
    assert {**bucket.resources} == {**original.node_mgr.get_buckets()[0].resources}
    assert (bucket.resources["licences"], bucket.resources["scratch"]) == (7, 100)
    assert bucket.resources["ncpus"] == 4


def test_a_clone_has_no_default_resources_that_were_turned_off(cluster):
    """As an argument, which the configuration does not show."""
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    original = new_demand_calculator(
        config, node_history=NullNodeHistory(), disable_default_resources=True
    )
    (bucket,) = clone_dcalc(original).node_mgr.get_buckets()
    assert "ncpus" not in bucket.resources


def test_a_clone_of_a_calculator_with_a_manager_of_its_own(cluster):
    """The cluster is the manager's, whatever the configuration says."""
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    original = new_demand_calculator(
        {"cluster_name": "clusty"},
        node_mgr=new_node_manager(config),
        node_history=NullNodeHistory(),
    )
    assert clone_dcalc(original).node_mgr.cluster_bindings is cluster


def test_a_clone_has_the_machines_that_the_cluster_does_not_know(cluster):
    """With the work that they have, as copies."""
    original = a_dcalc(cluster)
    (tux,) = original.node_mgr.get_nodes()
    tux.assign("41")
    (copy,) = clone_dcalc(original).node_mgr.get_nodes()
    assert (copy.hostname, copy.assignments, copy.resources["ncpus"]) == ("tux", {"41"}, 2)
    copy.assign("42")
    assert tux.assignments == {"41"}


def test_a_clone_writes_no_history(cluster, tmp_path):
    """Examples leave no files."""
    clone = clone_dcalc(a_dcalc(cluster))
    clone.update_history()
    assert list(tmp_path.iterdir()) == []


def test_an_example_shows_its_name_and_what_it_is_about(capsys):
    """Before what it prints itself; it takes and returns what it always did."""

    @example
    def two_plus(n):
        """Adds.

        Really.
        """
        print("adding")
        return 2 + n

    assert two_plus(n=3) == 5
    header, *rest = capsys.readouterr().out.splitlines()
    assert header.strip("-") == " two plus "
    assert rest == ["Adds.", "", "Really.", "adding"]
    assert two_plus.__name__ == "two_plus"


def test_an_example_without_words(capsys):
    """Has its name only."""
    example(lambda: None)()
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_results_are_filed_in_a_block():
    """In the handler that is given, and only in the block."""
    handler = DefaultContextHandler("[mine]")
    with withcontext(handler) as given:
        inside = EarlyBailoutResult("success")
    EarlyBailoutResult("success")
    assert given is handler
    assert handler.by_context == {"[mine]": [inside]}
    assert results.HANDLERS == []


def test_a_text_is_the_context_of_a_new_handler():
    """For when nobody else needs the handler."""
    with withcontext("[example 1]") as handler:
        inside = EarlyBailoutResult("success")
    assert handler.by_context == {"[example 1]": [inside]}


def test_a_function_is_its_own_context():
    """As a decorator."""
    seen = []

    @withcontext
    def placing(n):
        seen.extend(results.HANDLERS)
        seen.append(EarlyBailoutResult("success"))
        return n + 1

    assert placing(1) == 2
    handler, result = seen
    assert handler.by_context == {"[placing]": [result]}
    assert results.HANDLERS == []


def test_the_log_shows_the_context_and_then_the_one_before():
    """Blocks may be nested, and may fail."""
    with withcontext("[outer]"):
        with pytest.raises(ValueError, match="x"), withcontext("[inner]"):
            assert context() == "[inner]"
            raise ValueError("x")
        assert context() == "[outer]"
    assert context() == "[init]"
