"""The inventory of a cluster: its buckets with their nodes, the names in use, what nodes have by
default, and machines that CycleCloud does not know.

`Apart` keeps which nodes came through the manager itself, beside the jobs of a calculator. A
calculator's demand is about the nodes that were there when it was made, the machines that the
scheduler reported, and those that its jobs were placed on. What somebody else plans on the same
manager is among the manager's nodes, and in no list of the demand until a job of the calculator is
placed there.

Machines that CycleCloud does not know are in buckets to which nothing can be added by asking for
nodes. Thousands of them are alike but for their names and for how much they have. They share a
bucket, in which each is judged by what it is itself; the bucket's example node only says what is
preferred. Whether a machine is a candidate at all is asked of what it is when nothing runs on it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, count, filterfalse, islice

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import results
from hpc.autoscale.errors import AutoscaleError, check_kinds
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition
from hpc.autoscale.node.constraints import NodeConstraint
from hpc.autoscale.node.default_resources import (
    NODE_ID,
    DefaultResource,
    DefaultResourceError,
    Defaults,
)
from hpc.autoscale.node.limits import BucketLimits, cover, null_bucket_limits
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.shape import freeze
from hpc.autoscale.results import SatisfiedResult
from hpc.autoscale.util import uuid

NameHook = Callable[[NodeBucket, int], str]
"""Names the new node of a bucket that has this index."""

_UNKNOWN = "unknown"
_UNMANAGED = ht.NodeArrayName("__unmanaged__")
_MOST_TRIES = 100_000

Sizes = Mapping[NodeBucket, int]
"""How many nodes each bucket has had so far."""


class Names:
    """All names in use. A name that is in use stays so, which is why the indices below it need not
    be tried again. New names have the lowest free index of the nodearray, or are what an
    integration's hook says. `prefixes`: what names of a nodearray begin with, where that is not its
    name."""

    def __init__(self) -> None:
        self.prefixes: Mapping[str, str] = {}
        self._used: set[str] = set()
        self._hook: NameHook | None = None
        # by nodearray, the names that are yet to be tried and are free
        self._free: dict[str, Iterator[str]] = {}
        self._next_of_hook: dict[NodeBucket, int] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """These names are taken."""
        self._used.update(names)

    def set_hook(self, hook: NameHook) -> None:
        """From now on names are what the hook says. It is asked with index 1 and, when its answer
        is taken, with the next index that was not tried before."""
        check_kinds("set_node_name_hook", Callable | None, hook=hook)  # type: ignore[arg-type]
        self._hook = hook
        self._next_of_hook.clear()

    def take(self, wanted: Iterable[tuple[NodeBucket, int]]) -> list[list[str]]:
        """So many free names for new nodes of each bucket; they are in use from now on. What a hook
        raises goes to the caller, and then none of them is. Cost: linear over all calls, however
        many names are in use."""
        hook = self._hook
        if hook is None:
            return [self.of(bucket, nodes) for bucket, nodes in wanted]
        taken: list[str] = []
        before = dict(self._next_of_hook)
        try:
            return [
                [self._hooked(hook, bucket, taken) for _ in range(nodes)]
                for bucket, nodes in wanted
            ]
        except BaseException:
            self._used.difference_update(taken)
            self._next_of_hook = before
            raise

    def of(self, bucket: NodeBucket, nodes: int) -> list[str]:
        """`take` for one bucket."""
        if self._hook is not None:
            return self.take([(bucket, nodes)])[0]
        free = self._free.get(bucket.nodearray)
        if free is None:
            prefix = self.prefixes.get(bucket.nodearray, bucket.nodearray)
            names = (f"{prefix}-{index}" for index in count(1))
            free = self._free[bucket.nodearray] = filterfalse(self._used.__contains__, names)
        found = list(islice(free, nodes))
        self._used.update(found)
        return found

    def _hooked(self, hook: NameHook, bucket: NodeBucket, taken: list[str]) -> str:
        start = self._next_of_hook.get(bucket, 2)
        for index in chain((1,), range(start, start + _MOST_TRIES)):
            check_kinds("set_node_name_hook", str, name=(name := hook(bucket, index)))
            if name and name not in self._used:
                if index > 1:
                    self._next_of_hook[bucket] = index
                self._used.add(name)
                taken.append(name)
                return name
        raise AutoscaleError(f"the name hook gave no free name for {bucket} in {_MOST_TRIES} tries")


class Apart:
    """What was asked of the manager itself. Noting is constant in cost."""

    def __init__(self) -> None:
        self._noted: list[tuple[NodeBucket, int, int, Set[str]]] = []

    def note(self, bucket: NodeBucket, lo: int, hi: int, given: Set[str] = frozenset()) -> None:
        """Nodes of a bucket, at positions `lo` … `hi` - 1, came or got assignments this way."""
        self._noted.append((bucket, lo, hi, given))

    def since(self, sizes: Sizes) -> set[Node]:
        """Nodes that came this way since the buckets had so many nodes, and that nobody else has
        placed anything on."""
        found: dict[Node, set[str]] = {}
        for bucket, lo, hi, given in self._noted:
            for position in range(max(lo, sizes.get(bucket, 0)), hi):
                found.setdefault(bucket._nodes.handle(position), set()).update(given)
        return {node for node, given in found.items() if node.assignments <= given}


class Inventory:
    """Buckets in declared order, and what belongs to all of them.

    `on_join` is called for each new bucket that work can be placed in.
    """

    def __init__(self) -> None:
        self.buckets: list[NodeBucket] = []
        self._groups: set[tuple[str, str, str | None]] = set()
        self.names = Names()
        self.defaults = Defaults()
        self.apart = Apart()
        self.idle_machines = IdleMachines()
        # ids and host names of nodes that are going, and are in no bucket
        self.leaving: frozenset[str] = frozenset()
        self.on_join: Callable[[NodeBucket], None] = lambda bucket: None
        self._unmanaged: dict[object, NodeBucket] = {}
        self._unmanaged_hosts: set[str] = set()
        # buckets that were written to since default resources were applied
        self._written: dict[NodeBucket, None] = {}

    def written(self, bucket: NodeBucket) -> None:
        """A bucket, or a node of it, was written to."""
        self._written[bucket] = None
        if bucket._artificial:
            self.idle_machines.forget()

    # -- buckets and nodes

    def nodes(self) -> list[Node]:
        """All nodes, planned and failed ones included, in bucket order."""
        return list(chain.from_iterable([bucket.nodes for bucket in self.buckets]))

    def new_nodes(self) -> list[Node]:
        """Nodes that are planned and not created yet, and deallocated ones with work."""
        return [
            node
            for node in self.nodes()
            if not node.exists
            and (state := node.state) != "Stopping"
            and (node._in_demand if state == "Deallocated" else node.target_state != "Deallocated")
        ]

    def sizes(self) -> Sizes:
        """How many nodes each bucket has had by now, those that are gone included."""
        return {bucket: len(bucket._nodes) for bucket in self.buckets}

    def add(self, buckets: Iterable[NodeBucket]) -> None:
        """Take on buckets of the cluster."""
        for bucket in buckets:
            self.take_on(bucket)
        # what a server does not count of the nodes there are must not be given back
        known = [bucket for bucket in self.buckets if isinstance(bucket.limits, BucketLimits)]
        cover((bucket.limits, bucket._nodes.counted) for bucket in known if not bucket._artificial)

    def take_on(self, bucket: NodeBucket) -> None:
        """Take on a bucket whose nodes, if any, are counted by no limit that others share."""
        self.buckets.append(bucket)
        self._groups.add((bucket.nodearray, bucket.vm_size, bucket.placement_group))
        # those that nobody has looked at are known to whoever lists them
        self.names.reserve(node.name for node in bucket._nodes.made())
        if self.defaults.definitions:
            bucket._apply_defaults(self.defaults, self.defaults.deferred)
        if bucket.valid:
            self.on_join(bucket)

    def has(self, nodearray: str, vm_size: str, placement_group: str | None) -> bool:
        """Whether there is such a bucket."""
        return (nodearray, vm_size, placement_group) in self._groups

    # -- default resources

    def define(self, definitions: Iterable[DefaultResource]) -> None:
        """Add definitions, and give all nodes and buckets what they lack. Where one cannot be
        applied none of them is kept; nodes that had theirs before have them still."""
        try:
            with self.defaults.adding(definitions) as are_any:
                if are_any:
                    self._apply_defaults(self.buckets)
        except DefaultResourceError:
            self._apply_defaults(self.buckets)
            raise

    def _apply_defaults(self, buckets: Iterable[NodeBucket]) -> None:
        apply = self.defaults.applier()
        for bucket in buckets:
            bucket._apply_defaults(self.defaults, self.defaults.deferred, apply)
        self._written.clear()
        self.idle_machines.forget()

    # -- machines that CycleCloud does not know

    def add_unmanaged(self, machines: Sequence[Node]) -> None:
        """`take_in`, for machines that come beside all calculators."""
        before = self.sizes()
        self.take_in(machines)
        running = frozenset().union(*(node.assignments for node in machines))
        for bucket in self.buckets:
            if len(bucket._nodes) > (lo := before.get(bucket, 0)):
                self.apart.note(bucket, lo, len(bucket._nodes), running)

    def take_in(self, machines: Sequence[Node]) -> None:
        """Take in machines that cannot be ordered; those whose host name is known are ignored."""
        ids = {(b.bucket_id, b.placement_group): b for b in self.buckets if not b._artificial}
        grouped: dict[object, list[Node]] = {}
        for node in machines:
            host = node.hostname_or_uuid
            if host not in self._unmanaged_hosts:
                self._unmanaged_hosts.add(host)
                bucket = ids.get((node.bucket_id, node.placement_group))
                grouped.setdefault(bucket or unmanaged_key(node), []).append(node)
        if not grouped:
            return
        taken = {bucket.bucket_id for bucket in self.buckets}
        for key, nodes in grouped.items():
            bucket = key if isinstance(key, NodeBucket) else self._unmanaged.get(key)
            if bucket is None:
                first = nodes[0]
                bucket_id = uuid("bucket") if first.bucket_id in taken else first.bucket_id
                array, place = _UNMANAGED, ht.Location(_UNKNOWN)
                if first.location != _UNKNOWN:  # a host of the configuration
                    array, place = first.nodearray, first.location
                bucket = self._unmanaged[key] = artificial_bucket(
                    array, location=place, like=first, count=len(nodes), bucket_id=bucket_id
                )
                taken.add(bucket.bucket_id)
                self.take_on(bucket)
            bucket.add_nodes(nodes)
            self.names.reserve(node.name for node in nodes)
        if self.defaults.definitions:
            # other nodes may have got what a definition lacked before, as from the scheduler
            self._apply_defaults(list(self._written))


def unmanaged_key(node: Node) -> object:
    """Machines with equal keys share a bucket: those in one placement group that were given one
    bucket id. Where none was given, those of one size, with the same resources; amounts, and
    texts that name the machine, may differ."""
    if node._has_bucket_id:
        return (node.placement_group, node.bucket_id)
    names = {str(n).lower() for n in (node.name, node.hostname, node.fqdn) if n}
    likeness = frozenset((r, _likeness(r, value, names)) for r, value in node.resources.items())
    return (node.placement_group, node.nodearray, node.location, node.vm_size, likeness)


def _likeness(resource: str, value: object, names: set[str]) -> object:
    if resource == NODE_ID or (isinstance(value, str) and value.lower() in names):
        return "its name"
    if isinstance(value, (int, float, ht.Size)) and not isinstance(value, bool):
        return "an amount"
    return (value.__class__, freeze(value))


def artificial_bucket(
    nodearray: str,
    vm_size: ht.VMSize = ht.VMSize(_UNKNOWN),  # noqa: B008
    location: ht.Location = ht.Location(_UNKNOWN),  # noqa: B008
    like: Node | None = None,
    count: int = 0,
    bucket_id: str | None = None,
) -> NodeBucket:
    """A bucket without room for new nodes, with the resources of the machine it is made for."""
    size = vm_sizes.get_aux_vm_size_info(location, vm_size) if like is None else like
    definition = NodeDefinition(
        ht.NodeArrayName(nodearray),
        ht.BucketId(bucket_id or nodearray),
        vm_size,
        location,
        False,
        ht.SubnetId(_UNKNOWN),
        size.vcpu_count,
        size.gpu_count,
        size.memory,
        like.placement_group if like is not None else None,
        like.resources if like is not None else {},
        like.software_configuration if like is not None else {},
    )
    limits = null_bucket_limits(count, max(1, definition.vcpu_count))
    return NodeBucket(definition, limits, 0, [], artificial=True)


class IdleMachines:
    """Machines as they are when nothing runs on them; those that are alike are asked once. To be
    forgotten when a machine was written to."""

    def __init__(self) -> None:
        self._of: dict[NodeBucket, list[Node]] = {}
        self._answers: dict[Hashable, list[SatisfiedResult] | None] = {}

    def forget(self) -> None:
        """Machines have changed."""
        self._of.clear()
        self._answers.clear()

    def refusals(
        self,
        buckets: Iterable[NodeBucket],
        constraints: Sequence[NodeConstraint],
        key: Hashable = None,
    ) -> list[SatisfiedResult] | None:
        """Why no machine satisfies all constraints, each of them alone: what the first machine
        of each bucket refuses. None where one does. `key`: what the answer is remembered under,
        as long as nobody forgets; None where it may be another the next time."""
        if key is not None and key in self._answers:
            return self._answers[key]
        with results.muted():
            said = [
                [_refusal(constraints, machine) for machine in self._idle(bucket)]
                for bucket in buckets
            ]
        refused = [answer for answers in said for answer in answers[:1] if answer is not None]
        found = None if any(None in answers for answers in said) else refused
        if key is not None:
            self._answers[key] = found
        return found

    def _idle(self, bucket: NodeBucket) -> list[Node]:
        found = self._of.get(bucket)
        if found is None:
            alike = {
                (node.placement_group, node.vm_size, freeze(node.resources)): node
                for node in bucket.nodes
            }
            found = self._of[bucket] = [node.clone() for node in alike.values()]
            for node in found:
                node.available.update(node.resources)
        return found


def _refusal(constraints: Sequence[NodeConstraint], machine: Node) -> SatisfiedResult | None:
    answers = (results.answer_of(constraint, machine) for constraint in constraints)
    return next((answer for answer in answers if not answer), None)
