"""What is on a log record: the levels below DEBUG, the context and the process id.

Records that the library makes are one line each, and nothing in them acts on a terminal, whatever
a server or a scheduler has put into them. Its stack traces have one line for each of theirs,
indented, so that none of them can pass for a record. Records of others stay as they are.

Only for `hpc.autoscale.hpclogging`, which publishes it. Importing this names the levels and
installs the record factory, so that any formatter in the process may use `%(context)s` and
`%(pid)s`.
"""

import logging
import os
import traceback
from functools import partial
from logging import LogRecord
from typing import Any

from hpc.autoscale.plaintext import on_its_lines, on_one_line

FINE = 5
TRACE = 2
REPRO = 1

_context = "[init]"

# where the modules of the library are, whose records are made harmless
_LIBRARY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


class ContextRecord(LogRecord):
    """A record that knows the context it was made in, and shows the process id in five columns.

    The two fields are filled in when the record is formatted, not before: the standard library
    refuses an `extra` whose key the record already has, and other people's loggers may well pass a
    `context` of their own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._made_in = _context
        _harmless_trace(self)

    def __getattr__(self, name: str) -> str:
        if name == "context":
            return self._made_in
        if name == "pid":
            return _pid(self)
        raise AttributeError(name)

    def getMessage(self) -> str:
        self.__dict__.setdefault("context", self._made_in)
        self.__dict__.setdefault("pid", _pid(self))
        return _harmless(self, super().getMessage())


def _pid(record: LogRecord) -> str:
    return f"{record.process or os.getpid():<5}"


def stack_trace(error: BaseException) -> str:
    """The stack trace of an error, indented; the text of each error in it is on one line."""
    parts = (part.rstrip("\n") for part in traceback.format_exception(error))
    # places are of our own files, and have their source on lines of their own
    lines = [on_its_lines(p) if p.startswith("  File") else on_one_line(p.strip()) for p in parts]
    return "\n".join(f"  {line}" for text in lines for line in text.split("\n"))


def _is_of_library(record: LogRecord) -> bool:
    return record.pathname.startswith(_LIBRARY)


def _harmless(record: LogRecord, message: str) -> str:
    """The message of a record as it may be shown.

    It keeps its line breaks where the record says that they are its own, by `extra={"own_lines":
    True}`.
    """
    if not _is_of_library(record):
        return message
    return on_its_lines(message) if hasattr(record, "own_lines") else on_one_line(message)


def _harmless_trace(record: LogRecord) -> None:
    """Have formatters show a harmless stack trace."""
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and _is_of_library(record):
        record.exc_text = stack_trace(error)


def _harmless_message(record: LogRecord) -> str:
    """What `getMessage` is of a record that another factory made."""
    return _harmless(record, type(record).getMessage(record))


def install_record_factory() -> None:
    """Have the two fields on every record, behind whatever factory an embedding program has
    installed."""
    previous = logging.getLogRecordFactory()
    if previous is ContextRecord or getattr(previous, "adds_context", False):
        return
    if previous is LogRecord:
        logging.setLogRecordFactory(ContextRecord)
        return

    def add_context(*args: Any, **kwargs: Any) -> LogRecord:
        record = previous(*args, **kwargs)
        record.context, record.pid = _context, _pid(record)
        if _is_of_library(record):
            _harmless_trace(record)
            record.getMessage = partial(_harmless_message, record)  # type: ignore[method-assign]
        return record

    add_context.adds_context = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(add_context)


def set_context(context: object) -> None:
    """What `%(context)s` shows from now on, in all threads, as a text."""
    global _context
    _context = on_one_line(str(context))  # it may name a job


logging.addLevelName(FINE, "FINE")
logging.addLevelName(TRACE, "TRACE")
logging.addLevelName(REPRO, "REPRO")
install_record_factory()
