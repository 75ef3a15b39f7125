"""A queue as its users have it: submit, look, cancel, try again.

Everything that changes the store and needs a ticket afterwards goes through here. When a process
dies between the two, workers find what waits without a ticket (`attendant`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

from hpc.autoscale import hpclogging as logging
from hpc_queue import embedded, tickets
from hpc_queue.errors import BrokerUnreachable, QueueError
from hpc_queue.model import ElementId, JobSpec, Range, State, replacement_problems
from hpc_queue.settings import EMBEDDED, Settings
from hpc_queue.store import Store, connect
from hpc_queue.stored import Job

_TOGETHER = 32
"""The most single jobs that one ticket is for, when many are submitted together."""


class Queue:
    """The jobs of one store with the tickets of one broker. Not for several threads at once."""

    def __init__(
        self, settings: Settings, store: Store, broker: str, is_worker: bool = False
    ) -> None:
        self.settings = settings
        self.store = store
        self._broker = broker
        self._is_worker = is_worker
        self._tickets: tickets.Tickets | None = None

    @property
    def _is_one_redis(self) -> bool:
        """Whether messages are where the jobs are."""
        settings = self.settings
        return settings.store in ("", settings.broker) and tickets.is_redis(self._broker)

    @property
    def tickets(self) -> tickets.Tickets:
        """What writes tickets; Celery is imported for the first of them."""
        if self._tickets is None:
            app = tickets.new_app(self._broker, self.settings.definitions, self._is_worker)
            self._tickets = tickets.Tickets(app)
        return self._tickets

    @staticmethod
    def open(config: str | Settings | None = None, patience: float = 5.0) -> Queue:
        """The queue that a configuration names, a path or what was read from one. The embedded
        Redis is started if need be."""
        settings = config if isinstance(config, Settings) else Settings.load(config)
        broker, store = addresses(settings)
        return Queue(settings, Store(connect(store, patience)), broker)

    def close(self) -> None:
        """Close the connections."""
        if self._tickets is not None:
            self._tickets.close()
        self.store.client.close()

    # -- submitting

    def submit(
        self,
        spec: JobSpec,
        each: Sequence[Mapping[str, str]] = (),
        token: str | None = None,
    ) -> str:
        """Submit a job; its id. `each` has the replacements of each element of an array.

        With the `token` of an earlier call nothing new is submitted.
        """
        self._check(spec)
        if each and len(each) != spec.count:
            raise QueueError(f"expected {spec.count} replacements, found {len(each)}")
        for problem in chain.from_iterable(map(replacement_problems, each)):
            raise QueueError(problem)
        ticket = ("", "")
        if spec.count == 1 and self._is_one_redis:
            # one round trip, and no moment in which there is the job and no ticket
            ticket = self.tickets.written_by_redis(spec.definition, spec.priority)
        job, is_free = self.store.submit(spec, each, self.settings.keep, token, ticket)
        with _without_tickets_at_worst():
            if is_free:
                self._send(spec, tickets.split(job, 0, spec.count))
        return job

    def submit_all(self, specs: Iterable[JobSpec]) -> list[str]:
        """Submit many jobs of one element each, sent together; their ids, in order."""
        given = list(specs)
        for spec in given:
            self._check(spec)
            if spec.count != 1:
                raise QueueError(f"expected jobs of one element, found one of {spec.count}")
        added = self.store.submit_all(given, self.settings.keep)
        alike: dict[tuple[str, int], list[Range]] = {}
        for spec, (job, is_free) in zip(given, added, strict=True):
            if is_free:
                alike.setdefault((spec.definition, spec.priority), []).append((job, 0, 1))
        with _without_tickets_at_worst():
            for (definition, priority), ranges in alike.items():
                for at in range(0, len(ranges), _TOGETHER):
                    self.tickets.send_one(definition, priority, ranges[at : at + _TOGETHER])
        return [job for job, _ in added]

    def _check(self, spec: JobSpec) -> None:
        """QueueError when a job makes no sense, or its definition does not allow it."""
        spec.checked()
        definition = self.settings.definition(spec.definition)
        name = spec.command.get("call")
        if name is not None and not definition.allows(str(name)):
            raise QueueError(
                f"expected a callable that definition {definition.name!r} declares"
                f" ({', '.join(definition.callables) or 'it declares none'}), found {name!r}"
            )
        taken = (spec.cpus, spec.memory, spec.gpus)
        if definition.slots_per_node is not None and any(each is not None for each in taken):
            raise QueueError(
                f"expected no --cpus, --mem or --gpus: definition {definition.name!r} has"
                " slots_per_node, so all of its jobs take one slot"
            )

    def _send(self, spec: JobSpec, chunks: Sequence[Range]) -> None:
        self.tickets.send(spec.definition, spec.priority, chunks)

    # -- looking

    def find(self, text: str) -> tuple[Job, int, int]:
        """The job of an id, and the range of positions that it names. UnknownJob, or QueueError for
        an index that the array does not have, or of a job that is none."""
        element = ElementId.parse(text)
        job = self.store.job(element.job)
        if element.index is None:
            return job, 0, job.spec.count
        if not job.spec.is_array:
            raise QueueError(f"expected the id {job.id}: this job is no array, found {text!r}")
        position = job.spec.position_of(element.index)
        return job, position, position + 1

    # -- changing

    def cancel(self, text: str, why: str = "cancelled by hand") -> tuple[int, int]:
        """Cancel a job or an element; how many waited, and how many run and are ended now."""
        job, low, high = self.find(text)
        (found,) = self.cancel_ranges([(job.id, low, high)], why)
        return found

    def cancel_ranges(
        self, ranges: Sequence[Range], why: str = "cancelled by hand"
    ) -> list[tuple[int, int]]:
        """Cancel ranges of positions, sent together; what each came to, as `cancel` says it."""
        found = self.store.cancel_all(ranges, why)
        with _without_tickets_at_worst():
            self.release(job for _, _, released in found for job in released)
        return [(waited, run) for waited, run, _ in found]

    def retry(self, text: str, states: Iterable[State]) -> int:
        """Let ended elements in these states wait again, also for the jobs that theirs is after;
        how many there were. UnmetDependency when one of these has ended without success."""
        job, low, high = self.find(text)
        changed, is_free = self.store.retry(job.id, low, high, states)
        with _without_tickets_at_worst():
            if is_free:
                self.write_tickets(job.id, low, high)
        return changed

    def release(self, jobs: Iterable[str]) -> None:
        """Write the tickets of jobs that need no longer wait for others."""
        for job in jobs:
            spec = self.store.spec_of(job)
            self._send(spec, tickets.split(job, 0, spec.count))

    def write_tickets(self, job: str, low: int = 0, high: int | None = None) -> int:
        """Write tickets for what waits in a range; how many."""
        spec = self.store.spec_of(job)
        last = spec.count if high is None else high
        most = max(1, min(tickets.CHUNK, (last - low) // 64))
        chunks = [
            (job, max(low, at), min(last, end))
            for _, at, end in self.store.waiting_ranges(job, most)
            if at < last and end > low
        ]
        self._send(spec, chunks)
        return len(chunks)


@contextmanager
def _without_tickets_at_worst() -> Iterator[None]:
    """The store has changed already, and what waits there is found without tickets (`searching`):
    a broker that takes none is no failure, or somebody would submit the same again."""
    try:
        yield
    except BrokerUnreachable as error:
        logging.warning("what waits begins only when workers look for it: %s", error)


def addresses(settings: Settings) -> tuple[str, str]:
    """The URLs of broker and store; the embedded Redis is started if need be."""
    broker = settings.broker
    if broker == EMBEDDED:
        broker = embedded.ensure_started(settings.home)
    store = settings.store or broker
    if store == EMBEDDED:
        store = embedded.ensure_started(settings.home)
    return broker, store
