"""What a program prints, in its log as well: a stream that gives each printed line to a logger, and
the filter that keeps those lines out of a log.
"""

from __future__ import annotations

import logging
from typing import TextIO

from hpc.autoscale.errors import check_has

# The name on the records, by which filters know them whatever logger they were given to.
RECORD_NAME = "demandprinter"


class LoggingStream:
    """Writes on to another stream, and gives each finished line to a logger. Closing leaves the
    other stream open."""

    def __init__(self, wrapped: TextIO, logger: logging.Logger) -> None:
        self._wrapped = wrapped
        self._logger = logger
        self._unfinished = ""

    def write(self, text: str) -> int:
        """Write text; lines that it completes are logged."""
        self._wrapped.write(text)
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._log(line)
        return len(text)

    def flush(self) -> None:
        """Flush the other stream."""
        self._wrapped.flush()

    def close(self) -> None:
        """Log what is left without a line end, and flush."""
        if self._unfinished:
            self._log(self._unfinished)
            self._unfinished = ""
        self._wrapped.flush()

    def _log(self, line: str) -> None:
        # whatever the level of the logger: handlers and filters have their say
        record = self._logger.makeRecord(
            RECORD_NAME, logging.INFO, __file__, 0, line, args=(), exc_info=None
        )
        self._logger.handle(record)


def logging_stream(wrapped: TextIO, logger_name: str | None = None) -> LoggingStream:
    """A stream that writes to `wrapped` and gives each line at INFO to a logger, by default
    `demand`, whatever its level."""
    check_has("logging_stream", "write", wrapped=wrapped)
    return LoggingStream(wrapped, logging.getLogger(logger_name or "demand"))


class ExcludeDemandPrinterFilter(logging.Filter):
    """Drops the lines of printed demand: for handlers whose log should not repeat the table."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for records of the demand printer."""
        return record.name != RECORD_NAME
