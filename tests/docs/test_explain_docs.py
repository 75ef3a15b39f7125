"""docs/explain.md: what its sessions print is what azscale prints."""

import contextlib
import json
import os
import re
from pathlib import Path

import pytest

from builders.command_lines import at_home
from builders.failing_cloud import F4, a_site
from builders.site_commands import site_command as site_command
from hpc.autoscale import cli
from hpc.autoscale.simulator import serve

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explain.md"
BLOCK = re.compile(r"<!-- explain: (\w+) -->\n```\w+\n(.*?)\n?```", re.DOTALL)
DRIVER = """
import json, os
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        with open(os.path.join(os.path.dirname(__file__), "jobs.json")) as stream:
            return [Job(**job) for job in json.load(stream)], []
"""


def blocks(name):
    """The blocks of one kind, without the comment that names them."""
    return [text for kind, text in BLOCK.findall(PAGE.read_text("utf-8")) if kind == name]


@pytest.fixture
def azscale(tmp_path, monkeypatch, capsys):
    """azscale beside the cluster and the jobs of the page."""
    (tmp_path / "jobs.json").write_text(blocks("jobs")[0])
    at_home(monkeypatch, tmp_path, explain_driver=DRIVER)
    with serve(json.loads(blocks("cluster")[0])) as simulator:
        path = tmp_path / "autoscale.json"
        config = {**simulator.connection("demo"), "driver": "explain_driver:Driver"}
        path.write_text(json.dumps(config))
        path.chmod(0o600)

        def run(*words):
            with contextlib.suppress(SystemExit):
                cli.main([words[0], "-c", str(path), *words[1:]])
            return capsys.readouterr().out.rstrip()

        yield run


def test_the_sessions(azscale):
    """Each command prints what stands below it. EXPLAIN_DOCS=write writes it anew."""
    sessions = blocks("session")
    assert len(sessions) >= 6
    text = PAGE.read_text("utf-8")
    for session in sessions:
        first = session.partition("\n")[0]
        printed = f"{first}\n{azscale(*first.split()[2:])}"
        if os.environ.get("EXPLAIN_DOCS") == "write":
            text = text.replace(f"```text\n{session}\n```", f"```text\n{printed}\n```")
            continue
        assert printed == session
        assert all(len(line) <= 80 for line in printed.splitlines()[2:])
    if os.environ.get("EXPLAIN_DOCS") == "write":
        PAGE.write_text(text, "utf-8")


def test_the_node(site_command, tmp_path):
    """What is printed of a node whose time is over."""
    ((command, line),) = (text.splitlines() for text in blocks("node"))
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as site:
        site_command.serve(site)
        site.want(1)
        site.run()
        site.wait(60)
        site.run()
        site.want(0)
        site.run()
        site.wait(60)
        site.run()
        site.wait(250)
        printed = site_command(*command.removeprefix("$ azscale ").split())
    assert printed.splitlines()[0] == line
