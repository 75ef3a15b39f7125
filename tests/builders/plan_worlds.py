"""Worlds for the laws of plans: clusters of the simulator in this process, in virtual time, with a
scheduler, hosts on premises and a configuration that are drawn.

A world can be copied (`copy.deepcopy`), so that different things may happen to it; its files are
kept and laid out again beside that.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from builders.plan_queue import DriverOfQueue, PlanCLI, Queued, QueueHost, QueueOfTest
from builders.simulated_cloud import F2, F4, REGION, World, a_description
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler, PassSummary, Reporter
from hpc.autoscale.ccbindings import MADE_BY
from hpc.autoscale.ccbindings.errors import CycleCloudError
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.lastseen import LastSeen
from hpc.autoscale.ccbindings.several import Member, SeveralClusters
from hpc.autoscale.commands import Ran
from hpc.autoscale.onpremises.workers import RUN_EACH
from hpc.autoscale.rehearsal import Rehearsal, rehearse
from hpc.autoscale.requestsets.dynamic import marked
from hpc.autoscale.requestsets.store import RequestSet, RequestStore
from hpc.autoscale.simulator.cluster import SimCluster
from hpc.autoscale.simulator.errors import Conflict
from hpc.autoscale.traces.binding import SimulatedBinding

F8 = "Standard_F8s_v2"
HB = "Standard_HB120rs_v3"
EAST = "eastus"

Truth = dict[str, Any]


class WorldClock(clock.Clock):
    """The time of the cloud."""

    def __init__(self, world: World) -> None:
        self._world = world

    def time(self) -> float:
        return self._world.cloud.orchestrator.now

    def sleep(self, n: float) -> None:
        self._world.after(n)


class PlanWorld:
    """One site, drawn from a seed: `step` lets time pass, and work come and go. `clusters` are by
    the name that they have in the configuration, which is empty where there is one alone.
    `several`: how often there is more than one."""

    several = 0.2

    def __init__(self, seed: int, home: Path) -> None:
        self.rng = random.Random(seed)
        draw = self.rng
        names = ("east", "west") if draw.random() < self.several else ("",)
        self.clusters = {name: f"c{number}" for number, name in enumerate(names, 1)}
        description = self._description()
        if (apart := random.Random(f"whole cluster {seed}")).random() < 0.2:
            for each in description["clusters"].values():
                each["max_count"] = apart.choice((4, 9))
        self.model = World(description, seed)
        self._licensed = random.Random(f"licences {seed}")
        licences = self._licensed.choice((0, 0, 2, 9))
        self.queue = QueueOfTest(draw.random() < 0.4, licences)
        if (apart := random.Random(f"silent hosts {seed}")).random() < 0.25:
            self.queue.deaf_to = apart.choice((("5",), ("4", "6", "8"), ("7", "A", "B")))
        self.home = home
        self.clock = WorldClock(self.model)
        self.settings = self._settings()
        if self.queue.deaf_to:
            self.settings["boot_timeout"] = 60
        self._varied = random.Random(f"variety {seed}")
        self._vary(self._varied)
        self.down: set[str] = set()
        self.commands: Counter[tuple[str, str]] = Counter()
        self.wants_requests = draw.random() < 0.35
        self.wants_workers = draw.random() < 0.2
        self._number = self._steps = 0

    def cluster(self, name: str) -> SimCluster:
        """A cluster, as the cloud has it."""
        return self.model.cloud.cluster(self.clusters[name])

    @property
    def first(self) -> SimCluster:
        """The first cluster, which is the only one of most sites."""
        return self.cluster(next(iter(self.clusters)))

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, with the files of this world and doors to it."""
        return {
            **copy.deepcopy(self.settings),
            "nodehistorydb": str(self.home / "nodehistory.db"),
            "lock_file": str(self.home / "lock.file"),
            MADE_BY: self._connect,
            RUN_EACH: self._run_commands,
        }

    def driver(self) -> DriverOfQueue:
        """A new driver."""
        return DriverOfQueue(self.queue)

    def cli(self) -> PlanCLI:
        """A new command line."""
        return PlanCLI(self.driver)

    def keep_files(self) -> dict[str, bytes]:
        """What is in its files, by name."""
        return {path.name: path.read_bytes() for path in self.home.iterdir()}

    def lay_out(self, files: Mapping[str, bytes]) -> None:
        """Let these be its files, and no others."""
        for path in self.home.iterdir():
            path.unlink()
        for name, content in files.items():
            (self.home / name).write_bytes(content)

    @contextmanager
    def time(self) -> Iterator[None]:
        """Meanwhile the clock of the process is that of this world."""
        before = clock.use_clock(self.clock)
        try:
            yield
        finally:
            clock.use_clock(before)

    def run(self) -> PassSummary:
        """The next pass."""
        driver = self.driver()
        with self.time():
            try:
                return Autoscaler(self.config, driver, reporter=Reporter()).run_once()
            finally:
                driver.close_histories()

    def foreseen(self) -> Rehearsal:
        """What the next pass would do."""
        with self.time():
            return rehearse(self.config, self.driver())

    def apply(self, path: str) -> None:
        """Carry out a plan."""
        with self.time():
            self.cli().apply(self.config, path)

    # -- what happens

    def step(self) -> None:
        """A pass's time goes by."""
        rng = self.rng
        self.model.journal.clear()
        self.queue.end(rng)
        self._steps += 1
        often = (1, 1, 2) if self._steps < 4 else (0, 0, 0, 0, 1)
        for _ in range(rng.choice(often)):
            self.submit()
        if rng.random() < 0.2 and self.queue.jobs:
            del self.queue.jobs[rng.choice(list(self.queue.jobs))]
        if self.wants_requests and rng.random() < 0.4:
            self.request()
        if self.wants_workers and rng.random() < 0.4:
            self.queue.tasks = rng.choice((0, 1, 3, 6))
        self.model.after(rng.choice((30.0, 60.0, 60.0, 90.0)))
        if rng.random() < 0.3:
            self.accident()
        if self._varied.random() < 0.05:
            self._create_by_hand()
        self._forget_hosts()
        self.queue.start(rng)

    def submit(self) -> None:
        """Another job."""
        rng = self.rng
        self._number += 1
        name, prefix = f"job{self._number}", self._prefix()
        where = rng.choice(
            (
                *({}, {}, {"node.vm_size": F4}),
                *({"node.nodearray": f"{prefix}{array}"} for array in ("htc", "spot", "hpx")),
            )
        )
        if rng.random() < 0.3:
            wish = {"ncpus": 1, "node.nodearray": f"{prefix}hpc"}
            self.queue.jobs[name] = Queued(wish, nodes=rng.randint(2, 5))
        else:
            wish = {"ncpus": rng.choice((1, 1, 2, 4, 300)), **where}
            self.queue.jobs[name] = Queued(wish, slots=rng.choice((1, 3, 3, 12, 40)))
        if self._varied.random() < 0.3:
            self._vary_job(self.queue.jobs[name])
        if self.queue.licences and self._licensed.random() < 0.6:
            self.queue.jobs[name].licences = self._licensed.choice((1, 1, 2))

    def request(self) -> None:
        """A reporter says what it wants, which may be less than before."""
        rng, now, prefix = self.rng, self.clock.time(), self._prefix()
        wish: dict[str, Any] = rng.choice(
            (
                {"Name": f"{prefix}htc", "TargetCount": rng.choice((0, 1, 3))},
                {"Name": f"{prefix}htc", "TargetCoreCount": rng.choice((4, 10))},
                {"Name": f"{prefix}hpc", "TargetGroupCount": 1, "GroupInstanceCount": 2},
                {"Name": "big", "Dynamic": True, "Extends": f"{prefix}htc", "TargetCount": 2},
            )
        )
        store = RequestStore(str(self.home / "requestsets.db"))
        lapses = now + rng.choice((100.0, 900.0))
        one = RequestSet(rng.choice(("web", "render")), now, lapses, [wish])
        store.replace(one, [str(wish["Name"])])

    def accident(self) -> None:
        """Something that nobody ordered."""
        getattr(self, f"_{self.rng.choice(ACCIDENTS)}")()

    def _create_by_hand(self) -> None:
        """A person makes nodes, of which the autoscaler was told nothing."""
        draw = self._varied
        if self.first is self.model.cluster:
            array = draw.choice(("htc", "spot"))
            with suppress(Conflict):
                self.model.create(draw.randint(1, 2), array, f"by hand {self._steps}")

    def _vary_job(self, job: Queued) -> None:
        """Other things that jobs ask for."""
        draw = self._varied
        if job.nodes:
            return
        more: list[dict[str, Any]] = [{"exclusive": True}]
        if "default_resources" in self.settings:
            more += [{"slots": 1}, {"disk": "size::30g"}]
        more.append({"or": [{"node.vm_size": F2}, {"node.vm_size": F8}]})
        more.append({"node.vm_size": [F8, "*"]})
        asked = draw.choice(more)
        if not asked.keys() & job.constraints.keys():
            job.constraints = {**job.constraints, **asked}

    def _prefix(self) -> str:
        name = self.rng.choice(list(self.clusters))
        return f"{name}/" if name else ""

    def _some_node(self, is_spot: bool = False) -> tuple[SimCluster, str] | None:
        found = [
            (self.cluster(name), node.name)
            for name in self.clusters
            for node in self.cluster(name).nodes()
            if not is_spot or (node.nodearray.spot and node.vm_running)
        ]
        return self.rng.choice(found) if found else None

    def _fail(self) -> None:
        found = self._some_node()
        if found:
            found[0].fail([found[1]], self.rng.choice(("it was drawn", "ZonalAllocationFailed")))

    def _keep(self) -> None:
        found = self._some_node()
        if found:
            found[0].edit([found[1]], {"KeepAlive": self.rng.random() < 0.5})

    def _deallocate(self) -> None:
        found = self._some_node()
        if found and found[0] is self.model.cluster:
            self.model.manage("deallocate", names=[found[1]])

    def _evict(self) -> None:
        found = self._some_node(is_spot=True)
        if found:
            found[0].evict([found[1]])

    def _shortage(self) -> None:
        region = self.rng.choice((REGION, EAST)) if "east" in self.clusters else REGION
        size = self.rng.choice((F2, F4, HB, HB))
        self.model.cloud.set_capacity(region, {size: self.rng.choice((0, 1, 3, 100))})

    def _mark(self) -> None:
        if self.queue.hosts:
            self.rng.choice(list(self.queue.hosts.values())).is_marked = True

    def _silence(self) -> None:
        if len(self.clusters) > 1:
            self.down = set() if self.down else {self.rng.choice(list(self.clusters))}

    def _forget_hosts(self) -> None:
        """Those of nodes that are gone."""
        alive = {str(node.node_id) for name in self.clusters for node in self.cluster(name).nodes()}
        hosts = self.queue.hosts
        self.queue.hosts = {
            name: host
            for name, host in hosts.items()
            if not host.node_id or host.node_id.rpartition("/")[2] in alive
        }

    # -- doors

    def _connect(self, config: Mapping[str, Any]) -> ClusterBindingInterface:
        bindings = {name: SimulatedBinding(self.cluster(name)) for name in self.clusters}
        if "" in bindings:
            return bindings[""]
        members = [
            Member(name, CycleCloudError("it is down") if name in self.down else each, name)
            for name, each in bindings.items()
        ]
        seen = LastSeen(config.get("clustersdb"), bool(config.get("read_only")))
        return SeveralClusters(members, seen)

    def _run_commands(
        self, doing: str, commands: Mapping[str, Sequence[str]], timeouts: Mapping[str, float]
    ) -> dict[str, Ran]:
        for name in commands:
            action = "start_worker" if doing == "starting" else "stop_worker"
            self.commands[action, name] += 1
            if action == "start_worker":
                self.queue.hosts.setdefault(name, QueueHost("", 4))
            else:
                self.queue.hosts.pop(name, None)
        return {name: Ran(0, "") for name in commands}

    # -- what is drawn

    def _description(self) -> dict[str, Any]:
        rng = self.rng
        arrays: dict[str, dict[str, Any]] = {
            "htc": {"machine_types": rng.choice(([F2, F4], [F4, F8, F2], [F2]))},
            "spot": {"machine_types": [F4], "spot": True},
            "hpc": {"machine_types": [HB], "placement_groups": ["pg0", "pg1"]},
        }
        for array in arrays.values():
            array["hostnames"] = "address"
        arrays["htc"]["max_core_count"] = rng.choice((24, 64, 400))
        quotas: dict[str, Any] = {"quota": rng.choice((100, 1000)), "family_quotas": {}}
        if rng.random() < 0.5:
            quotas["family_quotas"] = {"standardFSv2Family": rng.choice((16, 48))}
        if rng.random() < 0.3:
            quotas["capacity"] = {HB: rng.choice((1, 3))}
        description = a_description(arrays, quotas)
        if len(self.clusters) > 1:
            second = {**description["clusters"]["c1"], "region": EAST}
            description["clusters"]["c2"] = second
            description["regions"][EAST] = quotas
        description["lifecycle"]["preparing"] = rng.choice((10, 10, 200))
        description["lifecycle"]["boot_failure_rate"] = rng.choice((0.0, 0.0, 0.2))
        return description

    def _vary(self, draw: random.Random) -> None:
        """Settings that few sites have."""
        settings = self.settings
        section, packing = settings["autoscale"], settings.get("packing", {})
        if draw.random() < 0.3:
            section.update(max_delete_share=draw.choice((0.2, 0.5)), max_delete_share_above=2)
        if draw.random() < 0.2 and "objective" not in packing:
            settings["packing"] = {**packing, "order": "declared"}
        elif draw.random() < 0.2 and "objective" not in packing:
            named = (REGION, EAST) if len(self.clusters) > 1 else (REGION,)
            regions = {name: draw.choice((1, 3)) for name in named}
            settings["packing"] = {"policy": {"regions": regions, "within": "cheapest"}}
        if draw.random() < 0.3:
            settings["default_resources"] = [
                {"select": {}, "name": "slots", "value": "node.vcpu_count", "divide_floor": 2},
                {"select": {"node.vm_size": F4}, "name": "disk", "value": "size::100g"},
            ]
        if draw.random() < 0.15:
            settings["backoff"] = draw.choice(({"enabled": False}, {"boot_failures": 1}))
        if draw.random() < 0.1:
            settings["valid_hostnames"] = ["ip-0A0000[0-9][0-9]"]
        if draw.random() < 0.2:
            settings["nodearrays"]["default"]["max_placement_groups"] = 2

    def _settings(self) -> dict[str, Any]:
        rng = self.rng
        section: dict[str, Any] = {}
        for key, values in (
            ("max_new_nodes_per_pass", (None, None, 2, 5)),
            ("max_deletes_per_pass", (None, 1, 3)),
            ("min_idle_passes", (None, 1, 3)),
            ("interval", (None, 60)),
            ("min_lifetime", (None, 300)),
            ("gang_deadline", (None, 120)),
            ("scheduler_reports_hosts", (None, None, False)),
        ):
            value = rng.choice(values)
            if value is not None:
                section[key] = value
        settings: dict[str, Any] = {
            "idle_timeout": rng.choice((60, 120, 300)),
            "boot_timeout": rng.choice((60, 1800)),
            "autoscale": section,
            "backoff": rng.choice(({}, {}, {"capacity": 60, "boot": 60})),
            "journal": False,
            "nodearrays": {"default": {"generated_placement_group_buffer": rng.choice((0, 1))}},
        }
        if "" in self.clusters:
            settings["cluster_name"] = "c1"
        else:
            place = self.home.parent.name  # the clusters of others are other ones
            settings["clusters"] = [
                {"name": name, "cluster_name": own, "url": f"https://{name}.{place}.example"}
                for name, own in self.clusters.items()
            ]
        packing = rng.choice((None, {"policy": "least-waste"}, {"policy": "spot-first"}, _COST))
        if packing:
            settings["packing"] = packing
        if rng.random() < 0.25:
            command = ["true"]
            settings["on_premises"] = [
                {"name": name, "resources": {"ncpus": 4}, "start": command, "stop": command}
                for name in ("rack-1", "rack-2")
            ]
        return settings


class WideWorld(PlanWorld):
    """A site that most often has two clusters, of which one may be away, weights of their regions,
    and request sets with dynamic arrays and groups in either."""

    several = 0.8

    def __init__(self, seed: int, home: Path) -> None:
        self._wide = random.Random(f"wide {seed}")
        super().__init__(seed, home)
        self.wants_requests = self._wide.random() < 0.6
        self._weigh()

    def step(self) -> None:
        """A pass's time goes by; a cluster goes away, or comes back."""
        super().step()
        if self._wide.random() < 0.15:
            self._silence()

    def request(self) -> None:
        """A reporter says what it wants of several arrays."""
        draw, now = self._wide, self.clock.time()
        names = [f"{name}/" if name else "" for name in self.clusters]
        some = draw.sample(self._wishes(draw.choice(names), draw.choice(names)), 2)
        wishes = list({str(wish["Name"]): wish for wish in some}.values())
        lapses = now + draw.choice((100.0, 900.0))
        one = RequestSet(draw.choice(("web", "render")), now, lapses, wishes)
        store = RequestStore(str(self.home / "requestsets.db"))
        store.replace(one, [str(wish["Name"]) for wish in wishes])

    def _wishes(self, one: str, other: str) -> list[dict[str, Any]]:
        few = self._wide.choice((0, 1, 2))
        groups = {"TargetGroupCount": few, "GroupInstanceCount": self._wide.choice((1, 2, 3))}
        made = {"Name": f"big-{other.strip('/')}", "Dynamic": True, "Extends": f"{other}htc"}
        return [
            {"Name": f"{one}htc", "TargetCount": few, "IncludesJobs": True},
            {"Name": f"{one}htc", "TargetCoreCount": 4 * few, "MachineType": [F4, F2]},
            {"Name": f"{one}hpc", **groups},
            {**made, "TargetCount": few},
            {**made, **groups},
            {
                "Name": f"cheap-{one.strip('/')}",  # one array extends one nodearray
                "Dynamic": True,
                "Extends": f"{one}spot",
                "GroupCoreCount": 8,
                "TargetGroupCount": 1,
            },
        ]

    def _weigh(self) -> None:
        draw, settings = self._wide, self.settings
        if "objective" in settings.get("packing", {}) or draw.random() < 0.5:
            return
        weights = {REGION: draw.choice((0, 1, 3)), EAST: draw.choice((1, 2))}
        if len(self.clusters) < 2:
            weights = {REGION: 1}
        if draw.random() < 0.5:
            settings["weights"] = {"provider": "static", "static": weights}
            settings["packing"] = {"policy": {"regions": "auto", "within": "cheapest"}}
        else:
            settings["packing"] = {"policy": {"regions": weights}}


ACCIDENTS = ("fail", "keep", "deallocate", "evict", "shortage", "shortage", "mark", "silence")

# rounds end the search, and never the time: the same queue gets the same plan
_COST = {"objective": "cost", "optimize_rounds": 3, "optimize_seconds": 60}


def truth(world: PlanWorld) -> Truth:
    """What there is in the cloud and in the scheduler, as far as plans are about it."""
    nodes = {}
    for name in world.clusters:
        prefix = f"{name}/" if name else ""
        for record in world.cluster(name).node_list(None, None).nodes or ():
            array = marked(record.get("Configuration")) or f"{prefix}{record['Template']}"
            parts = (array, record["MachineType"], record.get("PlacementGroupId"))
            bucket = "/".join(str(part) for part in parts if part)
            its_id = f"{prefix}{record['NodeId']}"
            nodes[f"{prefix}{record['Name']}"] = its_id, record["TargetState"], bucket
    hosts = {name: (host.node_id, host.is_open) for name, host in world.queue.hosts.items()}
    return {"nodes": nodes, "hosts": hosts, "commands": Counter(world.commands)}


def done(before: Truth, after: Truth) -> Counter[tuple[str, str]]:
    """What has happened between two looks at the world, as rows of a plan would say it: without the
    drains of what was deleted, and of what was closed already."""
    rows: Counter[tuple[str, str]] = Counter(after["commands"] - before["commands"])
    names = {its_id: name for name, (its_id, _, _) in after["nodes"].items()}
    for name, (node_id, target, bucket) in after["nodes"].items():
        was = before["nodes"].get(name)
        if was is None or was[0] != node_id:
            rows["create", bucket] += 1
        elif was[1] != "Started" and target == "Started":
            rows["start", name] += 1
        elif was[1] != target and (was[1] == "Started" or target == "Terminated"):
            rows["delete", name] += 1
    for name in before["nodes"].keys() - after["nodes"].keys():
        rows["delete", name] += 1
    for hostname, (node_id, is_open) in after["hosts"].items():
        known = before["hosts"].get(hostname)
        name = names.get(node_id, hostname)
        if known is None:
            rows["join", name] += not rows["start_worker", name]
        if is_open != (known is None or known[1]):
            rows["undrain" if is_open else "drain", name] += 1
    return +rows


def planned(found: Rehearsal, before: Truth) -> Counter[tuple[str, str]]:
    """The same of what was foreseen when things were so."""
    changes = found.changes
    names = {its_id: name for name, (its_id, _, _) in before["nodes"].items()}
    hosts = {
        names.get(its_id, host): is_open for host, (its_id, is_open) in before["hosts"].items()
    }
    hosts = {**dict.fromkeys(map(str, found.summary.joined), True), **hosts}
    gone = {row.node for row in changes if row.action in ("delete", "stop_worker")}
    rows: Counter[tuple[str, str]] = Counter()
    for row in changes:
        name = row.node or row.bucket
        is_moot = {
            "join": name in gone,
            "drain": name in gone or not hosts.get(name),
            "undrain": name not in hosts or hosts[name],
        }
        if not is_moot.get(row.action):
            rows[row.action, name] += row.count
    return rows


def end_some_job(world: PlanWorld) -> None:
    """A job ends."""
    if world.queue.jobs:
        world.queue.jobs.popitem()


def change_settings(**changed: Any) -> Callable[[PlanWorld], None]:
    """What gives a world other settings; those of the section `autoscale` in `section`."""

    def change(world: PlanWorld) -> None:
        world.settings["autoscale"].update(changed.get("section", {}))
        world.settings.update({k: v for k, v in changed.items() if k != "section"})

    return change


CHANGES: dict[str, Callable[[PlanWorld], None]] = {
    "nothing": lambda world: None,
    "a job comes": PlanWorld.submit,
    "a job ends": end_some_job,
    "time passes": lambda world: world.model.after(45.0),
    "work starts": lambda world: world.queue.start(world.rng),
    "work ends": lambda world: world.queue.end(world.rng),
    "an accident": PlanWorld.accident,
    "somebody asks for nodes": PlanWorld.request,
    "other timeouts": change_settings(idle_timeout=301, boot_timeout=1801),
    "another cap": change_settings(section={"max_new_nodes_per_pass": 1}),
    "another policy": change_settings(packing={"policy": "cheapest"}),
    "another scheduler": lambda world: world.queue.hosts.clear(),
}
"""What may happen between a plan and its execution."""
