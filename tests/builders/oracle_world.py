"""The cluster of a scenario for the naive packer, with what happens to it; see `engine_world`."""

from fractions import Fraction
from typing import Any, Protocol

from builders import oracle
from builders.oracle import NodeDict
from builders.oracle_facts import REQUEST, machine_resources, rounded
from builders.oracle_reading import add_default, add_group, add_machines, read_cluster


class Told(Protocol):
    """What the naive packer is told of a cluster: a server's status reply and its configuration."""

    status: dict[str, Any]
    config: dict[str, Any]


class NaiveWorld:
    """The same cluster for the naive packer."""

    def __init__(self, world: Told, description: dict[str, Any]) -> None:
        self.cluster = read_cluster(world.status, world.config)
        self.cluster["pools"] = {
            ("pool", name): Fraction(n) for name, n in description["pools"].items()
        }
        machines = [
            (f"onprem{i}", machine_resources(n)) for i, n in enumerate(description["machines"])
        ]
        add_machines(self.cluster, machines)
        self.group_sizes = {array["name"]: array["group_size"] for array in description["arrays"]}
        for index, node in enumerate(description["nodes"], 1):
            for member in self.nodes():
                if member["name"].endswith(f"-{index}") and node["used"]:
                    member["free"]["ncpus"] = max(0, member["free"]["ncpus"] - node["used"])
                    member["assigned"].add("running")

    def nodes(self) -> list[NodeDict]:
        """All nodes in order."""
        return [node for bucket in self.cluster["buckets"] for node in bucket["nodes"]]

    def named(self, event: dict[str, Any]) -> str | None:
        """As of `World`."""
        nodes = self.nodes()
        return nodes[event["node"] % len(nodes)]["name"] if nodes and "node" in event else None

    def request(self, event: dict[str, Any], name: str) -> list[tuple[str, int]]:
        """Place a request: [(node, slots)]."""
        each, whole = REQUEST[event["how"]]
        constraints = list(event["constraints"])
        if event["how"] == "new-slots":
            constraints.insert(0, {"node.exists": False})
        request = {
            "constraints": constraints,
            "units": event["units"],
            "each": each,
            "whole": whole,
            "id": name,
        }
        self.cluster, placed = oracle.allocate(self.cluster, request)
        return placed

    def happen(self, event: dict[str, Any], name: str | None) -> None:
        """Something that is not a request, to the node of a name."""
        buckets = self.cluster["buckets"]
        index = event.get("bucket", 0) % len(buckets)
        bucket = buckets[index]
        if event["do"] == "group":
            if bucket["group"] is None and not bucket["artificial"]:
                size = self.group_sizes[bucket["nodearray"]]
                add_group(self.cluster, index, event["name"], size)
        elif event["do"] == "offer":
            for kind in ("free", "totals"):
                changed = {**bucket["example"][kind], "lic": Fraction(event["lic"])}
                bucket["example"] = {**bucket["example"], kind: changed}
        elif event["do"] == "default":
            add_default(self.cluster, "extra", Fraction(event["extra"]))
        elif name is not None:
            self.happen_to(next(n for n in self.nodes() if n["name"] == name), event)

    def happen_to(self, node: NodeDict, event: dict[str, Any]) -> None:
        """Something that happens to one node."""
        if event["do"] == "write":
            self.write_quarters(node, event)
        elif event["do"] == "assign":
            node["assigned"].add("somebody")
        elif event["do"] == "release":
            node["assigned"].clear()
            node["free"].update(node["totals"])
        elif event["do"] == "close":
            node["closed"] = True
        else:
            node["props"] = {**node["props"], "state": "Failed"}
            node["usable"] = False

    @staticmethod
    def write_quarters(node: NodeDict, event: dict[str, Any]) -> None:
        """A resource set to some quarters of its total."""
        resource = event["resource"]
        if resource == "owner":
            node["free"]["owner"] = "zoe"
        elif oracle.is_number(node["totals"].get(resource)):
            node["free"][resource] = node["totals"][resource] * event["quarters"] / 4

    def picture(self) -> list[tuple[int | None, list[tuple[object, ...]]]]:
        """As of `World`."""
        return [
            (
                None if bucket["artificial"] else oracle.room(self.cluster, bucket),
                [
                    (
                        node["name"],
                        {k: rounded(v) for k, v in node["free"].items()},
                        node["assigned"],
                        node["closed"],
                        bool(node["used"] or node["assigned"] or node["props"]["keep_alive"]),
                    )
                    for node in bucket["nodes"]
                ],
            )
            for bucket in self.cluster["buckets"]
        ]

    def left_in_pools(self) -> dict[str, object]:
        """As of `World`."""
        return {name: rounded(n) for (_, name), n in self.cluster["pools"].items()}
