"""The times for which servers asked to be left alone, in a file for later processes.

Otherwise somebody who runs one pass per process (cron) would ask again too early. The file stands
beside the one of request ids. `settings` makes it part of a client's pacing; deciding to wait is
the session's.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings.pacing import PROCESS_WIDE, NotBefore, RetryAfter
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.wholefiles import write_whole

Clock = Callable[[], float]

_by_path: dict[Path, "SavedWaits"] = {}


def waits_for(config: Mapping[str, Any]) -> NotBefore:
    """The memory for a configuration: one with a file when `requests_file` is set.

    Otherwise it is that of the process. ConfigurationException for what is no path of a file.
    """
    requests_file = config.get("requests_file")
    if not requests_file or config.get("read_only"):
        return PROCESS_WIDE
    try:
        path = Path(requests_file).with_suffix(".waits.json").absolute()
    except (TypeError, ValueError):
        raise ConfigurationException(
            f"requests_file: expected the path of a file, found {requests_file!r}"
        ) from None
    if path not in _by_path:
        _by_path[path] = SavedWaits(path)
    return _by_path[path]


class SavedWaits(NotBefore):
    """What servers asked for, kept beyond the end of the process.

    `now` is the clock of `RetryAfter.until`, `wall_clock` is
    Unix time.

    A file that cannot be read or written costs a warning: then the memory is that of the process.
    When clocks were set back between two processes, no wait becomes longer than the server asked
    for.
    """

    def __init__(
        self, path: Path, now: Clock = time.monotonic, wall_clock: Clock = time.time
    ) -> None:
        super().__init__()
        self._path = path
        self.kept_in = str(path)
        self._now = now
        self._wall_clock = wall_clock
        self._turn = threading.Lock()
        for endpoint, asked in self._read():
            super().note(endpoint, asked)

    def note(self, endpoint: tuple[str, str, str], asked: RetryAfter) -> None:
        """Remember what a server asked for at an endpoint, also on disk. One thread does so after
        the other: else the file may end without what another one has noted meanwhile."""
        with self._turn:
            super().note(endpoint, asked)
            self._write()

    def _read(self) -> list[tuple[tuple[str, str, str], RetryAfter]]:
        try:
            saved = json.loads(self._path.read_text(encoding="utf-8"))
            return [self._decoded(entry) for entry in saved]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            logging.warning("%s: what servers asked to wait cannot be read: %r", self._path, error)
            return []

    def _decoded(self, entry: dict[str, Any]) -> tuple[tuple[str, str, str], RetryAfter]:
        left = min(float(entry["until"]) - self._wall_clock(), float(entry["seconds"]))
        until, beyond = self._now() + left, float(entry.get("beyond", 0.0))
        asked = RetryAfter(until, int(entry["status"]), str(entry["message"]), beyond)
        return (str(entry["server"]), str(entry["method"]), str(entry["path"])), asked

    def _encoded(self, endpoint: tuple[str, str, str], asked: RetryAfter) -> dict[str, Any]:
        server, method, path = endpoint
        left = asked.until - self._now()
        return {
            "server": server,
            "method": method,
            "path": path,
            "until": self._wall_clock() + left,
            "seconds": left,
            "status": asked.status_code,
            "message": asked.message,
            "beyond": asked.beyond,
        }

    def _write(self) -> None:
        entries = [self._encoded(*known) for known in self.all_pending(self._now())]
        try:
            write_whole(self._path, json.dumps(entries))
        except OSError as error:
            logging.warning("%s: what servers ask to wait cannot be kept: %s", self._path, error)
