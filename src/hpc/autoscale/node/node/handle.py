"""The published `Node`: one machine, existing or planned, as integrations hold it.

A node is a handle. While it belongs to a bucket the engine decides by its shape, and every write through the handle
that could change a decision (amounts, assignments, state, placement group, …) is reported to that bucket. A node that
belongs to nobody works just the same, alone.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.node import decrementing, kind, record
from hpc.autoscale.node.node.machine import Machine
from hpc.autoscale.node.node.placement import checked_placement_group as checked_placement_group
from hpc.autoscale.node.node.placement import escaped_placement_group
from hpc.autoscale.node.node.shaping import NodeView, Used, use
from hpc.autoscale.node.node.times import Timed
from hpc.autoscale.node.node.tracked import (
    Home,
    ReadOnlyShellDict,
    TrackedDict,
    TrackedSet,
    TrackedShellDict,
)
from hpc.autoscale.results import MatchResult
from hpc.autoscale.util import ShellDict, random_uuid

if TYPE_CHECKING:
    from hpc.autoscale.node.node.decrementing import Condition


class Node(Machine, Timed, ABC):
    """One machine. `resources` are its totals, `available` what is left of them; matching looks at `available`.

    `memory` must be a `Memory` (AssertionError otherwise). A `vcpu_count` below 0 and a `gpu_count` of 0 or None take
    the VM-size catalogue's figure.
    """

    # the bucket it belongs to, and where in it
    _home: Home | None = None
    _position = -1

    # the scheduler wants rid of it
    marked_for_deletion = False

    # how the creation request asks for its name
    name_format: str | None = None
    name_offset: int | None = None

    # made up here: its host name is not real, and its name is a proposal
    _is_planned = False

    # somebody gave it its bucket id; false where it was made up for it alone
    _has_bucket_id = True

    # the limits of its bucket have a place less because of it
    _is_counted = True

    # what it was made of, when it was made together with others like it; the second until it differs from them
    _kind: kind.Kind | None = None
    _alike: kind.Kind | None = None

    # what its containers are made from, when they are first looked at
    _left: Mapping[str, Any]
    _assigned: Sequence[str] = ()
    _node_id: ht.NodeId | None = None

    # every node is given its own
    state = ht.NodeStatus("Off")
    target_state = ht.NodeStatus("Off")
    exists = False

    managed: bool = kind.shared()
    __nodearray: ht.NodeArrayName = kind.shared()
    __private_ip: ht.IpAddress | None
    __placement_group: ht.PlacementGroup | None
    __keep_alive: bool
    __closed: bool
    _allocated: bool = False
    __power_state: ht.NodeStatus = kind.shared()
    __software_configuration: Mapping[str, Any] = kind.shared()

    # The mangled names are part of the interface: callers' tests write `node._Node__nodearray`.
    delayed_node_id: DelayedNodeId = kind.lazy(kind.delayed_node_id)
    _resources: dict[str, Any] = kind.lazy(kind.totals)
    __available: TrackedDict = kind.lazy(kind.available)
    __assignments: TrackedSet = kind.lazy(kind.assignments)
    __node_attribute_overrides: dict[str, Any] = kind.lazy(lambda node: {})
    metadata: dict[str, Any] = kind.lazy(lambda node: {})

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
        super().__init__(
            node_id,
            name,
            bucket_id,
            hostname,
            vm_size,
            location,
            spot,
            vcpu_count,
            memory,
            infiniband,
            gpu_count,
        )
        self.instance_id = instance_id
        self.state = state
        self.target_state = target_state
        self.exists = exists
        self.managed = managed
        # totals are copied: nodes of one bucket must not share them
        self._resources = TrackedDict(record.copied(resources), self)
        self.metadata = {}
        # there is nobody yet who would have to be told of each
        self.__dict__.update(
            _Node__nodearray=nodearray,
            _Node__private_ip=private_ip,
            _Node__power_state=power_state,
            _Node__placement_group=placement_group or None,
            _Node__keep_alive=keep_alive,
            _Node__closed=False,
            _Node__available=TrackedDict(record.copied(resources), self),
            _Node__assignments=TrackedSet((), self),
            _Node__software_configuration=software_configuration,
            _Node__node_attribute_overrides={},
        )

    if not TYPE_CHECKING:  # it would allow every attribute

        def __setattr__(self, name, value):
            if name in kind.IDENTITY and self._kind is not None and self._kind.own:
                kind.whole_state(self)
            object.__setattr__(self, name, value)
            if name in kind.REPORTED:
                if self._alike is not None and name in kind.LOOKS:
                    self._alike = None
                self._changed()

    def __getstate__(self) -> dict[str, Any]:
        return kind.whole_state(self)

    def _changed(self) -> None:
        """Tell the bucket, if any, that something was written that may change a decision."""
        if self._home is not None:
            self._home.touched(self)

    def _view(self) -> NodeView:
        """This node as an expression of the engine looks at it."""
        return NodeView(self)

    # -- where it stands

    @property
    def nodearray(self) -> ht.NodeArrayName:
        """The nodearray it is made from."""
        return self.__nodearray

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
        """Placement group, if any. Letters, digits, `_` and `-`; cannot be moved once the node exists."""
        return self.__placement_group

    @placement_group.setter
    def placement_group(self, value: ht.PlacementGroup | None) -> None:
        value = value or None
        current = self.__placement_group
        if self.exists and current and value != current:
            raise AutoscaleError(
                f"placement group of {self.name} cannot be changed from {current!r} to {value!r}: the node exists"
            )
        if value is not None:
            checked_placement_group(value, f"node {self.name}")
        self.__placement_group = value

    def set_placement_group_escaped(self, value: str | None) -> ht.PlacementGroup | None:
        """Set the placement group with every illegal character replaced by `_`; returns what was set."""
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
        return bool(self.__keep_alive or self._allocated or self._is_assigned)

    @required.setter
    def required(self, value: bool) -> None:
        self._allocated = value

    @property
    def _in_demand(self) -> bool:
        """Work was placed here, or is about to be."""
        return bool(self._allocated or self._is_assigned)

    @property
    def _is_assigned(self) -> bool:
        """Somebody was placed here. As `assignments`, which need not be made for it."""
        made = self.__dict__.get("_Node__assignments")
        return bool(self._assigned if made is None else made)

    @property
    def _server_id(self) -> ht.NodeId | None:
        """The id that the server has given it, if it has. As `delayed_node_id.node_id`, which need not be made for it."""
        is_made = self._kind is None or "delayed_node_id" in self.__dict__
        return self.delayed_node_id.node_id if is_made else self._node_id

    # -- what it offers, and to whom

    @property
    def resources(self) -> Mapping[str, Any]:
        """Totals: a live view that cannot be written to."""
        if isinstance(self._resources, ShellDict):
            return ReadOnlyShellDict(self._resources)
        return MappingProxyType(self._resources)

    @property
    def available(self) -> dict[str, Any]:
        """What is left of the totals: a live dict that may be written to."""
        return self.__available

    @property
    def assignments(self) -> set[str]:
        """Ids of the jobs placed here: a live set."""
        return self.__assignments

    def assign(self, assignment_id: str) -> None:
        """Note that a job is placed here."""
        self.__assignments.add(assignment_id)

    def _placed(self, used: Used, closed: bool, assignment_ids: Sequence[str]) -> None:
        """Take over what the engine has placed here, without reporting it back."""
        use(self.__available, used)
        own = self.__dict__
        made = own.get("_Node__assignments")
        if made is None:
            known = self._assigned
            own["_assigned"] = (*known, *assignment_ids) if known else assignment_ids
        else:
            made.extend_quietly(assignment_ids)
        own["_allocated"] = True
        if closed:
            own["_Node__closed"] = True

    @property
    def node_attribute_overrides(self) -> Any:
        """Attributes for the creation request: a live dict until the node exists, a read-only view then."""
        overrides = self.__node_attribute_overrides
        return MappingProxyType(overrides) if self.exists else overrides

    @property
    def software_configuration(self) -> Any:
        """Configuration, overlaid by `node_attribute_overrides["Configuration"]`; read-only once the node exists."""
        configuration = self.__software_configuration
        overlay = self.__node_attribute_overrides.get("Configuration")
        if overlay:
            configuration = {**configuration, **overlay}
        return MappingProxyType(dict(configuration)) if self.exists else configuration

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
        """Place up to `iterations` of what `constraints` ask for here, under `assignment_id` (made up when None).

        All or nothing within what fits: a refusal leaves no trace.
        """
        return decrementing.decrement(self, constraints, iterations, assignment_id or random_uuid())

    def clone(self) -> Node:
        """An independent copy of what it is and offers; assignments and the closed flag are not copied."""
        copied = Node(**record.arguments_of(self, self.__software_configuration))
        TrackedDict.replace(copied.__available, record.copied(self.__available))
        copied.metadata = deepcopy(self.metadata)
        copied._has_bucket_id = self._has_bucket_id
        if not self.exists:
            copied.__node_attribute_overrides = deepcopy(self.__node_attribute_overrides)
        return copied

    def update(self, snode: Node) -> None:
        """Merge what the scheduler says of this node: its amounts win, its assignments are added."""
        decrementing.merge(self, snode)

    def shellify(self) -> None:
        """Make resources, available and metadata readable as attributes, for the interactive shell."""
        self._resources = TrackedShellDict(self._resources, self)
        self.__available = TrackedShellDict(self.__available, self)
        self.metadata = ShellDict(self.metadata)

    def to_dict(self) -> dict[str, Any]:
        """The published JSON form, sizes left as objects; see `record`."""
        return record.to_dict(self)

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Node:
        """A node from its published JSON form; the argument is left alone. See `record`."""
        return Node._restored(d)

    @classmethod
    def _restored(cls, d: Mapping[str, Any]) -> Node:
        known = record.parse(d)
        node = Node(**known.arguments)
        node.__available.replace(known.available)
        node.__assignments.extend_quietly(known.assignments)
        node.metadata = known.metadata
        return node

    def _is_example_node(self) -> bool:
        return self.name == f"{self.nodearray}-0"

    def __lt__(self, other: Node) -> bool:
        # reversed on purpose: a max-heap then yields ascending host names among equals
        return other.hostname_or_uuid < self.hostname_or_uuid

    def __str__(self) -> str:
        if self.name.endswith("-0"):
            return f"NodeBucket(nodearray={self.nodearray}, vm_size={self.vm_size}, pg={self.placement_group})"
        hostname = self.hostname if self.exists and self.hostname else "..."
        return (
            f"Node({self.name}, {hostname}, {self.vm_size}, "
            f"{self.delayed_node_id.node_id or self.placement_group})"
        )

    def __repr__(self) -> str:
        hostname = self.hostname if self.exists and self.hostname else "..."
        return f"Node({self.name}, {hostname}, {self.placement_group})"
