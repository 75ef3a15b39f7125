"""The page about a journal: what is added up, and that whatever is in it is text."""

import html
import json
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from builders.journals import (
    START,
    a_long_story,
    a_node_record,
    a_pass_record,
    a_waiting_job,
)
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.clock import MockClock
from hpc.autoscale.hpctypes import Location, VMSize
from hpc.autoscale.journal import JournalWriter, PassRecord
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.report.history import FOREMOST, LIVES, OTHERS, SPANS, of_records, together
from hpc.autoscale.report.live import LiveApplication, LivePage
from hpc.autoscale.report.page import page
from hpc.autoscale.wsgi.basic import Login

PRICE = price_per_hour(Location("westus2"), VMSize("Standard_F4s_v2")) or 0.0


# -- adding up


def test_nodes_are_counted_by_bucket_and_cost_what_they_cost() -> None:
    nodes = [a_node_record("a"), a_node_record("b"), a_node_record("c", Template="gpu")]
    off = a_node_record("off", TargetState="Terminated")
    history = of_records([a_pass_record(0, [*nodes, off]), a_pass_record(6, nodes[:1])])
    first, last = history.samples
    assert first.nodes == {"htc/Standard_F4s_v2": 2, "gpu/Standard_F4s_v2": 1}
    assert first.per_hour == pytest.approx(3 * PRICE) and last.per_hour == pytest.approx(PRICE)
    # three nodes for an hour
    assert history.cost == pytest.approx(3 * PRICE)


def test_a_size_without_a_price_is_named_and_costs_nothing() -> None:
    history = of_records([a_pass_record(0, [a_node_record("a", MachineType="Standard_Odd")])])
    assert history.unpriced == {"Standard_Odd"}


def test_a_node_lives_from_when_it_was_first_seen_to_when_it_is_gone() -> None:
    booting, ready = a_node_record("a", ready=False), a_node_record("a")
    story = [a_pass_record(n, nodes) for n, nodes in enumerate([[booting], [ready], [ready], []])]
    (life,) = of_records(story).lives.values()
    assert (life.began, life.ready, life.last, life.gone) == (
        START,
        START + 600,
        START + 1800,
        True,
    )


def test_jobs_that_wait_are_counted_by_cause_whatever_the_figures_in_it() -> None:
    waiting = [a_waiting_job(f"{n}", f"quota: {n} of 40 cores") for n in range(3)]
    history = of_records([a_pass_record(0, (), [*waiting, a_waiting_job("x", reason=None)])])
    assert history.samples[0].waiting == {"quota: … of … cores": 3, "not worked out": 1}
    assert [(e.jobs, e.names) for e in history.explanations][:1] == [(1, ["0"])]


def test_limits_that_do_not_apply_are_left_out() -> None:
    quotas = of_records([a_pass_record(0)]).quotas
    assert [(q.name, q.used, q.most) for q in quotas] == [
        ("htc/Standard_F4s_v2: nodes", 1, 10),
        ("regional quota of westus2: cores", 4, 40),
    ]


def test_the_rest_stands_together() -> None:
    assert together({"a": 3, "b": 2, "c": 1}, ["a", "z"]) == {"a": 3, OTHERS: 3}


def test_what_is_drawn_does_not_grow_with_the_journal() -> None:
    history = of_records(a_long_story(passes=3 * SPANS, nodes=300, jobs=90))
    assert len(history.spans()) <= SPANS and len(history.foremost("nodes")) == FOREMOST
    assert len(history.longest_lives()) == LIVES and len(history.lives) == 300
    assert max(sum(sample.nodes.values()) for sample in history.spans()) == 300


# -- the page


class Elements(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "</svg></style></title><b>bold",
    "a\x1b[31mred\nline\u202eback",
    "\ud800",
]


def hostile_story() -> list[PassRecord]:
    nodes = [a_node_record(f"{bad}{n}", Template=bad) for n, bad in enumerate(HOSTILE)]
    waiting = [a_waiting_job(bad, f"{bad} is full") for bad in HOSTILE]
    errors = list(HOSTILE)
    return [a_pass_record(n, nodes, waiting, created=n, errors=errors) for n in range(3)]


def test_everything_in_a_page_is_text() -> None:
    found = Elements(page(of_records(hostile_story()), title=HOSTILE[0]))
    assert not {"script", "img", "iframe", "b", "object", "embed", "form"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.text


def test_a_page_names_nothing_to_load() -> None:
    text = page(of_records(a_long_story(5, 20, 10)))
    links = [v for k, v in Elements(text).attributes if k in ("href", "src", "xlink:href", "data")]
    assert links and all(value.startswith("#") or value == "data:," for value in links)
    assert "default-src 'none'" in html.unescape(text) and "@import" not in text
    assert text.count("url(") == text.count("url(#")


def test_sections_can_be_reached_by_keyboard_and_have_their_figures_as_text() -> None:
    text = page(of_records(a_long_story(5, 20, 10)))
    found = Elements(text)
    ids = {value for name, value in found.attributes if name == "id"}
    anchors = {value[1:] for name, value in found.attributes if name == "href" and "#" in value}
    assert anchors == {"nodes", "demand", "waiting", "cost", "lives", "quotas", "explanations"}
    assert anchors <= ids and found.tags.count("details") == 4
    assert all('tabindex="0"' in each for each in re.findall(r'<div class="scroll"[^>]*>', text))


def test_no_two_things_of_a_page_have_the_same_id() -> None:
    found = Elements(page(of_records(a_long_story(5, 20, 10))))
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_a_journal_without_a_pass_has_a_page_too() -> None:
    assert "There is no pass in this journal yet" in page(of_records([]))


def test_a_large_page_is_small() -> None:
    assert len(page(of_records(a_long_story(40, 1000, 2000)))) < 1_500_000


# -- azscale report


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    directory = tmp_path / "journal"
    writer = JournalWriter(directory)
    for record in a_long_story(4, 6, 3):
        writer.write(record)
    return directory


def test_report_writes_one_file(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    main(["report", str(journal), "--out", str(out), "--title", "Week 1"])
    assert "<h1>Week 1</h1>" in out.read_text() and "4 passes" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["journal", "page.html"]


def test_report_finds_the_journal_of_a_configuration(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "autoscale.json"
    own = {"cluster_name": "demo", "url": "http://none.invalid"}
    config.write_text(json.dumps({**own, "journal": {"directory": str(journal)}}))
    monkeypatch.chdir(tmp_path)
    main(["report", "-c", str(config)])
    assert "<h1>Cluster demo</h1>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["report", "/nowhere"], "there is no journal /nowhere"),
        (
            ["report", "JOURNAL", "--out", "/nowhere/x.html"],
            "x.html: it cannot be written: there is no directory /nowhere",
        ),
        (["serve", "/nowhere"], "there is no journal /nowhere"),
        (["serve", "JOURNAL", "--bind", "0.0.0.0"], "expected a token"),
        (["serve", "JOURNAL", "--token-file", "/nowhere"], "--token-file: /nowhere cannot be read"),
        (["serve", "JOURNAL", "--tls-cert", "x"], "expected --tls-cert and --tls-key together"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    journal: Path,
    argv: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZSCALE_TOKEN", raising=False)
    with pytest.raises(SystemExit) as ended:
        main([str(journal) if word == "JOURNAL" else word for word in argv])
    err = capsys.readouterr().err
    assert ended.value.code == 1 and said in err and err.count("\n") == 1


# -- azscale serve


def ask(
    application: LiveApplication, path: str = "/", method: str = "GET", **headers: str
) -> tuple[str, dict[str, str], str]:
    said: list[Any] = []

    def start_response(status: str, given: Any, exc_info: Any = None) -> Any:
        said[:] = [status, dict(given)]

    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "HTTP_HOST": "127.0.0.1:8445",
        "wsgi.input": BytesIO(),
        **headers,
    }
    body = b"".join(application(environ, start_response)).decode()
    return said[0], said[1], body


def test_the_page_shows_what_is_new_when_there_was_a_pass(journal: Path) -> None:
    clock = MockClock()
    application = LiveApplication(LivePage(str(journal), clock))
    status, _, whole = ask(application)
    assert (
        status == "200 OK" and "script-src 'self'" in html.unescape(whole) and "<dd>4</dd>" in whole
    )
    _, first, _ = ask(application, "/content")
    JournalWriter(journal).write(a_pass_record(9, [a_node_record("new")]))
    clock.now += 60
    _, second, text = ask(application, "/content")
    assert first["ETag"] != second["ETag"] and "<dd>5</dd>" in text
    assert ask(application, "/content")[1]["ETag"] == second["ETag"]


def test_without_a_token_only_this_machine_is_answered(journal: Path) -> None:
    application = LiveApplication(LivePage(str(journal), MockClock()))
    for host in ("127.0.0.1:1", "localhost", "[::1]:9"):
        assert ask(application, "/live.js", HTTP_HOST=host)[0] == "200 OK"
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[::1"):
        assert ask(application, "/live.js", HTTP_HOST=host)[0] == "403 Forbidden"


def test_with_a_token_only_those_who_name_it_are_answered(journal: Path) -> None:
    import base64

    application = LiveApplication(LivePage(str(journal), MockClock()), "secret")
    right = "Basic " + base64.b64encode(b"azscale:secret").decode()
    assert Login("azscale", "secret").admits(right)
    status, headers, body = ask(application, "/content", HTTP_HOST="head.example")
    assert status == "401 Unauthorized" and "WWW-Authenticate" in headers and "htc" not in body
    given = {"HTTP_HOST": "head.example", "HTTP_AUTHORIZATION": right}
    assert ask(application, "/live.js", **given)[0] == "200 OK"


def test_nothing_can_be_changed_or_found_elsewhere(journal: Path) -> None:
    application = LiveApplication(LivePage(str(journal), MockClock()))
    assert ask(application, method="POST")[0] == "405 Method Not Allowed"
    assert ask(application, "/../etc/passwd")[0] == "404 Not Found"
    assert ask(application, "/live.js", method="HEAD")[2] == ""


def test_prometheus_and_probes_are_answered(journal: Path) -> None:
    clock = MockClock(START + 2400)
    application = LiveApplication(LivePage(str(journal), clock))
    status, headers, text = ask(application, "/metrics")
    assert status == "200 OK" and headers["Content-Type"].startswith("text/plain")
    assert "hpc_autoscale_jobs_unsatisfied 3" in text and "_total" not in text
    assert "hpc_autoscale_last_good_pass_timestamp_seconds" in text
    status, _, text = ask(application, "/health")
    assert status == "200 OK" and json.loads(text)["age_seconds"] == 600
    JournalWriter(journal).write(a_pass_record(9, ended_by="no answer"))
    clock.now += 60
    said = json.loads(ask(application, "/health")[2])
    assert said["last_error"] == "no answer" and said["age_seconds"] == 660


def test_without_a_good_pass_a_probe_hears_that(tmp_path: Path) -> None:
    application = LiveApplication(LivePage(str(tmp_path / "none"), MockClock()))
    assert ask(application, "/health")[0] == "503 Service Unavailable"
    assert ask(application, "/metrics")[2] == ""


def test_a_journal_that_is_away_is_said_on_the_page(tmp_path: Path) -> None:
    status, _, text = ask(LiveApplication(LivePage(str(tmp_path / "none"), MockClock())))
    assert status == "200 OK" and "none" in text
