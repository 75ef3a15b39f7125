"""What a pass has looked at, as whoever explains something of it needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale.explaining.asking import AskAgain, Queue
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.node.guards import Refusal
from hpc.autoscale.node.node import Node
from hpc.autoscale.results.verdicts import Verdict


@dataclass
class Scene:
    """One pass that only looked.

    - `waiting`: the verdict on a job that did not get all that it wants, by name; None of others
    - `set_aside`: why jobs could not be looked at, by name
    - `held`: new nodes that the next pass does not ask for yet, by name, and why
    - `ask_again`: what a job gets of another such pass, with a change; None where nobody can ask
    - `is_timed`: whether a pass may come to something else when it has more time, or less
    - `idle_passes`: in how many passes in a row nodes were seen idle, by NodeId;
      None where nobody counts that
    """

    config: Mapping[str, Any]
    calculator: DemandCalculator
    jobs: Sequence[Any]
    queue: Queue
    waiting: Callable[[str], Verdict | None]
    set_aside: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, Refusal] = field(default_factory=dict)
    idle_passes: Mapping[Any, int] | None = None
    ask_again: AskAgain | None = None
    is_timed: bool = False

    @property
    def nodes(self) -> list[Node]:
        """All nodes, planned ones among them."""
        return self.calculator.node_mgr.get_nodes()

    def job_names(self) -> list[str]:
        """The names of all jobs."""
        names = (getattr(job, "name", None) for job in self.jobs)
        return [str(name) for name in names if name]
