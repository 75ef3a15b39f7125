"""docs/performance.md: its example is a class of each level, and all three place alike."""

import re
from pathlib import Path

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import parse
from hpc.autoscale.node.constraints.base import NodeConstraint
from hpc.autoscale.node.nodehistory import NullNodeHistory

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"<!-- example -->\n```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def seats(monkeypatch):
    """The example's class, its parser registered for one test."""
    monkeypatch.setitem(parse.CUSTOM_PARSERS, "seats-per-task", None)
    namespace = {"__name__": "example"}
    exec(EXAMPLE, namespace)  # noqa: S102  the page's own example
    return namespace["Seats"]


def placed(seats):
    """Who is on which node, of jobs that want three of seven seats each."""
    # another parser, so that what jobs of before were understood as is forgotten
    parse.register_parser("seats-per-task", lambda d: seats(d["seats-per-task"]))
    binding = MockClusterBinding()
    binding.add_nodearray("htc", {"seats": 7})
    binding.add_bucket("htc", "Standard_F4s_v2", 10, 10)
    calculator = new_demand_calculator({"_mock_bindings": binding}, node_history=NullNodeHistory())
    calculator.add_jobs([Job(str(n), {"ncpus": 1, "seats-per-task": 3}) for n in range(5)])
    return {node.name: node.assignments for node in calculator.get_demand().new_nodes}


def test_the_example_places_alike_on_every_level(seats, monkeypatch):
    """Two jobs to a node, by the expression, by what is declared, and by asking each node."""
    lowered = placed(seats)
    assert [len(jobs) for jobs in lowered.values()] == [2, 2, 1]
    monkeypatch.setattr(seats, "lower", NodeConstraint.lower)
    declared = placed(seats)
    monkeypatch.setattr(seats, "reads", None)
    assert placed(seats) == declared == lowered
