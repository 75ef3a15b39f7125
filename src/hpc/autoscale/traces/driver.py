"""The driver of the scheduler in virtual time, as an integration would have written it."""

from __future__ import annotations

from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.job.driver import SchedulerDriver, add_default_placement_groups
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import server_id_of
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.traces.asking import Uses
from hpc.autoscale.traces.scheduling import Scheduler, Task, TraceHost

_MEMORY = "memb"


class TraceDriver(SchedulerDriver):
    """Tells the loop of jobs that wait and of hosts, and carries out what it decides.

    A host on which something runs is never given up. `home` is where the loop keeps its files,
    `uses` what counts beside cores and hosts.
    """

    def __init__(self, scheduler: Scheduler, home: str, uses: Uses) -> None:
        super().__init__("trace")
        self._scheduler = scheduler
        self._uses = uses
        self._home = home

    @property
    def autoscale_home(self) -> str:
        """The directory of the run."""
        return self._home

    def initialize(self) -> None:
        """There is nothing to prepare."""

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration as it is."""
        return config

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        """As every driver does, but that hosts say themselves which nodes they are, so that no
        resource has to."""
        add_default_placement_groups(config, node_mgr)

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        scheduler = self._scheduler
        jobs = [_waiting(task) for task in scheduler.waiting.values()]
        return jobs, [self._reported(host) for host in scheduler.hosts.values()]

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """Take in the nodes that are ready; those that were drained and have work again, too."""
        scheduler = self._scheduler
        ready = [node for node in nodes if node.state == "Ready" and node.managed]
        for node in ready:
            node_id = str(server_id_of(node))
            known = scheduler.hosts.get(node_id)
            if known is None or (not known.takes_work and len(node.assignments) > len(known.runs)):
                cores = int(node.resources.get("ncpus", node.vcpu_count))
                memory, gpus = int(node.memory.bytes), node.gpu_count
                array = str(node.nodearray)
                scheduler.join(node_id, str(node.hostname), cores, memory, gpus, array)
        return ready

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """Start what can start on the nodes that have joined."""
        if nodes:
            self._scheduler.dispatch()
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """Let hosts take no new work; those on which nothing runs may go."""
        return [n for n in nodes if self._scheduler.drain(str(server_id_of(n)))]

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """All of them may go."""
        return nodes

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """All of them may go."""
        return nodes

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """Forget hosts."""
        for node in nodes:
            self._scheduler.host_lost(str(server_id_of(node)))
        return nodes

    def _reported(self, host: TraceHost) -> SchedulerNode:
        node = SchedulerNode(host.hostname, {"ncpus": host.cores})
        node.delayed_node_id.node_id = ht.NodeId(host.node_id)
        if host.runs:
            node.available["ncpus"] = host.free
            if self._uses.memory:
                node.available[_MEMORY] = ht.Memory(host.memory, "b")
            if self._uses.gpus:
                node.available["ngpus"] = host.gpus
            node.assignments.update(run.task.label for run in host.runs.values())
        return node


def _waiting(task: Task) -> Job:
    needs: dict[str, Any] = {"ncpus": task.cores}
    if task.memory:
        needs[_MEMORY] = ht.Memory(task.memory, "b")
    if task.gpus:
        needs["ngpus"] = task.gpus
    if task.nodearray:
        needs["nodearray"] = task.nodearray
    if task.hosts_wanted > 1:
        job = Job(task.label, needs, iterations=1, node_count=task.hosts_wanted)
    else:
        job = Job(task.label, needs)
    if task.job.requested_seconds is not None:
        job.metadata["walltime"] = task.job.requested_seconds
    return job
