"""QueueDriver: the queue as a scheduler that hpc-autoscale can scale.

The waiting jobs of a definition that take the same are one job with as many iterations as workers
are wanted for them; a host with workers is a scheduler node. What runs is known to the store, not
to the workers, so a host that is silent is as busy as the store says. A host drains in one step:
from then on the store lets nothing begin there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from math import ceil
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.hpctypes import READY_STATES, NodeStatus
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import build_jobs
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.regions import configured_weights
from hpc.autoscale.results.verdicts import Stand, Verdict
from hpc.autoscale.silence import Silence
from hpc.autoscale.workers import MeanRunTime, WorkerDemand, WorkerJob, in_nodearrays
from hpc.autoscale.workers.keeping import is_booting
from hpc_queue.attendant import Heartbeats, give_up
from hpc_queue.errors import BrokerUnreachable, QueueError
from hpc_queue.model import State
from hpc_queue.queue import Queue
from hpc_queue.settings import Definition, Settings
from hpc_queue.stored import WorkerRecord, state_of

# how many of the newest runs are told apart from their mean
_NEWEST = 100
_HELD = "what is held for other jobs"
_RESOURCES = (("slots", "node.vcpu_count"), ("memgb", "node.memory"), ("ngpus", "node.gpu_count"))


@dataclass(frozen=True)
class Backlog:
    """The elements of one demand class: its definition, what each takes, and how many wait and
    run."""

    kind: str
    waiting: int
    running: int

    @property
    def definition(self) -> str:
        return self.kind.split("|")[0]

    @property
    def cpus(self) -> int:
        """How many slots of a node each takes."""
        taken = self.kind.split("|")[1]
        return max(1, ceil(float(taken))) if taken else 1

    @property
    def takes(self) -> dict[str, Any]:
        """What each takes of a node."""
        _, _, memory, gpus = self.kind.split("|")
        taken: dict[str, Any] = {"slots": self.cpus}
        if memory:
            taken["memgb"] = float(memory)
        if gpus:
            taken["ngpus"] = int(gpus)
        return taken


class QueueDriver(SchedulerDriver):
    """Reads the backlog and the workers of one queue; drains hosts before their nodes go.

    `queue`: the queue to read; by default the one that the configuration names.
    """

    def __init__(self, queue: Queue | None = None) -> None:
        super().__init__("hpcq")
        self._queue = queue
        self._settings: Settings | None = queue.settings if queue else None
        self._workers: list[WorkerRecord] = []
        self._heartbeats: Heartbeats | None = None
        # of nodes, by their ids, that are ready: whether a worker is known of each
        self._unanswered: Silence | None = None
        # ids of the nodes that CycleCloud lists, or once did and a worker is still known of them
        self._listed: set[str] = set()
        self._read_only = False
        # how many workers are wanted, by definition
        self._wanted: dict[str, int] = {}
        # by definition: the job that stands for all of it, where workers are wanted by number
        self._standing: dict[str, str] = {}
        # the weights of regions of this pass
        self._weights: dict[str, float] = {}
        # by definition: what the store said last of ended runs, and the mean of their times
        self._ran: dict[str, tuple[int, float]] = {}
        self._took: dict[str, MeanRunTime] = {}

    # -- reading

    def initialize(self) -> None:
        """Nothing to prepare: workers join by themselves."""

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """Check the section `hpcq`; a node has a slot per vCPU, its memory and its GPUs, unless the
        configuration says otherwise."""
        settings = Settings.read(config)
        if self._settings is None or (self._queue is None and settings != self._settings):
            self._settings = settings
        given = list(config.get("default_resources", []))
        ours = [{"select": {}, "name": name, "value": value} for name, value in _RESOURCES]
        return {**config, "default_resources": [*given, *ours]}

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        queue = self._opened(config)
        self._read_only = bool(config.get("read_only"))
        self._weights = dict(configured_weights(config) or {})
        with self._hearing():
            found = self._look(queue)
            if not self._read_only:
                self._forget_reasons(queue, found)
        if queue.store.is_halted():
            found = []
        busy = self._busy_slots(queue)
        by_number = self._wanted_by_number(queue, found)
        self._wanted = {name: demand.workers for name, demand in by_number.items()}
        others = self._wanted_by_kind(queue, found)
        jobs = build_jobs(others, lambda each: self._job(queue, each), name=lambda each: each.kind)
        workers = [job for demand in by_number.values() for job in demand.jobs()]
        self._standing = {job.demand.name: job.name for job in workers}
        jobs += workers
        hosts = sorted(_by_host(self._workers).items())
        return jobs, [_scheduler_node(host, workers, busy) for host, workers in hosts]

    def _opened(self, config: Mapping[str, Any]) -> Queue:
        if self._queue is None:
            self._settings = self._settings or Settings.read(config)
            self._queue = Queue.open(self._settings)
        return self._queue

    @property
    def _opened_queue(self) -> Queue:
        return self._opened({})

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        """Where the store does not answer, or takes no changes as it is full, no worker can be
        heard."""
        try:
            yield
        except BrokerUnreachable:
            for silence in (self._heartbeats, self._unanswered):
                if silence is not None:
                    silence.begin_anew()
            raise

    def _look(self, queue: Queue) -> list[Backlog]:
        """Read the workers and the backlog of one moment, once silent workers are given up.

        Read one after the other, what ends in between would be busy and run no more, and a new
        node would be made for what waits in its place.
        """
        self._workers, counts = queue.store.workers_and_counts()
        if not self._read_only and self._give_up_silent(queue):
            self._workers, counts = queue.store.workers_and_counts()
        return backlogs(counts)

    def _give_up_silent(self, queue: Queue) -> bool:
        """Whether there was one."""
        if self._heartbeats is None:
            self._heartbeats = Heartbeats(queue.settings.worker_timeout, clock.time)
        silent = self._heartbeats.look(self._workers)
        for worker in silent:
            self._lose(worker, f"worker {worker.name} was lost", worker.beats)
        return bool(silent)

    def _lose(self, worker: WorkerRecord, why: str, beats: int | None = None) -> None:
        logging.warning("%s is given up: %s", worker.name, why)
        give_up(self._opened_queue, worker.name, why, beats)
        self._workers = [each for each in self._workers if each.name != worker.name]

    def _busy_slots(self, queue: Queue) -> dict[str, int]:
        """How many slots of a node the jobs that run take, by the id of the job."""

        @lru_cache
        def slots_of(kind: str) -> int:
            return Backlog(kind, 0, 0).cpus if kind else 1

        running = {job for worker in self._workers for job in worker.running}
        return {job: slots_of(kind) for job, kind in queue.store.classes_of(running).items()}

    def _wanted_by_number(self, queue: Queue, found: list[Backlog]) -> dict[str, WorkerDemand]:
        """The demand of each definition that says how many workers a node runs; also that of
        nothing, which gives back nodes that boot."""
        took = self._run_times(queue.store.ran())
        demands = {}
        for name, definition in queue.settings.definitions.items():
            if definition.slots_per_node is None:
                continue
            ours = [each for each in found if each.definition == name]
            mean = took.get(name)
            demands[name] = WorkerDemand(
                waiting=sum(each.waiting for each in ours),
                running=sum(each.running for each in ours),
                jobs_per_worker=definition.jobs_per_worker,
                slots_per_node=definition.slots_per_node,
                minimum=definition.minimum,
                maximum=definition.maximum,
                name=name,
                nodearrays=definition.nodearrays,
                prefers_first=not self._weights,
                constraints=_needs(definition),
                run_time=mean.mean if mean else None,
                finish_within=definition.finish_within,
                elsewhere=self._elsewhere(definition),
            )
        return demands

    def _elsewhere(self, definition: Definition) -> int:
        """How many workers there are on machines that are no nodes, beyond those of a node: each
        of these hosts counts as a node already."""
        slots = Counter[str]()
        for worker in self._workers:
            if worker.said.get("definition") == definition.name and not worker.said.get("node_id"):
                slots[short_name(worker.said.get("host", ""))] += worker.slots
        return sum(max(0, number - (definition.slots_per_node or 0)) for number in slots.values())

    def _run_times(self, ran: Mapping[str, tuple[int, float]]) -> dict[str, MeanRunTime]:
        """How long jobs of each definition take, by those that have ended since the last pass."""
        for name, (runs, seconds) in ran.items():
            before = self._ran.get(name, (0, 0.0))
            new = runs - before[0]
            if new > 0:
                mean = max(0.0, seconds - before[1]) / new
                known = self._took.get(name, MeanRunTime())
                self._took[name] = known.after(*[mean] * min(new, _NEWEST))
        self._ran = dict(ran)
        return self._took

    def _wanted_by_kind(self, queue: Queue, found: list[Backlog]) -> list[Backlog]:
        """For how many elements of each demand class new workers are wanted, as `waiting`: of the
        definitions that leave it to the size of nodes how many workers these run. What is of no
        definition comes last, as it is."""
        definitions = queue.settings.definitions
        wanted: list[Backlog] = []
        for name, definition in definitions.items():
            if definition.slots_per_node is None:
                ours = [each for each in found if each.definition == name]
                running = sum(each.running for each in ours)
                demand = WorkerDemand(
                    waiting=sum(each.waiting for each in ours),
                    running=running,
                    jobs_per_worker=definition.jobs_per_worker,
                    minimum=definition.minimum,
                    maximum=definition.maximum,
                    name=name,
                )
                self._wanted[name] = demand.workers
                waiting = {each.kind: each.waiting for each in ours if each.waiting}
                shares = shared(demand.workers - running, waiting, beyond=f"{name}|||")
                wanted += [Backlog(kind, number, 0) for kind, number in shares.items()]
        return wanted + [each for each in found if each.definition not in definitions]

    def _job(self, queue: Queue, wanted: Backlog) -> Job:
        definition = queue.settings.definition(wanted.definition)
        places: list[Any] = []
        if definition.nodearrays:
            places = [in_nodearrays(definition.nodearrays, not self._weights)]
        constraints = [wanted.takes, *_needs(definition), *places]
        return Job(wanted.kind, constraints, iterations=wanted.waiting)

    def name_of_job(self, name: str) -> str:
        """Elements that wait are handed over with all of their demand class, or as the workers of
        their definition; those that wait for other jobs are not, as nothing is wanted for them."""
        try:
            job, low, high = self._opened_queue.find(name)
        except BrokerUnreachable:
            raise
        except QueueError:  # it is no id of a job
            return name
        if job.held:
            return _HELD
        waits = self._opened_queue.store.states(job.id)[low:high]
        if not any(state_of(byte) is State.Waiting for byte in waits):
            return name
        kind = job.spec.demand_class()
        return self._standing.get(job.spec.definition, kind)

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        """Keep why jobs of a demand class wait, for `hpcq stat` and `hpcq top`."""
        kind = job.demand.name if isinstance(job, WorkerJob) else job.name
        waits = verdict.stand in (Stand.WAITS, Stand.NEVER)
        # the name stands for many jobs, and is none that users know
        said = verdict.line.removeprefix(f"Job {job.name} ")
        self._opened_queue.store.note_reason(kind, said if waits else "")

    def _forget_reasons(self, queue: Queue, found: Iterable[Backlog]) -> None:
        """Of what waits no more at all, nobody is told again."""
        waiting = [each for each in found if each.waiting]
        kinds = {each.kind for each in waiting} | {each.definition for each in waiting}
        for kind in queue.store.reasons().keys() - kinds:
            queue.store.note_reason(kind, "")

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        """Draw conclusions where CycleCloud's list of nodes allows any.

        A worker whose node was listed and is listed no more is gone. A node that is ready and from
        which no worker is heard counts as failed in the end: left alone, it would be given work for
        ever.
        """
        listed = {_node_id(node) for node in cc_nodes}
        heard = {_node_id(node) for node, _ in self._of(cc_nodes)}
        ready = {_node_id(node): node for node in cc_nodes if node.exists and node.state == "Ready"}
        if self._unanswered is None:
            self._unanswered = Silence(self._opened_queue.settings.worker_timeout)
        self._unanswered.look(ready, heard)
        for name, silent in self._unanswered.given_up.items():
            node = ready[name]
            if not node.keep_alive:
                logging.warning("%s counts as failed: ready, and no worker for %g s", node, silent)
                node.state = NodeStatus("Failed")
        if not self._read_only:
            self._forget_evicted(listed, scheduler_nodes)
            seen = {
                "wanted": self._wanted,
                "regions": _by_region(cc_nodes),
                "weights": self._weights,
            }
            with self._hearing():
                self._opened_queue.store.note_cluster(seen)

    def _forget_evicted(self, listed: set[str], hosts: list[SchedulerNode]) -> None:
        gone = self._listed - listed
        for worker in list(self._workers):
            if worker.said.get("node_id") in gone:
                self._lose(worker, f"the node of worker {worker.name} is gone")
                host = short_name(worker.said.get("host", ""))
                hosts[:] = [each for each in hosts if short_name(each.hostname) != host]
        known = {worker.said.get("node_id", "") for worker in self._workers}
        self._listed = listed | (self._listed & known)

    def _of(self, nodes: Iterable[Node]) -> list[tuple[Node, list[WorkerRecord]]]:
        """Nodes with their workers: by the id of the node where a worker knows it, or else by host
        name. Nodes without a worker are left out."""
        hosts = _by_host(self._workers)
        ids: dict[str, list[WorkerRecord]] = {}
        for worker in self._workers:
            if worker.said.get("node_id"):
                ids.setdefault(worker.said["node_id"], []).append(worker)
        found = []
        for node in nodes:
            workers = ids.get(_node_id(node)) or [
                worker
                for worker in hosts.get(short_name(node.hostname), ())
                if worker.said.get("node_id", "") in ("", _node_id(node))
            ]
            if workers:
                found.append((node, workers))
        return found

    # -- joining and leaving

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """Let drained hosts begin work again for which their nodes are wanted; other workers join
        by themselves."""
        found = self._of(nodes)
        wanted = [_node_id(node) for node in nodes if node.assignments and _node_id(node)]
        self._opened_queue.store.open_nodes(wanted)
        for node, workers in found:
            running = {job for worker in workers for job in worker.running}
            if set(node.assignments) - running:
                for worker in workers:
                    if worker.draining:
                        self._opened_queue.store.drain(worker.name, False)
        return [node for node, _ in found]

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """Nothing more to do."""
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """From now on nothing begins on these hosts; those on which nothing runs may go.

        That holds for workers that have not joined yet, too.
        """
        found = self._of(nodes)
        store = self._opened_queue.store
        store.close_nodes([_node_id(node) for node in nodes if _node_id(node)])
        for _, workers in found:
            for worker in workers:
                if not worker.draining:
                    store.drain(worker.name)
        # asked again: something may have begun before the host was drained
        self._workers = store.workers()
        busy = {id(node) for node, workers in self._of(nodes) if any(w.busy for w in workers)}
        return [node for node in nodes if id(node) not in busy]

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """All nodes given may be deleted but those on which something runs already."""
        return self._without_work(nodes)

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """All nodes given may be deleted but those on which something runs all the same.

        A worker on a failed node that has been silent for a lease is given up.
        """
        if self._heartbeats is not None:
            lease = self._opened_queue.settings.lease
            for _, workers in self._of(nodes):
                for worker in workers:
                    if self._heartbeats.silent_for(worker.name) >= lease:
                        self._lose(worker, f"worker {worker.name} was lost with its node")
        return self._without_work(nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """Give up the workers of these nodes."""
        for node, workers in self._of(nodes):
            for worker in workers:
                self._lose(worker, f"its node {node.name} is deleted")
        return nodes

    def foresee(self, hook: str, nodes: list[Node]) -> list[Node]:
        """Nodes whose workers are there join; those on which something runs stay."""
        if hook == "add_nodes_to_cluster":
            return [node for node, _ in self._of(nodes)]
        goes = hook in ("handle_draining", "handle_boot_timeout", "handle_failed_nodes")
        return self._without_work(nodes) if goes else nodes

    def _without_work(self, nodes: list[Node]) -> list[Node]:
        busy = {id(node) for node, workers in self._of(nodes) if any(each.busy for each in workers)}
        return [node for node in nodes if id(node) not in busy]


@cache
def lasting_driver() -> QueueDriver:
    """The driver of this process, the same one in every pass, so that it remembers who was silent.

    autoscale.json names this function, as `hpc_queue.driver:lasting_driver`.
    """
    return QueueDriver()


def backlogs(counts: Mapping[tuple[str, str], int]) -> list[Backlog]:
    """The demand classes in which anything waits or runs; what waits for other jobs is no demand
    yet."""
    kinds = sorted({kind for kind, _ in counts})
    found = [
        Backlog(kind, counts.get((kind, "0"), 0), counts.get((kind, "1"), 0)) for kind in kinds
    ]
    return [each for each in found if each.waiting or each.running]


def shared(workers: int, waiting: Mapping[str, int], beyond: str) -> dict[str, int]:
    """The workers that a definition wants anew, by the kind of job that they are for.

    There is one for each kind, in the order given, as far as they go. The others are shared out in
    proportion to what else waits, rounded up from kind to kind. `waiting` has how many jobs of each
    kind wait, no zeros. Those that are more than all that wait are for the kind `beyond`.
    """
    if workers <= len(waiting):
        return dict.fromkeys(list(waiting)[: max(0, workers)], 1)
    more = sum(waiting.values()) - len(waiting)
    others = min(workers - len(waiting), more)
    found: dict[str, int] = {}
    passed = given = 0
    for kind, number in waiting.items():
        passed += number - 1
        before, given = given, ceil(Fraction(others * passed, max(1, more)))
        found[kind] = 1 + given - before
    if rest := workers - len(waiting) - others:
        found[beyond] = found.get(beyond, 0) + rest
    return found


def _by_region(nodes: Iterable[Node]) -> dict[str, dict[str, float]]:
    """How many nodes of each region boot and live, and what they cost an hour, as far as prices
    are known. One that has failed or leaves does neither."""
    found: dict[str, dict[str, float]] = {}
    for node in nodes:
        if not node.exists:
            continue
        each = found.setdefault(str(node.location), {"booting": 0, "live": 0, "unpriced": 0})
        each["live"] += node.state in READY_STATES
        each["booting"] += is_booting(node)
        price = price_per_hour(node.location, node.vm_size, node.spot)
        if price is None:
            each["unpriced"] += 1
        else:
            each["dollars"] = each.get("dollars", 0.0) + price
    return found


def _needs(definition: Definition) -> list[Any]:
    """What a job takes beside a slot, as a list of constraints."""
    needs = definition.resources
    return [need for need in ([needs] if isinstance(needs, Mapping) else needs) if need]


def _by_host(workers: Iterable[WorkerRecord]) -> dict[str, list[WorkerRecord]]:
    found: dict[str, list[WorkerRecord]] = {}
    for worker in workers:
        found.setdefault(short_name(worker.said.get("host", worker.name)), []).append(worker)
    return found


def _node_id(node: Node) -> str:
    return node.delayed_node_id.node_id or ""


def _scheduler_node(
    host: str, workers: Sequence[WorkerRecord], busy: Mapping[str, int]
) -> SchedulerNode:
    """The workers of a host as a node: what they run is assigned to it and takes its slots."""
    resources: dict[str, Any] = {"slots": sum(worker.slots for worker in workers)}
    for worker in workers:
        if worker.said.get("node_id"):
            resources["ccnodeid"] = worker.said["node_id"]
    node = SchedulerNode(host, resources)
    running = [job for worker in workers for job in worker.running]
    taken = sum(busy.get(job, 1) for job in running)
    node.available["slots"] = max(0, resources["slots"] - taken)
    for job in dict.fromkeys(running):
        node.assign(job)
    return node
