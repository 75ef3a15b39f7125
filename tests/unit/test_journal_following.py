"""Reading a journal while it grows: only what was added, and all of it when it is another one."""

from __future__ import annotations

import io
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.journals import a_long_story, a_node_record, a_pass_record
from hpc.autoscale import clock
from hpc.autoscale.journal import Journal, JournalError, JournalWriter, Keeping, PassRecord, reader
from hpc.autoscale.journal.errors import NewerJournal
from hpc.autoscale.journal.following import Follower
from hpc.autoscale.journal.frames import packed

NODES = [a_node_record(f"htc-{n}") for n in range(200)]


class Followed:
    """What somebody has who follows a journal."""

    def __init__(self, path: Path) -> None:
        self.follower = Follower(path)
        self.passes: list[PassRecord] = []
        self.times_anew = 0

    def poll(self) -> bool:
        return self.follower.poll(self.passes.append, self._anew)

    def _anew(self) -> None:
        self.passes.clear()
        self.times_anew += 1

    @property
    def seen(self) -> list[Any]:
        return [(each.number, each.at, each.nodes, each.config) for each in self.passes]


def read_at_once(path: Path) -> list[Any]:
    """The same, read from the beginning."""
    found = Journal(path, skip_garbled=True)
    return [(each.number, each.at, each.nodes, each.config) for each in found]


class Counting(io.FileIO):
    """A file that counts what is read of it."""

    count = 0

    def readinto(self, buffer: Any) -> int:
        read = super().readinto(buffer) or 0
        Counting.count += read
        return read

    def readall(self) -> bytes:
        raise AssertionError("a journal may be large")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bytes that are read of journals are counted."""
    monkeypatch.setattr(
        reader, "open", lambda path, mode: io.BufferedReader(Counting(path), 512), raising=False
    )
    return None


@pytest.fixture
def now() -> clock.MockClock:
    return clock.use_mock_clock()


def test_only_what_was_added_is_read(tmp_path: Path, counted: None) -> None:
    writer = JournalWriter(tmp_path)
    # names that cannot be compressed make a large first record
    noise = random.Random(7)
    nodes = [a_node_record(f"{noise.getrandbits(256):x}") for _ in range(500)]
    writer.write(a_pass_record(0, nodes))
    followed = Followed(tmp_path)
    Counting.count = 0
    assert followed.poll()
    (file,) = tmp_path.iterdir()
    assert Counting.count >= file.stat().st_size > 20_000
    Counting.count = 0
    for number in range(1, 21):
        before = file.stat().st_size
        writer.write(a_pass_record(number, nodes[: 500 - number]))
        added = file.stat().st_size - before
        Counting.count = 0
        assert followed.poll()
        # the record itself, and a few pieces of 512 bytes around it
        assert Counting.count <= added + 6 * 512
    assert followed.seen == read_at_once(tmp_path) and len(followed.seen) == 21
    Counting.count = 0
    assert not followed.poll() and Counting.count == 0


def test_it_goes_on_in_the_next_file_when_old_ones_are_deleted(
    tmp_path: Path, now: clock.MockClock
) -> None:
    writer = JournalWriter(tmp_path, Keeping(size=10**9, age=3600.0))
    followed = Followed(tmp_path)
    began = set()
    for number in range(12):
        now.now += 1000.0
        writer.write(a_pass_record(number, NODES[: number * 7]))
        for file in tmp_path.iterdir():  # deleted by the age that the file system knows
            if file.stat().st_mtime > now.now:
                os.utime(file, (now.now, now.now))
        followed.poll()
        began.add(followed.follower.began)
    assert followed.times_anew == 1
    assert [each.at for each in followed.passes] == [a_pass_record(n).at for n in range(12)]
    left = read_at_once(tmp_path)
    assert 0 < len(left) < 12 and followed.follower.began == left[0][1]
    assert len(began) > 1


def test_a_record_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    for record in a_long_story(3, 20, 5):
        writer.write(record)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    followed = Followed(tmp_path)
    followed.poll()
    assert len(followed.passes) == 2
    assert "its end is missing" in followed.follower.problems[0]
    with open(file, "r+b") as handle:
        handle.write(whole)
    followed.poll()
    assert followed.seen == read_at_once(tmp_path) and len(followed.passes) == 3
    assert followed.follower.problems == [] and followed.times_anew == 1


def test_a_record_whose_bytes_come_after_its_length_is_read_once_they_are_there(
    tmp_path: Path,
) -> None:
    writer = JournalWriter(tmp_path)
    story = a_long_story(6, 20, 5)
    for record in story[:4]:
        writer.write(record)
    (file,) = tmp_path.iterdir()
    writer.write(story[4])
    whole = file.read_bytes()
    file.write_bytes(whole[:-40] + bytes(40))
    followed = Followed(tmp_path)
    followed.poll()
    assert len(followed.passes) == 4 and followed.follower.problems
    with open(file, "r+b") as handle:
        handle.write(whole)
    writer.write(story[5])
    followed.poll()
    assert followed.seen == read_at_once(tmp_path) and len(followed.passes) == 6
    assert followed.follower.problems == []


def test_what_is_garbled_is_passed_over_and_said_once(tmp_path: Path) -> None:
    for record in a_long_story(2, 20, 5):
        JournalWriter(tmp_path).write(record)
    (file,) = tmp_path.iterdir()
    size = file.stat().st_size
    with open(file, "ab") as handle:
        handle.write(b"rubbish" * 9)
    followed = Followed(tmp_path)
    followed.poll()
    assert len(followed.follower.problems) == 1
    for number in (5, 6):
        with open(file, "ab") as handle:
            handle.write(packed(b'{"version": 1, "at": %d, "whole": true}\n' % number))
        followed.poll()
        (said,) = followed.follower.problems
        assert f"at byte {size}" in said
    assert followed.seen == read_at_once(tmp_path) and len(followed.passes) == 4


def rewrite(file: Path) -> None:
    """The same file with another content, and longer than before."""
    other = file.parent.parent / "other"
    for record in a_long_story(9, 30, 7):
        JournalWriter(other).write(record)
    file.write_bytes(next(other.iterdir()).read_bytes())


def replace_it(file: Path) -> None:
    """Another file of the same name, as a scrubbed journal that was moved here."""
    other = file.parent.parent / "other"
    for record in a_long_story(9, 30, 7):
        JournalWriter(other).write(record)
    os.replace(next(other.iterdir()), file)


def cut(file: Path) -> None:
    """Less than there was."""
    os.truncate(file, file.stat().st_size // 2)


def another_directory(file: Path) -> None:
    """The whole directory is another one."""
    shutil.rmtree(file.parent)
    for record in a_long_story(2, 3, 1):
        JournalWriter(file.parent).write(record)


@pytest.mark.parametrize("change", [rewrite, replace_it, cut, another_directory])
def test_a_journal_that_is_another_one_is_read_anew(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "journal"
    writer = JournalWriter(path)
    for record in a_long_story(4, 20, 5):
        writer.write(record)
    followed = Followed(path)
    followed.poll()
    change(next(path.iterdir()))
    assert followed.poll()
    assert followed.times_anew == 2
    assert followed.seen == read_at_once(path) and followed.seen


def test_an_older_file_that_was_changed_is_another_journal(tmp_path: Path) -> None:
    for name in ("journal-000001.jsonl.gz", "journal-000002.jsonl.gz"):
        JournalWriter(tmp_path / "one").write(a_pass_record(1, NODES[:3]))
        os.renames(next((tmp_path / "one").iterdir()), tmp_path / "journal" / name)
    followed = Followed(tmp_path / "journal")
    followed.poll()
    (tmp_path / "journal" / "journal-000001.jsonl.gz").write_bytes(
        packed(b'{"version": 1, "at": 5, "whole": true}\n')
    )
    followed.poll()
    assert followed.times_anew == 2 and followed.passes[0].at == 5


def test_a_journal_that_is_away_is_an_error_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    followed = Followed(path)
    with pytest.raises(JournalError, match="no such file"):
        followed.poll()
    JournalWriter(path).write(a_pass_record(0))
    followed.poll()
    path.rename(tmp_path / "away")
    with pytest.raises(JournalError, match="no such file"):
        followed.poll()
    (tmp_path / "away").rename(path)
    JournalWriter(path).write(a_pass_record(1))
    followed.poll()
    assert [each.number for each in followed.passes] == [1, 2] and followed.times_anew == 1


def test_a_newer_journal_is_refused_until_it_is_gone(tmp_path: Path) -> None:
    JournalWriter(tmp_path).write(a_pass_record(0))
    (file,) = tmp_path.iterdir()
    size = file.stat().st_size
    with open(file, "ab") as handle:
        handle.write(packed(b'{"version": 99}\n'))
    followed = Followed(tmp_path)
    for _ in range(2):
        with pytest.raises(NewerJournal):
            followed.poll()
        assert len(followed.passes) == 1 and followed.times_anew == 1
    os.truncate(file, size)
    assert followed.poll() and len(followed.passes) == 1
