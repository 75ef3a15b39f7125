"""The arithmetic of limits: for how many more nodes of a machine type there is room, and why.

Pure. A `Tally` counts what nodes take from every limit that exists; `place_limits`, `group_limit`
and `quota_limits` say which limits one machine type is under, quotas by the table `QUOTAS`. The
status of a bucket and the decision on a request both come from these, so that they cannot disagree.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hpc.autoscale.simulator.description import ClusterDescription, MachineType, Nodearray, Region
from hpc.autoscale.simulator.nodes import SimNode

Scope = tuple[str, ...]


@dataclass
class Taken:
    """What is in use of one limit: nodes and cores."""

    nodes: int = 0
    cores: int = 0


class Tally:
    """What a set of nodes takes from each limit; 0 of a limit that none of them is under.

    With `with_parked`, nodes without a VM (`parked`) take places as if they were started: that
    keeps their records within the limits on nodes.
    """

    def __init__(self, nodes: Iterable[SimNode] = (), with_parked: bool = False) -> None:
        self._taken: dict[Scope, Taken] = {}
        self._with_parked = with_parked
        # many are alike, for whom the scopes are worked out once
        alike: dict[object, list[SimNode]] = {}
        for node in nodes:
            place = (node.cluster, id(node.nodearray), id(node.machine_type), node.placement_group)
            takes = (node.counts or (with_parked and node.parked), node.holds_quota)
            alike.setdefault((place, takes), []).append(node)
        for those in alike.values():
            self.add(those[0], len(those))

    def add(self, node: SimNode, count: int = 1) -> None:
        """Count one more node, or so many that are like it."""
        array, size = node.nodearray, node.machine_type
        if node.counts or (self._with_parked and node.parked):
            for scope in place_scopes(node.cluster, array, size, node.placement_group):
                self._count(scope, count, size.vcpus)
        if node.holds_quota:
            for scope in quota_scopes(array, size):
                self._count(scope, count, size.quota_vcpus)

    def taken(self, scope: Scope) -> Taken:
        """What is in use of the limit of this scope."""
        return self._taken.get(scope, Taken())

    def _count(self, scope: Scope, nodes: int, cores: int) -> None:
        taken = self._taken.setdefault(scope, Taken())
        taken.nodes += nodes
        taken.cores += nodes * cores


def bucket_scope(cluster: str, array: Nodearray, size: MachineType) -> Scope:
    """The scope in which the nodes of one machine type of a nodearray are counted."""
    return ("machine type", cluster, array.name, size.name)


def group_scope(cluster: str, array: Nodearray, size: MachineType, group: str) -> Scope:
    """The scope in which the nodes of a placement group are counted.

    Groups of the same name in other buckets have scopes of their own.
    """
    return ("placement group", cluster, array.name, size.name, group)


def place_scopes(
    cluster: str, array: Nodearray, size: MachineType, group: str | None
) -> Iterator[Scope]:
    """The scopes in which the place that a node takes is counted."""
    yield bucket_scope(cluster, array, size)
    yield ("nodearray", cluster, array.name)
    yield ("cluster", cluster)
    if group:
        yield group_scope(cluster, array, size, group)


class Quota(NamedTuple):
    """A quota of Azure's on cores.

    status: what its fields in the status of a bucket begin with. spot: whether it is for spot nodes
    or for the others. scope: where the cores are counted. text: its name in messages. most: how
    many cores it is.
    """

    status: str
    spot: bool
    scope: Callable[[Nodearray, MachineType], Scope]
    text: str
    most: Callable[[Region, MachineType], int]


QUOTAS = (
    Quota(
        "regional",
        spot=True,
        scope=lambda array, size: ("spot quota", array.region),
        text="spot quota",
        most=lambda region, size: region.spot_quota,
    ),
    Quota(
        "regional",
        spot=False,
        scope=lambda array, size: ("regional quota", array.region),
        text="regional quota",
        most=lambda region, size: region.quota,
    ),
    Quota(
        "family",
        spot=False,
        scope=lambda array, size: ("family quota", array.region, size.family.lower()),
        text="{family} quota",
        most=lambda region, size: region.family_quota(size.family),
    ),
)
"""Every quota that there is. There is no family quota for spot."""


def quota_scopes(array: Nodearray, size: MachineType) -> Iterator[Scope]:
    """Where the cores that a node is charged with are counted."""
    return (quota.scope(array, size) for quota in QUOTAS if quota.spot == array.spot)


@dataclass(frozen=True)
class CountLimit:
    """One limit as it concerns a machine type: at most `most` nodes, or cores of which each node
    takes `cores`. For quotas, `status` is what their fields in the status of a bucket begin with.
    """

    scope: Scope
    name: str
    most: int
    cores: int = 0
    status: str = ""

    def size(self) -> int:
        """How many nodes the limit allows in all."""
        return self.most // (self.cores or 1)

    def room(self, taken: Taken) -> int:
        """How many more nodes the limit allows."""
        return max(0, self.most - self._used(taken)) // (self.cores or 1)

    def sentence(self, taken: Taken) -> str:
        """The name of the limit and how much of it is in use, as a sentence."""
        unit = "cores" if self.cores else "nodes"
        return f"{self.name} ({self._used(taken)} of {self.most} {unit} in use)"

    def _used(self, taken: Taken) -> int:
        return taken.cores if self.cores else taken.nodes


def place_limits(
    cluster: ClusterDescription, array: Nodearray, size: MachineType
) -> list[CountLimit]:
    """The limits on nodes and cores that the cluster sets itself."""
    bucket, nodearray, whole = place_scopes(cluster.name, array, size, None)
    limits = [
        CountLimit(nodearray, f"MaxCount of nodearray {array.name}", array.max_count),
        CountLimit(
            nodearray, f"MaxCoreCount of nodearray {array.name}", array.max_core_count, size.vcpus
        ),
        CountLimit(whole, f"MaxCount of cluster {cluster.name}", cluster.max_count),
        CountLimit(
            whole, f"MaxCoreCount of cluster {cluster.name}", cluster.max_core_count, size.vcpus
        ),
    ]
    if size.max_count is not None:
        limits.insert(0, CountLimit(bucket, f"limit on {size.name}", size.max_count))
    return limits


def group_limit(cluster: str, array: Nodearray, size: MachineType, group: str) -> CountLimit:
    """How many nodes fit into one placement group."""
    scope = group_scope(cluster, array, size, group)
    return CountLimit(scope, f"size of placement group {group}", array.max_placement_group_size)


def quota_limits(region: Region, array: Nodearray, size: MachineType) -> list[CountLimit]:
    """The quotas of Azure that a machine type draws on, in the order of the table."""
    return [
        CountLimit(
            quota.scope(array, size),
            f"{quota.text.format(family=size.family)} in {region.name}",
            quota.most(region, size),
            size.quota_vcpus,
            quota.status,
        )
        for quota in QUOTAS
        if quota.spot == array.spot
    ]


def room(limits: Iterable[CountLimit], tally: Tally) -> tuple[int, CountLimit]:
    """How many more nodes all of the limits allow, and the first of those that allow the fewest."""
    left, _, limit = min(
        (limit.room(tally.taken(limit.scope)), index, limit) for index, limit in enumerate(limits)
    )
    return left, limit
