"""The commands of autostop: the service that nodes ask, and what runs on each node.

Only `azscale` has them. Who may stop is decided by the library; here is how it is started.
"""

from __future__ import annotations

import threading
from argparse import ArgumentParser

from hpc.autoscale import clock
from hpc.autoscale.autostop.callback import Callback, metadata_of
from hpc.autoscale.autostop.idleness import StateError
from hpc.autoscale.autostop.ledger import Ledger
from hpc.autoscale.autostop.service import StopService
from hpc.autoscale.autostop.settings import access_of
from hpc.autoscale.autostop.watcher import NodeCommandError, Watcher, instance_of, settings_of
from hpc.autoscale.autostop.web import Application
from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.cli.autoscaling import stop_on_signals
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.drivers import driver_for
from hpc.autoscale.cli.listening import add_listening, serve_until_stopped, tls_of
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.statefiles import REQUEST_SETS, STOPS, path_of
from hpc.autoscale.util import SingletonFileLock
from hpc.autoscale.wsgi.server import WsgiServer

DEFAULT_PORT = 8444
_NOTICE_SECONDS = 0.5
# how often events of Azure are looked for: an eviction has a notice of 30 seconds
_EVENT_SECONDS = 5.0


def new_application(config: Config, home: str, directory: str = "") -> Application:
    """The WSGI application for the cluster of a configuration, which keeps its file in `home`.

    `directory` is where the module of the driver may be, too. ConfigurationException when the
    configuration or the driver cannot be used, LedgerError when the file cannot be.
    """
    service = StopService(
        config,
        lambda: driver_for(config, directory),
        Ledger(path_of(STOPS, config, home)),
        RequestStore(path_of(REQUEST_SETS, config, home)),
        has_scheduler=bool(config.get("driver")),
    )
    # several clusters have an address each, and none is needed to listen
    access = access_of({**config, "url": config.get("url") or "-"})
    return Application(service, access.username, access.password)


class AutostopCommands(CommandLine):
    """The commands serve_autostop and autostop."""

    _directory = ""

    def serve_autostop_parser(self, parser: ArgumentParser) -> None:
        """Options of serve_autostop."""
        parser.set_defaults(read_only=False)
        add_listening(parser, DEFAULT_PORT)

    def serve_autostop(
        self,
        config: Config,
        bind: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        tls_cert: str | None = None,
        tls_key: str | None = None,
    ) -> None:
        """Answers nodes that ask whether they may stop, until SIGTERM, SIGINT or SIGHUP."""
        tls = tls_of(tls_cert, tls_key)
        application = new_application(config, self._state_home(config), self._directory)
        server = WsgiServer(application, bind, port, tls)
        serve_until_stopped(server, lambda: print(server.url, flush=True))

    def autostop_parser(self, parser: ArgumentParser) -> None:
        """Options of autostop."""
        add = parser.add_argument
        parser.set_defaults(read_only=False)
        add("--watch", action="store_true", help="go on until the node stops, or SIGTERM or SIGINT")
        add("--instance", metavar="ID", help="the InstanceId of this node")

    def autostop(self, config: Config, watch: bool = False, instance: str | None = None) -> None:
        """Runs on a node: looks whether it is idle, and stops it when the service lets it."""
        settings = settings_of(config, self._state_home(config))
        callback = Callback(config, instance or instance_of(config))
        watcher = Watcher(settings, callback, metadata_of(config))
        lock = SingletonFileLock(f"{settings.state_file}.lock")
        try:
            if not watch:
                print(on_one_line(watcher.look()[0]))
                return
            with stop_on_signals() as stop:
                _watch(watcher, stop)
        finally:
            lock.unlock()


def _watch(watcher: Watcher, stop: threading.Event) -> None:
    """Look again and again until the node stops; events of Azure are looked for in between."""
    while not stop.is_set():
        try:
            said, stops = watcher.look()
            print(on_one_line(said), flush=True)
            if stops:
                return
        except (StateError, NodeCommandError) as error:
            warn("%s", error)
        until = clock.time() + watcher.settings.interval
        next_notice = clock.time() + _EVENT_SECONDS
        while not stop.is_set() and 0 < until - clock.time() <= watcher.settings.interval:
            clock.sleep(min(_NOTICE_SECONDS, until - clock.time()))
            if clock.time() >= next_notice:
                next_notice = clock.time() + _EVENT_SECONDS
                _look_for_events(watcher)


def _look_for_events(watcher: Watcher) -> None:
    try:
        watcher.notice()
    except StateError as error:
        warn("%s", error)
