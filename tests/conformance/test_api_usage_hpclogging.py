"""Section 2: `hpc.autoscale.hpclogging` in the place of `logging`."""

import io
import logging as stdlib
import os
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler

import pytest

from builders.processes import python
from builders.published import row
from hpc.autoscale import hpclogging as logging

FORMAT = "%(levelname)s %(context)s %(pid)s %(message)s"


@contextmanager
def listening(logger=None, level=1):
    """What the root logger, or another, is given meanwhile, one formatted line for each record."""
    logger = logger or stdlib.getLogger()
    stream = io.StringIO()
    handler = stdlib.StreamHandler(stream)
    handler.setFormatter(stdlib.Formatter(FORMAT))
    before, others = logger.level, logger.handlers[:]
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    try:
        yield stream
    finally:
        logger.setLevel(before)
        logger.handlers[:] = others


@row("hpclogging.functions")
@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("debug", "DEBUG"),
        ("info", "INFO"),
        ("warning", "WARNING"),
        ("warn", "WARNING"),
        ("error", "ERROR"),
        ("critical", "CRITICAL"),
    ],
)
def test_functions_log_as_the_standard_ones_do(name, level):
    """With arguments, with exc_info, and with something that is no text at all."""
    log = getattr(logging, name)
    with listening() as lines:
        log("%s and %d", "a", 1)
        log(ValueError("as it is"))
        try:
            raise KeyError("inner")
        except KeyError:
            log("failed", exc_info=True)
    text = lines.getvalue()
    assert [line.split()[0] for line in text.splitlines()[:3]] == [level] * 3
    assert "a and 1\n" in text
    assert "as it is\n" in text
    assert "KeyError: 'inner'" in text


@row("hpclogging.functions")
def test_exception_and_log():
    """`exception` shows what was raised; `log` takes the level first."""
    with listening() as lines:
        try:
            raise RuntimeError("the cause")
        except RuntimeError as e:
            logging.exception(str(e))
        logging.log(logging.FINE, "at level %s", 5)
    text = lines.getvalue()
    assert text.startswith("ERROR [init]")
    assert "RuntimeError: the cause" in text
    assert text.splitlines()[-1].startswith("FINE [init]")


@row("hpclogging.fine_trace")
def test_fine_and_trace_are_levels_of_their_own():
    """Registered with the standard library under their names; any object can be logged."""
    with listening() as lines:
        logging.fine("fine %s", 1)
        logging.fine(RuntimeError("an exception"))
        logging.trace("trace")
    levels = [line.split()[0] for line in lines.getvalue().splitlines()]
    assert levels == ["FINE", "FINE", "TRACE"]
    assert "an exception" in lines.getvalue()
    assert (stdlib.getLevelName("FINE"), stdlib.getLevelName("TRACE")) == (5, 2)
    assert (stdlib.getLevelName(5), stdlib.getLevelName(2)) == ("FINE", "TRACE")


@row("hpclogging.fine_trace")
def test_fine_is_silent_below_its_level():
    """At DEBUG neither of them is logged."""
    with listening(level=stdlib.DEBUG) as lines:
        logging.fine("fine")
        logging.trace("trace")
    assert lines.getvalue() == ""


@row("hpclogging.getLogger")
def test_loggers_of_this_module_are_loggers_with_more():
    """A standard logger, always the same one by name, that has fine and trace; without a name, the
    root."""
    logger = logging.getLogger("conformance.pbspro.driver")
    assert isinstance(logger, stdlib.Logger)
    assert isinstance(logger, logging.HPCLogger)
    assert logger is stdlib.getLogger("conformance.pbspro.driver")
    assert logging.getLogger() is stdlib.getLogger()
    with listening(logger) as lines:
        logger.fine("fine")
        logger.trace("trace")
        logger.info("info")
    assert [line.split()[0] for line in lines.getvalue().splitlines()] == ["FINE", "TRACE", "INFO"]


@row("hpclogging.levels")
def test_levels_are_the_standard_ones_and_three_more():
    """Constants by which Slurm sets its levels."""
    standard = ["CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "NOTSET"]
    assert [getattr(logging, n) for n in standard] == [getattr(stdlib, n) for n in standard]
    assert (logging.FINE, logging.TRACE, logging.REPRO) == (5, 2, 1)
    with listening(level=logging.WARNING) as lines:
        logging.info("too low")
        logging.warning("high enough")
    assert len(lines.getvalue().splitlines()) == 1


def _in_a_new_process(config, *statements, **environment):
    """Initialise logging with a configuration in another process, then run statements; (stdout,
    stderr)."""
    code = (
        f"from hpc.autoscale import hpclogging as logging\nlogging.initialize_logging({config!r})\n"
    )
    done = python(code + "\n".join(statements), **{"AUTOSCALE_LOG_CONFIG": "", **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


CONF = """
[loggers]
keys=root
[handlers]
keys=out
[formatters]
keys=line
[logger_root]
level=REPRO
handlers=out
[handler_out]
class=StreamHandler
formatter=line
args=(sys.stdout,)
[formatter_line]
format=%(levelname)s %(context)s %(message)s
"""


@row("hpclogging.initialize_logging")
def test_the_configured_file_comes_first(tmp_path):
    """`logging.config_file` is given to fileConfig, which knows the level names."""
    (tmp_path / "logging.conf").write_text(CONF)
    config = {"logging": {"config_file": str(tmp_path / "logging.conf")}}
    out, err = _in_a_new_process(config, "logging.trace('hello')")
    assert (out, err) == ("TRACE [init] hello\n", "")


@row("hpclogging.initialize_logging")
def test_a_missing_file_is_said_on_stderr(tmp_path):
    """And nothing more happens: the program goes on without its log."""
    config = {"logging": {"config_file": str(tmp_path / "none.conf")}}
    out, err = _in_a_new_process(config, "print('went on')")
    assert out == "went on\n"
    assert "none.conf" in err


@row("hpclogging.initialize_logging")
def test_a_dict_comes_second(tmp_path):
    """`logging.config` is given to dictConfig."""
    settings = {
        "version": 1,
        "formatters": {"f": {"format": "D %(context)s %(message)s"}},
        "handlers": {
            "h": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "f"}
        },
        "root": {"level": "INFO", "handlers": ["h"]},
    }
    out, _ = _in_a_new_process({"logging": {"config": settings}}, "logging.info('hello')")
    assert out == "D [init] hello\n"


@row("hpclogging.initialize_logging")
def test_the_environment_comes_third_and_the_usual_place_last(tmp_path):
    """AUTOSCALE_LOG_CONFIG, else ../conf/logging.conf as seen from the working directory."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "conf" / "logging.conf").write_text(CONF)
    (tmp_path / "env.conf").write_text(CONF.replace("format=%", "format=E %"))
    os.chdir(tmp_path / "bin")
    by_place, _ = _in_a_new_process({}, "logging.info('x')")
    by_environment, _ = _in_a_new_process(
        None, "logging.info('x')", AUTOSCALE_LOG_CONFIG=str(tmp_path / "env.conf")
    )
    assert (by_place, by_environment) == ("INFO [init] x\n", "E INFO [init] x\n")


@row("hpclogging.initialize_logging")
def test_otherwise_everything_goes_to_stderr_and_the_first_call_wins(tmp_path):
    """basicConfig at DEBUG; later calls change nothing."""
    (tmp_path / "logging.conf").write_text(CONF)
    again = (
        f"logging.initialize_logging({{'logging': {{'config_file': "
        f"{str(tmp_path / 'logging.conf')!r}}}}})"
    )
    out, err = _in_a_new_process({}, again, "logging.debug('hello')")
    assert out == ""
    assert err.endswith(" DEBUG: hello\n")


@row("hpclogging.set_context")
def test_the_context_is_on_every_record():
    """Also on those of loggers that know nothing of this library, with the process id beside it."""
    foreign = stdlib.getLogger("conformance.foreign")
    with listening() as lines:
        foreign.warning("before")
        logging.set_context("[Job 7]")
        foreign.warning("after")
        logging.warning("after")
    pid = f"{os.getpid():<5}"
    assert lines.getvalue().splitlines() == [
        f"WARNING [init] {pid} before",
        f"WARNING [Job 7] {pid} after",
        f"WARNING [Job 7] {pid} after",
    ]


def _rotating_logger(tmp_path, owner):
    logger = logging.HPCLogger("own", file_owner_handler=owner)
    handler = RotatingFileHandler(tmp_path / "own.log", maxBytes=100, backupCount=1)
    handler.setFormatter(stdlib.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    return logger, handler


@row("hpclogging.HPCLogger")
def test_files_of_others_are_not_rotated(tmp_path, monkeypatch):
    """A process that is not root leaves them whole, says so once before its next record, and
    forgets the list."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    logger, handler = _rotating_logger(tmp_path, lambda path: (12345, 12345))
    assert handler.maxBytes == 2**32
    assert logger.non_rotated_files == [handler.baseFilename]
    logger.info("first")
    logger.info("second")
    handler.close()
    lines = (tmp_path / "own.log").read_text().splitlines()
    assert logger.non_rotated_files == []
    assert [line.split()[0] for line in lines] == ["WARNING", "INFO", "INFO"]
    assert handler.baseFilename in lines[0]


@row("hpclogging.HPCLogger")
def test_own_files_are_rotated(tmp_path, monkeypatch):
    """Nothing changes for a file that belongs to this process."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 1000)
    logger, handler = _rotating_logger(tmp_path, lambda path: (1000, 1000))
    handler.close()
    assert (handler.maxBytes, logger.non_rotated_files) == (100, [])


@row("hpclogging.ownership")
def test_root_gives_log_files_to_their_owner(tmp_path, monkeypatch):
    """The handler's file, and each one that it opens later, goes to the ids in `_UID` and `_GID`,
    which tests set."""
    chowned = []
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: chowned.append((uid, gid)))
    monkeypatch.setattr(logging, "_UID", 123)
    monkeypatch.setattr(logging, "_GID", 456)
    handler = RotatingFileHandler(tmp_path / "a.log", maxBytes=10, backupCount=1)
    logging.make_chown_handler(handler)
    for _ in range(2):  # at once, and not by length: Python 3.13 leaves an empty file as it is
        handler.doRollover()
    handler.close()
    assert chowned == [(123, 456)] * 3


@row("hpclogging.ownership")
def test_the_owner_is_set_by_name(monkeypatch):
    """`set_default_log_user` resolves names once; a group may come with the user."""
    monkeypatch.setattr(logging, "_UID", None)
    monkeypatch.setattr(logging, "_GID", None)
    logging.set_default_log_user("root", "daemon")
    assert (logging._UID, logging._GID) == (0, 1)
    logging.set_default_log_user(user="daemon", group=None)
    assert (logging._UID, logging._GID) == (1, 1)
