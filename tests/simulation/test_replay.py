"""The journal of simulated days decides the same again, whichever file of it one begins at.

`make replay` does that with one journal of five hundred passes, `make replay PASSES=2000` with a
longer one; a day is some seventy passes.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from hpc.autoscale.journal import Journal, Keeping
from hpc.autoscale.journal.scrubbing import Aliases
from hpc.autoscale.replaying import Replay
from simulation import process
from simulation.day import run_day
from simulation.script import draw

PASSES = int(os.environ.get("REPLAY_PASSES", "1"))
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


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file of the journal be full after some passes."""
    monkeypatch.setattr(Keeping, "file_size", 60_000)


def days(passes: int, journal: Path) -> None:
    """Days of different kinds, whose processes follow each other, until there are so many passes in
    the journal."""
    seed, written = 3, 0
    while written < passes:
        report = run_day(draw(seed))
        assert report.violation is None
        before, written = written, sum(1 for _ in Journal(journal))
        assert written - before > report.passes / 2
        seed += 1


def test_days_of_failures_decide_the_same_again(small_files: None, with_journal: Path) -> None:
    """Byte for byte, over lost replies, throttling, evictions, processes that are killed, a second
    one beside them, and files that are full; but for passes whose own files could not be used."""
    days(PASSES, with_journal)
    before = sorted(with_journal.glob("*.gz"))
    contents = [file.read_bytes() for file in before]
    with Replay() as replay:
        passes = list(replay.passes(Journal(with_journal)))
    assert len(passes) >= PASSES
    assert len(before) >= 2
    assert [(each.number, each.differences) for each in passes if each.differences] == []
    left_out = [each.skipped for each in passes if each.skipped]
    assert [text for text in left_out if not text.startswith(FILES)] == []
    assert len(left_out) < len(passes) / 4
    print(f"{len(passes)} passes in {len(before)} files, {len(left_out)} left out")
    with Replay() as replay:  # whoever has one file has all that is needed
        last = list(replay.passes(Journal(before[-1])))
    assert [each.differences for each in last if each.differences] == []
    assert any(each.is_same for each in last)
    assert [file.read_bytes() for file in before] == contents
    names = Aliases()
    for record in Journal(with_journal):
        names.learn(record)
    names.settle()
    with Replay() as replay:
        scrubbed = [replay.one(names.record(record)) for record in Journal(before[-1])]
    assert any(each.is_same for each in scrubbed)
    assert [(each.number, each.differences) for each in scrubbed if each.differences] == []
