"""Charts as SVG: specifications of Vega-Lite, drawn by vl-convert in this process.

What is drawn is static: the page needs no script and no library to show it. Colours of text and
lines come from the page's style sheet, so that a chart is readable light and dark, and on paper.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.report.history import OTHERS, History, Sample, together

WIDE, NARROW = 900, 330
"""The widths of a chart on a screen and on a phone, in pixels."""

COLOURS = ["#2266dd", "#cc7711", "#229955", "#aa3399", "#0099dd", "#bb2222", "#6633ff", "#888888"]
"""What is drawn, the rest in the last one. They stand out from a light page and from a dark one,
and can be told apart by those who do not see red, or green, as others do."""

_BLUE, _ORANGE, _GREEN, _PURPLE, _RED = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[3], COLOURS[5]
_LABEL = 44
_LONGEST = 140
_CONFIG = {
    "background": None,
    "font": "sans-serif",
    "padding": 8,
    "view": {"stroke": None},
    "axis": {
        "labelLimit": 150,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 400,
        "titlePadding": 10,
    },
}
_DAY = 24 * 3600.0


class ChartError(AutoscaleError):
    """A chart cannot be drawn."""


def check() -> None:
    """Raise ChartError unless charts can be drawn here."""
    try:
        import vl_convert  # noqa: F401
    except ModuleNotFoundError:
        raise ChartError(
            "charts need vl-convert-python: pip install 'hpc-autoscale[report]'"
        ) from None


def svg(spec: Mapping[str, Any]) -> str:
    """A chart as the text of an SVG element. Raises ChartError."""
    check()
    import vl_convert

    try:
        drawn: str = vl_convert.vegalite_to_svg(dict(spec), allowed_base_urls=[])
    except ValueError as error:
        raise ChartError(f"a chart cannot be drawn: {error}") from error
    return _for_a_page(drawn)


def legend(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What each colour of a chart stands for: label and colour. It is no part of the drawing, in
    which a long label would be cut."""
    scale = spec["encoding"].get("color", {}).get("scale", {"domain": (), "range": ()})
    return list(zip(scale["domain"], scale["range"], strict=True))


def _for_a_page(drawn: str) -> str:
    """Without a size of its own, so that it is as wide as there is room, and with ids that no other
    chart of the page has."""
    drawn = re.sub(r'(<svg [^>]*?)width="[\d.]+" height="[\d.]+" ', r"\1", drawn, count=1)
    own = hashlib.sha256(drawn.encode()).hexdigest()[:8]
    drawn = re.sub(r'(<\w+ id=")', rf"\g<1>{own}-", drawn)
    return re.sub(r'="url\(#', f'="url(#{own}-', drawn)


def nodes(history: History, width: int) -> dict[str, Any]:
    """Nodes over time, by bucket."""
    return _stacked(history, "nodes", "nodes", width)


def wanted(history: History, width: int) -> dict[str, Any]:
    """New nodes that passes asked for, by bucket."""
    mark = {"type": "bar", "width": max(1.0, width / 250)}
    rows = _rows(history, "wanted", False)
    return _over_time(history, rows, mark, _by_name(history, "wanted", "new nodes"), width, 140)


def waiting(history: History, width: int) -> dict[str, Any]:
    """Waiting jobs over time, by cause."""
    return _stacked(history, "waiting", "waiting jobs", width)


def cost(history: History, width: int) -> dict[str, Any]:
    """US dollars per hour over time."""
    rows = [{"t": _ms(s.at), "n": s.per_hour} for s in _held(history)]
    mark = {"type": "line", "interpolate": "step-after", "color": _BLUE}
    most = max((s.per_hour for s in history.samples), default=0.0)
    amount = _amount("US dollars per hour", ",.0f" if most > 10 else ",.2f", most)
    return _over_time(history, rows, mark, {"y": amount}, width, 160)


def passes(history: History, width: int) -> dict[str, Any]:
    """How long passes took, and in which something went wrong."""
    good, bad = "all well", "something went wrong"
    rows = [
        {"t": _ms(s.at), "n": s.took, "b": bad if s.bad else good}
        for s in history.spans()
        if s.took is not None
    ]
    mark = {"type": "bar", "width": max(1.0, width / 250)}
    colour = _coloured("b", {good: _BLUE, bad: _RED}, rows)
    most = max((s.took for s in history.spans() if s.took is not None), default=0.0)
    encoding = {
        "y": _amount("seconds", ",.3~f", most),
        "color": colour,
    }
    return _over_time(history, rows, mark, encoding, width, 140)


def lives(history: History, width: int) -> dict[str, Any]:
    """The life of each node: booting, ready, and whether it failed."""
    rows = []
    for life in history.longest_lives():
        last = life.last if life.gone else history.until
        ready = last if life.ready is None else life.ready
        about = {"node": _short(life.name)}
        state = "failed" if life.failed and life.ready is None else "booting"
        if ready > life.began:
            rows.append({**about, "t": _ms(life.began), "u": _ms(ready), "s": state})
        if life.ready is not None and last > ready:
            state = "ready, then failed" if life.failed else "ready"
            rows.append({**about, "t": _ms(ready), "u": _ms(last), "s": state})
    states = {
        "booting": _ORANGE,
        "ready": _GREEN,
        "failed": _RED,
        "ready, then failed": _PURPLE,
    }
    encoding = {
        "y": {"field": "node", "type": "nominal", "sort": None, "title": None},
        "x2": {"field": "u"},
        "color": _coloured("s", states, rows),
    }
    mark = {"type": "bar", "height": {"band": 0.7}}
    return _over_time(history, rows, mark, encoding, width, {"step": 16})


def _stacked(history: History, what: str, title: str, width: int) -> dict[str, Any]:
    mark = {"type": "area", "interpolate": "step-after", "line": False}
    rows = _rows(history, what, True)
    return _over_time(history, rows, mark, _by_name(history, what, title), width, 220)


def _coloured(
    field: str, colours: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Colours by the values of a field, as far as these occur."""
    there = {row[field] for row in rows}
    known = {name: colour for name, colour in colours.items() if name in there}
    scale = {"domain": list(known), "range": list(known.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None}


def _by_name(history: History, what: str, title: str) -> dict[str, Any]:
    labels = _labels(history, what)
    colours = _colours(history, what)
    most = max((sum(getattr(s, what).values()) for s in history.spans()), default=0)
    scale = {"domain": list(labels.values()), "range": [colours[name] for name in labels]}
    return {
        "y": {**_amount(title, ",d", most), "stack": "zero"},
        "color": {"field": "b", "type": "nominal", "scale": scale, "legend": None},
        "order": {"field": "o", "type": "quantitative"},
    }


def _colours(history: History, what: str) -> dict[str, str]:
    """The colour of each name: a bucket has the same one in all charts."""
    names = history.foremost(what)
    first = history.foremost("nodes") if what == "wanted" else names
    known = dict(zip(first, COLOURS, strict=False))
    free = iter([c for c in COLOURS[:-1] if c not in {known.get(name) for name in names}])
    found = {name: known.get(name) or next(free) for name in names}
    return {**found, OTHERS: COLOURS[-1]}


def _held(history: History) -> list[Sample]:
    """The samples, and the last one once more for as long as it is taken to hold."""
    spans = history.spans()
    return [*spans, *(replace(last, at=history.until) for last in spans[-1:])]


def _rows(history: History, what: str, with_none: bool) -> list[dict[str, Any]]:
    labels = _labels(history, what)
    foremost = history.foremost(what)
    rows = []
    for sample in _held(history) if with_none else history.spans():
        counted = together(getattr(sample, what), foremost)
        for order, (name, label) in enumerate(labels.items()):
            if with_none or counted.get(name):
                count = counted.get(name, 0)
                rows.append({"t": _ms(sample.at), "n": count, "b": label, "o": -order})
    return rows


def _labels(history: History, what: str) -> dict[str, str]:
    """What the legend says for each name that is drawn; no two say the same."""
    foremost = history.foremost(what)
    samples = (getattr(sample, what) for sample in history.spans())
    others = any(len(counts) > len(foremost) or counts.keys() - {*foremost} for counts in samples)
    labels: dict[str, str] = {}
    for name in [*foremost, *([OTHERS] if others else [])]:
        text = _short(name, _LONGEST)
        label, number = text, 1
        while label in labels.values():
            number += 1
            label = f"{text} ({number})"
        labels[name] = label
    return labels


def _amount(title: str, form: str, most: float) -> dict[str, Any]:
    """The axis of amounts from 0 to this one, whole numbers where the form is that of such."""
    axis: dict[str, Any] = {"tickCount": 5, "format": form}
    if form.endswith("d"):
        axis["tickCount"] = max(1, min(5, int(most)))
        axis["labelExpr"] = f"datum.value % 1 ? '' : format(datum.value, '{form}')"
    # by itself, an axis for nothing has its 0 in the middle
    scale = {"domainMin": 0, **({} if most else {"domainMax": 1})}
    return {"field": "n", "type": "quantitative", "title": title, "axis": axis, "scale": scale}


def _over_time(
    history: History,
    rows: list[dict[str, Any]],
    mark: Mapping[str, Any],
    encoding: Mapping[str, Any],
    width: int,
    height: object,
) -> dict[str, Any]:
    until = history.until
    axis = {
        "tickCount": width // 110,
        "labelOverlap": "greedy",
        "labelFlush": True,
        "labelSeparation": 12,
        "grid": False,
        "labelExpr": _time_label(until - history.began),
    }
    time = {
        "field": "t",
        "type": "temporal",
        "scale": {"type": "utc", "domain": [_ms(history.began), _ms(until)]},
        "title": "UTC",
        "axis": axis,
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": _CONFIG,
        "width": width - 60,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": height,
        "data": {"values": rows},
        "mark": mark,
        "encoding": {"x": time, **encoding},
    }


def _time_label(seconds: float) -> str:
    """What a time is called on an axis of so many seconds, as an expression of Vega."""
    if seconds <= 600:
        return "utcFormat(datum.value, '%H:%M:%S')"
    if seconds <= _DAY:
        return "utcFormat(datum.value, '%H:%M')"
    if seconds <= 4 * _DAY:
        midnight = "utchours(datum.value) + utcminutes(datum.value) === 0"
        return f"utcFormat(datum.value, {midnight} ? '%d %b' : '%H:%M')"
    return f"utcFormat(datum.value, '{'%d %b' if seconds <= 300 * _DAY else '%b %Y'}')"


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _short(name: str, most: int = _LABEL) -> str:
    """A name as a label: on one line, and not too long."""
    text = on_one_line(name).encode(errors="replace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"
