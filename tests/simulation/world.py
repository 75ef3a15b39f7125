"""What a day happens in: virtual time, the cloud, the scheduler, and what goes wrong with them.

One agenda has everything that is due. Time moves only when somebody waits: the loop between two
passes, the client before it tries again, a reply that is late.
"""

from __future__ import annotations

import heapq
import io
import math
import random
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from hpc.autoscale import clock
from hpc.autoscale.ccbindings import models
from hpc.autoscale.simulator.app import Application
from hpc.autoscale.simulator.cluster import Cloud
from hpc.autoscale.simulator.errors import RequestRefused
from hpc.autoscale.simulator.lifecycle import Event, Phase
from hpc.autoscale.simulator.loading import describe
from hpc.autoscale.simulator.nodes import SimNode
from hpc.autoscale.simulator.runtime import Runtime
from hpc.autoscale.wsgi.basic import Login
from simulation import wire
from simulation.invariants import Watch
from simulation.scheduler import SimScheduler
from simulation.script import (
    CLUSTER,
    DAY,
    HTC,
    LAST_FAULT,
    MPI,
    OVERTIME,
    REGION,
    RUSH,
    SIZES,
    SPOT,
    Script,
    Trouble,
    Work,
)

T = TypeVar("T")

START = 1_767_225_600.0
"""The day begins on 2026-01-01 at 00:00 UTC."""

_IN_A_PASS = frozenset({"second_loop", "rush", "kept_alive", "goes_silent", "wakes_up"})
"""Troubles that wait for the middle of a pass."""

_DOWN = frozenset(
    {"failed", "terminating", "deallocating", "restarting", "reimaging", "allocation"}
)


class WorldClock(clock.Clock):
    """The clock of the machine that the autoscaler runs on, which may be wrong."""

    def __init__(self, world: World) -> None:
        self._world = world

    def time(self) -> float:
        return self._world.now + self._world.skew

    def sleep(self, n: float) -> None:
        self._world.sleep(n)

    def booted_at(self) -> float:
        return self._world.skew


class _InProcess:
    """What the simulator's HTTP application needs of a server."""

    def __init__(self, world: World) -> None:
        self._world = world

    def call(self, act: Callable[[Cloud], T]) -> T:
        cloud = self._world.cloud
        cloud.orchestrator.advance(self._world.now)
        return act(cloud)

    def next_fault(self, endpoint: str, cluster: str | None) -> None:
        """Faults are the wire's business."""


class World:
    """Everything around the autoscaler. `timeout` is how long a client waits for a reply."""

    timeout = 60.0

    def __init__(self, script: Script) -> None:
        self.script = script
        self.now = START
        self.skew = 0.0
        self.strange_time_at = -math.inf
        self.rng = random.Random(f"world {script.seed}")
        self.clock = WorldClock(self)
        self.scheduler = SimScheduler(lambda: self.now)
        self.cloud = Cloud(
            describe(_description(script)), START, self.rng, self._new_id, self._note
        )
        self.cluster = self.cloud.cluster(CLUSTER)
        self.fired: Counter[str] = Counter()
        self.watch = Watch(self)
        self.disk_is_full = False
        self.disk_was_full_at = -math.inf
        self.hung: list[SimNode] = []
        self._is_locked = False
        self.ends = False
        self.is_waiting = False
        self.second_loop: Callable[[], None] | None = None
        self.person: Callable[[Trouble], None] | None = None
        self.file_trouble: Callable[[str], None] | None = None
        self.kill: Callable[[int], None] | None = None
        self.restart_after = 1.0
        self._absent = 0.0
        self._armed: list[Trouble] = []
        self._boots: dict[str, list[str]] = defaultdict(list)
        self._never: Counter[str] = Counter()
        self._later: list[tuple[str, SimNode]] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0
        self._application = Application(
            cast(Runtime, _InProcess(self)), Login(wire.USER, wire.PASSWORD)
        )
        for work in script.works:
            self._at(START + work.at, partial(self.scheduler.submit, work))
        for trouble in script.troubles:
            self._at(START + trouble.at, partial(self._begin, trouble))
        self._at(START + LAST_FAULT, self._calm)

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    @property
    def is_done(self) -> bool:
        """Whether the day is over, and everything has run and no node is left."""
        over = self.now - START
        if over < DAY:
            return False
        return over >= DAY + OVERTIME or (self.scheduler.is_idle and not self.cluster.nodes())

    # -- time

    @property
    def hour(self) -> str:
        """The time of day, for people."""
        seconds = int(self.now - START)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def _at(self, when: float, act: Callable[[], None]) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (when, self._entries, act))

    def sleep(self, seconds: float) -> None:
        """The process waits, and maybe does not run for longer than it meant to."""
        absent, self._absent = self._absent, 0.0
        self.is_waiting = True
        self.pass_time(seconds + absent)
        self.is_waiting = False

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with all that happens meanwhile, each at its own time."""
        until = self.now + seconds
        while (due := self._next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            self._let_happen()
        self.now = until

    def _next_due(self) -> float | None:
        times = (
            self._agenda[0][0] if self._agenda else None,
            self.scheduler.next_end(),
            self.cloud.orchestrator.next_due(),
        )
        return min((when for when in times if when is not None), default=None)

    def _let_happen(self) -> None:
        self.cloud.orchestrator.advance(self.now)
        self.scheduler.end_tasks()
        while self._agenda and self._agenda[0][0] <= self.now:
            heapq.heappop(self._agenda)[2]()
        self._catch_up()

    def _catch_up(self) -> None:
        """What is to happen to nodes that have just begun to boot."""
        while self._later:
            what, node = self._later.pop()
            if node.phase is not Phase.PREPARING:
                continue
            self.fired[what] += 1
            if what == "boot_hangs":
                self.hung.append(node)
                node.entered += 1  # the timer of this phase counts for nothing any more
                self.watch.note(f"{node.name} hangs")
            else:
                self.cloud.orchestrator.fail([node], "The software could not be installed")

    # -- the server

    def serve(
        self, method: str, url: str, headers: Mapping[str, str], body: Any
    ) -> tuple[int, Mapping[str, str], bytes]:
        """The answer of the server to a request."""
        parts = urlsplit(url)
        data = body if isinstance(body, bytes) else (body or "").encode()
        environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "SERVER_NAME": "simulated",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": "simulated",
            "HTTP_AUTHORIZATION": headers.get("Authorization", ""),
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(data)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(data),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": False,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        said: list[Any] = []

        def start_response(status: str, given: Any, exc_info: Any = None) -> Callable[..., Any]:
            said[:] = [int(status.split(" ", 1)[0]), dict(given)]
            return lambda data: None

        content = b"".join(self._application(environ, start_response))
        self._catch_up()
        self.watch.after_request()
        status, found = said
        if self.ends and parts.path.endswith("/status"):
            content = content.replace(b'"targetState": "Started"', b'"targetState": "Terminated"')
        return status, found, content

    def _note(self, entry: dict[str, Any]) -> None:
        """The cloud says what happens to a node."""
        event, node_id = entry["event"], entry.get("node_id")
        if node_id is None:
            return
        if event == "created":
            self.watch.created(entry)
        elif event == "preparing":
            array = entry["nodearray"]
            if self._never[array]:
                self._later.append(("boot_fails", self.cloud.orchestrator.nodes[node_id]))
            elif self._boots[array]:
                kind = self._boots[array].pop()
                if kind == "silent_hosts":
                    self.fired[kind] += 1
                    self.scheduler.silent.add(node_id)
                else:
                    self._later.append((kind, self.cloud.orchestrator.nodes[node_id]))
        elif event == "ready":
            self.watch.ready_at[node_id] = self.now
        elif event in _DOWN:
            if event == "failed" and entry.get("cause") != "allocation_failed":
                self.watch.boot_failed(node_id, entry["nodearray"])
            self.watch.goes_down(entry)
            self.scheduler.machine_down(node_id)

    # -- trouble

    def trouble_for(self, kind: str) -> Trouble | None:
        """What a request of this kind suffers; that is over then."""
        for trouble in self._armed:
            if trouble.kind in wire.ON_THE_WIRE and trouble.where in ("*", kind):
                self._armed.remove(trouble)
                self.fired[trouble.kind] += 1
                self.watch.note(f"{trouble.kind} at {kind}")
                if trouble.kind == "late_request" and trouble.amount >= 2:
                    self._armed.append(replace(trouble, amount=trouble.amount - 1))
                if trouble.kind == "behind" and kind == "status":
                    self._armed.insert(0, replace(trouble, where="nodes"))
                return trouble
        return None

    def on_request(self, kind: str) -> None:
        """Others may do something just before a request of ours arrives."""
        if self.watch.process is None or self.watch.process.name != "main":
            return
        for trouble in list(self._armed):
            if trouble.where not in ("*", kind) or trouble.kind in wire.ON_THE_WIRE:
                continue
            if trouble.kind == "rush":
                self._armed.remove(trouble)
                self._rush(trouble)
            elif trouble.kind in ("kept_alive", "goes_silent", "wakes_up"):
                self._armed.remove(trouble)
                getattr(self, f"_{trouble.kind}")(trouble)
            elif trouble.kind == "others_create":
                self._armed.remove(trouble)
                self._others_create(trouble)
            elif trouble.kind == "second_loop" and self.second_loop is not None:
                self._armed.remove(trouble)
                self.fired["second_loop"] += 1
                self.second_loop()

    def _begin(self, trouble: Trouble) -> None:
        kind = trouble.kind
        if kind in wire.ON_THE_WIRE or kind in _IN_A_PASS:
            self._armed.append(trouble)
            return
        if kind == "others_create" and trouble.where != HTC:
            self._armed.append(trouble)
            return
        self.watch.note(f"{kind} {trouble.where}")
        getattr(self, f"_{kind}")(trouble)

    def _calm(self) -> None:
        """What has not gone wrong by now does not go wrong any more."""
        self._armed.clear()
        self._boots.clear()
        self.scheduler.hears_all = True

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Let something happen after some time."""
        self._at(self.now + seconds, act)

    def _rush(self, trouble: Trouble) -> None:
        """Tasks arrive just now, which may start on nodes that were idle a moment ago."""
        self.fired["rush"] += 1
        number = RUSH + self.fired["rush"]
        width = next((w.cores for w in self.script.works if w.arrays == (HTC,)), 1)
        tasks = int(trouble.amount)
        self.scheduler.submit(Work(number, self.now - START, trouble.seconds, (HTC,), tasks, width))

    def _cluster_ends(self, trouble: Trouble) -> None:
        """Somebody wants to terminate the cluster, and thinks better of it."""
        self.ends = True
        self._until_the_end(trouble, lambda: setattr(self, "ends", False))

    def _until_the_end(self, trouble: Trouble, undo: Callable[[], None]) -> None:
        self.fired[trouble.kind] += 1
        self._at(self.now + trouble.seconds, undo)

    def _no_capacity(self, trouble: Trouble) -> None:
        orchestrator, key = self.cloud.orchestrator, (REGION, SIZES[trouble.where].lower())
        orchestrator.capacity[key] = 0
        self._until_the_end(trouble, lambda: wire.void(orchestrator.capacity.pop(key, None)))

    def _few_machines(self, trouble: Trouble) -> None:
        """Of a size there are only some machines for a long time, as many as it says."""
        orchestrator, key = self.cloud.orchestrator, (REGION, SIZES[trouble.where].lower())
        orchestrator.capacity[key] = int(trouble.amount)
        self._until_the_end(trouble, lambda: wire.void(orchestrator.capacity.pop(key, None)))

    def _less_quota(self, trouble: Trouble) -> None:
        name = "spot_quota" if trouble.where == SPOT else "quota"
        usual: int = getattr(self.script.shape, name)

        def change(to: int) -> None:
            now = self.cloud.regions[REGION]
            changes: dict[str, Any] = {name: to}
            self.cloud.regions = {**self.cloud.regions, REGION: replace(now, **changes)}

        change(int(min(usual, 500) * trouble.amount))
        self._until_the_end(trouble, lambda: change(usual))

    def _eviction(self, trouble: Trouble) -> None:
        for node in self._pick(trouble, Phase.READY, Phase.PREPARING):
            self.fired["eviction"] += 1
            self.cloud.orchestrator.evict(node)

    def _node_lost(self, trouble: Trouble) -> None:
        for node in self._pick(replace(trouble, amount=1), Phase.READY):
            self.fired["node_lost"] += 1
            self.cloud.orchestrator.fail([node], "The VM was lost")

    def _pick(self, trouble: Trouble, *phases: Phase) -> list[SimNode]:
        nodes = [
            node
            for node in self.cluster.nodes()
            if node.nodearray.name == trouble.where and node.phase in phases
        ]
        random.Random(trouble.part).shuffle(nodes)
        return nodes[: int(trouble.amount)]

    def _boot_hangs(self, trouble: Trouble) -> None:
        self._boots[trouble.where] += [trouble.kind] * int(trouble.amount)

    _boot_fails = _silent_hosts = _boot_hangs

    def _never_boots(self, trouble: Trouble) -> None:
        """Of a nodearray no node boots for hours."""
        array = trouble.where
        self._never[array] += 1
        self._until_the_end(trouble, lambda: self._never.subtract([array]))

    def _scheduler_down(self, trouble: Trouble) -> None:
        self.scheduler.down = True
        self._until_the_end(trouble, lambda: setattr(self.scheduler, "down", False))

    _goes_silent = _scheduler_down

    def _weak_hosts(self, trouble: Trouble) -> None:
        """Something takes a core of some hosts that have no work."""
        idle = [h for h in self.scheduler.hosts.values() if not h.busy and h.cores > 1]
        for host in [h for h in idle if h.array == trouble.where][: int(trouble.amount)]:
            self.fired[trouble.kind] += 1
            host.cores -= 1
            host.free -= 1

    def _half_hosts(self, trouble: Trouble) -> None:
        self.scheduler.reading, self.scheduler.part = trouble.kind, trouble.part
        self._until_the_end(trouble, lambda: setattr(self.scheduler, "reading", ""))

    _half_jobs = _nothing_read = _half_hosts

    def _killed(self, trouble: Trouble) -> None:
        self.restart_after = trouble.seconds
        if self.kill is not None:
            self.kill(int(trouble.amount))

    def _others_create(self, trouble: Trouble) -> None:
        """Somebody else makes nodes, with a request id of their own."""
        self.fired["others_create"] += 1
        request = models.NodeCreationRequest.from_dict(
            {
                "requestId": f"others-{self._new_id()}",
                "sets": [{"nodearray": HTC, "count": int(trouble.amount)}],
            }
        )
        self.watch.others = True
        try:
            self.cluster.create(request)
        except RequestRefused as refusal:
            self.watch.note(f"others were refused: {refusal}")
        finally:
            self.watch.others = False

    def _kept_alive(self, trouble: Trouble) -> None:
        """Somebody wants to keep nodes, until the end of the trouble."""
        busy = {host.node_id for host in self.scheduler.hosts.values() if host.busy}
        ready = [node for node in self.cluster.nodes() if node.phase is Phase.READY]
        ready.sort(key=lambda node: node.node_id in busy)
        nodes = ready[: int(trouble.amount)]
        if not nodes:
            return
        names = [node.name for node in nodes]
        self.cluster.edit(names, {"KeepAlive": True})
        ids = [node.node_id for node in nodes]

        def let_go() -> None:
            left = [n.name for n in self.cluster.nodes() if n.node_id in ids]
            self.cluster.edit(left, {"KeepAlive": False})

        self._until_the_end(trouble, let_go)

    def _person(self, trouble: Trouble) -> None:
        """A person deletes nodes by hand, when the loop waits and the scheduler answers."""
        if not self.is_waiting or self.scheduler.down or self.scheduler.reading:
            self._at(self.now + 60, partial(self._person, trouble))
        elif self.person is not None:
            self.fired[trouble.kind] += 1
            self.person(trouble)

    def _clock_ahead(self, trouble: Trouble) -> None:
        self.fired[trouble.kind] += 1
        self.strange_time_at = self.now
        self.skew += trouble.seconds

    def _clock_back(self, trouble: Trouble) -> None:
        self.fired[trouble.kind] += 1
        self.strange_time_at = self.now
        self.skew -= trouble.seconds

    def _away(self, trouble: Trouble) -> None:
        self.fired[trouble.kind] += 1
        self.strange_time_at = self.now + trouble.seconds
        self._absent = max(self._absent, trouble.seconds)

    def _disk_full(self, trouble: Trouble) -> None:
        self.disk_is_full = True
        self._until_the_end(trouble, self._disk_has_room)

    def _disk_has_room(self) -> None:
        self.disk_is_full = False
        self.disk_was_full_at = self.now

    def _history_gone(self, trouble: Trouble) -> None:
        if self.file_trouble is not None:
            self.fired[trouble.kind] += 1
            self.file_trouble(trouble.kind)

    _history_garbled = _history_gone

    def _begins_anew(self, trouble: Trouble) -> None:
        """The machine is set up anew, without its history, and the scheduler does not know its
        hosts yet."""
        self._half_hosts(replace(trouble, kind="nothing_read"))
        self._history_gone(trouble)
        self._killed(replace(trouble, seconds=1.0))

    def _history_locked(self, trouble: Trouble) -> None:
        """Another program writes to the history, and takes its time."""
        if self.file_trouble is not None and not self._is_locked:
            self._is_locked = True
            self.file_trouble("history_locked")
            self._until_the_end(trouble, self._unlock)

    def _unlock(self) -> None:
        self._is_locked = False
        if self.file_trouble is not None:
            self.file_trouble("history_unlocked")

    def _wakes_up(self, trouble: Trouble) -> None:
        """Nodes that hung boot after all, a moment before they are given up."""
        for node in [n for n in self.hung if n.phase is Phase.PREPARING]:
            self.fired[trouble.kind] += 1
            self.cloud.orchestrator.fire(node, Event.CONFIGURED)


def _description(script: Script) -> dict[str, Any]:
    shape = script.shape
    durations = {
        "allocation": 5,
        "acquiring": 60,
        "preparing": 240,
        "terminating": 60,
        "allocation_failed": 30,
        "eviction_notice": 30,
        "jitter": 0.5,
    }

    def array(name: str, **more: Any) -> dict[str, Any]:
        config = {"autoscale": {"is_hpc": name == MPI}}
        return {
            "machine_types": [SIZES[name]],
            "max_count": shape.most[name],
            "attributes": {"Configuration": config},
            **more,
        }

    arrays = {
        HTC: array(HTC),
        SPOT: array(SPOT, spot=True),
        MPI: array(MPI, max_placement_group_size=100),
    }
    return {
        "clusters": {CLUSTER: {"region": REGION, "nodearrays": arrays}},
        "regions": {REGION: {"quota": shape.quota, "spot_quota": shape.spot_quota}},
        "lifecycle": durations,
    }
