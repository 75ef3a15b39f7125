"""What the last record of a journal said, for the next process.

Under cron every pass is a process of its own, and none of them remembers what the one before has
written. So that process leaves a file beside the journal, from which the next one knows what has
changed since: jobs, hosts and what waits as they were, and digests of all other rows. It is
written with `marshal`, as Python's own caches of modules are, since to read thousands of rows must
cost next to nothing: so it is looked at only where it belongs to this user, nobody else may write
to it, the same Python has written it and its digest is right. It holds only where it tells of the
very record at the end of the journal; whatever is doubtful is no such file, and then a record
stands by itself.
"""

from __future__ import annotations

import json
import marshal
import os
import stat
import sys
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.journal.changes import Rows
from hpc.autoscale.journal.digests import SIZE, digest, digested
from hpc.autoscale.journal.files import FileEnd
from hpc.autoscale.journal.pairs import Pairs
from hpc.autoscale.journal.portable import portable, restored
from hpc.autoscale.journal.snapshots import host_json, job_json
from hpc.autoscale.journal.waiting import waiting_json
from hpc.autoscale.redaction import Hiding, redact_texts

FILE = "last-record"
_VERSION = 3

_JSON_OF: dict[str, Callable[[Any], Any]] = {
    "jobs": job_json,
    "hosts": host_json,
    "unsatisfied": waiting_json,
}
"""The lists whose rows are handed over, and what JSON has for each of their values."""


class LastRecord(NamedTuple):
    """What a record said. `lists`: its lists, with digests for values that were not handed over;
    `parts`: digests of what else is written only when it has changed, by name; `remembered`: what
    the writer's owner wanted to know again, as JSON. `packed`: the lists whose rows are handed
    over, as bytes; `known`: what rows share that was read of a file, and what it is as
    `portable`, by the `id` of each."""

    lists: Mapping[str, Rows]
    parts: Mapping[str, str]
    remembered: Mapping[str, Any]
    packed: Mapping[str, bytes]
    known: Mapping[int, tuple[Any, Any]]


_NOTHING = LastRecord({}, {}, {}, {}, {})


def handed_over(
    lists: Mapping[str, Rows],
    parts: Mapping[str, str],
    remembered: Mapping[str, Any],
    before: LastRecord | None,
    text_of: Callable[[Any], str],
    rows_too: bool = True,
) -> LastRecord:
    """What is left for the next process, after a record that another process has left word of.
    `text_of` as `digests.digested` takes it. `rows_too`: whether nothing had to be hidden in the
    record, and rows may be handed over: those of a list all of whose rows were written since."""
    before = before or _NOTHING
    every = {**before.lists, **lists}
    packed = {}
    for name in _JSON_OF.keys() & every.keys() if rows_too else ():
        was = before.lists.get(name)
        if was is not None and was.are_digests:
            continue
        is_same = every[name] is was
        found = before.packed.get(name) if is_same else _packed(every[name], before.known)
        if found is not None:
            packed[name] = found
    left = {name: r if name in packed else digested(r, text_of) for name, r in every.items()}
    return LastRecord(left, parts, remembered, packed, {})


def _packed(rows: Rows, known: Mapping[int, tuple[Any, Any]]) -> bytes | None:
    """Rows with what is each one's own; the different values that they share, as `portable`; and
    which of these is that of each row. None where they cannot be handed over: with objects in them,
    or a secret. `known` as in `LastRecord`."""
    pairs = rows.values
    if not isinstance(pairs, Pairs):
        return None
    ids = list(map(id, pairs.shared))
    values = dict(zip(ids, pairs.shared, strict=True))
    numbers = {key: number for number, key in enumerate(values)}
    which = array("I", map(numbers.__getitem__, ids)).tobytes()
    try:
        shared = [known[i][1] if i in known else _shown(value) for i, value in values.items()]
        return marshal.dumps((rows.keys, pairs.own, shared, which))
    except (TypeError, ValueError):
        return None


def _shown(value: Any) -> Any:
    """A value as `portable`. ValueError for one that a journal would not show as it is."""
    if json.dumps(redact_texts(value), default=repr) != json.dumps(value, default=repr):
        raise ValueError("there is a secret in it")
    return portable(value)


def keep(path: Path, last: LastRecord, place: FileEnd, record: bytes, hiding: Hiding) -> None:
    """Leave word of the record that ends at this place, for the next process. What cannot be
    written, or has a secret in it, is not left. Where rows are handed over, nothing had to be
    hidden in the record, nor in those on which it builds: so they are not looked through."""
    names: list[list[str]] = []
    digests: dict[str, Any] = {}
    for name, rows in last.lists.items():
        if name in last.packed:
            continue
        index = next((i for i, known in enumerate(names) if known == rows.keys), len(names))
        if index == len(names):
            names.append(rows.keys)
        digests[name] = (index, _bytes_of(rows), rows.source)
    body = marshal.dumps((dict(last.packed), names, digests))
    head = {
        "version": _VERSION,
        "python": sys.implementation.cache_tag,
        "file": os.path.basename(place.path),
        "begin": place.end - len(record),
        "end": place.end,
        "record": digest(record).hex(),
        "body": digest(body).hex(),
        "parts": last.parts,
        "remembered": last.remembered,
    }
    text = json.dumps(head, separators=(",", ":"))
    shown = text if last.packed else text + json.dumps(names)
    if hiding(shown) != shown:
        forget(path)
        return
    new = path / f"{FILE}.new"
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        with open(handle, "wb") as file:
            file.write(text.encode() + b"\n" + body)
        os.replace(new, path / FILE)
    except OSError:
        for each in (new, path / FILE):
            with suppress(OSError):
                each.unlink()


def forget(path: Path) -> None:
    """Take away what was left: it tells of a record that is not the last one any more."""
    with suppress(OSError):
        (path / FILE).unlink()


def last_record(path: Path, newest: FileEnd | None) -> LastRecord | None:
    """What the record at the end of a journal said; None where nobody has left word of it, or
    anything about that is doubtful."""
    if newest is None:
        return None
    try:
        head, _, body = _own_file(path / FILE).partition(b"\n")
        found = json.loads(head)
        expected = (
            _VERSION,
            sys.implementation.cache_tag,
            os.path.basename(newest.path),
            newest.end,
        )
        if tuple(map(found.get, ("version", "python", "file", "end"))) != expected:
            return None
        if digest(body).hex() != found["body"]:
            return None
        begin, end = int(found["begin"]), int(found["end"])
        with open(newest.path, "rb") as file:
            file.seek(begin)
            if digest(file.read(end - begin)).hex() != found["record"]:
                return None
        packed, names, digests = marshal.loads(body)
        known: dict[int, tuple[Any, Any]] = {}
        lists = {name: _rows_of(name, content, known) for name, content in packed.items()}
        for name, (index, values, source) in digests.items():
            lists[name] = _rows_of_digests(names[index], values, source)
        return LastRecord(lists, dict(found["parts"]), dict(found["remembered"]), packed, known)
    except (OSError, AutoscaleError, AttributeError, EOFError, LookupError, RecursionError):
        return None
    except (TypeError, ValueError):
        return None


def _own_file(path: Path) -> bytes:
    """What is in a file that this user has written and nobody else can have. OSError for others."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        if sys.platform != "win32" and (
            about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        ):
            raise OSError(f"{path} may have been written by others")
        return file.read()


def _bytes_of(rows: Rows) -> bytes | None:
    """Digests as bytes; None where there is nothing but keys."""
    content: bytes = rows.values.tobytes()  # type: ignore[union-attr]
    return content if content.strip(b"\0") else None


def _rows_of(name: str, content: bytes, known: dict[int, tuple[Any, Any]]) -> Rows:
    """The rows of a list that was handed over. What they share is noted in `known`, as `LastRecord`
    has it."""
    keys, own, said, numbers = marshal.loads(content)
    shared = list(map(restored, said))
    known.update((id(both[0]), both) for both in zip(shared, said, strict=True))
    pairs = Pairs.of(own, list(map(shared.__getitem__, array("I", numbers))))
    if not len(keys) == len(pairs.own) == len(pairs.shared):
        raise ValueError("expected a value for each row")
    return Rows(keys, pairs, _JSON_OF[name], mark=object())


def _rows_of_digests(keys: list[str], values: bytes | None, source: bytes | None) -> Rows:
    content = bytes(SIZE * len(keys)) if values is None else values
    if len(content) != SIZE * len(keys):
        raise ValueError("expected a digest for each row")
    return Rows(keys, array("Q", content) if keys else [], source=source)
