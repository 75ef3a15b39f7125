"""Charts as SVG: specifications of Vega-Lite, drawn by vl-convert in this process.

What is drawn is static: the page needs no script and no library to show it. Colours of text and
lines come from the page's style sheet, so that a chart is readable light and dark, and on paper.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.report.history import OTHERS, History, together

WIDE, NARROW = 900, 330
"""The widths of a chart on a screen and on a phone, in pixels."""

# told apart by most people with a colour weakness, and readable on white and on black
_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a400", "#888888"]
_LABEL = 44
_CONFIG = {
    "background": None,
    "font": "sans-serif",
    "padding": 8,
    "view": {"stroke": None},
    "axis": {"labelLimit": 150},
    "legend": {
        "orient": "bottom",
        "columns": 2,
        "labelLimit": 300,
        "title": None,
        "columnPadding": 60,
    },
}


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
    return _bars(history, "wanted", "new nodes", width)


def waiting(history: History, width: int) -> dict[str, Any]:
    """Waiting jobs over time, by cause."""
    return _stacked(history, "waiting", "waiting jobs", width)


def cost(history: History, width: int) -> dict[str, Any]:
    """Dollars per hour over time."""
    rows = [{"t": _ms(s.at), "n": s.per_hour} for s in history.spans()]
    mark = {"type": "line", "interpolate": "step-after", "color": _COLOURS[0]}
    return _over_time(history, rows, mark, {"y": _amount("US dollars per hour")}, width, 160)


def lives(history: History, width: int) -> dict[str, Any]:
    """The life of each node: booting, ready, and whether it failed."""
    rows = []
    for life in history.longest_lives():
        ready = life.last if life.ready is None else life.ready
        about = {"node": _short(life.name)}
        state = "failed" if life.failed and life.ready is None else "booting"
        if ready > life.began:
            rows.append({**about, "t": _ms(life.began), "u": _ms(ready), "s": state})
        if life.ready is not None and life.last > ready:
            state = "ready, then failed" if life.failed else "ready"
            rows.append({**about, "t": _ms(ready), "u": _ms(life.last), "s": state})
    states = ["booting", "ready", "failed", "ready, then failed"]
    colour = {"domain": states, "range": ["#e69f00", "#009e73", "#d55e00", "#cc79a7"]}
    encoding = {
        "y": {"field": "node", "type": "nominal", "sort": None, "title": None},
        "x2": {"field": "u"},
        "color": {"field": "s", "type": "nominal", "scale": colour},
    }
    return _over_time(
        history, rows, {"type": "bar", "height": {"band": 0.7}}, encoding, width, {"step": 14}
    )


def _stacked(history: History, what: str, title: str, width: int) -> dict[str, Any]:
    mark = {"type": "area", "interpolate": "step-after", "line": False}
    return _over_time(
        history, _rows(history, what, True), mark, _by_name(history, what, title), width, 220
    )


def _bars(history: History, what: str, title: str, width: int) -> dict[str, Any]:
    mark = {"type": "bar", "width": max(1.0, width / 250)}
    return _over_time(
        history, _rows(history, what, False), mark, _by_name(history, what, title), width, 140
    )


def _by_name(history: History, what: str, title: str) -> dict[str, Any]:
    names = list(_labels(history, what).values())
    return {
        "y": {**_amount(title), "stack": "zero"},
        "color": {
            "field": "b",
            "type": "nominal",
            "scale": {"domain": names, "range": _COLOURS[: len(names)]},
        },
    }


def _rows(history: History, what: str, with_none: bool) -> list[dict[str, Any]]:
    labels = _labels(history, what)
    foremost = history.foremost(what)
    rows = []
    for sample in history.spans():
        counted = together(getattr(sample, what), foremost)
        for name, label in labels.items():
            if with_none or counted.get(name):
                rows.append({"t": _ms(sample.at), "n": counted.get(name, 0), "b": label})
    return rows


def _labels(history: History, what: str) -> dict[str, str]:
    """What the legend says for each name that is drawn; no two say the same."""
    foremost = history.foremost(what)
    samples = (getattr(sample, what) for sample in history.samples)
    others = any(len(counts) > len(foremost) or counts.keys() - {*foremost} for counts in samples)
    labels: dict[str, str] = {}
    for name in [*foremost, *([OTHERS] if others else [])]:
        label, number = _short(name), 1
        while label in labels.values():
            number += 1
            label = f"{_short(name)} ({number})"
        labels[name] = label
    return labels


def _amount(title: str) -> dict[str, Any]:
    axis = {"tickCount": 5, "format": "~s"}
    return {"field": "n", "type": "quantitative", "title": title, "axis": axis}


def _over_time(
    history: History,
    rows: list[dict[str, Any]],
    mark: Mapping[str, Any],
    encoding: Mapping[str, Any],
    width: int,
    height: object,
) -> dict[str, Any]:
    legend = {**_CONFIG["legend"], "columns": 2 if width > 500 else 1}  # type: ignore[dict-item]
    axis = {"tickCount": width // 110, "labelOverlap": True, "grid": False}
    time = {
        "field": "t",
        "type": "temporal",
        "scale": {
            "type": "utc",
            "domain": [_ms(history.began), _ms(max(history.ended, history.began + 60))],
        },
        "title": None,
        "axis": axis,
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": {**_CONFIG, "legend": legend},
        "width": width - 60,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": height,
        "data": {"values": rows},
        "mark": mark,
        "encoding": {"x": time, **encoding},
    }


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _short(name: str) -> str:
    """A name as a label: on one line, and not too long."""
    text = on_one_line(name).encode(errors="replace").decode()
    return text if len(text) <= _LABEL else text[: _LABEL - 1] + "…"
