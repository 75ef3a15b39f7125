"""Worlds for the laws of plans: a cluster of the simulator in this process, in virtual time, with a
scheduler and a configuration that are drawn, and a command line for it."""

from __future__ import annotations

import random
from argparse import ArgumentParser
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.simulated_cloud import F2, F4, World, a_description
from hpc.autoscale import clilib, clock
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from hpc.autoscale.simulator.cluster import SimCluster
from hpc.autoscale.traces.binding import SimulatedBinding

F8 = "Standard_F8s_v2"
HB = "Standard_HB120rs_v3"


@dataclass
class Queued:
    """A job: what it wants, and how many slots or nodes still wait."""

    constraints: dict[str, Any]
    slots: int = 0
    nodes: int = 0


@dataclass
class QueueHost:
    """A host that was joined: its cores, and the cores that each job has there."""

    node_id: str
    cores: int
    is_open: bool = True
    running: Counter[str] = field(default_factory=Counter)


class QueueOfTest:
    """A scheduler in memory."""

    def __init__(self) -> None:
        self.jobs: dict[str, Queued] = {}
        self.hosts: dict[str, QueueHost] = {}

    def start(self, rng: random.Random) -> None:
        """Start what there is room for, here and there."""
        for name, job in list(self.jobs.items()):
            cores = int(job.constraints.get("ncpus", 1))
            for host in self.hosts.values():
                free = host.cores - host.running.total()
                if job.slots and host.is_open and cores <= free and rng.random() < 0.7:
                    host.running[name] += cores
                    job.slots -= 1
            if not job.slots and not job.nodes:
                del self.jobs[name]

    def end(self, rng: random.Random) -> None:
        """End some of what runs."""
        for host in self.hosts.values():
            for name in [name for name in host.running if rng.random() < 0.5]:
                del host.running[name]


class DriverOfQueue(SchedulerDriver):
    """Its driver."""

    def __init__(self, queue: QueueOfTest) -> None:
        super().__init__("queue")
        self.queue = queue

    def initialize(self) -> None:
        pass

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        return config

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs = []
        for name, job in self.queue.jobs.items():
            if job.nodes:
                jobs.append(Job(name, job.constraints, node_count=job.nodes, colocated=True))
            elif job.slots:
                jobs.append(Job(name, job.constraints, iterations=job.slots))
        return jobs, [self._reported(name, host) for name, host in self.queue.hosts.items()]

    def _reported(self, name: str, host: QueueHost) -> SchedulerNode:
        node = SchedulerNode(name, {"ncpus": host.cores, "ccnodeid": host.node_id})
        node.available["ncpus"] = host.cores - host.running.total()
        for job in host.running:
            node.assign(job)
        return node

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        ready = [node for node in nodes if node.state == "Ready" and node.hostname]
        for node in ready:
            host = QueueHost(str(node.delayed_node_id.node_id), node.vcpu_count)
            known = self.queue.hosts.setdefault(str(node.hostname), host)
            known.is_open = known.is_open or len(node.assignments) > len(known.running)
        return ready

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        for node in nodes:
            if node.hostname in self.queue.hosts:
                self.queue.hosts[str(node.hostname)].is_open = False
        return self._without_work(nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        for node in nodes:
            self.queue.hosts.pop(str(node.hostname), None)
        return nodes

    def foresee(self, hook: str, nodes: list[Node]) -> list[Node]:
        if hook == "handle_draining":
            return self._without_work(nodes)
        return super().foresee(hook, nodes)

    def _without_work(self, nodes: list[Node]) -> list[Node]:
        hosts = self.queue.hosts
        return [n for n in nodes if n.hostname not in hosts or not hosts[str(n.hostname)].running]


class PlanCLI(clilib.CommonCLI):
    """The command line of the queue."""

    def __init__(self, world: PlanWorld) -> None:
        super().__init__("queue")
        self._world = world

    def _driver(self, config: dict[str, Any]) -> DriverOfQueue:
        return DriverOfQueue(self._world.queue)

    def _default_output_columns(self, config: dict[str, Any], cmd: str | None = None) -> list[str]:
        return ["name"]

    def _initconfig_parser(self, parser: ArgumentParser) -> None: ...

    def _initconfig(self, config: dict[str, Any]) -> None: ...

    def _setup_shell_locals(self, config: dict[str, Any]) -> dict[str, Any]:
        return {}


class WorldClock(clock.Clock):
    """The time of the cloud."""

    def __init__(self, world: World) -> None:
        self._world = world

    def time(self) -> float:
        return self._world.cloud.orchestrator.now

    def sleep(self, n: float) -> None:
        self._world.after(n)


class PlanWorld:
    """One site, drawn from a seed: `step` lets time pass, and work come and go."""

    def __init__(self, seed: int, home: Path) -> None:
        self.rng = random.Random(seed)
        self.model = World(self._description(), seed)
        self.queue = QueueOfTest()
        self.home = home
        self.clock = WorldClock(self.model)
        self.config = self._config()
        self._number = self._steps = 0

    @property
    def cluster(self) -> SimCluster:
        """The cluster, as the cloud has it."""
        return self.model.cluster

    def cli(self) -> PlanCLI:
        """A new command line."""
        return PlanCLI(self)

    def step(self) -> None:
        """A pass's time goes by."""
        rng = self.rng
        self.queue.end(rng)
        self._steps += 1
        often = (1, 1, 2) if self._steps < 4 else (0, 0, 0, 0, 1)
        for _ in range(rng.choice(often)):
            self.submit()
        if rng.random() < 0.2 and self.queue.jobs:
            del self.queue.jobs[rng.choice(list(self.queue.jobs))]
        self.model.after(rng.choice((30.0, 60.0, 60.0, 90.0)))
        if rng.random() < 0.15:
            self._accident()
        alive = {node.hostname for node in self.cluster.nodes() if node.hostname}
        for name in [name for name in self.queue.hosts if name not in alive]:
            del self.queue.hosts[name]
        self.queue.start(rng)

    def submit(self) -> None:
        """Another job."""
        rng = self.rng
        self._number += 1
        name = f"job{self._number}"
        where = rng.choice(
            ({}, {}, {"node.nodearray": "htc"}, {"node.vm_size": F4}, {"node.nodearray": "hpx"})
        )
        if rng.random() < 0.25:
            wish = {"ncpus": 1, "node.nodearray": "hpc"}
            self.queue.jobs[name] = Queued(wish, nodes=rng.randint(2, 5))
        else:
            wish = {"ncpus": rng.choice((1, 1, 2, 4, 300)), **where}
            self.queue.jobs[name] = Queued(wish, slots=rng.choice((1, 3, 3, 12, 40)))

    def _accident(self) -> None:
        nodes = self.cluster.nodes()
        if not nodes:
            return
        name = self.rng.choice(nodes).name
        kind = self.rng.choice(("fail", "keep", "deallocate"))
        if kind == "fail":
            self.cluster.fail([name], "it was drawn")
        elif kind == "keep":
            self.cluster.edit([name], {"KeepAlive": True})
        else:
            self.model.manage("deallocate", names=[name])

    def _description(self) -> dict[str, Any]:
        rng = self.rng
        arrays: dict[str, dict[str, Any]] = {
            "htc": {"machine_types": rng.choice(([F2, F4], [F4, F8, F2], [F2]))},
            "spot": {"machine_types": [F4], "spot": True},
            "hpc": {"machine_types": [HB], "placement_groups": ["pg0", "pg1"]},
        }
        arrays["htc"]["max_core_count"] = rng.choice((24, 64, 400))
        quotas: dict[str, Any] = {"quota": rng.choice((100, 1000)), "family_quotas": {}}
        if rng.random() < 0.5:
            quotas["family_quotas"] = {"standardFSv2Family": rng.choice((16, 48))}
        description = a_description(arrays, quotas)
        description["lifecycle"]["preparing"] = rng.choice((10, 10, 200))
        return description

    def _config(self) -> dict[str, Any]:
        rng = self.rng
        section: dict[str, Any] = {}
        for key, values in (
            ("max_new_nodes_per_pass", (None, None, 2, 5)),
            ("max_deletes_per_pass", (None, 1, 3)),
            ("min_idle_passes", (None, 1, 3)),
            ("interval", (None, 60)),
            ("min_lifetime", (None, 300)),
        ):
            value = rng.choice(values)
            if value is not None:
                section[key] = value
        config: dict[str, Any] = {
            "cluster_name": "c1",
            "_mock_bindings": SimulatedBinding(self.cluster),
            "nodehistorydb": str(self.home / "nodehistory.db"),
            "lock_file": str(self.home / "lock.file"),
            "idle_timeout": rng.choice((60, 120, 300)),
            "boot_timeout": rng.choice((60, 1800)),
            "autoscale": section,
        }
        if rng.random() < 0.5:
            config["packing"] = {"policy": "least-waste"}
        return config


def truth(world: PlanWorld) -> dict[str, Any]:
    """What there is in the cloud and in the scheduler, as far as plans are about it."""
    return {
        "nodes": {
            node.name: (
                str(node.node_id),
                record["TargetState"],
                "/".join(
                    filter(
                        None,
                        (record["Template"], record["MachineType"], record.get("PlacementGroupId")),
                    )
                ),
            )
            for node in world.cluster.nodes()
            for record in [world.model.record(node.name)]
        },
        "hosts": set(world.queue.hosts),
        "closed": {name for name, host in world.queue.hosts.items() if not host.is_open},
    }
