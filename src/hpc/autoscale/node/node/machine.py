"""What a machine is: its names and its hardware. Nothing here changes while work is placed on it."""

from __future__ import annotations

from functools import cached_property

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node.kind import lazy, made_up_hostname, shared
from hpc.autoscale.util import ShellDict

# The names that a constraint may ask for as {"node.<name>": …}; published, and compared by callers.
QUERYABLE_PROPERTIES: list[str] = [
    "state",
    "exists",
    "instance_id",
    "keep_alive",
    "placement_group",
    "create_time_unix",
    "last_match_time_unix",
    "delete_time_unix",
    "create_time_remaining",
    "name",
    "nodearray",
    "bucket_id",
    "vm_size",
    "vm_family",
    "hostname",
    "fqdn",
    "hostname_or_uuid",
    "private_ip",
    "location",
    "spot",
    "vcpu_count",
    "memory",
    "infiniband",
    "colocated",
    "version",
    "pcpu_count",
    "gpu_count",
    "cores_per_socket",
    "create_time",
    "last_match_time",
    "delete_time",
]


class Machine:
    """Names and hardware of a node."""

    _name: ht.NodeName
    _hostname: ht.Hostname | None = lazy(made_up_hostname)
    _bucket_id: ht.BucketId = shared()
    _vm_size: ht.VMSize = shared()
    _location: ht.Location = shared()
    _spot: bool = shared()
    _vcpu_count: int = shared()
    _memory: ht.Memory = shared()
    _infiniband: bool = shared()
    _gpu_count: int | None = shared()

    def __init__(
        self,
        node_id: DelayedNodeId,
        name: ht.NodeName,
        bucket_id: ht.BucketId,
        hostname: ht.Hostname | None,
        vm_size: ht.VMSize,
        location: ht.Location,
        spot: bool,
        vcpu_count: int,
        memory: ht.Memory,
        infiniband: bool,
        gpu_count: int | None,
    ) -> None:
        if not isinstance(memory, ht.Memory):
            raise AssertionError(f"expected a Memory as memory of node {name}, found {memory!r}")
        self.delayed_node_id = node_id
        # there is nobody yet who would have to be told of each
        self.__dict__.update(
            _name=name,
            _bucket_id=bucket_id,
            _hostname=hostname,
            _vm_size=vm_size,
            _location=location,
            _spot=spot,
            _vcpu_count=vcpu_count,
            _memory=memory,
            _infiniband=infiniband,
            _gpu_count=gpu_count,
        )

    # -- identity

    @property
    def name(self) -> ht.NodeName:
        """Name in the cluster, unique at one time."""
        return self._name

    def _rename(self, name: ht.NodeName) -> None:
        """Take the name that the server gave; a planned name is only a proposal until then."""
        self._name = name
        self.delayed_node_id.name = name

    @property
    def bucket_id(self) -> ht.BucketId:
        """The bucket it belongs to."""
        return self._bucket_id

    @property
    def hostname(self) -> ht.Hostname | None:
        """Short host name: what stands before the first dot."""
        given = self._hostname
        return ht.Hostname(given.split(".", 1)[0]) if given and "." in given else given

    @property
    def fqdn(self) -> ht.Hostname | None:
        """Host name as it was given."""
        return self._hostname

    @property
    def hostname_or_uuid(self) -> str:
        """The short host name, or an id that is unique in this process while there is none."""
        return self.hostname or self.delayed_node_id.transient_id

    @property
    def hostname_required(self) -> ht.Hostname:
        """The short host name; AssertionError while there is none."""
        if not self.hostname:
            raise AssertionError(f"null hostname: node {self.name} has none yet")
        return self.hostname

    @property
    def _node_index(self) -> int | None:
        """The number after the last dash of the name, if there is one."""
        return ht.numbered(self.name)[1]

    # -- hardware

    @property
    def vm_size(self) -> ht.VMSize:
        """Azure VM size."""
        return self._vm_size

    @property
    def location(self) -> ht.Location:
        """Azure region."""
        return self._location

    @property
    def spot(self) -> bool:
        """Interruptible, at spot price."""
        return self._spot

    @property
    def infiniband(self) -> bool:
        """On an InfiniBand fabric."""
        return self._infiniband

    @property
    def memory(self) -> ht.Memory:
        """Memory, in the unit in which CycleCloud reports it (GiB)."""
        return self._memory

    @cached_property
    def _aux(self) -> vm_sizes.AuxVMSizeInfo:
        return vm_sizes.get_aux_vm_size_info(self._location, self._vm_size)

    @property
    def vm_family(self) -> ht.VMFamily:
        """Quota family from the catalogue, "unknown" when the size is not in it."""
        return self._aux.vm_family

    @property
    def vcpu_count(self) -> int:
        """Virtual CPUs."""
        return self._vcpu_count if self._vcpu_count >= 0 else self._aux.pcpu_count

    @property
    def pcpu_count(self) -> int:
        """Physical cores from the catalogue; `vcpu_count` for a size it does not know."""
        cores = self._aux.pcpu_count
        return cores if cores >= 0 else self._vcpu_count

    @property
    def gpu_count(self) -> int:
        """GPUs: the number given when above 0, else the catalogue's."""
        given = self._gpu_count
        return given if given is not None and given > 0 else self._aux.gpu_count

    @property
    def cores_per_socket(self) -> int:
        """vCPUs to a physical core, by the catalogue (-1 unknown). The published name is a misnomer."""
        return self._aux.cores_per_socket

    @property
    def vm_capabilities(self) -> ShellDict:
        """Raw capabilities of the size, by Azure's names."""
        return self._aux.capabilities

    @property
    def version(self) -> str:
        """Constant kept for callers that ask for it."""
        return "7.9"
