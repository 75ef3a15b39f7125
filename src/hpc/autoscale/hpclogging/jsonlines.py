"""A formatter that makes a JSON object of each log record, for whoever collects logs.

In a logging.conf it is `class=hpc.autoscale.hpclogging.JsonFormatter`. Published by
`hpc.autoscale.hpclogging`.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any


class JsonFormatter(logging.Formatter):
    """One line for each record: `at` (UTC), `level`, `logger`, `context`, `pid`, `message`, and
    `error` with the stack trace where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "context": getattr(record, "context", None),
            "pid": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            fields["error"] = record.exc_text
        return json.dumps(fields, default=str)
