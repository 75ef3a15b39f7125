"""The checks that keep the autoscaler from harm, and what it is without each of them.

A row of `BREAKS` takes one check away. On some day of a seed an invariant must then fail, or nobody
would notice that the check is gone; `test_guards` says so.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.autoscaler import commanding, passes
from hpc.autoscale.backoff import law
from hpc.autoscale.backoff.holds import Holds
from hpc.autoscale.backoff.law import Backoff
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.ccbindings.replies import Reply
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.gangs.gathering import Gangs, new_gangs
from hpc.autoscale.node import operations
from hpc.autoscale.node.nodehistory import NodeHistoryResult, SQLiteNodeHistory, watching
from hpc.autoscale.node.nodemanager import manager
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.packing.limits import NO_LIMIT, Limit
from hpc.autoscale.testing.guards import without_guard
from hpc.autoscale.util import NullSingletonLock
from simulation.day import Report, run_day
from simulation.invariants import MACHINES, PLAN
from simulation.scheduler import SimDriver
from simulation.script import draw

Off = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Break:
    """A check that is taken away: how, and a seed on which that does harm, where these kinds of
    things go wrong and the driver is so careful. `invariant`: the one that fails then, where the
    check is there for that one."""

    off: Off
    seed: int
    kinds: Collection[str]
    careful: bool | None = None
    invariant: str | None = None


def _instead(owner: Any, name: str, function: Any) -> Off:
    return lambda: mock.patch.object(owner, name, function)


def _guard(*names: str) -> Off:
    @contextmanager
    def off() -> Iterator[None]:
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(without_guard(name))
            yield

    return off


def _forget_idle_times(self: SQLiteNodeHistory, for_at_least: float = 300) -> NodeHistoryResult:
    """As if no node had ever been needed."""
    return [(ht.NodeId(key), ht.Hostname(r.hostname or ""), 0.0) for key, r in self.read().items()]


def _no_deadline(config: Mapping[str, Any], interval: float | None = None) -> Gangs:
    """As if the nodes of a gang could take for ever to come."""
    return new_gangs({**config, "autoscale": {"gang_deadline": 1e9}}, interval)


def _all_or_nothing(known: Backoff, now: float, on_their_way: int) -> int | None:
    """As if all was well as soon as a rest is over."""
    return 0 if known.level and now < known.until else None


_send = Session.send


def _with_another_id(
    self: Session, method: str, path: str, query: Any = None, body: str | None = None
) -> Reply:
    """As if each try of a create had an id of its own."""
    if path.endswith("/create"):
        body = json.dumps({**json.loads(body or "{}"), "requestId": uuid.uuid4().hex})
    return _send(self, method, path, query, body)


_set_up = Limit.opened


def _no_limit(self: Limit) -> None:
    """As if there were room for any number of nodes."""
    self.max_nodes = self.max_cores = NO_LIMIT
    _set_up(self)


BREAKS: dict[str, Break] = {
    # the guards of the library
    # when the scheduler does not answer, the loop does not ask the cluster either, and each of two
    # guards is enough
    "scheduler-asked": Break(_guard("scheduler-asked", "cluster-asked"), 1, ("goes_silent",)),
    "cluster-asked": Break(_guard("cluster-asked"), 1, ("half_nodes", "no_nodes")),
    "no-jobs": Break(_guard("no-jobs"), 1, ("rush",), False),
    "not-kept": Break(_guard("not-kept"), 1, ("kept_alive",)),
    "not-both": Break(_guard("not-both"), 3, ("throttled",)),
    "cluster-answers": Break(_guard("cluster-answers"), 1, ("person",)),
    "cluster-wanted": Break(_guard("cluster-wanted"), 1, ("cluster_ends",)),
    "managed": Break(_guard("managed"), 1, ("person",)),
    "created": Break(_guard("created"), 1, ("person",)),
    "not-required": Break(_guard("not-required"), 1, ("person",)),
    "max-new": Break(_guard("max-new"), 1, ("delay",)),
    "max-deletes": Break(_guard("max-deletes"), 4, ("delay",)),
    "max-share": Break(_guard("max-share"), 2, ("delay",)),
    "answer-complete": Break(_guard("answer-complete"), 2, ("half_hosts", "nothing_read"), False),
    "host-reported": Break(
        _guard("host-reported"), 6, ("begins_anew", "delay", "sent_twice"), False
    ),
    "still-so": Break(_guard("still-so"), 1, ("boot_hangs", "wakes_up")),
    "idle-passes": Break(_guard("idle-passes"), 1, ("delay",)),
    "min-lifetime": Break(_guard("min-lifetime"), 1, ("delay",)),
    # what stands elsewhere
    "time that nobody watched is not idle time": Break(
        _instead(
            watching,
            "gap_until",
            lambda times, now, rhythm: watching.Gap(now - max(times, default=now), 0.0, True),
        ),
        4,
        ("clock_ahead", "delay", "lost_request", "cut_off", "page"),
    ),
    "a listing is held against the counts": Break(
        _instead(ClusterBinding, "check_listing", lambda *_: None), 1, ("half_nodes", "no_nodes")
    ),
    "a listing is held against what was made": Break(
        _instead(operations, "check_made", lambda *_: None), 1, ("behind",)
    ),
    "a node that may be on its way out gets no work": Break(
        _instead(commanding, "removals_in_doubt", lambda node_mgr: []),
        11,
        ("late_request", "rush"),
    ),
    "request ids outlive the process": Break(
        _instead(manager, "RequestLog", lambda path=None: RequestLog()),
        1,
        ("late_request", "killed"),
    ),
    "lost creates are settled before a pass plans": Break(
        _instead(operations, "settle_lost_creates", lambda binding, requests: []),
        1,
        ("late_request", "lost_reply"),
    ),
    "one loop at a time": Break(
        _instead(SimDriver, "new_singleton_lock", lambda self, config: NullSingletonLock()),
        1,
        ("second_loop",),
    ),
    "how long a node was idle is remembered": Break(
        _instead(SQLiteNodeHistory, "find_unmatched", _forget_idle_times), 4, ("delay",)
    ),
    "what does not boot is left alone": Break(
        _instead(Holds, "_hold", lambda *_: None), 1, ("boot_fails",)
    ),
    "what did not boot is tried with one node": Break(
        _instead(law, "allowance", _all_or_nothing), 1, ("never_boots",), invariant=MACHINES
    ),
    "a create is carried out once": Break(
        _instead(Session, "send", _with_another_id), 5, ("lost_reply",), invariant=PLAN
    ),
    "gangs have a deadline": Break(
        _instead(passes, "new_gangs", _no_deadline), 1, ("few_machines",)
    ),
    "plans keep within limits": Break(
        _instead(Limit, "opened", _no_limit),
        1,
        ("less_quota",),
    ),
}
"""Every guard that the loop is kept by, and every check beside them."""


def failing_day(broken: Break, seeds: Iterable[int]) -> Report | None:
    """The first of the days on which an invariant fails without the check."""
    for seed in seeds:
        with broken.off():
            report = run_day(draw(seed, broken.kinds, broken.careful))
        if report.violation is not None and broken.invariant in (None, report.invariant):
            return report
    return None


def healthy_day(broken: Break, failed: Report) -> Report:
    """The day that went wrong without the check, with everything in its place, and two passes
    further than it came."""
    script = draw(failed.seed, broken.kinds, broken.careful)
    return run_day(script, failed.passes + 2)
