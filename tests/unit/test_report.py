"""The page about a journal: what is added up, and that whatever is in it is text."""

import html
import itertools
import json
import math
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import requests

from builders.journals import (
    START,
    a_long_story,
    a_node_record,
    a_pass_record,
    a_status,
    a_waiting_job,
)
from hpc.autoscale.cli import reporting
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.clock import MockClock
from hpc.autoscale.hpctypes import Location, VMSize
from hpc.autoscale.journal import JournalWriter, PassRecord
from hpc.autoscale.journal.frames import packed
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.report import charts
from hpc.autoscale.report.history import FOREMOST, LIVES, OTHERS, SPANS, of_records, together
from hpc.autoscale.report.live import LiveApplication, LivePage
from hpc.autoscale.report.page import page
from hpc.autoscale.wsgi.basic import Login
from hpc.autoscale.wsgi.server import WsgiServer

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


def test_nodes_cost_what_the_configuration_of_their_pass_says() -> None:
    """Also where the journal alone is read, as by whoever was sent one."""
    node = a_node_record("a")
    records = [a_pass_record(minute, [node]) for minute in range(4)]
    for record, dollars in zip(records, (None, 5.0, 5.0, None), strict=True):
        prices = {"prices": {"*": {"Standard_F4s_v2": dollars}}}
        record.config = {**record.config, **({"vm_sizes": prices} if dollars else {})}
    found = [sample.per_hour for sample in of_records(records).samples]
    assert found == pytest.approx([PRICE, 5.0, 5.0, PRICE])


def test_prices_that_are_not_there_are_those_of_the_catalogue() -> None:
    record = a_pass_record(0, [a_node_record("a")])
    record.config = {"vm_sizes": {"prices": "/none/prices.json"}}
    assert of_records([record]).samples[0].per_hour == pytest.approx(PRICE)


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


def test_the_last_pass_holds_for_as_long_as_passes_are_apart() -> None:
    """And not for longer than what is shown before it: a minute where there is one pass alone."""
    records = [a_pass_record(0), a_pass_record(0), a_pass_record(0)]
    for number, record in enumerate(records):
        record.at = START + 2 * number
    assert of_records(records).until == START + 6
    assert of_records(records[:1]).until == START + 60


def test_figures_in_names_tell_causes_apart() -> None:
    said = ["quota of westus2: 3 of 40 cores", "quota of westus3: 4 of 1,040.5 cores"]
    history = of_records([a_pass_record(0, (), [a_waiting_job(text, text) for text in said])])
    assert set(history.samples[0].waiting) == {
        "quota of westus2: … of … cores",
        "quota of westus3: … of … cores",
    }


def test_a_pass_that_could_not_look_says_nothing_of_nodes_jobs_and_cost() -> None:
    node, job = a_node_record("a"), a_waiting_job("7")
    failed = [a_pass_record(n, ended_by="no answer") for n in (1, 2)]
    history = of_records([a_pass_record(0, [node], [job]), *failed, a_pass_record(3, [node])])
    assert [sum(sample.nodes.values()) for sample in history.samples] == [1, 1, 1, 1]
    assert history.cost == pytest.approx(PRICE / 2)
    (life,) = history.longest_lives()
    assert (life.gone, life.began, life.last) == (False, START, START + 1800)
    assert (history.passes, history.failed, history.ended) == (4, 2, START + 1800)
    assert [error.at for error in history.errors] == [START + 600, START + 1200]
    ended = of_records([a_pass_record(0, [node], [job]), *failed])
    assert ended.passes == 3 and sum(ended.spans()[-1].nodes.values()) == 1
    assert [cause.jobs for cause in ended.explanations] == [1]


def test_only_passes_that_could_not_look_leave_nothing_to_draw() -> None:
    text = page(of_records([a_pass_record(0, ended_by="no <answer>")]))
    assert "no &lt;answer&gt;" in text and "<svg" not in text


def test_a_node_that_is_back_is_not_gone() -> None:
    stories: list[list[Any]] = [[a_node_record("a")], [], [a_node_record("a")]]
    (life,) = of_records([a_pass_record(n, some) for n, some in enumerate(stories)]).longest_lives()
    assert (life.gone, life.last) == (False, START + 1200)


def test_what_a_long_time_costs_is_what_its_parts_cost() -> None:
    passes = 12 * SPANS + 7
    history = of_records(a_pass_record(n, [a_node_record("a")]) for n in range(passes))
    assert history.cost == pytest.approx((passes - 1) * PRICE / 6)
    assert history.passes == passes and len(history.samples) <= 4 * SPANS + 1
    assert history.ended == START + 600 * (passes - 1) and history.spans()[-1].at == history.ended


def test_the_last_pass_is_shown_as_it_was_whatever_was_joined_before() -> None:
    for passes in (4 * SPANS, 4 * SPANS + 1, 4 * SPANS + 2):
        many = [a_node_record(f"n{n}") for n in range(9)]
        records = [a_pass_record(n, many) for n in range(passes)]
        last = of_records([*records, a_pass_record(passes, many[:1])]).spans()[-1]
        assert sum(last.nodes.values()) == 1 and last.per_hour == pytest.approx(PRICE)


def test_what_is_remembered_of_nodes_does_not_grow_with_their_number() -> None:
    history = of_records(
        a_pass_record(n, [a_node_record(f"{n}-{k}") for k in range(20)]) for n in range(300)
    )
    assert history.nodes_seen == 6000 and len(history.lives) < 1300


def test_what_the_journal_has_forgotten_is_forgotten() -> None:
    nodes = [a_node_record("old"), a_node_record("there")]
    stories = [nodes, nodes, nodes[1:], nodes[1:], nodes[1:]]
    records = [a_pass_record(n, some, errors=[f"e{n}"]) for n, some in enumerate(stories)]
    history = of_records(records)
    history.forget_before(START + 1800)
    assert (history.passes, history.began) == (2, START + 1800)
    assert [life.name for life in history.longest_lives()] == ["there"]
    assert history.nodes_seen == 1 and [e.text for e in history.errors] == ["e3", "e4"]
    assert history.cost == pytest.approx(PRICE / 6)


def test_a_clock_that_went_back_makes_no_cost_and_breaks_no_page() -> None:
    numbers = [10, 11, 3, 4, *range(12, 40)]
    history = of_records(a_pass_record(n, [a_node_record("a")]) for n in numbers)
    assert history.began == START + 1800 and history.cost >= 0
    assert "<svg" in page(history)


def test_limits_that_do_not_apply_are_left_out() -> None:
    quotas = of_records([a_pass_record(0)]).quotas
    assert [(q.name, q.used, q.most) for q in quotas] == [
        ("htc/Standard_F4s_v2: nodes", 1, 10),
        ("core quota of westus2: cores", 4, 40),
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
    assert anchors <= ids
    # each chart is there for a screen and for a phone
    assert 2 * found.tags.count("details") == found.tags.count("figure") == 10
    assert all('tabindex="0"' in each for each in re.findall(r'<div class="scroll"[^>]*>', text))


def test_no_two_things_of_a_page_have_the_same_id() -> None:
    found = Elements(page(of_records(a_long_story(5, 20, 10))))
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_a_journal_without_a_pass_has_a_page_too() -> None:
    assert "There is no pass in this journal yet" in page(of_records([]))


def test_the_heading_names_all_clusters() -> None:
    record = a_pass_record(0)
    record.config = {"clusters": [{"name": "east"}, {"name": "we<st"}]}
    assert "<h1>Clusters east, we&lt;st</h1>" in page(of_records([record]))


def sizes_of_charts(text: str) -> list[list[float]]:
    """Width and height of each."""
    boxes = re.findall(r'<figure.*?<svg [^>]*viewBox="0 0 ([^"]*)"', text)
    return [[float(number) for number in box.split()] for box in boxes]


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("nodes", [0, 1])
@pytest.mark.parametrize("jobs", [0, 1])
def test_a_page_about_next_to_nothing(passes: int, nodes: int, jobs: int) -> None:
    """No chart is as high as a house where there is nothing to draw."""
    there, waiting = [a_node_record("a")] * nodes, [a_waiting_job("1")] * jobs
    text = page(of_records(a_pass_record(n, there, waiting) for n in range(passes)))
    sizes = sizes_of_charts(text)
    assert len(sizes) == 2 + 4 * nodes + 2 * jobs and all(h < 400 for _, h in sizes), sizes
    assert ("There was no node" in text) == (not nodes)


# What somebody sees who lacks the cones for green, or for red (Machado, Oliveira, Fernandes 2009).
SIGHT = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
}


def linear(colour: str) -> list[float]:
    """Red, green and blue as light, from 0 to 1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def lab(rgb: list[float]) -> tuple[float, float, float]:
    """A colour in CIELAB."""
    r, g, b = rgb
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_can_be_told_apart(sight: str) -> None:
    """Twenty in CIELAB is a difference that nobody overlooks between fields side by side."""
    seen = []
    for colour in charts.COLOURS:
        light = linear(colour)
        mixed = [sum(a * b for a, b in zip(row, light, strict=True)) for row in SIGHT[sight]]
        seen.append(lab([min(1.0, max(0.0, value)) for value in mixed]))
    assert min(math.dist(a, b) for a, b in itertools.combinations(seen, 2)) >= 20


@pytest.mark.parametrize("back", ["#ffffff", "#0f1214"])
def test_colours_stand_out_from_the_page(back: str) -> None:
    """WCAG asks for 3 to 1 of what is drawn."""

    def luminance(colour: str) -> float:
        r, g, b = linear(colour)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05

    for colour in charts.COLOURS:
        dark, light = sorted([luminance(colour), luminance(back)])
        assert light / dark >= 3, colour


def test_a_bucket_has_one_colour_in_all_charts() -> None:
    nodes = [a_node_record(f"n{n}", Template=f"array{n % 9}") for n in range(30)]
    records = [a_pass_record(n, nodes) for n in range(3)]
    for n, record in enumerate(records):
        names = [f"array{(n + k) % 9}/Standard_F4s_v2" for k in range(4)]
        record.decided = [{"action": "create", "bucket": name, "count": 1} for name in names]
    history = of_records(records)
    drawn = []
    for chart in (charts.nodes(history, 900), charts.wanted(history, 900)):
        scale = chart["encoding"]["color"]["scale"]
        assert len(set(scale["range"])) == len(scale["range"]) == len(scale["domain"])
        drawn.append(dict(zip(scale["domain"], scale["range"], strict=True)))
    shared = drawn[0].keys() & drawn[1].keys()
    assert shared and all(drawn[0][name] == drawn[1][name] for name in shared)


def test_times_have_24_hours_and_a_date_where_there_are_several_days() -> None:
    for passes, wanted in ((1, "00:00:30"), (20, "01:00"), (300, "02 Jan"), (900, "05 Jan")):
        history = of_records(a_pass_record(n) for n in range(passes))
        drawn = charts.svg(charts.cost(history, 900))
        said = re.findall(r">([^<]+)</text>", drawn)
        assert wanted in said and "UTC" in said and not [text for text in said if "AM" in text]


def test_small_amounts_are_no_thousandths() -> None:
    drawn = charts.svg(charts.cost(of_records([a_pass_record(0, [a_node_record("a")])]), 900))
    assert "0.15" in drawn and "150m" not in drawn


def test_axes_begin_with_nothing_and_count_in_whole_numbers() -> None:
    none = charts.svg(charts.cost(of_records([a_pass_record(0)]), 900))
    assert {"0.00", "1.00"} <= set(re.findall(r">([^<]+)</text>", none))
    few = of_records([a_pass_record(0, [a_node_record("a"), a_node_record("b")])])
    said = re.findall(r">([^<]+)</text>", charts.svg(charts.nodes(few, 900)))
    assert [text for text in said if text.replace(".", "").isdigit()] == ["0", "1", "2"]


def test_how_long_passes_took_and_which_failed() -> None:
    records = [a_pass_record(n, duration=1.23456) for n in range(3)]
    records[1].did = {"ended_by": "no answer", "duration": 30.5}
    drawn = charts.passes(of_records(records), 900)
    rows = [(row["n"], row["b"]) for row in drawn["data"]["values"]]
    assert rows == [(1.23456, "all well"), (30.5, "something went wrong"), (1.23456, "all well")]
    text = page(of_records(records))
    assert "1.23" in text and "1.23456" not in text and "3, 1 failed" in text
    assert "something went wrong" in text
    assert "The last pass: no answer" in page(of_records(records[:2]))


def test_passes_without_a_duration_worth_drawing_have_a_line_and_no_empty_chart() -> None:
    """In a simulation time is virtual, so that every pass takes none."""
    text = page(of_records(a_pass_record(n, duration=0.0) for n in range(3)))
    assert "No pass took any time" in text and charts.passes.__doc__ not in text
    text = page(of_records(a_pass_record(n, duration=float(n)) for n in range(3)))
    assert "No pass took any time" not in text and str(charts.passes.__doc__) in text


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
    code = 2 if "--tls-cert" in argv else 1  # a command line that is wrong in itself
    assert ended.value.code == code and said in err and err.count("\n") == 1


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
    assert status == "200 OK" and "script-src 'self'" in html.unescape(whole)
    assert "<dd>4</dd>" in whole
    _, first, _ = ask(application, "/content")
    JournalWriter(journal).write(a_pass_record(9, [a_node_record("new")]))
    clock.now += 60
    _, second, text = ask(application, "/content")
    assert first["ETag"] != second["ETag"] and "<dd>5</dd>" in text
    assert ask(application, "/content")[1]["ETag"] == second["ETag"]


def test_who_has_the_page_already_is_not_sent_it_again(journal: Path) -> None:
    application = LiveApplication(LivePage(str(journal), MockClock()))
    tag = ask(application, "/content")[1]["ETag"]
    status, headers, text = ask(application, "/content", HTTP_IF_NONE_MATCH=f'"other", W/{tag}')
    assert (status, headers["ETag"], text) == ("304 Not Modified", tag, "")
    assert ask(application, "/content", HTTP_IF_NONE_MATCH='"other"')[0] == "200 OK"


def test_figures_and_probes_draw_no_chart(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(spec: object) -> str:
        raise AssertionError("drawn")

    monkeypatch.setattr(charts, "svg", draw)
    application = LiveApplication(LivePage(str(journal), MockClock(START + 2400)))
    assert 'hpc_autoscale_jobs_unsatisfied{cluster="demo"} 3' in ask(application, "/metrics")[2]
    assert ask(application, "/health")[0] == "200 OK"


def test_a_chart_that_cannot_be_drawn_is_said(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(spec: object) -> str:
        raise charts.ChartError("no <ink>")

    monkeypatch.setattr(charts, "svg", draw)
    assert "no &lt;ink&gt;" in ask(LiveApplication(LivePage(str(journal), MockClock())))[2]


def test_the_live_page_shows_what_the_journal_has(tmp_path: Path) -> None:
    """Not what it had once: then a page that is open for months would be about months."""
    writer = JournalWriter(tmp_path)
    writer.write(a_pass_record(0, [a_node_record("old")]))
    (first,) = tmp_path.iterdir()
    clock = MockClock(START)
    application = LiveApplication(LivePage(str(tmp_path), clock))
    assert ">old<" in ask(application)[2]
    new = tmp_path / "journal-000002.jsonl.gz"
    JournalWriter(tmp_path / "next").write(a_pass_record(6, [a_node_record("new")]))
    next((tmp_path / "next").iterdir()).rename(new)
    clock.now += 60
    assert ">old<" in ask(application)[2] and ">new<" in ask(application)[2]
    first.unlink()
    clock.now += 60
    JournalWriter(tmp_path).write(a_pass_record(7, [a_node_record("new")]))
    text = ask(application)[2]
    assert ">old<" not in text and ">new<" in text and "<dd>2</dd>" in text


def test_the_live_page_goes_on_when_the_clock_is_put_back(tmp_path: Path) -> None:
    """Passes are taken in at once, whatever their times are."""
    writer = JournalWriter(tmp_path)
    writer.write(a_pass_record(60, [a_node_record("old")]))
    clock = MockClock(START + 3600)
    application = LiveApplication(LivePage(str(tmp_path), clock))
    ask(application)
    clock.now -= 7200
    for number in range(3):
        writer.write(a_pass_record(number, [a_node_record(f"new-{number}")]))
        clock.now += 60
        assert f">new-{number}<" in ask(application)[2]


def test_a_journal_that_cannot_be_read_on_shows_what_was_read(journal: Path) -> None:
    clock = MockClock(START)
    application = LiveApplication(LivePage(str(journal), clock))
    ask(application)
    (file,) = journal.iterdir()
    with open(file, "ab") as handle:
        handle.write(packed(b'{"version": 99}\n'))
    for _ in range(2):
        clock.now += 60
        text = ask(application)[2]
        assert "found version 99" in text and "Nodes by bucket" in text


def test_a_journal_that_is_back_as_it_was_is_not_said_to_be_gone(journal: Path) -> None:
    """As after a file system was away for a while; no pass has to come first."""
    clock = MockClock(START)
    application = LiveApplication(LivePage(str(journal), clock))
    before = ask(application)[2]
    away = journal.rename(journal.with_name("away"))
    clock.now += 60
    assert "there is no such file or directory" in ask(application)[2]
    away.rename(journal)
    clock.now += 60
    assert ask(application)[2] == before


def test_a_directory_that_cannot_be_read_is_said_on_the_page(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer at all was given while the user of the server may not read the journal."""

    def refused(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    application = LiveApplication(LivePage(str(journal), MockClock(START)))
    status, _, text = ask(application)
    assert status == "200 OK" and f"journal {journal}: Permission denied" in text
    assert ask(application, "/healthz")[0] != "200 OK"
    monkeypatch.undo()
    assert "Nodes by bucket" in ask(LiveApplication(LivePage(str(journal), MockClock(START))))[2]


def test_a_directory_that_cannot_be_read_is_said_when_serve_begins(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, and it listens all the same: the journal may come to be readable."""

    def refused(path: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    def serve(server: WsgiServer, begun: Callable[[], None]) -> None:
        server.start()
        begun()
        server.stop()

    monkeypatch.setattr(reporting, "serve_until_stopped", serve)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refused)
        main(["serve", str(journal), "--port", "0"])
    assert capsys.readouterr().err == f"journal {journal}: Permission denied\n"
    main(["serve", str(journal), "--port", "0"])
    assert capsys.readouterr().err == ""


def test_the_maxima_of_a_cluster_and_of_a_nodearray_are_limits() -> None:
    """They are among the causes why jobs wait. One that all buckets share is there once, and so is
    that of a nodearray with one bucket, as the bucket cannot have more."""
    record = a_pass_record(0)
    (htc,) = record.status["nodearrays"]
    (bucket,) = htc["buckets"]
    bucket |= {"activeCount": 3, "activeCoreCount": 12}
    both = {"buckets": [bucket, bucket], "maxCount": 8, "maxCoreCount": 90}
    arrays = [{**htc, "name": "two"} | both, {**htc, "maxCount": 10, "maxCoreCount": 90}]
    record.status |= {"nodearrays": arrays, "maxCount": 100, "maxCoreCount": 90}
    quotas = of_records([record]).quotas
    assert [(q.name, q.used, q.most) for q in quotas if q.name.startswith("limit of")] == [
        ("limit of nodearray two: nodes", 6, 8),
        ("limit of the cluster: cores", 36, 90),
        ("limit of the cluster: nodes", 9, 100),
    ]
    arrays[0]["maxCoreCount"] = 30
    assert of_records([record]).quotas[0].name == "limit of nodearray two: cores"


def test_limits_of_several_clusters_are_their_own() -> None:
    record = a_pass_record(0)
    record.status = {"parts": {"east": a_status(4, 40), "west": a_status(8, 40)}}
    named = {quota.name: quota.used for quota in of_records([record]).quotas}
    assert named["east: core quota of westus2: cores"] == 4
    assert named["west: core quota of westus2: cores"] == 8


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
    assert 'hpc_autoscale_jobs_unsatisfied{cluster="demo"} 3' in text and "_total" not in text
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


@pytest.mark.parametrize("option", [True, False])
def test_serve_answers_who_has_the_token(
    journal: Path,
    tmp_path: Path,
    option: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a file, or of the environment; with it, on an address that others reach."""
    monkeypatch.delenv("AZSCALE_TOKEN", raising=False)
    (tmp_path / "token").write_text("open sesame\n")
    (tmp_path / "token").chmod(0o644)
    more = ["--token-file", str(tmp_path / "token")] if option else []
    if not option:
        monkeypatch.setenv("AZSCALE_TOKEN", "open sesame")
    answers: list[int] = []

    def serve(server: WsgiServer, begun: Callable[[], None]) -> None:
        server.start()
        try:
            begun()
            for login in (None, ("azscale", "wrong"), ("azscale", "open sesame")):
                url = f"http://127.0.0.1:{server.url.rpartition(':')[2]}/health"
                answers.append(requests.get(url, auth=login, timeout=10).status_code)
        finally:
            server.stop()

    monkeypatch.setattr(reporting, "serve_until_stopped", serve)
    main(["serve", str(journal), "--port", "0", "--bind", "0.0.0.0", *more])
    said = capsys.readouterr()
    assert answers == [401, 401, 200] and said.out.startswith("http://")
    assert "the user is azscale" in said.err and "sesame" not in said.out + said.err
    assert ("token can be read by everybody (mode 0644): run chmod 600" in said.err) == option
    assert "the token has fewer than 16 letters, and may be guessed" in said.err


def test_a_token_of_spaces_is_none(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AZSCALE_TOKEN", " \n")
    with pytest.raises(SystemExit):
        main(["serve", str(journal), "--port", "0", "--bind", "0.0.0.0"])
    assert "expected a token" in capsys.readouterr().err


def test_serve_without_a_token_on_this_machine(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AZSCALE_TOKEN", raising=False)
    monkeypatch.setattr(reporting, "serve_until_stopped", lambda server, begun: begun())
    main(["serve", str(journal), "--port", "0", "--bind", "localhost"])
    assert "the user is" not in capsys.readouterr().err


def test_a_token_file_without_a_token(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(SystemExit):
        main(["serve", str(journal), "--token-file", str(tmp_path / "token")])
    assert "expected a token in" in capsys.readouterr().err


def test_report_says_what_it_could_not_read(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr and in the page."""
    (file,) = journal.glob("*.jsonl.gz")
    with open(file, "ab") as handle:
        handle.write(packed(b"[]") + packed(b'{"version": 1, "at": 9, "whole": true}'))
    main(["report", str(journal), "--out", str(tmp_path / "page.html")])
    assert "it is no record of a journal" in capsys.readouterr().err
    assert "it is no record of a journal" in (tmp_path / "page.html").read_text()


def test_charts_need_what_draws_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(charts.ChartError, match=r"pip install 'hpc-autoscale\[report\]'"):
        charts.check()


def test_a_chart_that_makes_no_sense_is_an_error() -> None:
    with pytest.raises(charts.ChartError, match="a chart cannot be drawn"):
        charts.svg({"mark": 7})


def test_names_that_are_cut_alike_stay_apart() -> None:
    nodes = [a_node_record(f"n{n}", Template="a" * 150 + str(n)) for n in range(2)]
    scale = charts.nodes(of_records([a_pass_record(0, nodes)]), 900)["encoding"]["color"]["scale"]
    assert len(set(scale["domain"])) == 2 and scale["domain"][1].endswith("… (2)")


def test_a_node_that_failed_before_it_was_ready() -> None:
    node = a_node_record("a", ready=False, State="Error")
    history = of_records([a_pass_record(n, [node]) for n in range(2)])
    rows = charts.lives(history, 900)["data"]["values"]
    assert [row["s"] for row in rows] == ["failed"]
    ready = of_records([a_pass_record(0, [a_node_record("a")]), a_pass_record(1, [node])])
    rows = charts.lives(ready, 900)["data"]["values"]
    assert [row["s"] for row in rows] == ["ready, then failed"]


@pytest.mark.parametrize("at", ["NaN", "-1e18"])
def test_a_time_that_is_none_breaks_no_page(journal: Path, tmp_path: Path, at: str) -> None:
    (file,) = journal.glob("*.jsonl.gz")
    with open(file, "ab") as handle:
        handle.write(packed(f'{{"version": 1, "at": {at}, "whole": true}}'.encode()))
    main(["report", str(journal), "--out", str(tmp_path / "page.html")])
    text = (tmp_path / "page.html").read_text()
    assert "at: expected unix seconds" in text and "Nodes by bucket" in text


def test_moments_have_their_seconds() -> None:
    """Passes may be a few seconds apart, and `journal show` has seconds, too."""
    record = a_pass_record(0, [a_node_record("a")], errors=["no answer"])
    record.at += 61
    text = page(of_records([record]))
    assert '<span class="dim">2026-01-01 00:01:01</span> no answer' in text
    assert "<td>2026-01-01 00:01:01</td>" in text


def test_a_legend_is_cut_nowhere() -> None:
    """It stands below the drawing, in whole: causes are long, and a telephone is narrow."""
    cause = (
        "what CycleCloud allows of htc/Standard_F16s_v2 leaves room for … of the … nodes that must"
        " go together"
    )
    history = of_records(a_pass_record(n, [], [a_waiting_job("1", cause)]) for n in range(2))
    text = page(history)
    (legend,) = re.findall(r'<ul class="legend">(.*?)</ul>', text)
    assert legend.endswith(f"{cause}</li>") and f'fill="{charts.COLOURS[0]}"' in legend
    assert f">{cause[:9]}" not in "".join(re.findall(r"<figure.*?</figure>", text))


def test_causes_are_told_by_names_that_people_know() -> None:
    """Not by those of the engine; and what is planned now is in use in the next pass."""
    noted = [
        "NodeArray(compute) has 9 of 10 nodes in use or planned (1 node planned)",
        "NodeArray(compute) has 10 of 10 nodes in use",
        "VM Family(standardFSv2Family, westus2) has 8 of 8 cores in use",
        "InsufficientResource: NodeBucket(nodearray=htc, vm_size=F4, pg=a) has 4 of 'ncpus', and 64"
        " is needed (and 8 more alike)",
    ]
    jobs = [a_waiting_job(str(n), reason) for n, reason in enumerate(noted)]
    history = of_records([a_pass_record(0, [], jobs)])
    assert sorted(history.samples[0].waiting) == [
        "the job needs … ncpus on one node, and the largest has …",
        "the limit of nodearray compute (MaxCount) has … of … nodes in use",
        "the quota of standardFSv2Family in westus2 has … of … cores in use",
    ]
    assert not any("NodeBucket" in each.cause for each in history.explanations)


def test_what_is_in_back_off_is_one_cause() -> None:
    """However often it has failed, and whenever it is tried again."""
    rests = "Bucket(htc, f4) is in back-off (boot{}), {}: {}"
    noted = [
        rests.format("", "for 20 s more", "no message"),
        rests.format(", 2 nodes in a row", "for 90 s more", "VM 7 did not start"),
        rests.format(", 3 nodes in a row", "tried with 4 at a time", "no message"),
        rests.format(", 4 nodes in a row", "tried by nodes that boot", "no message"),
    ]
    jobs = [a_waiting_job(str(n), limit=limit) for n, limit in enumerate(noted)]
    (sample,) = of_records([a_pass_record(0, [], jobs)]).samples
    assert sample.waiting == {"nodes of htc/f4 did not become ready": 4}


def test_a_quota_is_that_of_a_family() -> None:
    """Sizes that draw on one quota have one row for it."""
    sizes = ("Standard_F2s_v2", "Standard_F4s_v2")
    record = a_pass_record(0)
    (array,) = record.status["nodearrays"]
    (bucket,) = array["buckets"]
    quota = {"familyConsumedCoreCount": 6, "familyQuotaCoreCount": 8}
    array["buckets"] = [{**bucket, **quota, "definition": {"machineType": s}} for s in sizes]
    named = [q.name for q in of_records([record]).quotas]
    assert named.count("quota of standardFSv2Family in westus2: cores") == 1
    assert not any("family quota" in name for name in named)
