"""Passes of a journal as people read them: a row for each, and one in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from hpc.autoscale.clock import in_utc
from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.noted import causes_noted, nearest_noted
from hpc.autoscale.explaining.words import how_jobs_wait
from hpc.autoscale.journal.changes import given
from hpc.autoscale.journal.records import READ, PassRecord, as_written
from hpc.autoscale.plaintext import shorten

COLUMNS = ("pass", "at", "nodes", "jobs", "waiting", "create", "join", "drain", "delete", "said")
_SHOWN_AT_MOST = 5
_NAMED = 3


def rows(records: Iterable[PassRecord], before: PassRecord | None = None) -> list[list[Any]]:
    """What there is to say of passes in their order, a line each, by `COLUMNS`. `before`: the one
    before the first of them. Of the nodes that joined, those count that had not joined in the pass
    before: a loop hands all over in each."""
    found = []
    for record in records:
        found.append(_row(record, len(_joined(record, before))))
        before = record
    return found


def _joined(record: PassRecord, before: PassRecord | None) -> list[str]:
    """The nodes that joined, and had not in the pass before."""
    known = set(before.names("joined") if before else ())
    return [name for name in dict.fromkeys(record.names("joined")) if name not in known]


def _row(record: PassRecord, joined: int) -> list[Any]:
    return [
        record.number,
        in_utc(record.at),
        "?" if "nodes" in record.unread else len(record.nodes),
        "?" if "jobs" in record.unread else record.did.get("jobs", len(record.jobs)),
        "?" if "jobs" in record.unread else _waiting(record),
        _sum(record, "create", "start"),
        joined,
        _sum(record, "drain"),
        _sum(record, "delete"),
        _said(record.did),
    ]


def _waiting(record: PassRecord) -> int:
    return len(record.did.get("unsatisfied") or ()) + len(record.set_aside)


def _sum(record: PassRecord, *actions: str) -> int:
    return sum(int(d.get("count", 1)) for d in record.decided if d.get("action") in actions)


def _said(did: Mapping[str, Any]) -> str:
    """What is wrong with a pass, in a few words."""
    if did.get("ended_by"):
        return "failed"
    parts = [
        counted(len(did[key]), noun)
        for key, noun in (("errors", "error"), ("notes", "note"))
        if did.get(key)
    ]
    return ", ".join(parts)


def to_json(record: PassRecord) -> dict[str, Any]:
    """All that is known of a pass, without what only a replay needs."""
    found = asdict(record)
    del found["doors"]
    return found


def in_words(record: PassRecord, before: PassRecord | None = None) -> list[str]:
    """A pass, line by line. `before`: the pass before it, whose nodes that joined are left out."""
    by = record.by
    took = record.did.get("duration")
    seconds = f", {took:.1f} s" if isinstance(took, int | float) else ""
    said = [
        f"pass {record.number} of {in_utc(record.at)}{seconds}",
        f"by {by.get('program', 'unknown')}, driver {by.get('driver', 'unknown')},"
        f" process {by.get('pid', 'unknown')} on {by.get('host', 'unknown')}",
        "read: " + ", ".join(_read(record)),
        "decided:" if record.decided else "decided: nothing",
    ]
    said += _some(_decision(each) for each in record.decided)
    joined = _joined(record, before)
    if joined:
        said.append(f"joined: {counted(len(joined), 'node')} ({shorten(joined)})")
    if record.did.get("ended_by"):
        said.append(f"ended by: {record.did['ended_by']}")
    waiting = causes_noted(record.did.get("unsatisfied") or (), record.set_aside)
    if waiting:
        said.append("waiting:")
        said += _some(
            f"  {how_jobs_wait(of.jobs, of.names[:_NAMED], of.cause.is_never, of.cause.text)}"
            for of in waiting
        )
    for key in ("errors", "notes"):
        if record.did.get(key):
            said.append(f"{key}:")
            said += _some(f"  {each}" for each in record.did[key])
    refused = record.did.get("refused") or ()
    if refused:
        said.append("refused:")
        said += _some(f"  {r['command']} {r['node']}: {r['code']}, {r['reason']}" for r in refused)
    return said


def _read(record: PassRecord) -> Iterable[str]:
    """What a pass has read, and what it could not."""
    for name in ("nodes", "jobs", "hosts"):
        if name in record.unread:
            yield f"{name} unknown"
        else:
            yield counted(len(getattr(record, name)), name.removesuffix("s"))


def differences(before: PassRecord, after: PassRecord) -> list[str]:
    """What was another one in a later pass: configuration, what was read, and what was decided."""
    said = [
        f"pass {before.number} of {in_utc(before.at)}, pass {after.number} of {in_utc(after.at)}"
    ]
    for key in sorted({**before.config, **after.config}):
        was, now = before.config.get(key), after.config.get(key)
        if was != now:
            said.append(f"config {key}: {_short(was)} -> {_short(now)}")
    old, new = as_written(before).lists, as_written(after).lists
    unknown = {*before.unread, *after.unread}
    if "jobs" in unknown:
        unknown.add("unsatisfied")
    for name in (*READ, "unsatisfied"):
        if name in unknown:
            continue
        was_rows = dict(zip(old[name].keys, old[name].values, strict=True))
        rows = dict(zip(new[name].keys, new[name].values, strict=True))
        label = {"unsatisfied": "waiting"}.get(name, name)
        said += _some(f"+ {label} {_named(k, rows[k])}" for k in rows if k not in was_rows)
        said += _some(f"- {label} {_named(k, was_rows[k])}" for k in was_rows if k not in rows)
        both = [(k, _plain(was_rows[k]), _plain(rows[k])) for k in rows if k in was_rows]
        said += _some(
            f"~ {label} {_named(k, rows[k])}: {_fields(was, now)}"
            for k, was, now in both
            if was != now
        )
    for when, record in (("then", before), ("later", after)):
        said.append(f"decided {when}:" if record.decided else f"decided {when}: nothing")
        said += _some(map(_decision, record.decided))
    return said


def _plain(row: Any) -> Any:
    """A row as it is compared for people: of one on a job that waits, the reason in words."""
    if not (isinstance(row, Mapping) and {"reason", "limit"} <= row.keys()):
        return row
    why = nearest_noted(row["reason"], row["limit"]).text
    return {**{k: v for k, v in row.items() if k not in ("reason", "limit")}, "why": why}


def _named(key: str, value: Any) -> str:
    """What a row is called: a bucket by its nodearray and VM size, as everywhere else."""
    kind, *names = given(key).split("\x1e")
    if kind == "bucket" and isinstance(value, Mapping):
        size = (value.get("definition") or {}).get("machineType")
        array, bucket_id = names[-2:]  # of several clusters, the name of the nodearray says which
        return f"{kind} {array}/{size or bucket_id}"
    name = value.get("Name") if isinstance(value, Mapping) else None
    return str(name or " ".join(filter(None, (kind, *names))) or "cluster")


def _fields(was: Any, now: Any) -> str:
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return f"{_short(was)} -> {_short(now)}"
    every = {**was, **now}
    different = [k for k in every if was.get(k) != now.get(k)]
    return ", ".join(f"{k} {_short(was.get(k))} -> {_short(now.get(k))}" for k in different)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:40]} … {text[-15:]}"


def _decision(decided: Mapping[str, Any]) -> str:
    signs = {"create": "+", "start": "+", "delete": "-", "start_worker": "+", "stop_worker": "-"}
    action = str(decided.get("action"))
    what = decided.get("node") or counted(int(decided.get("count", 1)), "node")
    price = decided.get("price_per_hour")
    cost = f", ${abs(price):.2f}/h" if price else ""
    why = f" ({decided['reason']})" if decided.get("reason") else ""
    return f"  {signs.get(action, '~')} {action} {what} of {decided.get('bucket')}{cost}{why}"


def _some(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    shown = every[:_SHOWN_AT_MOST]
    if len(every) > len(shown):
        shown.append(f"  … and {len(every) - len(shown)} more")
    return shown
