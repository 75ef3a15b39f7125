"""docs/simulate.md: the session is what azscale prints."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import batsim_waits
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.traces.opening import read_trace

HERE = Path(__file__).resolve().parents[2]
PAGE = (HERE / "docs" / "simulate.md").read_text(encoding="utf-8")
SESSIONS = dict(re.findall(r"<!-- session: (\w+) -->\n```console\n(.*?)```", PAGE, re.DOTALL))
PROMPT = "$ "


COMMAND = re.search(r"^    azscale (simulate tests/data/evalys-batsim.swf .*)$", PAGE, re.MULTILINE)


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


Figure = Callable[[dict[str, Any]], float]
FIGURES: dict[str, tuple[Figure, str]] = {
    "mean wait": (lambda run: run["waits"]["mean"], "{:.2f} s"),
    "95 % wait at most": (lambda run: run["waits"]["p95"], "{:.2f} s"),
    "longest wait": (lambda run: run["waits"]["longest"], "{:.2f} s"),
    "mean bounded slowdown": (lambda run: run["waits"]["slowdown"], "{:.2f}"),
    "utilisation": (lambda run: run["utilisation"] * 100, "{:.1f} %"),
}


def test_the_table_of_the_published_schedule_is_what_the_command_finds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HERE)
    assert COMMAND is not None
    main(shlex.split(COMMAND[1]))
    published, easy, fcfs = json.loads(capsys.readouterr().out)
    for name, (figure, form) in FIGURES.items():
        change = round((figure(easy) / figure(published) - 1) * 100, 1) or 0.0
        cells = [name, form.format(figure(published)), form.format(figure(easy))]
        said = f"{change:+.1f} %" if change else "0.0 %"
        assert f"| {' | '.join([*cells, said, form.format(figure(fcfs))])} |" in PAGE


def test_the_table_of_other_rules_is_what_they_come_to() -> None:
    log = read_trace(str(batsim_waits.LOG))
    found = [batsim_waits.Machine(rule).play(log.jobs) for rule in batsim_waits.RULES.values()]
    rows = [
        f"{fmean(waits.values()):.2f} s | {batsim_waits.begun_at_another_time(log.jobs, waits)}"
        for waits in (batsim_waits.simulated(log), *found)
    ]
    table = PAGE.partition("| begin at another time |")[2].partition("\n\n")[0]
    assert re.findall(r"([\d.]+ s \| \d+) of 800", table) == rows
