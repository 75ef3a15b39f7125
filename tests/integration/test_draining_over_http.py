"""A drained node that is wanted again, with a cluster behind HTTP, and what azscale says of it."""

import contextlib
import json

from builders.failing_cloud import F2, a_site
from hpc.autoscale import cli
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory

ONE = {"htc": {"machine_types": [F2]}}

DRIVER = """
from hpc.autoscale.cli import GenericDriver


class Idle(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        return [], []
"""


def test_a_drained_node_gets_the_next_job_and_no_machine_is_made(tmp_path, monkeypatch, capsys):
    """The pass that drained it was told nothing when it asked the scheduler again."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    (tmp_path / "idle_driver.py").write_text(DRIVER)
    with a_site(tmp_path, ONE) as site:
        site.config["idle_timeout"] = 60
        site.want(1)
        site.run()
        site.wait(60)
        site.run()
        reads = []

        def silent_the_second_time():
            reads.append(1)
            return [] if len(reads) == 1 else 1 / 0

        site.new_jobs = silent_the_second_time
        for _ in range(6):
            reads.clear()
            site.wait(60)
            if site.run().drained:
                break
        with SQLiteNodeHistory(tmp_path / "nodehistory.db", read_only=True) as history:
            assert [str(drain.state) for drain in history.drains().values()] == ["drained"]
        path = tmp_path / "autoscale.json"
        path.write_text(json.dumps({**site.config, "driver": "idle_driver:Idle"}))
        with contextlib.suppress(SystemExit):
            cli.main(["nodes", "-c", str(path)])
        said = capsys.readouterr().out.split()
        assert "DRAIN" in said
        assert "drained" in said
        site.made()
        site.want(1)
        summary = site.run()
        assert len(summary.undrained) == 1
        assert site.made().total() == 0
