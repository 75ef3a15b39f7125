"""An integration in the style of Grid Engine's: constraints of its own, hostgroups, hook scripts,
quotas.

Written against the published names only, as its authors wrote theirs against upstream. Its
constraints reach into `node._resources`, put planned nodes into placement groups while they are
placed, and are made by a parser that is registered at import. The scheduler is `QMaster`, which
lives in memory.
"""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.hpctypes import Memory, NodeName, PlacementGroup
from hpc.autoscale.job import demandcalculator as dcalclib
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.demandprinter import print_demand, print_rows
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import (
    And,
    BaseNodeConstraint,
    Constraint,
    Never,
    NodeConstraint,
    get_constraint,
    get_constraints,
    register_parser,
)
from hpc.autoscale.node.constraints.base import BucketWeights
from hpc.autoscale.node.node import Node, minimum_space
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.results import (
    DefaultContextHandler,
    EarlyBailoutResult,
    Result,
    SatisfiedResult,
    register_result_handler,
)
from hpc.autoscale.util import json_dump, partition, partition_single

HOSTGROUPS = "_gridengine_hostgroups"


Placed = tuple[Result | None, list[Result]]
"""Where a parallel job went, and the answers of the groups that did not take it."""
Pass = tuple[DemandResult, dict[NodeName, Node], dict[str, Any], DefaultContextHandler]
"""What one pass made of the queue: the demand, its nodes by name, answers by job."""


class HostgroupConstraint(BaseNodeConstraint):
    """In a hostgroup and, for parallel jobs, in its placement group; a planned node is put there
    when it is used."""

    def __init__(
        self,
        hostgroup: str,
        placement_group: str | None = None,
        constraints: Iterable[Constraint] = (),
    ) -> None:
        self.hostgroup = hostgroup
        self.placement_group = placement_group
        self.constraints = get_constraints(list(constraints))

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        for constraint in self.constraints:
            answer = constraint.satisfied_by_node(node)
            if not answer:
                return answer
        groups = node.resources.get(HOSTGROUPS, [])
        if groups and self.hostgroup not in groups:
            return SatisfiedResult(
                "WrongHostgroup",
                self,
                node,
                reasons=[f"{node} is in {groups}, not {self.hostgroup}"],
            )
        if self.placement_group and node.placement_group not in (None, self.placement_group):
            return SatisfiedResult(
                "WrongPlacementGroup", self, node, [f"{node} is in {node.placement_group}"]
            )
        if self.placement_group and node.exists and not node.placement_group:
            return SatisfiedResult("NoPlacementGroup", self, node, [f"{node} is in none"])
        return SatisfiedResult("success", self, node)

    def do_decrement(self, node: Node) -> bool:
        groups = list(node.resources.get(HOSTGROUPS, []))
        if self.hostgroup not in groups:
            node._resources[HOSTGROUPS] = [*groups, self.hostgroup]
        if self.placement_group and not node.placement_group:
            node.placement_group = PlacementGroup(self.placement_group)
        return True

    def minimum_space(self, node: Node) -> int:
        space = minimum_space(self.constraints, node) if self.constraints else -1
        return 0 if not self.satisfied_by_node(node) else space

    def get_children(self) -> list[NodeConstraint]:
        return self.constraints

    def to_dict(self) -> dict[str, Any]:
        return {
            "hostgroup-and-pg": {
                "hostgroup": self.hostgroup,
                "placement-group": self.placement_group,
                "constraints": [c.to_dict() for c in self.constraints],
            }
        }

    def __str__(self) -> str:
        return f"Hostgroup({self.hostgroup}, {self.placement_group})"


def _parse_hostgroup(d: dict[str, Any]) -> HostgroupConstraint:
    said = d["hostgroup-and-pg"]
    return HostgroupConstraint(
        said["hostgroup"], said.get("placement-group"), said.get("constraints", [])
    )


register_parser("hostgroup-and-pg", _parse_hostgroup)


class QuotaConstraint(BaseNodeConstraint):
    """So many slots at most on one host, whatever the host has; tried on a copy of the node."""

    def __init__(self, name: str, slots: int) -> None:
        self.name = name
        self.slots = slots
        self.check = get_constraint({"slots": 1})

    def _used(self, node: Node) -> int:
        return int(node.resources.get(f"_quota_{self.name}", 0))

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        trial = node.clone()
        if not self.check.satisfied_by_node(trial) or not self.check.do_decrement(trial):
            return self.check.satisfied_by_node(trial)
        if self._used(trial) >= self.slots:
            return SatisfiedResult(
                "QuotaExceeded", self, node, [f"{self.name} allows {self.slots}"]
            )
        return SatisfiedResult("success", self, node)

    def do_decrement(self, node: Node) -> bool:
        if self._used(node) >= self.slots:
            return False
        node._resources[f"_quota_{self.name}"] = self._used(node) + 1
        return True

    def minimum_space(self, node: Node) -> int:
        return max(0, self.slots - self._used(node))

    def to_dict(self) -> dict[str, Any]:
        return {"quota": {self.name: self.slots}}

    def __str__(self) -> str:
        return f"Quota({self.name}, {self.slots})"


class PreferLarge(BaseNodeConstraint):
    """Weighs buckets: those with more slots first."""

    def weight_buckets(self, bucket_weights: BucketWeights) -> BucketWeights:
        return [(b, w + 1000 * b.resources.get("slots", 0)) for b, w in bucket_weights]

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        return SatisfiedResult("success", self, node, score=node.resources.get("slots", 0))

    def to_dict(self) -> dict[str, Any]:
        return {"prefer-large": True}

    def __str__(self) -> str:
        return "PreferLarge()"


class QMaster:
    """Grid Engine in memory. `hook` is a script as a function from JSON to JSON."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.hosts: dict[str | None, dict[str, Any]] = {}
        self.hook: Callable[[str], str] | None = None
        self.groups: dict[str, list[str]] = {"@allhosts": [], "@mpi0": ["pg0"], "@mpi1": ["pg1"]}

    def qsub(
        self,
        job_id: str,
        slots: int = 1,
        pe: str | None = None,
        quota: int | None = None,
        **resources: Any,
    ) -> None:
        """Queue a job."""
        self.jobs.append({"id": job_id, "slots": slots, "pe": pe, "quota": quota, **resources})


class GEQueue(NodeQueue):
    """Fuller nodes first."""

    def node_priority(self, node: Node) -> float:
        return -float(node.available.get("slots", 0))

    def early_bailout(self, node: Node) -> EarlyBailoutResult:
        free = node.available.get("slots", 0)
        return EarlyBailoutResult("success") if free else EarlyBailoutResult("full", node, ["full"])


class Driver(SchedulerDriver):
    """What Grid Engine must be told, and what it says."""

    def __init__(self, qmaster: QMaster) -> None:
        super().__init__("gridengine")
        self.qmaster = qmaster

    def initialize(self) -> None: ...

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        return config

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        super().preprocess_node_mgr(config, node_mgr)
        node_mgr.add_default_resource(
            selection={}, resource_name="slots", default_value="node.vcpu_count"
        )
        node_mgr.add_default_resource({}, "m_mem_free", "node.memory", "subtract", Memory(1, "g"))

    def new_node_queue(self, config: dict[str, Any]) -> NodeQueue:
        return GEQueue()

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        hosts = [self._host(name, said) for name, said in self.qmaster.hosts.items() if name]
        return [self._job(said) for said in self.qmaster.jobs], hosts

    def _host(self, name: str, said: dict[str, Any]) -> SchedulerNode:
        node = SchedulerNode(name, {"slots": said["slots"], HOSTGROUPS: list(said["groups"])})
        node.available["slots"] = said["slots"] - said["used"]
        for job_id in said["jobs"]:
            node.assign(job_id)
        return node

    def _job(self, said: dict[str, Any]) -> Job:
        constraints: list[Constraint] = [{"slots": said["slots"] if said["pe"] == "smp" else 1}]
        if said.get("stopped"):
            constraints = [Never(said["stopped"])]
        if "mem" in said:
            constraints.append({"m_mem_free": Memory.value_of(said["mem"])})
        if said["quota"]:
            constraints.append(QuotaConstraint("per_host", said["quota"]))
        if said.get("large"):
            constraints.append(PreferLarge())
        if said["pe"] != "mpi":
            constraints.append({"hostgroup-and-pg": {"hostgroup": "@allhosts"}})
            constraints.append({"node.placement_group": None})
        iterations = 1 if said["pe"] == "smp" else said["slots"]
        job = Job(said["id"], constraints, iterations=iterations)
        job.metadata["gridengine"] = {"pe": said["pe"]}
        return self._hooked(job)

    def _hooked(self, job: Job) -> Job:
        """The job as the site's hook script wants it: through JSON on a pipe, there and back."""
        if self.qmaster.hook is None:
            return job
        stream = io.StringIO()
        json_dump(job.to_dict(), stream)
        return Job.from_dict(json.loads(self.qmaster.hook(stream.getvalue())))

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        joined = []
        for node in nodes:
            if node.state != "Ready" or not node.hostname or node.hostname in self.qmaster.hosts:
                continue
            groups = {g for g, pgs in self.qmaster.groups.items() if node.placement_group in pgs}
            node._resources[HOSTGROUPS] = sorted(groups) or ["@allhosts"]
            self.qmaster.hosts[node.hostname] = {
                "slots": node.resources["slots"],
                "groups": node.resources[HOSTGROUPS],
                "used": 0,
                "jobs": set(),
            }
            joined.append(node)
        return joined

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        sent = io.StringIO()
        json_dump([n.to_dict() for n in nodes if n.hostname], sent)
        received = [Node.from_dict(d) for d in json.loads(sent.getvalue())]
        free = {n.hostname for n in received if not self.qmaster.hosts[n.hostname]["jobs"]}
        return [n for n in nodes if n.hostname in free]

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        for node in nodes:
            self.qmaster.hosts.pop(node.hostname, None)
        return nodes


def place_parallel(
    dcalc: DemandCalculator, job: Job, groups: Mapping[str, Sequence[str]]
) -> Placed:
    """Put a parallel job into the first hostgroup that holds all of it; the answers of those that
    did not."""
    refused: list[Result] = []
    for hostgroup, placement_groups in groups.items():
        for placement_group in placement_groups:
            candidate = Job(
                job.name,
                And(HostgroupConstraint(hostgroup, placement_group), *job._constraints),
                iterations=job.iterations,
                colocated=True,
            )
            result = dcalc._add_job(candidate)
            if result:
                return result, refused
            refused.append(result)
    return None, refused


def autoscale(
    config: dict[str, Any],
    driver: Driver,
    columns: Sequence[str] = ("name", "hostname", "job_ids", "*slots", HOSTGROUPS),
) -> Pass:
    """One pass, as Grid Engine's own loop does it."""
    ctx = register_result_handler(DefaultContextHandler("[initialization]"))
    jobs, hosts = driver.read_jobs_and_nodes(config, force=True)
    node_mgr = new_node_manager(config)
    driver.preprocess_node_mgr(config, node_mgr)
    dcalc = dcalclib.new_demand_calculator(
        config,
        existing_nodes=hosts,
        node_mgr=node_mgr,
        node_history=driver.new_node_history(config),
        node_queue=driver.new_node_queue(config),
        singleton_lock=driver.new_singleton_lock(config),
    )
    history: Any = dcalc.node_history  # these attributes are not in the interface
    history.create_timeout = 1800
    history.last_match_timeout = 300
    by_kind = partition(jobs, lambda j: j.metadata["gridengine"]["pe"] == "mpi")
    placed: dict[str, Any] = {}
    for job in by_kind.get(True, []):
        ctx.set_context(f"[Job {job.name}]")
        placed[job.name] = place_parallel(dcalc, job, driver.qmaster.groups)
    for job in by_kind.get(False, []):
        ctx.set_context(f"[Job {job.name}]")
        placed[job.name] = dcalc._add_job(job)
    demand = dcalc.finish()
    driver.handle_failed_nodes(demand.failed_nodes)
    joined = driver.add_nodes_to_cluster([n for n in demand.compute_nodes if n.exists])
    driver.handle_post_join_cluster(joined)
    if demand.new_nodes:
        dcalc.bootup()
    dcalc.update_history()
    drained = driver.handle_draining(dcalc.find_unmatched_for(at_least=300))
    driver.handle_post_delete(dcalc.delete(drained).nodes or [])
    print_demand(list(columns), demand)
    by_name = partition_single(demand.compute_nodes, lambda n: n.name)
    return demand, by_name, placed, ctx


def show_buckets(node_mgr: NodeManager, stream: TextIO) -> list[Node]:
    """Grid Engine's `buckets`: resources and limits of example nodes, written into their private
    resources."""
    nodes = []
    for bucket in node_mgr.get_buckets():
        node = bucket.example_node
        node._resources.update({HOSTGROUPS: ["@any"]})
        for attr in dir(bucket.limits):
            value = getattr(bucket.limits, attr)
            if attr[0].isalpha() and "count" in attr and isinstance(value, int):
                node._resources[attr] = value
        nodes.append(node)
    logging.fine("%d buckets", len(nodes))
    rows = [[n.nodearray, n.vm_size, n.resources["family_available_count"]] for n in nodes]
    print_rows(
        columns=["nodearray", "vm_size", "left"], rows=rows, stream=stream, output_format="table"
    )
    return nodes
