"""Files that are written as a whole: whoever reads one finds the old content or the new one, also
when the writer is killed or the disk is full.

For small files that are written anew each time, such as states, plans and pages. Databases and
files that grow are not written so. What is in a file is the business of the caller.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

_NAME_KEPT = 40


def write_whole(
    path: str | os.PathLike[str], content: str | bytes, mode: int | None = None
) -> None:
    """Put a content in the place of a file, which is made where there is none.

    A text is written as UTF-8, with a question mark for what UTF-8 has no form for. `mode`: the
    permissions of the file; None leaves those of the file that is there, and gives a new one what
    the umask allows. A link stays, and the file that it leads to is written. What is no file, such
    as a pipe or /dev/stdout, is written to as it is.

    OSError, with `path` as its `filename`, when that is not possible: then the old file is as it
    was, and nothing is left beside it.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        found = _status(path)
        if found is None or stat.S_ISREG(found.st_mode):
            kept = None if found is None else stat.S_IMODE(found.st_mode)
            _replace(os.path.realpath(path), data, kept if mode is None else mode)
        else:
            _write_to(path, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


def unwritable(error: OSError) -> str:
    """Why `write_whole` could not write a file, in words that follow its name in a sentence."""
    said = str(error.strerror or error)
    if isinstance(error, FileNotFoundError):
        folder = os.path.dirname(os.path.realpath(error.filename))
        said = f"there is no directory {folder}"
    return f"it cannot be written: {said}"


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _replace(target: str, data: bytes, mode: int | None) -> None:
    """Write a new file beside the old one, to the disk, and rename it over the old one."""
    folder, name = os.path.split(target)
    # nobody can have put a file or link of this name there, and no other process takes it
    beside = os.path.join(folder, f".{name[:_NAME_KEPT]}.{secrets.token_hex(8)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(beside, flags, 0o666 if mode is None else mode & 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.chmod(beside, mode)
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _write_to(path: str | os.PathLike[str], data: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(data)
