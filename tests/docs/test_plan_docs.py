"""docs/plan.md: its sessions are run, command by command, and print what the page shows."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.simulator import serve
from hpc.autoscale.testing.process import a_process_of_its_own

pytest.importorskip("werkzeug")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"<!-- session -->\n```console\n(.*?)```", PAGE, re.DOTALL)


def steps(session):
    """Each command of a session with what it prints."""
    parts = re.split(r"^\$ (.*)\n", session, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """docs/first-cluster.json behind a server, and the queue of docs/examples/integration."""
    shutil.copytree(ROOT / "docs/examples/integration/filequeue", tmp_path / "filequeue")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    description = json.loads((ROOT / "docs/first-cluster.json").read_text(encoding="utf-8"))
    with a_process_of_its_own(), serve(description) as simulator:
        config = {
            **simulator.connection("first"),
            "driver": "filequeue.driver:FileQueueDriver",
            "filequeue": {"path": "queue.json"},
        }
        Path("autoscale.json").write_text(json.dumps(config), encoding="utf-8")
        Path("autoscale.json").chmod(0o600)
        from filequeue.scheduler import FileQueue

        FileQueue("queue.json").create()
        yield FileQueue("queue.json"), simulator


def printed(command, queue, capsys):
    """What a command of a session prints, and its exit code where that is asked for."""
    words = shlex.split(command)
    if words[0] == "submit":
        queue.submit(*words[1:])
        return ""
    code = 0
    try:
        main(words[1:], default_config="autoscale.json")
    except SystemExit as end:
        code = end.code
    shown = capsys.readouterr()
    text = "\n".join(line.rstrip() for line in (shown.out + shown.err).splitlines())
    text = re.sub(r"in \d+\.\d s", "in 0.1 s", text)
    return f"{text}\n" + (f"(exit code {code})\n" if code else "")


@pytest.mark.parametrize("session", SESSIONS, ids=lambda text: text.splitlines()[0][2:])
def test_a_session(session, site, capsys, monkeypatch):
    """Line by line, at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    queue, _ = site
    for command, shown in steps(session):
        assert printed(command, queue, capsys) == shown, command


def test_there_are_sessions():
    """Or nothing would be run."""
    assert len(SESSIONS) >= 2
