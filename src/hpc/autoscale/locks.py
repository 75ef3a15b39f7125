"""The lock of a cluster on this machine: one loop for each cluster of each server, whatever its
configuration says of files.

It is beside the lock file, which only those share whose configuration names the same. Called by
`util`, which takes both. On Linux it is a name in the abstract namespace of Unix sockets: it is the
same for all users, needs no directory and no permission, cannot be a symbolic link to something
else, and goes with the process however that ends. Elsewhere, and where sockets are forbidden, it is
a file in the directory for temporary files of this user.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hpc.autoscale.config.clusters import server_of
from hpc.autoscale.errors import LockUnusableError, MultipleInstancesError

Unlock = Callable[[], None]

_PREFIX = "hpc-autoscale-"
# what a sandbox says that lets processes have no such sockets
_FORBIDDEN = (errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES, errno.EPROTONOSUPPORT)


def clusters_of(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The server and the cluster of each cluster that a configuration names, each once and in one
    order for everybody, so that nobody waits for somebody who waits for them."""
    from hpc.autoscale.config.secrets import addressed  # takes long to import

    return sorted({found for _, each in addressed(config) if (found := cluster_of(each))})


def cluster_of(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """The server and the cluster of a configuration, in one spelling; None where it names none, or
    where no server is asked."""
    server, cluster = server_of(config.get("url")), config.get("cluster_name")
    if server is None or not (isinstance(cluster, str) and cluster):
        return None
    return None if config.get("_mock_bindings") else (server, cluster)


def lock_cluster(server: str, cluster: str, lock_file: Callable[[str], Unlock]) -> Unlock:
    """Take the lock; the result gives it back. `lock_file` locks a file, where that is needed.

    MultipleInstancesError when another process of this machine has it, and the same at once for
    this process; LockUnusableError when it can be neither taken nor refused.
    """
    return _lock(_name(server, cluster), f"cluster {cluster} at {server}", lock_file)


def _lock(name: str, what: str, lock_file: Callable[[str], Unlock]) -> Unlock:
    if sys.platform == "linux":
        try:
            return _lock_name(name, what)
        except OSError as error:
            if error.errno not in _FORBIDDEN:
                raise LockUnusableError(
                    f"the lock of {what} cannot be taken: {error.strerror}"
                ) from error
    return lock_file(_file(name, what))


class LoopLock:
    """The lock that a loop holds from its first pass to its end, between passes as well: two loops
    whose passes take turns would delete each other's nodes.

    Single passes and commands are between the passes of a loop as ever. `lock_file` is that of
    `lock_cluster`.
    """

    def __init__(self, lock_file: Callable[[str], Unlock]) -> None:
        self._lock_file = lock_file
        self._held: dict[tuple[str, str], Unlock] = {}

    def take(self, config: Mapping[str, Any]) -> None:
        """Take those of the configuration's clusters that are not held yet, or give all back. The
        errors are those of `lock_cluster`."""
        try:
            for server, cluster in clusters_of(config):
                if (server, cluster) not in self._held:
                    what = f"the loop of cluster {cluster} at {server}"
                    unlock = _lock(_loop(server, cluster), what, self._lock_file)
                    self._held[server, cluster] = unlock
        except BaseException:
            self.unlock()
            raise

    def unlock(self) -> None:
        """Give all of them back."""
        while self._held:
            self._held.popitem()[1]()


def holders_of(config: Mapping[str, Any]) -> list[str]:
    """Who on this machine holds the lock of a cluster of the configuration, in words, without
    trying to take it. Empty when nobody does, and where that cannot be looked up."""
    return _holders(_name(*each) for each in clusters_of(config))


def loops_of(config: Mapping[str, Any]) -> list[str]:
    """Who on this machine is the loop of a cluster of the configuration, as `holders_of` has it."""
    return _holders(_loop(*each) for each in clusters_of(config))


def _holders(names: Iterable[str]) -> list[str]:
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
            held = f.read()
    except OSError:
        return []
    found = [_holder(name) for name in names if re.search(rf"@{name}$", held, re.MULTILINE)]
    return list(dict.fromkeys(found))


def file_of(server: str, cluster: str) -> str:
    """The file that is locked for a cluster where there are no names of sockets. Nothing is
    made."""
    return os.path.join(_directory(), _name(server, cluster))


def _name(server: str, cluster: str) -> str:
    import hashlib

    return _PREFIX + hashlib.sha256(f"{server}\n{cluster}".encode()).hexdigest()[:40]


def _loop(server: str, cluster: str) -> str:
    return f"{_name(server, cluster)}-loop"


def _lock_name(name: str, what: str) -> Unlock:
    import socket

    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    # another name says who we are, since nobody can be asked by the first
    label = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def unlock() -> None:
        label.close()
        held.close()

    try:
        held.bind(f"\0{name}")
        label.bind(f"\0{name}/{os.getpid()}/{os.getuid()}")
    except OSError as error:
        unlock()
        if error.errno != errno.EADDRINUSE:
            raise
        raise MultipleInstancesError(
            f"expected to be the only instance for {what}, but its lock is held by"
            f" {_holder(name)}; it may have another configuration"
        ) from error
    return unlock


def _holder(name: str) -> str:
    """Who says that they hold the lock of a name."""
    found = None
    with suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        found = re.search(rf"@{re.escape(name)}/(\d+)/(\d+)$", f.read(), re.MULTILINE)
    return process_in_words(int(found[1]), int(found[2])) if found else "another process"


def stat_of_process(pid: int) -> tuple[Sequence[str], int | None]:
    """What the system says of a process, from its state on (proc(5), `stat`), and its user. Nothing
    and None where it does not say."""
    path = f"/proc/{pid}/stat"
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as f:
        # behind the name in brackets, which may hold anything
        return f.read().rpartition(")")[2].split(), os.fstat(f.fileno()).st_uid
    return (), None


def process_in_words(pid: int, user: int | None = None) -> str:
    """Who holds a lock; with it that it is stopped, and so will not give it back. `user`: None
    where it is not known."""
    fields, its_user = stat_of_process(pid)
    stopped = ""
    # a process of another container may have the number here
    if fields and fields[0] in "Tt" and user in (None, its_user):
        stopped = f", which is stopped (kill -CONT {pid} lets it go on)"
    return f"process {pid}{'' if user is None else f' of user {user}'}{stopped}"


def _user() -> int | str:
    return os.getuid() if hasattr(os, "getuid") else "all"


def _directory() -> str:
    """Where files are locked for clusters: each user has a place of their own."""
    import tempfile  # slow to import, and for few systems

    return os.path.join(tempfile.gettempdir(), f"{_PREFIX}{_user()}")


def _file(name: str, what: str) -> str:
    """A file in a directory that is this user's alone."""
    user, directory = _user(), _directory()
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        found = os.lstat(directory)
    except OSError as error:
        raise LockUnusableError(
            f"the lock of {what} cannot be taken: {directory}: {error.strerror}"
        ) from error
    if hasattr(os, "getuid") and (
        found.st_uid != os.getuid() or found.st_mode & 0o077 or not os.path.isdir(directory)
    ):
        raise LockUnusableError(
            f"the lock of {what} cannot be taken: expected {directory} to be a directory of user"
            f" {user} that nobody else can enter; remove it"
        )
    return os.path.join(directory, name)
