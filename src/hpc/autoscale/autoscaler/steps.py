"""The steps of a pass: which there are, how long each takes, and what is counted in it.

A pass says here what it is doing. The journal, and the figures that are made of it, have the
seconds of each step; `telemetry` hears of each step when it begins and when it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hpc.autoscale.autoscaler.summary import PassError


class PassStep(NamedTuple):
    """A step: its name, what is done in it, and what is counted: entries of `Pass.outcome`, or what
    the pass notes."""

    name: str
    meaning: str
    counts: Sequence[str] = ()


STEPS: Mapping[str, PassStep] = {
    step.name: step
    for step in (
        PassStep("read", "Jobs and hosts are read from the scheduler.", ("jobs", "hosts")),
        PassStep(
            "limits",
            "Status, limits and nodes are read from the cluster.",
            ("nodes", "buckets"),
        ),
        PassStep("check", "What was read is held against the node history.", ("missing",)),
        PassStep(
            "match",
            "Jobs are placed on nodes that there are, and on new ones.",
            ("unsatisfied", "set_aside", "wanted"),
        ),
        PassStep("failed", "The driver is asked about nodes that failed.", ("failed",)),
        PassStep("join", "Nodes are handed to the scheduler.", ("undrained", "joined")),
        PassStep(
            "create",
            "Nodes are created and started.",
            ("requested", "created", "started", "deferred"),
        ),
        PassStep("history", "The node history is written.", ()),
        PassStep("idle", "Nodes that may go are looked for.", ("idle", "overdue", "given_back")),
        PassStep("drain", "The scheduler gives up nodes.", ("drained",)),
        PassStep("read_again", "Scheduler and cluster are asked again.", ("spared",)),
        PassStep("delete", "Nodes are deleted.", ("deleted",)),
        PassStep(
            "hosts",
            "Workers of hosts on premises are started and stopped.",
            ("hosts_started", "hosts_stopped"),
        ),
        PassStep("tell", "The driver is told why jobs wait.", ()),
        PassStep("state", "The journal and the files of figures are written.", ()),
    )
}
"""The steps, by name, in the order in which they are made; some are left out, some made twice."""

Ended = Callable[[Mapping[str, int], Sequence[PassError], BaseException | None], None]
"""Hears that a step has ended: its counts, what went wrong in it, and the error that ended it."""


@dataclass
class PassSteps:
    """The steps of one pass. `seconds`: how long those took that were made, by name. `outcome` and
    `errors` are those of the pass. `begun` hears the name of each step, and returns what is to hear
    of its end."""

    outcome: Mapping[str, Any]
    errors: Sequence[PassError]
    begun: Callable[[str], Ended] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    _noted: dict[str, int] = field(default_factory=dict)

    def note(self, **counts: int) -> None:
        """Count something that is no part of the outcome."""
        self._noted.update(counts)

    @contextmanager
    def doing(self, name: str) -> Iterator[None]:
        """While this step is made."""
        step, known = STEPS[name], len(self.errors)
        ended = self.begun(name) if self.begun else None
        began = time.perf_counter()
        raised: BaseException | None = None
        try:
            yield
        except BaseException as error:
            raised = error
            raise
        finally:
            took = time.perf_counter() - began
            self.seconds[name] = self.seconds.get(name, 0.0) + took
            if ended is not None:
                ended(self._counts(step), self.errors[known:], raised)

    def _counts(self, step: PassStep) -> dict[str, int]:
        found = {}
        for name in step.counts:
            value = self._noted.get(name, self.outcome.get(name))
            if isinstance(value, Sized):
                value = len(value)
            if value is not None:
                found[name] = int(value)
        return found
