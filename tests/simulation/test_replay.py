"""The journal of a simulated day decides the same again.

REPLAY_SEEDS=7 replays so many days; each is some seventy passes.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from hpc.autoscale.journal import Journal
from hpc.autoscale.journal.scrubbing import Aliases
from hpc.autoscale.replaying import Replay
from simulation import process
from simulation.day import run_day
from simulation.script import draw

SEEDS = range(3, 3 + int(os.environ.get("REPLAY_SEEDS", "1")))
FILES = "its files could not be used then: "


@pytest.fixture
def with_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every process of a simulated day keep one journal."""
    made = process.Process.__init__

    def init(self: process.Process, *args: Any) -> None:
        made(self, *args)
        own = {**self.autoscaler.config, "journal": {"directory": str(tmp_path / "journal")}}
        self.autoscaler.config = own

    monkeypatch.setattr(process.Process, "__init__", init)
    return tmp_path / "journal"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_day_of_failures_decides_the_same_again(seed: int, with_journal: Path) -> None:
    """Byte for byte, over lost replies, throttling, evictions and processes that are killed; but
    for passes whose own files could not be used."""
    report = run_day(draw(seed))
    assert report.violation is None
    before = sorted(with_journal.iterdir())
    contents = [file.read_bytes() for file in before]
    with Replay() as replay:
        passes = list(replay.passes(Journal(with_journal)))
    assert len(passes) > report.passes / 2
    assert [(each.number, each.differences) for each in passes if each.differences] == []
    left_out = [each.skipped for each in passes if each.skipped]
    assert [text for text in left_out if not text.startswith(FILES)] == []
    assert len(left_out) < len(passes) / 4
    assert [file.read_bytes() for file in before] == contents
    names = Aliases()
    for record in Journal(with_journal):
        names.learn(record)
    names.settle()
    with Replay() as replay:
        scrubbed = [replay.one(names.record(record)) for record in Journal(with_journal)]
    assert [(each.number, each.differences) for each in scrubbed if each.differences] == []
