"""A file that is written as a whole: its permissions, its links, and what stays when it fails."""

import errno
import os
import stat
from pathlib import Path

import pytest

from hpc.autoscale import wholefiles
from hpc.autoscale.wholefiles import unwritable, write_whole


def mode_of(path: Path) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file with a content, alone in its directory."""
    path = tmp_path / "state.json"
    path.write_text("old")
    return path


def test_a_new_file_has_what_the_umask_allows(tmp_path: Path) -> None:
    """As one that a shell makes; nothing stays beside it."""
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "new").read_text() == "text"
    assert mode_of(tmp_path / "new") == 0o640
    assert os.listdir(tmp_path) == ["new"]


def test_permissions_are_kept(old: Path) -> None:
    """Those that somebody has given the file, more or less than usual."""
    for mode in (0o600, 0o666):
        old.chmod(mode)
        write_whole(old, "new")
        assert mode_of(old) == mode


def test_permissions_that_are_asked_for(old: Path) -> None:
    """Whatever the file had, and whatever the umask takes away."""
    old.chmod(0o666)
    write_whole(old, "new", 0o600)
    assert mode_of(old) == 0o600
    before = os.umask(0o077)
    try:
        write_whole(old, "new", 0o644)
    finally:
        os.umask(before)
    assert mode_of(old) == 0o644


def test_nobody_else_may_read_while_it_is_written(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret is never in a file that others can open."""
    seen: list[int] = []

    def replace(source: str, target: str) -> None:
        seen.append(mode_of(Path(source)))
        raise KeyboardInterrupt

    monkeypatch.setattr(wholefiles.os, "replace", replace)
    monkeypatch.setattr(wholefiles.os, "chmod", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        write_whole(old, "secret", 0o644)
    assert seen == [0o600]
    assert os.listdir(old.parent) == [old.name]


def test_a_text_in_utf_8(old: Path) -> None:
    """Bytes go through as they are; half a surrogate pair is a question mark."""
    write_whole(old, "ä\udcff")
    assert old.read_bytes() == b"\xc3\xa4?"
    write_whole(old, b"\xff\r\n")
    assert old.read_bytes() == b"\xff\r\n"


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_full_disk(old: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The old file stays, nothing is left, and the error names the file that was meant."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(wholefiles.os, step, fail)
    with pytest.raises(OSError) as failed:
        write_whole(old, "new")
    assert failed.value.filename == str(old)
    assert unwritable(failed.value) == "it cannot be written: No space left on device"
    monkeypatch.undo()
    assert old.read_text() == "old"
    assert os.listdir(old.parent) == [old.name]


def test_it_is_on_the_disk_before_it_is_seen(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power failure leaves an empty file."""
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(wholefiles.os, "fsync", lambda f: (steps.append("fsync"), fsync(f)))
    monkeypatch.setattr(wholefiles.os, "replace", lambda *a: (steps.append("replace"), replace(*a)))
    write_whole(old, "new")
    assert steps == ["fsync", "replace"]


def test_a_link_stays(old: Path) -> None:
    """What it leads to is written."""
    link = old.parent / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(old)
    write_whole(link, "new")
    assert link.is_symlink()
    assert old.read_text() == "new"
    assert os.listdir(link.parent) == ["link"]


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    """As /dev/stdout: a pipe is not replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_whole("/dev/null", "nothing")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_where_it_cannot_be(tmp_path: Path) -> None:
    """In a directory that is not there, or in the place of one."""
    with pytest.raises(FileNotFoundError) as failed:
        write_whole(tmp_path / "no" / "file", "")
    assert unwritable(failed.value) == f"it cannot be written: there is no directory {tmp_path}/no"
    with pytest.raises(IsADirectoryError) as refused:
        write_whole(tmp_path, "")
    assert unwritable(refused.value) == "it cannot be written: Is a directory"


def test_a_link_to_a_place_that_is_not_there(tmp_path: Path) -> None:
    """Its place is named, and not that of the link, which is there."""
    (tmp_path / "x").symlink_to(tmp_path / "away" / "x")
    with pytest.raises(OSError) as failed:
        write_whole(tmp_path / "x", "new")
    assert unwritable(failed.value).endswith(f": there is no directory {tmp_path}/away")


def test_a_long_name(tmp_path: Path) -> None:
    """As long as the file system allows: what is written beside it is shorter."""
    path = tmp_path / ("x" * 255)
    write_whole(path, "text")
    assert path.read_text() == "text"
