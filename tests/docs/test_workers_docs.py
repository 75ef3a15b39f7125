"""docs/workers.md: each example runs, and comes to what the page says."""

import re
from pathlib import Path

from builders.nodes import an_htc_cluster
from hpc.autoscale.autoscaler import Autoscaler

PAGE = (Path(__file__).parents[2] / "docs" / "workers.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- \w+: (.*?) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


def run(example, names):
    """Run an example of the page with these names, and those that it makes."""
    exec(EXAMPLES[example], names)  # noqa: S102  the page is ours


def a_config():
    """Room for a thousand nodes in nodearray htc."""
    cluster = an_htc_cluster(1000, vm_size="Standard_F4s")
    return {"cluster_name": "clusty", "_mock_bindings": cluster, "lock_file": None}


def test_the_driver(tmp_path, monkeypatch):
    """A thousand workers, ten on a node."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    names = {}
    run("1000 workers on 100 nodes", names)
    summary = Autoscaler(a_config(), names["MyQueue"](), dry_run=True).run_once()
    assert len(summary.requested) == 100


def test_the_driver_reports_hosts_without_work_too():
    """As it has to, unless the configuration says otherwise."""
    names = {}
    run("1000 workers on 100 nodes", names)
    _, hosts = names["MyQueue"]()._read_jobs_and_nodes({})
    assert sorted(len(host.assignments) for host in hosts) == [0, 1]


def test_half_an_hour():
    """The number of workers is that of the text."""
    names = {}
    run("workers", names)
    assert f"so {names['workers']} workers are wanted" in PAGE


def test_a_calculator_of_ones_own():
    """Eight workers, two on a node."""
    names = {"config": a_config()}
    run("planned", names)
    assert names["planned"] == 4


def test_every_example_is_run():
    """And there is no other block of Python."""
    assert len(EXAMPLES) == PAGE.count("```python") == 3
