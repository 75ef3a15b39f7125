"""An integration in the style of PBS Professional's: a driver, a queue of its own, shared
resources, a command line.

Written against the published names only, as its authors wrote theirs against upstream. The
scheduler is `Server`, which lives in memory and speaks as `qstat` and `pbsnodes` would.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

import hpc.autoscale.job.driver
from hpc.autoscale import clilib
from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.hpctypes import NodeName, add_magnitude_conversion
from hpc.autoscale.job import demandcalculator as dcalclib
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.demandprinter import print_demand
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job, PackingStrategy
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import (
    Constraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedNonConsumableConstraint,
    SharedNonConsumableResource,
)
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.results import (
    DefaultContextHandler,
    DeleteResult,
    EarlyBailoutResult,
    register_result_handler,
)
from hpc.autoscale.util import is_valid_hostname, partition, partition_single

for _power, _letter in enumerate("kmgtp", start=1):
    add_magnitude_conversion(f"{_letter}b", 1024**_power)
    add_magnitude_conversion(f"{_letter}w", 8 * 1024**_power)
add_magnitude_conversion("w", 8)


class Server:
    """PBS in memory: jobs by id, hosts by name, and licences that all of them share."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.hosts: dict[str | None, dict[str, Any]] = {}
        self.licences: dict[str, int] = {}
        self.mode = "day"

    def qsub(
        self, job_id: str, chunks: int = 1, place: str = "free", state: str = "Q", **resources: Any
    ) -> None:
        """Queue a job of so many equal chunks."""
        self.jobs[job_id] = {
            "chunks": chunks,
            "place": place,
            "state": state,
            "hosts": [],
            **resources,
        }

    def run(self, job_id: str, **chunks: int) -> None:
        """Start a job, so many chunks on each host; a host's dash is written as an underscore."""
        hosts = {name.replace("_", "-"): count for name, count in chunks.items()}
        self.jobs[job_id].update(state="R", hosts=list(hosts))
        for host, count in hosts.items():
            self.hosts[host]["jobs"][job_id] = count
            self.hosts[host]["state"] = "job-busy"

    def finish(self, job_id: str) -> None:
        """End a job."""
        for host in self.jobs.pop(job_id)["hosts"]:
            self.hosts[host]["jobs"].pop(job_id)
            self.hosts[host]["state"] = "free"


class Queue(NodeQueue):
    """Nodes in groups come first, so that those outside stay free for single jobs."""

    def node_priority(self, node: Node) -> float:
        grouped = 0 if node.resources.get("ungrouped") == "true" else 1_000
        return grouped + float(node.available.get("ncpus", 0))

    def early_bailout(self, node: Node) -> EarlyBailoutResult:
        if node.available.get("ncpus", 0) < 1:
            return EarlyBailoutResult("NoCpus", node, [f"{node.hostname_or_uuid} is full"])
        return super().early_bailout(node)


class Driver(SchedulerDriver):
    """What PBS must be told, and what it says."""

    def __init__(self, server: Server) -> None:
        super().__init__("pbspro")
        self.server = server
        self.__jobs_cache: list[Job] | None = None
        self.pools: dict[str, SharedConsumableResource] = {}

    def initialize(self) -> None:
        logging.debug("resources of the server are defined")

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        config["default_resources"] = [
            *config.get("default_resources", []),
            {"select": {}, "name": "mem", "value": "node.memory", "subtract": "memory::1g"},
        ]
        return config

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        super().preprocess_node_mgr(config, node_mgr)

        def group_id(node: Node) -> str:
            known = node.delayed_node_id.node_id
            return node.placement_group or known or node.delayed_node_id.transient_id

        node_mgr.add_default_resource({}, "group_id", group_id)
        node_mgr.add_default_resource({"node.placement_group": None}, "ungrouped", "true")
        node_mgr.add_default_resource({}, "ungrouped", "false")

    def new_node_queue(self, config: dict[str, Any]) -> NodeQueue:
        return Queue()

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        self.pools = {
            name: SharedConsumableResource(name, "server", total, total - self._in_use(name))
            for name, total in self.server.licences.items()
        }
        jobs = [self._job(name, job) for name, job in self.server.jobs.items()]
        self.__jobs_cache = jobs
        return jobs, [self._host(n, h) for n, h in self.server.hosts.items() if n]

    def _in_use(self, licence: str) -> int:
        running = (j for j in self.server.jobs.values() if j["state"] == "R")
        return sum(j.get(licence, 0) * j["chunks"] for j in running)

    def _job(self, name: str, said: dict[str, Any]) -> Job:
        amounts = {"ncpus": said.get("ncpus", 1)}
        constraints: list[Constraint] = [amounts]
        if "mem" in said:
            amounts["mem"] = ht.Size.value_of(said["mem"])
        if said["place"].endswith("excl"):
            constraints.append({"exclusive": True})
        if "group" in said["place"]:
            constraints.append({"in-a-placement-group": True})
        for licence, pool in self.pools.items():
            if licence in said:
                constraints.append(SharedConsumableConstraint([pool], said[licence]))
        if "mode" in said:
            mode = SharedNonConsumableResource("mode", "server", self.server.mode)
            constraints.append(SharedNonConsumableConstraint(mode, said["mode"]))
        scatter = said["place"].startswith("scatter")
        job = Job(
            name,
            constraints,
            iterations=said["chunks"],
            node_count=said["chunks"] if scatter else 0,
            colocated="group" in said["place"],
            packing_strategy=PackingStrategy.SCATTER if scatter else PackingStrategy.PACK,
            executing_hostnames=said["hosts"],
        )
        job.iterations_remaining = said["chunks"]
        job.metadata["job_state"] = {"R": "running", "Q": "queued"}[said["state"]]
        return job

    def _host(self, hostname: str, said: dict[str, Any]) -> SchedulerNode:
        node = SchedulerNode(hostname, dict(said["resources"]))
        node.available["ncpus"] = node.resources["ncpus"] - sum(
            self.server.jobs[job_id].get("ncpus", 1) * chunks
            for job_id, chunks in said["jobs"].items()
        )
        for job_id in said["jobs"]:
            node.assign(job_id)
            node.metadata["_running_job_"] = True
        node.metadata["pbs_state"] = said["state"]
        if "offline" in said["state"] or "down" in said["state"]:
            node.closed = True
            node.marked_for_deletion = "down" in said["state"]
        return node

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        ignored = set()
        if not include_permanent:
            ignored = {found[0] for found in self.history.find_ignored()}
        joined = []
        for node in nodes:
            if node.delayed_node_id.node_id in ignored or node.state == "Failed":
                continue
            if not node.private_ip or not is_valid_hostname(self.config, node):
                continue
            if node.hostname not in self.server.hosts:
                said = {
                    k: node.resources[k]
                    for k in ("ncpus", "group_id", "ungrouped", "ccnodeid")
                    if k in node.resources
                }
                self.server.hosts[node.hostname] = {"resources": said, "jobs": {}, "state": ""}
            host = self.server.hosts[node.hostname]
            if host["state"] in ("", "offline"):
                host["state"] = "free"
                joined.append(node)
        return joined

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return self.handle_post_delete(nodes)

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        drained = []
        for node in nodes:
            host = self.server.hosts.get(node.hostname)
            if host is None:
                drained.append(node)
            elif not host["jobs"]:
                host["state"] = "offline"
                drained.append(node)
        return drained

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        for node in nodes:
            self.server.hosts.pop(node.hostname, None)
        return nodes

    def read(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        """Remember what the other hooks need, and read."""
        self.config = config
        self.history = self.new_node_history(config)
        return self.read_jobs_and_nodes(config, force=True)


Pass = tuple[DemandResult, dict[NodeName, Node], DeleteResult, DefaultContextHandler]
"""What one pass came to: the demand, its nodes by name, what was deleted."""


def new_demand_calculator(
    config: dict[str, Any], driver: Driver, jobs: list[Job], scheduler_nodes: list[SchedulerNode]
) -> DemandCalculator:
    """A calculator over what PBS and CycleCloud know."""
    node_mgr = new_node_manager(config, existing_nodes=scheduler_nodes)
    driver.preprocess_node_mgr(config, node_mgr)
    dcalc = dcalclib.new_demand_calculator(
        config,
        node_mgr=node_mgr,
        node_history=driver.new_node_history(config),
        node_queue=driver.new_node_queue(config),
        singleton_lock=driver.new_singleton_lock(config),
        existing_nodes=scheduler_nodes,
    )
    if any("ccnodeid" not in bucket.resources for bucket in node_mgr.get_buckets()):
        hpc.autoscale.job.driver.add_ccnodeid_default_resource(dcalc.node_mgr)
    return dcalc


def autoscale(
    config: dict[str, Any],
    driver: Driver,
    columns: Sequence[str] = ("name", "hostname", "job_ids", "group_id[-8:]", "/ncpus"),
) -> Pass:
    """One pass, as PBS's own loop does it; the demand, and the nodes that were deleted."""
    ctx = register_result_handler(DefaultContextHandler("[initialization]"))
    driver.initialize()
    config = driver.preprocess_config(dict(config))
    jobs, scheduler_nodes = driver.read(config)
    by_state = partition(scheduler_nodes, lambda n: n.metadata["pbs_state"])
    dcalc = new_demand_calculator(config, driver, jobs, scheduler_nodes)
    for job in jobs:
        if job.metadata.get("job_state") == "running" or job.iterations_remaining < 1:
            continue
        ctx.set_context(f"[Job {job.name}]")
        dcalc.add_job(job)
    failed = dcalc.node_mgr.get_failed_nodes()
    failed.extend(by_state.get("down", []))
    driver.handle_failed_nodes(failed)
    demand = dcalc.finish()
    ctx.set_context("[joining]")
    joined = driver.add_nodes_to_cluster([n for n in demand.compute_nodes if n.exists])
    driver.handle_post_join_cluster(joined)
    ctx.set_context("[scaling]")
    if demand.new_nodes:
        dcalc.bootup()
    dcalc.update_history()
    overdue = dcalc.find_booting(at_least=int(config.get("boot_timeout", 3600)))
    idle = dcalc.find_unmatched_for(at_least=int(config.get("idle_timeout", 300)))
    leaving = driver.handle_boot_timeout([n for n in overdue if not n.keep_alive]) or []
    leaving = [*leaving, *(driver.handle_draining(idle) or [])]
    deleted = dcalc.delete([n for n in leaving if not n.assignments])
    driver.handle_post_delete(deleted.nodes or [])
    print_demand(list(columns), demand, log=True)
    by_name = partition_single(demand.compute_nodes, lambda n: n.name)
    return demand, by_name, deleted, ctx


class PBSCLI(clilib.CommonCLI):
    """azpbs."""

    def __init__(self, driver: Driver) -> None:
        clilib.CommonCLI.__init__(self, "pbspro")
        self.pbs = driver

    def _initialize(self, command: str, config: dict[str, Any]) -> None:
        self.pbs.config = config

    def _driver(self, config: dict[str, Any]) -> Driver:
        self.pbs.config = config
        self.pbs.history = self.pbs.new_node_history(config)
        return self.pbs

    def _demand_calc(
        self,
        config: dict[str, Any],
        driver: SchedulerDriver,
        node_mgr: NodeManager | None = None,
    ) -> tuple[DemandCalculator, list[Job]]:
        dcalc, jobs = super()._demand_calc(config, driver, node_mgr)
        return dcalc, [j for j in jobs if j.metadata.get("job_state") != "running"]

    def _default_output_columns(self, config: dict[str, Any], cmd: str | None = None) -> list[str]:
        return [
            *("name", "hostname", "pbs_state", "job_ids", "state", "vm_size", "/ncpus", "mem"),
            *("group_id[-8:]", "instance_id[:11]", "ctr@create_time_remaining"),
        ]

    def _initconfig_parser(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--ignore-queues", dest="pbspro__ignore_queues", type=clilib.str_list, default=[]
        )

    def _initconfig(self, config: dict[str, Any]) -> None:
        config["valid_hostnames"] = ".+"
        config["output_columns"] = self._default_output_columns(config)

    def _setup_shell_locals(self, config: dict[str, Any]) -> dict[str, Any]:
        driver = self._driver(config)
        dcalc, jobs = self._demand_calc(config, driver)
        nodes: dict[str, Node] = {}
        for node in dcalc.finish().compute_nodes:
            node.shellify()
            nodes[node.name] = node
        return {
            "nodes": clilib.ShellDict(nodes),
            "jobs": clilib.ShellDict({job.name: job for job in jobs}),
        }
