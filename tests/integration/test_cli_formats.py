"""Every command of `azscale` that answers something does so in JSON with `-F json`."""

import json
import re

import pytest

from builders.command_lines import at_home
from builders.integration_cli import Runner
from builders.one_nodearray import SIZE, simulator
from hpc.autoscale import cli

__all__ = ["simulator"]  # a fixture

DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        running = Job("runs", {"ncpus": 2}, executing_hostnames=["ip-1"])
        running.metadata["job_state"] = "running"
        gang = Job("gang", {"nodearray": "htc", "exclusive": True}, node_count=2)
        return [running, gang, Job("typo", {"ncpsu": 1})], []
"""
# what changes something, goes on until it is stopped, writes a file, or says nothing when all is
# well
WITHOUT = (
    "apply autostop completion connect delete_nodes initconfig join_nodes refresh_autocomplete"
    " reimage_nodes remove_nodes report restart_nodes retry_failed_nodes serve serve_autostop shell"
)


@pytest.fixture
def azscale(simulator, tmp_path, monkeypatch, capsys):
    """Run a command; what it printed on stdout, and its exit code and stderr in `ended`."""
    at_home(monkeypatch, tmp_path, formatdriver=DRIVER)
    path = tmp_path / "autoscale.json"
    connection = simulator.connection("demo")

    def run(*words, **more):
        config = {**connection, "driver": "formatdriver:Driver", **more}
        config["journal"] = {"directory": str(tmp_path / "journal")}
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        code = 0
        try:
            cli.main([words[0], "-c", str(path), *words[1:]])
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        run.ended = (code, said.err.strip())
        return said.out

    return run


def test_every_command_that_answers_has_it(capsys):
    """Only those that do something, or write something else, have not."""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    names = re.findall(r"^  (\w+) ", capsys.readouterr().out, re.MULTILINE)
    without = []
    for name in names:
        with pytest.raises(SystemExit):
            cli.main([name, "--help"])
        if "--output-format" not in capsys.readouterr().out:
            without.append(name)
    assert len(names) > len(without) > 0
    assert sorted(without) == WITHOUT.split()


def test_jobs(azscale):
    """All that is known, as JSON; as a table a row for each, with what it wants as -C has it."""
    head, *rows = azscale("jobs", "-F", "table").splitlines()
    assert head.split() == ["NAME", "TASKS", "NODES", "STATE", "HOSTS", "CONSTRAINTS"]
    assert [row.split() for row in rows] == [
        ["runs", "1", "running", "ip-1", "ncpus=2"],
        ["gang", "1", "2", "nodearray=htc,", "exclusive=true"],
        ["typo", "1", "ncpsu=1"],
    ]
    assert azscale("jobs", "-F", "table_headerless").splitlines() == rows
    found = json.loads(azscale("jobs"))
    assert [job["name"] for job in found] == ["runs", "gang", "typo"]
    assert found[1]["node-count"] == 2


def test_analyze(azscale):
    """The same as in words: the nodes, or the reasons; with -l the job itself."""
    found = json.loads(azscale("analyze", "-j", "gang", "-F", "json"))
    assert (found["job"], found["is_running"], found["reasons"]) == ("gang", False, [])
    assert [node["name"] for node in found["nodes"]] == ["htc-1", "htc-2"]
    assert {node["vm_size"] for node in found["nodes"]} == {SIZE}
    found = json.loads(azscale("analyze", "-j", "typo", "-l", "-F", "json"))
    assert found["nodes"] == []
    assert {"UndefinedResource"} <= {reason["code"] for reason in found["reasons"]}
    assert "has no resource 'ncpsu'" in found["reasons"][0]["text"]
    assert [job["name"] for job in found["jobs"]] == ["typo"]
    assert json.loads(azscale("analyze", "-j", "runs", "-F", "json"))["is_running"]
    azscale("analyze", "-j", "none", "-F", "json")
    assert azscale.ended == (1, "azscale analyze: error: the scheduler has no job 'none'")
    azscale("analyze", "-j", "tyop")
    assert azscale.ended[1].endswith("the scheduler has no job 'tyop'; did you mean 'typo'?")


def test_config(azscale):
    """JSON as it is, or a row for each key; what is wrong as lines, or as JSON."""
    assert json.loads(azscale("config", "-F", "json")) == json.loads(azscale("config"))
    rows = azscale("config", "-F", "table", idle_timeout=7).splitlines()
    assert ["idle_timeout", "7"] in [row.split() for row in rows]
    assert any(row.startswith("journal.directory ") for row in rows)
    assert ["password", "***"] in [row.split() for row in rows]
    assert json.loads(azscale("config", "--check", "-F", "json")) == []
    assert azscale.ended == (0, "")
    (found,) = json.loads(azscale("config", "--check", "-F", "json", idle_timeout=-1))
    assert found["verdict"] == "error"
    assert "idle_timeout" in found["found"]
    assert azscale.ended[0] == 1
    assert azscale("config", "--check", idle_timeout=-1) == f"error: {found['found']}\n"


def test_columns_and_constraints(azscale):
    """The piece of configuration alone; what is JSON anyway says no to a table."""
    found = json.loads(azscale("default_output_columns", "-F", "json"))
    option, _, rest = azscale("default_output_columns").partition("\n")
    assert option == f"--output-columns {','.join(found['output-columns']['default'])}"
    assert json.loads(rest) == found
    assert json.loads(azscale("validate_constraint", "-C", "ncpus=3", "-F", "json")) == {"ncpus": 3}
    assert json.loads(azscale("debug_cluster_status", "-F", "json"))["nodearrays"]
    azscale("validate_constraint", "-C", "ncpus=3", "-F", "table")
    line = "azscale validate_constraint: error: argument --output-format/-F: expected json"
    assert azscale.ended == (2, f"{line}, found 'table'")


def test_metrics(azscale):
    """How old the last good pass is; the figures themselves are for Prometheus."""
    azscale("autoscale")
    found = json.loads(azscale("metrics", "--health", "-F", "json"))
    assert (found["passes"], found["failed"]) == (1, 0)
    assert found["age"] >= 0
    assert azscale("metrics", "--health").startswith("the last good pass was ")
    assert "# TYPE" in azscale("metrics")
    assert azscale("metrics", "-F", "json") == ""
    code, line = azscale.ended
    assert code == 2
    assert line.startswith("azscale metrics: error: -F goes with --health: ")
    for word in ("-Z", "--formt"):
        azscale("metrics", word)
        code, line = azscale.ended
        assert code == 2
        assert f"there is no option '{word}'" in line
        assert "\n" not in line


def test_an_integration_has_it_without_knowing_of_it(tmp_path, monkeypatch, capsys):
    """Its overrides take what they took; its jobs are JSON unless asked otherwise."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    run = Runner(tmp_path, capsys)
    run.queue("17")
    assert [job["name"] for job in json.loads(run("jobs"))] == ["17"]
    assert run("jobs", "-F", "table").splitlines()[1].split()[:2] == ["17", "1"]
    assert [job["name"] for job in json.loads(run("jobs"))] == ["17"]
    assert json.loads(run("analyze", "-j", "17", "-F", "json"))["job"] == "17"
    assert json.loads(run("config", "-F", "json"))["cluster_name"] == "clusty"
