"""Small things that integrations use under this name.

They are grouping, ids, locks, dicts with further names, host names and JSON. Published as one
module, so it stays one; nothing new belongs here. Reading and checking the configuration is done in
`hpc.autoscale.config` and is only offered here under its published names.
"""

import errno
import gc
import os
import re
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol, Self, TextIO, TypeVar

from hpc.autoscale import clock, hpclogging
from hpc.autoscale.config.load import load_config
from hpc.autoscale.config.timeouts import parse_boot_timeout, parse_idle_timeout, parse_timeout
from hpc.autoscale.errors import (
    AutoscaleError,
    CircularIncludeError,
    ConfigurationException,
    LockUnusableError,
    MultipleInstancesError,
    check_has,
    check_kinds,
)
from hpc.autoscale.hpctypes import without_domain
from hpc.autoscale.locks import LoopLock, clusters_of, lock_cluster, process_in_words

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "AZURE_HPC_DEV",
    "LEGACY",
    "AliasDict",
    "CircularIncludeError",
    "ConfigurationException",
    "IncrementingUUID",
    "MultipleInstancesError",
    "NullSingletonLock",
    "ShellDict",
    "SingletonFileLock",
    "SingletonLock",
    "is_standalone_dns",
    "is_valid_hostname",
    "json_dump",
    "json_load",
    "load_config",
    "new_singleton_lock",
    "parse_boot_timeout",
    "parse_idle_timeout",
    "parse_timeout",
    "partition",
    "partition_single",
    "set_uuid_func",
    "uuid",
]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

LEGACY = True

AZURE_HPC_DEV = os.getenv("AZURE_HPC_DEV", "0").strip() not in ("", "0")
"""Whether options for developers are offered; from the environment, read once."""

_log = hpclogging.getLogger(__name__)
_waits = hpclogging.getLogger("cyclecloud.waits")


# Ids


class IncrementingUUID:
    """A source of ids that counts: `prefix-0`, `prefix-1` and so on, for each prefix by itself.

    Without a prefix the ids are bare numbers.
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, prefix: str = "") -> str:
        if prefix and not prefix.endswith("-"):
            prefix += "-"
        number = self._next.get(prefix, 0)
        self._next[prefix] = number + 1
        return f"{prefix}{number}"


def random_uuid(prefix: str = "") -> str:
    """A random (version 4) UUID as text; the prefix has no effect.

    It is made here because `uuid.uuid4` takes four times as long, and asks the platform when
    imported.
    """
    h = os.urandom(16).hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{'89ab'[int(h[16], 16) & 3]}{h[17:20]}-{h[20:]}"


_uuid_func: Callable[[str], str] = random_uuid


def set_uuid_func(func: Callable[[str], str]) -> None:
    """Replace the process's source of ids, as tests do."""
    global _uuid_func
    check_kinds("set_uuid_func", Callable, func=func)  # type: ignore[arg-type]
    _uuid_func = func


def uuid(prefix: str = "") -> str:
    """A new unique id. The prefix matters only to a source that `set_uuid_func` has set."""
    return _uuid_func(prefix)


# Grouping


def partition(node_list: Iterable[T], func: Callable[[T], K]) -> dict[K, list[T]]:
    """The items grouped by their key.

    Keys are in the order of first appearance, items in the order given. InvalidArgument for what is
    no list, and for a key that cannot be called.
    """
    check_kinds("partition", Iterable, node_list=node_list)
    check_kinds("partition", Callable, func=func)  # type: ignore[arg-type]
    by_key: dict[K, list[T]] = {}
    for item in node_list:
        by_key.setdefault(func(item), []).append(item)
    return by_key


def partition_single(
    node_list: Iterable[T], func: Callable[[T], K], strict: bool = True
) -> dict[K, T]:
    """The one item of each key; RuntimeError when a key has several.

    Without `strict`, several items that are all equal count as one, and the first is taken.
    """
    single: dict[K, T] = {}
    for key, items in partition(node_list, func).items():
        first = items[0]
        if len(items) > 1 and (strict or any(item != first for item in items)):
            # callers and their tests look for this text
            raise AutoscaleError(
                f"Could not partition list into single values - key={key} values={items}"
            )
        single[key] = first
    return single


# Locks


class SingletonLock(ABC):
    """A lock that only the process that may change the cluster holds; taken when it is made."""

    @abstractmethod
    def unlock(self) -> None:
        """Give the lock back. Nothing happens when that was done before."""


class NullSingletonLock(SingletonLock):
    """A lock that locks nobody out."""

    def unlock(self) -> None:
        pass


class SingletonFileLock(SingletonLock):
    """A lock on a file, which holds the process id of the owner while it is locked.

    The operating system drops the lock when the process ends, however it ends, so a file that was
    left behind locks nobody out. MultipleInstancesError when somebody else has it,
    LockUnusableError (one of those) when the file cannot be opened or locked; the content of a file
    that is locked by somebody else is not touched.
    """

    def __init__(self, path: str) -> None:
        check_kinds("lock file", str | os.PathLike, path=path)
        self.lockpath = path
        self._beside: list[Callable[[], None]] = []
        try:
            # "a+" and not "w", which would empty the file of the owner before we know that there is
            # none
            self.lockfp = open(path, "a+", encoding="utf-8", opener=_for_us_alone)  # noqa: SIM115
        except OSError as e:
            raise LockUnusableError(
                f"lock file {path!r} cannot be opened: {e.strerror or e}"
            ) from e
        try:
            self._lock()
        except OSError as e:
            owner = self._owner()
            self.lockfp.close()
            if e.errno not in _HELD:
                raise LockUnusableError(f"lock file {path!r} cannot be locked: {e.strerror}") from e
            raise MultipleInstancesError(
                f"expected to be the only instance, but lock file {path!r} is held by {owner}"
            ) from e
        self._write(str(os.getpid()))

    def unlock(self) -> None:
        while self._beside:
            self._beside.pop()()
        if not self.lockfp.closed:
            self._write("")
            self.lockfp.close()

    def hold_cluster(self, config: Mapping[str, Any]) -> Self:
        """Take the locks of the configuration's clusters as well, until this one is given back; the
        lock itself, which is given back at once when one of the others cannot be had."""
        try:
            for server, cluster in clusters_of(config):
                self._beside.append(lock_cluster(server, cluster, _locked))
        except BaseException:
            self.unlock()
            raise
        return self

    def _lock(self) -> None:
        """Lock the file. An error that was dealt with, as of a request that was sent again, keeps
        what its callers had, so that a lock of ours which nobody has any more may still hold."""
        try:
            _lock_file(self.lockfp)
        except OSError as e:
            if e.errno not in _HELD or self._pid() != str(os.getpid()):
                raise
            gc.collect()
            _lock_file(self.lockfp)

    def _write(self, text: str) -> None:
        """Replace the content of the file, which only tells people who holds the lock.

        The lock holds without it.
        """
        try:
            os.ftruncate(self.lockfp.fileno(), 0)
            os.write(self.lockfp.fileno(), text.encode())
        except OSError as e:
            _log.warning("lock file %r cannot be written: %s", self.lockpath, e.strerror)

    def _owner(self) -> str:
        pid = self._pid()
        return process_in_words(int(pid)) if pid.isdecimal() else "another process"

    def _pid(self) -> str:
        try:
            self.lockfp.seek(0)
            return self.lockfp.read(20).strip()
        except OSError:  # Windows lets nobody else read what is locked
            return ""


def _locked(path: str) -> Callable[[], None]:
    return SingletonFileLock(path).unlock


def new_loop_lock() -> LoopLock:
    """The lock of a loop, which holds nothing yet."""
    return LoopLock(_locked)


# Seconds after which a lock that is waited for is tried again.
_LOOK_EVERY = 0.2

# What the system says when somebody else has locked a file.
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


def _for_us_alone(path: str, flags: int) -> int:
    """Open a file; a new one can be opened by its owner only, since even a reader could lock it."""
    return os.open(path, flags, 0o600)


def _lock_file(file: TextIO) -> None:
    """Lock the file for this process; OSError at once when another one has locked it."""
    if sys.platform == "win32":
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def new_singleton_lock(config: Mapping[str, Any]) -> SingletonLock:
    """The lock on `lock_file` of the configuration, or none when that is null. Deprecated: ask the
    driver for its lock.

    Without that key it is `system/bootstrap/scalelib.lock` below CYCLECLOUD_HOME
    (/opt/cycle/jetpack) where that exists, and otherwise `scalelib.lock` in the working directory.
    """
    # integrations filter this text
    warnings.warn("Please use driver.new_singleton_lock", UserWarning, stacklevel=2)
    return configured_lock(config)


def configured_lock(config: Mapping[str, Any]) -> SingletonLock:
    """The lock that `new_singleton_lock` gives, without the warning; for use in this library."""
    path = lock_file_of(config, _default_lock_file())
    return take_lock(path, config) if path else NullSingletonLock()


def lock_file_of(config: Mapping[str, Any], default: str | None = None) -> Any:
    """The file that a configuration names as the lock: None for no lock; the default where nothing
    is said of it. `lock_path` is another name of the key."""
    return config.get("lock_file", config.get("lock_path", default))


def wants_lock(config: Mapping[str, Any]) -> bool:
    """Whether a pass with this configuration takes a lock: not where it is null, or nothing may be
    changed."""
    return bool(lock_file_of(config, "by default")) and not config.get("read_only")


def take_lock(path: str, config: Mapping[str, Any]) -> SingletonLock:
    """The lock on a file and that of the cluster of the configuration, both or none.

    When another process has one of them, it is waited for as many seconds as `_lock_wait` says, and
    the log says for whom.
    """
    seconds = float(config.get("_lock_wait") or 0.0)
    until = clock.time() + seconds
    told = False
    while True:
        try:
            return SingletonFileLock(path).hold_cluster(config)
        except LockUnusableError:
            raise
        except MultipleInstancesError as held:
            # a clock that is set back makes nobody wait for longer
            left = min(until - clock.time(), seconds)
            if left <= 0:
                raise
            if not told:
                _waits.warning("waiting: %s", held)
            told = True
            clock.sleep(min(left, _LOOK_EVERY))


def _default_lock_file() -> str:
    jetpack = r"c:\cycle\jetpack" if sys.platform == "win32" else "/opt/cycle/jetpack"
    home = os.getenv("CYCLECLOUD_HOME", jetpack)
    directory = os.path.join(home, "system", "bootstrap") if os.path.exists(home) else "."
    return os.path.join(directory, "scalelib.lock")


# Dicts


class AliasDict(dict[str, Any]):
    """A dict whose keys may have further names: an alias works like its key and is never listed."""

    _aliases: Mapping[str, str] = {}  # while a pickle is read

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._aliases = {}

    def add_alias(self, alias: str, canonical: str) -> None:
        """Let `alias` stand for the key `canonical`."""
        self._aliases = {**self._aliases, alias: canonical}

    def _key(self, key: str) -> str:
        return self._aliases.get(key, key)

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(self._key(key))

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(self._key(key), value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(self._key(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self._key(key) if isinstance(key, str) else key)

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(self._key(key), default)

    def pop(self, key: str, *default: Any) -> Any:
        return super().pop(self._key(key), *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        return super().setdefault(self._key(key), default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As `dict.update`, to the keys of aliases."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self


class ShellDict(dict[str, Any]):
    """A dict whose items are attributes as well, for typing in a shell: `nodes.ip_0A000004`.

    In the name of an attribute each character outside of [A-Za-z0-9_] is `_`, and a name that would
    not begin with a letter begins with `k_`; `prefix` comes first of all. Attributes are made once,
    of the items that the dict has then. An item with the name of a method of dict is reached by its
    key only.
    """

    def __init__(self, wrapped: Mapping[str, Any], prefix: str = "") -> None:
        check_kinds("ShellDict", Mapping, wrapped=wrapped)
        super().__init__(wrapped)
        for key, value in wrapped.items():
            name = re.sub(r"[^A-Za-z0-9_]", "_", f"{prefix}{key}")
            if not name[:1].isalpha():
                name = f"k_{name}"
            if not hasattr(dict, name):
                setattr(self, name, value)


# JSON


def json_dump(obj: Any, writer: TextIO | None = None) -> None:
    """Write JSON, indented by 2, to the writer or to stdout.

    An object that JSON does not know is written as what its `to_json` or `to_dict` gives.
    """
    import json

    check_has("json_dump", "write", writer=writer or sys.stdout)
    json.dump(obj, writer or sys.stdout, indent=2, default=_to_json)


def _to_json(obj: object) -> Any:
    for method in ("to_json", "to_dict"):
        if hasattr(obj, method):
            return getattr(obj, method)()
    if isinstance(obj, Mapping):  # a view that is no dict
        return dict(obj)
    if isinstance(obj, (set, frozenset)):
        return sorted(obj, key=str)
    raise AssertionError(
        "expected something that JSON knows or that has to_json or to_dict, found"
        f" {type(obj).__name__} {obj!r}"
    )


def json_or_text(obj: object) -> Any:
    """What JSON makes of an object, for `default` of `json.dumps`; of what it does not know, such
    as a time that a driver notes on a job, the text."""
    try:
        return _to_json(obj)
    except AssertionError:
        return str(obj)


def json_load(config: str | Mapping[str, Any]) -> dict[str, Any]:
    """Deprecated name of load_config."""
    warnings.warn("json_load is deprecated; use load_config", UserWarning, stacklevel=2)
    return load_config(config)


# Hostnames


class _Configured(Protocol):
    @property
    def software_configuration(self) -> Mapping[str, Any]: ...


class _Named(_Configured, Protocol):
    @property
    def hostname(self) -> str | None: ...


_STANDALONE_HOSTNAME = r"ip-[0-9A-Za-z]{8}"


def is_standalone_dns(node_or_bucket: _Configured) -> bool:
    """Whether CycleCloud names the machines itself, after their addresses, as in `ip-0A000004`.

    It does unless the configuration of the node or bucket turns that off.
    """
    return _names_machines(node_or_bucket.software_configuration)


def _names_machines(configuration: Mapping[str, Any]) -> bool:
    section: Any = configuration
    for key in ("cyclecloud", "hosts", "standalone_dns"):
        section = section.get(key) if isinstance(section, Mapping) else None
    return bool(section.get("enabled", True)) if isinstance(section, Mapping) else True


def standalone_hostname(configuration: Mapping[str, Any], address: str) -> str | None:
    """The host name that CycleCloud gives a machine after its address.

    None where the configuration of its node turns that off, and for what is no IPv4 address.
    """
    from ipaddress import AddressValueError, IPv4Address

    if not _names_machines(configuration):
        return None
    try:
        return f"ip-{int(IPv4Address(address)):08X}"
    except AddressValueError:
        return None


def is_valid_hostname(config: Mapping[str, Any], node: _Named) -> bool:
    """Whether the node has its final host name.

    It has when the short name begins with a match of one of the patterns in `valid_hostnames` or,
    without these, of CycleCloud's usual scheme. ConfigurationException when a pattern is no regular
    expression.
    """
    if not node.hostname:
        return False
    hostname = without_domain(node.hostname)
    patterns = config.get("valid_hostnames")
    if patterns:
        if isinstance(patterns, Mapping) or not isinstance(patterns, Iterable):
            raise ConfigurationException(
                f"valid_hostnames: expected a list of regular expressions, found {patterns!r}"
            )
        expected = [patterns] if isinstance(patterns, str) else list(patterns)
        valid = any(_begins(pattern, hostname) for pattern in expected)
    else:
        expected = [_STANDALONE_HOSTNAME]
        valid = not is_standalone_dns(node) or bool(re.fullmatch(_STANDALONE_HOSTNAME, hostname))
    if not valid:
        _log.warning("Hostname %r is not valid: expected one of %s", hostname, expected)
    return valid


def _begins(pattern: str, hostname: str) -> bool:
    try:
        return re.match(pattern, hostname) is not None
    except (re.error, TypeError) as e:  # the latter for what is no text
        raise ConfigurationException(
            f"valid_hostnames: expected a regular expression, found {pattern!r}: {e}"
        ) from e
