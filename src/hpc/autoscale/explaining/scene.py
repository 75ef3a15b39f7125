"""What a pass has looked at, as whoever explains something of it needs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hpc.autoscale.autostop.decision import Answer
from hpc.autoscale.explaining.asking import AskAgain, GoToTurn, Queue
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.guards import Refusal
from hpc.autoscale.node.node import Node
from hpc.autoscale.onpremises.workers import HostState
from hpc.autoscale.results.verdicts import Verdict


@dataclass(frozen=True)
class Fate:
    """What becomes of a node in the next pass, as a rehearsal of that pass has it.

    - `actions`: what is done with it: `delete`, `drain`, `join`, `undrain`, `start`, `stop_worker`
    - `reason`: why it goes, in words, and `spared_by`: what would keep it
    - `refusals`: what stood against what the pass wanted to do with it
    - `idle_seconds`: for how long it has had no work; None where nobody knows
    - `is_left`: it could go, and stays because others were told that they may stop
    - `problems`: what went wrong in the pass
    - `answer`: what it is told when it asks whether it may stop; None where nodes do not ask
    """

    actions: tuple[str, ...] = ()
    reason: str = ""
    spared_by: str = ""
    refusals: tuple[Refusal, ...] = ()
    idle_seconds: float | None = None
    is_left: bool = False
    problems: tuple[str, ...] = ()
    answer: Answer | None = None


class Waiting(NamedTuple):
    """A job that did not get all that it wants, and why. Of the parts of one, which all have its
    name, it is the one that counts; `short`: how many of its `parts` did not."""

    job: Job
    verdict: Verdict
    short: int
    parts: int


@dataclass
class Scene:
    """One pass that only looked.

    - `waiting`: a job that did not get all that it wants, by name; None of others
    - `set_aside`: why jobs could not be looked at, by name
    - `held`: new nodes that the next pass does not ask for yet, by name, and why
    - `ask_again`: what a job gets of another such pass, with a change; None where nobody can ask
    - `go_to_turn`: goes to the turn of a job in another such pass; None where nobody can
    - `is_timed`: whether a pass may come to something else when it has more time, or less
    - `first_boots`: the names of nodes that are to run and have never been ready
    - `hosts`: what is known of the workers of hosts on premises, by name
    - `handed_over`: the name of the job that stands for the one that was asked about, if another
    - `fate`: what becomes of a node in the next pass; None where nobody can ask
    """

    config: Mapping[str, Any]
    calculator: DemandCalculator
    jobs: Sequence[Any]
    queue: Queue
    waiting: Callable[[str], Waiting | None]
    set_aside: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, Refusal] = field(default_factory=dict)
    fate: Callable[[Node], Fate] | None = None
    ask_again: AskAgain | None = None
    go_to_turn: GoToTurn | None = None
    is_timed: bool = False
    first_boots: Collection[str] = frozenset()
    hosts: Mapping[str, HostState] = field(default_factory=dict)
    handed_over: str = ""

    @property
    def nodes(self) -> list[Node]:
        """All nodes, planned ones among them."""
        return self.calculator.node_mgr.get_nodes()

    def was_ready(self, node: Node) -> bool:
        """Whether a node that boots was ready before: no boot timeout counts for it any more, and
        since when it boots is not known."""
        return bool(node.create_time_unix) and node.name not in self.first_boots

    def job_names(self) -> list[str]:
        """The names of all jobs of the queue."""
        names = (getattr(job, "name", None) for job in self.jobs)
        return [str(name) for name in names if name]

    def known_jobs(self) -> list[str]:
        """The names of all jobs: of those of the queue, of those that were set aside, and of those
        that run, which only their nodes need to have."""
        running = (str(name) for node in self.nodes for name in node.assignments)
        return list(dict.fromkeys([*self.job_names(), *self.set_aside, *running]))
