"""What can be read of a bucket: its hardware and configuration, and how many nodes it may still have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.bucket.definition import NodeDefinition
from hpc.autoscale.node.limits import BucketLimits
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.limits import NO_LIMIT, Limit, LimitExceeded
from hpc.autoscale.util import ShellDict

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket.mould import Mould


class BucketFacts:
    """The readable side of `NodeBucket`, and its counter of reserved places."""

    limits: BucketLimits
    _definition: NodeDefinition
    _mould: Mould
    _last_capacity_failure: float | None
    _spot_placement_score: str | None
    _candidate: Candidate | None
    _reserved: int

    def touched(self, node: Node) -> None:
        """A node was written to."""
        raise NotImplementedError

    def _at_home(self, mould: Mould) -> Mould:
        """A mould of its own, writes into which are reported here."""
        mould.example._home = self
        return mould

    def _own_mould(self) -> Mould:
        """The mould, for whoever may write into it."""
        if self._mould.is_shared:
            self._mould = self._at_home(self._mould.of(self._definition))
        return self._mould

    # -- what it is

    @property
    def nodearray(self) -> ht.NodeArrayName:
        """The nodearray its nodes are made from."""
        return self._definition.nodearray

    @property
    def bucket_id(self) -> ht.BucketId:
        """The server's id, shared by the placement-group variants of one bucket."""
        return self._definition.bucket_id

    @property
    def vm_size(self) -> ht.VMSize:
        """Azure VM size."""
        return self._definition.vm_size

    @property
    def location(self) -> ht.Location:
        """Azure region."""
        return self._definition.location

    @property
    def spot(self) -> bool:
        """Interruptible, at spot price."""
        return self._definition.spot

    @property
    def subnet(self) -> ht.SubnetId:
        """Subnet, as `group/network/subnet`."""
        return self._definition.subnet

    @property
    def placement_group(self) -> ht.PlacementGroup | None:
        """Placement group, if any."""
        return self._definition.placement_group

    @property
    def vcpu_count(self) -> int:
        """Virtual CPUs of one node."""
        return self._definition.vcpu_count

    @property
    def gpu_count(self) -> int:
        """GPUs of one node."""
        return self._mould.example.gpu_count

    @property
    def memory(self) -> ht.Memory:
        """Memory of one node."""
        return self._definition.memory

    @property
    def resources(self) -> dict[str, Any]:
        """Totals of a new node: live, may be written to."""
        return self._own_mould().resources

    @property
    def software_configuration(self) -> Any:
        """Configuration of the nodearray."""
        return self._definition.software_configuration

    @property
    def vm_family(self) -> ht.VMFamily:
        """Quota family of the size."""
        return self._mould.example.vm_family

    @property
    def vm_capabilities(self) -> ShellDict:
        """Raw capabilities of the size."""
        return self._mould.example.vm_capabilities

    @property
    def pcpu_count(self) -> int:
        """Physical cores of one node."""
        return self._mould.example.pcpu_count

    @property
    def cores_per_socket(self) -> int:
        """vCPUs to a physical core (-1 unknown). The published name is a misnomer."""
        return self._mould.example.cores_per_socket

    @property
    def example_node(self) -> Node:
        """A node as a new one would be, named `<nodearray>-0`: what constraints on the bucket look at."""
        return self._own_mould().example

    @property
    def _example_node(self) -> Node:
        return self.example_node

    @property
    def spot_placement_score(self) -> str | None:
        """Azure's estimate of getting spot capacity: High, Medium, Low; None when the server does not say."""
        return self._spot_placement_score

    @property
    def supports_colocation(self) -> bool:
        """Whether placement groups make sense here (`autoscale.is_hpc` of the configuration, true by default)."""
        autoscale = self.software_configuration.get("autoscale") or {}
        return bool(autoscale.get("is_hpc", True))

    @property
    def last_capacity_failure(self) -> float | None:
        """Seconds since Azure last had no capacity here; None for never."""
        elapsed = self._last_capacity_failure
        return None if elapsed is None or elapsed < 0 else elapsed

    # -- how many there may be

    @property
    def _engine_limits(self) -> tuple[Limit, ...]:
        """The limits that a new node is charged to; one without room where they are not known."""
        # callers' tests pass all kinds of objects for limits that they never ask
        known = isinstance(self.limits, BucketLimits)
        return self.limits.parts if known else (Limit(f"Bucket({self})", max_nodes=0),)

    @property
    def available_count(self) -> int:
        """How many nodes can be added now, by the tightest of all limits, less those reserved."""
        room = min((a.room(self.vcpu_count) for a in self._engine_limits), default=NO_LIMIT)
        return max(0, room - self._reserved)

    @available_count.setter
    def available_count(self, nodes: int) -> None:
        # published oddity: assigning takes that many away
        self.limits.decrement(nodes)

    @property
    def family_available_count(self) -> int:
        """How many nodes the family's quota has room for, less those reserved."""
        return self.limits.family_available_count - self._reserved

    @property
    def max_count(self) -> int:
        """Most nodes the bucket can have."""
        return self.limits.max_count

    def decrement(self, count: int = 1) -> None:
        """Reserve places for `count` nodes until `commit` or `rollback`; AssertionError when there are fewer."""
        if count > 0 and count > self.available_count:
            raise AssertionError(
                f"expected room for {count} nodes in {self}, found {self.available_count}"
            )
        self._reserve(self._reserved + count)

    def increment(self, count: int = 1) -> None:
        """Take back `count` reserved places."""
        self._reserve(self._reserved - count)

    def commit(self) -> None:
        """Make the reserved places used."""
        reserved = self._reserved
        self._reserve(0)
        try:
            self.limits.decrement(reserved)
        except LimitExceeded:
            self._reserve(reserved)
            raise

    def rollback(self) -> None:
        """Forget the reserved places."""
        self._reserve(0)

    def _reserve(self, count: int) -> None:
        # what was never reserved cannot be taken back
        self._reserved = max(0, count)
        if self._candidate is not None:
            self._candidate.reserved = self._reserved
