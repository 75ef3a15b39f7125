"""What a pass would change, as rows: one for each command in the order in which it would be given,
with its reason, what would spare a node, and by how much the price of an hour changes.

A row is plain data. What is known of a node is noted when the command is given, because a node that
was created or deleted looks different after that. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple, Protocol

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.config.clusters import split_name
from hpc.autoscale.errors import counted
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.pricing import is_paid_for, node_price
from hpc.autoscale.onpremises.listing import is_on_premises
from hpc.autoscale.requestsets.dynamic import array_of, bucket_of

Action = Literal[
    "create", "start", "join", "undrain", "drain", "delete", "start_worker", "stop_worker"
]
"""What is done: with nodes of the cluster, with their hosts in the scheduler, or with workers of
hosts on premises."""

GROWING: tuple[Action, ...] = ("create", "start", "start_worker")
SHRINKING: tuple[Action, ...] = ("delete", "stop_worker")

NAMED_JOBS = 3
"""How many jobs the reason of a row names before it counts them."""

MARGINAL_DOLLARS = 6
"""Decimals of a price of an hour."""


@dataclass(frozen=True)
class PlannedChange:
    """One row: `count` nodes of a bucket, or the one that `node` names.

    `bucket` is nodearray, VM size and placement group with slashes between them; for a host on
    premises, or of the scheduler alone, it is empty. `code` says in one word why, `reason` in a
    sentence. `idle_seconds`: for how long the node has had no work, where it goes because of that.
    `spared_by`: what would keep the node. `price_per_hour`: by how many dollars the price of an
    hour changes; None where a price is not known. `jobs`: for which nodes come.
    """

    action: Action
    node: str | None
    node_id: str | None
    bucket: str
    count: int
    code: str
    reason: str
    idle_seconds: float | None = None
    spared_by: str = ""
    price_per_hour: float | None = 0.0
    jobs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        return {**asdict(self), "jobs": list(self.jobs)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> PlannedChange:
        """The row of a JSON form. TypeError, KeyError or ValueError for what is none."""
        found = cls(**{**saved, "jobs": tuple(saved["jobs"])})
        texts = (found.action, found.bucket, found.code, found.reason)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("expected texts")
        if isinstance(found.count, bool) or not isinstance(found.count, int) or found.count < 1:
            raise ValueError(f"expected a count of 1 or more, found {found.count!r}")
        return found


@dataclass(frozen=True)
class Seen:
    """A node as it was when a command was given for it.

    `key`: what tells it from others (`guards.key_of`). `price`: dollars per hour, of which
    `is_paid` says whether they are paid by now.
    """

    key: object
    name: str
    node_id: str | None
    bucket: str
    nodearray: str
    price: float | None
    is_paid: bool
    jobs: tuple[str, ...]
    state: str = "Ready"

    @classmethod
    def of(cls, node: Node, key: object) -> Seen:
        """What there is to know of a node."""
        ours = not is_on_premises(node) and node.managed
        return cls(
            key,
            str(node.name),
            node.delayed_node_id.node_id,
            bucket_of(node) if ours else "",
            array_of(node),
            node_price(node),
            is_paid_for(node),
            tuple(sorted((str(job) for job in node.assignments), key=ht.name_order)),
            str(node.state),
        )


@dataclass(frozen=True)
class Cost:
    """What nodes cost per hour, in dollars, and how many are in no figure, because the price of
    their VM size is not known."""

    per_hour: float = 0.0
    unpriced: int = 0

    def __str__(self) -> str:
        more = f" and {counted(self.unpriced, 'node')} of unknown price" if self.unpriced else ""
        return f"${self.per_hour:,.2f}/h{more}"

    @classmethod
    def of(cls, prices: Iterable[float | None]) -> Cost:
        """The sum."""
        listed = list(prices)
        known = [price for price in listed if price is not None]
        return cls(round(sum(known), MARGINAL_DOLLARS), len(listed) - len(known))

    def changed_by(self, rows: Iterable[PlannedChange]) -> Cost:
        """What they cost after some changes."""
        per_hour, unpriced = self.per_hour, self.unpriced
        for row in rows:
            if row.price_per_hour is not None:
                per_hour += row.price_per_hour
            else:
                unpriced += -row.count if row.action in SHRINKING else row.count
        # all that there was may go: what is rounded up to nothing is no -0.00
        return Cost(round(per_hour, MARGINAL_DOLLARS) + 0.0, max(0, unpriced))

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        return asdict(self)


Command = tuple[Action, Sequence[Seen]]


class Said(NamedTuple):
    """Why something is done with a node: in one word and in a sentence, for how many seconds it has
    had no work, where it goes because of that, and what would spare it."""

    code: str
    text: str
    idle_seconds: float | None = None
    spared_by: str = ""


class Reasons(Protocol):
    """Knows why nodes are joined, drained and deleted."""

    def of(self, action: Action, node: Seen) -> Said:
        """Why something is done with a node."""


def without_moot(changes: Sequence[PlannedChange]) -> list[PlannedChange]:
    """The rows without what goes without saying: that a node which is deleted, or a host of which
    the worker is stopped, is drained before that, and joined where it was not."""
    gone = {(row.node, row.node_id) for row in changes if row.action in SHRINKING}
    passing = ("join", "drain")
    return [r for r in changes if r.action not in passing or (r.node, r.node_id) not in gone]


def in_turn(commands: Iterable[Command], clusters: Sequence[str]) -> list[Command]:
    """Commands, those that follow each other and are alike in the order of their clusters. Several
    clusters are asked side by side, so that such commands come in any order."""

    def turn(command: Command) -> int:
        cluster = split_name(command[1][0].name)[0]
        return clusters.index(cluster) if cluster in clusters else len(clusters)

    alike = groupby(commands, key=lambda command: command[0])
    return [command for _, some in alike for command in sorted(some, key=turn)]


def rows_of(commands: Iterable[Command], reasons: Reasons) -> list[PlannedChange]:
    """The rows of commands."""
    rows: list[PlannedChange] = []
    for action, nodes in commands:
        if action == "create":
            rows += _created(nodes)
        else:
            rows += [_row(action, node, reasons) for node in nodes]
    return rows


def _created(nodes: Sequence[Seen]) -> list[PlannedChange]:
    alike: dict[str, list[Seen]] = {}
    for node in nodes:
        alike.setdefault(node.bucket, []).append(node)
    return [_come("create", bucket, some, None) for bucket, some in alike.items()]


def _come(action: Action, bucket: str, nodes: Sequence[Seen], name: str | None) -> PlannedChange:
    jobs = tuple(dict.fromkeys(job for node in nodes for job in node.jobs))
    cost = Cost.of(node.price for node in nodes)
    return PlannedChange(
        action,
        name,
        nodes[0].node_id if name else None,
        bucket,
        len(nodes),
        "ForJobs" if jobs else "Wanted",
        _for_jobs(jobs),
        price_per_hour=None if cost.unpriced else cost.per_hour,
        jobs=jobs,
    )


def _for_jobs(jobs: Sequence[str]) -> str:
    if not jobs:
        return "is wanted, if for no job"
    more = f" and {counted(len(jobs) - NAMED_JOBS, 'more job')}" if len(jobs) > NAMED_JOBS else ""
    noun = "job" if len(jobs) == 1 else "jobs"
    return f"for {noun} {', '.join(jobs[:NAMED_JOBS])}{more}"


def _row(action: Action, node: Seen, reasons: Reasons) -> PlannedChange:
    if action in ("start", "start_worker"):
        return _come(action, node.bucket, [node], node.name)
    said = reasons.of(action, node)
    price: float | None = 0.0
    if action in SHRINKING and node.is_paid:
        price = None if node.price is None else -node.price
    return PlannedChange(
        *(action, node.name, node.node_id, node.bucket, 1, said.code, said.text),
        idle_seconds=said.idle_seconds,
        spared_by=said.spared_by,
        price_per_hour=price,
    )
