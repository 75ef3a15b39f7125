"""docs/autostop.md against the code: its table of answers, its example, and its address."""

import json
import re
from pathlib import Path

import pytest

from builders.autostop_site import an_autostop_site
from hpc.autoscale import cli, clock
from hpc.autoscale.autostop.decision import Code
from hpc.autoscale.config import check_config

PAGE = (Path(__file__).parents[2] / "docs" / "autostop.md").read_text(encoding="utf-8")
# what the application answers by itself, before a node is looked at
OF_THE_APPLICATION = {
    (400, "bad_request"),
    (401, "unauthorized"),
    (404, "unknown_path"),
    (405, "bad_request"),
    (500, "internal_error"),
}


def test_every_answer_is_in_the_table():
    """And nothing else is."""
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", PAGE, re.MULTILINE)
    found = {(int(status), word) for status, word in rows}
    assert found == {(code.status, code.word) for code in Code} | OF_THE_APPLICATION
    assert len(rows) == len(found)


def test_the_example_of_an_answer(tmp_path, monkeypatch):
    """Is what a node is told, but for its id."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    ((status, body),) = re.findall(r"<!-- answer: (\d+) -->\n```json\n(.*?)\n```", PAGE)
    assert "/cloud/actions/autoscale/demo/stop?instance=$ID" in PAGE
    with an_autostop_site(tmp_path) as site, site.serving() as callback:
        instances = site.start("execute", 3)
        site.want({"Name": "execute", "TargetCount": 2})
        reply = callback.ask(instances[2], verb="GET")
    assert (reply.status, {**reply.body, "instance": "..."}) == (int(status), json.loads(body))


@pytest.mark.parametrize(
    "example", re.findall(r"```json\n(\{\n.*?)```", PAGE, re.DOTALL), ids=lambda text: text[4:24]
)
def test_configurations(example):
    """Are valid."""
    check_config(json.loads(example))


def test_the_crontab_line(tmp_path, monkeypatch, capsys):
    """Runs, with the configuration that the page has for a node, and looks once. The clock stands
    still: writing the state takes time."""
    clock.use_mock_clock()
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    *_, example = re.findall(r"```json\n(\{\n.*?)```", PAGE, re.DOTALL)
    (line,) = re.findall(r"^    \* \* \* \* \* root (.*)$", PAGE, re.MULTILINE)
    config = json.loads(example)
    secret = tmp_path / "credentials"
    secret.write_text(json.dumps({"password": "x"}))
    secret.chmod(0o600)
    more = {
        "credentials_file": str(secret),
        "instance": "vm-1",
        "busy_command": ["false"],  # pgrep is not everywhere
        "state_file": str(tmp_path / "state"),
        "scheduled_events": False,
    }
    config["autostop"].update(more)
    path = tmp_path / "autostop.json"
    path.write_text(json.dumps(config))
    program, *arguments = line.split()
    assert program.endswith("/bin/azscale")
    cli.main([str(path) if each == "/etc/autostop.json" else each for each in arguments])
    assert capsys.readouterr().out == "idle for 0 s (idle_time_before_jobs is 3600)\n"
