"""The workers as the driver knows them: which answered, and which have been silent since when.

Silence is not idleness. A worker that does not answer may be running somebody's task, so it counts
as busy until it has been silent for `patience` seconds; only then is it given up. This is
remembered in the process: run the autoscaler as a service, not as a new process per pass, if lost
workers are to be found.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from celery import Celery
from celery.app.control import Control

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.silence import Silence


@dataclass(frozen=True)
class Worker:
    """What a worker said of itself.

    `held` are the tasks that it fetched and has not finished; `queues` those that it takes tasks
    from. `names` are Celery's, one each for the workers of a host where several run. `home_queues`
    are the queues that it was started for: it is draining when it has left them. With `heard` False
    it did not answer the last call, and all of this is what it said before.
    """

    hostname: str
    names: tuple[str, ...]
    node_id: str
    slots: int
    held: frozenset[str]
    queues: tuple[str, ...]
    home_queues: tuple[str, ...]
    heard: bool = True

    @property
    def draining(self) -> bool:
        """Whether it takes no new tasks any more."""
        return not self.queues


class WorkerRegistry:
    """The workers of one Celery app: what each said last, and which are silent.

    `answer_time` is how long a call waits for answers, `patience` how long a silent worker is kept,
    both in seconds.
    """

    def __init__(self, app: Celery, answer_time: float = 1.0, patience: float = 300.0) -> None:
        # unlike `app.control` it sends on the connection that is read: where the broker takes
        # nothing, as RabbitMQ without memory or disk, that is then an error and no silence
        self._control = Control(app)
        self._control.mailbox.producer_pool = None
        self.answer_time = answer_time
        self.silence = Silence(patience)
        self._workers: dict[str, Worker] = {}
        # ids of deleted nodes, and when their worker was last to be expected
        self._dismissed: dict[str, float] = {}

    def call(self, connection: Any) -> list[Worker]:
        """Ask every worker for its census, for `answer_time` seconds; returns all workers.

        Those that did not answer are among them.
        """
        over = clock.time() - self.silence.patience
        self._dismissed = {node: last for node, last in self._dismissed.items() if last > over}
        answers = self._ask(connection, None)
        silent = {name: replace(each, heard=False) for name, each in self._workers.items()}
        self._workers = {**silent, **answers}
        self.silence.look(self._workers, answers)
        for hostname, seconds in self.silence.given_up.items():
            logging.warning("worker %s has been silent for %g s: given up", hostname, seconds)
            self.forget(self._workers[hostname])
        return self.all()

    def all(self) -> list[Worker]:
        """All workers that are known, as of the last call, in the order of host names."""
        return sorted(self._workers.values(), key=lambda worker: worker.hostname)

    def of(self, nodes: Iterable[Node]) -> list[tuple[Node, Worker]]:
        """Nodes with their workers: by the id of the node where the worker knows it, or by host
        name.

        Nodes without a known worker are left out.
        """
        by_id = {worker.node_id: worker for worker in self._workers.values() if worker.node_id}
        found = []
        for node in nodes:
            worker = by_id.get(node_id(node)) or self._workers.get((node.hostname or "").lower())
            if worker and worker.node_id in ("", node_id(node)):
                found.append((node, worker))
        return found

    def drain(self, connection: Any, workers: Collection[Worker]) -> list[Worker]:
        """Tell workers to fetch no more tasks; returns the census of those that answered then."""
        for queue in sorted({queue for worker in workers for queue in worker.queues}):
            self._tell(
                connection, "cancel_consumer", queue, [w for w in workers if queue in w.queues]
            )
        answers = self._ask(connection, workers) if workers else {}
        self._workers.update(answers)
        return list(answers.values())

    def recall(self, connection: Any, workers: Collection[Worker]) -> None:
        """Tell drained workers to take tasks from their queues again."""
        for queue in sorted({queue for worker in workers for queue in worker.home_queues}):
            wanted = [worker for worker in workers if queue in worker.home_queues]
            self._tell(connection, "add_consumer", queue, wanted)
        for worker in workers:
            self._workers[worker.hostname] = replace(worker, queues=worker.home_queues)

    def forget(self, worker: Worker) -> None:
        """Forget a worker. When it answers again it is known again."""
        self._workers.pop(worker.hostname, None)

    def dismiss(self, nodes: Iterable[Node]) -> None:
        """Forget the workers of deleted nodes, and ignore what they say while they shut down."""
        gone = list(nodes)
        for _, worker in self.of(gone):
            self.forget(worker)
        self._dismissed.update(dict.fromkeys(map(node_id, gone), clock.time()))

    def _ask(self, connection: Any, workers: Collection[Worker] | None) -> dict[str, Worker]:
        """The census of all workers, or of some.

        Of some workers, waiting ends as soon as these have answered.
        """
        names = None if workers is None else names_of(workers)
        replies = self._control.broadcast(
            "census",
            reply=True,
            timeout=self.answer_time,
            connection=connection,
            destination=names,
            limit=len(names) if names else None,
        )
        said = (
            read_census(name, census) for reply in replies or [] for name, census in reply.items()
        )
        found = merged(worker for worker in said if worker and self._is_wanted(worker))
        return {worker.hostname: worker for worker in found}

    def _is_wanted(self, worker: Worker) -> bool:
        """Whether the worker is not on a node that was deleted."""
        if worker.node_id not in self._dismissed:
            return True
        self._dismissed[worker.node_id] = clock.time()
        return False

    def _tell(self, connection: Any, command: str, queue: str, workers: Collection[Worker]) -> None:
        self._control.broadcast(
            command,
            arguments={"queue": queue},
            destination=names_of(workers),
            connection=connection,
        )


def node_id(node: Node) -> str:
    """CycleCloud's id of a node; empty for a node that is not CycleCloud's."""
    return node.delayed_node_id.node_id or ""


def names_of(workers: Iterable[Worker]) -> list[str]:
    """The names by which Celery addresses these workers."""
    return [name for worker in workers for name in worker.names]


def read_census(name: str, said: Mapping[str, Any]) -> Worker | None:
    """A worker made of its answer; None when the answer is no census.

    A worker without the command answers with an error.
    """
    try:
        return Worker(
            hostname=short_name(name.partition("@")[2]),
            names=(name,),
            node_id=str(said["node_id"]),
            slots=max(0, int(said["slots"])),
            held=frozenset(said["held"]),
            queues=tuple(said["queues"]),
            home_queues=tuple(said["home_queues"]),
        )
    except (KeyError, TypeError, ValueError):
        logging.warning("worker %s gave no census (%s): does it import census.py?", name, said)
        return None


def merged(workers: Iterable[Worker]) -> list[Worker]:
    """One worker for each host, which holds the tasks of all workers of that host.

    The same name twice is a worker that takes over from another one; its slots count once.
    """
    found: dict[str, Worker] = {}
    for worker in workers:
        other = found.get(worker.hostname)
        if other:
            same = worker.names[0] in other.names
            worker = replace(
                worker,
                names=tuple(sorted({*worker.names, *other.names})),
                slots=max(worker.slots, other.slots) if same else worker.slots + other.slots,
                held=worker.held | other.held,
                queues=tuple(sorted({*worker.queues, *other.queues})),
                home_queues=tuple(sorted({*worker.home_queues, *other.home_queues})),
            )
        found[worker.hostname] = worker
    return list(found.values())
