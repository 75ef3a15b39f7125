"""The drop-in for logging: levels, fields on records, loggers, tracing, owners of log files."""

import logging
import os
import subprocess
import sys
from logging.handlers import MemoryHandler, QueueHandler, RotatingFileHandler
from queue import Queue

import pytest

from hpc.autoscale import hpclogging
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.hpclogging import HPCLogger

FORMAT = logging.Formatter("%(context)s|%(pid)s|%(levelname)s|%(filename)s|%(message)s")


class Lines(logging.Handler):
    """A handler that keeps what it would print."""

    def __init__(self):
        super().__init__()
        self.lines = []
        self.setFormatter(FORMAT)

    def emit(self, record):
        self.lines.append(self.format(record))


@pytest.fixture(autouse=True)
def own_state(monkeypatch):
    """Context, owner and root logger are put back after the test."""
    monkeypatch.setattr(hpclogging, "_UID", None)
    monkeypatch.setattr(hpclogging, "_GID", None)
    level = logging.root.level
    yield
    hpclogging.set_context("[init]")
    logging.root.setLevel(level)


@pytest.fixture
def root_lines():
    """What is logged to the root logger at any level."""
    handler = Lines()
    logging.root.addHandler(handler)
    logging.root.setLevel(1)
    yield handler.lines
    logging.root.removeHandler(handler)


def expected_line(level, message, context="[init]"):
    """The line of a record that was logged in this file."""
    return f"{context}|{os.getpid():<5}|{level}|test_hpclogging.py|{message}"


def test_importing_changes_little():
    """The root logger, the logger class and the handlers of the process stay as they were."""
    code = (
        "import logging\n"
        "before = logging.root, type(logging.root), logging.getLoggerClass(), list(logging.root.handlers)\n"
        "import hpc.autoscale.hpclogging\n"
        "assert before == (logging.root, type(logging.root), logging.getLoggerClass(), logging.root.handlers)\n"
        "assert logging.root.level == logging.WARNING\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_works_without_the_modules_of_posix():
    """There is no pwd, grp or fcntl on Windows."""
    code = (
        "import json, logging, pathlib, sys, dataclasses, types\n"
        "sys.platform = 'win32'\n"
        "sys.modules.update(pwd=None, grp=None, fcntl=None, msvcrt=types.ModuleType('msvcrt'))\n"
        "from hpc.autoscale import hpclogging, util\n"
        "hpclogging.set_default_log_user('nobody')\n"
        "hpclogging.initialize_logging()\n"
        "hpclogging.info('hello')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "hello" in done.stderr, done.stderr


@pytest.mark.parametrize("name, level", [("FINE", 5), ("TRACE", 2), ("REPRO", 1)])
def test_levels_have_names(name, level):
    """The standard library knows the levels, so that logging.conf may use them."""
    assert getattr(hpclogging, name) == level == logging.getLevelName(name)


def test_what_a_drop_in_must_have():
    """Names that programs use of logging, and the level constants."""
    names = [
        "getLogger",
        "basicConfig",
        "log",
        "debug",
        "info",
        "warning",
        "warn",
        "error",
        "exception",
        "critical",
        "fine",
        "trace",
        "CRITICAL",
        "FATAL",
        "ERROR",
        "WARNING",
        "WARN",
        "INFO",
        "DEBUG",
        "FINE",
        "TRACE",
        "REPRO",
        "NOTSET",
        "initialize_logging",
        "set_context",
        "apitrace",
        "reprolog",
        "cut",
        "HPCLogger",
        "HPCRootLogger",
        "FileOwnerHandler",
        "make_chown_handler",
        "set_default_log_user",
    ]
    assert [n for n in names if not hasattr(hpclogging, n) or n not in hpclogging.__all__] == []


# Records


@pytest.mark.parametrize(
    "log, level",
    [
        (lambda: hpclogging.fine("hello %s", "you"), "FINE"),
        (lambda: hpclogging.trace("hello %s", "you"), "TRACE"),
        (lambda: hpclogging.debug("hello %s", "you"), "DEBUG"),
        (lambda: hpclogging.info("hello %s", "you"), "INFO"),
        (lambda: hpclogging.warn("hello %s", "you"), "WARNING"),
        (lambda: hpclogging.warning("hello %s", "you"), "WARNING"),
        (lambda: hpclogging.error("hello %s", "you"), "ERROR"),
        (lambda: hpclogging.critical("hello %s", "you"), "CRITICAL"),
        (lambda: hpclogging.log(5, "hello %s", "you"), "FINE"),
        (lambda: hpclogging.getLogger("t.new").fine("hello %s", "you"), "FINE"),
        (lambda: hpclogging.getLogger("t.new").trace("hello %s", "you"), "TRACE"),
        (lambda: hpclogging.getLogger("t.new").warn("hello %s", "you"), "WARNING"),
        (lambda: hpclogging.getLogger().fine("hello %s", "you"), "FINE"),
        (lambda: logging.getLogger("t.foreign").info("hello %s", "you"), "INFO"),
    ],
)
def test_every_record_has_context_pid_and_the_line_of_the_caller(root_lines, log, level):
    """Whoever logs, by whatever logger."""
    hpclogging.set_context("[Job 1]")
    log()
    assert root_lines == [expected_line(level, "hello you", "[Job 1]")]


def test_exceptions_can_be_the_message(root_lines):
    """Integrations pass an exception instead of a text."""
    hpclogging.error(ValueError("what"))
    hpclogging.fine(ValueError("ever"))
    assert root_lines == [expected_line("ERROR", "what"), expected_line("FINE", "ever")]


def test_others_may_have_a_context_of_their_own(root_lines):
    """An `extra` of the same name is no error, and wins."""
    logging.getLogger("t.foreign").info("hi", extra={"context": "theirs", "pid": "1"})
    assert root_lines == ["theirs|1|INFO|test_hpclogging.py|hi"]


def test_records_keep_the_context_that_they_were_made_in():
    """Also when they are formatted later, or in another place."""
    target, queue = Lines(), Queue()
    logger = HPCLogger("t")
    logger.addHandler(memory := MemoryHandler(100, target=target))
    logger.addHandler(QueueHandler(queue))
    hpclogging.set_context("[then]")
    logger.info("hello")
    hpclogging.set_context("[now]")
    memory.flush()
    again = logging.makeLogRecord(queue.get_nowait().__dict__)
    assert target.lines == [expected_line("INFO", "hello", "[then]")]
    assert (again.context, again.pid) == ("[then]", f"{os.getpid():<5}")


def test_records_have_the_fields_before_they_are_formatted():
    """A handler may read them directly; other attributes are missing as ever."""
    record = logging.getLogger("t").makeRecord("t", 20, "f", 1, "m", (), None)
    assert (record.context, record.pid) == ("[init]", f"{os.getpid():<5}")
    with pytest.raises(AttributeError):
        record.contexts  # noqa: B018


def test_the_pid_is_right_after_a_fork():
    """A child shows its own process id."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            record = logging.getLogger("t").makeRecord("t", 20, "f", 1, "m", (), None)
            os.write(writer, FORMAT.format(record).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == f"[init]|{pid:<5}|INFO|f|m"


def test_record_factory_of_somebody_else(root_lines, monkeypatch):
    """A factory that an embedding program has installed stays in use, and once is enough."""

    def factory(*args, **kwargs):
        record = logging.LogRecord(*args, **kwargs)
        record.msg = f"<{record.msg}>"
        return record

    ours = logging.getLogRecordFactory()
    logging.setLogRecordFactory(factory)
    try:
        hpclogging.install_record_factory()
        installed = logging.getLogRecordFactory()
        hpclogging.install_record_factory()
        assert logging.getLogRecordFactory() is installed
        hpclogging.info("hi")
    finally:
        logging.setLogRecordFactory(ours)
    assert root_lines == [expected_line("INFO", "<hi>")]


# Loggers


def test_get_logger():
    """It is the logger of the standard library; a new one is ours and inherits its level."""
    logger = hpclogging.getLogger("t.get_logger")
    assert logger is logging.getLogger("t.get_logger") and isinstance(logger, HPCLogger)
    assert logger.level == logging.NOTSET and hpclogging.getLogger() is logging.root
    assert type(logging.getLogger("t.get_logger.stdlib")) is logging.Logger


def test_get_logger_of_another_class(root_lines):
    """A logger that existed before gets fine and trace."""
    logging.getLogger("t.before")
    hpclogging.getLogger("t.before").fine("hi")
    assert root_lines == [expected_line("FINE", "hi")]


def test_disabled_levels_format_nothing(root_lines):
    """What is not logged is not turned into text."""

    class Untold:
        def __str__(self):
            raise AssertionError("formatted although nobody logs it")

    logging.root.setLevel(logging.INFO)
    hpclogging.fine(Untold())
    hpclogging.getLogger("t.quiet").trace("%s", Untold())
    assert root_lines == []


def test_root_logger_class():
    """It can be made, and does not replace anything."""
    assert (hpclogging.HPCRootLogger().name, hpclogging.HPCRootLogger().level) == ("root", 30)
    assert type(logging.root) is logging.RootLogger


# Tracing


def traced(**levels):
    """A traced function."""

    @lambda f: hpclogging.apitrace(f, **levels)
    def add(a, *, password=None):
        """Adds."""
        return {"sum": a + 1, "token": password}

    return add


def test_apitrace_logs_calls(root_lines):
    """At FINE and TRACE in words and at REPRO as JSON, without secrets."""
    assert traced()(1, password="hunter2") == {"sum": 2, "token": "hunter2"}
    said = [line.split("|", 4)[2::2] for line in root_lines]
    name = "traced.<locals>.add"
    enter, leave = (
        f"ENTER {name}(1, password='***')",
        f"EXIT {name} -> {{'sum': 2, 'token': '***'}}",
    )
    call = '{"function": "traced.<locals>.add", "args": [1], "kwargs": {"password": "***"}}'
    assert said == [
        ["REPRO", call],
        ["FINE", enter],
        ["TRACE", enter],
        ["FINE", leave],
        ["TRACE", leave],
    ]


def test_apitrace_can_be_limited(root_lines):
    """Each kind can be left out."""
    traced(repro_level=False, fine_level=False)(1)
    assert {line.split("|")[2] for line in root_lines} == {"TRACE"}
    del root_lines[:]
    traced(repro_level=False, fine_level=False, trace_level=False)(1)
    assert root_lines == []


def test_apitrace_keeps_name_and_doc_and_wraps_once():
    """A traced function still says what it is, and is not traced twice."""
    add = traced()
    assert (add.__name__, add.__doc__, add.is_apitraced) == ("add", "Adds.", True)
    assert hpclogging.apitrace(add) is add


def test_apitrace_costs_no_repr_when_off(root_lines):
    """Arguments are not even looked at while nobody listens."""

    class Untold(int):
        def __repr__(self):
            raise AssertionError("formatted although nobody logs it")

    logging.root.setLevel(logging.DEBUG)
    assert traced()(Untold(1))["sum"] == 2


@pytest.mark.parametrize(
    "value, expected", [("short", "'short'"), ("x" * 100, "'xx...xx'"), ([1, 2], "[1, 2]")]
)
def test_cut(value, expected):
    """Long values are shortened in the middle."""
    assert hpclogging.cut(value, 10) == expected


# Owners of log files


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
    assert (
        lines[0].startswith("The following logs will not be rotated because")
        and str(path) in lines[0]
    )


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
    """make_chown_handler changes the owner of the open file and of the next one, as far as we may."""
    handler, path = log_file
    owner = (12345, 12346) if os.getuid() == 0 else (os.getuid(), os.getgid())
    hpclogging._UID, hpclogging._GID = owner
    hpclogging.make_chown_handler(handler)
    assert (path.stat().st_uid, path.stat().st_gid) == owner
    handler.doRollover()
    assert (path.stat().st_uid, path.stat().st_gid) == owner


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
