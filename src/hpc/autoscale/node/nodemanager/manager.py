"""The published `NodeManager`: the nodes of a cluster, existing and possible, and what can be done with them.

It owns the engine's `Planner`, the buckets that are handles over it, the names and the default resources. Deciding is
the engine's (`placing`), talking to the server is `operations`'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import Compiled, compile_constraints, get_constraints
from hpc.autoscale.node.constraints.declared import Declarations
from hpc.autoscale.node.default_resources import (
    SYSTEM_DEFAULTS,
    DefaultResource,
    Defaults,
    definition_from,
)
from hpc.autoscale.node.limits import BucketLimits, cover
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.node import checked_placement_group
from hpc.autoscale.node.nodemanager.apart import Apart, Sizes, sizes_of
from hpc.autoscale.node.nodemanager.capacity import Capacity
from hpc.autoscale.node.nodemanager.commanding import Commands
from hpc.autoscale.node.nodemanager.naming import NameHook, Names
from hpc.autoscale.node.nodemanager.placing import Ask, EngineSide, place, tell_refused, why_not
from hpc.autoscale.node.nodemanager.policies import DEFAULT, Ordered
from hpc.autoscale.node.nodemanager.probing import Sorted
from hpc.autoscale.node.nodemanager.unmanaged import IdleMachines, artificial_bucket, unmanaged_key
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import UNBOUNDED
from hpc.autoscale.packing.order import OrderPolicy
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.planner import Planner
from hpc.autoscale.results import AllocationResult
from hpc.autoscale.util import uuid


class NodeManager(EngineSide, Ordered, Capacity, Commands):
    """Buckets and their nodes.

    `problems` says, a sentence each, what of the cluster could not be used when it was read, and `doubts` what of the
    configuration fits nothing there. `existing_first`: nodes
    with room are used before new ones are opened, across all buckets; otherwise bucket by bucket. `policy`: in which order
    buckets are asked; see `set_order_policy`.
    """

    def __init__(
        self,
        cluster_bindings: ClusterBindingInterface,
        node_buckets: Sequence[NodeBucket],
        existing_first: bool = True,
        problems: Sequence[str] = (),
        policy: str | OrderPolicy = DEFAULT,
    ) -> None:
        super().__init__(cluster_bindings)
        self.problems = list(problems)
        self.doubts: list[str] = []
        self._planner = Planner(existing_first)
        table = self._planner.table
        self._blank = table.shape(table.template({}, {}), {})
        self._names = Names()
        self._apart = Apart()
        self._sortings: dict[int, tuple[Compiled, Sorted]] = {}
        self._declarations = Declarations()
        self._defaults = Defaults()
        self._buckets: list[NodeBucket] = []
        self._by_candidate: dict[Candidate, NodeBucket] = {}
        self._unmanaged: dict[object, NodeBucket] = {}
        self._unmanaged_hosts: set[str] = set()
        self._idle_machines = IdleMachines()
        # where `_sync` must work something out, and what was written to since default resources were applied
        self._stale: dict[NodeBucket, None] = {}
        self._undefaulted: dict[NodeBucket, None] = {}
        for bucket in node_buckets:
            self._take_on(bucket)
        self._cover_limits()
        self.set_order_policy(policy)

    # -- buckets and nodes

    def get_invalid_buckets(self) -> list[NodeBucket]:
        """Buckets that only describe existing nodes: nothing new can be placed there."""
        return [bucket for bucket in self._buckets if not bucket.valid]

    def get_buckets_by_id(self) -> dict[ht.BucketId, NodeBucket]:
        """Buckets by id. RuntimeError when ids repeat, as with placement groups."""
        found: dict[ht.BucketId, NodeBucket] = {}
        for bucket in self.get_buckets():
            if bucket.bucket_id in found:
                raise AutoscaleError(
                    f"bucket id {bucket.bucket_id} stands for {found[bucket.bucket_id]} and for {bucket}"
                )
            found[bucket.bucket_id] = bucket
        return found

    def get_nodes(self) -> list[Node]:
        """All nodes, planned and failed ones included, in bucket order."""
        return [node for bucket in self._buckets for node in bucket.nodes]

    def get_failed_nodes(self) -> list[Node]:
        """Nodes whose state is Failed; a list of the caller's own."""
        return [node for node in self.get_nodes() if node.state == "Failed"]

    def _sizes(self) -> Sizes:
        """How many nodes each bucket has had by now, for `_apart_since`."""
        return sizes_of(self._buckets)

    def _apart_since(self, sizes: Sizes) -> set[Node]:
        """Nodes that came since then beside all calculators."""
        return self._apart.since(sizes)

    @property
    def _is_as_declared(self) -> bool:
        """Whether work goes bucket by bucket."""
        return not self._planner.existing_first

    def get_non_failed_nodes(self) -> list[Node]:
        """All other nodes."""
        return [node for node in self.get_nodes() if node.state != "Failed"]

    @property
    def new_nodes(self) -> list[Node]:
        """Nodes that are planned and not created yet, and deallocated ones that work was placed on."""
        return [
            node
            for node in self.get_nodes()
            if not node.exists
            and (state := node.state) != "Stopping"
            and (state != "Deallocated" or node._in_demand)
        ]

    def get_new_nodes(self) -> list[Node]:
        """`new_nodes`."""
        return self.new_nodes

    def _add_bucket(self, bucket: NodeBucket) -> None:
        self._take_on(bucket)
        if bucket._counted:
            self._cover_limits()

    def _cover_limits(self) -> None:
        """Hold the limits against the nodes there are: what a server does not count must not be given back."""
        known = [bucket for bucket in self._buckets if isinstance(bucket.limits, BucketLimits)]
        cover((bucket.limits, bucket._counted) for bucket in known if not bucket._artificial)

    def _take_on(self, bucket: NodeBucket) -> None:
        self._buckets.append(bucket)
        self._names.reserve(bucket._names())
        if self._defaults.definitions:
            bucket._apply_defaults(self._defaults, self._defaults.deferred)
        if bucket.valid:
            candidate = bucket._join(self._blank, self._defaults, self._bucket_written)
            self._by_candidate[candidate] = bucket
            self._planner.add(candidate)

    # -- placing

    def allocate(
        self,
        constraints: Any,
        node_count: int | None = None,
        slot_count: int | None = None,
        allow_existing: bool = True,
        all_or_nothing: bool = False,
        assignment_id: str | None = None,
        node_namer: object = None,
    ) -> AllocationResult[Node]:
        """Place `slot_count` slots, or `node_count` nodes with one iteration each (slots win when both are given).

        `constraints`: JSON, a constraint, or a list of either. `allow_existing` false: only nodes that do not exist
        yet. `all_or_nothing`: in one bucket, or not at all; otherwise part of it is a success too. `assignment_id` is
        noted on every node used (made up when None). `node_namer` is accepted and not used; see
        `set_node_name_hook`. A failure changes nothing.
        """
        given = constraints if isinstance(constraints, (list, tuple)) else [constraints or {}]
        parsed = get_constraints(given)
        if not allow_existing:
            parsed = [*get_constraints([{"node.exists": False}]), *parsed]
        units = slot_count if slot_count and slot_count > 0 else node_count
        if not units or units < 0:
            return AllocationResult(
                "NothingRequested", reasons=["Either node_count or slot_count must be above 0"]
            )
        per_node = UNBOUNDED if slot_count and slot_count > 0 else 1
        request = Request(units, per_node, all_or_nothing)
        return self._place(
            compile_constraints(parsed), request, assignment_id or uuid("assignment")
        )

    def _place(
        self, compiled: Compiled, request: Request, assignment_id: str, failed_as: str | None = None
    ) -> AllocationResult[Node]:
        return place(self, Ask(compiled, request, assignment_id, failed_as))

    def _why_not(self, compiled: Compiled, request: Request, assignment_id: str) -> list[str]:
        return why_not(self, Ask(compiled, request, assignment_id))

    def _tell_refused(self, compiled: Compiled, request: Request) -> None:
        tell_refused(self, compiled, request)

    def allocate_at_least(self, *args: Any, **kwargs: Any) -> AllocationResult[Node]:
        """Published, and never implemented upstream either."""
        raise NotImplementedError("allocate_at_least; use allocate")

    def set_node_name_hook(self, hook: NameHook) -> None:
        """Name new nodes by `hook(bucket, index)`, asked with index 1 and then increasing ones until the name is free."""
        self._names.set_hook(hook)

    # -- default resources

    def add_default_resource(
        self,
        selection: Mapping[str, Any] | Sequence[Any],
        resource_name: str,
        default_value: ht.ResourceTypeAtom | Callable[[Node], Any] | str,
        modifier: str | None = None,
        modifier_magnitude: Any = None,
        allow_none: bool = True,
    ) -> None:
        """Give nodes and buckets a resource that they do not have yet; see `default_resources`."""
        self._define(
            [
                definition_from(
                    selection,
                    resource_name,
                    default_value,
                    modifier,
                    modifier_magnitude,
                    allow_none,
                )
            ]
        )

    def set_system_default_resources(self) -> None:
        """Define ncpus, pcpus, ngpus, memb … memtb, nodearray and ccnodeid."""
        self._define([definition_from({}, name, value) for name, value in SYSTEM_DEFAULTS])

    def _define(self, definitions: Iterable[DefaultResource]) -> None:
        added = list(definitions)
        if not added:
            return
        for definition in added:
            self._defaults.add(definition)
        self._sortings.clear()  # what differs from node to node may be another now
        self._planner.forget_demands()
        self._apply_defaults(self._buckets)

    def _apply_defaults(self, buckets: Iterable[NodeBucket]) -> None:
        """Give buckets and what is in them the default resources they lack."""
        apply = self._defaults.applier()
        for bucket in buckets:
            bucket._apply_defaults(self._defaults, self._defaults.deferred, apply)
        self._undefaulted.clear()

    def example_node(self, location: ht.Location, vm_size: ht.VMSize) -> Node:
        """What a node of a size would look like, whether there is a bucket for it or not."""
        node = artificial_bucket("__example__", vm_size, location)._new_node("__example__", "")
        self._defaults.apply(node)
        return node

    # -- machines that CycleCloud does not know, and placement groups

    def add_unmanaged_nodes(self, existing_nodes: Sequence[Node]) -> None:
        """Take in machines that cannot be ordered; those whose host name is taken in already are ignored. Those that were given
        one bucket id share a bucket, and so do those that are alike where none was given."""
        before = sizes_of(self._buckets)
        self._take_in_machines(existing_nodes)
        running = frozenset().union(*(node.assignments for node in existing_nodes))
        for bucket in self._buckets:
            if bucket._size > (lo := before.get(bucket, 0)):
                self._apart.note(bucket, lo, bucket._size, running)

    def _take_in_machines(self, existing_nodes: Sequence[Node]) -> None:
        ids = {(b.bucket_id, b.placement_group): b for b in self._buckets if not b._artificial}
        grouped: dict[object, list[Node]] = {}
        for node in existing_nodes:
            host = node.hostname_or_uuid
            if host not in self._unmanaged_hosts:
                self._unmanaged_hosts.add(host)
                bucket = ids.get((node.bucket_id, node.placement_group))
                grouped.setdefault(bucket or unmanaged_key(node), []).append(node)
        if not grouped:
            return
        taken = {bucket.bucket_id for bucket in self._buckets}
        for key, nodes in grouped.items():
            bucket = key if isinstance(key, NodeBucket) else self._unmanaged.get(key)
            bucket = bucket or self._new_unmanaged_bucket(key, nodes, taken)
            bucket.add_nodes(nodes)
            self._names.reserve(node.name for node in nodes)
        if self._defaults.definitions:
            # other nodes may have got what a definition lacked before, as from the scheduler
            self._apply_defaults(list(self._undefaulted))

    def _new_unmanaged_bucket(
        self, key: object, nodes: Sequence[Node], taken: set[ht.BucketId]
    ) -> NodeBucket:
        first = nodes[0]
        bucket_id = uuid("bucket") if first.bucket_id in taken else first.bucket_id
        bucket = artificial_bucket(
            "__unmanaged__", like=first, count=len(nodes), bucket_id=bucket_id
        )
        taken.add(bucket.bucket_id)
        self._unmanaged[key] = bucket
        self._take_on(bucket)
        return bucket

    def add_placement_group(self, pg_name: str, bucket: NodeBucket) -> None:
        """Add a placement group to a bucket; one that its nodearray and VM size have already is left alone. RuntimeError
        for a name that is none."""
        group = checked_placement_group(pg_name, str(bucket))
        for known in self._buckets:
            if (known.nodearray, known.vm_size, known.placement_group) == (
                bucket.nodearray,
                bucket.vm_size,
                group,
            ):
                logging.warning("placement group %s of %s exists already", pg_name, bucket)
                return
        self._take_on(bucket.clone_with_placement_group(group))

    def get_placement_groups(self, bucket: NodeBucket) -> list[ht.PlacementGroup]:
        """Placement groups of the bucket's nodearray, one entry for each VM size that has one."""
        return [
            b.placement_group
            for b in self._buckets
            if b.nodearray == bucket.nodearray and b.placement_group
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for debugging."""
        return {
            "buckets": [
                {
                    "nodearray": bucket.nodearray,
                    "vm_size": bucket.vm_size,
                    "placement_group": bucket.placement_group,
                    "available_count": bucket.available_count,
                    "resources": dict(bucket.resources),
                    "nodes": [node.to_dict() for node in bucket.nodes],
                }
                for bucket in self._buckets
            ],
            "problems": list(self.problems),
        }

    def __str__(self) -> str:
        return f"NodeManager({self.cluster_bindings}, {len(self._buckets)} buckets)"

    __repr__ = __str__
