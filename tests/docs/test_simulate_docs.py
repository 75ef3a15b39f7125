"""docs/simulate.md: the session is what azscale prints."""

import re
import shlex
from pathlib import Path

import pytest

from hpc.autoscale.cli.scalelib import main

HERE = Path(__file__).resolve().parents[2]
PAGE = (HERE / "docs" / "simulate.md").read_text(encoding="utf-8")
SESSIONS = dict(re.findall(r"<!-- session: (\w+) -->\n```console\n(.*?)```", PAGE, re.DOTALL))
PROMPT = "$ "


def printed(session: str, capsys: pytest.CaptureFixture[str]) -> str:
    lines = []
    for line in session.splitlines():
        if line.startswith(PROMPT):
            main(shlex.split(line.removeprefix(PROMPT))[1:])
            lines += [line, *capsys.readouterr().out.splitlines()]
    return "\n".join(lines) + "\n"


def test_the_session_is_what_azscale_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HERE)
    assert printed(SESSIONS["compare"], capsys) == SESSIONS["compare"]
