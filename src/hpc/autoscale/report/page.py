"""The page: one HTML file with everything in it, which asks for nothing and runs nothing.

Whatever comes from a journal is text here: it goes through `_text`, or through the drawing of a
chart, which does the same. The page forbids scripts and all requests by itself, so that a mistake
here could do little.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from hpc.autoscale.errors import counted
from hpc.autoscale.plaintext import amount_in_words, on_one_line
from hpc.autoscale.report import charts
from hpc.autoscale.report.history import LIVES, OTHERS, History, together

_ROWS = 200
_NUMBER = re.compile(r"[\d,.]*")

STYLE = """
:root { color-scheme: light dark; --text: #1b1f23; --back: #ffffff; --line: #d0d4d9; --dim: #57606a;
  --link: #0550ae; --bar: #2266dd; --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8ea; --back: #0f1214; --line: #3c434a;
  --dim: #a0a8b0; --link: #79b8ff; --bar: #6ea8ff; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  margin: 0 auto; padding: 0 16px 48px; max-width: 980px; overflow-wrap: anywhere;
  overflow-x: clip; }
h1 { font-size: 1.5rem; margin: 24px 0 4px; } h2 { font-size: 1.15rem; margin: 36px 0 8px; }
p { margin: 4px 0; } .dim { color: var(--dim); } .bad { color: var(--bad); font-weight: 600; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible, [tabindex]:focus-visible { outline: 3px solid var(--link);
  outline-offset: 2px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 12px 0; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px;
  margin: 16px 0; }
dl div { border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; }
dt { color: var(--dim); font-size: .85rem; } dd { margin: 0; font-size: 1.3rem; }
figure { margin: 0; } figure svg { display: block; width: 100%; height: auto;
  overflow: visible; }
.narrow { display: none; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 24px; margin: 4px 0;
  padding: 0 0 0 2.5em; font-size: .85rem; }
.legend li { padding-left: 1.25em; text-indent: -1.25em; }
.legend svg { width: .75em; height: .75em; margin-right: .5em; }
svg text { fill: var(--text); } svg .role-axis-grid line { stroke: var(--line); }
svg .role-axis-tick line, svg .role-axis-domain line { stroke: var(--dim); }
summary { cursor: pointer; color: var(--link); padding: 4px 0; }
.scroll { overflow-x: auto; max-height: 480px; overflow-y: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: normal; }
details td { white-space: nowrap; } th { position: sticky; top: 0; background: var(--back); }
#waiting th.number { min-width: 12em; }
td.text { min-width: 16em; overflow-wrap: anywhere; } td.number, th.number { text-align: right; }
progress { width: 8em; accent-color: var(--bar); }
@media (max-width: 600px) { .wide { display: none; } .narrow { display: block; }
  progress { width: 3em; } th, td { padding-right: 8px; }
  td.text { min-width: 8em; } .legend { padding: 0; } }
@media print { :root { color-scheme: light; --text: #000; --back: #fff; --line: #999; --dim: #333;
  --bad: #000; } nav, summary {
  display: none; } body { max-width: none; padding-bottom: 0; } figure, tr { break-inside: avoid; }
  h2, section > .dim { break-after: avoid; } th { position: static; }
  details table { font-size: .65rem; } details td { white-space: normal; }
  details th, #waiting th.number, td.text { min-width: 0; overflow-wrap: anywhere; }
  details td:first-child { white-space: nowrap; }
  .scroll { max-height: none; overflow: visible; } .wide { display: block; }
  .narrow { display: none; } }
"""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'"
)


def page(history: History, title: str = "", head: str = "", policy: str = _POLICY) -> str:
    """The whole page. `head` goes into its head, and `policy` is what it may do."""
    name = title or _name(history)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_text(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n'
        f"<title>{_text(name)}</title>\n<style>{STYLE}</style>\n{head}</head>\n"
        f"<body>\n<main>\n{heading(history, title)}{content(history)}</main>\n</body>\n</html>\n"
    )


def heading(history: History, title: str = "") -> str:
    """The heading of the page: the title, or else what the clusters are called."""
    return f"<h1>{_text(title or _name(history))}</h1>\n"


def _name(history: History) -> str:
    return history.clusters or "Cluster"


def content(history: History) -> str:
    """What changes when there is one more pass."""
    if not history.passes:
        said = "that can be read" if history.problems else "yet"
        return f"<p>There is no pass in this journal {said}.</p>\n" + _errors(history)
    sections = list(_sections(history))
    links = "".join(f'<a href="#{name}">{_text(heading)}</a>' for name, heading, _ in sections)
    parts = [_summary(history), f'<nav aria-label="Sections">{links}</nav>\n']
    for name, heading, body in sections:
        parts.append(f'<section id="{name}">\n<h2>{_text(heading)}</h2>\n{body}</section>\n')
    return "".join(parts)


def _sections(history: History) -> Iterable[tuple[str, str, str]]:
    if history.samples:
        yield from _sections_of_samples(history)
    if history.errors or history.problems:
        yield "errors", "Errors", _errors(history)


def _sections_of_samples(history: History) -> Iterable[tuple[str, str, str]]:
    drawn = "<p>There was no node.</p>\n"
    if history.foremost("nodes"):
        drawn = _chart(history, charts.nodes) + _table_over_time(history, "nodes")
    yield "nodes", "Nodes by bucket", drawn
    if history.foremost("wanted"):
        drawn = _chart(history, charts.wanted) + _table_over_time(history, "wanted")
        yield "demand", "Demand: new nodes asked for", drawn
    if history.foremost("waiting"):
        drawn = _chart(history, charts.waiting) + _table_over_time(history, "waiting")
        yield "waiting", "Waiting jobs by cause", drawn
    yield "cost", "Cost", _chart(history, charts.cost) + _unpriced(history) + _costs(history)
    yield "lives", "Life of each node", _lives(history)
    yield "quotas", "Quotas and limits", _quotas(history)
    yield "explanations", "Why jobs wait now", _explanations(history)
    if any(sample.took is not None for sample in history.samples):
        yield "passes", "How long passes took", _passes(history)


def _errors(history: History) -> str:
    """What went wrong, the last first, after what could not be read."""
    lines = [_text(line) for line in history.problems]
    for error in reversed(history.errors):
        lines.append(f'<span class="dim">{_moment(error.at)}</span> {_text(error.text)}')
    return "".join(f"<p>{line}</p>\n" for line in lines)


def _summary(history: History) -> str:
    facts = [("Nodes", "unknown"), ("Jobs in the queue", "unknown")]
    if history.samples:
        last = history.samples[-1]
        more = "at least " if last.unpriced else ""
        # what is at least less than something says nothing
        in_all = f"at least {history.cost:,.2f}" if history.unpriced else ""
        facts = [
            ("Nodes", f"{sum(last.nodes.values()):,}"),
            ("Jobs in the queue", f"{last.jobs:,}"),
            ("Jobs that wait", f"{sum(last.waiting.values()):,}"),
            ("US$ per hour", f"{more}{last.per_hour:,.2f}"),
            ("US$ in all", in_all or amount_in_words(history.cost)),
        ]
    failed = f", {history.failed:,} failed" if history.failed else ""
    facts.append(("Passes", f"{history.passes:,}{failed}"))
    rows = "".join(f"<div><dt>{_text(k)}</dt><dd>{_text(v)}</dd></div>" for k, v in facts)
    error = history.health.last_error
    state = f'<p class="bad">The last pass: {_text(error)}</p>\n' if error else ""
    return (
        f'<p class="dim">{_moment(history.began)} to {_moment(history.ended)} (UTC)</p>\n'
        f"{state}<dl>{rows}</dl>\n"
    )


def _chart(history: History, draw: Callable[[History, int], dict[str, Any]]) -> str:
    about = draw.__doc__ or ""
    specs = [("wide", draw(history, charts.WIDE)), ("narrow", draw(history, charts.NARROW))]
    parts = [
        f'<figure class="{name}" role="img" aria-label="{_text(about)}">'
        f"{charts.svg(spec)}</figure>\n"
        for name, spec in specs
    ]
    return "".join(parts) + _legend(charts.legend(specs[0][1]))


def _legend(labels: Sequence[tuple[str, str]]) -> str:
    items = (
        f'<li><svg viewBox="0 0 1 1" aria-hidden="true"><rect width="1" height="1"'
        f' fill="{colour}"/></svg>{_text(label)}</li>'
        for label, colour in labels
    )
    return f'<ul class="legend">{"".join(items)}</ul>\n' if labels else ""


def _table_over_time(history: History, what: str) -> str:
    foremost = history.foremost(what)
    names = [*foremost, OTHERS]
    rows: list[list[Any]] = []
    before: dict[str, int] | None = None
    for sample in history.spans():
        found = together(getattr(sample, what), foremost)
        if found != before:
            rows.append([_moment(sample.at), *(found.get(name, 0) for name in names)])
        before = found
    if not any(row[-1] for row in rows):
        names, rows = foremost, [row[:-1] for row in rows]
    return _details("As a table", ["from (UTC)", *names], rows[-_ROWS:])


def _costs(history: History) -> str:
    rows: list[list[Any]] = []
    before = None
    for sample in history.spans():
        shown = f"{sample.per_hour:,.2f}"
        if shown != before:
            rows.append([_moment(sample.at), shown])
        before = shown
    return _details("As a table", ["from (UTC)", "US dollars per hour"], rows[-_ROWS:])


def _passes(history: History) -> str:
    """How long passes took; no chart where they took no time."""
    if any(sample.took for sample in history.samples):
        return _chart(history, charts.passes) + _took(history)
    said = "No pass took any time, as in a simulation, where time is virtual."
    return f'<p class="dim">{said}</p>\n{_took(history)}'


def _took(history: History) -> str:
    rows = [
        [_moment(s.at), "" if s.took is None else f"{s.took:,.3g}", s.passes, s.bad]
        for s in history.spans()
    ]
    heads = ["from (UTC)", "seconds at most", "passes", "with errors"]
    return _details("As a table", heads, rows[-_ROWS:])


def _unpriced(history: History) -> str:
    if not history.unpriced:
        return ""
    sizes = ", ".join(sorted(history.unpriced)[:10])
    return f"<p>Without a known price, and not counted: {_text(sizes)}</p>\n"


def _lives(history: History) -> str:
    shown, there = history.longest_lives(), history.nodes_seen
    said = f"The {LIVES} of {there:,} nodes that were there longest."
    if there <= LIVES:
        said = f"{counted(there, 'node')}." if there else "There was no node."
    rows = [
        [
            life.name,
            life.bucket,
            _moment(life.began),
            "" if life.ready is None else _moment(life.ready),
            _moment(life.last) if life.gone else "still there",
            "failed" if life.failed else "",
        ]
        for life in shown
    ]
    heads = ["node", "bucket", "first seen (UTC)", "ready", "gone", ""]
    told = f'<p class="dim">{_text(said)}</p>\n'
    if not shown:
        return told
    return f"{told}{_chart(history, charts.lives)}{_details('As a table', heads, rows)}"


def _quotas(history: History) -> str:
    if not history.quotas:
        return "<p>No limit is known.</p>\n"
    rows = "".join(
        f'<tr><td class="text">{_text(q.name)}</td><td class="number">{q.used:,}</td>'
        f'<td class="number">{q.most:,}</td><td><progress max="{q.most}" value="{q.used}"'
        f' aria-label="{_text(q.name)}">{q.used} of {q.most}</progress></td></tr>\n'
        for q in history.quotas
    )
    heads = '<th>limit</th><th class="number">used</th><th class="number">of</th><th>part</th>'
    return _scrolled("Quotas and limits", f"<tr>{heads}</tr>\n{rows}")


def _explanations(history: History) -> str:
    if not history.explanations:
        return "<p>No job waits.</p>\n"
    rows = "".join(
        f'<tr><td class="number">{each.jobs:,}</td>'
        f'<td class="text">{_text(_names(each.jobs, each.names))}</td>'
        f'<td class="text">{_text(each.cause)}</td></tr>\n'
        for each in history.explanations
    )
    heads = '<th class="number">jobs</th><th>which</th><th>why</th>'
    return _scrolled("Why jobs wait now", f"<tr>{heads}</tr>\n{rows}")


def _names(count: int, names: Sequence[str]) -> str:
    rest = count - len(names)
    return ", ".join(names) + (f" and {counted(rest, 'more job')}" if rest > 0 else "")


def _details(summary: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    kinds = [_kind(row[index] for row in rows) for index in range(len(heads))]
    head = "".join(f"<th{k}>{_text(name)}</th>" for k, name in zip(kinds, heads, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{k}>{_shown(cell)}</td>" for k, cell in zip(kinds, row, strict=True))
        + "</tr>\n"
        for row in rows
    )
    table = _scrolled(summary, f"<tr>{head}</tr>\n{body}")
    return f"<details><summary>{_text(summary)}</summary>\n{table}</details>\n"


def _kind(cells: Iterable[Any]) -> str:
    """How a column is set: numbers at the right."""
    numbers = all(not isinstance(c, str) or _NUMBER.fullmatch(c) for c in cells)
    return ' class="number"' if numbers else ""


def _shown(cell: Any) -> str:
    return f"{cell:,}" if isinstance(cell, int) else _text(cell)


def _scrolled(name: str, rows: str) -> str:
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(name)}"><table>\n'
        f"{rows}</table></div>\n"
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _text(value: object) -> str:
    """Any value as text of the page."""
    return html.escape(on_one_line(str(value)), quote=True)
