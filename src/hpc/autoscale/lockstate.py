"""Whether anybody holds the locks of a loop, without taking them: held, free, or not known.

To try a lock would turn away a loop that starts at that moment, so the system is asked who has it:
/proc/locks for the lock file, and /proc/net/unix for the lock of the cluster. What that cannot tell
is not known, and is never said to be free. Nothing is made or changed. Called by commands that show
how things stand; the locks themselves are in `util` and `locks`.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

from hpc.autoscale.errors import unreadable
from hpc.autoscale.locks import clusters_of, file_of, holders_of, loops_of, process_in_words

_LOCAL = (
    *("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs"),
    *("overlay", "ramfs", "reiserfs", "tmpfs", "vfat", "xfs", "zfs"),
)
"""File systems whose locks are all taken on this machine."""
_NO_FILES = {stat.S_ISDIR: "directory", stat.S_ISFIFO: "pipe", stat.S_ISSOCK: "socket"}
"""What cannot be opened to lock it."""
_OF_THE_MACHINE = "pid:[4026531836]"
"""The namespace of process numbers that sees every process of a machine."""
_UNIX, _LOCKS = "/proc/net/unix", "/proc/locks"


class Lock(StrEnum):
    """How the locks of a loop stand. `NONE`: the configuration wants none."""

    HELD = "held"
    FREE = "free"
    UNKNOWN = "unknown"
    NONE = "none"


class LockState(NamedTuple):
    """How they stand. `holders`: who has them, in words. `note`: why it is not known, or what is to
    be known beside it; a part of a sentence, empty where there is nothing to say."""

    state: Lock
    holders: Sequence[str] = ()
    note: str = ""

    def __str__(self) -> str:
        if self.state is Lock.HELD:
            return f"held by {', '.join(self.holders)}"
        if self.state is Lock.NONE:
            return "none: lock_file is null"
        if self.state is Lock.UNKNOWN:
            return f"not known: {self.note}"
        return f"free, {self.note}" if self.note else "free"


class _Unknown(Exception):
    """What a look cannot tell, and why."""


def lock_state(config: Mapping[str, Any], path: str | None, of_driver: bool = False) -> LockState:
    """How the lock file at `path` and the locks of the configuration's clusters stand. `path`:
    None where the configuration wants no lock. `of_driver`: the driver has another lock."""
    holders: dict[str, None] = dict.fromkeys(holders_of(config))
    if not path and not of_driver:
        return LockState(Lock.HELD, list(holders)) if holders else LockState(Lock.NONE)
    doubts: dict[str, None] = {}
    if of_driver:
        doubts["the driver has a lock of its own"] = None
    notes: dict[str, None] = {}
    for looked_at in (*([path] if path and not of_driver else ()), *_files_of_clusters(config)):
        try:
            holders.update(dict.fromkeys(_holders_of_file(looked_at)))
            notes.update(dict.fromkeys(_notes_on_file(looked_at)))
        except _Unknown as doubt:
            doubts[str(doubt)] = None
    if clusters_of(config) and sys.platform == "linux" and not os.access(_UNIX, os.R_OK):
        doubts[f"{_UNIX} cannot be read"] = None
    if holders:
        return LockState(Lock.HELD, list(holders))
    if doubts:
        return LockState(Lock.UNKNOWN, (), "; ".join(doubts))
    notes.update((f"the loop of the cluster is {loop}", None) for loop in loops_of(config))
    return LockState(Lock.FREE, (), "; ".join(notes))


def _files_of_clusters(config: Mapping[str, Any]) -> Iterator[str]:
    """The files that are locked for clusters where there are no names of sockets."""
    for server, cluster in clusters_of(config):
        path = file_of(server, cluster)
        if sys.platform != "linux" or os.path.exists(path):
            yield path


def _holders_of_file(path: str) -> list[str]:
    """Who has locked a file. _Unknown where that cannot be told."""
    directory = os.path.dirname(os.path.realpath(path))  # a link may lead elsewhere
    if not os.path.isdir(directory):
        raise _Unknown(f"there is no directory {directory}, so it cannot be taken")
    try:
        mode = os.stat(path).st_mode
        for is_one, kind in _NO_FILES.items():
            if is_one(mode):
                raise _Unknown(f"{path} is a {kind}, so it cannot be taken")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _Unknown(f"{path}: {unreadable(error)}") from error
    if sys.platform != "linux":
        raise _Unknown("this system does not tell who has locked a file")
    try:
        device, number, kind = _identity(path)
        with open(_LOCKS, encoding="utf-8", errors="replace") as file:
            locks = file.read()
    except OSError as error:
        raise _Unknown(f"{error.filename or path}: {unreadable(error)}") from error
    pattern = rf"^\d+: FLOCK +\S+ +\S+ +(-?\d+) {device}:{number} "
    holders = [_process(int(pid)) for pid in re.findall(pattern, locks, re.MULTILINE)]
    if not holders and kind not in _LOCAL:
        raise _Unknown(f"{path} is on {kind}, where other machines may have locked it")
    if not holders and not _sees_the_machine() and (owner := _owner_in(path)):
        raise _Unknown(f"{path} names {owner}, which may be in another container")
    return holders


def _identity(path: str) -> tuple[str, int, str]:
    """The device and the inode of a file as /proc/locks names them, and the kind of file system.
    OSError where that cannot be told."""
    # O_PATH opens nothing that anybody could notice, and needs no right to the file
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        number = os.fstat(handle).st_ino
        with open(f"/proc/self/fdinfo/{handle}", encoding="utf-8") as file:
            known = dict(line.split(":", 1) for line in file if ":" in line)
    finally:
        os.close(handle)
    # not st_dev: some file systems have one for each part of theirs
    mount = re.escape(known.get("mnt_id", "").strip())
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        found = re.search(rf"^{mount} \d+ (\d+):(\d+) .* - (\S+) ", file.read(), re.MULTILINE)
    if found is None:
        raise OSError(0, "its file system is not known", path)
    device = f"{int(found[1]):02x}:{int(found[2]):02x}"
    return device, int(known.get("ino", number)), found[3]


def _sees_the_machine() -> bool:
    """Whether the processes of all containers are seen."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid") == _OF_THE_MACHINE
    return False


def _owner_in(path: str) -> str:
    """Who says in a lock file that they hold it."""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        if pid := file.read(20).strip():
            return f"process {pid}"
    return ""


def _process(pid: int) -> str:
    """A process that holds a lock, as `holders_of` names it; the one that took it may be gone, and
    have left it to another."""
    with suppress(OSError):
        return process_in_words(pid, os.stat(f"/proc/{pid}").st_uid)
    return "another process"


def _notes_on_file(path: str) -> Iterator[str]:
    """What is to be known of a lock file that nobody holds."""
    if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
        yield f"but this user may not take it: {path} cannot be read and written"
    if not _sees_the_machine():
        yield "as far as it is seen from within this container"
