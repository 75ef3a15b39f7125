"""The cluster of a scenario as this library sees it, through published names only.

`World` makes a mock cluster and a demand calculator of a description, and carries out events.
`oracle_world` does the same to the plain dicts of the naive packer; what both answer, and their
pictures, can be compared.
"""

from collections.abc import Callable
from typing import Any

from builders import oracle
from builders.oracle_facts import machine_resources, rounded
from builders.oracle_reading import FAMILIES, read_cluster
from hpc.autoscale import results
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.hpctypes import NodeName, NodeStatus, Size
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import SharedConsumableConstraint, SharedConsumableResource
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NullNodeHistory

Express = Callable[["World", list[dict[str, Any]]], list[dict[str, Any]]]


def config_of(description: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a cluster; `packing` in the description is added to it."""
    groups = description["configured_groups"]
    return {
        "packing": {"order": description["order"], **description.get("packing", {})},
        "nodearrays": {name: {"placement_groups": [group]} for name, group in groups.items()},
    }


def binding_of(description: dict[str, Any]) -> MockClusterBinding:
    """A mock cluster like the description."""
    binding = MockClusterBinding()
    binding.max_core_count = description["max_cores"]
    slots = []
    for array in description["arrays"]:
        binding.add_nodearray(
            array["name"],
            array["resources"],
            location=array["location"],
            max_core_count=array["max_cores"],
            max_count=array["max_nodes"],
            spot=array["spot"],
            max_placement_group_size=array["group_size"],
        )
        for bucket in array["buckets"]:
            add_bucket(binding, description, array, bucket)
            slots.append((array["name"], bucket["size"]))
    for index, node in enumerate(description["nodes"], 1):
        name, size = slots[node["slot"] % len(slots)]
        binding.add_node(
            f"{name}-{index}",
            name,
            size,
            state=node["state"],
            hostname=f"ip-{index}",
            placement_group=node["group"],
            keep_alive=node["keep"],
        )
    return binding


def add_bucket(
    binding: MockClusterBinding,
    description: dict[str, Any],
    array: dict[str, Any],
    bucket: dict[str, Any],
) -> None:
    """One bucket with its quotas."""
    family = array["location"], FAMILIES[bucket["size"]]
    family_used, family_quota = description["families"][family]
    region_used, region_quota = description["regions"][array["location"], array["spot"]]
    made = binding.add_bucket(
        array["name"],
        bucket["size"],
        max_count=bucket["max"],
        available_count=bucket["available"],
        family_consumed_core_count=family_used,
        family_quota_core_count=family_quota,
        regional_consumed_core_count=region_used,
        regional_quota_core_count=region_quota,
        placement_groups=bucket["groups"],
    )
    if bucket["failed"] is not None:
        made.last_capacity_failure = bucket["failed"]


class Machine(SchedulerNode):
    """A machine as the scheduler reports it, whose name is not looked up."""

    ignore_hostnames = True

    def __init__(self, index: int, machine: tuple[int, str | None]) -> None:
        resources = {
            name: Size.value_of(value) if oracle.is_size(value) else value
            for name, value in machine_resources(machine).items()
        }
        super().__init__(f"onprem{index}", resources)


def plainly(value: object) -> object:
    """A value of a node as the naive packer has it: sizes in bytes, numbers rounded to what
    matters."""
    return rounded(value.bytes if isinstance(value, Size) else value)


def with_pools(world: "World", constraints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Constraints in which the pools are those of the world."""
    return [pooled(world, constraint) for constraint in constraints]


def pooled(world: "World", constraint: dict[str, Any]) -> dict[str, Any]:
    """One constraint, at any depth."""
    made: dict[str, Any] = {}
    for key, value in constraint.items():
        if key.startswith("pool:"):
            made[key] = SharedConsumableConstraint([world.pools[key[5:]]], value)
        elif key in ("and", "or", "xor"):
            made[key] = with_pools(world, value)
        elif key == "not":
            made[key] = pooled(world, value)
        else:
            made[key] = value
    return made


class World:
    """A demand calculator over a mock cluster. `express(world, constraints)` makes of JSON what a
    job is given."""

    def __init__(self, description: dict[str, Any], express: Express = with_pools) -> None:
        self.binding = binding_of(description)
        self.status = self.binding.get_cluster_status(nodes=True).to_dict()
        self.config = config_of(description)
        self.express = express
        self.calculator = new_demand_calculator(
            {**self.config, "_mock_bindings": self.binding}, node_history=NullNodeHistory()
        )
        self.manager = self.calculator.node_mgr
        self.pools = {
            name: SharedConsumableResource(name, "server", n, n)
            for name, n in description["pools"].items()
        }
        machines = [Machine(i, n) for i, n in enumerate(description["machines"])]
        if machines:
            self.calculator.update_scheduler_nodes(machines)
        nodes = self.by_name()
        for index, node in enumerate(description["nodes"], 1):
            for name, member in nodes.items():
                if name.endswith(f"-{index}") and node["used"]:
                    member.available["ncpus"] = max(0, member.available["ncpus"] - node["used"])
                    member.assignments.add("running")

    def by_name(self) -> dict[NodeName, Node]:
        """All nodes by name."""
        return {node.name: node for node in self.manager.get_nodes()}

    def named(self, event: dict[str, Any]) -> NodeName | None:
        """The name of the node that an event is about; None when there are no nodes."""
        names = list(self.by_name())
        return names[event["node"] % len(names)] if names and "node" in event else None

    def request(self, event: dict[str, Any], name: str) -> tuple[int, list[NodeName]]:
        """Ask for nodes or slots: (slots placed, names of the nodes)."""
        how, units = event["how"], event["units"]
        constraints = self.express(self, event["constraints"])
        if how.startswith("job"):
            job = Job(
                name,
                constraints,
                iterations=units,
                node_count=units if how == "job-nodes" else 0,
                colocated=how == "job-colocated",
                packing_strategy="scatter" if how == "job-scatter" else None,
            )
            result: Any = self.calculator._add_job(job)
        else:
            count = {"node_count" if "nodes" in how else "slot_count": units}
            result = self.manager.allocate(
                constraints,
                **count,
                all_or_nothing=how.startswith("whole"),
                allow_existing=how != "new-slots",
                assignment_id=name,
            )
        if not result:
            return 0, []
        return result.total_slots, [node.name for node in result.nodes]

    def reported(self, event: dict[str, Any], name: str) -> tuple[int, list[tuple[NodeName, int]]]:
        """The same with a handler that keeps what is reported: (slots placed, [(node, slots)])."""
        matches = []

        def keep(result: results.Result) -> None:
            if isinstance(result, results.MatchResult) and result:
                matches.append((result.node.name, result.total_slots))

        results.register_result_handler(keep)
        try:
            total, names = self.request(event, name)
        finally:
            results.unregister_result_handler(keep)
        assert [n for n, _ in matches] == names
        return total, matches

    def happen(self, event: dict[str, Any], name: NodeName | None) -> None:
        """Something that is not a request, to the node of a name."""
        buckets = self.manager.get_buckets()
        bucket = buckets[event.get("bucket", 0) % len(buckets)]
        if event["do"] == "group":
            if bucket.placement_group is None and not bucket._artificial:
                self.manager.add_placement_group(event["name"], bucket)
        elif event["do"] == "offer":
            bucket.resources["lic"] = event["lic"]
        elif event["do"] == "default":
            self.manager.add_default_resource({}, "extra", event["extra"])
        elif name is not None:
            self.happen_to(self.by_name()[name], event)

    @staticmethod
    def happen_to(node: Node, event: dict[str, Any]) -> None:
        """Something that happens to one node."""
        if event["do"] == "write":
            resource = event["resource"]
            if resource == "owner":
                node.available["owner"] = "zoe"
            elif isinstance(node.resources.get(resource), (int, float, Size)):
                node.available[resource] = node.resources[resource] * event["quarters"] / 4
        elif event["do"] == "assign":
            node.assignments.add("somebody")
        elif event["do"] == "release":
            node.assignments.clear()
            node.available.update(node.resources)
        elif event["do"] == "close":
            node.closed = True
        else:
            node.state = NodeStatus("Failed")

    def picture(self) -> list[tuple[int | None, list[tuple[object, ...]]]]:
        """Every node by bucket and in order, with what is left of it and whose it is; and the room
        of each bucket."""
        return [
            (
                None if bucket._artificial else bucket.available_count,
                [
                    (
                        node.name,
                        {k: plainly(v) for k, v in node.available.items() if k != "ccnodeid"},
                        set(node.assignments),
                        node.closed,
                        node.required,
                    )
                    for node in bucket.nodes
                ],
            )
            for bucket in self.manager.get_buckets()
        ]

    def left_in_pools(self) -> dict[str, object]:
        """What is left in the shared pools."""
        return {name: plainly(pool.current_value) for name, pool in self.pools.items()}


def job_of(world: World, name: str, spec: dict[str, Any]) -> Job:
    """A spec as a job."""
    how, units = spec["how"], spec["units"]
    return Job(
        name,
        world.express(world, spec["constraints"]),
        iterations=units,
        node_count=units if how == "job-nodes" else 0,
        colocated=how == "job-colocated",
        packing_strategy="scatter" if how == "job-scatter" else None,
    )


class Books:
    """Which limits there are, by what the server said, and what planned and started nodes use of
    them."""

    def __init__(self, world: World) -> None:
        cluster = read_cluster(world.status, world.config)
        self.limits = cluster["limits"]
        self.charged = {
            (bucket["nodearray"], bucket["size"], bucket["group"]): bucket["limits"]
            for bucket in cluster["buckets"]
        }
        self.world = world
        self.there = set(world.by_name())
        self.started: set[NodeName] = set()

    def asleep(self) -> set[NodeName]:
        """Names of nodes without a VM that nobody needs."""
        return {
            name
            for name, node in self.world.by_name().items()
            if node.state == "Deallocated" and not node._allocated and not node.assignments
        }

    def check(self) -> None:
        """No limit is exceeded by nodes that were not there before, or have been started since."""
        used = {
            name: [each["used_nodes"], each["used_cores"]] for name, each in self.limits.items()
        }
        for bucket in self.world.manager.get_buckets():
            key = (bucket.nodearray, bucket.vm_size, bucket.placement_group)
            new = [n for n in bucket.nodes if n.name not in self.there or n.name in self.started]
            for name in self.charged.get(key, ()):
                used[name][0] += len(new)
                used[name][1] += len(new) * bucket.vcpu_count
            assert bucket.available_count >= 0
        for name, (nodes, cores) in used.items():
            limit = self.limits[name]
            assert nodes <= max(limit["max_nodes"], limit["used_nodes"]), name
            assert cores <= max(limit["max_cores"], limit["used_cores"]), name
