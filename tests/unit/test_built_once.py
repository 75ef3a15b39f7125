"""What tests build once for all their processes."""

import multiprocessing
import time
from pathlib import Path

import pytest

from builders.built_once import built_once


class Factory:
    """Makes directories as pytest does in one of its processes."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def getbasetemp(self) -> Path:
        return self.base

    def mktemp(self, name: str) -> Path:
        made = self.base / f"{name}{len(list(self.base.glob(name + '*')))}"
        made.mkdir()
        return made


def _build(directory: Path) -> None:
    time.sleep(0.2)  # so that the others come while it is built
    (directory / "file").write_text("built", encoding="utf-8")


def _ask(base: Path) -> str:
    return str(built_once(Factory(base), "thing", _build))  # type: ignore[arg-type]


def test_processes_at_the_same_time_get_one_directory(tmp_path, monkeypatch):
    """Which is complete."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    bases = [tmp_path / f"popen-gw{number}" for number in range(3)]
    for base in bases:
        base.mkdir()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        found = set(pool.map(_ask, bases, chunksize=1))
    assert len(found) == 1
    assert Path(found.pop(), "file").read_text(encoding="utf-8") == "built"
    assert len(list(tmp_path.rglob("file"))) == 1


def test_a_build_that_fails_is_tried_again(tmp_path, monkeypatch):
    """By the next one that asks."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def fail(directory: Path) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        built_once(Factory(tmp_path), "thing", fail)  # type: ignore[arg-type]
    assert Path(_ask(tmp_path), "file").exists()
