"""CeleryDriver: Celery as a scheduler that hpc-autoscale can scale.

The words map like this. A queue with waiting tasks is a job, with as many iterations as tasks wait
and with the constraints that autoscale.json gives for the queue. A worker is a scheduler node, one
per host. A slot is a place in a worker's pool (`--concurrency`), the resource that every task takes
one of. What a worker has fetched is not in the queue any more, so each task counts once: as
waiting, or as a taken slot.

Who the workers are and what they hold is known to `workers`, what the broker holds to `messages`;
here is what follows from it for nodes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from celery import Celery

import messages
import tasks
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import ConfigurationException, ConstraintError, did_you_mean
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import build_jobs
from hpc.autoscale.node.constraints import get_constraints
from hpc.autoscale.node.node import Node
from hpc.autoscale.results.verdicts import Stand, Verdict
from hpc.autoscale.silence import Silence
from workers import Worker, WorkerRegistry, node_id

# The job that a silent worker is taken to run: it keeps its node from counting as idle.
UNKNOWN_WORK = "unknown work"


@dataclass(frozen=True)
class Settings:
    """The section `celery` of autoscale.json.

    queues          queue name to what one task of it needs: a constraint, or a list of them
    answer_time     seconds that workers have to answer; each look at them takes this long
    worker_timeout  seconds of silence after which a worker is taken for dead, and its node for
    failed
    """

    queues: Mapping[str, Any]
    answer_time: float = 1.0
    worker_timeout: float = 300.0

    @staticmethod
    def read(section: Any) -> "Settings":
        """The settings, checked; ConfigurationException says what is wrong and where."""
        known = ("queues", "answer_time", "worker_timeout")
        if not isinstance(section, Mapping) or not isinstance(section.get("queues"), Mapping):
            raise ConfigurationException(
                'celery: expected {"queues": {"<queue>": <constraints>, ...}}, found '
                + repr(section)
            )
        for key in section:
            if key not in known:
                raise ConfigurationException(
                    f"celery.{key}: unknown key (known:"
                    f" {', '.join(known)}){did_you_mean(key, known)}"
                )
        for key in known[1:]:
            value = section.get(key, 1.0)
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise ConfigurationException(
                    f"celery.{key}: expected seconds, more than 0, found {value!r}"
                )
        for queue, needs in section["queues"].items():
            if not queue.isprintable():  # such a queue of RabbitMQ cannot be asked for its length
                raise ConfigurationException(
                    f"celery.queues: expected printable names, found {queue!r}"
                )
            try:
                get_constraints(needs)
            except ConstraintError as error:
                raise ConfigurationException(f"celery.queues.{queue}: {error}") from error
        return Settings(**section)


class CeleryDriver(SchedulerDriver):
    """Reads queues and workers of one Celery app; drains workers before their nodes go."""

    def __init__(self, app: Celery = tasks.app) -> None:
        super().__init__("celery")
        self._app = app
        self._registry = WorkerRegistry(app)
        self._deliveries = messages.Deliveries()
        # of nodes, by their ids, that are ready: whether a worker answers from each
        self._unanswered = Silence(self._registry.silence.patience)
        # ids of the nodes that CycleCloud lists, or once did and a worker is still known of them
        self._listed: set[str] = set()

    # -- reading

    def initialize(self) -> None:
        """Nothing to prepare: Celery needs no knowledge of nodes."""

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """Check the section `celery`; give nodes a slot per vCPU unless the configuration does."""
        settings = Settings.read(config.get("celery"))
        self._registry.answer_time = settings.answer_time
        self._registry.silence.patience = settings.worker_timeout
        self._unanswered.patience = settings.worker_timeout
        slots = {"select": {}, "name": "slots", "value": "node.vcpu_count"}
        return {**config, "default_resources": [*config.get("default_resources", []), slots]}

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        """Read workers first, then queues.

        So a task that is fetched in between is missed once, and not counted twice.
        """
        try:
            return self._read(config)
        except messages.BrokerError:
            # nobody can be heard without a broker, and workers take a while to come back to one
            self._registry.silence.begin_anew()
            self._unanswered.begin_anew()
            raise

    def _read(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        needs = Settings.read(config.get("celery")).queues
        with messages.connected(self._app) as connection:
            workers = self._registry.call(connection)
            if not config.get("read_only"):
                held = {task for worker in workers for task in worker.held}
                complete = self._everybody_answers(workers)
                self._deliveries.requeue_orphans(connection, held, complete)
            waiting = messages.depths(connection, needs)
        jobs = build_jobs(
            [(queue, count) for queue, count in waiting.items() if count],
            lambda entry: new_job(entry[0], needs[entry[0]], entry[1]),
            name=lambda entry: entry[0],
        )
        return jobs, [new_scheduler_node(worker) for worker in workers]

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        """Send why the tasks of a queue wait as an event, `queue-waits` or `queue-served`:
        `celery -A tasks events --dump` prints it, and monitors may show it."""
        waits = verdict.stand in (Stand.WAITS, Stand.NEVER)
        kind = "queue-waits" if waits else "queue-served"
        said = {"queue": str(job.name), "why": verdict.causes[0].text, "code": verdict.code}
        with messages.connected(self._app) as connection:
            messages.announce(self._app, connection, kind, **said)

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        """Draw conclusions from silence, where CycleCloud's list of nodes allows any.

        A silent worker whose node is listed no more is gone. A node that is ready and from which no
        worker answers counts as failed in the end: left alone, it would be given work for ever. But
        not while workers answer of whom nobody knows where they are: they may be on that node.
        """
        self._forget_evicted({node_id(node) for node in cc_nodes})
        answering = {node_id(node) for node, worker in self._registry.of(cc_nodes) if worker.heard}
        ready = {node_id(node): node for node in cc_nodes if node.exists and node.state == "Ready"}
        self._unanswered.look(ready, answering)
        unplaced = self._unplaced(cc_nodes)
        for name, silence in self._unanswered.given_up.items():
            node = ready[name]
            if node.keep_alive:
                continue
            if unplaced:
                logging.warning(
                    "%s is kept: no answer for %g s, but its worker may be one of those that say no"
                    " NodeId and whose host is no node: %s",
                    node,
                    silence,
                    messages.some(unplaced),
                )
            else:
                logging.warning("%s counts as failed: ready, and no answer for %g s", node, silence)
                node.state = "Failed"

    def _unplaced(self, cc_nodes: list[Node]) -> list[str]:
        """The workers that answer and of whom it is not known where they are."""
        placed = {worker.hostname for _, worker in self._registry.of(cc_nodes)}
        answer = [w for w in self._registry.all() if w.heard and not w.node_id]
        return [w.hostname for w in answer if w.hostname not in placed]

    def _forget_evicted(self, listed: set[str]) -> None:
        """Forget silent workers whose node was listed before and is no longer."""
        for worker in self._registry.all():
            if not worker.heard and worker.node_id in self._listed - listed:
                self._registry.forget(worker)
        known = {worker.node_id for worker in self._registry.all()}
        self._listed = listed | (self._listed & known)

    def _everybody_answers(self, workers: Iterable[Worker]) -> bool:
        """Whether every worker that may hold a task has answered.

        False while a worker is silent, and while a ready node has no worker yet.
        """
        awaited = self._unanswered.silent.keys() - self._unanswered.given_up.keys()
        return not awaited and all(worker.heard for worker in workers)

    # -- joining and leaving

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """Call back drained workers whose nodes have got work; other workers join by themselves."""
        found = [(node, worker) for node, worker in self._registry.of(nodes) if worker.heard]
        wanted = [w for node, w in found if w.draining and node.assignments - w.held]
        if wanted:
            with messages.connected(self._app) as connection:
                self._registry.recall(connection, wanted)
        return [node for node, _ in found]

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """Nothing more to do."""
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """Stop these workers from fetching tasks.

        A node may be deleted when its worker answers that it has no task left.
        """
        found = [(node, worker) for node, worker in self._registry.of(nodes) if worker.heard]
        if not found:
            return []
        with messages.connected(self._app) as connection:
            answers = self._registry.drain(connection, [worker for _, worker in found])
        empty = {worker.hostname for worker in answers if worker.draining and not worker.held}
        return [node for node, worker in found if worker.hostname in empty]

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """All nodes given may be deleted but those whose worker is at work already."""
        return self._without_tasks(nodes)

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """All nodes given may be deleted but those whose worker is at work all the same.

        A worker that is silent on a failed node is gone. It is forgotten, so from the next pass on
        its tasks no longer count as work of the node.
        """
        for _, worker in self._registry.of(nodes):
            if not worker.heard:
                self._registry.forget(worker)
        return self._without_tasks(nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """Ignore from now on the workers of these nodes, which may still answer while they shut
        down.
        """
        self._registry.dismiss(nodes)
        return nodes

    def foresee(self, hook: str, nodes: list[Node]) -> list[Node]:
        """Nodes whose workers answer join, and may go when they have no task."""
        heard = [node for node, worker in self._registry.of(nodes) if worker.heard]
        if hook == "add_nodes_to_cluster":
            return heard
        if hook == "handle_draining":
            return self._without_tasks(heard)
        gives_up = hook in ("handle_boot_timeout", "handle_failed_nodes")
        return self._without_tasks(nodes) if gives_up else nodes

    def _without_tasks(self, nodes: list[Node]) -> list[Node]:
        busy = {id(node) for node, worker in self._registry.of(nodes) if worker.held}
        return [node for node in nodes if id(node) not in busy]


@cache
def lasting_driver() -> CeleryDriver:
    """The driver of this process, the same one in every pass, so that it keeps its workers.

    autoscale.json names this function, because `azscale` makes a driver for each pass where a class
    is named.
    """
    return CeleryDriver()


def new_job(queue: str, needs: Any, waiting: int) -> Job:
    """The tasks that wait in a queue as one job. Every task takes a slot, whatever else it
    needs."""
    each = [needs] if isinstance(needs, Mapping) else list(needs)
    return Job(queue, [{"slots": 1}, *each], iterations=waiting)


def new_scheduler_node(worker: Worker) -> SchedulerNode:
    """A worker as a node: its tasks are assigned to it and take its slots."""
    resources: dict[str, Any] = {"slots": worker.slots}
    if worker.node_id:
        resources["ccnodeid"] = worker.node_id
    node = SchedulerNode(worker.hostname, resources)
    node.available["slots"] = max(0, worker.slots - len(worker.held)) if worker.heard else 0
    for task in worker.held:
        node.assign(task)
    if not worker.heard:
        node.assign(UNKNOWN_WORK)
    return node
