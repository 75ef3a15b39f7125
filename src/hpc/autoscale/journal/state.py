"""What an autoscaler remembers from pass to pass, as it is in its files: a copy for the journal,
and files again.

A pass writes its files itself, and does the same to them when it is decided again. So they are
copied only where a record stands by itself, or where somebody else has written them.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any

from hpc.autoscale.journal.records import NOTHING_TO_HIDE
from hpc.autoscale.node.requests import file_of
from hpc.autoscale.onpremises.workers import STATES_FILE
from hpc.autoscale.redaction import Hiding, redact_texts
from hpc.autoscale.sqlitefile import connect_to_read
from hpc.autoscale.statefiles import (
    HISTORY,
    HOSTS,
    REQUEST_SETS,
    REQUESTS,
    STATE_FILES,
    STOPS,
    path_of,
)

Saved = dict[str, str]
"""The contents of files by the name that `paths_of` gives them, packed."""

Stamp = dict[str, tuple[int, int, bytes]]
"""What tells a file from one that was written since."""

# Names in a journal, by the key of the configuration of a pass that has the path.
_KEYS = {
    STATES_FILE if file is HOSTS else file.key: file.in_journal
    for file in STATE_FILES
    if file.in_journal and file is not STOPS
}
_WITH = {STATES_FILE: HOSTS.key}
LEDGER = STOPS.in_journal
_NO_DATABASE = b"this was no database"


def paths_of(config: Mapping[str, Any], home: str) -> dict[str, str]:
    """The files of a pass, by the name that they have in a journal."""
    given = {**config, HISTORY.key: path_of(HISTORY, config, home)}
    found = {name: str(given[key]) for key, name in _KEYS.items() if given.get(key)}
    if given.get(REQUESTS.key):
        found[REQUESTS.in_journal] = str(file_of(str(given[REQUESTS.key])))
    return {**found, LEDGER: path_of(STOPS, config, home)}


def stamp(paths: Mapping[str, str]) -> Stamp:
    """What the files are now: SQLite counts each change in their heads."""
    found: Stamp = {}
    for name, path in paths.items():
        with suppress(OSError), open(path, "rb") as file:
            status = os.fstat(file.fileno())
            found[name] = (status.st_ino, status.st_size, file.read(100)[24:28])
    return found


def stamp_json(known: Stamp) -> dict[str, Any]:
    """A stamp in terms of JSON."""
    return {name: [number, size, count.hex()] for name, (number, size, count) in known.items()}


def stamp_of(found: Any) -> Stamp:
    """The stamp of a JSON form; that of no files for anything else."""
    try:
        return {str(name): (n, size, bytes.fromhex(c)) for name, (n, size, c) in found.items()}
    except (AttributeError, TypeError, ValueError):
        return {}


def replaced(before: Stamp, paths: Mapping[str, str]) -> str | None:
    """Which file is another one than it was, or has what others wrote while the pass ran, in words;
    None when none is. Passes write all of their files but the request sets."""
    now, sets = stamp(paths), REQUEST_SETS.in_journal
    for name, (number, *_) in before.items():
        if name not in now or now[name][0] != number:
            return f"{paths[name]} was replaced while the pass ran"
    if now.get(sets) != before.get(sets):
        return f"{paths[sets]} was written by somebody else while the pass ran"
    return None


def saved(paths: Mapping[str, str], hiding: Hiding = NOTHING_TO_HIDE) -> Saved:
    """The contents of the files that are there, without secrets: those that are known, and texts
    under keys of secrets in what is JSON. What is no database is taken byte by byte, unless it may
    have secrets in it."""
    found: Saved = {}
    for name, path in paths.items():
        content = _content(path)
        if content is None:
            continue
        try:
            if content:
                content = _with_texts(content, lambda text: _shown(text, hiding))
        except sqlite3.Error:
            text = content.decode("latin-1")
            may_have = name == REQUEST_SETS.in_journal or hiding(text) != text
            content = _NO_DATABASE if may_have else content
        found[name] = _packed(content)
    return found


def _content(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    try:
        with closing(connect_to_read(path)) as db:
            return db.serialize()
    except sqlite3.Error:
        with suppress(OSError), open(path, "rb") as file:
            return file.read()
    return None


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 1)).decode()


def _shown(text: str, hiding: Hiding) -> str:
    """A text of a file as it may be seen."""
    if text.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            known = json.loads(text)
            shown = redact_texts(known)
            text = text if shown == known else json.dumps(shown)
    return hiding(text)


def changed_texts(packed: str, change: Callable[[str], str]) -> str:
    """The content of a file with every text in it changed."""
    content = zlib.decompress(base64.b64decode(packed))
    try:
        new = _with_texts(content, change) if content else content
    except sqlite3.Error:
        new = _NO_DATABASE
    return packed if new == content else _packed(new)


def _with_texts(content: bytes, change: Callable[[str], str]) -> bytes:
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(content)
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            rows = db.execute(f'SELECT * FROM "{table}"').fetchall()
            new = [tuple(_with_text(value, change) for value in row) for row in rows]
            if new == rows:
                continue
            db.execute(f'DELETE FROM "{table}"')
            places = ", ".join("?" * len(rows[0]))
            db.executemany(f'INSERT INTO "{table}" VALUES ({places})', new)
        db.commit()
        db.execute("VACUUM")  # what was deleted would still be there, between the rows
        return db.serialize()


def _with_text(value: Any, change: Callable[[str], str]) -> Any:
    """A value with what it says changed. Names that may be no UTF-8 are kept as bytes."""
    if isinstance(value, bytes):
        text = value.decode(errors="surrogateescape")
        return change(text).encode(errors="surrogateescape")
    return change(value) if isinstance(value, str) else value


def in_directory(directory: str) -> dict[str, str]:
    """Where in a directory `restore` writes the files, by name."""
    return {name: os.path.join(directory, name) for name in [*_KEYS.values(), LEDGER]}


def restore(files: Mapping[str, str], directory: str) -> None:
    """Write the files into a directory, in which no others stay. ValueError or zlib.error for what
    is no content."""
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    for name, path in in_directory(directory).items():
        if name in files:
            with open(path, "wb") as file:
                file.write(zlib.decompress(base64.b64decode(files[name])))


def settings(config: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """The entries of a configuration that name the files, for those in a directory."""
    found: dict[str, Any] = {
        key: os.path.join(directory, name)
        for key, name in _KEYS.items()
        if config.get(_WITH.get(key, key)) or key == HISTORY.key
    }
    found["autostop"] = {
        **(config.get("autostop") or {}),
        "database": os.path.join(directory, LEDGER),
    }
    return found
