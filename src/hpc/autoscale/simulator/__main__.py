"""The command line of the simulator: `python -m hpc.autoscale.simulator CLUSTERS.json`.

Prints one line with the URL when it listens and ends with exit code 0 on SIGTERM and SIGINT;
anything that keeps it from starting is one line on standard error and exit code 2.
"""

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpc.autoscale.cli.argparser import CommandParser, number_type
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.simulator.errors import StartError
from hpc.autoscale.simulator.loading import load_description
from hpc.autoscale.simulator.reading import Section, read_json_file
from hpc.autoscale.simulator.runtime import Runtime, new_clock
from hpc.autoscale.simulator.server import SimulatorServer
from hpc.autoscale.wholefiles import unwritable, write_whole

DEFAULT_USER = "simulator"


def parser() -> CommandParser:
    """The parser of the command line."""
    made = CommandParser(
        prog="python -m hpc.autoscale.simulator",
        description="A simulated CycleCloud server. The package documentation describes the JSON"
        " file.",
    )
    made.add_argument("clusters", metavar="CLUSTERS.json", help="what to simulate")
    made.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    made.add_argument("--port", type=int, default=0, help="port to listen on (0: a free one)")
    made.add_argument("--username", help=f"user to let in ({DEFAULT_USER})")
    made.add_argument("--password", help="its password (a random one, printed to standard error)")
    made.add_argument(
        "--credentials", metavar="FILE", help='JSON file with {"username": …, "password": …}'
    )
    made.add_argument("--tls-cert", metavar="FILE", help="certificate chain: listen with TLS")
    made.add_argument("--tls-key", metavar="FILE", help="private key of the certificate")
    made.add_argument(
        "--clock",
        choices=["real", "driven"],
        default="real",
        help="driven: time passes only by POST /simulator/clock",
    )
    speeds = number_type("a number above 0, at most 1000000", lambda speed: 0 < speed <= 1e6)
    made.add_argument("--speed", type=speeds, default=1.0, help="how fast the real clock runs (1)")
    made.add_argument("--seed", type=int, help="make ids, jitter and accidents the same each time")
    made.add_argument("--journal", metavar="PATH", help="append what happens as JSON lines")
    made.add_argument("--work-dir", metavar="DIR", help="files of local machines (temporary)")
    made.add_argument("--ready-file", metavar="PATH", help="write {url, pid} here when listening")
    made.add_argument("--debug", action="store_true", help="log requests to standard error")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a simulator until it is told to end; returns the exit code."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.DEBUG if options.debug else logging.WARNING)
    told_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_end.set())
    try:
        _run(options, told_to_end)
    except AutoscaleError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace, told_to_end: threading.Event) -> None:
    username, password = _credentials(options)
    tls = _tls(options)
    runtime = Runtime(
        load_description(options.clusters),
        new_clock(options.clock, options.speed),
        options.seed,
        options.journal,
        options.work_dir,
    )
    try:
        server = SimulatorServer(runtime, options.host, options.port, username, password, tls)
        try:
            with _ready_file(options.ready_file, server.url):
                server.start()
                if password is None:
                    print(f"user {username}, password {server.password}", file=sys.stderr)
                print(server.url, flush=True)
                told_to_end.wait()
        finally:
            server.stop()
    finally:
        runtime.stop()


@contextmanager
def _ready_file(path: str | None, url: str) -> Iterator[None]:
    """A context in which a file with the URL exists; it appears complete or not at all."""
    if path is None:
        yield
        return
    try:
        write_whole(path, json.dumps({"url": url, "pid": os.getpid()}) + "\n")
    except OSError as error:
        raise StartError(f"ready file {path}: {unwritable(error)}") from None
    try:
        yield
    finally:
        Path(path).unlink(missing_ok=True)


def _credentials(options: argparse.Namespace) -> tuple[str, str | None]:
    if options.credentials is None:
        return options.username or DEFAULT_USER, options.password
    if options.username or options.password:
        raise StartError("expected --credentials or --username and --password, found both")
    section = Section(read_json_file(options.credentials), "credentials", ["username", "password"])
    return section.text("username"), section.text("password")


def _tls(options: argparse.Namespace) -> tuple[str, str] | None:
    if (options.tls_cert is None) != (options.tls_key is None):
        raise StartError("expected --tls-cert and --tls-key together, found only one")
    return None if options.tls_cert is None else (options.tls_cert, options.tls_key)


if __name__ == "__main__":
    sys.exit(main())
