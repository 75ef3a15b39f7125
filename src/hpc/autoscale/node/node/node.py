"""The published `Node`: one machine, existing or planned, as integrations hold it.

A node is a handle. What placing work changes (the amounts that are left, who was placed, whether it
takes more) is kept by the bucket of the node, by position, as soon as an engine knows the bucket;
reading it through the handle reads it there, and writing it writes it there at once. Everything
else is an attribute of the handle, or of the class of equal nodes that it was made from; a write
that could change a decision is passed on by the write itself. A node that belongs to nobody keeps
all of it alone.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import util
from hpc.autoscale.config.naming import escaped_placement_group, group_or_none
from hpc.autoscale.errors import AutoscaleError, check_kinds
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import decrementing, record
from hpc.autoscale.node.node.contents import (
    MADE_LATE,
    Amounts,
    Change,
    Hardware,
    NodeClass,
    ReadOnlyShellDict,
    Reads,
    ShellAmounts,
    TrackedDict,
    TrackedSet,
    TrackedShellDict,
    assigned_to,
    copied,
    reads,
)
from hpc.autoscale.node.readonly import read_only
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.results import MatchResult
from hpc.autoscale.util import ShellDict, random_uuid

if TYPE_CHECKING:
    from datetime import datetime

    from hpc.autoscale.node.node.decrementing import Condition
    from hpc.autoscale.node.node.state import BucketNodes

# The names that a constraint may ask for as {"node.<name>": …}; published, and compared by
# callers.
QUERYABLE_PROPERTIES: list[str] = [
    *("state", "exists", "instance_id", "keep_alive", "placement_group", "create_time_unix"),
    *("last_match_time_unix", "delete_time_unix", "create_time_remaining", "name", "nodearray"),
    *("bucket_id", "vm_size", "vm_family", "hostname", "fqdn", "hostname_or_uuid", "private_ip"),
    *("location", "spot", "vcpu_count", "memory", "infiniband", "colocated", "version"),
    *("pcpu_count", "gpu_count", "cores_per_socket"),
    *("create_time", "last_match_time", "delete_time"),
]


_NAMES = ("_name", "_hostname", "_Node__private_ip", "instance_id")
_DECIDING = (
    *("_Node__nodearray", "_Node__placement_group", "_Node__keep_alive", "state", "target_state"),
    *("exists", "_bucket_id", "_hardware"),
)
# Attributes of which each write may change a decision.
_REPORTED = {
    **dict.fromkeys(_NAMES, Change.IDENTITY),
    **dict.fromkeys(_DECIDING, Change.ALL),
}

# What a clone is given as it is, by the names of both the argument and the property.
_CLONED = (
    *("name", "nodearray", "bucket_id", "instance_id", "vm_size", "location", "spot", "keep_alive"),
    *("memory", "infiniband", "state", "target_state", "exists", "placement_group", "managed"),
)


def _local(name: str, says: str) -> Reads[datetime]:
    """A property that is the local time of an attribute in seconds since the epoch."""

    def read(self: Node) -> datetime:
        from datetime import datetime

        return datetime.fromtimestamp(getattr(self, name) or 0)

    read.__doc__ = says
    return property(read)  # type: ignore[return-value]


class Node(ABC):
    """One machine. `resources` are its totals, `available` what is left of them; matching looks at
    `available`.

    `memory` must be a `Memory` (AssertionError otherwise). A `vcpu_count` below 0 and a `gpu_count`
    of 0 or None take the VM-size catalogue's figure.
    """

    # where it belongs, and its position there; the example node of a bucket has none
    _home: BucketNodes | None = None
    _position = -1

    # what it was made of together with others like it, until something of it is written to that
    # tells it from them
    _class: NodeClass | None = None
    _node_id: ht.NodeId | None = None

    # what its home keeps as long as an engine knows it
    _closed = False
    _used = False
    _counted = True

    # the scheduler wants rid of it
    marked_for_deletion = False

    # how the creation request asks for its name
    name_format: str | None = None
    name_offset: int | None = None

    # made up here: its host name is not real, and its name is a proposal
    _is_planned = False

    # somebody gave it its bucket id; false where it was made up for it alone
    _has_bucket_id = True

    create_time_unix: float = 0.0
    last_match_time_unix: float = 0.0
    delete_time_unix: float | None = 0.0
    __create_time_remaining: float = 0.0
    __idle_time_remaining: float = 0.0

    # every node is given its own
    state = ht.NodeStatus("Off")
    target_state = ht.NodeStatus("Off")
    exists = False
    was_at_rest = False  # deallocated, before it was started here

    instance_id: ht.InstanceId | None
    managed: bool
    _name: ht.NodeName
    _hardware: Hardware

    # The mangled names are part of the interface: callers' tests write `node._Node__nodearray`.
    __private_ip: ht.IpAddress | None
    __placement_group: ht.PlacementGroup | None
    __keep_alive: bool
    __software_configuration: Mapping[str, Any]

    def __init__(
        self,
        node_id: DelayedNodeId,
        name: ht.NodeName,
        nodearray: ht.NodeArrayName,
        bucket_id: ht.BucketId,
        hostname: ht.Hostname | None,
        private_ip: ht.IpAddress | None,
        instance_id: ht.InstanceId | None,
        vm_size: ht.VMSize,
        location: ht.Location,
        spot: bool,
        vcpu_count: int,
        memory: ht.Memory,
        infiniband: bool,
        state: ht.NodeStatus,
        target_state: ht.NodeStatus,
        power_state: ht.NodeStatus,
        exists: bool,
        placement_group: ht.PlacementGroup | None,
        managed: bool,
        resources: Mapping[str, Any],
        software_configuration: Mapping[str, Any],
        keep_alive: bool,
        gpu_count: int | None = None,
    ) -> None:
        if not (isinstance(memory, ht.Memory) and isinstance(resources, ht.OBJECT_KINDS)):
            check_kinds(f"node {name}", ht.Memory, memory=memory)  # type: ignore[unreachable]
            check_kinds(f"node {name}", Mapping, resources=resources)
        # there is nobody yet who would have to be told of each
        own = self.__dict__
        own["delayed_node_id"] = node_id  # Python shares the keys of one that was not empty
        own.update(
            _name=name,
            _bucket_id=bucket_id,
            _hostname=hostname,
            _hardware=Hardware(vm_size, location, spot, vcpu_count, memory, infiniband, gpu_count),
            instance_id=instance_id,
            state=state,
            target_state=target_state,
            exists=exists,
            managed=managed,
            metadata={},
            # totals are copied: nodes of one bucket must not share them
            _resources=TrackedDict(copied(resources), self),
            _Node__nodearray=nodearray,
            _Node__private_ip=private_ip,
            _Node__power_state=power_state,
            _Node__placement_group=(managed and placement_group)
            or group_or_none(placement_group, f"node {name}"),
            _Node__keep_alive=keep_alive,
            _Node__available=Amounts(copied(resources), self),
            _Node__assignments=TrackedSet((), self),
            _Node__software_configuration=software_configuration,
            _Node__node_attribute_overrides={},
        )

    # -- what is made when somebody first looks at it, of nodes that were made of a class

    @cached_property
    def delayed_node_id(self) -> DelayedNodeId:
        """The identity of the node, before and after the server has given it one."""
        self._require_class("delayed_node_id")
        return DelayedNodeId(self.name, self._node_id)

    @cached_property
    def _hostname(self) -> ht.Hostname | None:
        # one that is only planned has none yet
        self._require_class("hostname")
        return ht.Hostname(util.uuid("hostname"))

    @cached_property
    def _resources(self) -> TrackedDict:
        node_class = self._require_class("resources")
        return TrackedDict(node_class.filled(node_class.totals, self), self)

    @cached_property
    def __available(self) -> Amounts:
        node_class = self._require_class("available")
        home = self._home
        known = home.class_shape(node_class) if home is not None and home.is_bound else None
        return Amounts(node_class.filled(node_class.free, self), self, known)

    @cached_property
    def __assignments(self) -> TrackedSet:
        self._require_class("assignments")
        return TrackedSet((), self) if self._home is None else self._home.assignments_of(self)

    @cached_property
    def __node_attribute_overrides(self) -> dict[str, Any]:
        self._require_class("node_attribute_overrides")
        return {}

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Whatever callers keep with the node."""
        self._require_class("metadata")
        return {}

    def _require_class(self, name: str) -> NodeClass:
        if self._class is None:
            raise AttributeError(f"{name} was not set yet")
        return self._class

    def _make_all(self) -> None:
        """Make what is made when somebody first looks at it: from now on the node has nothing in
        common with its class."""
        for name in MADE_LATE:
            getattr(self, name)
        self.__dict__["_class"] = None

    # -- where its state is

    if not TYPE_CHECKING:  # it would allow every attribute

        def __setattr__(self, name, value):
            what = _REPORTED.get(name)
            if what is not None and self._class is not None:
                # resources may be named after these: they are made before one of them changes
                self._make_all()
            object.__setattr__(self, name, value)
            if what is not None:
                self._changed(what)

    def __getstate__(self) -> dict[str, Any]:
        """All attributes, as they are now, of a node that belongs to nobody."""
        for name in MADE_LATE:
            getattr(self, name)
        state = {**self.__dict__, **self._own_state()}
        for name in ("_home", "_position", "_class", "_node_id"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be what another node was, under the same transient id; nothing that can be changed is
        shared with it."""
        self.__dict__.update(
            state,
            delayed_node_id=state["delayed_node_id"].clone(),
            metadata=deepcopy(state["metadata"]),
            _resources=TrackedDict(copied(state["_resources"]), self),
            _Node__available=Amounts(copied(state["_Node__available"]), self),
            _Node__assignments=TrackedSet(state["_Node__assignments"], self),
        )
        self.delayed_node_id.transient_id = state["delayed_node_id"].transient_id
        for name in ("_Node__node_attribute_overrides", "_Node__software_configuration"):
            self.__dict__[name] = deepcopy(dict(state[name]))

    def _own_state(self) -> dict[str, Any]:
        """What its home keeps for it, for when it has none."""
        self.available.catch_up()
        return {"_closed": self.__closed, "_used": self._allocated, "_counted": self._is_counted}

    def _leave(self) -> None:
        """Belong to nobody from now on."""
        self.__dict__.update(self._own_state(), _home=None)

    def _changed(self, what: Change, amount: tuple[str, object] | None = None) -> None:
        """Tell the bucket, if any, that something was written that may change a decision."""
        if self._home is not None:
            self._home.written(self, what, amount)

    @property
    def _shape(self) -> NodeShape | None:
        """What the engine knows of it; None when no engine knows it."""
        home = self._home
        if home is None or not home.is_bound or self._position < 0:
            return None
        return home.shapes[self._position]

    @property
    def __closed(self) -> bool:
        shape = self._shape
        return self._closed if shape is None else shape.closed

    @__closed.setter
    def __closed(self, value: bool) -> None:
        if self._home is None or self._shape is None:
            self._closed = value
            self._changed(Change.OCCUPANCY)
        else:
            self._home.close(self._position, value)

    @property
    def _allocated(self) -> bool:
        """Work was placed on it, or somebody said that it is required."""
        home = self._home
        return self._used if home is None or self._position < 0 else self._position in home.used

    @_allocated.setter
    def _allocated(self, value: bool) -> None:
        home = self._home
        was = self._allocated
        if home is None or self._position < 0:
            self._used = value
        elif value:
            home.used.add(self._position)
        else:
            home.used.discard(self._position)
        if was != value and not self.exists:  # one that exists has its place, used or not
            self._changed(Change.OCCUPANCY)

    @property
    def _is_counted(self) -> bool:
        """The limits of its bucket have a place less because of it."""
        home = self._home
        return self._counted if home is None else self._position not in home.uncounted

    # -- identity

    name = reads("_name", ht.NodeName, "Name in the cluster, unique at one time.")

    def _rename(self, name: ht.NodeName) -> None:
        """Take the name that the server gave; a planned name is only a proposal until then."""
        self._name = name
        self.delayed_node_id.name = name

    bucket_id = reads("_bucket_id", ht.BucketId, "The bucket it belongs to.")

    @property
    def hostname(self) -> ht.Hostname | None:
        """Short host name: what stands before the first dot; an address stays whole."""
        given = self._hostname
        return ht.Hostname(ht.without_domain(given)) if given and "." in given else given

    fqdn: Reads[ht.Hostname | None] = reads(
        "_hostname", ht.Hostname | None, "Host name as it was given."
    )

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

    vm_size = reads("_hardware.vm_size", ht.VMSize, "Azure VM size.")
    location = reads("_hardware.location", ht.Location, "Azure region.")
    spot = reads("_hardware.spot", bool, "Interruptible, at spot price.")
    infiniband = reads("_hardware.infiniband", bool, "On an InfiniBand fabric.")
    memory = reads("_hardware.memory", ht.Memory, "Memory, in the unit of CycleCloud (GiB).")
    vm_family = reads("_aux.vm_family", ht.VMFamily, "Quota family of the size, or `unknown`.")
    cores_per_socket = reads(
        "_aux.cores_per_socket", int, "vCPUs to a physical core (-1 unknown), despite its name."
    )
    vm_capabilities = reads("_aux.capabilities", ShellDict, "Raw capabilities, by Azure's names.")

    @cached_property
    def _aux(self) -> vm_sizes.AuxVMSizeInfo:
        return vm_sizes.get_aux_vm_size_info(self.location, self.vm_size)

    @property
    def version(self) -> str:
        """Constant kept for callers that ask for it."""
        return "7.9"

    @property
    def vcpu_count(self) -> int:
        """Virtual CPUs."""
        return given if (given := self._hardware.vcpu_count) >= 0 else self._aux.pcpu_count

    @property
    def pcpu_count(self) -> int:
        """Physical cores from the catalogue; `vcpu_count` for a size it does not know."""
        cores = self._aux.pcpu_count
        return cores if cores >= 0 else self._hardware.vcpu_count

    @property
    def gpu_count(self) -> int:
        """GPUs: the number given when above 0, else the catalogue's."""
        return given if (given := self._hardware.gpu_count or 0) > 0 else self._aux.gpu_count

    # -- times, in seconds since the epoch; set by the node history

    @property
    def create_time_remaining(self) -> float:
        """Seconds left to become ready before the boot timeout; -1 once ready."""
        return -1 if self.state == "Ready" else self.__create_time_remaining

    @create_time_remaining.setter
    def create_time_remaining(self, value: float) -> None:
        self.__create_time_remaining = max(0, value)

    @property
    def idle_time_remaining(self) -> float:
        """Seconds left before the idle timeout; -1 while work is assigned."""
        return -1 if self.assignments else self.__idle_time_remaining

    @idle_time_remaining.setter
    def idle_time_remaining(self, value: float) -> None:
        self.__idle_time_remaining = max(-1, value)

    create_time = _local("create_time_unix", "When it was first seen, or at rest last; local time.")
    last_match_time = _local("last_match_time_unix", "When work last needed it; local time.")
    delete_time = _local(
        "delete_time_unix", "When it was last found gone (the epoch: it is not gone); local time."
    )

    # -- where it stands

    nodearray = reads("_Node__nodearray", ht.NodeArrayName, "The nodearray it is made from.")

    @property
    def private_ip(self) -> ht.IpAddress | None:
        """Private address, as text."""
        return self.__private_ip

    @property
    def keep_alive(self) -> bool:
        """Must not be terminated. RuntimeError when set on an existing node."""
        return bool(self.__keep_alive)

    @keep_alive.setter
    def keep_alive(self, value: bool) -> None:
        if self.exists:
            raise AutoscaleError(
                f"keep_alive of {self.name} cannot be changed: the node exists already"
            )
        self.__keep_alive = value

    @property
    def placement_group(self) -> ht.PlacementGroup | None:
        """Placement group, if any. Letters, digits, `_` and `-`, unless the cluster named it
        otherwise; cannot be moved once the node exists."""
        return self.__placement_group

    @placement_group.setter
    def placement_group(self, value: ht.PlacementGroup | None) -> None:
        value, current = value or None, self.__placement_group
        if self.exists and current and value != current:
            raise AutoscaleError(
                f"placement group of {self.name} cannot be changed from {current!r} to {value!r}:"
                " the node exists"
            )
        if value != current:
            self.__placement_group = group_or_none(value, f"node {self.name}")

    def set_placement_group_escaped(self, value: str | None) -> ht.PlacementGroup | None:
        """Set the placement group, with `_` for every illegal character; returns what was set."""
        self.placement_group = escaped_placement_group(value) if value else None
        return self.placement_group

    @property
    def colocated(self) -> bool:
        """In a placement group."""
        return bool(self.__placement_group)

    @property
    def closed(self) -> bool:
        """Takes no more work. Can be set to True, never back (RuntimeError)."""
        return bool(self.__closed)

    @closed.setter
    def closed(self, value: bool) -> None:
        if self.__closed and not value:
            raise AutoscaleError(f"node {self.name} is closed and cannot be opened again")
        if value and not self.__closed:
            self.__closed = True

    @property
    def required(self) -> bool:
        """Something needs it: kept alive, allocated, or assigned."""
        home = self._home
        if home is not None and self._position in home.used:
            return True  # as most are that are asked
        return bool(self.__keep_alive or self._allocated or assigned_to(self))

    @required.setter
    def required(self, value: bool) -> None:
        self._allocated = value

    @property
    def _in_demand(self) -> bool:
        """Work was placed here, or is about to be."""
        return bool(self._allocated or assigned_to(self))

    # -- what it offers, and to whom

    @property
    def resources(self) -> Mapping[str, Any]:
        """Totals: a live view that cannot be written to."""
        if isinstance(self._resources, ShellDict):
            return ReadOnlyShellDict(self._resources)
        return read_only(self._resources)

    available = reads(
        "_Node__available", Amounts, "What is left of the totals: live, may be written to."
    )
    assignments = reads("_Node__assignments", TrackedSet, "Ids of the jobs placed here: live.")

    def assign(self, assignment_id: str) -> None:
        """Note that a job is placed here."""
        try:
            self.__assignments.add(assignment_id)
        except TypeError:  # it cannot be one of a set
            check_kinds(f"node {self.name}", str, assignment_id=assignment_id)
            raise

    @property
    def node_attribute_overrides(self) -> Any:
        """Attributes for the creation request: a live dict, read-only once the node exists."""
        overrides = self.__node_attribute_overrides
        return read_only(overrides) if self.exists else overrides

    @property
    def software_configuration(self) -> Any:
        """Configuration, overlaid by `node_attribute_overrides["Configuration"]`; read-only once
        the node exists."""
        configuration = self.__software_configuration
        overlay = self.__node_attribute_overrides.get("Configuration")
        if overlay:
            configuration = {**configuration, **overlay}
        return read_only(dict(configuration)) if self.exists else configuration

    def _stand(self, state: ht.NodeStatus, target: ht.NodeStatus, exists: bool) -> None:
        """Take over where it stands: the engine looks at it once, and not for each."""
        self._make_all()
        was_at_rest = self.was_at_rest or self.state == "Deallocated"
        self.__dict__.update(state=state, target_state=target, was_at_rest=was_at_rest)
        self.exists = exists

    def _settle(self, hostname: ht.Hostname | None, private_ip: ht.IpAddress | None) -> None:
        """Take over the host name and address that the server gives, None while it has none."""
        self._hostname = hostname
        self.__private_ip = private_ip

    # -- operations

    def decrement(
        self,
        constraints: Sequence[Condition],
        iterations: int = 1,
        assignment_id: str | None = None,
    ) -> MatchResult[Node]:
        """Place up to `iterations` of what `constraints` ask for here, under `assignment_id` (made
        up when None).

        All or nothing within what fits: a refusal leaves no trace.
        """
        return decrementing.decrement(self, constraints, iterations, assignment_id or random_uuid())

    def clone(self) -> Node:
        """An independent copy of what it is and offers; assignments and the closed flag are not
        copied."""
        given: dict[str, Any] = {name: getattr(self, name) for name in _CLONED}
        made = Node(
            node_id=self.delayed_node_id.clone(),
            hostname=ht.Hostname(self.hostname_or_uuid),
            private_ip=getattr(self, "_address", self.__private_ip),  # as far as it is known
            vcpu_count=self._hardware.vcpu_count,
            gpu_count=self._hardware.gpu_count,
            power_state=self.state,
            resources=self._resources,
            software_configuration=deepcopy(dict(self.__software_configuration)),
            **given,
        )
        made.__available = Amounts(copied(self.__available), made)
        made.metadata = deepcopy(self.metadata)
        made._has_bucket_id = self._has_bucket_id
        if not self.exists:
            made.__node_attribute_overrides = deepcopy(self.__node_attribute_overrides)
        return made

    def update(self, snode: Node) -> None:
        """Merge what the scheduler says of this node: its amounts win, its assignments are
        added."""
        decrementing.merge(self, snode)

    def shellify(self) -> None:
        """Make resources, available and metadata readable as attributes, for the interactive
        shell."""
        self._resources = TrackedShellDict(self._resources, self)
        self.__available = ShellAmounts(self.__available, self)
        self.metadata = ShellDict(self.metadata)

    def to_dict(self) -> dict[str, Any]:
        """The published JSON form, sizes left as objects; see `record`."""
        return record.to_dict(self)

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Node:
        """A node from its published JSON form; the argument is left alone. See `record`."""
        return Node.restored(d)

    @classmethod
    def restored(cls, d: Mapping[str, Any], gpu_key: str = "") -> Self:
        """A node of this class from the JSON form of a node; `gpu_key`: where its GPUs stand."""
        node = cls.__new__(cls)
        Node.__init__(node, **record.arguments(d), gpu_count=d.get(gpu_key))
        if d.get("available") is not None:
            node.__available = Amounts(ht.with_sizes(copied(d["available"])), node)
        node.__assignments.update(d.get("job-ids") or ())
        node.metadata = deepcopy(dict(d.get("metadata") or {}))
        return node

    def _is_example_node(self) -> bool:
        return self.name == f"{self.nodearray}-0"

    def __lt__(self, other: Node) -> bool:
        # reversed on purpose: a max-heap then yields ascending host names among equals
        return other.hostname_or_uuid < self.hostname_or_uuid

    def __str__(self) -> str:
        if self.name.endswith("-0"):
            group = self.placement_group
            return f"NodeBucket(nodearray={self.nodearray}, vm_size={self.vm_size}, pg={group})"
        hostname = self.hostname if self.exists and self.hostname else "..."
        return (
            f"Node({self.name}, {hostname}, {self.vm_size}, "
            f"{self.delayed_node_id.node_id or self.placement_group})"
        )

    def __repr__(self) -> str:
        hostname = self.hostname if self.exists and self.hostname else "..."
        return f"Node({self.name}, {hostname}, {self.placement_group})"


_OF_A_HOST = {
    **dict.fromkeys(("nodearray", "bucket_id", "vm_size", "location"), "unknown"),
    **dict.fromkeys(("state", "target_state", "power_state"), "running"),
    **dict.fromkeys(("private_ip", "instance_id", "placement_group")),
    **dict.fromkeys(("spot", "infiniband", "managed", "keep_alive"), False),
    "exists": True,
    "vcpu_count": 1,
    "memory": ht.Memory(0, "b"),
}


def host_arguments(
    hostname: str, resources: Mapping[str, Any] | None, **known: Any
) -> dict[str, Any]:
    """The arguments of `Node` for a running host of which only the name, the resources and what is
    `known` are known. InvalidArgument for what are no resources."""
    check_kinds(f"host {hostname}", Mapping | None, resources=resources or None)
    return {
        **_OF_A_HOST,
        "node_id": DelayedNodeId(ht.NodeName(hostname)),
        "name": hostname,
        "hostname": hostname,
        "resources": resources or {},
        "software_configuration": {},
        **known,
    }


class UnmanagedNode(Node):
    """A machine that CycleCloud does not know: always there, never created or deleted.

    A `vm_size` needs a `location` (AssertionError). Without a known size and without figures of its
    own, vcpu_count and memory are -1: unknown.
    """

    def __init__(
        self,
        hostname: str,
        resources: Mapping[str, Any] | None = None,
        vm_size: ht.VMSize | None = None,
        location: ht.Location | None = None,
        vcpu_count: int | None = None,
        memory: ht.Memory | None = None,
        placement_group: ht.PlacementGroup | None = None,
    ) -> None:
        if vm_size and not location:
            raise AssertionError(f"a location is needed with vm_size {vm_size} of {hostname}")
        size = ht.VMSize(vm_size or "unknown")
        where = ht.Location(location or "unknown")
        aux = vm_sizes.get_aux_vm_size_info(where, size)
        known = {
            "vm_size": size,
            "location": where,
            "vcpu_count": aux.vcpu_count if vcpu_count is None else vcpu_count,
            "memory": aux.memory if memory is None else memory,
            "placement_group": placement_group,
        }
        super().__init__(**host_arguments(hostname, resources, keep_alive=True, **known))

    def __str__(self) -> str:
        return "Unmanaged" + super().__str__()

    def __repr__(self) -> str:
        return "Unmanaged" + super().__repr__()
