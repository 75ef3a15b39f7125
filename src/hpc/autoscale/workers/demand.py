"""How many workers a backlog wants, and the job that wants their nodes.

Nothing here knows a cluster. Nodes that run or boot already are taken off by the calculator, as
for every job: the job goes to them first, and new nodes are made for the rest of it alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.requestsets.definitions import merged
from hpc.autoscale.requestsets.demand import WantedNodes

DEFINITION = "worker_definition"
"""The entry of a node's configuration, and the resource, that says whose workers it runs."""

NODES = "worker_nodes"
"""The resource by which nodes are counted: each node has one of it."""

_JOB_PREFIX = "workers:"


class WorkerDemandError(AutoscaleError):
    """A demand for workers that makes no sense. The text names the definition and the figure."""


@dataclass(frozen=True)
class MeanRunTime:
    """An exponentially weighted mean of how long jobs take, in seconds; None before the first.

    `jobs`: how many it is made of. `weight`: the share of the newest one. Until there are
    1 / `weight` jobs, all of them count alike. A value, of plain figures: a queue keeps it wherever
    it keeps the rest.
    """

    mean: float | None = None
    jobs: int = 0
    weight: float = 0.05

    def after(self, *seconds: float) -> MeanRunTime:
        """The mean once these jobs have ended, the oldest first.

        Times that can be none, because a clock was put back, are left out.
        """
        mean, jobs = self.mean, self.jobs
        for each in seconds:
            if not (math.isfinite(each) and each >= 0):
                continue
            jobs += 1
            share = max(self.weight, 1 / jobs)
            mean = each if mean is None else mean + share * (each - mean)
        return MeanRunTime(mean, jobs, self.weight)


@dataclass(frozen=True)
class WorkerDemand:
    """The workers that a backlog of jobs wants: one for each `jobs_per_worker` jobs, rounded up
    once over the whole backlog, at least `minimum` and at most `maximum`.

    - `waiting`, `running`: how many jobs wait, and how many run. A figure that is not known is
      nothing to say 0 for: let the driver raise, and the pass changes nothing
    - `slots_per_node`: how many workers a node runs
    - `name`: of the definition that the jobs are of. Each has workers, and nodes, of its own
    - `nodearrays`: where its nodes may be, in order of preference; empty for anywhere.
      `prefers_first` False: in any of them alike, so that weights of regions decide
    - `constraints`: what else its nodes must be like, as for `Job`
    - `attributes`: merged onto the definition of each node that is started for it
    - `run_time`, `finish_within`: seconds that a job takes, as `MeanRunTime` says, and in which the
      backlog is to be done. Where both are known they say how many jobs there are per worker: as
      many as it can do in that time one after another, at least one
    - `elsewhere`: live workers that are on no node of the cluster
    - `tolerance`: as long as no larger part of the nodes is too many, nodes that boot are not given
      back, so that a backlog that wavers does not create and cancel nodes all the time. It takes
      effect from 1 / `tolerance` nodes on

    WorkerDemandError for figures that make no sense.
    """

    waiting: int
    running: int = 0
    jobs_per_worker: int = 1
    slots_per_node: int = 1
    minimum: int = 0
    maximum: int | None = None
    _: KW_ONLY
    name: str = "default"
    nodearrays: Sequence[str] = ()
    prefers_first: bool = True
    constraints: Sequence[Any] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    run_time: float | None = None
    finish_within: float | None = None
    elsewhere: int = 0
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        for key, least in _COUNTS.items():
            _check_count(self, key, least)
        if self.maximum is not None:
            _check_count(self, "maximum", self.minimum)
        for key in ("run_time", "finish_within", "tolerance"):
            _check_figure(self, key)
        if not (isinstance(self.name, str) and self.name and self.name.isprintable()):
            raise WorkerDemandError(
                f"workers: name: expected a printable text, found {self.name!r}"
            )
        arrays: object = self.nodearrays
        if isinstance(arrays, str) or not all(isinstance(each, str) for each in self.nodearrays):
            raise _error(self, "nodearrays", "a list of names")

    @property
    def ratio(self) -> int:
        """How many jobs there are for each worker."""
        if self.finish_within is None or self.run_time is None:
            return self.jobs_per_worker
        # a mean of very many jobs that take no time comes down to 5e-324 and is never 0
        if not self.run_time or math.isinf(self.finish_within / self.run_time):
            return max(1, self.waiting + self.running)
        return max(1, int(self.finish_within // self.run_time))

    @property
    def workers(self) -> int:
        """How many workers are wanted, those that live or boot included."""
        wanted = -(-(self.waiting + self.running) // self.ratio)
        most = wanted if self.maximum is None else min(wanted, self.maximum)
        return max(self.minimum, most)

    @property
    def nodes(self) -> int:
        """How many nodes these workers need, beside those elsewhere."""
        return -(-max(0, self.workers - self.elsewhere) // self.slots_per_node)

    @property
    def slack(self) -> int:
        """How many nodes more than these may boot on."""
        return int(self.nodes * self.tolerance)

    def jobs(self) -> list[WorkerJob]:
        """What to hand to the calculator. It is to be handed over when nothing is wanted as well:
        that is what gives nodes back which boot for nobody."""
        return [WorkerJob(self)]


_COUNTS = {
    "waiting": 0,
    "running": 0,
    "jobs_per_worker": 1,
    "slots_per_node": 1,
    "minimum": 0,
    "elsewhere": 0,
}


def _check_count(demand: WorkerDemand, key: str, least: int) -> None:
    value = getattr(demand, key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _error(demand, key, f"a whole number of {least} or more")


def _check_figure(demand: WorkerDemand, key: str) -> None:
    value = getattr(demand, key)
    if value is None and key != "tolerance":
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise _error(demand, key, "a number of 0 or more")


def _error(demand: WorkerDemand, key: str, expected: str) -> WorkerDemandError:
    found = getattr(demand, key)
    return WorkerDemandError(f"workers {demand.name}: {key}: expected {expected}, found {found!r}")


def in_nodearrays(nodearrays: Sequence[str], prefers_first: bool = True) -> dict[str, Any]:
    """A constraint for nodes of some nodearrays: the first of them preferred, which goes before
    weights of regions, or any of them alike."""
    alike = list(dict.fromkeys(nodearrays))
    if prefers_first or len(alike) == 1:
        return {"node.nodearray": alike}
    # a node is in one nodearray, and `xor` prefers none of its members
    return {"xor": [{"node.nodearray": each} for each in alike]}


class WorkerJob(WantedNodes):
    """The nodes that a demand for workers wants: one unit is a node, all of its workers.

    A node that was started for it says so in its configuration under `worker_definition`, where
    the node itself finds out whose workers it is to run, and runs those of no other definition.
    Nodes that say nothing there do for any. `demand`: where it comes from. `name`,
    `constraints`: of a job that is made once more, as it was then.
    """

    def __init__(
        self,
        demand: WorkerDemand,
        name: str | None = None,
        constraints: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(
            name or f"{_JOB_PREFIX}{demand.name}",
            _constraints_of(demand) if constraints is None else constraints,
            iterations=demand.nodes,
        )
        self.demand = demand
        mark = {"Configuration": {DEFINITION: demand.name}}
        self.node_attributes = merged(demand.attributes, mark)


def _constraints_of(demand: WorkerDemand) -> list[Any]:
    # `xor` prefers none of them
    its = {"xor": [{DEFINITION: ""}, {DEFINITION: demand.name}]}
    where = [in_nodearrays(demand.nodearrays, demand.prefers_first)] if demand.nodearrays else []
    return [{NODES: 1}, its, *where, *demand.constraints]


def worker_jobs(jobs: Iterable[object]) -> list[WorkerJob]:
    """Those of the jobs that want workers."""
    return [job for job in jobs if isinstance(job, WorkerJob)]
