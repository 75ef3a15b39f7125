"""The commands report and serve: a journal as a page, in a file or live.

Only `azscale` has them. `hpc.autoscale.report` makes the page.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from argparse import ArgumentParser

from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.cli.journal import JournalCommands
from hpc.autoscale.cli.listening import add_listening, serve_until_stopped, tls_of
from hpc.autoscale.cli.parsing import start_logging, takes_path
from hpc.autoscale.clock import Clock
from hpc.autoscale.errors import AutoscaleError, ConfigurationException, counted
from hpc.autoscale.journal import Journal
from hpc.autoscale.journal.files import files_in
from hpc.autoscale.wholefiles import unwritable, write_whole
from hpc.autoscale.wsgi.loopback import is_loopback

DEFAULT_PORT = 8445
TOKEN = "AZSCALE_TOKEN"
_SHORT = 16  # a token with fewer letters can be guessed


class ReportCommands(JournalCommands):
    """The commands report and serve."""

    def report_parser(self, parser: ArgumentParser) -> None:
        """Options of report."""
        add = parser.add_argument
        add("journal", nargs="?", help="a directory or file (default: that of the configuration)")
        add(
            "--out",
            "-o",
            metavar="FILE",
            default="report.html",
            help="where to, - for stdout (report.html)",
        )
        add("--title", help="the heading; the name of the cluster")

    @takes_path
    def report(
        self,
        config: str | None,
        journal: str | None = None,
        out: str = "report.html",
        title: str | None = None,
    ) -> None:
        """Writes a page about a journal, of a site or a simulation, into one HTML file."""
        from hpc.autoscale.report import charts
        from hpc.autoscale.report.history import of_records
        from hpc.autoscale.report.page import page

        charts.check()
        found = Journal(self._path_of(config, journal), skip_garbled=True)
        history = of_records(found)
        if not history.passes:
            raise found.without()
        history.problems = list(found.problems)
        try:
            text = page(history, title or "")
            if out == "-":
                print(text, end="")
            else:
                write_whole(out, text)
        except BrokenPipeError:
            raise  # the reader of /dev/stdout has seen enough
        except OSError as error:
            raise AutoscaleError(f"--out {out}: {unwritable(error)}") from error
        for problem in found.problems:
            warn("%s", problem)
        print(f"{out}: {counted(history.passes, 'pass')}", file=sys.stderr)

    def serve_parser(self, parser: ArgumentParser) -> None:
        """Options of serve."""
        add = parser.add_argument
        add("journal", nargs="?", help="a directory or file (default: that of the configuration)")
        add_listening(parser, DEFAULT_PORT)
        add(
            "--token-file",
            metavar="FILE",
            help=f"file with the token that is asked for (else ${TOKEN}); needed on any other"
            " address",
        )

    @takes_path
    def serve(
        self,
        config: str | None,
        journal: str | None = None,
        bind: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        token_file: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
    ) -> None:
        """Shows the page of a journal in browsers as it grows, until SIGTERM, SIGINT or SIGHUP."""
        from hpc.autoscale.report import charts
        from hpc.autoscale.report.live import USER, LiveApplication, LivePage
        from hpc.autoscale.wsgi.server import WsgiServer

        charts.check()
        tls = tls_of(tls_cert, tls_key)
        token = _token(token_file)
        if token is None and not is_loopback(bind):
            raise ConfigurationException(
                f"--bind {bind}: expected a token for an address that others reach: name a file"
                f" with --token-file, or set {TOKEN}"
            )
        if token is not None and len(token) < _SHORT:
            warn("the token has fewer than %d letters, and may be guessed", _SHORT)
        live = LivePage(self._path_of(config, journal, may_be_none=True), Clock())
        server = WsgiServer(LiveApplication(live, token), bind, port, tls, "report")

        def begun() -> None:
            print(f"{server.url}/", flush=True)
            if problem := live.problem():
                warn("%s", problem)
            if token is not None:
                warn("the user is %s, the password is the token", USER)

        serve_until_stopped(server, begun)

    def _path_of(self, config: str | None, journal: str | None, may_be_none: bool = False) -> str:
        """The journal that is meant. `may_be_none`: that of the configuration may have no pass."""
        if journal is not None:
            start_logging({}, False)
            if not os.path.exists(journal):
                raise AutoscaleError(f"there is no journal {journal}")
            if not os.path.isdir(journal):
                files_in(journal)  # which says what it is, where it is none
            return journal
        return self._journal_of(config, may_be_none)


def _token(path: str | None) -> str | None:
    """The token of a file, or of the environment."""
    if path is None:
        return os.environ.get(TOKEN, "").strip() or None
    try:
        with open(path, encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigurationException(f"--token-file: {path} cannot be read: {said}") from error
    if not token:
        raise ConfigurationException(f"--token-file: expected a token in {path}, found nothing")
    if sys.platform != "win32" and mode & stat.S_IROTH:
        quoted = shlex.quote(path)
        warn("%s can be read by everybody (mode %04o): run chmod 600 %s", path, mode, quoted)
    return token
