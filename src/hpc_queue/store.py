"""What becomes of jobs, in Redis: the one owner of their states.

Each method is one script or one pipeline. States change only in the scripts of `scripts`, as a
whole or not at all, so a worker that dies leaves nothing half-done, and two that want the same
element do not both get it. Times are of the caller's clock and only shown; nothing is decided by
them.
"""

from __future__ import annotations

import json
import re
import struct
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from hpc_queue import scripts
from hpc_queue.errors import BrokerUnreachable, QueueError, UnknownJob, UnmetDependency
from hpc_queue.model import JobSpec, Range, State
from hpc_queue.patience import timeouts
from hpc_queue.stored import Ended, Job, Record, Step, WorkerRecord, job_of

# Seconds. A node is deleted, or wanted again, long before.
_CLOSED = 86400
_TOGETHER = 200
BLOCK = 100
"""Elements whose differences are compressed together."""
_RECORD = struct.Struct("<IIiI")
_LENGTH = struct.Struct("<Q")
_UNREACHABLE = (redis.ConnectionError, redis.TimeoutError)
# how Celery's documents say whether certificates are checked; Celery knows both words, redis one
_CERT = re.compile(r"(?<=ssl_cert_reqs=)CERT_(\w+)")
# what a server says that has no room, whose disk has none, or whose replicas are away, by itself or
# from within a script
_TAKES_NOTHING = ("MISCONF", "command not allowed when used memory", "NOREPLICAS")


def connect(url: str, patience: float = 5.0, is_worker: bool = False) -> Any:
    """A client that tries again for about so many seconds when the connection breaks.

    A server that takes connections and does not answer is left after `ANSWER_TIMEOUT`, since
    somebody waits for it; a worker waits longer, and tries again. QueueError for a URL with options
    that no Redis has.
    """
    errors = _UNREACHABLE if is_worker else (redis.ConnectionError,)
    pauses = ExponentialBackoff(cap=0.5, base=0.02)
    retry = Retry(pauses, int(patience / 0.5) + 1, supported_errors=errors)
    try:
        client = redis.Redis.from_url(
            _CERT.sub(lambda said: said[1].lower(), url.replace("redis+socket://", "unix://")),
            retry=retry,
            retry_on_error=list(errors),
            **timeouts(is_worker),
        )
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # which does not connect yet
    except (TypeError, ValueError, redis.RedisError) as error:
        # without the URL, as it may have a password
        raise QueueError(f"expected the URL of a Redis, found one with: {error}") from error
    return client


class Store:
    """The jobs of one queue. `client` answers in bytes; `prefix` begins each key."""

    def __init__(
        self,
        client: Any,
        prefix: str = "hpcq:",
        now: Callable[[], float] = time.time,
    ) -> None:
        self.client = client
        self._prefix = prefix
        self._now = now
        self._scripts = {
            name: client.register_script(scripts.PRELUDE + text)
            for name, text in scripts.SCRIPTS.items()
        }

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except _UNREACHABLE as error:
            raise BrokerUnreachable(f"expected an answer of the store, found: {error}") from error
        except redis.ResponseError as error:
            if str(error).startswith("AFTER "):
                raise UnknownJob(f"after: there is no job {str(error)[6:]}") from error
            if str(error).startswith("UNMET "):
                text = f"after job {str(error)[6:]}, which did not succeed"
                raise UnmetDependency(text) from error
            refused = any(each in str(error) for each in _TAKES_NOTHING)
            if refused or isinstance(error, redis.ReadOnlyError):
                raise BrokerUnreachable(f"the store takes no changes now: {error}") from error
            raise QueueError(f"the store refused a command: {error}") from error
        except redis.RedisError as error:
            raise QueueError(f"expected an answer of the store, found: {error}") from error

    def _run(self, script: str, *args: str | bytes | int | float) -> Any:
        with self._answering():
            return self._scripts[script](args=[self._prefix, repr(self._now()), *args])

    def _key(self, kind: str, name: str = "") -> str:
        return f"{self._prefix}{kind}:{name}" if name else f"{self._prefix}{kind}"

    # -- submitting

    def submit(
        self,
        spec: JobSpec,
        each: Sequence[Mapping[str, str]] = (),
        keep: float = 0,
        token: str | None = None,
        ticket: tuple[str, str] = ("", ""),
    ) -> tuple[str, bool]:
        """Add a job; its id, and whether it may begin at once and needs tickets.

        `each` has the replacements of each element of an array. With the `token` of an earlier call
        nothing is added, and the same id returned. What is known of the job is forgotten `keep`
        seconds after its end; 0 for never. A `ticket`, the key of a list and the text of a message
        with `@JOB@` for the id, is written with the job; then it needs none.
        """
        spec.checked()
        said = self._run("submit", *self._submission(spec, each, keep, token, ticket))
        return said[0].decode(), said[1] == b"0" and not said[2]

    def submit_all(self, specs: Iterable[JobSpec], keep: float = 0) -> list[tuple[str, bool]]:
        """`submit` for many jobs, sent together; none is added when one cannot be."""
        checked = [spec.checked() for spec in specs]
        after = {other for spec in checked for other in spec.after}
        for other, kind in self.classes_of(after).items():
            if not kind:
                raise UnknownJob(f"after: there is no job {other}")
        with self._answering():
            pipeline = self.client.pipeline(transaction=False)
            for spec in checked:
                args = [self._prefix, repr(self._now()), *self._submission(spec, (), keep, None)]
                self._scripts["submit"](args=args, client=pipeline)
            return [(said[0].decode(), said[1] == b"0") for said in pipeline.execute()]

    def _submission(
        self,
        spec: JobSpec,
        each: Sequence[Mapping[str, str]],
        keep: float,
        token: str | None,
        ticket: tuple[str, str] = ("", ""),
    ) -> list[str | bytes | int]:
        blocks = [
            zlib.compress(json.dumps(each[at : at + BLOCK]).encode())
            for at in range(0, len(each), BLOCK)
        ]
        head: list[str | bytes | int] = [token or uuid.uuid4().hex, spec.count]
        head += [spec.demand_class(), spec.to_json(), spec.retries, int(spec.retry_failed)]
        head += [int(spec.after_any), ceil(keep), " ".join(dict.fromkeys(spec.after))]
        return [*head, *ticket, *blocks]

    # -- running

    def step(
        self,
        worker: str,
        slot: int,
        ended: tuple[str, Ended] | None,
        claim: tuple[Range, str] | None,
    ) -> Step:
        """What ended in a slot of a worker, and what is to begin there, in one go.

        A run is named by the token that it was claimed with. The first waiting element of the
        claimed range begins. Sent again with the same tokens, it changes nothing and answers alike.
        """
        args: list[str | bytes | int] = [worker, slot]
        if ended:
            token, how = ended
            output = _LENGTH.pack(how.length) + how.output if how.output or how.length else b""
            begun = min(max(0, int(how.begun * 1000)), 2**53)
            args += [token, int(how.state), how.exit, begun // 1000, int(how.seconds * 1000)]
            args += [output, how.why]
        else:
            args += ["", 0, 0, 0, 0, "", ""]
        if claim:
            (job, low, high), token = claim
            args += [job, low, high, token]
        else:
            args += ["", 0, 0, ""]
        said = self._run("step", *args)
        released = tuple(one.decode() for one in said[5])
        return Step(bool(said[0]), bool(said[1]), said[2].decode(), said[3], said[4], released)

    def spec_of(self, job: str) -> JobSpec:
        """What was submitted. UnknownJob when there is no such job."""
        with self._answering():
            text = self.client.hget(self._key("job", job), "spec")
        if text is None:
            raise UnknownJob(f"there is no job {job}")
        return JobSpec.from_json(text)

    def classes_of(self, jobs: Iterable[str]) -> dict[str, str]:
        """The demand class of each of these jobs; empty for one that is not known."""
        names: list[str] = list(jobs)
        found: dict[str, bytes | None] = {}
        for start in range(0, len(names), 1000):
            part = names[start : start + 1000]
            with self._answering():
                pipeline = self.client.pipeline(transaction=False)
                for name in part:
                    pipeline.hget(self._key("job", name), "class")
                found.update(zip(part, pipeline.execute(), strict=True))
        return {name: (kind or b"").decode() for name, kind in found.items()}

    def differences(self, job: str, block: int) -> list[dict[str, str]]:
        """The replacements of `BLOCK` elements of an array; none when it has no such."""
        with self._answering():
            packed = self.client.hget(self._key("par", job), str(block))
        found: list[dict[str, str]] = json.loads(zlib.decompress(packed)) if packed else []
        return found

    def show_output(self, job: str, position: int, output: bytes, length: int) -> None:
        """Keep the output of an element that still runs."""
        with self._answering():
            self.client.hset(self._key("out", job), str(position), _LENGTH.pack(length) + output)

    # -- workers

    def join(self, worker: str, said: Mapping[str, str | int]) -> int:
        """A worker begins; its number."""
        texts = {key: str(value) for key, value in said.items()}
        return int(self._run("join", worker, json.dumps(texts), texts.get("node_id", "")))

    def beat(self, worker: str) -> bool:
        """A worker is alive; False when it was given up meanwhile, and its elements are others'."""
        return bool(self._run("beat", worker))

    def told(self, worker: str, timeout: float) -> str | None:
        """What a worker is told next; None when nothing comes for so many seconds."""
        with self._answering():
            said = self.client.blpop([self._key("cmd", worker)], timeout=timeout)
        return said[1].decode() if said else None

    def tell(self, worker: str, what: str) -> None:
        """Tell a worker something: `drain`, `resume`, `leave <seconds>`, or `kill <job>
        <position>`. One that has left is told nothing."""
        self._run("tell", worker, what, "")

    def drain(self, worker: str, draining: bool = True) -> None:
        """From now on nothing begins on a worker, or again."""
        self._run("tell", worker, "drain" if draining else "resume", int(draining))

    def close_nodes(self, node_ids: Sequence[str]) -> None:
        """From now on workers that join from these nodes begin nothing."""
        with self._answering():
            pipeline = self.client.pipeline(transaction=False)
            for node_id in node_ids:
                pipeline.set(self._key("closed", node_id), b"", ex=_CLOSED)
            pipeline.execute()

    def open_nodes(self, node_ids: Sequence[str]) -> None:
        """Workers that join from these nodes begin work as others do."""
        if node_ids:
            with self._answering():
                self.client.delete(*(self._key("closed", node_id) for node_id in node_ids))

    def lose(
        self, worker: str, why: str, beats: int | None = None
    ) -> tuple[list[Range], list[str]]:
        """Give a worker up: what it ran waits again or is an Error. With `beats`, only if it has
        not beaten since.

        Returns the chunks that it held, for new tickets, and the jobs that this released.
        """
        said = self._run("lose", worker, "" if beats is None else beats, why)
        chunks = [(job.decode(), at, high) for job, at, high in said[0]]
        return chunks, [one.decode() for one in said[1]]

    def workers(self) -> list[WorkerRecord]:
        """All workers that have joined and neither left nor been given up."""
        return self.workers_and_counts()[0]

    def workers_and_counts(self) -> tuple[list[WorkerRecord], dict[tuple[str, str], int]]:
        """All workers, and `counts`, of one and the same moment: what these say to run is what
        workers run. A script, as a full Redis takes no transaction, not even one that only reads.
        """
        counts, *workers = self._run("workers")
        found = []
        for name, packed, runs in sorted(workers):
            said = {k.decode(): v.decode() for k, v in _paired(packed)}
            if said:
                beats, done = int(said.get("beats", "0")), int(said.get("done", "0"))
                running = tuple(run.decode().split()[0] for run in runs)
                drains = "draining" in said
                found.append(WorkerRecord(name.decode(), running, beats, done, drains, said))
        return found, _counted(dict(_paired(counts)))

    # -- changing

    def cancel(
        self, job: str, low: int, high: int, why: str = "cancelled"
    ) -> tuple[int, int, list[str]]:
        """Cancel the waiting elements of a range, and tell the workers of running ones.

        Returns how many waited, how many run, and the jobs that this released. UnknownJob when
        there is no such job.
        """
        waited, run, released = self._run("cancel", job, low, high, why)
        if waited < 0:
            raise UnknownJob(f"there is no job {job}")
        return waited, run, [one.decode() for one in released]

    def cancel_all(
        self, ranges: Sequence[Range], why: str = "cancelled"
    ) -> list[tuple[int, int, list[str]]]:
        """`cancel` for many ranges, sent together; of an unknown job there is nothing to cancel."""
        found: list[tuple[int, int, list[str]]] = []
        for at in range(0, len(ranges), _TOGETHER):
            with self._answering():
                pipeline = self.client.pipeline(transaction=False)
                for job, low, high in ranges[at : at + _TOGETHER]:
                    args = [self._prefix, repr(self._now()), job, low, high, why]
                    self._scripts["cancel"](args=args, client=pipeline)
                for waited, run, released in pipeline.execute():
                    found.append((max(0, waited), run, [one.decode() for one in released]))
        return found

    def retry(self, job: str, low: int, high: int, states: Iterable[State]) -> tuple[int, bool]:
        """Let ended elements wait again, with all their retries; how many there were, and whether
        they may begin at once and need tickets.

        A job that had ended waits again for the jobs that it is after, as far as these have not
        ended; one of which nothing is kept any more is waited for no longer. UnmetDependency, and
        nothing is changed, when one of them has not succeeded and that is needed.
        """
        digits = "".join(str(int(state)) for state in states if state.ended)
        after = " ".join(self.spec_of(job).after)
        try:
            changed, held = self._run("retry", job, low, high, digits, after)
        except UnmetDependency as error:
            raise UnmetDependency(f"job {job} is {error}: retry that one first") from error
        if changed < 0:
            raise UnknownJob(f"there is no job {job}")
        return int(changed), bool(changed) and not held

    def halt(self, halted: bool) -> None:
        """Let nothing begin any more, or again."""
        with self._answering():
            if halted:
                self.client.set(self._key("halt"), repr(self._now()))
            else:
                self.client.delete(self._key("halt"))

    def is_halted(self) -> bool:
        with self._answering():
            return bool(self.client.exists(self._key("halt")))

    # -- looking

    def job_ids(self, only_open: bool = False) -> list[str]:
        """The ids of all jobs that are known, oldest first."""
        with self._answering():
            if only_open:
                found = self.client.smembers(self._key("open"))
                return sorted((one.decode() for one in found), key=int)
            return [one.decode() for one in self.client.zrange(self._key("jobs"), 0, -1)]

    def forget_ended(self, after: str, most: int = 1000) -> str:
        """Take jobs of which nothing is kept any more from the list of all jobs, looking at so many
        of them behind one; the last of these, `0` when there are no more."""
        name = self._key("jobs")
        with self._answering():
            found = self.client.zrangebyscore(name, f"({after}", "+inf", start=0, num=most)
            names = [one.decode() for one in found]
            if gone := [job for job, kind in self.classes_of(names).items() if not kind]:
                self.client.zrem(name, *gone)
        return names[-1] if len(names) == most else "0"

    def jobs(self, ids: Iterable[str]) -> Iterator[Job]:
        """These jobs; those that are not known are left out, and forgotten."""
        names = list(ids)
        for start in range(0, len(names), 1000):
            part = names[start : start + 1000]
            with self._answering():
                pipeline = self.client.pipeline(transaction=False)
                for name in part:
                    pipeline.hgetall(self._key("job", name))
                answers = pipeline.execute()
                gone = [n for n, packed in zip(part, answers, strict=True) if not packed]
                if gone:
                    self.client.zrem(self._key("jobs"), *gone)
                    self.client.srem(self._key("open"), *gone)
            for name, packed in zip(part, answers, strict=True):
                if packed:
                    yield job_of(name, packed)

    def job(self, name: str) -> Job:
        """One job. UnknownJob when there is no such job."""
        for found in self.jobs([name]):
            return found
        raise UnknownJob(f"there is no job {name}")

    def states(self, job: str) -> bytes:
        """The byte of each element; `state_of` and `tries_of` read one."""
        with self._answering():
            found: bytes | None = self.client.get(self._key("st", job))
            return found or b""

    def waiting_ranges(self, job: str, most: int) -> list[Range]:
        """The waiting elements as ranges of at most so many."""
        return [
            (job, at, min(at + most, found.end()))
            for found in _WAITING.finditer(self.states(job))
            for at in range(found.start(), found.end(), most)
        ]

    def record(self, job: Job, position: int) -> Record | None:
        """The last run of an element that has ended; None when it did not run."""
        with self._answering():
            low = position * _RECORD.size
            packed = self.client.getrange(self._key("rec", job.id), low, low + _RECORD.size - 1)
            if len(packed) < _RECORD.size or not any(packed):
                return None
            begun, milliseconds, code, number = _RECORD.unpack(packed)
            name = self.client.hget(self._key("numbers"), str(number)) or b""
        return Record(float(begun), milliseconds / 1000, code, name.decode())

    def output(self, job: str, position: int) -> tuple[int, bytes]:
        """How long the output of an element is, and the end of it that is kept."""
        with self._answering():
            packed = self.client.hget(self._key("out", job), str(position))
        if not packed:
            return 0, b""
        return _LENGTH.unpack_from(packed)[0], packed[_LENGTH.size :]

    def where(self, job: str, position: int) -> str | None:
        """The worker that runs an element; None when it does not run."""
        with self._answering():
            said = self.client.hget(self._key("own", job), str(position))
        return said.decode().split()[0] if said else None

    def is_to_end(self, job: str, position: int) -> bool:
        """Whether a running element was cancelled."""
        with self._answering():
            said = self.client.hget(self._key("own", job), str(position))
        return said is not None and said.endswith(b" c")

    def history(self, job: str) -> list[tuple[int, int, float, str]]:
        """What happened beside running once: first and last position, time, and what."""
        with self._answering():
            lines = self.client.lrange(self._key("hist", job), 0, -1)
        found = (json.loads(line) for line in lines)
        return [(int(low), int(high), float(when), what) for low, high, when, what in found]

    def counts(self) -> dict[tuple[str, str], int]:
        """How many elements there are by demand class, and by state: the number of one, or `h` for
        those that wait for other jobs."""
        with self._answering():
            return _counted(self.client.hgetall(self._key("count")))

    def begun(self) -> dict[str, int]:
        """How many runs have begun, by definition."""
        with self._answering():
            packed = self.client.hgetall(self._key("begun"))
        return {name.decode(): int(number) for name, number in packed.items()}

    def ran(self) -> dict[str, tuple[int, float]]:
        """How many runs have ended by themselves and how many seconds these took in all, by
        definition."""
        with self._answering():
            packed = self.client.hgetall(self._key("ran"))
        numbers = {name.decode(): int(number) for name, number in packed.items()}
        names = {name.rpartition("/")[0] for name in numbers}
        return {
            name: (numbers.get(f"{name}/runs", 0), numbers.get(f"{name}/ms", 0) / 1000)
            for name in names
        }

    def note_cluster(self, seen: Mapping[str, Any]) -> None:
        """Keep what the last pass of the loop has seen of the cluster, for metrics."""
        with self._answering():
            self.client.set(self._key("cluster"), json.dumps({**seen, "time": self._now()}))

    def cluster(self) -> dict[str, Any]:
        """What the last pass has seen: `time`, workers `wanted` by definition, `regions` and their
        `weights`; empty before the first one."""
        with self._answering():
            packed = self.client.get(self._key("cluster"))
        return dict(json.loads(packed)) if packed else {}

    def note_reason(self, kind: str, reason: str) -> None:
        """Keep why jobs of a demand class, or of a definition, wait for workers; an empty text:
        they do no more."""
        with self._answering():
            if reason:
                self.client.hset(self._key("why"), kind, reason)
            else:
                self.client.hdel(self._key("why"), kind)

    def reasons(self) -> dict[str, str]:
        """Why jobs wait for workers, by demand class or definition, as the loop said last."""
        with self._answering():
            found = self.client.hgetall(self._key("why"))
        return {kind.decode(): reason.decode() for kind, reason in found.items()}

    def may_search(self, seconds: float) -> bool:
        """Whether nobody has searched for forgotten jobs for so many seconds."""
        with self._answering():
            milliseconds = max(1, int(seconds * 1000))
            return bool(self.client.set(self._key("searched"), b"", nx=True, px=milliseconds))

    def last_id(self) -> int:
        """The id of the job that was submitted last; 0 before the first."""
        with self._answering():
            return int(self.client.get(self._key("seq")) or 0)

    def some_open(self, cursor: int, least: int) -> tuple[int, list[str]]:
        """The ids of some jobs that have not ended, in no order, and where the next call goes on:
        at 0 when all were returned since it began there. A twentieth of them, so many at least."""
        with self._answering():
            name = self._key("open")
            many = max(least, self.client.scard(name) // 20)
            after, found = self.client.sscan(name, cursor, count=many)
        return int(after), [one.decode() for one in found]

    def overtaken(self) -> dict[str, Any]:
        """What the last search for overtaken jobs has kept for the next; empty before the first."""
        with self._answering():
            packed = self.client.get(self._key("overtaken"))
        return dict(json.loads(packed)) if packed else {}

    def keep_overtaken(self, found: Mapping[str, Any]) -> None:
        """Keep something for the next search."""
        with self._answering():
            self.client.set(self._key("overtaken"), json.dumps(dict(found)))

    def exchange_looks(self, found: Mapping[str, int]) -> dict[str, int]:
        """Keep what a search has found, runs begun by definition; what the last one had found."""
        with self._answering():
            before = self.client.getset(self._key("looks"), json.dumps(dict(found)))
        return dict(json.loads(before)) if before else {}

    def lead(self, worker: str, seconds: float) -> bool:
        """Whether a worker is the leader for the next seconds: nobody else is, and it asked."""
        name, milliseconds = self._key("leader"), max(1, int(seconds * 1000))
        with self._answering():
            if self.client.set(name, worker, nx=True, px=milliseconds):
                return True
            if self.client.get(name) != worker.encode():
                return False
            return bool(self.client.pexpire(name, milliseconds))


def _paired(packed: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """The fields of a hash, as a script returns them, with their values."""
    return zip(packed[::2], packed[1::2], strict=True)


def _counted(packed: Mapping[bytes, bytes]) -> dict[tuple[str, str], int]:
    """How many elements there are, by demand class and state."""
    found = {}
    for name, number in packed.items():
        kind, _, state = name.decode().rpartition("/")
        found[kind, state] = int(number)
    return found


_WAITING = re.compile(b"[" + b"".join(b"\\x%02x" % (8 * tries) for tries in range(32)) + b"]+")
