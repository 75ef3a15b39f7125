"""From what a server says of a cluster to the plain dicts of the naive packer.

Like `oracle` it imports nothing of this library, so that reading is checked too: limits from the
first bucket that tells of them, nodes that count, variants of a bucket for its placement groups,
resources from the configuration and defaults.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from builders.oracle import UNITS, BucketDict, Cluster, NodeDict, is_number, is_size, size_in_bytes

LARGE = 10**9
FAMILIES = {
    "Standard_F2": "standardFFamily",
    "Standard_F4": "standardFFamily",
    "Standard_F8": "standardFFamily",
    "Standard_F4s_v2": "standardFSv2Family",
    "Standard_E4s_v3": "standardESv3Family",
    "Standard_NC6": "standardNCFamily",
}
"""The VM sizes of these tests, with the quota families that Azure counts them in."""

UNUSABLE = ("Failed", "Stopping", "Terminating")


def limit(
    max_nodes: int = LARGE, used_nodes: int = 0, max_cores: int = LARGE, used_cores: int = 0
) -> dict[str, int]:
    """One limit."""
    return {
        "max_nodes": max_nodes,
        "used_nodes": used_nodes,
        "max_cores": max_cores,
        "used_cores": used_cores,
    }


def amounts(resources: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Resources as exact amounts in base units, and the units of those that are sizes."""
    free, units = {}, {}
    for name, value in resources.items():
        if is_size(value):
            free[name], units[name] = size_in_bytes(value), UNITS[value[-1]]
        else:
            free[name] = Fraction(str(value)) if is_number(value) else value
    return free, units


def node_dict(
    name: str, resources: dict[str, Any], props: dict[str, Any], **state: Any
) -> NodeDict:
    """A node."""
    free, units = amounts(resources)
    usable = props["state"] not in UNUSABLE
    dormant = props["state"] == "Deallocated" and not props["exists"]
    boots = props["exists"] and props["state"] not in ("Ready", "Started", "running")
    return {
        "name": name,
        "free": free,
        "totals": dict(free),
        "units": units,
        "props": props,
        "assigned": set(),
        "closed": False,
        "used": False,
        "usable": usable,
        "dormant": dormant,
        "up": not (boots or dormant),
        **state,
    }


def with_defaults(
    resources: dict[str, Any], machine: dict[str, Any], gpus: int, nodearray: str
) -> dict[str, Any]:
    """Configured resources, and those that every node has where the configuration says nothing."""
    found = {
        "ncpus": machine["vcpuCount"],
        "pcpus": machine["pcpuCount"],
        "ngpus": gpus,
        "nodearray": nodearray,
    }
    in_bytes = Fraction(machine["memory"]) * UNITS["g"]
    for unit, factor in UNITS.items():
        found[f"mem{'' if unit == 'b' else unit}b"] = f"memory::{in_bytes / factor}{unit}"
    return {**found, **resources}


def takes_place(record: dict[str, Any]) -> bool:
    """Whether a node counts against limits."""
    return bool(record["Status"] != record["TargetState"] or record["TargetState"] == "Started")


def is_member(record: dict[str, Any]) -> bool:
    """Whether a node can be worked with."""
    return bool(
        record["TargetState"] == "Started"
        or record["Status"] == record["TargetState"] == "Deallocated"
    )


def natural(record: dict[str, Any]) -> tuple[str, int]:
    """htc-2 before htc-10."""
    prefix, _, index = record["Name"].rpartition("-")
    return prefix, int(index)


class Reader:
    """Reads one status reply."""

    def __init__(self, status: dict[str, Any], config: dict[str, Any]) -> None:
        self.status = status
        self.config = config
        self.records = status["nodes"]
        cores = {
            (array["name"], bucket["definition"]["machineType"]): bucket["virtualMachine"][
                "vcpuCount"
            ]
            for array in status["nodearrays"]
            for bucket in array["buckets"]
        }
        self.counted = [
            (r["Template"], cores[r["Template"], r["MachineType"]])
            for r in self.records
            if takes_place(r)
        ]
        used = sum(n for _, n in self.counted)
        self.limits = {"cluster": limit(max_cores=status["maxCoreCount"], used_cores=used)}
        self.buckets: list[BucketDict] = []

    def read(self) -> Cluster:
        """The cluster."""
        for array in self.status["nodearrays"]:
            mine = [n for name, n in self.counted if name == array["name"]]
            self.limits[f"nodearray:{array['name']}"] = limit(
                array["maxCount"], len(mine), array["maxCoreCount"], sum(mine)
            )
            for bucket in array["buckets"]:
                self.bucket(array, bucket)
        return {
            "buckets": self.buckets,
            "limits": self.limits,
            "names": {r["Name"] for r in self.records},
            "pools": {},
            "existing_first": self.config.get("packing", {}).get("order") != "declared",
            "stopped": set(),
        }

    def bucket(self, array: dict[str, Any], bucket: dict[str, Any]) -> None:
        """One bucket with its placement groups, the bucket outside of any last."""
        name, size = array["name"], bucket["definition"]["machineType"]
        region = array["nodearray"]["Region"]
        spot = bool(array["nodearray"]["Interruptible"])
        cores = bucket["virtualMachine"]["vcpuCount"]
        regional = f"{'spot' if spot else 'region'}:{region}"
        self.limits.setdefault(
            regional,
            limit(
                max_cores=bucket["regionalQuotaCoreCount"],
                used_cores=bucket["regionalConsumedCoreCount"],
            ),
        )
        shared = [f"bucket:{name}:{size}", regional, "cluster", f"nodearray:{name}"]
        if not spot:
            family = f"family:{region}:{FAMILIES[size]}"
            shared.append(family)
            self.limits.setdefault(
                family,
                limit(
                    max_cores=bucket["familyQuotaCoreCount"],
                    used_cores=bucket["familyConsumedCoreCount"],
                ),
            )
        array_limit = self.limits[f"nodearray:{name}"]
        by_array = min(
            array_limit["max_nodes"] - array_limit["used_nodes"],
            (array_limit["max_cores"] - array_limit["used_cores"]) // cores,
        )
        self.limits[shared[0]] = limit(max(0, min(bucket["availableCount"], by_array)))
        used = {g["name"]: g["activeCoreCount"] for g in bucket.get("placementGroups", ())}
        configured = self.config.get("nodearrays", {})
        groups = sorted(used)
        for section in ("default", name):
            groups += configured.get(section, {}).get("placement_groups", [])
        groups += sorted(
            r["PlacementGroupId"]
            for r in self.records
            if (r["Template"], r["MachineType"]) == (name, size)
            and r["PlacementGroupId"]
            and is_member(r)
        )
        for group in [*dict.fromkeys(groups), None]:
            limits = list(shared)
            if group:
                limits.append(f"group:{name}:{size}:{group}")
                most = bucket["maxPlacementGroupSize"] * cores
                self.limits[limits[-1]] = limit(max_cores=most, used_cores=used.get(group, 0))
            self.buckets.append(self.variant(array, bucket, group, limits))

    def variant(
        self, array: dict[str, Any], bucket: dict[str, Any], group: str | None, limits: list[str]
    ) -> BucketDict:
        """A bucket within a placement group, or outside of any."""
        size = bucket["definition"]["machineType"]
        machine = bucket["virtualMachine"]
        failed = bucket.get("lastCapacityFailure")
        props = {
            "vm_size": size,
            "nodearray": array["name"],
            "location": array["nodearray"]["Region"],
            "spot": bool(array["nodearray"]["Interruptible"]),
            "vm_family": FAMILIES[size],
            "vcpu_count": machine["vcpuCount"],
            "pcpu_count": machine["pcpuCount"],
            "gpu_count": machine["gpuCount"],
            "placement_group": group,
            "colocated": bool(group),
            "infiniband": bool(group),
            "keep_alive": False,
            "state": "Off",
            "exists": False,
            "name": f"{array['name']}-0",
            "hostname": None,
        }
        own = array["nodearray"]["Configuration"]["autoscale"]["resources"]
        resources = with_defaults(own, machine, machine["gpuCount"], array["name"])
        members = [
            r
            for r in self.records
            if (r["Template"], r["MachineType"]) == (array["name"], size)
            and (r["PlacementGroupId"] or None) == group
            and is_member(r)
        ]
        failed = None if failed is None or failed < 0 else failed
        nodes = []
        for record in sorted(members, key=lambda r: (r["TargetState"] != "Started", natural(r))):
            mine = {
                "state": record["Status"],
                "exists": record["TargetState"] == "Started",
                "name": record["Name"],
                "hostname": record["Hostname"],
                "keep_alive": bool(record["KeepAlive"]),
            }
            node = node_dict(record["Name"], resources, {**props, **mine})
            nodes.append({**node, "failed": failed if node["dormant"] else None})
        example = node_dict(props["name"], resources, props, failed=failed)
        return {
            "nodearray": array["name"],
            "size": size,
            "group": group,
            "cores": machine["vcpuCount"],
            "limits": limits,
            "example": example,
            "nodes": nodes,
            "artificial": False,
        }


def read_cluster(status: dict[str, Any], config: dict[str, Any]) -> Cluster:
    """The cluster that a status reply (with nodes) and a configuration tell of."""
    return Reader(status, config).read()


def add_machines(cluster: Cluster, machines: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Machines that cannot be ordered, as [(name, resources)]; those are alike that differ in
    amounts only."""
    props = {
        "vm_size": "unknown",
        "nodearray": "unknown",
        "location": "unknown",
        "spot": False,
        "vm_family": "unknown",
        "vcpu_count": 1,
        "pcpu_count": 1,
        "gpu_count": 0,
        "placement_group": None,
        "colocated": False,
        "infiniband": False,
        "keep_alive": False,
        "state": "running",
        "exists": True,
    }
    alike: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, resources in machines:
        kind = {
            key: "amount" if is_number(value) or is_size(value) else value
            for key, value in resources.items()
        }
        alike.setdefault(repr(sorted(kind.items())), []).append((name, resources))
    off = {"state": "Off", "exists": False, "nodearray": "__unmanaged__", "hostname": None}
    for members in alike.values():
        cluster["buckets"].append(
            {
                "nodearray": "__unmanaged__",
                "size": "unknown",
                "group": None,
                "cores": 1,
                "limits": [],
                "example": node_dict("", members[0][1], {**props, **off, "name": ""}),
                "nodes": [
                    node_dict(name, resources, {**props, "name": name, "hostname": name})
                    for name, resources in members
                ],
                "artificial": True,
            }
        )
        cluster["names"].update(name for name, _ in members)


def add_group(cluster: Cluster, index: int, group: str, group_size: int) -> None:
    """A placement group more for a bucket that is in none; one that it has already changes
    nothing."""
    origin = cluster["buckets"][index]
    taken = {(b["nodearray"], b["size"], b["group"]) for b in cluster["buckets"]}
    if (origin["nodearray"], origin["size"], group) in taken:
        return
    name = f"group:{origin['nodearray']}:{origin['size']}:{group}"
    cluster["limits"][name] = limit(max_cores=group_size * origin["cores"])
    inside = {"placement_group": group, "colocated": True, "infiniband": True}
    example = {**origin["example"], "props": {**origin["example"]["props"], **inside}}
    added = {"group": group, "limits": [*origin["limits"], name], "example": example, "nodes": []}
    cluster["buckets"].append({**origin, **added})


def add_default(cluster: Cluster, name: str, value: Fraction) -> None:
    """A resource that every node has from now on which does not have it yet, new ones included."""
    for bucket in cluster["buckets"]:
        bucket["example"] = with_default(bucket["example"], name, value)
        bucket["nodes"] = [with_default(node, name, value) for node in bucket["nodes"]]


def with_default(node: NodeDict, name: str, value: Fraction) -> NodeDict:
    """A node that has the resource."""
    if name in node["totals"]:
        return node
    return {
        **node,
        "free": {**node["free"], name: value},
        "totals": {**node["totals"], name: value},
    }
