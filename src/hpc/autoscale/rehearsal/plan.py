"""A plan: the changes of a rehearsal in a file, with what they were made from, to be carried out
later, just so or not at all.

Whether the world has moved in a way that matters is found out by rehearsing again: when the same
decisions come of it, it has not. When others come of it, `moved` says what has changed since, by
what both rehearsals were made from. That a node is joined is no decision: a pass lets in whatever
has become ready. `Bounds` is what the gate is told while a plan is carried out, so
that a pass does nothing else, whatever happens meanwhile.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from hpc.autoscale.autoscaler.summary import PassSummary
from hpc.autoscale.backoff.listed import BOOTING
from hpc.autoscale.errors import AutoscaleError, counted, unreadable
from hpc.autoscale.leastcost.searches import SEARCHES, Searches
from hpc.autoscale.node.guards import Command, key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.rehearsal.changes import (
    Cost,
    PlannedChange,
    without_moot,
)
from hpc.autoscale.rehearsal.inputs import Inputs, digest_of
from hpc.autoscale.rehearsal.rehearsing import Rehearsal
from hpc.autoscale.requestsets.dynamic import bucket_of
from hpc.autoscale.wholefiles import unwritable, write_whole

FORMAT = "azscale plan"
VERSION = 1

_NOTHING_NAMED = "time has passed, or prices, weights of regions or what is remembered are others"
_CHANGED = (
    "it was changed since it was written, or is damaged: make it again (its checksum is another)"
)

_GOING = ("drain", "delete", "stop_worker")


class PlanError(AutoscaleError):
    """A file that is no plan, or a plan that must not be carried out as things are now."""


@dataclass(frozen=True)
class PassPlan:
    """What is to be done in a cluster. `at`: when it was made, in unix seconds. `cluster`: its name
    and server, in words. `searches`: how far searches for nodes at the least cost went."""

    cluster: str
    at: float
    changes: tuple[PlannedChange, ...]
    before: Cost = field(default_factory=Cost)
    after: Cost = field(default_factory=Cost)
    inputs: Inputs = field(default_factory=Inputs)
    searches: tuple[int | None, ...] = ()

    @classmethod
    def of(cls, found: Rehearsal) -> PassPlan:
        """The plan of a rehearsal."""
        costs = found.before, found.after
        return cls(found.where, found.at, found.changes, *costs, found.inputs, found.searches)

    def config_of_a_pass(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration for one pass that searches for nodes just as far as was searched for this
        plan."""
        return {**config, SEARCHES: Searches(self.searches)}

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form, with a checksum of all of it."""
        saved: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "cluster": self.cluster,
            "at": self.at,
            "changes": [change.to_dict() for change in self.changes],
            "cost_per_hour": {"before": self.before.to_dict(), "after": self.after.to_dict()},
            "made_from": self.inputs.to_dict(),
        }
        if self.searches:
            saved["searches"] = list(self.searches)
        return {**saved, "checksum": digest_of(saved)}

    def write(self, path: str) -> None:
        """Write it into a file, as a whole or not at all, for its owner and their group. PlanError
        when that is not possible."""
        try:
            write_whole(path, json.dumps(self.to_dict(), indent=1) + "\n", mode=0o640)
        except OSError as problem:
            raise PlanError(f"plan {path}: {unwritable(problem)}") from problem

    @classmethod
    def read(cls, path: str) -> PassPlan:
        """The plan in a file; `-`: on stdin. PlanError when there is none, or one of another
        version, or one that was changed."""
        try:
            with open(sys.stdin.fileno() if path == "-" else path, "rb", closefd=path != "-") as f:
                text = f.read()
        except OSError as problem:
            raise PlanError(f"plan {path}: {unreadable(problem)}") from problem
        try:
            saved = json.loads(text)
        except (ValueError, RecursionError) as problem:
            found = _instead_of_json(text, problem)
            raise PlanError(f"plan {path}: expected JSON, found {found}") from problem
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            raise PlanError(
                f"plan {path}: expected what `azscale plan --out` writes, found other JSON"
            )
        if saved.get("version") != VERSION:
            raise PlanError(
                f"plan {path}: expected a plan of version {VERSION}, found"
                f" {saved.get('version')!r}: make it again with this version of azscale"
            )
        try:
            plan = cls._from_dict(saved)
        except (TypeError, KeyError, ValueError, AttributeError) as problem:
            raise PlanError(f"plan {path}: {_CHANGED}") from problem
        if plan.to_dict()["checksum"] != saved.get("checksum"):
            raise PlanError(f"plan {path}: {_CHANGED}")
        return plan

    @classmethod
    def _from_dict(cls, saved: Mapping[str, Any]) -> PassPlan:
        cost = {key: Cost(**saved["cost_per_hour"][key]) for key in ("before", "after")}
        return cls(
            str(saved["cluster"]),
            float(saved["at"]),
            tuple(map(PlannedChange.from_dict, saved["changes"])),
            **cost,
            inputs=Inputs.from_dict(saved["made_from"]),
            searches=tuple(None if n is None else int(n) for n in saved.get("searches", ())),
        )

    def moved(self, now: Rehearsal) -> str | None:
        """What has changed since it was made, where the next pass would not do the same any more;
        None where it would."""
        if self.cluster != now.where:
            return f"it is for {self.cluster}, and this is {now.where}"
        planned, found = _decisions(self.changes), _decisions(now.changes)
        if planned == found:
            return None
        missing, more = list((planned - found).elements()), list((found - planned).elements())
        why = [*_differences(self.inputs, now.inputs)]
        said = _first(why, 3) if why else _NOTHING_NAMED
        parts = [
            f"{verb} {_first([_in_words(each) for each in listed], 2)}"
            for verb, listed in (("would not", missing), ("would also", more))
            if listed
        ]
        return f"{said}: a pass {', and '.join(parts)}"


def left_undone(plan: PassPlan, summary: PassSummary, due: Sequence[PlannedChange]) -> list[str]:
    """What of a plan a pass has not done, in words. `due`: what was to be done just before that
    pass; a node that had been joined by then is done. Drains are not among it: a node with work is
    told to drain in each pass."""
    done: Mapping[str, Sequence[str]] = {
        "create": summary.created,
        "start": summary.started,
        "join": summary.joined,
        "undrain": summary.undrained,
        "delete": summary.deleted,
        "start_worker": summary.hosts_started,
        "stop_worker": summary.hosts_stopped,
    }
    wanted, found = Counter[str](), Counter[str]()
    to_join = {change.node_id for change in due if change.action == "join"}
    for change in plan.changes:
        if change.action in done and (change.action != "join" or change.node_id in to_join):
            wanted[change.action] += change.count
            found[change.action] += change.node in done[change.action]
    found["create"] = len(summary.created)
    return [
        f"{count - found[action]} of {counted(count, _KIND.get(action, 'node'))} to"
        f" {action.replace('_worker', '')}"
        for action, count in wanted.items()
        if found[action] < count
    ]


_KIND = {"start_worker": "worker", "stop_worker": "worker"}

_Key = tuple[str, str, int]


def _decisions(changes: Sequence[PlannedChange]) -> Counter[_Key]:
    """What was decided, without reasons: equal changes are counted."""
    rows = (row for row in without_moot(changes) if row.action != "join")
    return Counter((row.action, row.node or row.bucket, row.count) for row in rows)


def _in_words(key: _Key) -> str:
    action, what, count = key
    said = action.replace("_", " ")
    return f"{said} {count} of {what}" if action == "create" else f"{said} {what}"


def _first(listed: Sequence[str], most: int) -> str:
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def _differences(then: Inputs, now: Inputs) -> Iterable[str]:
    """What of the inputs has changed, a phrase each: what a person has done first, and last how far
    nodes have got that boot."""
    later: list[str] = []
    for each in fields(Inputs):
        before: Mapping[str, str] = getattr(then, each.name)
        after: Mapping[str, str] = getattr(now, each.name)
        kind = _KINDS[each.name]
        for name in [*before, *(name for name in after if name not in before)]:
            if before.get(name) == after.get(name):
                continue
            said = kind(name, before.get(name), after.get(name))
            if each.name == "nodes" and _is_booting_on(before.get(name), after.get(name)):
                later.append(said)
            else:
                yield said
    yield from later


def _is_booting_on(before: str | None, after: str | None) -> bool:
    """Whether a node that booted has only got further with it, or is ready."""
    if before is None or after is None:
        return False
    was, now = before.split(" "), after.split(" ")
    is_as_it_was = was[:1] + was[2:] == now[:1] + now[2:]
    came = [*was[1:2], *now[1:2]]
    return is_as_it_was and len(came) == 2 and came[0] in BOOTING and came[1] in (*BOOTING, "Ready")


def _instead_of_json(text: bytes, problem: Exception) -> str:
    """What a text is that is no JSON, in words."""
    if not text.strip():
        return "an empty file"
    if isinstance(problem, UnicodeDecodeError):
        return "bytes that are no UTF-8 text"
    if not isinstance(problem, json.JSONDecodeError):
        return "more digits or brackets than a plan can have"
    is_cut_off = problem.pos >= len(problem.doc.rstrip()) or "Unterminated" in problem.msg
    said = "JSON that was cut off" if is_cut_off else "something else"
    return f"{said} at line {problem.lineno}, column {problem.colno}"


def _setting(name: str, before: str | None, after: str | None) -> str:
    return f"the configuration has changed ({name})"


def _limit(name: str, before: str | None, after: str | None) -> str:
    return f"the limit {name} was {before or 'not there'} and is {after or 'not there'}"


def _node(name: str, before: str | None, after: str | None) -> str:
    if after is None:
        return f"node {name} is gone"
    if before is None:
        return f"node {name} is new"
    if before.split(" ")[0] != after.split(" ")[0]:
        return f"node {name} is another one of that name"
    was, now = _state_of(before), _state_of(after)
    labels = ("in state", "with target state")
    pairs = list(zip(labels, was[:2], now[:2], strict=True))
    before = " ".join(f"{label} {old}" for label, old, new in pairs if old != new)
    after = " ".join(f"{label} {new}" for label, old, new in pairs if old != new)
    said = [f"is {after} now, and was {before}"] if before else []
    if was[2] != now[2]:
        said.append("is to be kept alive now" if now[2] else "is not to be kept alive any more")
    return f"node {name} {', and '.join(said)}"


def _state_of(kept: str) -> tuple[str, str, bool]:
    """State, target state, and whether it is to be kept alive, of what `Inputs` has of a node."""
    words = kept.split(" ")[1:]
    is_kept = words[-1:] == ["True"]
    state, *target = words[: len(words) - is_kept] or ["unknown"]
    return state, " ".join(target) or "unknown", is_kept


def _job(name: str, before: str | None, after: str | None) -> str:
    if after is None:
        return f"job {name} has ended"
    return f"job {name} is new" if before is None else f"job {name} wants {after} now"


def _host(name: str, before: str | None, after: str | None) -> str:
    if after is None:
        return f"the scheduler has no host {name} any more"
    if before is None:
        return f"the scheduler has host {name} now"
    return f"host {name} has {after} now, and had {before}"


_KINDS = {
    "configuration": _setting,
    "limits": _limit,
    "nodes": _node,
    "jobs": _job,
    "hosts": _host,
}


class Bounds:
    """What a plan allows, for the gate: new nodes by bucket and number, other nodes by their id.

    It is asked more than once about a node, and answers the same each time.
    """

    def __init__(self, plan: PassPlan) -> None:
        self._left = Counter[str]()
        self._granted: set[object] = set()
        self._starting: set[str | None] = set()
        self._going: set[str | None] = set()
        for change in plan.changes:
            if change.action == "create":
                self._left[change.bucket] += change.count
            elif change.action == "start":
                self._starting.add(change.node_id)
            elif change.action in _GOING:
                self._going.add(change.node_id)

    def objection(self, node: Node, command: Command) -> str:
        """What is in the way of a command; nothing where it is planned."""
        if command == "create":
            return "" if self._may_come(node) else "is not among the nodes that were planned"
        node_id = node.delayed_node_id.node_id
        planned = self._starting if command == "start" else self._going
        return "" if node_id in planned else f"is not planned to {command}"

    def _may_come(self, node: Node) -> bool:
        key, bucket = key_of(node), bucket_of(node)
        if key in self._granted:
            return True
        if self._left[bucket] < 1:
            return False
        self._left[bucket] -= 1
        self._granted.add(key)
        return True
