"""Arguments of the wrong kind: errors that say what was expected and what was found."""

import json

import pytest

from builders.nodes import an_htc_cluster
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.util import load_config


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"slot_count": 2.5}, "allocate: expected slot_count to be int or None, found 2.5"),
        ({"slot_count": "2"}, "allocate: expected slot_count to be int or None, found '2'"),
        ({"node_count": 2.0}, "allocate: expected node_count to be int or None, found 2.0"),
    ],
)
def test_counts(counts, said):
    """Whole numbers or None; nothing is placed for others."""
    node_mgr = new_node_manager({"_mock_bindings": an_htc_cluster()})
    with pytest.raises(RuntimeError, match=said):
        node_mgr.allocate({"ncpus": 1}, **counts)
    assert node_mgr.new_nodes == []


@pytest.mark.parametrize("config", [None, 7, ["autoscale.json"]])
@pytest.mark.parametrize("make", [new_node_manager, new_demand_calculator, load_config])
def test_configurations(make, config):
    """A mapping, or a path."""
    with pytest.raises(ConfigurationException, match="expected a configuration as a mapping, or"):
        make(config)


def test_a_manager_of_a_file(tmp_path):
    """A path will do, as for a calculator; the error about one that is not there names it."""
    status = an_htc_cluster().get_cluster_status(True).to_dict()
    reproduced = {"name": "reproduce", "cluster_response": status}
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps({"cluster_name": "c", "_mock_bindings": reproduced}))
    assert [b.nodearray for b in new_node_manager(str(path)).get_buckets()] == ["htc"]
    with pytest.raises(ConfigurationException, match=r"none\.json"):
        new_node_manager(str(tmp_path / "none.json"))


@pytest.mark.parametrize("job", [{"name": "a", "constraints": []}, None, "a"])
def test_jobs(job):
    """Jobs of no other kind; those before it are placed."""
    config = {"_mock_bindings": an_htc_cluster()}
    calculator = new_demand_calculator(config, node_history=NullNodeHistory())
    with pytest.raises(AssertionError, match="expected job to be Job, found"):
        calculator.add_job(job)
    with pytest.raises(RuntimeError, match="expected job to be Job, found"):
        calculator.add_jobs([Job("first", {"ncpus": 1}), job])
    assert [node.assignments for node in calculator.node_mgr.new_nodes] == [{"first"}]
