"""What a server has asked to wait outlives the process, in a file; clocks are arguments."""

import logging
import os
import threading
from pathlib import Path

import pytest

from hpc.autoscale.ccbindings import settings, waits
from hpc.autoscale.ccbindings.pacing import PROCESS_WIDE, RetryAfter
from hpc.autoscale.ccbindings.waits import SavedWaits

ENDPOINT = ("https://cc", "POST", "/clusters/c/nodes/create")


def process(path: Path, now: float, wall_clock: float) -> SavedWaits:
    """The memory of a process that starts with these clocks, which stand still."""
    return SavedWaits(path, now=lambda: now, wall_clock=lambda: wall_clock)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in which a process has noted a wait of 600 s at the Unix time 1000."""
    path = tmp_path / "waits.json"
    process(path, now=50.0, wall_clock=1000.0).note(ENDPOINT, RetryAfter(650.0, 429, "Slow down."))
    return path


def test_a_later_process_waits_for_what_is_left(path: Path) -> None:
    """By its own clock, with the server's words, for that endpoint alone."""
    later = process(path, now=7.0, wall_clock=1400.0)
    assert later.pending(ENDPOINT, 7.0) == RetryAfter(207.0, 429, "Slow down.")
    assert later.pending(ENDPOINT, 207.0) is None
    assert later.pending(("https://cc", "GET", "/clusters/c/status"), 7.0) is None


def test_what_two_threads_note_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of two clusters that are read side by side: the file has both, whoever writes last."""
    own, write = process(path, now=0.0, wall_clock=1000.0), waits.write_whole
    others: list[threading.Thread] = []

    def slow(target: Path, text: str) -> None:
        if not others:
            others.append(threading.Thread(target=note, args=("/second",)))
            others[0].start()
            others[0].join(0.2)  # it may be done by then, or have to wait for this one
        write(target, text)

    def note(endpoint: str) -> None:
        own.note(("https://cc", "GET", endpoint), RetryAfter(5.0, 429, ""))

    monkeypatch.setattr(waits, "write_whole", slow)
    note("/first")
    others[0].join()
    assert "/first" in path.read_text() and "/second" in path.read_text()


def test_what_is_over_is_forgotten(path: Path) -> None:
    """Also on disk, with the next note."""
    later = process(path, now=0.0, wall_clock=1600.0)
    assert later.pending(ENDPOINT, 0.0) is None
    later.note(("https://cc", "GET", "/x"), RetryAfter(5.0, 503, ""))
    assert "create" not in path.read_text()
    assert os.listdir(path.parent) == [path.name]


def test_a_later_process_knows_what_was_asked_for_beyond(path: Path) -> None:
    """Its errors have the server's number, too."""
    process(path, now=0.0, wall_clock=0.0).note(ENDPOINT, RetryAfter(900.0, 429, "", 500.0))
    asked = process(path, now=0.0, wall_clock=0.0).pending(ENDPOINT, 0.0)
    assert asked is not None and asked.beyond == 500.0


def test_clocks_that_are_set_back_lengthen_nothing(path: Path) -> None:
    """At most what was left when it was written."""
    asked = process(path, now=0.0, wall_clock=-9e9).pending(ENDPOINT, 0.0)
    assert asked is not None and asked.until == 600.0


@pytest.mark.parametrize("content", ["", "{", "7", "[7]", '[{"until": 1}]', '{"a": 1}'])
def test_a_file_that_is_no_such_file(
    path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Costs a warning; the next note writes it anew."""
    path.write_text(content)
    with caplog.at_level(logging.WARNING):
        waiting = process(path, now=0.0, wall_clock=0.0)
    assert "cannot be read" in caplog.text
    waiting.note(ENDPOINT, RetryAfter(5.0, 429, ""))
    assert process(path, now=0.0, wall_clock=0.0).pending(ENDPOINT, 0.0) is not None


def test_a_place_that_cannot_be_written_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Costs a warning; the process remembers."""
    waiting = process(tmp_path / "none" / "waits.json", now=0.0, wall_clock=0.0)
    with caplog.at_level(logging.WARNING):
        waiting.note(ENDPOINT, RetryAfter(5.0, 429, ""))
    assert "cannot be kept" in caplog.text
    assert waiting.pending(ENDPOINT, 0.0) is not None


def test_it_stands_beside_the_request_ids(tmp_path: Path) -> None:
    """Where they have a file, and this is no dry run; one memory for all clients of the process."""
    config = {"requests_file": str(tmp_path / "requests.json")}
    waiting = settings.pacing(config).not_before
    assert isinstance(waiting, SavedWaits)
    assert settings.pacing(dict(config)).not_before is waiting
    waiting.note(ENDPOINT, RetryAfter(waiting._now() + 60.0, 429, ""))
    assert os.listdir(tmp_path) == ["requests.waits.json"]
    for none in ({}, {**config, "read_only": True}, {"requests_file": None}):
        assert waits.waits_for(none) is PROCESS_WIDE
