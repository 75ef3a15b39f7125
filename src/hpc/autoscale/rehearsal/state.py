"""The files in which an autoscaler remembers things, as a copy that is thrown away.

A pass reads and writes them all: which nodes were idle, what is in back-off, which requests are
under way. A rehearsal does the same to the copy, so that nothing is written to the files of the
site.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from tempfile import TemporaryDirectory
from typing import Any, Self

from hpc.autoscale.errors import AutoscaleError, unreadable
from hpc.autoscale.node.requests import file_of
from hpc.autoscale.sqlitefile import connect_to_read, is_there
from hpc.autoscale.statefiles import REQUESTS, STATE_FILES, STOPS, is_kept, path_of

# What is said of the directory that stands where a file could not be copied.
_IN_ITS_PLACE = "it is a directory"


def files_of_state(config: Mapping[str, Any], home: str) -> dict[str, str]:
    """The files in which passes remember things, whether they are there or not, by the key of the
    configuration that names one, or for which it is. `home`: where the files are that the
    configuration does not name."""
    kept = [file for file in STATE_FILES if is_kept(file, config)]
    found = {file.key: path_of(file, config, home) for file in kept}
    found[REQUESTS.key] = str(file_of(found[REQUESTS.key]))
    return found


class StateCopy:
    """Copies of the files of one configuration, in a temporary directory that goes with this
    object. `home`: where the files are that the configuration does not name."""

    def __init__(self, config: Mapping[str, Any], home: str) -> None:
        self._directory = TemporaryDirectory(prefix="hpc-autoscale-")
        self._site: dict[str, str] = {}
        self._unread: dict[str, str] = {}  # copies of files that cannot be read, with the reason
        try:
            self.settings = self._copied(config, home)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Remove the copies. An error of the library that leaves the block names the files of the
        site, as the copies that it was about are gone then."""
        if isinstance(error, AutoscaleError):
            error.args = tuple(self.in_words(a) if isinstance(a, str) else a for a in error.args)
        self.close()

    def close(self) -> None:
        """Remove the copies."""
        self._directory.cleanup()

    def of(self, path: str) -> str:
        """The copy of a file; it is made now unless it is there. A path of a copy is its own."""
        if os.path.dirname(path) == self._directory.name:
            return path
        for copy, site in self._site.items():
            if site == os.path.abspath(path):
                return copy
        return self._copy(path, f"{len(self._site)}-{os.path.basename(path)}")

    def in_words(self, text: str) -> str:
        """A text in which the files of the site stand where the copies were named, and why those
        cannot be read of which there is no copy."""
        for copy, reason in self._unread.items():
            if copy in text:
                text = text.replace(_IN_ITS_PLACE, reason)
        for copy, site in self._site.items():
            text = text.replace(copy, site)
        return text

    def _copied(self, config: Mapping[str, Any], home: str) -> dict[str, Any]:
        """The settings that name the copies."""
        files = files_of_state(config, home)
        kept = [file for file in STATE_FILES if file.key in files]
        copies = {file: self._copy(files[file.key], file.name) for file in kept}
        old = file_of(files[REQUESTS.key]).with_suffix(".json")
        with suppress(OSError):  # which is said of the file itself
            if is_there(old):  # a list of request ids of an earlier version
                self._copy(str(old), "requests.json")
        copy = copies.pop(STOPS)
        found: dict[str, Any] = {file.key: copies[file] for file in copies if file.is_named}
        if (config.get("autostop") or {}).get("database"):
            found["autostop"] = {**config["autostop"], "database": copy}
        return found

    def _copy(self, path: str, name: str) -> str:
        copy = os.path.join(self._directory.name, name)
        self._site[copy] = os.path.abspath(path)
        try:
            if is_there(path):
                _copy_file(path, copy)
        except OSError as error:
            # whoever opens the copy is to fail as whoever opens the file would
            os.makedirs(copy, exist_ok=True)
            self._unread[copy] = unreadable(error)
        return copy


def _copy_file(path: str, copy: str) -> None:
    """Copy a file of SQLite as it is between two transactions; one that is none, byte by byte, so
    that whoever reads the copy finds the same thing wrong with it."""
    with suppress(sqlite3.Error):
        with closing(connect_to_read(path)) as site, closing(sqlite3.connect(copy)) as own:
            own.execute("PRAGMA synchronous = OFF")  # nobody needs it after a crash
            site.backup(own)
        return
    with suppress(OSError):
        os.unlink(copy)
    shutil.copyfile(path, copy)
