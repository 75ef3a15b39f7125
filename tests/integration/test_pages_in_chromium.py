"""The pages of `azscale report` and `azscale serve` in a real browser.

They need Chromium and playwright (`make pages` says how to get them) and are skipped where one of
them is not there. AZSCALE_PAGES is a directory for screenshots; with it the large page is opened,
too.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.journals import a_long_story, a_node_record, a_pass_record, a_waiting_job
from hpc.autoscale.clock import Clock
from hpc.autoscale.journal import JournalWriter
from hpc.autoscale.report.history import of_records
from hpc.autoscale.report.live import LiveApplication, LivePage
from hpc.autoscale.report.page import page
from hpc.autoscale.wsgi.server import WsgiServer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SHOTS = os.environ.get("AZSCALE_PAGES")
WIDTHS = (360, 820, 1400)
SECONDS = 3.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: make pages")
    with api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


class Visit:
    """A page that was opened, with what it said and asked for."""

    def __init__(self, browser: Any, url: str, width: int = 1400, **options: Any) -> None:
        view = {"width": width, "height": 800}
        self.tab = browser.new_page(viewport=view, **options)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(url, wait_until="load")

    def close(self, name: str = "") -> None:
        if SHOTS and name:
            self.tab.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)
        self.tab.close()


def story() -> list[Any]:
    bad = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    records = [*a_long_story(30, 40, 12), a_pass_record(30, ended_by=bad)]
    for number, record in enumerate(records):
        record.did = {**record.did, "duration": 1.5 + number % 4}
    nodes = [a_node_record(f"{bad}{n}", Template=bad) for n in range(3)]
    return [*records, a_pass_record(31, nodes, [a_waiting_job(bad, bad)], errors=[bad])]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(of_records(story())), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_and_says_and_asks_nothing(
    browser: Any, file: Path, width: int, scheme: str
) -> None:
    visit = Visit(browser, file.as_uri(), width, color_scheme=scheme)
    assert visit.said == [] and visit.asked == [file.as_uri()]
    assert visit.tab.evaluate("document.documentElement.scrollWidth") <= width
    shown = visit.tab.locator("figure svg:visible").count()
    assert shown == 6 and visit.tab.locator("figure svg").count() == 12
    back = visit.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(255, 255, 255)") == (scheme == "light")
    visit.close(f"report-{width}-{scheme}")


def test_on_a_phone_a_long_name_hides_no_reason(browser: Any, tmp_path: Path) -> None:
    """And a moment stands on one line."""
    record = a_pass_record(0, [a_node_record("a")], [a_waiting_job("x" * 80, "no licence")])
    path = tmp_path / "page.html"
    path.write_text(page(of_records([record])), encoding="utf-8")
    visit = Visit(browser, path.as_uri(), 360)
    wide = "each => each.scrollWidth - each.clientWidth"
    assert visit.tab.locator("#explanations .scroll").evaluate(wide) <= 0
    visit.tab.locator("#cost summary").first.click()
    assert visit.tab.locator("#cost td").first.evaluate("each => each.clientHeight") < 40
    visit.close()


def test_the_head_of_a_table_stays_while_it_is_scrolled(browser: Any, file: Path) -> None:
    visit = Visit(browser, file.as_uri())
    visit.tab.locator("#nodes summary").click()
    table = visit.tab.locator("#nodes .scroll")
    table.evaluate("each => each.scrollTo(0, 99)")
    assert table.evaluate("each => each.scrollTop") == 99
    top = "each => Math.round(each.getBoundingClientRect().top)"
    assert table.locator("th").first.evaluate(top) == table.evaluate(top)
    visit.close()


def test_every_section_is_reached_by_keyboard(browser: Any, file: Path) -> None:
    visit = Visit(browser, file.as_uri())
    reached = []
    for _ in range(9):
        visit.tab.keyboard.press("Tab")
        reached.append(visit.tab.evaluate("document.activeElement.getAttribute('href')"))
    assert reached[0] == "#nodes" and reached[-1] == "#errors"
    visit.tab.keyboard.press("Tab")
    visit.tab.keyboard.press("Enter")
    assert visit.tab.evaluate("document.querySelector('details').open")
    visit.close()


def test_on_paper_everything_is_black_on_white(browser: Any, file: Path) -> None:
    visit = Visit(browser, file.as_uri(), color_scheme="dark")
    visit.tab.emulate_media(media="print", color_scheme="dark")
    style = "getComputedStyle(document.querySelector('svg text')).fill"
    assert visit.tab.evaluate(style) == "rgb(0, 0, 0)"
    assert not visit.tab.locator("nav").is_visible()
    visit.close("paper")


def test_on_paper_nothing_is_cut(browser: Any, file: Path) -> None:
    """Also of tables that are unfolded, which nobody can scroll there."""
    visit = Visit(browser, file.as_uri(), 720)
    visit.tab.evaluate(
        "document.querySelectorAll('details').forEach(each => { each.open = true; })"
    )
    visit.tab.emulate_media(media="print")
    beyond = "every => Math.max(...every.map(each => each.scrollWidth - each.clientWidth))"
    assert visit.tab.locator(".scroll").evaluate_all(beyond) <= 0
    visit.close("paper-unfolded")


def test_the_live_page_shows_a_new_pass_by_itself(browser: Any, tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    for record in story():
        writer.write(record)
    server = WsgiServer(LiveApplication(LivePage(str(tmp_path), Clock())), needed_by="report")
    server.start()
    try:
        visit = Visit(browser, f"{server.url}/")
        visit.tab.wait_for_function("() => document.getElementById('state').textContent === ''")
        visit.tab.locator("summary").first.click()
        before = visit.tab.locator("main").inner_text()
        writer.write(a_pass_record(99, [a_node_record("brand-new")]))
        visit.tab.wait_for_function(
            "text => document.querySelector('main').innerText !== text", arg=before, timeout=40_000
        )
        assert "brand-new" in visit.tab.locator("#lives").inner_html()
        assert visit.tab.locator("details").first.evaluate("each => each.open")
        assert visit.said == []
        assert all(url.startswith(server.url) for url in visit.asked)
        visit.close("serve-1400")
    finally:
        server.stop()


def test_the_live_page_learns_what_the_cluster_is_called(browser: Any, tmp_path: Path) -> None:
    """When it was opened before the first pass."""
    server = WsgiServer(LiveApplication(LivePage(str(tmp_path), Clock())), needed_by="report")
    server.start()
    try:
        visit = Visit(browser, f"{server.url}/")
        visit.tab.wait_for_function("() => document.getElementById('state').textContent === ''")
        assert visit.tab.locator("h1").inner_text() == visit.tab.title() == "Cluster"
        JournalWriter(tmp_path).write(a_pass_record(0))
        visit.tab.wait_for_selector("#nodes", timeout=40_000)
        assert visit.tab.locator("h1").inner_text() == visit.tab.title() == "Cluster demo"
    finally:
        server.stop()


def test_the_live_page_keeps_where_one_was_when_a_section_comes(
    browser: Any, tmp_path: Path
) -> None:
    """What is unfolded, how far a table was moved, and what has the focus."""
    writer = JournalWriter(tmp_path)
    arrays = [a_node_record(f"node-{n}", Template=f"nodearray-{n}") for n in range(9)]
    for number in range(30):
        writer.write(a_pass_record(number, arrays[number % 2 :]))
    server = WsgiServer(LiveApplication(LivePage(str(tmp_path), Clock())), needed_by="report")
    server.start()
    try:
        visit = Visit(browser, f"{server.url}/", 360)
        visit.tab.wait_for_function("() => document.getElementById('state').textContent === ''")
        for name in ("nodes", "cost"):
            visit.tab.locator(f"#{name} summary").click()
        visit.tab.locator("#nodes .scroll").evaluate("each => each.scrollTo(50, 40)")
        assert visit.tab.locator("#waiting").count() == 0
        writer.write(a_pass_record(99, arrays, [a_waiting_job("7")], created=1))
        visit.tab.wait_for_selector("#waiting", timeout=40_000)
        open_now = "() => [...document.querySelectorAll('details[open]')].map(d => d.parentNode.id)"
        assert visit.tab.evaluate(open_now) == ["nodes", "cost"]
        moved = "each => [each.scrollLeft, each.scrollTop]"
        assert visit.tab.locator("#nodes .scroll").evaluate(moved) == [50, 40]
        assert visit.tab.evaluate("document.activeElement.closest('section').id") == "cost"
        assert visit.said == []
    finally:
        server.stop()


@pytest.mark.skipif(not SHOTS, reason="opens a page about 5,000 nodes: make pages")
def test_a_large_page_opens_soon(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_text(page(of_records(a_long_story(60, 5000, 100_000))), encoding="utf-8")
    began = time.monotonic()
    visit = Visit(browser, path.as_uri())
    took = time.monotonic() - began
    print(f"\n{path.stat().st_size / 1000:.0f} kB, opened in {took:.2f} s")
    assert took < SECONDS and visit.said == []
    visit.close("large-1400")
