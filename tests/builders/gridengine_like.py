"""An integration in the style of Grid Engine's: constraints of its own, hostgroups, hook scripts, quotas.

Written against the published names only, as its authors wrote theirs against upstream. Its constraints reach into
`node._resources`, put planned nodes into placement groups while they are placed, and are made by a parser that is
registered at import. The scheduler is `QMaster`, which lives in memory.
"""

import io
import json

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job import demandcalculator as dcalclib
from hpc.autoscale.job.demandprinter import print_demand, print_rows
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import (
    And,
    BaseNodeConstraint,
    Never,
    get_constraint,
    get_constraints,
    register_parser,
)
from hpc.autoscale.node.node import Node, minimum_space
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.results import (
    DefaultContextHandler,
    EarlyBailoutResult,
    SatisfiedResult,
    register_result_handler,
)
from hpc.autoscale.util import json_dump, partition, partition_single

HOSTGROUPS = "_gridengine_hostgroups"


class HostgroupConstraint(BaseNodeConstraint):
    """In a hostgroup and, for parallel jobs, in its placement group; a planned node is put there when it is used."""

    def __init__(self, hostgroup, placement_group=None, constraints=()):
        self.hostgroup = hostgroup
        self.placement_group = placement_group
        self.constraints = get_constraints(list(constraints))

    def satisfied_by_node(self, node):
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

    def do_decrement(self, node):
        groups = list(node.resources.get(HOSTGROUPS, []))
        if self.hostgroup not in groups:
            node._resources[HOSTGROUPS] = [*groups, self.hostgroup]
        if self.placement_group and not node.placement_group:
            node.placement_group = self.placement_group
        return True

    def minimum_space(self, node):
        space = minimum_space(self.constraints, node) if self.constraints else -1
        return 0 if not self.satisfied_by_node(node) else space

    def get_children(self):
        return self.constraints

    def to_dict(self):
        return {
            "hostgroup-and-pg": {
                "hostgroup": self.hostgroup,
                "placement-group": self.placement_group,
                "constraints": [c.to_dict() for c in self.constraints],
            }
        }

    def __str__(self):
        return f"Hostgroup({self.hostgroup}, {self.placement_group})"


def _parse_hostgroup(d):
    said = d["hostgroup-and-pg"]
    return HostgroupConstraint(
        said["hostgroup"], said.get("placement-group"), said.get("constraints", [])
    )


register_parser("hostgroup-and-pg", _parse_hostgroup)


class QuotaConstraint(BaseNodeConstraint):
    """So many slots at most on one host, whatever the host has; tried on a copy of the node."""

    def __init__(self, name, slots):
        self.name = name
        self.slots = slots
        self.check = get_constraint({"slots": 1})

    def _used(self, node):
        return node.resources.get(f"_quota_{self.name}", 0)

    def satisfied_by_node(self, node):
        trial = node.clone()
        if not self.check.satisfied_by_node(trial) or not self.check.do_decrement(trial):
            return self.check.satisfied_by_node(trial)
        if self._used(trial) >= self.slots:
            return SatisfiedResult(
                "QuotaExceeded", self, node, [f"{self.name} allows {self.slots}"]
            )
        return SatisfiedResult("success", self, node)

    def do_decrement(self, node):
        if self._used(node) >= self.slots:
            return False
        node._resources[f"_quota_{self.name}"] = self._used(node) + 1
        return True

    def minimum_space(self, node):
        return max(0, self.slots - self._used(node))

    def to_dict(self):
        return {"quota": {self.name: self.slots}}

    def __str__(self):
        return f"Quota({self.name}, {self.slots})"


class PreferLarge(BaseNodeConstraint):
    """Weighs buckets: those with more slots first."""

    def weight_buckets(self, bucket_weights):
        return [(b, w + 1000 * b.resources.get("slots", 0)) for b, w in bucket_weights]

    def satisfied_by_node(self, node):
        return SatisfiedResult("success", self, node, score=node.resources.get("slots", 0))

    def to_dict(self):
        return {"prefer-large": True}

    def __str__(self):
        return "PreferLarge()"


class QMaster:
    """Grid Engine in memory. `hook` is a script as a function from JSON to JSON."""

    def __init__(self):
        self.jobs = []
        self.hosts = {}
        self.hook = None
        self.groups = {"@allhosts": [], "@mpi0": ["pg0"], "@mpi1": ["pg1"]}

    def qsub(self, job_id, slots=1, pe=None, quota=None, **resources):
        """Queue a job."""
        self.jobs.append({"id": job_id, "slots": slots, "pe": pe, "quota": quota, **resources})


class GEQueue(NodeQueue):
    """Fuller nodes first."""

    def node_priority(self, node):
        return -node.available.get("slots", 0)

    def early_bailout(self, node):
        free = node.available.get("slots", 0)
        return EarlyBailoutResult("success") if free else EarlyBailoutResult("full", node, ["full"])


class Driver(SchedulerDriver):
    """What Grid Engine must be told, and what it says."""

    def __init__(self, qmaster):
        super().__init__("gridengine")
        self.qmaster = qmaster

    def initialize(self): ...

    def preprocess_config(self, config):
        return config

    def preprocess_node_mgr(self, config, node_mgr):
        super().preprocess_node_mgr(config, node_mgr)
        node_mgr.add_default_resource(
            selection={}, resource_name="slots", default_value="node.vcpu_count"
        )
        node_mgr.add_default_resource({}, "m_mem_free", "node.memory", "subtract", Memory(1, "g"))

    def new_node_queue(self, config):
        return GEQueue()

    def _read_jobs_and_nodes(self, config):
        hosts = [self._host(name, said) for name, said in self.qmaster.hosts.items()]
        return [self._job(said) for said in self.qmaster.jobs], hosts

    def _host(self, name, said):
        node = SchedulerNode(name, {"slots": said["slots"], HOSTGROUPS: list(said["groups"])})
        node.available["slots"] = said["slots"] - said["used"]
        for job_id in said["jobs"]:
            node.assign(job_id)
        return node

    def _job(self, said):
        constraints = [{"slots": 1}] if said["pe"] != "smp" else [{"slots": said["slots"]}]
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

    def _hooked(self, job):
        """The job as the site's hook script wants it: through JSON on a pipe, there and back."""
        if self.qmaster.hook is None:
            return job
        stream = io.StringIO()
        json_dump(job.to_dict(), stream)
        return Job.from_dict(json.loads(self.qmaster.hook(stream.getvalue())))

    def add_nodes_to_cluster(self, nodes, include_permanent=False):
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

    def handle_post_join_cluster(self, nodes):
        return nodes

    def handle_failed_nodes(self, nodes):
        return nodes

    def handle_boot_timeout(self, nodes):
        return nodes

    def handle_draining(self, nodes):
        sent = io.StringIO()
        json_dump([n.to_dict() for n in nodes if n.hostname], sent)
        received = [Node.from_dict(d) for d in json.loads(sent.getvalue())]
        free = {n.hostname for n in received if not self.qmaster.hosts[n.hostname]["jobs"]}
        return [n for n in nodes if n.hostname in free]

    def handle_post_delete(self, nodes):
        for node in nodes or []:
            self.qmaster.hosts.pop(node.hostname, None)
        return nodes


def place_parallel(dcalc, job, groups):
    """Put a parallel job into the first hostgroup that holds all of it; the answers of those that did not."""
    refused = []
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


def autoscale(config, driver, columns=("name", "hostname", "job_ids", "*slots", HOSTGROUPS)):
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
    dcalc.node_history.create_timeout = 1800
    dcalc.node_history.last_match_timeout = 300
    by_kind = partition(jobs, lambda j: j.metadata["gridengine"]["pe"] == "mpi")
    placed = {}
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
    driver.handle_post_delete(dcalc.delete(drained).nodes)
    print_demand(list(columns), demand)
    by_name = partition_single(demand.compute_nodes, lambda n: n.name)
    return demand, by_name, placed, ctx


def show_buckets(node_mgr, stream):
    """Grid Engine's `buckets`: resources and limits of example nodes, written into their private resources."""
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
