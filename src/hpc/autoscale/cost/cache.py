"""Answers of the price service, kept for two days in memory and in files that only their owner can
read.

A cache never stands in the way: what cannot be read counts as absent, what cannot be written is
kept in memory, and an entry appears whole or not at all, so that several processes can share a
directory. `retail` is what calls it.
"""

import hashlib
import json
import os
import stat
import sys
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.wholefiles import write_whole

EXPIRY = 172_800.0
"""Seconds for which an answer is good."""


def default_directory(cache_root: str | None) -> str | None:
    """The directory of cached prices: `retail` in `cache_root`, else in the user's cache directory.

    None where the user has no home directory.
    """
    if cache_root:
        return os.path.join(os.path.expanduser(cache_root), "retail")
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # also what the XDG specification says to do with a relative one
        base = os.path.expanduser(os.path.join("~", ".cache"))
    return os.path.join(base, "hpc-autoscale", "retail") if os.path.isabs(base) else None


class ResponseCache:
    """JSON values by key, in files of `directory`, or in memory only when that is None.

    Nothing is opened or made until it is used.
    """

    def __init__(self, directory: str | None, expiry: float = EXPIRY) -> None:
        self.directory = directory
        self.expiry = expiry
        self._memory: dict[str, tuple[float, Any]] = {}
        self._checked = False

    def get(self, key: str) -> Any | None:
        """What was put under the key, unless that is too long ago; None when there is nothing."""
        known = self._memory.get(key)
        if known is None:
            known = self._read(key)
        if known is None or not self._is_fresh(known[0]):
            return None
        self._memory[key] = known
        return known[1]

    def put(self, key: str, value: Any) -> None:
        """Keep a value. An empty one is kept in memory only.

        A price that does not exist yet may exist before the two days of a file are over.
        """
        now = clock.time()
        self._memory[key] = (now, value)
        if value and self._is_usable():
            try:
                entry = json.dumps({"key": key, "time": now, "value": value})
                write_whole(self._path(key), entry, 0o600)
            except OSError as error:
                self._give_up(f"cannot be written: {error}")

    def _is_fresh(self, written: float) -> bool:
        # an entry from the future was written before the clock was put back: its age is not known
        return 0 <= clock.time() - written < self.expiry

    def _path(self, key: str) -> str:
        name = hashlib.sha256(key.encode()).hexdigest()
        return os.path.join(self.directory or "", f"{name}.json")

    def _read(self, key: str) -> tuple[float, Any] | None:
        if not self._is_usable():
            return None
        path = self._path(key)
        try:
            with open(path, encoding="utf-8") as file:
                entry = json.load(file)
            if entry["key"] == key:
                return float(entry["time"]), entry["value"]
        except FileNotFoundError:
            return None
        except (
            OSError,
            ValueError,
            ArithmeticError,
            LookupError,
            TypeError,
            RecursionError,
        ) as error:
            logging.debug("Ignoring the cached prices in %s: %s", path, error)
        return None

    def _is_usable(self) -> bool:
        """Whether files may be used; decided, and the directory made, at the first question."""
        if self.directory is not None and not self._checked:
            self._checked = True
            try:
                os.makedirs(self.directory, mode=0o700, exist_ok=True)
                problem = _danger(os.lstat(self.directory))
            except OSError as error:
                problem = f"cannot be made: {error}"
            if problem:
                self._give_up(problem)
        return self.directory is not None

    def _give_up(self, problem: str) -> None:
        logging.warning("Prices are not cached: %s %s", self.directory, problem)
        self.directory = None


def _danger(status: os.stat_result) -> str:
    """Why another user could put prices of his own into the directory; empty when nobody could."""
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory"
    if sys.platform != "win32":
        if status.st_uid != os.geteuid():
            return f"belongs to user {status.st_uid}"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""
