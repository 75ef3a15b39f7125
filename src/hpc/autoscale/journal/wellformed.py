"""What the values of a record must be for those who read journals.

Journals come from other people, and may have been edited by hand. A record is held against this
when it is read, so that whoever shows it, adds it up or decides it again need not doubt what is in
it. Only what readers rely on is asked for; what else is in a record is left alone, and what is null
is as if it were not there. Nothing here knows where a record is. It is no JSON Schema, which
`config.violations` would read: a journal has tens of thousands of rows, and that takes seven times
as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from hpc.autoscale.journal.errors import JournalError
from hpc.autoscale.plaintext import beginning

Check = Callable[[Any, str], None]
"""Raises JournalError for a value that cannot be; the second argument is where it is."""

_MOST = 2**53
"""No time and no price in a record is as large."""
_MOST_COUNTED = 10**300
"""No count is; somebody may want more of something than there can be, and counts are whole."""


def check_config(config: Mapping[str, Any]) -> None:
    """JournalError where a value of a configuration cannot be."""
    _CONFIG(config, "config")


def check_rest(document: Mapping[str, Any]) -> None:
    """JournalError where a value of a record cannot be, apart from its configuration and lists."""
    _REST(document, "")


def check_rows(name: str, change: Mapping[str, Any]) -> None:
    """JournalError where a row that comes with a change cannot be one of the list of this name."""
    check = _ROWS.get(name)
    rows: Mapping[object, Any] = dict(change.get("all") or change.get("set") or ())
    for key, row in rows.items():
        _text(key, "a key")
        if check is not None:
            check(row, str(key))


def _a(kind: type | tuple[type, ...], said: str) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, kind):
            _refuse(where, said, value)

    return check


def _refuse(where: str, expected: str, found: object) -> None:
    raise JournalError(f"{where}: expected {expected}, found {beginning(repr(found))}")


_text, _list = _a(str, "a text"), _a(list, "a list")


def _number(value: Any, where: str) -> None:
    # neither NaN nor what is infinite is less than anything
    if not isinstance(value, int | float) or not abs(value) < _MOST:
        _refuse(where, "a number", value)


def _whole(value: Any, where: str) -> None:
    if not isinstance(value, int) or not abs(value) < _MOST_COUNTED:
        _refuse(where, "a whole number", value)


def _count(value: Any, where: str) -> None:
    if not isinstance(value, int) or not 0 <= value < _MOST_COUNTED:
        _refuse(where, "a whole number of 0 or more", value)


def _each(check: Check) -> Check:
    """A list of such values."""

    def check_list(value: Any, where: str) -> None:
        _list(value, where)
        for index, item in enumerate(value):
            check(item, f"{where}[{index}]")

    return check_list


def _by_name(check: Check) -> Check:
    """An object of such values."""

    def check_object(value: Any, where: str) -> None:
        _object(value, where)
        for name, item in value.items():
            check(item, f"{where}.{name}")

    return check_object


_object = _a(dict, "an object")


def _fields(must: tuple[str, ...] = (), **checks: Check) -> Check:
    """An object in which such fields, where they are there, are such values, and some must be
    there. An underscore stands for a hyphen too."""
    names = [*checks.items()]
    names += [(name.replace("_", "-"), check) for name, check in names if "_" in name]

    def check_object(value: Any, where: str) -> None:
        _object(value, where)
        inside = f"{where}." if where else ""
        for name in must:
            if name not in value:
                raise JournalError(f"{where}: it has no {name}")
        for name, check in names:
            if (found := value.get(name)) is not None:
                check(found, f"{inside}{name}")

    return check_object


_texts, _numbers, _objects = _each(_text), _each(_number), _each(_object)


def _clusters(value: Any, where: str) -> None:
    """Several clusters, by name or in a list."""
    if not isinstance(value, dict | list):
        _refuse(where, "an object or a list", value)
    if isinstance(value, list):
        _objects(value, where)


_ASKED = {
    "status": "asked",
    "hook": "name",
    "workers": "doing",
    "command": "call",
    "listing": "id",
}
"""What must be said of a question to the doors of a pass, by the door."""


def _call(value: Any, where: str) -> None:
    _CALL(value, where)
    must = _ASKED.get(value["door"])
    asked = {"id": value.get("id"), **({must: value.get(must, {})} if must else {})}
    for key, said in asked.items():
        if isinstance(said, list | dict):
            _refuse(f"{where}.{key}", "a text, a number, true, false or null", said)


def _change(name: str) -> Check:
    """A change of the list of this name; what is no change at all is refused where it is made."""

    def check(value: Any, where: str) -> None:
        _object(value, where)
        try:
            with suppress(TypeError, ValueError):
                check_rows(name, value)
        except JournalError as error:
            raise JournalError(f"{where}: {error}") from None

    return check


def _sender(value: Any, where: str) -> None:
    if not isinstance(value, list) or not 3 <= len(value) <= 4:
        _refuse(where, "a host, a process, when it began, and its state", value)
    for item in value:
        if isinstance(item, list | dict):
            _refuse(where, "texts and numbers", value)


_ERROR = _fields(("type", "text", "args", "known"), type=_text, args=_list, known=_object)
_CALL = _fields(
    ("door",),
    door=_text,
    error=_ERROR,
    answer=_object,
    status=_change("status"),
    nodes=_change("nodes"),
    jobs=_change("jobs"),
    hosts=_change("hosts"),
    away=_object,
    never_read=_list,
    ran=_each(_list),
)
_JOB_ASIDE = _fields(job=_text, reason=_text)
_REFUSED = _fields(
    ("node", "command", "code", "reason"), node=_text, command=_text, code=_text, reason=_text
)
_DECIDED = _fields(
    action=_text, bucket=_text, count=_count, price_per_hour=_number, jobs=_texts, nodes=_texts
)
_DID = _fields(
    duration=_number,
    jobs=_count,
    price_per_hour=_number,
    next_pass_in=_number,
    loop=_object,
    steps=_by_name(_number),
    errors=_list,
    notes=_list,
    refused=_each(_REFUSED),
    set_aside=_each(_JOB_ASIDE),
    ended_by=_text,
)
_DOORS = _fields(
    calls=_each(_call),
    clock=_numbers,
    clock_beside=_numbers,
    ids=_texts,
    state=_by_name(_text),
    reported=_texts,
    interval=_number,
    senders=_each(_sender),
    here=_sender,
    wanted=_objects,
    searches=_list,
    telling=_list,
    cluster=_object,
    validated=_fields(gone=_list, failed=_list),
    driver=_text,
    raised=_fields(("hook", "error"), hook=_text, error=_object),
)
_CONFIG = _fields(clusters=_clusters, autoscale=_object, on_premises=_objects)
_REST = _fields(decided=_each(_DECIDED), did=_DID, doors=_DOORS)

_BUCKET = _fields(definition=_object)
_ARRAY = _fields(nodearray=_object, buckets=_each(_BUCKET), parts=_object)


def _status(value: Any, where: str) -> None:
    """A row of the status: figures of a cluster, a nodearray or a bucket."""
    _ARRAY(value, where)
    _BUCKET(value, where)


_ROWS: dict[str, Check] = {
    "status": _status,
    "nodes": _object,
    "jobs": _fields(
        name=_text,
        kind=_text,
        iterations=_whole,
        iterations_remaining=_whole,
        node_count=_whole,
        constraints=_list,
        executing_hostnames=_list,
        foreign_constraints=_texts,
    ),
    "hosts": _fields(
        ("hostname",),
        hostname=_text,
        resources=_object,
        available=_object,
        job_ids=_each(_a((str, int, float), "a text")),
        metadata=_object,
        node_id=_text,
        bucket_id=_text,
        state=_text,
        kind=_list,
    ),
    "unsatisfied": _fields(
        ("job", "missing", "unit"),
        job=_text,
        missing=_count,
        unit=_text,
        reason=_text,
        limit=_text,
    ),
}
