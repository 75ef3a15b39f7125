"""The parts of a simulated CycleCloud, as values.

They are regions with their quotas, clusters, nodearrays and machine types; all are frozen data.
`loading` makes them from a JSON file; what happens to nodes over time is in `cluster` and
`orchestrator`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale.simulator.faults import Fault

# More than any real subscription has, so that an unset limit is none in practice, and small enough
# to stay readable.
UNLIMITED_CORES = 10_000_000
DEFAULT_CLUSTER_NODES = 10_000
DEFAULT_SCALESET_SIZE = 40


@dataclass(frozen=True)
class MachineType:
    """One VM size of a nodearray. `vcpus` count against core limits, `quota_vcpus` against quotas;
    memory in GiB."""

    name: str
    family: str
    vcpus: int
    pcpus: int
    gpus: int
    memory_gb: float
    infiniband: bool
    quota_vcpus: int
    max_count: int | None = None
    invalid_reason: str = ""
    spot_placement_score: str = ""


@dataclass(frozen=True)
class Lifecycle:
    """How long each phase lasts, in seconds of the simulated clock, and how often things go wrong.

    `jitter` is the part of a duration by which it may be shorter or longer. Rates are probabilities
    per boot. `time_to_eviction` is the mean life of a spot node that is Ready; None: never evicted
    by itself.
    """

    allocation: float = 1.0
    acquiring: float = 5.0
    preparing: float = 10.0
    restarting: float = 5.0
    reimaging: float = 10.0
    deallocating: float = 5.0
    terminating: float = 5.0
    allocation_failed: float = 5.0
    eviction_notice: float = 30.0
    time_to_eviction: float | None = None
    jitter: float = 0.0
    boot_failure_rate: float = 0.0


@dataclass(frozen=True)
class MachineTemplate:
    """How a local process stands in for a VM. Durations are real seconds, whatever the simulated
    clock does.

    `on_exit` says what happens when the process ends by itself: "fail" the node or "restart" the
    process.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready_file: str | None = None
    ready_command: tuple[str, ...] = ()
    grace: float = 10.0
    on_exit: str = "fail"
    restart_delay: float = 1.0


@dataclass(frozen=True)
class Nodearray:
    """A nodearray; `machine_types` has its sizes by lower-case name, in order of preference.

    A node outside of nodearrays has one of its own, to which nothing can be added: `is_array` is
    false then, and there is one machine type. `hostnames` says whether nodes register under their
    "name" or their "address"; `attributes` are further attributes of its record, in CycleCloud's
    own names.
    """

    name: str
    region: str
    machine_types: Mapping[str, MachineType]
    max_count: int
    max_core_count: int
    spot: bool = False
    subnet_id: str = ""
    max_placement_group_size: int = DEFAULT_SCALESET_SIZE
    placement_groups: tuple[str, ...] = ()
    priority: int | None = None
    throttle_capacity: bool = False
    throttle_capacity_time: float = 300.0
    hostnames: str = "name"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    lifecycle: Lifecycle = Lifecycle()
    machine: MachineTemplate | None = None
    is_array: bool = True


@dataclass(frozen=True)
class ClusterDescription:
    """A cluster and the limits on all of its nodes. `nodes` are those outside of nodearrays."""

    name: str
    max_count: int
    max_core_count: int
    nodearrays: Mapping[str, Nodearray]
    nodes: Mapping[str, Nodearray] = field(default_factory=dict)


@dataclass(frozen=True)
class Region:
    """The quotas of a region in vCPUs, which all clusters in it share.

    `capacity` is how many VMs of a size the region can run at a time.
    """

    name: str
    quota: int = UNLIMITED_CORES
    spot_quota: int = UNLIMITED_CORES
    family_quotas: Mapping[str, int] = field(default_factory=dict)
    default_family_quota: int = UNLIMITED_CORES
    capacity: Mapping[str, int] = field(default_factory=dict)

    def family_quota(self, family: str) -> int:
        """The quota of one VM family; letter case does not matter."""
        given = (
            cores for name, cores in self.family_quotas.items() if name.lower() == family.lower()
        )
        return next(given, self.default_family_quota)


@dataclass(frozen=True)
class Description:
    """Everything that a simulator is started with."""

    clusters: Mapping[str, ClusterDescription]
    regions: Mapping[str, Region]
    faults: tuple[Fault, ...] = ()
