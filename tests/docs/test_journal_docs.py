"""docs/journal.md: the sessions are what azscale prints, and the programs run."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from builders.fake_scheduler import cluster, now, run, scheduler
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.config.check import check_config
from hpc.autoscale.testing import a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "journal.md").read_text(encoding="utf-8")
SESSIONS = dict(re.findall(r"<!-- session: (\w+) -->\n```console\n(.*?)```", PAGE, re.DOTALL))
EXAMPLES = dict(re.findall(r"<!-- example: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
PROMPT = "$ "


@pytest.fixture
def journal(run, cluster, scheduler, now, tmp_path, monkeypatch):
    """The journal of the page: three passes, the second of which has a job that needs two nodes
    more."""
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "autoscale.json"
    config.write_text(json.dumps({"cluster_name": "c", "url": "http://none.invalid"}))
    now.now = 1_769_860_800.0
    for number in (1, 2, 3):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    for jobs in ([], [a_job("7", tasks=20)], [a_job("7", tasks=20)]):
        scheduler.jobs = jobs
        run(journal={}, idle_timeout=9999)
        now.sleep(60 if not jobs else 301)
    return config


def printed(session, config, capsys):
    """A session as it is now, with what depends on the machine replaced."""
    lines = []
    for line in session.splitlines():
        if not line.startswith(PROMPT):
            continue
        main([*shlex.split(line.removeprefix(PROMPT))[1:], "-c", str(config)])
        lines += [line, *(each.rstrip() for each in capsys.readouterr().out.splitlines())]
    text = "\n".join(lines)
    for pattern, stands_for in (
        (r"hpc-autoscale \S+,", "hpc-autoscale VERSION,"),
        (r"driver \S+,", "driver DRIVER,"),
        (r"process \d+ on .*", "process PID on HOST"),
    ):
        text = re.sub(pattern, stands_for, text)
    return text


def test_the_sessions_are_what_azscale_prints(journal, capsys):
    """Line by line."""
    for name, session in SESSIONS.items():
        assert printed(session, journal, capsys) == session.rstrip(), name


def test_the_program_runs(journal, tmp_path):
    """On the same journal."""
    (program,) = EXAMPLES.values()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("1 3 []\n2 3 []\n3 5 []\n", "")


def test_the_keys_are_those_of_the_configuration():
    """Each is accepted, and no other."""
    check_config({"journal": False})
    known = {"directory": "d", "megabytes": 5, "days": 1.5}
    assert set(re.findall(r"`journal\.(\w+)`", PAGE)) == set(known)
    check_config({"journal": known})
