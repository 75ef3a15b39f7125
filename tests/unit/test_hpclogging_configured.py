"""Which of the places that may configure logging decides, and what is said of one that cannot be
used. `test_hpclogging_setup` has the same in processes of their own."""

import contextlib
import io
import json
import logging
import os
import sys

import pytest

from hpc.autoscale import hpclogging
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.hpclogging import JsonFormatter
from hpc.autoscale.hpclogging.printed import ExcludeDemandPrinterFilter, logging_stream

CONF = """
[loggers]
keys=root
[handlers]
keys=h
[formatters]
keys=f
[logger_root]
level=DEBUG
handlers=h
[handler_h]
class=StreamHandler
formatter=f
args=(sys.stderr,)
[formatter_f]
format={name}: %(message)s
"""


@pytest.fixture
def say(monkeypatch, tmp_path, capsys):
    """Initialise logging, and say something; what stderr shows. Logging is as before then."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("AUTOSCALE_LOG_CONFIG", "")

    def said(section=None):
        monkeypatch.setattr(hpclogging, "_initialized", False)
        root.handlers[:] = []
        try:
            hpclogging.initialize_logging({"logging": section} if section else None)
            hpclogging.initialize_logging({"logging": {"config_file": "/ignored"}})
            hpclogging.warning("hello")
        finally:
            for handler in root.handlers:
                handler.close()
            root.handlers[:] = handlers
            root.setLevel(level)
        return capsys.readouterr().err

    return said


@pytest.fixture
def conf(tmp_path):
    """Writes a configuration of logging that names itself."""

    def write(name):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(CONF.format(name=path.stem))
        return str(path)

    return write


def test_who_decides(say, conf, monkeypatch):
    """The configuration, the environment, the default file, nobody: the first that is there."""
    assert "WARNING: hello" in say()
    conf("conf/logging.conf")
    assert say() == "logging: hello\n"
    monkeypatch.setenv("AUTOSCALE_LOG_CONFIG", conf("environment.conf"))
    assert say() == "environment: hello\n"
    assert say({"config_file": conf("own.conf")}) == "own: hello\n"
    settings = {
        "version": 1,
        "formatters": {"f": {"format": "dict: %(message)s"}},
        "handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}},
        "root": {"handlers": ["h"], "level": "INFO"},
    }
    assert say({"config": settings}) == "dict: hello\n"


def test_a_default_file_of_others_is_not_run(say, conf):
    """Whoever may write it could run code."""
    path = conf("conf/logging.conf")
    os.chmod(path, 0o666)
    assert "logging: " not in say()
    assert not hpclogging.is_configured()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("everything", "logging: expected an object, found 'everything'"),
        ({"config": {"version": 7}}, "logging.config cannot be used: ValueError"),
        ({"config": "x"}, "logging.config cannot be used"),
    ],
)
def test_settings_that_cannot_be_used(say, section, said):
    """An error that says where."""
    with pytest.raises(ConfigurationException, match=said):
        say(section)


def test_files_that_cannot_be_used(say, conf, tmp_path):
    """What cannot be read is said, and what makes no sense is an error."""
    assert "logging is not configured" in say({"config_file": "/nowhere/logging.conf"})
    path = tmp_path / "nofolder.conf"
    path.write_text(CONF.format(name="x").replace("class=StreamHandler", "class=FileHandler"))
    text = path.read_text().replace("(sys.stderr,)", "('/nowhere/x.log',)")
    path.write_text(text)
    assert "log file '/nowhere/x.log' cannot be opened" in say({"config_file": str(path)})
    path.write_text("[loggers\n")
    with pytest.raises(ConfigurationException, match=r"logging\.config_file .* cannot be used"):
        say({"config_file": str(path)})


@pytest.mark.parametrize(
    ("section", "expected"),
    [({"config_file": "x"}, True), ("x", True), ({"log_user": "x"}, False), (None, False)],
)
def test_whether_anything_is_configured(monkeypatch, tmp_path, section, expected):
    """Otherwise the logging of the process is left alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOSCALE_LOG_CONFIG", "")
    assert hpclogging.is_configured({"logging": section}) == expected
    (tmp_path / "there.conf").write_text("")
    monkeypatch.setenv("AUTOSCALE_LOG_CONFIG", str(tmp_path / "there.conf"))
    assert hpclogging.is_configured()


def test_a_log_that_cannot_be_written_is_said_once(say, conf, tmp_path, capsys):
    """Not with a stack trace for each line."""
    settings = {
        "version": 1,
        "handlers": {"h": {"class": "logging.FileHandler", "filename": str(tmp_path / "a.log")}},
        "root": {"handlers": ["h"]},
    }
    say({"config": settings})
    handler = logging.FileHandler(tmp_path / "b.log")
    hpclogging._tell_once(handler)
    for error in (OSError(28, "No space left on device"),) * 2:
        try:
            raise error
        except OSError:
            handler.handleError(logging.makeLogRecord({"msg": "x"}))
    handler.close()
    assert capsys.readouterr().err.count("cannot be written: No space left on device") == 1


def log_to(path, kind, monkeypatch):
    """Log warnings to a file; the root logger."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(hpclogging, "_initialized", False)
    settings = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"h": {"class": kind, "filename": str(path)}},
        "root": {"handlers": ["h"], "level": "WARNING"},
    }
    hpclogging.initialize_logging({"logging": {"config": settings}})
    return root


@pytest.mark.skipif(sys.platform == "win32", reason="nobody moves a file that is open")
@pytest.mark.parametrize("kind", ["logging.FileHandler", "logging.handlers.RotatingFileHandler"])
def test_a_log_that_is_moved_or_removed_is_begun_anew(monkeypatch, tmp_path, capsys, kind):
    """As logrotate does it, and another process that logs there. A directory that is not there is
    told once, and nothing is raised."""
    (tmp_path / "d").mkdir()
    path, moved = tmp_path / "d" / "a.log", tmp_path / "d" / "a.log.1"
    root = log_to(path, kind, monkeypatch)
    hpclogging.warning("one")
    path.rename(moved)
    hpclogging.warning("two")
    assert (moved.read_text(), path.read_text()) == ("one\n", "two\n")
    path.unlink()
    hpclogging.warning("three")
    hpclogging.warning("four")
    assert path.read_text() == "three\nfour\n"
    for each in (moved, path):
        each.unlink()
    path.parent.rmdir()
    for text in ("five", "six"):
        hpclogging.warning(text)
    assert capsys.readouterr().err.count("cannot be written: No such file") == 1
    for handler in root.handlers:
        handler.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
@pytest.mark.parametrize("kind", ["logging.FileHandler", "logging.handlers.RotatingFileHandler"])
def test_a_log_whose_file_could_not_be_closed_goes_on(monkeypatch, tmp_path, kind):
    """As where a log was removed from a full disk, or was to be rotated there: what was not written
    yet is lost, nothing is raised, and later records are written."""
    path = tmp_path / "a.log"
    root = log_to(path, kind, monkeypatch)
    (handler,) = root.handlers
    handler.stream.close()
    handler.stream = open("/dev/full", "w")  # noqa: SIM115 - the handler closes it
    handler.stream.write("lost")
    hpclogging.warning("one")
    handler.stream.close()
    hpclogging.warning("two")
    assert path.read_text() == "one\ntwo\n"
    handler.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_a_log_that_cannot_be_written_while_stderr_cannot_either(monkeypatch, tmp_path):
    """Nobody is told, and nothing is raised."""
    handler = logging.FileHandler(tmp_path / "b.log")
    hpclogging._tell_once(handler)
    told = False
    with (
        contextlib.suppress(OSError),
        open("/dev/full", "w", buffering=1) as full,
        monkeypatch.context() as patched,
    ):
        patched.setattr(sys, "stderr", full)
        try:
            raise OSError(28, "No space left on device")
        except OSError:
            handler.handleError(logging.makeLogRecord({"msg": "x"}))
        told = True
    assert told
    handler.close()


def test_lines_of_json():
    """With the error where there is one."""
    made = JsonFormatter()
    record = logging.makeLogRecord({"msg": "read %s", "args": ("jobs",), "created": 0.5})
    found = json.loads(made.format(record))
    assert (found["at"], found["message"]) == ("1970-01-01T00:00:00.500Z", "read jobs")
    assert "error" not in found
    try:
        raise ValueError("odd")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert "ValueError: odd" in json.loads(made.format(record))["error"]


def test_printed_lines_are_logged_too(caplog):
    """Whole ones, and what is left at the end; a filter keeps them out of a log."""
    out = io.StringIO()
    stream = logging_stream(out, "printed-lines")
    with caplog.at_level(logging.INFO, "printed-lines"):
        stream.write("a b\nc")
        stream.write("d\nrest")
        stream.flush()
        assert caplog.messages == ["a b", "cd"]
        stream.close()
    assert caplog.messages == ["a b", "cd", "rest"] and out.getvalue() == "a b\ncd\nrest"
    kept = ExcludeDemandPrinterFilter()
    assert not any(map(kept.filter, caplog.records))
    assert kept.filter(logging.makeLogRecord({"name": "other"}))
