"""What is on a log record: the levels below DEBUG, the context and the process id.

Only for `hpc.autoscale.hpclogging`, which publishes it. Importing this names the levels and
installs the record factory, so that any formatter in the process may use `%(context)s` and
`%(pid)s`.
"""

import logging
import os
from logging import LogRecord
from typing import Any

FINE = 5
TRACE = 2
REPRO = 1

_context = "[init]"


class ContextRecord(LogRecord):
    """A record that knows the context it was made in, and shows the process id in five columns.

    The two fields are filled in when the record is formatted, not before: the standard library
    refuses an `extra` whose key the record already has, and other people's loggers may well pass a
    `context` of their own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._made_in = _context

    def __getattr__(self, name: str) -> str:
        if name == "context":
            return self._made_in
        if name == "pid":
            return _pid(self)
        raise AttributeError(name)

    def getMessage(self) -> str:
        self.__dict__.setdefault("context", self._made_in)
        self.__dict__.setdefault("pid", _pid(self))
        return super().getMessage()


def _pid(record: LogRecord) -> str:
    return f"{record.process or os.getpid():<5}"


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
        return record

    add_context.adds_context = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(add_context)


def set_context(context: str) -> None:
    """What `%(context)s` shows from now on, in all threads."""
    global _context
    _context = context


logging.addLevelName(FINE, "FINE")
logging.addLevelName(TRACE, "TRACE")
logging.addLevelName(REPRO, "REPRO")
install_record_factory()
