"""Days of two clusters behind one configuration: jobs, wishes of request sets, nodes that ask
whether they may stop, and things that go wrong. What happens is drawn from a seed, and checked at
once."""

import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import requests

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.autostop.ledger import Ledger
from hpc.autoscale.autostop.service import StopService
from hpc.autoscale.ccbindings.models import Record
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from hpc.autoscale.requestsets.recording import LEAST_SECONDS, NotServedError, record
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.simulator import serve
from hpc.autoscale.statefiles import STOPS, path_of

SIZES = {"htc": "Standard_F4s_v2", "spot": "Standard_D4s_v5", "mpi": "Standard_F4s_v2"}
ANYWHERE = ("east/htc", "west/htc")
FOR_GANGS = ("east/mpi", "west/mpi")
PLACES = (ANYWHERE, ANYWHERE, ("east/htc",), ("west/htc",), ("east/spot", "west/spot"), FOR_GANGS)
FAULTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("lost_reply", "create_nodes", {}),
    ("lost_reply", "shutdown_nodes", {}),
    ("status", "shutdown_nodes", {"status": 403}),
    ("status", "create_nodes", {"status": 500}),
    ("status", "get_cluster_status", {"status": 503}),
    ("status", "get_operation", {"status": 500}),
    ("empty_nodes", "get_nodes", {}),
    ("truncated", "get_nodes", {}),
)


class Violation(Exception):
    """Something happened that must not."""


class Work(NamedTuple):
    """A job: so many whole nodes of one of some nodearrays, for so long."""

    where: tuple[str, ...]
    seconds: float
    nodes: int = 1


class Queue:
    """A scheduler whose jobs take whole nodes. `hosts`: NodeId and host name, by node; `running`:
    the nodes, the end and what was wanted, by job."""

    def __init__(self) -> None:
        self.waiting: dict[str, Work] = {}
        self.running: dict[str, tuple[tuple[str, ...], float, Work]] = {}
        self.hosts: dict[str, tuple[str, str]] = {}
        self.draining: set[str] = set()
        self.is_down = False
        self._submitted = 0

    def submit(self, count: int, work: Work) -> None:
        """New jobs."""
        for _ in range(count):
            self._submitted += 1
            self.waiting[f"job{self._submitted}"] = work

    @property
    def busy(self) -> set[str]:
        """The nodes on which something runs."""
        return {node for nodes, _, _ in self.running.values() for node in nodes}

    def go_on(self, now: float, ready: set[str]) -> None:
        """Jobs end, are put back when their node is gone, and start on nodes that are free."""
        self.hosts = {node: host for node, host in self.hosts.items() if node in ready}
        for job, (nodes, end, work) in list(self.running.items()):
            is_cut = not self.hosts.keys() >= set(nodes)
            if is_cut or now >= end:
                del self.running[job]
            if is_cut:
                self.waiting[job] = work
        free = [node for node in self.hosts if node not in self.busy | self.draining]
        for job, work in list(self.waiting.items()):
            for array in work.where:
                nodes = tuple(n for n in free if n.rpartition("-")[0] == array)[: work.nodes]
                if len(nodes) == work.nodes:
                    free = [node for node in free if node not in nodes]
                    self.running[job] = (nodes, now + work.seconds, self.waiting.pop(job))
                    break


class QueueDriver(GenericDriver):
    """Its driver."""

    def __init__(self, queue: Queue) -> None:
        super().__init__("days")
        self._queue = queue

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        if self._queue.is_down:
            raise RuntimeError("the scheduler does not answer")
        alone = {"ncpus": 1, "exclusive": True}
        jobs = []
        for name, work in self._queue.waiting.items():
            wanted = {**alone, "node.nodearray": list(work.where)}
            is_gang = work.nodes > 1
            count = work.nodes if is_gang else 0
            jobs.append(Job(name, wanted, node_count=count, colocated=is_gang))
        hosts = {}
        for node, (node_id, hostname) in self._queue.hosts.items():
            hosts[node] = SchedulerNode(hostname, {"ccnodeid": node_id, "ncpus": 4})
        for name, (nodes, _, _) in self._queue.running.items():
            for node in nodes:
                hosts[node].assign(name)
            names = [str(hosts[node].hostname) for node in nodes]
            running = Job(name, alone, executing_hostnames=names)
            running.metadata["job_state"] = "running"
            jobs.append(running)
        return jobs, list(hosts.values())

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """Take those that have a host name by now."""
        new = [node for node in nodes if node.hostname and node.managed]
        for node in new:
            own_id = str(node.delayed_node_id.node_id).rpartition("/")[2]
            self._queue.hosts[node.name] = (own_id, str(node.hostname))
        return new

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """Nothing starts there any more; those on which nothing runs."""
        self._queue.draining.update(node.name for node in nodes)
        return [node for node in nodes if node.name not in self._queue.busy]

    def handle_undraining(self, nodes: list[Node]) -> list[Node]:
        """They take jobs again."""
        self._queue.draining.difference_update(node.name for node in nodes)
        return nodes

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """Forget them."""
        for node in nodes:
            self._queue.hosts.pop(node.name, None)
            self._queue.draining.discard(node.name)
        return nodes


class Day:
    """What a seed leads to. With a scheduler or without one, and with nodes that the service stops
    or that stop by themselves. `story`: what has happened, for people."""

    def __init__(self, seed: int, home: Path, stack: ExitStack) -> None:
        self.rng = rng = random.Random(seed)
        self.story: list[str] = []
        self.home = home
        self.queue = Queue() if rng.random() < 0.7 else None
        self.terminates = rng.random() < 0.6
        self.away: set[str] = set()
        self.servers = {
            name: stack.enter_context(serve(_a_cluster(rng, region), seed=number))
            for number, (name, region) in enumerate(
                (("east", "eastus"), ("west", rng.choice(("westus2", "eastus"))))
            )
        }
        self.config = {
            "clusters": [{"name": n, **s.connection("c")} for n, s in self.servers.items()],
            "lock_file": None,
            "nodehistorydb": str(home / "nodehistory.db"),
            "journal": {"directory": str(home / "journal")},
            "retry": {"attempts": 1},
            "timeout": 5,
            "idle_timeout": rng.choice((120, 600)),
            "boot_timeout": 1200,
            "autoscale": {
                "interval": 60,
                "gang_deadline": 300,
                **rng.choice(({}, {"max_deletes_per_pass": 1})),
            },
            "autostop": {"terminate": self.terminates},
            "packing": rng.choice(({}, {"objective": "cost"}, {"policy": "cheapest"})),
        }
        self._clock = clock.use_mock_clock()
        self._wishes: dict[str, tuple[float, dict[str, int]]] = {}
        self._told: set[str] = set()
        self._service: StopService | None = None

    # -- what happens

    def step(self) -> None:
        """One thing, drawn."""
        kinds: dict[Callable[[], None], float] = {
            self.make_a_pass: 10,
            self.let_nodes_ask: 6,
            self.wish: 6,
            self.submit: 4 if self.queue else 0,
            self.let_time_pass: 6,
            self.go_away: 1.2,
            self.come_back: 1.5,
            self.break_something: 2,
            self.evict: 2,
            self.fail: 1,
            self.stop_the_scheduler: 0.5 if self.queue else 0,
            self.stop_those_that_may: 2,
        }
        (act,) = self.rng.choices(list(kinds), list(kinds.values()))
        act()

    def make_a_pass(self) -> None:
        """A pass of a new process."""
        before = self.alive()
        autoscaler = Autoscaler(self.config, self._new_driver())
        try:
            self._say("pass", autoscaler.run_once())
        except Exception as error:
            self._say("pass", error)
        finally:
            autoscaler.driver.close_histories()
        self._check("a pass", before)

    def let_nodes_ask(self) -> None:
        """Some nodes ask whether they may stop."""
        alive = self.alive()
        ready = [name for name, node in alive.items() if node["Status"] == "Ready"]
        if self._service is None or self.rng.random() < 0.2:
            self._service = StopService(
                self.config,
                self._new_driver,
                Ledger(path_of(STOPS, self.config, str(self.home))),
                RequestStore(str(self.home / "requestsets.db")),
                has_scheduler=self.queue is not None,
            )
        for name in self.rng.sample(ready, min(len(ready), self.rng.randint(1, 8))):
            before = self.alive()
            if name not in before:
                continue
            answer = self._service.ask(str(alive[name]["InstanceId"]))
            self._say("asks", name, answer.code.word)
            gone = self._check("a question", before)
            if gone and not (answer.accepted and gone == {name}):
                raise Violation(f"{name} was told {answer.code.word}, and {gone} went")
            if answer.accepted and name.partition("/")[0] in self.away:
                raise Violation(f"{name} may stop, and its cluster does not answer")
            if answer.accepted and self.queue and name in self.queue.busy:
                raise Violation(f"{name} may stop, and something runs there")
            if answer.accepted and not self.terminates:
                self._told.add(name)

    def wish(self) -> None:
        """Somebody says how many nodes he wants."""
        array = f"{self.rng.choice(list(self.servers))}/{self.rng.choice(('htc', 'htc', 'spot'))}"
        name = self.rng.choice(("one", "other"))
        if not any(array in wanted for each, (_, wanted) in self._wishes.items() if each != name):
            self._record(name, {array: self.rng.randint(0, 5)})

    def submit(self) -> None:
        """Jobs come."""
        if self.queue:
            where, seconds = self.rng.choice(PLACES), self.rng.choice((60.0, 300.0, 1500.0))
            work = Work(where, seconds, self.rng.randint(2, 3) if where == FOR_GANGS else 1)
            count = self.rng.randint(1, 5) if work.nodes == 1 else 1
            self.queue.submit(count, work)
            self._say(f"{count} jobs:", *work)

    def let_time_pass(self) -> None:
        """Seconds or minutes."""
        self.after(self.rng.choice((10, 60, 60, 200, 400)))

    def go_away(self) -> None:
        """A cluster answers nothing but errors."""
        name = self.rng.choice(list(self.servers))
        self.servers[name].faults.clear()
        self.servers[name].faults.add("status", status=500)
        self.away.add(name)
        self._say(name, "is away")

    def come_back(self) -> None:
        """Nothing is wrong with any cluster."""
        for server in self.servers.values():
            server.faults.clear()
        self.away.clear()
        self._say("all are there")

    def break_something(self) -> None:
        """Some requests to a cluster go wrong."""
        name = self.rng.choice(list(self.servers))
        kind, endpoint, more = self.rng.choice(FAULTS)
        if name not in self.away:
            times = self.rng.randint(1, 3)
            self.servers[name].faults.add(kind, endpoint=endpoint, times=times, **more)
            self._say(name, kind, endpoint, times)

    def evict(self) -> None:
        """Azure wants a spot node back."""
        self._harm("evict", lambda name, node: "/spot" in name and node["Status"] == "Ready")

    def fail(self) -> None:
        """A node does not boot."""
        self._harm("fail", lambda _, node: node["Status"] not in ("Ready", "Failed"))

    def stop_the_scheduler(self) -> None:
        """It does not answer, or does so again."""
        if self.queue:
            self.queue.is_down = not self.queue.is_down

    def stop_those_that_may(self) -> None:
        """Nodes that were told yes stop by themselves."""
        alive = self.alive()
        for name in sorted(self._told & alive.keys()):
            cluster = name.partition("/")[0]
            if cluster not in self.away:
                server = self.servers[cluster]
                requests.post(
                    f"{server.url}/clusters/c/nodes/terminate",
                    json={"ids": [alive[name]["NodeId"]]},
                    auth=(server.username, server.password),
                    timeout=20,
                ).raise_for_status()
                self._say(name, "stops")
        self._told.clear()

    def after(self, seconds: float) -> None:
        """Time passes everywhere."""
        self._clock.sleep(seconds)
        for server in self.servers.values():
            server.clock.advance(seconds)
        if self.queue:
            alive = self.alive().items()
            ready = {name for name, node in alive if node["Status"] == "Ready"}
            self.queue.go_on(clock.time(), ready)

    def settle(self) -> None:
        """Once nothing goes wrong any more all jobs run, and what is left is what is wanted."""
        self.come_back()
        self._told.clear()
        if self.queue:
            self.queue.is_down = False
        self._record("other", {})
        count = self.rng.randint(0, 3)
        for _ in range(140):
            self._record("one", {"west/htc": count})
            self.make_a_pass()
            self.after(60)
            is_done = not (self.queue and (self.queue.waiting or self.queue.running))
            if (
                is_done
                and [name.rpartition("-")[0] for name in self.alive()] == ["west/htc"] * count
            ):
                return
        raise Violation(f"{count} of west/htc are wanted; there are {sorted(self.alive())}")

    # -- what is so

    def alive(self) -> dict[str, Record]:
        """The nodes that are there to stay."""
        return {
            f"{name}/{node['Name']}": node
            for name, server in self.servers.items()
            for node in server.cluster("c").nodes()
            if node["TargetState"] == "Started"
        }

    def _check(self, what: str, before: dict[str, Record]) -> set[str]:
        """The nodes that are gone, none of which may be needed; no more may have come than are."""
        now = self.alive()
        gone, new = before.keys() - now.keys(), now.keys() - before.keys()
        if gone or new:
            self._say(what, "- gone:", *sorted(gone), "new:", *sorted(new))
        of_away = {name for name in gone if name.partition("/")[0] in self.away}
        busy = gone & self.queue.busy if self.queue else set()
        if of_away or busy:
            raise Violation(f"{what}: {of_away} of a cluster that is away, {busy} at work went")
        standing = [w for at, w in self._wishes.values() if clock.time() - at < LEAST_SECONDS]
        wanted = {array: count for each in standing for array, count in each.items()}
        waiting = sum(work.nodes for work in self.queue.waiting.values()) if self.queue else 0
        if len(new) > waiting + sum(wanted.values()):
            raise Violation(f"{what}: {new} came for {waiting} nodes of jobs and {wanted}")
        for array, count in wanted.items() if not self.queue else ():
            had = [name for name in before if name.rpartition("-")[0] == array]
            well = {name for name in had if before[name]["Status"] not in ("Failed", "Unavailable")}
            if gone & well and len(well - gone) < count and not self._told:
                raise Violation(f"{what}: {count} of {array} are wanted, {gone} of {had} went")
        return gone

    def _record(self, name: str, wanted: dict[str, int]) -> None:
        arrays = [{"Name": array, "TargetCount": count} for array, count in wanted.items()]
        store = RequestStore(str(self.home / "requestsets.db"))
        with suppress(NotServedError):  # it is recorded all the same
            record(self.config, store, arrays, name, LEAST_SECONDS)
        self._wishes[name] = (clock.time(), wanted)
        self._say(name, "wants", wanted)

    def _harm(self, verb: str, concerns: Callable[[str, Record], bool]) -> None:
        names = [name for name, node in self.alive().items() if concerns(name, node)]
        if names:
            cluster, _, own = self.rng.choice(names).partition("/")
            with suppress(Exception):  # it may be too late for that
                getattr(self.servers[cluster].cluster("c"), verb)(own)
            self._say(verb, cluster, own)

    def _new_driver(self) -> GenericDriver:
        return QueueDriver(self.queue) if self.queue else GenericDriver("none")

    def _say(self, *words: object) -> None:
        self.story.append(f"{clock.time():.0f} {' '.join(map(str, words))}")


def _a_cluster(rng: random.Random, region: str) -> dict[str, Any]:
    most = rng.choice((3, 6, 50))
    arrays = {
        "htc": {"machine_types": [SIZES["htc"]], "max_count": most},
        "spot": {"machine_types": [SIZES["spot"]], "spot": True},
        "mpi": {"machine_types": [SIZES["mpi"]], "placement_groups": ["a"]},
    }
    quota = 4 * rng.choice((4, 8, 100))
    return {
        "clusters": {"c": {"region": region, "nodearrays": arrays}},
        "regions": {region: {"quota": quota}},
    }
