"""Log files belong to whom they should, and only their owner rotates them."""

import logging
import os
from logging.handlers import RotatingFileHandler

import pytest

from builders.log_lines import own_state
from hpc.autoscale import hpclogging
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.hpclogging import HPCLogger

__all__ = ["own_state"]


@pytest.fixture
def log_file(tmp_path):
    """A rotating handler and its file."""
    path = tmp_path / "test.log"
    path.touch()
    handler = RotatingFileHandler(path, maxBytes=100, backupCount=1)
    yield handler, path
    handler.close()


def test_owner_of_a_file(tmp_path):
    """The ids of the owner, or our own while there is no file."""
    owner = hpclogging.FileOwnerHandler()
    ours = (os.getuid(), os.getgid())
    (tmp_path / "f").touch()
    assert owner(str(tmp_path / "f")) == owner(str(tmp_path / "missing")) == ours


def test_files_of_others_are_not_rotated(log_file, monkeypatch):
    """A process that is not root says so once, before the next record, and goes on."""
    handler, path = log_file
    monkeypatch.setattr(hpclogging, "_own_ids", lambda: (1000, 1000))
    logger = HPCLogger("t", file_owner_handler=lambda path: (1001, 1000))
    logger.addHandler(handler)
    assert (handler.maxBytes, logger.non_rotated_files) == (2**32, [str(path)])
    logger.info("one")
    logger.info("two")
    lines = path.read_text().splitlines()
    assert logger.non_rotated_files == [] and lines[1:] == ["one", "two"]
    said = (
        "The following logs will not be rotated because the current user does not match the owner: "
    )
    assert lines[0] == said + str(path)


def test_own_files_are_rotated(log_file, monkeypatch):
    """Nothing changes for files of our own, and for handlers of other kinds."""
    handler, _path = log_file
    monkeypatch.setattr(hpclogging, "_own_ids", lambda: (1000, 1000))
    logger = HPCLogger("t", file_owner_handler=lambda path: (1000, 1000))
    logger.addHandler(handler)
    logger.addHandler(logging.StreamHandler())
    assert (handler.maxBytes, logger.non_rotated_files) == (100, [])


def test_root_gives_files_to_their_owner(log_file, monkeypatch):
    """As root, with an owner configured, the file and each new one are given away."""
    handler, path = log_file
    chowned = []
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: chowned.append((uid, gid)))
    monkeypatch.setattr(hpclogging, "_own_ids", lambda: (0, 0))
    monkeypatch.setattr(hpclogging, "_UID", 1234)
    logger = HPCLogger("t")
    logger.addHandler(handler)
    assert chowned == [(1234, -1)]
    logger.info("x" * 90)
    logger.info("x" * 90)
    assert chowned == [(1234, -1)] * 2 and handler.maxBytes == 100
    assert path.read_text() == "x" * 90 + "\n"


def test_root_without_an_owner_changes_nothing(log_file, monkeypatch):
    """As root, without a configured owner, files stay root's."""
    handler, _path = log_file
    monkeypatch.setattr(hpclogging, "_own_ids", lambda: (0, 0))
    opens = handler._open
    HPCLogger("t", file_owner_handler=lambda path: (5, 5)).addHandler(handler)
    assert (handler._open, handler.maxBytes) == (opens, 100)


def test_files_are_really_given_away(log_file):
    """make_chown_handler changes the owner of the open file and of the next one, as far as we
    may."""
    handler, path = log_file
    owner = (12345, 12346) if os.getuid() == 0 else (os.getuid(), os.getgid())
    hpclogging._UID, hpclogging._GID = owner
    hpclogging.make_chown_handler(handler)
    assert (path.stat().st_uid, path.stat().st_gid) == owner
    handler.doRollover()
    assert (path.stat().st_uid, path.stat().st_gid) == owner


class _Bare:
    """A handler that has a file and nothing else."""

    def __init__(self, path):
        self.baseFilename = str(path)


def test_a_handler_that_has_only_a_file(tmp_path, monkeypatch):
    """The file that is there is given away, and so is each one that is opened, to be added to."""
    path = tmp_path / "a.log"
    chowned = []
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: chowned.append((uid, gid)))
    monkeypatch.setattr(hpclogging, "_UID", 12)
    monkeypatch.setattr(hpclogging, "_GID", 34)
    handler = _Bare(path)
    hpclogging.make_chown_handler(handler)
    assert chowned == []
    for text in ("one\n", "two\n"):
        with handler._open() as stream:
            stream.write(text)
    assert (path.read_text(), chowned) == ("one\ntwo\n", [(12, 34)] * 2)
    hpclogging.make_chown_handler(_Bare(path))
    assert chowned == [(12, 34)] * 3


def test_the_file_is_opened_as_the_handler_says(tmp_path, monkeypatch):
    """In its mode and encoding, by ourselves, whatever was put in the place of its `_open`."""
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: None)
    path = tmp_path / "a.log"
    path.write_text("old")
    handler = RotatingFileHandler(path, mode="w", encoding="utf-16", delay=True)
    handler._open = None
    hpclogging.make_chown_handler(handler)
    with handler._open() as stream:
        stream.write("ü")
    assert path.read_text(encoding="utf-16") == "ü"


def test_a_class_that_opens_files_in_its_own_way_goes_on_doing_so(tmp_path, monkeypatch):
    """Such as one that writes compressed files."""
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: None)

    class Shouting(RotatingFileHandler):
        def _open(self):
            stream = super()._open()
            stream.write("HELLO\n")
            return stream

    handler = Shouting(tmp_path / "a.log", delay=True)
    hpclogging.make_chown_handler(handler)
    handler._open().close()
    assert (tmp_path / "a.log").read_text() == "HELLO\n"


def test_owner_from_the_environment(log_file, monkeypatch):
    """SCALELIB_LOG_USER and SCALELIB_LOG_GROUP name the owner."""
    import pwd

    me = pwd.getpwuid(os.getuid())
    monkeypatch.setenv("SCALELIB_LOG_USER", me.pw_name)
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: None)
    monkeypatch.setattr(hpclogging, "_own_ids", lambda: (0, 0))
    HPCLogger("t").addHandler(log_file[0])
    assert (me.pw_uid, me.pw_gid) == (hpclogging._UID, hpclogging._GID)


@pytest.mark.parametrize(
    "user, group, expected", [("no-such-user", None, "user"), (None, "no-such-group", "group")]
)
def test_owner_that_does_not_exist(user, group, expected):
    """The error names the user or the group."""
    with pytest.raises(ConfigurationException, match=f"{expected} 'no-such-{expected}'"):
        hpclogging.set_default_log_user(user, group)
