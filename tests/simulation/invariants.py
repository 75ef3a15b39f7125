"""What must never happen, checked after every step against what is true in the world.

Truth is the simulator's own model and the scheduler's own state, and not what the autoscaler was
told. Each check is a method that raises `Violation` with the name of the invariant.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.autoscaler.summary import PassError
from hpc.autoscale.node.requests import OLD_SECONDS
from hpc.autoscale.node.vm_sizes.prices import price_per_hour
from hpc.autoscale.simulator.lifecycle import Phase
from hpc.autoscale.simulator.nodes import SimNode
from simulation.script import (
    BOOT_TIMEOUT,
    CORES,
    HTC,
    IDLE_TIMEOUT,
    INTERVAL,
    MPI,
    REGION,
    SIZES,
    SPOT,
    Work,
)

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.scheduler import Host, Told
    from simulation.world import World

_OF_A_PASS = (
    "_begun_at",
    "_asked",
    "_deleted",
    "_room",
    "_told_to_end",
    "_looked_again",
    "_looked_at",
    "_offerings",
    "_nodes_before",
    "_listed",
)
_AT_REST = 400.0
"""For at least so many seconds, a little more than an interval, a bucket is left alone whose nodes
do not boot."""
_PASSES_OF_A_GANG = 16
"""In so many passes in a row that went well a gang may keep nodes that are too few: a deadline and
a minimum lifetime are over by then."""
_BOOTING = frozenset({Phase.ALLOCATION, Phase.ACQUIRING, Phase.PREPARING})
_UNEXPLAINED = re.compile(r"(?:Key|Type|Attribute|Index|Value|Assertion|Recursion|Name)Error\b")
_REMOVING = frozenset({"terminate", "shutdown", "remove", "deallocate"})

COMMANDS = "a command names nodes of the cluster and nothing else"

PATIENCE = "no node is deleted before its idle time is over"

BREAKER = "no node is made where two in a row have just failed to boot"

READY = "no node is deleted that was ready when the cluster was looked at again"

MACHINES = "no more machines are made for a need than one and those that have failed"

PLAN = "no more is spent than planned"

GANGS = "no gang keeps nodes for ever that are too few for it"

INVARIANTS = (
    COMMANDS,
    "no limit is exceeded",
    "no busy node is deleted",
    "no node is deleted that is to be kept",
    PATIENCE,
    READY,
    "no node is created twice for one need",
    "no node is deleted without fresh evidence",
    "no node is deleted where one like it is made",
    "no node is made for a cluster that ends",
    BREAKER,
    MACHINES,
    GANGS,
    "no node is leaked",
    "every job that can run does",
    PLAN,
    "no pass ends in an error of Python",
)


class Violation(BaseException):
    """An invariant does not hold. Nothing that the library catches."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


@dataclass
class Opened:
    """What is known of a nodearray of which two nodes in a row did not boot: when the last was told
    of, and how often nodes that were tried since then have failed."""

    at: float
    times: int = 1

    @property
    def rest(self) -> float:
        """For how many seconds it rests by now; a fifth of it may be left out."""
        return min(3600.0, 600.0 * 2.0 ** (self.times - 1))


class Watch:
    """Watches a world.

    `home` is the directory of its files, `process` the process that runs now; `others` is true
    while somebody else makes nodes; `reserved` are nodes that a person was told to leave alone.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.process: Process | None = None
        self.others = False
        self.ready_at: dict[str, float] = {}
        self.reserved: set[str] = set()
        self.home = "~"
        self.trace: list[str] = []
        self.passes = 0
        self.failed_passes = 0
        self.created_nodes: list[str] = []
        self.most_nodes = 0
        self.dollars_per_hour = 0.0
        self._seen: set[str] = set()
        self._unwanted: set[str] = set()
        self._foreign: dict[str, float] = {}
        self._executed: dict[str, float] = {}
        self._late: dict[str, float] = {}
        self._seen_idle: Counter[str] = Counter()
        self._seen_busy: dict[str, float] = {}
        self._born: dict[str, float] = {}
        self._begun_at = 0.0
        self._asked: Counter[str] = Counter()
        self._deleted: set[str] = set()
        self._room: dict[str, int] = {}
        self._told_to_end = False
        self._looked_again = False
        self._looked_at = 0.0
        self._offerings: set[tuple[str, str | None]] = set()
        self._nodes_before: list[SimNode] = []
        self._listed = 0
        self._ahead = 0.0
        self._boot_failed: dict[str, str] = {}
        self._seen_booting: set[str] = set()
        self._made_now: list[str] = []
        self._told_failed: dict[str, tuple[str, float]] = {}
        self._may_know_failed: dict[str, float] = {}
        self._told_ready: set[str] = set()
        self._booted_at: dict[str, float] = {}
        self._kept_short: Counter[str] = Counter()
        self._may_go: dict[str, float] = {}
        self._opened: dict[str, Opened] = {}
        self._planned: dict[str, list[Counter[str]]] = defaultdict(list)
        self._made_for: dict[str, Counter[str]] = defaultdict(Counter)

    @property
    def made(self) -> int:
        """How many nodes were made."""
        return len(self.created_nodes)

    def note(self, text: str) -> None:
        """Write into the trace of the day."""
        self.trace.append(f"{self.world.hour} {text.replace(self.home, '~')}")

    # -- passes

    def ended(self) -> None:
        """A process has ended, or a pass of it."""
        self._note_unwanted()

    def begin_pass(self, process: Process) -> None:
        """A process begins a pass."""
        self.passes += process.name == "main"
        self._begun_at = self.world.now
        self._asked.clear()
        self._deleted = set()
        self._room.clear()
        self._told_to_end = self._looked_again = False
        self._offerings = set()
        self._nodes_before = list(self.world.cloud.orchestrator.nodes.values())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What is known of the pass in hand is put back after this block."""
        kept = {name: copy(getattr(self, name)) for name in _OF_A_PASS}
        yield
        vars(self).update(kept)

    def end_pass(self, process: Process, errors: Iterable[PassError]) -> None:
        """A pass is over."""
        self.ended()
        said = [str(error) for error in errors]
        self.note(f"pass of {process.name}: {'; '.join(said) or 'ok'}"[:400])
        if process.name == "main":
            self._check_gangs(process, bool(said))
            self._seen_booting.update(() if said else self._made_now)
            self._made_now = []
        if not said:
            self._seen_busy.update(dict.fromkeys(process.told.busy, self._begun_at))
            for node_id in process.told.busy:
                self._seen_idle[node_id] = 0
        self.failed_passes += bool(said)
        for text in said:
            if _UNEXPLAINED.search(text):
                raise Violation("no pass ends in an error of Python", text)

    # -- commands

    def before_command(self, path: str, body: Mapping[str, Any]) -> None:
        """A command has arrived at the server, and is about to be carried out."""
        if self.process is None:
            return
        action = path.rpartition("/")[2]
        if action in _REMOVING:
            self._check_deletions(self.process, body.get("ids") or ())
            self._may_go.update(dict.fromkeys(body.get("ids") or (), self.world.now))
        if action != "create":
            return
        # an id whose request was lost is used again, for what is wanted by then
        sent = json.dumps([body.get("requestId"), body["sets"]], sort_keys=True)
        if sent in self._seen:
            return
        self._seen.add(sent)
        asked = Counter[str]()
        for each in body["sets"]:
            asked[each["nodearray"]] += each["count"]
            self._offerings.add((each["nodearray"], each.get("placementGroupId")))
        self.note(f"{self.process.name} asks for {dict(asked)}")
        self._planned[str(body.get("requestId"))].append(asked)
        if self.process.name == "person":
            return  # who may make what they like
        self._asked += asked
        if self._told_to_end:
            raise Violation("no node is made for a cluster that ends", str(dict(asked)))
        self._check_limits()
        self._check_breaker(asked)
        self._check_machines(asked)
        self._check_plan(self.process)
        self._check_need(self.process)

    def answered(self, body: Mapping[str, Any], status: int) -> None:
        """The server's own answer to a command has come back; it settles what becomes of nodes
        that it was told to remove."""
        if status < 500 and status != 429:
            for node_id in body.get("ids") or ():
                self._may_go.pop(node_id, None)

    def _check_deletions(self, process: Process, ids: Sequence[str]) -> None:
        """What one command may delete, and what one pass may."""
        by_hand = process.name == "person"
        if by_hand:
            self._unwanted.update(ids)  # the loop may finish that
        for node_id in ids:
            if node_id not in self._born:
                raise Violation(COMMANDS, f"{node_id} is none of them")
            if by_hand and node_id in self.reserved:
                raise Violation("no node is deleted that is to be kept", f"{node_id} is not free")
            self._check_deletion(node_id, by_hand)
        if by_hand:
            return
        if process.readings < 2 or not self._looked_again:
            raise Violation(
                "no node is deleted without fresh evidence",
                f"the scheduler was read {process.readings} times in this pass, and the cluster"
                f" {'twice' if self._looked_again else 'once'}",
            )
        self._deleted.update(ids)
        most, before = self.world.script.shape.max_deletes, self._nodes_before
        if most is not None and len(self._deleted) > most:
            raise Violation(
                "no limit is exceeded",
                f"{len(self._deleted)} nodes are deleted in one pass, of which {most} may be",
            )
        every = max(len(before), self._listed)
        if sum(node.counts for node in before) > 20 and len(self._deleted) > every / 2:
            raise Violation(
                "no limit is exceeded",
                f"{len(self._deleted)} of {every} nodes are deleted in one pass",
            )

    def _check_deletion(self, node_id: str, by_hand: bool) -> None:
        """A node that somebody still needs, or needed a moment ago, is not to go."""
        node = self.world.cloud.orchestrator.nodes.get(node_id)
        if node is None or node.phase is not Phase.READY:
            return
        host = self.world.scheduler.hosts.get(node_id)
        if host is not None and host.busy:
            raise Violation(
                "no busy node is deleted", f"{node.name} runs {sum(host.running.values())} tasks"
            )
        if node.is_set("KeepAlive"):
            raise Violation("no node is deleted that is to be kept", node.name)
        if by_hand:
            return
        # a host that has less than its machine may be too small for what is made
        is_weak = host is not None and host.cores < node.machine_type.vcpus
        if (node.nodearray.name, node.placement_group) in self._offerings and not is_weak:
            raise Violation(
                "no node is deleted where one like it is made", f"{node.name} in the same pass"
            )
        # what becomes ready after the second look at the cluster, nobody can know: the server may
        # ask for some time before it takes the command, and it comes and is carried out later
        if self._begun_at <= self.ready_at.get(node_id, 0.0) <= self._looked_at:
            raise Violation(READY, node.name)
        self._note_unwanted()
        if node_id not in self._unwanted:
            self._check_patience(node)

    def _note_unwanted(self) -> None:
        """Nodes that are late go, and those of which too few others of their gang came; a later
        pass may have to finish that, also when this one is killed."""
        calculator = self.process.calculator if self.process else None
        if calculator is not None:
            why = calculator.node_mgr.gate.facts.why
            self._unwanted.update(
                str(key) for key, each in why.items() if each in ("gang", "overdue")
            )

    def _check_patience(self, node: SimNode) -> None:
        """An idle node has been idle, and there, for as long as it should."""
        shape, node_id, now = self.world.script.shape, node.node_id, self.world.now
        born, strange = self._born[node_id], self.world.strange_time_at
        seen = self._seen_idle[node_id]
        if seen < (shape.min_idle_passes or 1):
            raise Violation(PATIENCE, f"{node.name} was seen idle {seen} times")
        if shape.min_lifetime and strange < born and now - born < shape.min_lifetime:
            raise Violation(PATIENCE, f"{node.name} has been there for {now - born:.0f} s")
        idle_for = now - self._seen_busy.get(node_id, born)
        if idle_for < IDLE_TIMEOUT:
            raise Violation(PATIENCE, f"{node.name} was seen at work {idle_for:.0f} s ago")

    def _check_limits(self) -> None:
        most = self.world.script.shape.max_new
        if most is not None and self._asked.total() > most:
            raise Violation(
                "no limit is exceeded",
                f"{self._asked.total()} nodes are asked for in one pass, of which {most} may be",
            )
        for array, count in self._asked.items():
            left = self._room.get(array)
            if left is not None and count > left:
                raise Violation(
                    "no limit is exceeded",
                    f"{count} nodes of {array} are asked for, the status had room for {left}",
                )
        for what, arrays in (("quota", (HTC, MPI)), ("spot quota", (SPOT,))):
            cores = sum(self._asked[array] * CORES[array] for array in arrays)
            left = self._room.get(what)
            if left is not None and cores > max(0, left):
                raise Violation(
                    "no limit is exceeded",
                    f"{cores} cores are asked for, the status had {left} left of the {what}",
                )

    def told_status(self, kind: str, status: int, body: bytes) -> None:
        """A process was told the status of the cluster as it is: how much room there is."""
        if status != 200:
            return
        value = json.loads(body)
        self._room = _room(value)
        self._told_to_end = value["targetState"] == "Terminated"
        self._looked_again = kind == "status_nodes"
        self._looked_at = self.world.now

    def told_jobs(self) -> None:
        """A process was told by the scheduler which nodes are at work; those that are count when
        its pass is over, because it may not live to write that down."""
        self._seen_idle.update(self.world.scheduler.hosts.keys() | self.ready_at.keys())

    def told_nodes(self, count: int, is_true: bool) -> None:
        """A process was told of so many nodes, as they are or once were."""
        self._listed = count
        if self.process is None or self.process.name != "main":
            return
        if not is_true:
            for node_id in self._boot_failed:
                self._may_know_failed.setdefault(node_id, self.world.now)
            return
        for node in self.world.cluster.nodes():
            node_id, array = node.node_id, node.nodearray.name
            if node.phase in _BOOTING:
                self._seen_booting.add(node_id)
            elif node.phase is Phase.READY and node_id not in self._told_ready:
                self._told_ready.add(node_id)
                self._booted_at[array] = self.world.now
            elif node_id in self._boot_failed and node_id in self._seen_booting:
                self._tell_failed(node_id, array)

    def _tell_failed(self, node_id: str, array: str) -> None:
        """A process was told of a node that did not boot."""
        now = self.world.now
        if node_id in self._told_failed:
            return
        since = max(now - 3000.0, self._nothing_known_before(array))
        before = [at for where, at in self._told_failed.values() if where == array and at > since]
        # a reply of before may have said so already: then the rest began with that
        now = self._may_know_failed.get(node_id, now)
        self._told_failed[node_id] = array, now
        opened = self._opened.get(array)
        if opened is not None and opened.at > self._nothing_known_before(array):
            opened.times += now >= opened.at + opened.rest
            opened.at = max(opened.at, now)
        elif before:
            self._opened[array] = Opened(now)

    def _nothing_known_before(self, array: str) -> float:
        """When a node of a nodearray was last told of as ready, or what is known of it could not be
        written down or was of another time."""
        strange, full = self.world.strange_time_at, self.world.disk_was_full_at
        return max(self._booted_at.get(array, 0.0), strange, full)

    def boot_failed(self, node_id: str, array: str) -> None:
        """A node ended while it booted."""
        if node_id not in self.ready_at:
            self._boot_failed[node_id] = array

    def _check_breaker(self, asked: Mapping[str, int]) -> None:
        """A bucket whose nodes do not boot is left alone for a while, once that is known and could
        be written down."""
        now = self.world.now
        for array in asked:
            since = max(now - _AT_REST, self._nothing_known_before(array))
            failed = [at for where, at in self._told_failed.values() if where == array]
            lately = [at for at in failed if at > since]
            if len(lately) >= 2:
                raise Violation(
                    BREAKER, f"{asked[array]} of {array}, where {len(lately)} have just failed"
                )

    def _check_machines(self, asked: Mapping[str, int]) -> None:
        """Where two nodes in a row did not boot, one is tried at a time: so the machines that are
        made for a need are one, and those that have failed.

        Where no node was tried for twice as long as the rest, any number may be asked for: a gang
        could not be helped by one.
        """
        now = self.world.now
        for array, count in asked.items():
            opened = self._opened.get(array)
            if opened is None or opened.at <= self._nothing_known_before(array):
                continue
            if now < opened.at + 3 * 0.8 * opened.rest and count > 1:
                raise Violation(
                    MACHINES,
                    f"{count} of {array} at once, of which two or more did not boot, and"
                    f" {opened.times - 1} that were tried since",
                )

    def _check_gangs(self, process: Process, has_failed: bool) -> None:
        """Nodes of gangs that have no work, and of which more are wanted than there are."""
        if has_failed or self.world.now - self.world.strange_time_at < INTERVAL:
            self._kept_short.clear()
            return
        jobs = self.world.scheduler.jobs
        gangs = [jobs[number].work.nodes for number in process.told.waiting]
        least = min((nodes for nodes in gangs if nodes), default=0)
        busy = set(process.told.busy)
        idle = [
            node
            for node in self.world.cluster.nodes()
            if node.nodearray.name == MPI
            and node.phase is Phase.READY
            and node.node_id not in busy
            and not node.is_set("KeepAlive")
        ]
        short = {node.node_id for node in idle} if len(idle) < least else set()
        self._kept_short = Counter({each: self._kept_short[each] + 1 for each in short})
        for node_id, passes in self._kept_short.items():
            if passes > _PASSES_OF_A_GANG:
                raise Violation(GANGS, f"{node_id} for {passes} passes")

    def _check_plan(self, process: Process) -> None:
        """What is asked for costs no more than the plan does."""
        if process.calculator is None:
            raise Violation(PLAN, "nodes are asked for without a plan")
        planned = Counter(str(n.nodearray) for n in process.calculator.node_mgr.new_nodes)
        if _dollars(self._asked) > _dollars(planned) + 1e-9:
            raise Violation(
                PLAN,
                f"{dict(self._asked)} is asked for where {dict(planned)} was planned",
            )

    def _check_need(self, process: Process) -> None:
        """No more nodes are asked for than what waits needs beside the nodes that there are."""
        needed = self._needed(process.told)
        for arrays in ((HTC, SPOT), (MPI,)):
            asked = sum(self._asked[array] for array in arrays)
            most = needed[arrays]
            if asked > most:
                raise Violation(
                    "no node is created twice for one need",
                    f"{asked} nodes of {' or '.join(arrays)} are asked for where {most} are needed"
                    f" for {process.told.waiting}",
                )

    def _needed(self, told: Told) -> dict[tuple[str, ...], int]:
        """How many nodes those tasks need at most, beside the nodes that serve."""
        jobs = self.world.scheduler.jobs
        wanted = [(jobs[number].work, tasks) for number, tasks in told.waiting.items()]
        wanted = [(work, tasks) for work, tasks in wanted if work.satisfiable]
        nodes = [node for node in self.world.cluster.nodes() if self._serves(node)]
        htc = [self._free(node, told) for node in nodes if node.nodearray.name == HTC]
        spot = [self._free(node, told) for node in nodes if node.nodearray.name == SPOT]
        narrow = _narrow(wanted)
        whole = sum(tasks for work, tasks in wanted if work.arrays == (SPOT, HTC))
        empty = sum(free == CORES[HTC] for free in htc)
        free_spot = sum(free == CORES[SPOT] for free in spot)
        most = 0
        for taken in (0, min(whole, empty)):
            left = sorted(htc)[: len(htc) - taken]  # the empty ones are taken first
            most = max(most, _new_for(narrow, left) + max(0, whole - taken - free_spot))
        return {
            (HTC, SPOT): most,
            (MPI,): sum(tasks for work, tasks in wanted if work.nodes),
        }

    def _serves(self, node: SimNode) -> bool:
        """Whether a node, as it is in truth, will do work, and whoever plans can know of it."""
        if self._foreign.get(node.node_id, 0.0) >= self._begun_at:
            return False
        if self.world.now - self._may_go.get(node.node_id, -math.inf) <= OLD_SECONDS:
            return False  # nobody knows whether it goes: work is not to be placed there
        host = self.world.scheduler.hosts.get(node.node_id)
        is_new = host is None or host.since >= self._begun_at
        is_silent = is_new and node.node_id in self.world.scheduler.silent
        if node.phase is Phase.READY and not is_silent:
            return host is None or host.takes_work
        age = self.world.now - self._born[node.node_id] + max(0.0, self.world.skew)
        return node.phase in {*_BOOTING, Phase.READY} and age < BOOT_TIMEOUT - INTERVAL

    def _free(self, node: SimNode, told: Told) -> int:
        return told.free.get(node.node_id, CORES[node.nodearray.name])

    # -- what the cloud says

    def created(self, entry: Mapping[str, Any]) -> None:
        """A node came into being."""
        node_id = entry["node_id"]
        self.created_nodes.append(entry["nodearray"])
        if not self.others:
            self._check_once(str(entry.get("request_id")))
            self._check_spending(str(entry.get("request_id")), entry["nodearray"])
        self._born[node_id] = self.world.now
        if self.others:
            self._foreign[node_id] = self.world.now
        elif self.process is not None and self.process.name == "main":
            self._made_now.append(node_id)
        alive = sum(node.counts for node in self.world.cloud.orchestrator.nodes.values())
        self.most_nodes = max(self.most_nodes, alive)

    def _check_spending(self, request_id: str, array: str) -> None:
        """What is made for a request costs no more than what was planned when it was sent."""
        made, planned = self._made_for[request_id], self._planned[request_id]
        made[array] += 1
        if not any(_dollars(made) <= _dollars(each) + 1e-9 for each in planned):
            raise Violation(PLAN, f"{dict(made)} is made for request {request_id} of {planned}")

    def sent_late(self, request_id: str) -> None:
        """A request was sent that will arrive at some time."""
        self._late.setdefault(request_id, self.world.now)

    def _check_once(self, request_id: str) -> None:
        """Nodes are made for a request: not if others were made since it was sent, by whoever did
        not know what had become of it."""
        now = self.world.now
        if self._executed.setdefault(request_id, now) < now or request_id not in self._late:
            return
        sent = self._late[request_id]
        between = [r for r, at in self._executed.items() if r != request_id and at > sent]
        if between:
            raise Violation(
                "no node is created twice for one need",
                f"request {request_id} arrives late, and {between[0]} was carried out meanwhile",
            )

    def goes_down(self, entry: Mapping[str, Any]) -> None:
        """A machine ends. It must be one on which nothing runs, where we asked for it."""
        if entry.get("cause") != "rest" or entry.get("action") not in _REMOVING:
            return
        host: Host | None = self.world.scheduler.hosts.get(entry["node_id"])
        self.note(f"{entry['name']} is deleted")
        if host is not None and host.busy:
            raise Violation(
                "no busy node is deleted",
                f"{entry['name']} runs {sum(host.running.values())} tasks",
            )

    def after_request(self) -> None:
        """A request was answered: the limits hold."""
        shape = self.world.script.shape
        alive = Counter(node.nodearray.name for node in self.world.cluster.nodes() if node.counts)
        for array, count in alive.items():
            if count > shape.most[array]:
                raise Violation("no limit is exceeded", f"{count} nodes of {array} exist")

    # -- the end of the day

    def at_the_end(self) -> None:
        """Everything has run that can, and nothing is left."""
        left = [p.work.name for p in self.world.scheduler.jobs.values() if not p.finished]
        if left:
            raise Violation("every job that can run does", f"{', '.join(left)} did not")
        nodes = [f"{node.name} ({node.phase})" for node in self.world.cluster.nodes()]
        if nodes:
            raise Violation("no node is leaked", f"{', '.join(nodes)}")


def _narrow(wanted: Iterable[tuple[Work, int]]) -> list[tuple[int, int]]:
    return [(work.cores, tasks) for work, tasks in wanted if work.arrays == (HTC,)]


def _new_for(narrow: Iterable[tuple[int, int]], free: Iterable[int]) -> int:
    """How many new nodes of htc the tasks need, all of one width, beside nodes with free cores."""
    tasks = sum(count for _, count in narrow)
    width = max((cores for cores, _ in narrow), default=1)
    tasks -= sum(cores // width for cores in free)
    per_node = CORES[HTC] // width
    return max(0, -(-tasks // per_node))


def _dollars(nodes: Mapping[str, int]) -> float:
    return sum(count * _price(array) for array, count in nodes.items())


def _price(array: str) -> float:
    location, size = ht.Location(REGION), ht.VMSize(SIZES[array])
    return price_per_hour(location, size, array == SPOT, stand_in=True) or 1.0


def _room(status: Mapping[str, Any]) -> dict[str, int]:
    """The room that a status tells of: nodes by nodearray, cores by quota."""
    room: dict[str, int] = {}
    for array in status["nodearrays"]:
        name = array["name"]
        bucket = array["buckets"][0]
        room[name] = bucket["availableCount"]
        what = "spot quota" if name == SPOT else "quota"
        room[what] = bucket["regionalQuotaCoreCount"] - bucket["regionalConsumedCoreCount"]
    return room
