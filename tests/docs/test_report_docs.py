"""docs/report.md: the session is what azscale prints."""

import re
import shlex
from pathlib import Path

import pytest

from builders.journals import a_long_story
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.journal import JournalWriter

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
SESSIONS = dict(re.findall(r"<!-- session: (\w+) -->\n```console\n(.*?)```", PAGE, re.DOTALL))


def test_the_session_is_what_azscale_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    writer = JournalWriter(tmp_path / "journal")
    for record in a_long_story(4, 6, 3):
        writer.write(record)
    command, said = SESSIONS["report"].strip().splitlines()
    main(shlex.split(command.removeprefix("$ "))[1:])
    assert capsys.readouterr().err.strip() == said
