"""The states of a node between work and its end: active, draining, drained, deleting.

`TRANSITIONS` are all changes there are, each with who causes it and what has to be known. A state
is kept in the file of the node history, so that the next pass, also of another process, goes on
where one was cut short. A node of which nothing is kept is active. Only `sqlite` reads and writes
the table; the loop (`autoscaler/leaving`) makes the changes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class DrainState(StrEnum):
    """How far a node is on its way out."""

    ACTIVE = "active"
    DRAINING = "draining"
    DRAINED = "drained"
    DELETING = "deleting"
    GONE = "gone"


class Drain(NamedTuple):
    """A node that is not active any more: its state, why it goes, and since when it is in that
    state, in unix seconds."""

    state: DrainState
    why: str
    since: float


class Transition(NamedTuple):
    """A change of state: who causes it, on what occasion, and what has to be known before."""

    before: tuple[DrainState, ...]
    after: DrainState
    cause: str
    evidence: str


_A, _G, _D, _X, _GONE = DrainState

TRANSITIONS = (
    Transition(
        (_A,),
        _G,
        "the loop: the node is idle for `idle_timeout`, its gang was given up, it boots for"
        " workers whom nobody wants any more, or it has itself asked to stop",
        "the guards of `drain`; written down before the scheduler is told (`handle_draining`)",
    ),
    Transition(
        (_G, _D, _X),
        _G,
        "the loop: the node is still there, without work, in a later pass",
        "the guards of `drain` anew",
    ),
    Transition(
        (_G,),
        _D,
        "the scheduler: `handle_draining` returned the node",
        "the node takes no new work and has none left",
    ),
    Transition(
        (_D,),
        _X,
        "the loop: CycleCloud is told to shut the node down",
        "the guards of `delete`, with answers of the scheduler and of CycleCloud newer than"
        " the drain; written down before the command",
    ),
    Transition(
        (_A, _G, _D, _X),
        _X,
        "the loop: the node has failed, was not ready in time, or the scheduler wants rid of it",
        "the same; nothing is drained, because the driver has let the node go already",
    ),
    Transition(
        (_G, _D, _X),
        _A,
        "demand: work was placed on the node, or it is to be kept alive; before nodes are created",
        "it is listed as Started, no removal of it is without an answer, and the driver let it in"
        " again (`handle_undraining`)",
    ),
    Transition(
        (_G, _D, _X),
        _GONE,
        "CycleCloud",
        "a listing that adds up does not have the node as Started any more",
    ),
    Transition(
        (_D,),
        _GONE,
        "the loop: the worker of the host on premises was stopped",
        "the guards of `drain` anew, with an answer of the scheduler that is newer than the drain",
    ),
)
"""All changes of state."""

_ALLOWED = frozenset((before, each.after) for each in TRANSITIONS for before in each.before)


def may_become(before: DrainState, after: DrainState) -> bool:
    """Whether there is such a change."""
    return (before, after) in _ALLOWED


TABLE = (
    "CREATE TABLE IF NOT EXISTS drains (node_id TEXT PRIMARY KEY, state TEXT, why TEXT, since REAL)"
)

_STATES = {state.value: state for state in (_G, _D, _X)}


def read_drains(conn: sqlite3.Connection) -> dict[str, Drain]:
    """The nodes that are not active, by NodeId. What makes no sense is left out."""
    rows = conn.execute("SELECT node_id, state, why, since FROM drains")
    return {
        str(node_id): Drain(_STATES[state], str(why), float(since))
        for node_id, state, why, since in rows
        if state in _STATES and isinstance(since, int | float)
    }


def write_drains(conn: sqlite3.Connection, changes: Mapping[str, Drain | None]) -> None:
    """Keep states; None for a node that is active, or gone."""
    conn.executemany(
        "DELETE FROM drains WHERE node_id = ?", [(i,) for i, to in changes.items() if to is None]
    )
    conn.executemany(
        "INSERT OR REPLACE INTO drains VALUES (?, ?, ?, ?)",
        [(i, to.state.value, to.why, to.since) for i, to in changes.items() if to is not None],
    )
