"""What the last record of a journal said, for the next process: a digest of each row of its lists.

Under cron every pass is a process of its own, and none of them remembers what the one before has
written. So that process leaves a small file beside the journal, from which the next one knows what
has changed since. It holds only where it tells of the very record at the end of the journal;
whatever is doubtful is no such file, and then a record stands by itself.
"""

from __future__ import annotations

import base64
import json
import marshal
import os
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from hpc.autoscale.journal.changes import Digests, Rows
from hpc.autoscale.journal.files import FileEnd
from hpc.autoscale.redaction import Hiding

FILE = "last-record.json"
_VERSION = 2
_SIZE = 8
_MARSHAL = 2  # later versions write the same value in several ways


class LastRecord(NamedTuple):
    """What a record said. `lists`: its lists, with digests for values; `parts`: digests of what
    else is written only when it has changed, by name; `remembered`: what the writer's owner wanted
    to know again, as JSON."""

    lists: Mapping[str, Rows]
    parts: Mapping[str, str]
    remembered: Mapping[str, Any]


def digest_of(value: Any) -> str:
    """A text that is the same for the same value of JSON."""
    return digest(json.dumps(value, sort_keys=True, default=str).encode()).hex()


def digested(rows: Rows, text_of: Callable[[Any], str]) -> Rows:
    """Rows as digests; `text_of` as in `digests_of`."""
    if rows.digested is not None:
        return rows.digested
    source = None if rows.source is None else digest(rows.source)
    return Rows(rows.keys, digests_of(rows, text_of), source=source)


def digests_of(rows: Rows, text_of: Callable[[Any], str]) -> Digests:
    """A digest for each value. `text_of` makes a text of what JSON has for a value, where that is
    something other than texts, numbers, lists and objects."""
    values = rows.values
    if all(value is None for value in values):
        return array("Q", bytes(_SIZE * len(values)))
    bare, dumps = rows.bare, marshal.dumps
    found: list[bytes] = []
    for value in values:
        try:
            content = dumps(bare(value), _MARSHAL)
        except ValueError:  # an object
            content = text_of(rows.plain(value)).encode()
        found.append(blake2b(content, digest_size=_SIZE).digest())
    return array("Q", b"".join(found))


def digest(content: bytes) -> bytes:
    """What tells some bytes from others."""
    return blake2b(content, digest_size=_SIZE).digest()


def keep(path: Path, last: LastRecord, place: FileEnd, record: bytes, hiding: Hiding) -> None:
    """Leave word of the record that ends at this place, for the next process. What cannot be
    written, or has a secret in it, is not left."""
    names: list[list[str]] = []
    lists, digests = {}, {}
    for name, rows in last.lists.items():
        index = next((i for i, known in enumerate(names) if known == rows.keys), len(names))
        if index == len(names):
            names.append(rows.keys)
        lists[name] = [index, (rows.source or b"").hex()]
        digests[name] = _packed(rows.values)
    document = {
        "version": _VERSION,
        "file": os.path.basename(place.path),
        "begin": place.end - len(record),
        "end": place.end,
        "record": digest(record).hex(),
        "parts": last.parts,
        "remembered": last.remembered,
        "names": names,
        "lists": lists,
    }
    text = json.dumps(document, separators=(",", ":"))
    if hiding(text) != text:
        forget(path)
        return
    # there is no secret in these, which are half of it
    text = f'{text[:-1]},"digests":{json.dumps(digests)}}}'
    new = path / f"{FILE}.new"
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
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
        found = json.loads((path / FILE).read_bytes())
        begin, end = int(found["begin"]), int(found["end"])
        known = (found["version"], found["file"], end)
        if known != (_VERSION, os.path.basename(newest.path), newest.end) or not 0 <= begin < end:
            return None
        with open(newest.path, "rb") as file:
            file.seek(begin)
            if digest(file.read(end - begin)).hex() != found["record"]:
                return None
        lists = {
            str(name): _unpacked(
                found["names"][index], found["digests"][name], bytes.fromhex(source)
            )
            for name, (index, source) in found["lists"].items()
        }
        return LastRecord(lists, dict(found["parts"]), dict(found["remembered"]))
    except (OSError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
        return None


def _packed(digests: Any) -> str | None:
    packed = digests.tobytes()
    return base64.b64encode(packed).decode() if packed.strip(b"\0") else None


def _unpacked(keys: list[str], packed: str | None, source: bytes) -> Rows:
    content = bytes(_SIZE * len(keys)) if packed is None else base64.b64decode(packed)
    if len(content) != _SIZE * len(keys):
        raise ValueError("expected a digest for each row")
    return Rows(keys, array("Q", content), source=source or None)
