"""The page while a journal grows: a WSGI application that only answers, and changes nothing.

What was added to the journal is read when somebody asks, at most every few seconds, and the page
is drawn once for all who look. A browser asks every few seconds for what is new.
"""

from __future__ import annotations

import hashlib
import html
import json
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hpc.autoscale.clock import Clock
from hpc.autoscale.errors import one_line
from hpc.autoscale.journal import JournalError, PassRecord
from hpc.autoscale.journal.following import Follower
from hpc.autoscale.metrics import of_record, text_of
from hpc.autoscale.metrics.exposition import CONTENT_TYPE
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.report.charts import ChartError
from hpc.autoscale.report.history import History
from hpc.autoscale.report.page import content, heading, page
from hpc.autoscale.wsgi.basic import Login
from hpc.autoscale.wsgi.loopback import is_loopback

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

USER = "azscale"
EVERY = 10
"""Seconds between two questions of a page."""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'"
)
_SCRIPT = f"""'use strict';
let known = '';
const main = document.querySelector('main');
// sections come and go, so what is in them is found again by what it is, and not by its place
const named = each => [each.closest('section')?.id, each.tagName, each.getAttribute('href')].join();
const keyed = (what, value) =>
  new Map([...main.querySelectorAll(what)].map(each => [named(each), value(each)]));
async function look() {{
  if (document.hidden) return;
  try {{
    const answer = await fetch('content', {{cache: 'no-cache'}});
    const state = document.getElementById('state');
    if (!answer.ok) {{ state.textContent = 'No answer: ' + answer.status; return; }}
    state.textContent = '';
    const tag = answer.headers.get('ETag');
    if (tag === known) return;
    const text = await answer.text();
    if (known !== '') {{
      const focus = main.contains(document.activeElement) ? named(document.activeElement) : '';
      const open = keyed('details', each => each.open);
      const within = keyed('.scroll', each => [each.scrollLeft, each.scrollTop]);
      const place = [window.scrollX, window.scrollY];
      main.innerHTML = text;
      document.title = main.querySelector('h1').textContent;
      keyed('details', each => {{ each.open = open.get(named(each)) || false; }});
      keyed('.scroll', each => each.scrollTo(...(within.get(named(each)) || [0, 0])));
      keyed('a, summary, [tabindex]', each => {{ if (named(each) === focus) each.focus(); }});
      window.scrollTo(...place);
    }}
    known = tag;
  }} catch (error) {{
    document.getElementById('state').textContent = 'The server does not answer.';
  }}
}}
look();
document.addEventListener('visibilitychange', look);
setInterval(look, {EVERY * 1000});
"""
_HEAD = '<script src="live.js" defer></script>\n'


class LivePage:
    """The page of a journal, drawn again when the journal has changed. May be asked by several
    threads."""

    def __init__(self, journal: str, clock: Clock) -> None:
        self._journal = Follower(journal)
        self._clock = clock
        self._turn = threading.Lock()
        self._rests_since = self._not_before = 0.0
        self._history = History()
        self._last: PassRecord | None = None
        self._problem = ""
        self._parts: tuple[str, str] | None = None

    def parts(self) -> tuple[str, str]:
        """What the page has in it now, and a tag that is another one when that is."""
        with self._turn:
            self._read_on()
            if self._parts is None:
                began = self._clock.time()
                text = self._drawn()
                tag = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:20]
                self._parts = (text, f'"{tag}"')
                self._rest(began)
            return self._parts

    def whole(self) -> str:
        """The page."""
        parts = self.parts()
        around = page(History(clusters=self._history.clusters), head=_HEAD, policy=_POLICY)
        before, _, rest = around.partition("<main>\n")
        after = rest.partition("</main>")[2]
        return f'{before}<p id="state" role="status"></p>\n<main>\n{parts[0]}</main>{after}'

    def metrics(self) -> str:
        """The figures of the last pass, as Prometheus reads them; none before there was one.

        Counts of all passes are left out: they would go back when the journal drops old files.
        """
        with self._turn:
            self._read_on()
            last, health = self._last, self._history.health
        if last is None:
            return ""
        return text_of(family for family in of_record(last, health) if family.kind != "counter")

    def health(self) -> tuple[bool, str]:
        """Whether there was a good pass at all, and as JSON when the last ones were."""
        with self._turn:
            self._read_on()
            health = self._history.health
        said = {
            "last_pass": health.last_pass,
            "last_good_pass": health.last_good_pass,
            "age_seconds": health.age(self._clock.time()),
            "last_error": health.last_error,
        }
        return health.last_good_pass is not None, json.dumps(said) + "\n"

    def problem(self) -> str:
        """Why the journal cannot be read; empty when it can be."""
        with self._turn:
            self._read_on()
            return self._problem

    def _read_on(self) -> None:
        """Take in what was added to the journal, unless that was done a moment ago."""
        began = self._clock.time()
        if self._rests_since <= began < self._not_before:  # unless the clock was put back
            return
        problem = ""
        try:
            has_changed = self._journal.poll(self._take, self._begin)
        except JournalError as error:
            has_changed, problem = True, one_line(error)
        if has_changed:
            self._rest(began)
        if problem != self._problem or (has_changed and not problem):
            self._parts = None
        if self._journal.began is not None:
            self._history.forget_before(self._journal.began)
        self._problem = problem

    def _rest(self, began: float) -> None:
        """Let a journal that takes long to read or to draw be read seldom."""
        now = self._clock.time()
        until = now + max(1.0, 3 * (now - began))
        if self._rests_since <= now:
            until = max(until, self._not_before)
        self._rests_since, self._not_before = now, until

    def _begin(self) -> None:
        self._history, self._last = History(), None

    def _take(self, record: PassRecord) -> None:
        self._last = record
        self._history.add(record)

    def _drawn(self) -> str:
        self._history.problems = self._journal.problems
        try:
            text = content(self._history.conclude())
        except ChartError as error:
            text = _said(one_line(error))
        return heading(self._history) + (_said(self._problem) if self._problem else "") + text


def _said(text: str) -> str:
    return f"<p>{html.escape(on_one_line(text))}</p>\n"


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
            ("Content-Type", kind if ";" in kind else f"{kind}; charset=utf-8"),
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
            "/content": lambda: self._content(environ.get("HTTP_IF_NONE_MATCH", "")),
            "/metrics": lambda: ("200 OK", CONTENT_TYPE, self._live.metrics().encode(), []),
            "/health": self._health,
            "/live.js": lambda: ("200 OK", "text/javascript", _SCRIPT.encode(), []),
        }
        found = pages.get(environ.get("PATH_INFO") or "/")
        if found is None:
            return "404 Not Found", "text/plain", b"there is nothing here\n", []
        return found()

    def _whole(self) -> tuple[str, str, bytes, list[tuple[str, str]]]:
        return "200 OK", "text/html", self._live.whole().encode(errors="replace"), []

    def _content(self, known: str) -> tuple[str, str, bytes, list[tuple[str, str]]]:
        text, tag = self._live.parts()
        if tag in (each.strip().removeprefix("W/") for each in known.split(",")):
            return "304 Not Modified", "text/plain", b"", [("ETag", tag)]
        return "200 OK", "text/plain", text.encode(errors="replace"), [("ETag", tag)]

    def _health(self) -> tuple[str, str, bytes, list[tuple[str, str]]]:
        is_good, text = self._live.health()
        status = "200 OK" if is_good else "503 Service Unavailable"
        return status, "application/json", text.encode(), []


def _is_of_this_machine(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
