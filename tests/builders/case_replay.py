"""Replays one case: a cluster, a configuration, steps, and what is expected of each and in the end.

A case is plain data, and is replayed through published names only. The keys are in
`cases/README.md`. What differs from what was expected raises `Mismatch`, and not an assertion, so
that cases can be replayed under `python -O` too: `python -O tests/builders/case_replay.py
tests/conformance/cases/*.json` replays all of them.
"""

import io
import json
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.demandprinter import print_demand
from hpc.autoscale.job.driver import add_default_placement_groups
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory, NullNodeHistory, SQLiteNodeHistory
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.util import parse_idle_timeout

CASES = Path(__file__).parents[1] / "conformance" / "cases"


class Mismatch(Exception):
    """Something is not as the case expects."""


def load(paths: Iterable[str] | None = None) -> list[tuple[str, dict[str, Any]]]:
    """All cases, as (file and name, case)."""
    found = []
    for path in sorted(CASES.glob("*.json")) if paths is None else map(Path, paths):
        for case in json.loads(path.read_text(encoding="utf-8")):
            found.append((f"{path.stem}: {case['name']}", case))
    return found


def replay(case: dict[str, Any]) -> None:
    """Carry out the steps of a case; Mismatch when something is not as expected."""
    config = {
        "cluster_name": "case",
        "lock_file": None,
        **case.get("config", {}),
        "_mock_bindings": binding_of(case["cluster"]),
    }
    manager = new_node_manager(config, **case.get("arguments", {}))
    world = World(config, manager, case.get("history", "none"))
    world.report(case.get("hosts", []))
    for number, step in enumerate([*jobs_of(case), *case.get("steps", [])], 1):
        world.step(f"step {number}", step)
    world.expect("in the end", case.get("expect", {}))


def jobs_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs of a case as steps."""
    return [
        {"job": job, "expect": job.pop("expect", {})} for job in map(dict, case.get("jobs", []))
    ]


def binding_of(cluster: dict[str, Any]) -> MockClusterBinding | dict[str, Any]:
    """A mock cluster of the description, or what to reproduce the saved replies with."""
    if "cluster_response" in cluster:
        return {"name": "reproduce", **cluster}
    binding = MockClusterBinding("case")
    for name in ("max_core_count", "max_count"):
        if name in cluster:
            setattr(binding, name, cluster[name])
    for array in cluster["nodearrays"]:
        arguments = {k: v for k, v in array.items() if k not in ("name", "buckets", "record")}
        arguments.setdefault("resources", {})
        binding.add_nodearray(array["name"], **arguments).nodearray.update(array.get("record", {}))
        for bucket in array["buckets"]:
            given = dict(bucket)
            failure = given.pop("last_capacity_failure", -1.0)
            binding.add_bucket(array["name"], **given).last_capacity_failure = failure
    for node in cluster.get("nodes", []):
        binding.add_node(**node)
    return binding


class World:
    """A node manager and the calculator over it, with the steps that a case may take."""

    def __init__(self, config: dict[str, Any], manager: NodeManager, history: str = "none") -> None:
        self.config = config
        self.manager = manager
        histories: dict[str, Callable[[], NodeHistory]] = {
            "none": NullNodeHistory,
            "new": lambda: SQLiteNodeHistory(":memory:"),
        }
        self.history = histories[history]()
        self.calculator = DemandCalculator({}, manager, self.history)

    def step(self, where: str, step: dict[str, Any]) -> None:
        """One step: the first key that is no expectation says what to do."""
        (what,) = [key for key in step if key not in ("expect", "then")]
        where = f"{where} ({what} {json.dumps(step[what])})"
        wanted = step.get("expect", {})
        error, kind = wanted.get("error"), wanted.get("raises")
        try:
            outcome = getattr(self, f"do_{what}")(step[what])
        except (RuntimeError, AssertionError) as e:
            kinds = [base.__name__ for base in type(e).__mro__]
            if error is None or error not in str(e) or (kind and kind not in kinds):
                raise
            outcome = {}
        else:
            if error is not None:
                raise Mismatch(f"{where}: expected the error {error!r}, found none")
        compare(where, {k: v for k, v in wanted.items() if k not in ("error", "raises")}, outcome)
        self.expect(where, step.get("then", {}))

    # -- steps

    def do_allocate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`NodeManager.allocate`."""
        return outcome_of(self.manager.allocate(**arguments))

    def do_job(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """A job given to the calculator."""
        job = Job(**arguments)
        result = self.calculator._add_job(job)
        return {**outcome_of(result), "remaining": job.iterations_remaining}

    def do_jobs(self, jobs: list[dict[str, Any]]) -> dict[str, Any]:
        """Jobs given to the calculator together."""
        self.calculator.add_jobs([Job(**arguments) for arguments in jobs])
        return {}

    def do_add(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """A job given to the calculator as integrations do."""
        self.calculator.add_job(Job(**arguments))
        return {}

    def do_direct(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """A job that is placed through the manager alone."""
        return outcome_of(Job(**arguments).do_allocate(self.manager))

    def do_machines(self, hosts: list[str]) -> dict[str, Any]:
        """Machines given to the manager alone."""
        self.manager.add_unmanaged_nodes([SchedulerNode(host) for host in hosts])
        return {}

    def do_default(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`NodeManager.add_default_resource`."""
        self.manager.add_default_resource(**arguments)
        return {}

    def do_group(self, arguments: tuple[str, str]) -> dict[str, Any]:
        """A placement group for the first bucket of a VM size."""
        name, vm_size = arguments
        plain = [b for b in self.manager.get_buckets() if b.vm_size == vm_size]
        self.manager.add_placement_group(name, plain[0])
        return {}

    def do_generate_groups(self, config: dict[str, Any]) -> dict[str, Any]:
        """Spare placement groups, as drivers have them made."""
        add_default_placement_groups(config, self.manager)
        return {}

    def do_report(self, hosts: list[dict[str, Any]]) -> dict[str, Any]:
        """The scheduler's nodes."""
        self.report(hosts)
        return {}

    def do_calculate(self, hosts: list[dict[str, Any]]) -> dict[str, Any]:
        """A new calculator over the manager, by `new_demand_calculator`, which is told of the
        scheduler's nodes."""
        self.calculator = new_demand_calculator(
            self.config, found_of(hosts), self.manager, NullNodeHistory()
        )
        return {}

    def do_bootup(self, _: object) -> dict[str, Any]:
        """All new nodes."""
        return outcome_of(self.calculator.bootup())

    def do_delete(self, nodes: Collection[str]) -> dict[str, Any]:
        """Nodes by name."""
        chosen = [node for node in self.manager.get_nodes() if node.name in nodes]
        return outcome_of(self.calculator.delete(chosen))

    def do_print(self, columns: list[str]) -> dict[str, Any]:
        """What is printed of the demand: a table, and the keys of its JSON."""
        demand = self.calculator.get_demand()
        table, objects = io.StringIO(), io.StringIO()
        print_demand(columns, demand, table)
        print_demand(columns, demand, objects, "json")
        return {
            "table": table.getvalue(),
            "header": table.getvalue().splitlines()[0].split(),
            "keys": list(next(iter(json.loads(objects.getvalue())), {})),
        }

    def do_ask(self, name: str) -> dict[str, Any]:
        """An attribute of the manager."""
        return {"value": getattr(self.manager, name)}

    def do_read(self, constraint: Any) -> dict[str, Any]:
        """A constraint from JSON, and as JSON again."""
        return {"json": plain(get_constraint(constraint).to_dict())}

    def do_idle_timeout(self, value: Any) -> dict[str, Any]:
        """The idle timeout that each node of the demand has by a setting."""
        nodes = self.calculator.get_demand().compute_nodes
        return {n.name: parse_idle_timeout({"idle_timeout": value}, n) for n in nodes}

    def do_remember(self, _: object) -> dict[str, Any]:
        """The history learns of the demand."""
        self.calculator.update_history()
        return {}

    def do_idle(self, at_least: float) -> dict[str, Any]:
        """Nodes without work for so long."""
        found = self.calculator.find_unmatched_for(at_least)
        return {"nodes": [node.name for node in found]}

    def report(self, hosts: list[dict[str, Any]]) -> None:
        """Join the scheduler's nodes."""
        self.calculator.update_scheduler_nodes(found_of(hosts))

    # -- what is there

    def expect(self, where: str, expected: dict[str, Any]) -> None:
        """Hold what there is against what is expected."""
        known = {
            "buckets": self.buckets,
            "nodes": self.nodes,
            "demand": self.demand,
            "order": self.order,
            "manager": self.numbers,
        }
        for key, value in expected.items():
            if key == "groups":
                found = [
                    [b.nodearray, b.vm_size, b.placement_group] for b in self.manager.get_buckets()
                ]
                compare(f"{where}: groups", value, found)
            else:
                known[key](f"{where}: {key}", value)

    def buckets(self, where: str, expected: dict[str, Any]) -> None:
        """Buckets by `nodearray/vm_size/placement group`; attributes may have dots, resources are
        in brackets."""
        buckets = [*self.manager.get_buckets(), *self.manager.get_invalid_buckets()]
        found = {f"{b.nodearray}/{b.vm_size}/{b.placement_group or '-'}": b for b in buckets}
        for key, attributes in expected.items():
            if key not in found:
                raise Mismatch(f"{where}: expected the bucket {key}, found {sorted(found)}")
            compare(f"{where} {key}", attributes, {a: attribute(found[key], a) for a in attributes})

    def nodes(self, where: str, expected: dict[str, Any]) -> None:
        """All nodes by name, and attributes of each."""
        nodes: dict[str, Node] = {node.name: node for node in self.manager.get_nodes()}
        compare(where, list(expected), list(nodes))
        for name, attributes in expected.items():
            node = nodes[name]
            wanted = {a: as_other(node, value) for a, value in attributes.items()}
            compare(f"{where} {name}", wanted, {a: attribute(node, a) for a in attributes})

    def demand(self, where: str, expected: dict[str, Any]) -> None:
        """Names of new, matched, unmatched and failed nodes."""
        demand = self.calculator.get_demand()
        found = {k: sorted(n.name for n in getattr(demand, f"{k}_nodes")) for k in expected}
        compare(where, expected, found)

    def order(self, where: str, expected: dict[str, Any]) -> None:
        """As `demand`, in the order in which they are listed."""
        demand = self.calculator.get_demand()
        found = {k: [n.name for n in getattr(demand, f"{k}_nodes")] for k in expected}
        compare(where, expected, found)

    def numbers(self, where: str, expected: dict[str, Any]) -> None:
        """Attributes of the manager; a list calls a method: [value, argument …]."""
        for name, value in expected.items():
            found = getattr(self.manager, name)
            if isinstance(value, dict):
                for argument, result in value.items():
                    compare(f"{where} {name}({argument})", result, found(argument))
            else:
                compare(f"{where} {name}", value, found)


def found_of(hosts: list[dict[str, Any]]) -> list[SchedulerNode]:
    """Nodes as the scheduler reports them, of {hostname, resources, bucket_id, available, jobs,
    metadata}."""
    found = []
    for host in hosts:
        node = SchedulerNode(host["hostname"], host.get("resources", {}), host.get("bucket_id"))
        node.available.update(host.get("available", {}))
        node.metadata.update(host.get("metadata", {}))
        for job in host.get("jobs", []):
            node.assign(job)
        found.append(node)
    return found


def outcome_of(result: Any) -> dict[str, Any]:
    """What a result says, as a case has it."""
    nodes = list(result.nodes or [])
    return {
        "ok": bool(result),
        "status": result.status,
        "nodes": [node.name for node in nodes],
        "count": len(nodes),
        "slots": getattr(result, "total_slots", None),
        "because": "\n".join(result.reasons),
        "reasons": len(result.reasons),
    }


def attribute(thing: Any, path: str) -> Any:
    """`limits.max_count`, `available[ncpus]`."""
    name, _, key = path.rstrip("]").partition("[")
    for part in name.split("."):
        thing = getattr(thing, part)
    if key:
        return plain(dict(thing).get(key))
    return plain(thing)


def as_other(thing: object, expected: Any) -> Any:
    """What is expected; {"as": path} stands for another attribute of the thing."""
    return attribute(thing, expected["as"]) if isinstance(expected, dict) else expected


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, set):
        return sorted(value)
    return value


def compare(where: str, expected: Any, found: Any) -> None:
    """Mismatch unless they are equal; of a dict only the keys that are expected, and of `because` a
    part."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            if key == "because":
                if value not in found[key]:
                    raise Mismatch(f"{where}: expected {value!r} among the reasons {found[key]!r}")
            else:
                compare(f"{where}.{key}", value, found.get(key))
    elif isinstance(expected, Node) or expected != found:
        raise Mismatch(f"{where}: expected {expected!r}, found {found!r}")


def main(paths: list[str]) -> None:
    """Replay the cases of files; how many it were."""
    SchedulerNode.ignore_hostnames = True
    cases = load(paths)
    for name, case in cases:
        try:
            replay(case)
        except Exception as e:
            raise SystemExit(f"{name}: {type(e).__name__}: {e}") from e
    print(len(cases))


if __name__ == "__main__":
    main(sys.argv[1:])
