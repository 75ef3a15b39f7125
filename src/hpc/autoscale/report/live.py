"""The page while a journal grows: a WSGI application that only answers, and changes nothing.

The journal is read again when its files have changed, at most every few seconds, and the page is
drawn once for all who look. A browser asks every few seconds for what is new.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hpc.autoscale.clock import Clock
from hpc.autoscale.errors import one_line
from hpc.autoscale.journal import Journal, JournalError
from hpc.autoscale.metrics import of_record, text_of
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.report.charts import ChartError
from hpc.autoscale.report.history import History, of_records
from hpc.autoscale.report.page import content, page
from hpc.autoscale.wsgi.basic import Login

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

USER = "azscale"
EVERY = 10
"""Seconds between two questions of a page."""

_HERE = frozenset({"127.0.0.1", "localhost", "::1"})
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'"
)
_SCRIPT = f"""'use strict';
let known = '';
async function look() {{
  try {{
    const answer = await fetch('content', {{cache: 'no-cache'}});
    const state = document.getElementById('state');
    if (!answer.ok) {{ state.textContent = 'No answer: ' + answer.status; return; }}
    state.textContent = '';
    const tag = answer.headers.get('ETag');
    if (tag === known) return;
    const text = await answer.text();
    const main = document.querySelector('main');
    const all = () => [...main.querySelectorAll('details')];
    const open = all().map(each => each.open);
    const focus = document.activeElement && main.contains(document.activeElement)
      ? [...main.querySelectorAll('a, summary, [tabindex]')].indexOf(document.activeElement) : -1;
    if (known !== '') {{
      main.innerHTML = text;
      all().forEach((each, i) => {{ each.open = !!open[i]; }});
      if (focus >= 0) main.querySelectorAll('a, summary, [tabindex]')[focus]?.focus();
    }}
    known = tag;
  }} catch (error) {{
    document.getElementById('state').textContent = 'The server does not answer.';
  }}
}}
look();
setInterval(look, {EVERY * 1000});
"""
_HEAD = '<script src="live.js" defer></script>\n'


class LivePage:
    """The page of a journal, drawn again when the journal has changed. May be asked by several
    threads."""

    def __init__(self, journal: str, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._turn = threading.Lock()
        self._state: object = None
        self._not_before = 0.0
        self._parts = ("", "")
        self._history = History()

    def parts(self) -> tuple[str, str]:
        """What the page has in it now, and a tag that is another one when that is."""
        with self._turn:
            now = self._clock.time()
            state = _state_of(self._journal)
            if state != self._state and now >= self._not_before:
                self._draw()
                self._state = state
                # a journal that takes long to read is read seldom
                self._not_before = now + max(1.0, 3 * (self._clock.time() - now))
            return self._parts

    def whole(self) -> str:
        """The page."""
        parts = self.parts()
        around = page(History(cluster=self._history.cluster), head=_HEAD, policy=_POLICY)
        before, _, rest = around.partition("<main>\n")
        after = rest.partition("</main>")[2]
        return f'{before}<p id="state" role="status"></p>\n<main>\n{parts[0]}</main>{after}'

    def metrics(self) -> str:
        """The figures of the last pass, as Prometheus reads them; none before there was one.

        Counts of all passes are left out: they would go back when the journal drops old files.
        """
        self.parts()
        last = self._history.last
        if last is None:
            return ""
        found = of_record(last, self._history.health)
        return text_of(family for family in found if family.kind != "counter")

    def health(self) -> tuple[bool, str]:
        """Whether there was a good pass at all, and as JSON when the last ones were."""
        self.parts()
        health = self._history.health
        said = {
            "last_pass": health.last_pass,
            "last_good_pass": health.last_good_pass,
            "age_seconds": health.age(self._clock.time()),
            "last_error": health.last_error,
        }
        return health.last_good_pass is not None, json.dumps(said) + "\n"

    def _draw(self) -> None:
        journal = Journal(self._journal, skip_garbled=True)
        try:
            self._history = of_records(journal)
            self._history.problems = list(journal.problems)
            text = content(self._history)
        except (JournalError, ChartError) as error:
            import html

            text = f"<p>{html.escape(on_one_line(one_line(error)))}</p>\n"
        tag = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:20]
        self._parts = (text, f'"{tag}"')


def _state_of(path: str) -> object:
    """Another value when a journal has changed."""
    try:
        if not os.path.isdir(path):
            found = [(path, os.stat(path))]
        else:
            with os.scandir(path) as entries:
                found = [(entry.name, entry.stat()) for entry in entries]
    except OSError:
        return None, "away"
    return sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


class LiveApplication:
    """The WSGI application. With a `token`, whoever asks has to name it, as the password of the
    user `azscale`; without, only those are answered who ask this machine by its own name."""

    def __init__(self, live: LivePage, token: str | None = None) -> None:
        self._live = live
        self._login = Login(USER, token) if token else None

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        status, kind, body, more = self._answer(environ)
        headers = [
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-cache"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            *more,
        ]
        start_response(status, headers)
        return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else body]

    def _answer(self, environ: WSGIEnvironment) -> tuple[str, str, bytes, list[tuple[str, str]]]:
        if self._login is not None:
            if not self._login.admits(environ.get("HTTP_AUTHORIZATION")):
                ask = [("WWW-Authenticate", 'Basic realm="azscale", charset="UTF-8"')]
                return "401 Unauthorized", "text/plain", b"the token is needed\n", ask
        elif not _is_of_this_machine(environ.get("HTTP_HOST", "")):
            # a page of somebody else's may have had its name led here
            return "403 Forbidden", "text/plain", b"ask for 127.0.0.1\n", []
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            allowed = [("Allow", "GET, HEAD")]
            return "405 Method Not Allowed", "text/plain", b"this is read-only\n", allowed
        pages: dict[str, Callable[[], tuple[str, str, bytes, list[tuple[str, str]]]]] = {
            "/": self._whole,
            "/content": self._content,
            "/metrics": lambda: ("200 OK", "text/plain", self._live.metrics().encode(), []),
            "/health": self._health,
            "/live.js": lambda: ("200 OK", "text/javascript", _SCRIPT.encode(), []),
        }
        found = pages.get(environ.get("PATH_INFO") or "/")
        if found is None:
            return "404 Not Found", "text/plain", b"there is nothing here\n", []
        return found()

    def _whole(self) -> tuple[str, str, bytes, list[tuple[str, str]]]:
        return "200 OK", "text/html", self._live.whole().encode(errors="replace"), []

    def _content(self) -> tuple[str, str, bytes, list[tuple[str, str]]]:
        text, tag = self._live.parts()
        return "200 OK", "text/plain", text.encode(errors="replace"), [("ETag", tag)]

    def _health(self) -> tuple[str, str, bytes, list[tuple[str, str]]]:
        is_good, text = self._live.health()
        status = "200 OK" if is_good else "503 Service Unavailable"
        return status, "application/json", text.encode(), []


def _is_of_this_machine(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").hostname in _HERE
    except ValueError:
        return False
