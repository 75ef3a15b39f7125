"""The journal: what happened to every node, when and why, in order.

It is kept in memory for readers. With a path it is also appended to a file, as JSON lines that are
complete as soon as the request that caused them is answered. The model decides what is worth an
entry.
"""

import json
import logging
import threading
from pathlib import Path
from typing import Any, TextIO

from hpc.autoscale.simulator.errors import StartError

_log = logging.getLogger(__name__)


class EventLog:
    """An append-only list of entries. Raises StartError when `path` cannot be written to.

    Each entry is a dict with `seq` (1, 2, …), `time`, `event` and what belongs to the event:
    `cluster`, `node_id`, `name`, `nodearray`, `vm_size`, `cause`, `action`, `operation_id`,
    `request_id`, `message`, `pid`. Thread-safe.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._entries: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  closed by close()
            except OSError as error:
                raise StartError(f"journal {path}: {error.strerror}") from None

    def write(self, entry: dict[str, Any]) -> None:
        """Append an entry. A file that cannot be written any more is given up with one line in the
        log."""
        with self._lock:
            numbered = {"seq": len(self._entries) + 1, **entry}
            self._entries.append(numbered)
            if self._file is not None:
                try:
                    self._file.write(json.dumps(numbered) + "\n")
                    self._file.flush()
                except OSError as error:
                    _log.error("The journal file is given up: %s", error)
                    self._file = None

    def entries(self, since: int = 0, **facts: str) -> list[dict[str, Any]]:
        """The entries after number `since` that have all of these facts, as in
        `entries(event="created")`."""
        with self._lock:
            later = self._entries[max(0, since) :]
        return [
            dict(entry)
            for entry in later
            if all(entry.get(key) == value for key, value in facts.items())
        ]

    def close(self) -> None:
        """Close the file; entries can still be read."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
