"""A file of a journal that another program has compressed again, as `zcat FILE | gzip` does.

Its lines are those of a journal, and its bytes have none of the heads by which `frames` goes from
record to record. So it is unpacked from its beginning. Called by those who read (`reader`), and by
those who ask what kind of file there is (`files`).
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator

from hpc.autoscale.journal.frames import Chunk, has_none

_GZIP = b"\x1f\x8b\x08"
_BEGINS = re.compile(rb'\s*\{\s*"version"\s*:')
_LOOKED_AT = 64


def is_packed_again(file: io.BufferedIOBase, size: int) -> bool:
    """Whether a file has lines of a journal that were compressed by another program. Unpacks the
    first of its bytes alone."""
    file.seek(0)
    if file.read(len(_GZIP)) != _GZIP or not has_none(file, size):
        return False
    file.seek(0)
    try:
        start = gzip.GzipFile(fileobj=file).read(_LOOKED_AT)
    except (OSError, EOFError, zlib.error):
        return False
    return bool(_BEGINS.match(start))


def lines_of(file: io.BufferedIOBase, skipped: int = 0) -> Iterator[Chunk]:
    """The records of such a file but for so many at its beginning. Where they begin and end is
    counted in the text, not in the file. What cannot be unpacked is the last that is told."""
    file.seek(0)
    packed = gzip.GzipFile(fileobj=file)
    offset = number = 0
    while True:
        try:
            text = packed.readline()
        except EOFError:
            yield Chunk(offset, None, "its end is missing", is_cut_off=True)
            return
        except (gzip.BadGzipFile, zlib.error) as error:
            yield Chunk(offset, None, f"it cannot be unpacked: {what_is_damaged(error)}")
            return
        if not text:
            return
        number += 1
        if number > skipped:
            yield Chunk(offset, text, end=offset + len(text))
        offset += len(text)


def what_is_damaged(error: gzip.BadGzipFile | zlib.error) -> str:
    """What is wrong with compressed data of which something was unpacked already."""
    if str(error).startswith("Not a gzipped file"):
        return "what is behind the compressed data is none itself, and is to be cut off"
    return str(error)
