"""What a journal knows of one pass, and its form in JSON.

A record has what the pass read, what it decided and what it did. How much of that is written, and
where, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale.journal.changes import NO_ROWS, Rows, distinct, given
from hpc.autoscale.redaction import Hiding

NOTHING_TO_HIDE = Hiding()

VERSION = 1
"""The version of the form. A reader refuses what is newer, and reads all that is older."""

GAP = "gap"
"""Among the doors of a record: the pass before it was passed over by whoever has read it, so that
nobody knows what this one remembered."""

READ = ("status", "nodes", "jobs", "hosts")
"""The lists of what a pass reads: the status of the cluster with its limits, its node records, the
jobs of the scheduler, and the nodes as the scheduler has them."""

_DOORS = {
    "status": {"status"},
    "nodes": {"nodes", "as_read"},
    "jobs": {"reading"},
    "hosts": {"reading"},
}
"""By which doors what is read comes in."""

NAMES = (
    *("requested", "created", "started", "deferred", "joined", "booting", "overdue", "missing"),
    *("idle", "drained", "given_back", "undrained", "failed", "spared", "deleted"),
    *("hosts_started", "hosts_stopped"),
)
"""The lists of node names in what a pass did, as in `PassSummary`."""


@dataclass
class PassRecord:
    """A pass. What is not known stays empty.

    - `at`: when it began, in unix seconds
    - `by`: who made it: `program`, `driver`, `host`, `pid`, and `source`, which is `loop` or
      `simulation`
    - `config`: the configuration without secrets
    - `status`: the JSON form of a `ClusterStatus`. Of several clusters it has `parts`, a status by
      the name of each cluster
    - `nodes`: node records, as the server has them
    - `jobs`, `hosts`: JSON forms of jobs and of the scheduler's nodes, as they were read
    - `decided`: the commands in their order, each an object with at least `action` and `nodes`,
      names of nodes
    - `did`: what `PassSummary.fields` says, without counts; `unsatisfied` with the `reason` of
      each; `steps`, the seconds that each step took; and `ended_by`, the error that ended the pass,
      where one did
    - `doors`: what else is needed to decide the same again (`recording`)
    - `number`: the how-manieth record of the journal it is, from 1
    """

    at: float = 0.0
    by: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    nodes: Sequence[Mapping[str, Any]] = ()
    jobs: Sequence[Mapping[str, Any]] = ()
    hosts: Sequence[Mapping[str, Any]] = ()
    decided: Sequence[Mapping[str, Any]] = ()
    did: Mapping[str, Any] = field(default_factory=dict)
    doors: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0

    @property
    def price_per_hour(self) -> float | None:
        """US dollars for the new nodes; None where that is not known."""
        found = self.did.get("price_per_hour")
        return None if found is None else float(found)

    @property
    def set_aside(self) -> list[Mapping[str, Any]]:
        """The jobs that wait because they could not be looked at: each `job` with its `reason`."""
        aside = self.did.get("set_aside") or ()
        if not aside:
            return []
        running = {job.get("name") for job in self.jobs if job.get("executing-hostnames")}
        return [each for each in aside if each.get("job") not in running]

    @property
    def unread(self) -> list[str]:
        """What of `READ` a pass that was ended by an error could not read; there it has what was
        known before."""
        if not self.did.get("ended_by") or "calls" not in self.doors:
            return []
        read = {call.get("door") for call in self.doors["calls"] if "error" not in call}
        return [name for name in READ if _DOORS[name].isdisjoint(read)]

    def names(self, what: str) -> list[str]:
        """Names of nodes of which the pass did something, by the names of `PassSummary`."""
        return list(self.did.get(what) or ())


@dataclass
class Written:
    """A pass as a writer takes it: lists as rows. `hiding` takes secrets that are known out of
    texts."""

    at: float
    by: Mapping[str, Any]
    config: Mapping[str, Any]
    lists: dict[str, Rows]
    decided: Sequence[Mapping[str, Any]]
    did: Mapping[str, Any]
    doors: Mapping[str, Any]
    hiding: Hiding = NOTHING_TO_HIDE


def as_written(record: PassRecord) -> Written:
    """A pass as a writer takes it: lists as rows."""
    did = dict(record.did)
    lists = {
        "status": status_rows(record.status),
        "nodes": Rows.of(record.nodes, key_of_node),
        "jobs": Rows.of(record.jobs, lambda job: job.get("name")),
        "hosts": Rows.of(record.hosts, lambda host: host.get("hostname")),
        "unsatisfied": Rows.of(did.pop("unsatisfied", ()), lambda job: job.get("job")),
    }
    for name in NAMES:
        lists[name] = Rows.of_texts(map(str, did.pop(name, ())))
    doors = dict(record.doors)
    for name, rows in doors.pop("lists", {}).items():
        is_by_key = isinstance(rows, Mapping)
        lists[name] = Rows(list(rows), list(rows.values())) if is_by_key else Rows.of_texts(rows)
    return Written(record.at, record.by, record.config, lists, record.decided, did, doors)


def from_lists(
    document: Mapping[str, Any],
    lists: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Any],
    number: int,
) -> PassRecord:
    """A record again: of what is written of it, and of its lists. `known`: `by` and `config` as
    they were last written."""
    did = dict(document.get("did") or {})
    for name in NAMES:
        did[name] = [given(key) for key in lists[name]]
    did["unsatisfied"] = list(lists["unsatisfied"].values())
    return PassRecord(
        at=float(document["at"]),
        by=known["by"],
        config=known["config"],
        status=status_of(lists["status"]),
        nodes=list(lists["nodes"].values()),
        jobs=list(lists["jobs"].values()),
        hosts=list(lists["hosts"].values()),
        decided=list(document.get("decided") or ()),
        did=did,
        doors={**(document.get("doors") or {}), "lists": _others(lists)},
        number=number,
    )


def _others(lists: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The lists that only a replay needs."""
    return {
        name: lists[name] if name == "resources" else [given(key) for key in lists[name]]
        for name in lists
        if name not in LISTS
    }


LISTS = (*READ, "unsatisfied", *NAMES)
"""All lists of a record."""

EMPTY = dict.fromkeys(LISTS, NO_ROWS)


def key_of_node(record: Mapping[str, Any]) -> object:
    """What tells node records apart."""
    return record.get("NodeId") or record.get("Name")


# -- the status as rows: its own figures, then nodearray by nodearray, each followed by its buckets


def status_rows(status: Mapping[str, Any]) -> Rows:
    """A status, so that a change of one bucket is a change of one row."""
    rows: list[tuple[str, Any]] = []
    if status:
        own = {key: value for key, value in status.items() if key not in ("parts", "nodearrays")}
        rows.append(("", own))
        rows.extend(_array_rows("", status.get("nodearrays") or ()))
    for name, part in (status.get("parts") or {}).items():
        own = {key: value for key, value in part.items() if key != "nodearrays"}
        rows.append((f"part\x1e{name}", own))
        rows.extend(_array_rows(name, part.get("nodearrays") or ()))
    return Rows(distinct([key for key, _ in rows]), [value for _, value in rows])


def _array_rows(part: str, arrays: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, Any]]:
    for array in arrays:
        name = array.get("name")
        yield f"array\x1e{part}\x1e{name}", {k: v for k, v in array.items() if k != "buckets"}
        for bucket in array.get("buckets") or ():
            yield f"bucket\x1e{part}\x1e{name}\x1e{bucket.get('bucketId')}", bucket


def status_of(rows: Mapping[str, Any]) -> dict[str, Any]:
    """The status of which these are the rows."""
    status: dict[str, Any] = {}
    part: dict[str, Any] = status
    for key, value in rows.items():
        kind, _, rest = given(key).partition("\x1e")
        if kind == "":
            status.update(value, nodearrays=[])
        elif kind == "part":
            part = status.setdefault("parts", {})[rest] = {**value, "nodearrays": []}
        elif kind == "array":
            part["nodearrays"].append({**value, "buckets": []})
        else:
            part["nodearrays"][-1]["buckets"].append(value)
    return status
