"""The doors of a pass that is decided again: what came in through them stands in its record.

Whoever asks what was not asked then is told so by a `NotInRecord`: the pass goes another way.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from hpc.autoscale import clock
from hpc.autoscale.ccbindings.modelbase import Model
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    NodeCreationResult,
    NodeList,
    NodeManagementResult,
)
from hpc.autoscale.ccbindings.selection import RefusingBinding, Selection
from hpc.autoscale.ccbindings.several import Member, SeveralClusters, SeveralStatus
from hpc.autoscale.commands import Ran
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.driver import (
    SchedulerDriver,
    add_ccnodeid_default_resource,
)
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.journal.changes import changed, given
from hpc.autoscale.journal.listening import COMMANDS
from hpc.autoscale.journal.raised import again
from hpc.autoscale.journal.recording import names_of, resource_rows
from hpc.autoscale.journal.records import PassRecord, key_of_node, status_of, status_rows
from hpc.autoscale.journal.snapshots import host_from, jobs_from
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.onpremises.workers import RunEach, State
from hpc.autoscale.workers.demand import DEFINITION, NODES

Answer = Mapping[str, Any]
M = TypeVar("M", bound=Model)

_PLACE = ("nodearray", "vm_size", "location")
"""What buckets differ in that may offer other resources, beside their placement groups."""


class NotInRecord(AutoscaleError):
    """A pass that is decided again asks what it did not ask when it was recorded."""


class Tape:
    """What came in through the doors of one pass, in the order in which it is asked for again."""

    def __init__(self, record: PassRecord) -> None:
        self.record = record
        self.odd: list[str] = []
        self._answers: defaultdict[tuple[Any, ...], deque[Answer]] = defaultdict(deque)
        self._turn = threading.Lock()
        self.told: Callable[[Answer], object] = lambda answer: None
        for call in record.doors.get("calls", ()):
            self._answers[_key(call)].append(call)

    def next(self, *key: Any) -> Answer:
        """The next answer of a door. Raises what was raised then."""
        with self._turn:
            answers = self._answers[key]
            if not answers:
                said = " ".join(str(each) for each in key if each is not None)
                self.odd.append(f"it asks for {said}, which the recorded pass did not")
                raise NotInRecord(self.odd[-1])
            found = answers.popleft()
            self.told(found)
        if "error" in found:
            raise again(found["error"])
        return found

    def has(self, *key: Any) -> bool:
        """Whether there is an answer left of a door."""
        return bool(self._answers.get(key))

    def left(self) -> list[str]:
        """What nobody has asked for again."""
        return [
            f"it does not ask for {' '.join(str(e) for e in key if e is not None)}, which the"
            " recorded pass did"
            for key, answers in self._answers.items()
            if answers
        ]


def _key(call: Answer) -> tuple[Any, ...]:
    door = call["door"]
    if door == "status":
        return (door, bool(call["asked"]))
    if door in ("hook", "workers"):
        return (door, call["name" if door == "hook" else "doing"])
    if door == "command":
        return (door, call["call"], call.get("id"))
    return (door, call["id"]) if door == "listing" else (door,)


class JournalClock(clock.Clock):
    """Says what time a pass was told then, and the threads that work for it. Waiting takes no
    time."""

    def __init__(self, tape: Tape) -> None:
        doors = tape.record.doors
        self._times = deque(doors.get("clock", ()))
        self._beside = deque(doors.get("clock_beside", ()))
        self._thread = threading.get_ident()
        self._now = tape.record.at
        self._booted_at: float | None = doors.get("booted_at")
        self._asked_more = False

    def time(self) -> float:
        if threading.get_ident() != self._thread:
            with suppress(IndexError):  # how often threads ask depends on how they take turns
                self._now = self._beside.popleft()
            return self._now
        if self._times:
            self._now = self._times.popleft()
        else:
            self._asked_more = True
        return self._now

    def sleep(self, n: float) -> None:
        pass

    def booted_at(self) -> float | None:
        return self._booted_at

    def odd(self) -> list[str]:
        """How often the time was asked for, where that is not as often as then. By itself that is
        another version of the program, and no other decision."""
        if not (self._asked_more or self._times):
            return []
        how = "more" if self._asked_more else "less"
        return [f"it asks for the time {how} often than the recorded pass did"]


class JournalBinding(RefusingBinding):
    """The cluster as a record has it."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._record = tape.record
        cluster = self._record.doors.get("cluster") or {}
        self._name = str(cluster.get("name") or self._record.config.get("cluster_name"))
        self._where = str(cluster.get("where") or f"cluster {self._name}")

    @property
    def cluster_name(self) -> str:
        return self._name

    @property
    def where(self) -> str:
        return self._where

    def __str__(self) -> str:
        return f"JournalBinding({self._name})"

    def __deepcopy__(self, memo: object) -> JournalBinding:
        return self

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        found = self._tape.next("status", nodes)
        status = self._status(found)
        if nodes:
            status.nodes = self._nodes(found)
        return status

    def _status(self, found: Answer) -> ClusterStatus:
        rows = status_rows(self._record.status)
        known = dict(zip(rows.keys, rows.values, strict=True))
        return ClusterStatus.from_dict(status_of(changed(known, found.get("status"))))

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        if operation_id is None and request_id is None:
            return NodeList.from_dict({"nodes": self._nodes(self._tape.next("nodes"))})
        return _answer(NodeList, self._tape.next("listing", operation_id or request_id))

    def _nodes(self, found: Answer) -> list[Any]:
        known = {str(key_of_node(each)): each for each in self._record.nodes}
        return list(changed(known, found.get("nodes")).values())

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        self._tape.next("check")

    def create_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeCreationResult:
        return _answer(NodeCreationResult, self._tape.next("command", "create_nodes", request_id))

    def delete_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeManagementResult:
        return self._told("delete_nodes", request_id)

    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        return self._told(f"{action}_nodes", request_id)

    def _told(self, call: str, request_id: str | None) -> NodeManagementResult:
        if call not in COMMANDS:
            raise self._refusal(call)
        found = self._tape.next("command", call, request_id)
        answer = _answer(NodeManagementResult, found)
        answer.is_worked_out = bool(found.get("is_worked_out"))
        return answer

    def _refusal(self, call: str) -> NotInRecord:
        return NotInRecord(f"no record has {call}")


class JournalClusters(JournalBinding, SeveralClusters):
    """Several clusters as a record has them; those that were set aside are, after the same
    question as then."""

    never_read: tuple[str, ...] = ()

    def __init__(self, tape: Tape) -> None:
        JournalBinding.__init__(self, tape)
        cluster = tape.record.doors["cluster"]
        SeveralClusters.__init__(self, members_of(cluster))
        self._take_news(cluster)
        tape.told = self._take_news

    def __deepcopy__(self, memo: object) -> JournalClusters:
        return self

    def _take_news(self, found: Answer) -> None:
        if "away" in found:
            self.away = dict(found["away"])
            self.never_read = tuple(found["never_read"])

    def _status(self, found: Answer) -> ClusterStatus:
        """The union, with the status of each cluster."""
        rows = status_rows(self._record.status)
        known = dict(zip(rows.keys, rows.values, strict=True))
        return union_of(status_of(changed(known, found.get("status"))))

    def as_read(self) -> tuple[ClusterStatus, NodeList]:
        found = self._tape.next("as_read")
        return self._status(found), NodeList.from_dict({"nodes": self._nodes(found)})


def _answer(kind: type[M], found: Answer) -> M:
    """An answer as it was recorded. InvalidModel, which names what is wrong, where it is none."""
    answer = kind.from_dict(found.get("answer") or {})
    answer.validate()
    return answer


def union_of(recorded: Mapping[str, Any]) -> SeveralStatus:
    """The status of several clusters as a record has it, with that of each."""
    plain = ClusterStatus.from_dict(recorded)
    parts = {n: ClusterStatus.from_dict(each) for n, each in recorded.get("parts", {}).items()}
    return SeveralStatus(
        parts,
        list(recorded.get("problems", ())),
        state=plain.state,
        target_state=plain.target_state,
        max_count=plain.max_count,
        max_core_count=plain.max_core_count,
        nodearrays=[array for part in parts.values() for array in part.nodearrays or ()],
    )


def members_of(cluster: Answer) -> Iterator[Member]:
    """The clusters that a record names, each of which only says which one it is."""
    for name, where in cluster["members"].items():
        yield Member(name, cast(Any, _Place(str(where))))


class _Place:
    """Which cluster of which server one of several clusters is."""

    def __init__(self, where: str) -> None:
        self.where = where


def binding_of(tape: Tape) -> JournalBinding:
    """The cluster of a record, or its clusters. Raises what was raised then where there was no way
    to ask it, as without a password."""
    if tape.has("binding"):
        tape.next("binding")
    cluster = tape.record.doors.get("cluster") or {}
    return JournalClusters(tape) if "members" in cluster else JournalBinding(tape)


def runs_workers(tape: Tape) -> RunEach:
    """What came of the commands of hosts on premises then; nothing is run."""

    def run(
        doing: State, commands: Mapping[str, Sequence[str]], timeouts: Mapping[str, float]
    ) -> dict[str, Ran]:
        found = tape.next("workers", doing)
        if list(commands) != found["asked"]:
            what = _other_nodes(found["asked"], list(commands))
            tape.odd.append(f"{doing} of workers is called with {what}")
        return {name: Ran(*ran) for name, *ran in found["ran"] if name in commands}

    return run


class JournalDriver(SchedulerDriver):
    """The scheduler as a record has it."""

    def __init__(self, tape: Tape, home: str) -> None:
        super().__init__(str(tape.record.doors.get("driver") or tape.record.by.get("driver")))
        self._tape = tape
        self._record = tape.record
        self._home = home
        self._called: defaultdict[str, int] = defaultdict(int)

    @property
    def autoscale_home(self) -> str:
        return self._home

    def __str__(self) -> str:
        return str(self._record.by.get("scheduler"))

    __repr__ = __str__

    def initialize(self) -> None:
        pass

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        return config

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        found = self._tape.next("reading")
        jobs: list[Any] = jobs_from(self._rows("jobs", "name", found))
        hosts: list[Any] = [host_from(each) for each in self._rows("hosts", "hostname", found)]
        return jobs, hosts

    def _rows(self, name: str, key: str, found: Answer) -> Iterable[Mapping[str, Any]]:
        from hpc.autoscale.journal.changes import Rows

        rows = Rows.of(getattr(self._record, name), lambda each: each.get(key))
        known = dict(zip(rows.keys, rows.values, strict=True))
        return changed(known, found.get(name)).values()

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        """What nodes of each bucket offer, and placement groups, become what they were."""
        self._raise_what_was_raised("preprocess_node_mgr")
        wanted: Mapping[str, Any] = self._record.doors.get("lists", {}).get("resources", {})
        if any("ccnodeid" in each for each in wanted.values()):
            add_ccnodeid_default_resource(node_mgr)
        known = _by_row(node_mgr.get_buckets())
        for key in wanted:
            name = given(key)
            bucket, _, group = name.rpartition("/")
            without = known.get(f"{bucket}/{key.removeprefix(name)}")
            if group and key not in known and without is not None:
                node_mgr.add_placement_group(group, without)
        for key, each in _by_row(node_mgr.get_buckets()).items():
            where = {f"node.{own}": getattr(each, own) for own in _PLACE}
            for name, value in wanted.get(key, {}).items():
                # what tells workers apart differs from node to node, and the loop defines it
                if name not in each.resources and name not in (DEFINITION, NODES):
                    node_mgr.add_default_resource(where, name, value)

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        self._raise_what_was_raised("validate_nodes")
        found = self._record.doors.get("validated") or {}
        gone = set(found.get("gone", ()))
        scheduler_nodes[:] = [h for i, h in enumerate(scheduler_nodes) if i not in gone]
        failed = set(found.get("failed", ()))
        for node in cc_nodes:
            if node.delayed_node_id.node_id in failed:
                node.state = type(node.state)("Failed")

    def wanted_arrays(self, config: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        self._raise_what_was_raised("wanted_arrays")
        return list(self._record.doors.get("wanted", ()))

    def new_node_history(self, config: dict[str, Any]) -> NodeHistory:
        self._raise_what_was_raised("new_node_history")
        return super().new_node_history(config)

    def _raise_what_was_raised(self, hook: str) -> None:
        """In a hook of which nothing else is in the record, the error that ended the pass."""
        raised = self._record.doors.get("raised")
        if raised and raised["hook"] == hook:
            raise again(raised["error"])

    def new_node_queue(self, config: dict[str, Any]) -> NodeQueue:
        self._raise_what_was_raised("new_node_queue")
        if self._record.by.get("queue") != "own":
            return NodeQueue()
        return _AsGiven(self._record.doors.get("lists", {}).get("given:add_nodes_to_cluster", ()))

    def new_singleton_lock(self, config: dict[str, Any]) -> Any:
        from hpc.autoscale.util import NullSingletonLock

        return NullSingletonLock()

    # -- hooks

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_failed_nodes", nodes)

    def handle_undraining(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_undraining", nodes)

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        return self._hook("add_nodes_to_cluster", nodes)

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_post_join_cluster", nodes)

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_boot_timeout", nodes)

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_draining", nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        return self._hook("handle_post_delete", nodes)

    def _hook(self, hook: str, nodes: list[Node]) -> list[Node]:
        """Those of the nodes that the driver returned then. What it was called with is held against
        what it was called with then."""
        number = self._called[hook]
        self._called[hook] += 1
        name = f"{hook}:{number}" if number else hook
        lists = self._record.doors.get("lists", {})
        names = names_of(nodes)
        given, before = names, lists.get(f"given:{name}", [])
        if given != before:
            self._tape.odd.append(f"{hook} is called with {_other_nodes(before, given)}")
        found = self._tape.next("hook", hook)
        if "odd" in found:
            odd: Any = None if found["odd"] == "None" else _Odd(found["odd"])
            return [odd] if found["among"] else odd
        if not found.get("returned"):
            return nodes
        back = set(lists.get(f"returned:{name}", ()))
        return [node for node, name in zip(nodes, names, strict=True) if name in back]


class _AsGiven(NodeQueue):
    """Nodes in the order in which a driver that has an order of its own was given them; others come
    after them."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._places = {name: -place for place, name in enumerate(names)}

    def node_priority(self, node: Node) -> float:
        return self._places.get(names_of([node])[0], -len(self._places))


def _by_row(buckets: Sequence[NodeBucket]) -> dict[str, NodeBucket]:
    """Buckets by the keys of their rows in a record. Those of several clusters may look alike."""
    return dict(zip(resource_rows(buckets).keys, buckets, strict=True))


class _Odd:
    """What a hook returned that is no node."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return self._shown


def _other_nodes(before: Sequence[str], given: Sequence[str]) -> str:
    more, less = sorted(set(given) - set(before)), sorted(set(before) - set(given))
    if not (more or less):
        return "the nodes in another order"
    return f"{_some(more) or 'no node'} more and {_some(less) or 'no node'} less"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} others" if len(names) > 3 else shown
