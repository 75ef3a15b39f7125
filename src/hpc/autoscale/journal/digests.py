"""Digests of the rows of a list, which tell what has changed to who does not have the rows."""

from __future__ import annotations

import json
import marshal
from array import array
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from hpc.autoscale.journal.changes import Digests, Rows

SIZE = 8
_MARSHAL = 2  # later versions write the same value in several ways


def digest(content: bytes) -> bytes:
    """What tells some bytes from others."""
    return blake2b(content, digest_size=SIZE).digest()


def digest_of(value: Any) -> str:
    """A text that is the same for the same value of JSON."""
    return digest(json.dumps(value, sort_keys=True, default=str).encode()).hex()


def digested(rows: Rows, text_of: Callable[[Any], str]) -> Rows:
    """Rows as digests. `text_of` makes a text of what JSON has for a value, where that is something
    other than texts, numbers, lists and objects."""
    if rows.are_digests:
        return rows
    if rows.digested is not None:
        return rows.digested
    source = None if rows.source is None else digest(rows.source)
    return Rows(rows.keys, _digests_of(rows, text_of), source=source)


def _digests_of(rows: Rows, text_of: Callable[[Any], str]) -> Digests:
    values = rows.values
    if all(value is None for value in values):
        return array("Q", bytes(SIZE * len(values)))
    found: list[bytes] = []
    for value in values:
        try:
            content = marshal.dumps(value, _MARSHAL)
        except ValueError:  # an object
            content = text_of(rows.plain(value)).encode()
        found.append(digest(content))
    return array("Q", b"".join(found))
