"""Lines for how a cluster stands: one screen, for any width from 40 characters on.

On a wide screen what is about jobs stands beside what is about nodes. A line is a text with a
style; who prints them decides what a style looks like. Called by `status`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from hpc.autoscale.cli.standing import (
    STATES,
    LimitStanding,
    LoopStanding,
    PassStanding,
    Standing,
)
from hpc.autoscale.clock import in_utc
from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.limit_words import limit_in_words
from hpc.autoscale.explaining.words import ago, in_time
from hpc.autoscale.lockstate import Lock, LockState
from hpc.autoscale.plaintext import columns_of, cut_to, on_one_line, padded, wrapped

WIDE = 150
"""From how many characters on there are two columns."""

_GAP = 4


class Room(NamedTuple):
    """How many rows each part of the screen may have at most."""

    buckets: int
    limits: int
    stuck: int
    failed: int
    backoffs: int


ROOMS = (Room(12, 6, 9, 5, 4), Room(8, 4, 5, 3, 2), Room(5, 3, 4, 2, 1), Room(2, 1, 2, 1, 1))
"""From the most there is ever on a screen to what a low one has."""

_WORTH_SHOWING = 0.01

_NAMED_AT_LEAST = 12
"""How many characters of the name of a bucket or limit there is room for, on any screen."""

_IN_A_LOG = 120
"""How much of an error stands in a line of a log, in characters."""


class Line(NamedTuple):
    """A line of the screen, or its left half: then `beside` is the other. `style`: `title`, `bad`,
    `warn`, `faint` or `plain`."""

    text: str
    style: str = "plain"
    beside: Line | None = None

    @property
    def whole(self) -> str:
        """The text of both halves."""
        return (self.text + (self.beside.text if self.beside else "")).rstrip()


def screen(standing: Standing, width: int, height: int | None = None) -> list[Line]:
    """The whole screen; no line is longer than `width`.

    With `height`, the parts are shortened until there are no more lines than that, as far as that
    goes: each keeps what matters most.
    """
    lines: list[Line] = []
    for room in ROOMS:
        lines = _screen(standing, width, room)
        if height is None or len(lines) <= height:
            break
    return lines


def _screen(standing: Standing, width: int, room: Room) -> list[Line]:
    def of_nodes(width: int) -> list[list[Line]]:
        return [_nodes(standing, width, room), _limits(standing, width, room)]

    def of_work(width: int) -> list[list[Line]]:
        parts = (_jobs, _failed, _backoffs)
        return [part(standing, width, room) for part in parts]

    if width < WIDE:
        body = _with_blanks([*of_nodes(width), *of_work(width)])
    else:
        left = width // 2 - _GAP
        right = width - left - _GAP
        body = _beside(_with_blanks(of_nodes(left)), _with_blanks(of_work(right)), left)
    lines = [*_head(standing, min(width, WIDE)), Line(""), *body]
    if standing.problems:
        lines += [Line(""), *_list("problems", standing.problems, width, "bad", room.failed)]
    return list(map(_harmless, lines))


def problem_lines(problem: str, width: int) -> list[Line]:
    """Why a look has failed, in at most so many lines as the foot of a screen may have."""
    return [Line(line, "bad") for line in wrapped(on_one_line(problem), width, most=4)]


def _harmless(line: Line) -> Line:
    """A line of which nothing acts on a terminal."""
    beside = _harmless(line.beside) if line.beside else None
    return Line(on_one_line(line.text), line.style, beside)


def summary_line(standing: Standing) -> str:
    """How things stand in one line, for logs."""
    nodes = ", ".join(f"{n} {state}" for state in STATES if (n := standing.nodes[state]))
    jobs = standing.jobs
    said = (
        f"{in_utc(standing.at)} {nodes or 'no nodes'}; jobs: {jobs['run']} running,"
        f" {jobs['will_start']} waiting, {jobs['stuck']} stuck; {standing.cost}"
    )
    if standing.last_end is not None and standing.last_end.error:
        said += f"; last pass: {cut_to(on_one_line(standing.last_end.error), _IN_A_LOG)}"
    return on_one_line(said)


def head(loop: LoopStanding, width: int) -> list[Line]:
    """What a screen begins with, which is known also where there can be no more of it."""
    return list(map(_harmless, _head_of_loop(loop, min(width, WIDE))))


def _head(standing: Standing, width: int) -> Iterator[Line]:
    yield from _head_of_loop(standing, width)
    yield Line(cut_to(_said_of_cost(standing), width))
    if standing.nodes["planned"]:
        planned = counted(standing.nodes["planned"], "node")
        more = f"the next pass wants {planned} more for {standing.cost_planned}"
        yield Line(cut_to(more, width))


def _head_of_loop(loop: LoopStanding, width: int) -> Iterator[Line]:
    where = ", ".join(f"{name} at {url}" for name, url in loop.clusters.items())
    at = f"{datetime.fromtimestamp(loop.at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield Line(_ends(cut_to(where, width - len(at) - 2), at, width), "title")
    lock = _said_of_lock(loop.lock)
    passes, style = passes_in_words(loop), "warn" if loop.is_late else "plain"
    fits = len(passes) + len(lock) + 2 <= width
    yield Line(_ends(passes, lock, width) if fits else cut_to(passes, width), style)
    yield from _said_of_error(loop, width)
    if not fits:
        unknown = loop.lock.state is Lock.UNKNOWN
        for line in wrapped(lock, width, most=2):
            yield Line(line, "warn" if unknown else "plain")


def _said_of_lock(lock: LockState) -> str:
    if lock.state is Lock.NONE:
        return "no lock: lock_file is null"
    is_plainly_free = lock.state is Lock.FREE and not lock.note
    return on_one_line(f"lock {lock}" + (": no loop is in a pass" if is_plainly_free else ""))


def _said_of_error(loop: PassStanding, width: int) -> Iterator[Line]:
    text = error_in_words(loop)
    for line in wrapped(text, width - 2, most=3) if text else ():
        yield Line(f"  {line}", "bad")


def error_in_words(loop: PassStanding) -> str:
    """What went wrong in the last pass, and when there was a good one; empty where all was well."""
    end = loop.last_end
    if end is None or not end.error:
        return ""
    text = on_one_line(end.error)
    if end.last_good is not None:
        text += f" (the last good one began {ago(loop.at - end.last_good)})"
    return text


def passes_in_words(loop: PassStanding) -> str:
    """The last pass and the next one, in words."""
    if loop.last_pass is None:
        return "no pass so far"
    said = f"last pass {ago(loop.at - loop.last_pass)}"
    end = loop.last_end
    if end is not None:
        took = "" if end.took is None else f" {_seconds(end.took)}"
        how = "failed after" if end.failed else "ok in" if not end.error else "with errors in"
        said += f": {how}{took}" if took else f": {how.partition(' ')[0]}"
    if loop.loop_is_gone:
        return f"{said}; its loop has ended"
    if loop.next_pass is not None:
        left = loop.next_pass - loop.at
        said += f", next in {in_time(left)}" if left >= 0 else f", {in_time(-left)} late"
    return said


def _seconds(seconds: float) -> str:
    """A duration of which tenths of a second matter while it is short."""
    return f"{seconds:.1f} s" if seconds < 10 else in_time(seconds)


def _said_of_cost(standing: Standing) -> str:
    """What is paid, and for how many nodes: neither for those that are off nor for machines that
    are not CycleCloud's."""
    unpriced = standing.cost.unpriced
    more = f", and {counted(unpriced, 'node')} of unknown price" if unpriced else ""
    priced = counted(standing.paid - unpriced, "node")
    return f"${standing.cost.per_hour:,.2f}/h for {priced}{more}"


def _nodes(standing: Standing, width: int, room: Room) -> list[Line]:
    if not standing.buckets:
        return [Line("nodes", "title"), Line("  none")]
    shown = [state for state in STATES if standing.nodes[state]]
    head = [*(state.upper() for state in shown), "$/H"]
    total = [*(f"{standing.nodes[state]}" for state in shown), f"{standing.cost.per_hour:,.2f}"]
    widths = [*(max(len(state), 5) for state in shown), 9]
    if width - sum(widths) - len(widths) < _NAMED_AT_LEAST:  # names of states are cut, then
        widths = [max(len(figure), 4) for figure in total]
    space = max(_NAMED_AT_LEAST, width - sum(widths) - len(widths))
    rows = sorted(standing.buckets, key=lambda each: -sum(each.nodes.values()))[: room.buckets]
    named = min(space, max(len("  all"), *(columns_of(f"  {row.bucket}") for row in rows)))

    def row_of(name: str, cells: Iterable[str]) -> str:
        cut = (f"{cut_to(cell, w):>{w}}" for cell, w in zip(cells, widths, strict=True))
        return cut_to(f"{padded(cut_to(name, named), named)} {' '.join(cut)}", width)

    lines = [Line(row_of("nodes", head), "title")]
    for row in rows:
        price = "?" if row.price_per_hour is None else f"{row.price_per_hour:,.2f}"
        cells = [*(f"{row.nodes.get(state) or '.'}" for state in shown), price]
        bad = "bad" if row.nodes.get("failed") or row.nodes.get("unknown") else "plain"
        lines.append(Line(row_of(f"  {row.bucket}", cells), bad))
    more = len(standing.buckets) - len(rows)
    if more:
        lines.append(Line(f"  and {counted(more, 'more bucket')}", "faint"))
    if len(standing.buckets) > 1:
        lines.append(Line(row_of("  all", total)))
    return lines


def _limits(standing: Standing, width: int, room: Room) -> list[Line]:
    lines = [Line("limits in use", "title")]
    near = [each for each in standing.limits if _share(each, each.planned) >= _WORTH_SHOWING]
    shown = near[: room.limits]
    figures = list(map(_figure, shown))
    wide = max(map(len, figures), default=0)
    bar = 12 if width - wide - 24 >= _NAMED_AT_LEAST else 0
    space = max(_NAMED_AT_LEAST, width - wide - bar - 12)
    for each, figure in zip(shown, figures, strict=True):
        share = _share(each)
        name = limit_in_words(each.name)[1].removeprefix("the ")
        filled = round(share * bar)
        planned = "" if not each.planned else f" +{each.planned:,}"
        drawn = "#" * filled + "." * (bar - filled)
        text = f"  {padded(cut_to(name, space), space)} {figure:>{wide}} {drawn}{planned}"
        lines.append(Line(cut_to(text, width), "warn" if share >= 1 else "plain"))
    more = len(standing.limits) - len(shown)
    if more > 0:
        less = "less full" if shown else f"less than {_WORTH_SHOWING:.0%} full"
        lines.append(Line(f"  {counted(more, 'limit')} {less}", "faint"))
    elif not shown:
        lines.append(Line("  none", "faint"))
    return lines


def _figure(limit: LimitStanding) -> str:
    """How much of a limit is in use; of one that has come to 0 since, that it gives no more."""
    if limit.used and not limit.most:
        return f"{limit.used:,} {limit.unit}, no more"
    return f"{limit.used:,} of {limit.most:,} {limit.unit}"


def _share(limit: LimitStanding, planned: int = 0) -> float:
    """How full a limit is, with so much that is planned, from 0 to 1."""
    return min(1.0, (limit.used + planned) / limit.most) if limit.most else 1.0


def _jobs(standing: Standing, width: int, room: Room) -> list[Line]:
    jobs = standing.jobs
    head = f"jobs: {jobs['run']} running, {jobs['will_start']} waiting for nodes or a place"
    lines = [
        Line(line, "title") for line in wrapped(f"{head}, {jobs['stuck']} stuck", width, most=2)
    ]
    if jobs["served"]:
        lines.append(Line(f"  request sets: {counted(jobs['served'], 'wish')} served", "faint"))
    if jobs["workers"]:
        number = counted(jobs["workers"], "demand")
        lines.append(Line(f"  workers by number: {number} served", "faint"))
    for group in standing.stuck[: room.stuck]:
        lines += _item(str(group), width, "bad" if group.never else "warn", 4)
    rest = sum(group.count for group in standing.stuck[room.stuck :])
    if rest:
        lines.append(Line(f"  and {counted(rest, 'job')} for other reasons", "faint"))
    return lines


def _item(text: str, width: int, style: str, most: int) -> Iterator[Line]:
    """A text in so many lines at most, of which all but the first begin further right."""
    lines = wrapped(on_one_line(text), width - 4, most=most) or [""]
    yield Line(f"  {lines[0]}", style)
    for line in lines[1:]:
        yield Line(f"    {line}")


def _failed(standing: Standing, width: int, room: Room) -> list[Line]:
    said = [f"{each.node} ({each.bucket}): {each.message}" for each in standing.failed]
    return _list("failed", said, width, "bad", room.failed) if said else []


def _backoffs(standing: Standing, width: int, room: Room) -> list[Line]:
    said = standing.backoffs
    return _list("back-off", said, width, "warn", room.backoffs) if said else []


def _list(title: str, items: Sequence[str], width: int, style: str, most: int) -> list[Line]:
    lines = [Line(f"{title}: {len(items)}", "title")]
    for item in items[:most]:
        lines += _item(item, width, style, 3)
    if len(items) > most:
        lines.append(Line(f"  and {len(items) - most} more", "faint"))
    return lines


def _with_blanks(parts: Iterable[list[Line]]) -> list[Line]:
    """Parts one below the other, with a blank line between them."""
    lines: list[Line] = []
    for part in filter(None, parts):
        lines += [Line(""), *part] if lines else part
    return lines


def _beside(left: Sequence[Line], right: Sequence[Line], width: int) -> list[Line]:
    """Two columns."""
    rows = max(len(left), len(right))
    blank = [Line("")] * rows
    return [
        Line(padded(a.text, width + _GAP), a.style, b)
        for a, b in zip([*left, *blank][:rows], [*right, *blank][:rows], strict=True)
    ]


def _ends(left: str, right: str, width: int) -> str:
    """Two texts at the ends of a line, or one after the other where they do not fit."""
    room = width - columns_of(left) - columns_of(right)
    return f"{left}{' ' * room}{right}" if room >= 2 else cut_to(f"{left}  {right}", width)
