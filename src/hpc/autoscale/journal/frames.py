"""One record of a journal as bytes: a member of a gzip file that says how long it is.

A journal is a gzip file as others are (`zcat` prints it), and one can go from record to record
without unpacking any. A record that was cut off, because its writer was killed, is known as such
when it is the last one. Nothing here knows what is in a record.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from hpc.autoscale.journal.errors import GarbledRecord

LEVEL = 1
"""How hard to compress: more takes several times as long, and saves little."""

# a head: that of gzip, when the record was made, and a field that nobody else has with the length
_MAGIC = b"\x1f\x8b\x08\x04"
_MARK = b"\x00\xff\x08\x00HJ\x04\x00"
_NUMBER = Struct("<I")
_TRAILER = Struct("<II")
_MARK_AT = len(_MAGIC) + _NUMBER.size
_HEAD = _MARK_AT + len(_MARK) + _NUMBER.size
MOST = 2**32 - 1
"""The most bytes that a record may take."""


class Chunk(NamedTuple):
    """A record as it was found: where it begins in its file, its bytes when they are whole, and
    what is wrong with it. `is_cut_off`: it is the last one, and its end is missing. `end`: where
    the next one begins; None where what is garbled is the last there is."""

    offset: int
    text: bytes | None
    problem: str = ""
    is_cut_off: bool = False
    end: int | None = None


def packed(text: bytes, at: float = 0.0) -> bytes:
    """A record as it is written, of a time in unix seconds. ValueError for one of more than `MOST`
    bytes."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(text) + packer.flush()
    length = _HEAD + len(body) + _TRAILER.size
    if max(length, len(text)) > MOST:
        raise ValueError(f"expected a record of at most {MOST} bytes, found {len(text)}")
    trailer = _TRAILER.pack(zlib.crc32(text), len(text))
    made = _NUMBER.pack(int(min(max(at, 0.0), MOST)))
    return b"".join((_MAGIC, made, _MARK, _NUMBER.pack(length), body, trailer))


def made_at(file: io.BufferedIOBase) -> float | None:
    """When the first record of a file was made, in unix seconds; None where none begins there."""
    file.seek(0)
    head = file.read(_HEAD)
    return float(_NUMBER.unpack_from(head, len(_MAGIC))[0]) if _is_head(head) else None


def end_of_whole(file: io.BufferedIOBase, size: int) -> int:
    """Where the last whole record of a file ends. Looks at the head of each record and at nothing
    else."""
    offset = 0
    while offset < size:
        length = _length_at(file, offset)
        if length is None:
            following = _next_start(file, offset + 1, size)
            if following is None:
                return offset
            offset = following
        elif offset + length > size:
            return offset
        else:
            offset += length
    return offset


def frames(file: io.BufferedIOBase, size: int, offset: int = 0) -> Iterator[Chunk]:
    """The records of a file from an offset on. What is garbled is told, and it goes on with the
    next record that can be found."""
    while offset < size:
        length = _length_at(file, offset)
        if length is not None and offset + length <= size:
            file.seek(offset + _HEAD)
            try:
                yield Chunk(offset, _unpacked(file.read(length - _HEAD)), end=offset + length)
                offset += length
                continue
            except (zlib.error, GarbledRecord) as error:
                problem, is_whole = str(error), True
        else:
            problem = "no record begins here" if length is None else "its end is missing"
            is_whole = length is None and not _is_rest(file, offset)
        following = _next_start(file, offset + 1, size)
        yield Chunk(offset, None, problem, following is None and not is_whole, following)
        if following is None:
            return
        offset = following


def has_none(file: io.BufferedIOBase, size: int) -> bool:
    """Whether a file is one of something else: it has no record, nor the beginning of one."""
    if not size or _is_rest(file, 0) or _length_at(file, 0) is not None:
        return False
    return _next_start(file, 0, size) is None


def from_the_end(file: io.BufferedIOBase, size: int) -> Iterator[Chunk]:
    """The records of a file that are whole, the last one first. Unpacks those that are asked
    for."""
    starts: list[int] = []
    offset: int | None = 0
    while offset is not None and offset < size:
        length = _length_at(file, offset)
        if length is None:
            offset = _next_start(file, offset + 1, size)
        else:
            if offset + length <= size:
                starts.append(offset)
            offset += length
    for start in reversed(starts):
        yield next(frames(file, size, start))


def _is_rest(file: io.BufferedIOBase, offset: int) -> bool:
    """Whether what is here may be all that was written of a head; a machine that lost power leaves
    zeros."""
    file.seek(offset)
    found = file.read(_HEAD)
    begins = _MAGIC.startswith(found[: len(_MAGIC)])
    return not any(found) or (begins and _MARK.startswith(found[_MARK_AT:][: len(_MARK)]))


def _is_head(head: bytes) -> bool:
    is_marked = head[_MARK_AT : _MARK_AT + len(_MARK)] == _MARK
    return len(head) == _HEAD and head.startswith(_MAGIC) and is_marked


def _length_at(file: io.BufferedIOBase, offset: int) -> int | None:
    """How long the record is that begins here; None where none does."""
    file.seek(offset)
    head = file.read(_HEAD)
    if not _is_head(head):
        return None
    length = int(_NUMBER.unpack_from(head, _HEAD - _NUMBER.size)[0])
    return length if length > _HEAD + _TRAILER.size else None


def _unpacked(rest: bytes) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    text = unpacker.decompress(rest[: -_TRAILER.size]) + unpacker.flush()
    check, length = _TRAILER.unpack(rest[-_TRAILER.size :])
    if not unpacker.eof or length != len(text) or check != zlib.crc32(text):
        raise GarbledRecord("its checksum is wrong")
    return text


def _next_start(file: io.BufferedIOBase, offset: int, size: int) -> int | None:
    """Where the next record begins, at this offset or later."""
    file.seek(offset)
    piece, at = b"", offset
    while at < size:
        more = file.read(1 << 20)
        if not more:
            return None
        piece = piece[-_HEAD:] + more
        at += len(more)
        found = piece.find(_MARK)
        while found >= 0:
            start = found - _MARK_AT
            if start >= 0 and piece.startswith(_MAGIC, start):
                return at - len(piece) + start
            found = piece.find(_MARK, found + 1)
    return None
