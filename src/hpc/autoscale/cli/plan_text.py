"""A rehearsal as text for people: what comes, changes and goes, each with its reason and its price.

Lines fit the width that is given. Equal rows are folded into one, with their number. What is in a
plan is not decided here. Called by the commands plan, apply, demand and autoscale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TextIO

from hpc.autoscale.cli.painting import print_painted, text_width
from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.words import in_time
from hpc.autoscale.hpctypes import name_order
from hpc.autoscale.plaintext import columns_of, on_one_line, padded, shorten, wrapped
from hpc.autoscale.rehearsal import Cost, PlannedChange, Rehearsal
from hpc.autoscale.rehearsal.changes import without_moot

Style = Literal["come", "change", "go", "warn", "plain"]
Line = tuple[Style, str]

SIGNS: dict[str, tuple[str, Style]] = {
    "create": ("+", "come"),
    "start": ("+", "come"),
    "start_worker": ("+", "come"),
    "join": ("~", "change"),
    "undrain": ("~", "change"),
    "drain": ("~", "change"),
    "delete": ("-", "go"),
    "stop_worker": ("-", "go"),
}
NARROW = 80
_PRICE = 14
_COMING = ("create", "start")
_IS_LEFT = "is left"


def print_plan(found: Rehearsal, stream: TextIO | None = None, *, judge_all: bool = False) -> None:
    """Print a plan, as wide as the terminal is, up to 100 columns; 80 where there is none.
    `judge_all`: it is worked out for all jobs why they wait, whatever that takes."""
    for style, line in lines_of(found, text_width(), judge_all=judge_all):
        print_painted(line, style, stream)


def lines_of(found: Rehearsal, width: int = NARROW, *, judge_all: bool = False) -> Iterator[Line]:
    """The whole plan. `judge_all`: as for `print_plan`."""
    said = total(found.changes, found.before, found.after)
    sections = (
        [line for group in folded(found.changes) for line in _lines_of_group(group, width)],
        [*_kept(found, width), *_waiting(found, width, judge_all)],
        [*_wrapped("plain", said, width, "")],
    )
    for number, lines in enumerate(filter(None, sections)):
        if number:
            yield "plain", ""
        yield from lines


def folded(changes: Sequence[PlannedChange]) -> Iterator[list[PlannedChange]]:
    """The rows in groups that are told in one: equal but for the node."""
    groups: dict[tuple[object, ...], list[PlannedChange]] = {}
    for row in without_moot(changes):
        own = row.jobs if row.action == "create" else row.reason
        key = (row.action, row.bucket, row.code, own)
        groups.setdefault(key, []).append(row)
    yield from groups.values()


def total(changes: Sequence[PlannedChange], before: Cost, after: Cost) -> str:
    """The number of nodes for each action, and what all nodes cost per hour."""
    counts: dict[str, int] = {}
    for group in folded(changes):
        action = group[0].action.replace("_", " ")
        counts[action] = counts.get(action, 0) + sum(row.count for row in group)
    said = ", ".join(f"{count} to {action}" for action, count in counts.items())
    return f"{said or 'Nothing to do'}. Nodes cost {before} now, {after} after that."


def _lines_of_group(group: Sequence[PlannedChange], width: int) -> Iterator[Line]:
    first = group[0]
    sign, style = SIGNS[first.action]
    count = sum(row.count for row in group)
    names = shorten(sorted((row.node for row in group if row.node), key=name_order))
    what = f"{count} of {first.bucket}" if first.action == "create" else names
    if first.action != "create" and first.bucket:
        what = f"{what} ({f'{count} of ' if count > 1 else ''}{first.bucket})"
    head = f"{sign} {first.action.replace('_', ' '):<7} {on_one_line(what)}"
    price = _price(group)
    room = width - _PRICE
    if columns_of(head) <= room:
        yield style, f"{padded(head, room)}{price:>{_PRICE}}".rstrip()
    else:
        yield from _wrapped(style, f"{head} {price}".rstrip(), width, "          ")
    yield from _wrapped("plain", f"    {_why(group)}", width, "    ")


def _price(group: Sequence[PlannedChange]) -> str:
    prices = [row.price_per_hour for row in group]
    known = sum(price for price in prices if price is not None)
    if None in prices:
        return "price unknown"
    return f"{'-' if known < 0 else '+'}${abs(known):,.2f}/h" if known else ""


def _why(group: Sequence[PlannedChange]) -> str:
    first = max(group, key=lambda row: row.idle_seconds or 0.0)  # what spares it spares all
    idle = [row.idle_seconds for row in group if row.idle_seconds is not None]
    said = first.reason
    if idle:
        least, most = in_time(min(idle)), in_time(max(idle))
        said += f" for {least}" if least == most else f" for {least} to {most}"
    if first.spared_by:
        said += f"; what would spare it: {first.spared_by}"
    return on_one_line(said)


def _kept(found: Rehearsal, width: int) -> Iterator[Line]:
    """Nodes for which a command was wanted, and refused."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    gone = {row.node for row in found.changes if row.action in ("delete", "drain")}
    for refusal in found.refused:
        name = refusal.node.name
        if name not in gone:
            key = (refusal.command, refusal.text, refusal.code)
            alike.setdefault(key, []).append(name)
    for (command, text, code), names in alike.items():
        if command in _COMING:
            said = f"{_not_asked_for(len(names), text, found)} [{code}]"
        else:
            said = f"{shorten(sorted(names, key=name_order))} kept: {text} [{code}]"
        yield from _wrapped("plain", f"  {on_one_line(said)}", width, "    ")


def _not_asked_for(count: int, why: str, found: Rehearsal) -> str:
    """A sentence about new nodes that a pass would not ask for; `why`: what is said of one."""
    if not why.startswith(_IS_LEFT):
        return f"{counted(count, 'node')} not asked for yet: {why}"
    new = sum(row.count for row in found.changes if row.action in _COMING)
    new += len({each.node.name for each in found.refused if each.command in _COMING})
    of_all = f"{count} of the {counted(new, 'new node')}"
    verb = "is left" if count == 1 else "are left"
    return f"{of_all} {verb}{why.removeprefix(_IS_LEFT)}"


def _waiting(found: Rehearsal, width: int, judge_all: bool) -> Iterator[Line]:
    """Why jobs wait, and what is odd or went wrong."""
    for kind, text in found.summary.details(judge_all=judge_all):
        if kind == "note":
            yield from _wrapped("plain", f"  {text}", width, "    ")
        else:
            yield from _wrapped("warn", f"! {text}", width, "    ")


def _wrapped(style: Style, text: str, width: int, indent: str) -> Iterator[Line]:
    for line in wrapped(on_one_line(text), width, indent):
        yield style, line
