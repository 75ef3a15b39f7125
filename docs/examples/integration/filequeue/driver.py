"""The driver: what hpc-autoscale asks of FileQueue, and what it has FileQueue do."""

from collections.abc import Mapping
from typing import Any

from filequeue.scheduler import FileQueue, QueueHost
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import build_jobs
from hpc.autoscale.node.node import Node
from hpc.autoscale.results.verdicts import Stand, Verdict


class FileQueueDriver(SchedulerDriver):
    """The driver of a FileQueue. A task takes one slot; a node has as many slots as vCPUs."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__("filequeue")
        section = config.get("filequeue")
        if not isinstance(section, dict) or not isinstance(section.get("path"), str):
            raise ConfigurationException(
                f'filequeue: expected {{"path": "<file of the queue>"}}, found {section!r}'
            )
        self._queue = FileQueue(section["path"])
        self._read_only = False

    def initialize(self) -> None:
        """Nothing to prepare: the queue has slots, and needs nothing else."""

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """Say that a node that does not exist yet has slots, too."""
        self._read_only = bool(config.get("read_only"))
        slots = {"select": {}, "name": "slots", "value": "node.vcpu_count"}
        return {**config, "default_resources": [*config.get("default_resources", []), slots]}

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        """Read hosts first: a task that starts in between is missed once, and not counted twice."""
        hosts = self._queue.hosts()
        jobs = build_jobs(self._queue.waiting(), as_job)
        return jobs, [as_node(name, host) for name, host in hosts.items()]

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """Let ready nodes in. A host that was closed is opened when new work was counted on it."""
        hosts = self._queue.hosts()
        ready = [node for node in nodes if node.hostname and node.state == "Ready"]
        for node in ready:
            host = hosts.get(str(node.hostname))
            if host is None:
                slots, node_id = node.resources["slots"], node.delayed_node_id.node_id
                self._queue.add_host(str(node.hostname), slots, node_id)
            elif not host.open and node.assignments - set(host.running):
                self._queue.set_open(str(node.hostname), True)
        return ready

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """Nothing more to do."""
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """Close the hosts first, and see afterwards what runs there.

        The other way round, a task may start in between.
        """
        known = self._queue.hosts()
        for node in nodes:
            if node.hostname in known:
                self._queue.set_open(node.hostname, False)
        hosts = self._queue.hosts()
        return [n for n in nodes if n.hostname not in hosts or not hosts[n.hostname].running]

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """Forget the hosts of nodes that are gone."""
        for node in nodes:
            if node.hostname:
                self._queue.remove_host(node.hostname)
        return nodes

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """All nodes given may be deleted, and what ran there runs elsewhere."""
        return self.handle_post_delete(nodes)

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """All nodes given may be deleted: nothing runs on a node that never joined."""
        return nodes

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        """Forget hosts whose node CycleCloud no longer lists, and count no work on them.

        Hosts that never were nodes stay.
        """
        listed = {node.delayed_node_id.node_id for node in cc_nodes}
        lost = [
            node for node in scheduler_nodes if node.resources["ccnodeid"] not in {None, *listed}
        ]
        scheduler_nodes[:] = [node for node in scheduler_nodes if node not in lost]
        if not self._read_only:
            self.handle_post_delete(list[Node](lost))

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        """Note on a task why it waits, where its user looks; nothing on one that waits no more."""
        waits = verdict.stand in (Stand.WAITS, Stand.NEVER)
        self._queue.comment(job.name, verdict.line if waits else "")


def as_job(task: object) -> Job:
    """A task that waits. ValueError for an entry of the queue that is none."""
    if not isinstance(task, str):
        raise ValueError(f"expected the name of a task, found {task!r}")
    return Job(task, {"slots": 1})


def as_node(hostname: str, host: QueueHost) -> SchedulerNode:
    """A host as the library is told of it: what it has, what is free, and what runs there."""
    node = SchedulerNode(hostname, {"slots": host.slots, "ccnodeid": host.node_id})
    node.available["slots"] = max(0, host.slots - len(host.running))
    for task in host.running:
        node.assign(task)
    return node
