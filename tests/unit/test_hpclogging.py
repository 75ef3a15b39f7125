"""The drop-in for logging: levels, fields on records, loggers, tracing."""

import logging
import os
import subprocess
import sys
from logging.handlers import MemoryHandler, QueueHandler
from queue import Queue

import pytest

from builders.log_lines import FORMAT, Lines, own_state, root_lines
from hpc.autoscale import hpclogging
from hpc.autoscale.hpclogging import HPCLogger

__all__ = ["own_state", "root_lines"]


def expected_line(level, message, context="[init]"):
    """The line of a record that was logged in this file."""
    return f"{context}|{os.getpid():<5}|{level}|test_hpclogging.py|{message}"


def test_importing_changes_little():
    """The root logger, the logger class and the handlers of the process stay as they were."""
    code = (
        "import logging\n"
        "before = logging.root, type(logging.root), logging.getLoggerClass(), "
        "list(logging.root.handlers)\n"
        "import hpc.autoscale.hpclogging\n"
        "assert before == (logging.root, type(logging.root), logging.getLoggerClass(), "
        "logging.root.handlers)\n"
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


@pytest.mark.parametrize(
    "context, shown", [(7, "7"), (None, "None"), (("[Job]", 1), "('[Job]', 1)")]
)
def test_a_context_may_be_anything(root_lines, context, shown):
    """What is no text is shown as its text."""
    hpclogging.set_context(context)
    hpclogging.info("hi")
    assert root_lines == [expected_line("INFO", "hi", shown)]


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


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
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
