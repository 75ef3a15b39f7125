"""The checks that keep the autoscaler from harm, and what it is without each of them.

A row of `BREAKS` takes one check away. On some day of a seed an invariant must then fail, or nobody
would notice that the check is gone; `test_guards` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from hpc.autoscale.autoscaler import commanding
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.node import operations
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory
from hpc.autoscale.node.nodemanager import manager
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.util import NullSingletonLock
from simulation.day import Report, run_day
from simulation.scheduler import SimDriver
from simulation.script import draw

Off = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Break:
    """A check that is taken away: how, and a seed on which that does harm, where these kinds of
    things go wrong and the driver is so careful."""

    off: Off
    seed: int
    kinds: Collection[str]
    careful: bool | None = None


def _instead(owner: Any, name: str, function: Any) -> Off:
    return lambda: mock.patch.object(owner, name, function)


BREAKS: dict[str, Break] = {
    "a listing is held against the counts": Break(
        _instead(ClusterBinding, "check_listing", lambda *_: None), 1, ("half_nodes", "no_nodes")
    ),
    "the scheduler is asked again before a delete": Break(
        _instead(
            commanding, "spare_the_needed", lambda look, nodes, leaving, faults: (leaving, ())
        ),
        1,
        ("rush",),
        False,
    ),
    "the cluster is asked again before a delete": Break(
        _instead(commanding, "still_there", lambda calculator, leaving, faults: (leaving, ())),
        1,
        ("half_nodes", "no_nodes", "kept_alive"),
    ),
    "request ids outlive the process": Break(
        _instead(manager, "RequestLog", lambda path=None: operations.RequestLog()),
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
        _instead(
            SQLiteNodeHistory,
            "find_unmatched",
            lambda self, for_at_least=300: [(i, r.hostname, 0.0) for i, r in self.read().items()],
        ),
        1,
        ("delay",),
    ),
    "plans keep within limits": Break(
        _instead(Limit, "room", lambda self, cores, owed_nodes=0, owed_cores=0: 50),
        1,
        ("less_quota",),
    ),
    "caps per pass": Break(_instead(commanding, "cap_of", lambda config, key: None), 1, ("delay",)),
}
"""Every check that is no row of the library's own table of guards."""


def failing_day(broken: Break, seeds: Iterable[int]) -> Report | None:
    """The first of the days on which an invariant fails without the check."""
    for seed in seeds:
        with broken.off():
            report = run_day(draw(seed, broken.kinds, broken.careful))
        if report.violation is not None:
            return report
    return None
