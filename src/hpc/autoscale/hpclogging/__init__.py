"""Logging: a drop-in for the standard `logging` module, as in `from hpc.autoscale import hpclogging
as logging`.

It adds three levels below DEBUG (FINE, TRACE, REPRO), the fields `%(context)s` and `%(pid)s` on
every record of the process, the logging section of autoscale.json, call tracing, and the care for
who owns rotated log files. What is logged does not belong here. Every module of the library and
every integration calls it.

Importing it names the levels and installs the record factory behind the two fields; the root
logger, the logger class and the handlers of the process stay as they are.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MethodType
from typing import IO, TYPE_CHECKING, Any, AnyStr, TextIO, TypeGuard, cast

from hpc.autoscale.errors import ConfigurationException, check_kinds, unreadable
from hpc.autoscale.hpclogging.conffiles import read_conf
from hpc.autoscale.hpclogging.jsonlines import JsonFormatter
from hpc.autoscale.hpclogging.records import (
    FINE,
    REPRO,
    TRACE,
    install_record_factory,
    set_context,
)
from hpc.autoscale.hpclogging.tracing import apitrace, cut, reprolog

if TYPE_CHECKING:
    from logging.handlers import RotatingFileHandler

if sys.platform != "win32":
    import grp
    import pwd

from logging import (
    CRITICAL,
    DEBUG,
    ERROR,
    FATAL,
    INFO,
    NOTSET,
    WARN,
    WARNING,
    FileHandler,
    Filter,
    Formatter,
    Handler,
    Logger,
    LoggerAdapter,
    LogRecord,
    NullHandler,
    StreamHandler,
    addLevelName,
    captureWarnings,
    critical,
    debug,
    disable,
    error,
    exception,
    getLevelName,
    info,
    log,
    root,
    shutdown,
    warning,
)

__all__ = [
    "CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "FINE", "TRACE", "REPRO",
    "NOTSET", "critical", "error", "exception", "warning", "warn", "info", "debug", "fine",
    "trace", "log", "getLogger", "basicConfig", "initialize_logging", "is_configured",
    "set_context", "apitrace", "reprolog", "cut", "HPCLogger", "HPCRootLogger",
    "FileOwnerHandler", "make_chown_handler", "set_default_log_user", "FileHandler", "Filter",
    "Formatter", "JsonFormatter", "Handler", "Logger", "LoggerAdapter", "LogRecord", "NullHandler",
    "StreamHandler", "addLevelName", "captureWarnings", "disable", "getLevelName", "root",
    "shutdown",
]  # fmt: skip

# What fileConfig and dictConfig raise for settings that they cannot use; the former evaluates parts
# of the file.
_UNUSABLE = (
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    SyntaxError,
    TypeError,
    ValueError,
)

_SETTINGS = ("config_file", "config")
_DEFAULT_FILE = os.path.join("..", "conf", "logging.conf")

_initialized = False
_lock = threading.RLock()
# Who shall own log files that root writes; see set_default_log_user.
_UID: int | None = None
_GID: int | None = None


class FileOwnerHandler:
    """Tells who owns a file."""

    def __call__(self, path: str) -> tuple[int, int]:
        """(user id, group id) of the file, or of this process when there is no such file."""
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return _own_ids()
        return status.st_uid, status.st_gid


class HPCLogger(Logger):
    """A logger with `fine` and `trace` that minds who owns its rotated files.

    A process that is not root cannot give a rotated file back to its owner, so it does not rotate
    files of others: their names are in `non_rotated_files` until the next record, which is preceded
    by one warning about them.
    """

    def __init__(
        self,
        name: str,
        level: int | str = DEBUG,
        file_owner_handler: Callable[[str], tuple[int, int]] | None = None,
    ) -> None:
        super().__init__(name, level)
        self.non_rotated_files: list[str] = []
        self._file_owner = file_owner_handler or FileOwnerHandler()

    def fine(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at level FINE, as `debug` does at DEBUG."""
        self.log(FINE, msg, *args, **_called_from_outside(kwargs))

    def trace(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at level TRACE, as `debug` does at DEBUG."""
        self.log(TRACE, msg, *args, **_called_from_outside(kwargs))

    def warn(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Another name of `warning`."""
        self.warning(msg, *args, **_called_from_outside(kwargs))

    def addHandler(self, hdlr: Handler) -> None:
        self.non_rotated_files += _settle_ownership([hdlr], self._file_owner)
        super().addHandler(hdlr)

    def handle(self, record: LogRecord) -> None:
        if self.non_rotated_files:
            files, self.non_rotated_files = self.non_rotated_files, []
            self.warning(_not_rotated(files))
        super().handle(record)


class HPCRootLogger(HPCLogger):
    """An HPCLogger that answers to the name root; it does not replace the root logger of the
    process."""

    def __init__(self, level: int | str = WARNING) -> None:
        super().__init__("root", level)


class _InheritingLogger(HPCLogger):
    """What getLogger makes: like any other new logger, it has the level of its parent."""

    def __init__(self, name: str) -> None:
        super().__init__(name, NOTSET)


def getLogger(name: str | None = None) -> HPCLogger:
    """The logger of that name, or the root logger; a new one is an HPCLogger, any other gets `fine`
    and `trace`."""
    with _lock:
        usual = logging.getLoggerClass()
        logging.setLoggerClass(_InheritingLogger)
        try:
            logger = logging.getLogger(name)
        finally:
            logging.setLoggerClass(usual)
    if not isinstance(logger, HPCLogger):
        for method in (HPCLogger.fine, HPCLogger.trace):
            setattr(logger, method.__name__, MethodType(method, logger))
    return cast(HPCLogger, logger)


def _called_from_outside(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments for the logger, so that the record names the line of our caller and not one of
    this file."""
    return kwargs | {"stacklevel": kwargs.get("stacklevel", 1) + 1}


def fine(msg: object, *args: object, **kwargs: Any) -> None:
    """Log at level FINE on the root logger."""
    log(FINE, msg, *args, **_called_from_outside(kwargs))


def trace(msg: object, *args: object, **kwargs: Any) -> None:
    """Log at level TRACE on the root logger."""
    log(TRACE, msg, *args, **_called_from_outside(kwargs))


def warn(msg: object, *args: object, **kwargs: Any) -> None:
    """Another name of `warning`."""
    warning(msg, *args, **_called_from_outside(kwargs))


def basicConfig(**kwargs: Any) -> None:
    """As `logging.basicConfig`; a format may use `%(context)s` and `%(pid)s`."""
    install_record_factory()
    logging.basicConfig(**kwargs)


def initialize_logging(config: Mapping[str, Any] | None = None) -> None:
    """Configure the logging of the process; only the first call does something.

    The first that is there decides: `logging.config_file` of the configuration (a file for
    `logging.config.fileConfig`), `logging.config` (for `dictConfig`), the file named by
    AUTOSCALE_LOG_CONFIG or else `../conf/logging.conf` seen from the working directory; without any
    of these everything down to DEBUG goes to stderr. A file that cannot be read is reported on
    stderr and leaves logging unconfigured. ConfigurationException when it can be read and not be
    used.
    """
    global _initialized
    check_kinds("initialize_logging", Mapping | None, config=config)
    with _lock:
        if _initialized:
            return
        _initialized = True
        install_record_factory()
        _configure((config or {}).get("logging") or {})
        _settle_configured_handlers()


def is_configured(config: Mapping[str, Any] | None = None) -> bool:
    """Whether anything says where the log goes: the configuration, AUTOSCALE_LOG_CONFIG or the
    default file.

    Where nothing does, the library leaves the logging of the process alone: what it logs is for
    whoever set that up, and without anybody only warnings appear.
    """
    section = (config or {}).get("logging")
    if section and (not isinstance(section, Mapping) or any(map(section.get, _SETTINGS))):
        return True
    path = os.getenv("AUTOSCALE_LOG_CONFIG", "")
    return os.path.exists(path) if path else is_trusted(_DEFAULT_FILE)


def _configure(section: Mapping[str, Any]) -> None:
    if not isinstance(section, Mapping):
        raise ConfigurationException(f"logging: expected an object, found {section!r}")
    if path := section.get("config_file"):
        _configure_from_file(str(path), "logging.config_file")
    elif settings := section.get("config"):
        from logging.config import dictConfig

        try:
            # by default it would silence every logger that was made when its module was imported
            dictConfig({"disable_existing_loggers": False, **settings})
        except _UNUSABLE as e:
            raise ConfigurationException(f"logging.config cannot be used: {_with_cause(e)}") from e
    elif os.path.exists(path := os.getenv("AUTOSCALE_LOG_CONFIG", "")):
        _configure_from_file(path, "AUTOSCALE_LOG_CONFIG")
    elif not path and is_trusted(path := _DEFAULT_FILE):
        _configure_from_file(path, "the default logging configuration")
    else:
        basicConfig(stream=sys.stderr, level=DEBUG, format="%(asctime)s %(levelname)s: %(message)s")


def _configure_from_file(path: str, origin: str) -> None:
    from configparser import Error
    from logging.config import fileConfig

    try:
        # read here, since in its messages fileConfig calls a file that is open by its repr
        fileConfig(read_conf(path), disable_existing_loggers=False)
    except OSError as e:
        why = unreadable(e)
        if e.filename != path:
            why = f"log file {e.filename!r} cannot be opened: {e.strerror}"
        sys.stderr.write(f"{origin} {path!r} cannot be used, logging is not configured: {why}\n")
    except (Error, RuntimeError, *_UNUSABLE) as e:
        raise ConfigurationException(f"{origin} {path!r} cannot be used: {_with_cause(e)}") from e


def _with_cause(e: Exception) -> str:
    cause = f" ({e.__cause__})" if e.__cause__ else ""
    return " ".join(f"{type(e).__name__}: {e}{cause}".split())


def is_trusted(path: str) -> bool:
    """Whether a file may be read that nobody has named: a logging configuration, or the driver that
    an autoscale.json names, runs code. It is there, belongs to root or to the user of this process,
    and cannot be written by everybody."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    if sys.platform == "win32":
        return True
    return status.st_uid in (0, os.getuid()) and not status.st_mode & 0o002


def set_default_log_user(user: str | None, group: str | None = None) -> None:
    """Who shall own the log files that this process writes as root; without a group, the user's
    own.

    The environment variables SCALELIB_LOG_USER and SCALELIB_LOG_GROUP do the same.
    ConfigurationException when there is no such user or group.
    """
    global _UID, _GID
    if sys.platform == "win32":
        return
    try:
        uid, gid = -1, -1  # -1: stays as it is
        if user:
            uid, gid = pwd.getpwnam(user)[2:4]
        if group:
            gid = grp.getgrnam(group).gr_gid
    except KeyError:
        who = f"user {user!r}" if uid == -1 and user else f"group {group!r}"
        raise ConfigurationException(f"there is no {who} to own the log files") from None
    _UID, _GID = uid, gid


def make_chown_handler(handler: "RotatingFileHandler") -> None:
    """Have the handler give its file, and each one that it opens later, to the configured owner.
    Needs root.

    Of the handler no more is asked than a `baseFilename`; only a class with an `_open` of its own
    opens its files itself.
    """
    uid = -1 if _UID is None else _UID
    gid = -1 if _GID is None else _GID
    own = getattr(type(handler), "_open", FileHandler._open)
    open_file = handler._open if own is not FileHandler._open else None

    def open_and_chown() -> Any:
        return _chown(open_file() if open_file else _open_log(handler), uid, gid)

    handler._open = open_and_chown  # type: ignore[method-assign]
    stream = getattr(handler, "stream", None)
    if stream:
        _chown(stream, uid, gid)
    elif os.path.exists(handler.baseFilename):
        with open(handler.baseFilename, "rb") as existing:
            _chown(existing, uid, gid)


def _open_log(handler: FileHandler) -> TextIO:
    """The file of a handler, opened as it says, or to be added to."""
    stream = open(  # noqa: SIM115 - the handler closes it
        handler.baseFilename,
        getattr(handler, "mode", "a"),
        encoding=getattr(handler, "encoding", None),
        errors=getattr(handler, "errors", None),
    )
    return cast(TextIO, stream)


def _chown(stream: IO[AnyStr], uid: int, gid: int) -> IO[AnyStr]:
    if sys.platform != "win32":
        os.fchown(stream.fileno(), uid, gid)
    return stream


def _own_ids() -> tuple[int, int]:
    return (0, 0) if sys.platform == "win32" else (os.getuid(), os.getgid())


def _settle_ownership(
    handlers: Iterable[Handler], owner: Callable[[str], tuple[int, int]]
) -> list[str]:
    """Make rotation respect who owns the files; returns the files that therefore are not
    rotated."""
    not_rotated = []
    for handler in handlers:
        if not _rotates(handler):
            continue
        if _own_ids()[0] == 0:
            if _UID is None and _GID is None:
                _read_log_owner()
            if _UID is not None or _GID is not None:
                make_chown_handler(handler)
        elif owner(handler.baseFilename) != _own_ids():
            handler.maxBytes = 2**32
            not_rotated.append(handler.baseFilename)
    return not_rotated


def _rotates(handler: Handler) -> "TypeGuard[RotatingFileHandler]":
    if not isinstance(handler, FileHandler):
        return False
    from logging.handlers import RotatingFileHandler  # has loaded already, or there would be none

    return isinstance(handler, RotatingFileHandler)


def _read_log_owner() -> None:
    user, group = os.getenv("SCALELIB_LOG_USER"), os.getenv("SCALELIB_LOG_GROUP")
    if user or group:
        set_default_log_user(user, group)


def _settle_configured_handlers() -> None:
    """Do for loggers of other classes, above all the root logger, what HPCLogger does in
    addHandler; and see to files that cannot be written."""
    loggers = [root, *logging.Logger.manager.loggerDict.values()]
    for logger in loggers:
        if not isinstance(logger, Logger):
            continue
        for handler in logger.handlers:
            if isinstance(handler, FileHandler):
                _tell_once(handler)
                _follow_the_name(handler)
        if not isinstance(logger, HPCLogger):
            files = _settle_ownership(logger.handlers, FileOwnerHandler())
            if files:
                logger.warning(_not_rotated(files))


def _tell_once(handler: FileHandler) -> None:
    """Have the handler say on stderr that its file cannot be written, and which: once, instead of a
    stack trace for each record."""
    usual = handler.handleError
    told = False

    def handle_error(record: LogRecord) -> None:
        nonlocal told
        problem = sys.exc_info()[1]
        if not isinstance(problem, OSError):
            usual(record)
        elif not told:
            told = True
            said = f"log file {handler.baseFilename!r} cannot be written: {problem.strerror}\n"
            with suppress(OSError):  # it may be on the same disk
                sys.stderr.write(said)

    handler.handleError = handle_error  # type: ignore[method-assign]


def _follow_the_name(handler: FileHandler) -> None:
    """Have the handler write to the file that has its name when it writes: others move and remove
    log files, such as logrotate and other processes that log there. One that could not be closed
    properly, as on a disk that is full, is closed all the same."""
    emit = handler.emit

    def emit_there(record: LogRecord) -> None:
        stream = handler.stream
        if stream is not None and (stream.closed or not _is_at(stream, handler.baseFilename)):
            handler.stream = None  # it is opened anew
            with suppress(OSError):  # what it could not write is lost
                stream.close()
        try:
            emit(record)
        except OSError:  # not all handlers see to a file that cannot be opened
            handler.handleError(record)

    if sys.platform != "win32":  # which lets nobody move a file that is open
        handler.emit = emit_there  # type: ignore[method-assign]


def _is_at(stream: IO[AnyStr], path: str) -> bool:
    """Whether a file that is open is the one of this name."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True  # nobody knows of another


def _not_rotated(files: Iterable[str]) -> str:
    names = ", ".join(files)
    return (
        "The following logs will not be rotated because the current user does not match the owner:"
        f" {names}"
    )
