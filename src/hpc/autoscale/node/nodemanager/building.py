"""From what the server says of a cluster to buckets with their nodes and limits.

Pure but for log lines: a status, the node records and the configuration go in, buckets come out. A
nodearray, bucket or record that makes no sense is set aside and reported in `Built.problems`; it
never stops the others, and nodes that run are never lost sight of: those that fit no usable bucket
are in one that takes no work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.backoff.listed import BOOTING, Listed
from hpc.autoscale.ccbindings.modelbase import is_disabled, resources_of, wire_name
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
)
from hpc.autoscale.config.clusters import split_name
from hpc.autoscale.config.naming import configured_placement_groups, of_no_nodearray
from hpc.autoscale.errors import counted
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition
from hpc.autoscale.node.bucket.definition import NodeTemplate
from hpc.autoscale.node.limits import (
    BucketLimits,
    Figure,
    StatedLimits,
    _SharedLimit,
    null_bucket_limits,
    number,
)
from hpc.autoscale.node.nodemanager.records import GARBLED, NodeRecords, Record, why
from hpc.autoscale.requestsets.dynamic import DynamicArray, DynamicArrays


class _Plain(NamedTuple):
    """A bucket outside of placement groups: what records of its array go by, what new nodes are,
    what `listed` ones are whose records do not say, limits, the record of the nodearray, and the
    status."""

    key: str
    definition: NodeDefinition
    listed: NodeDefinition
    limits: BucketLimits
    record: Record
    bucket: NodearrayBucketStatus
    priority: int


class Unusable(NamedTuple):
    """A bucket of which nobody can have a node, whatever is free, and why: its nodearray has
    `autoscale.enabled=false`, or the server calls it invalid."""

    bucket: NodeBucket
    reason: str


class Built:
    """The buckets of a cluster, made of its status and its node records, those of `dynamic` arrays
    included.

    `buckets` in declared order; `names` of all nodes the server knows; `problems`, a sentence each;
    ids and host names of nodes that are `leaving`; names of all `nodearrays`, and their `regions`,
    also of those without buckets; the state that the cluster is to reach (`target_state`); nodes as
    they are `listed`; buckets that are `unusable`.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        status: ClusterStatus,
        records: Sequence[Record],
        dynamic: DynamicArrays | None = None,
    ) -> None:
        self._config = config
        # the limits of one of several clusters are no others' limits
        parts = getattr(status, "parts", None) or {"": status}
        self._arrays = [a for p in parts.values() for a in p.nodearrays or () if _is_usable(a)]
        self._dynamic = DynamicArrays() if dynamic is None else dynamic
        self.target_state = status.target_state
        self.problems: list[str] = list(getattr(status, "problems", ()))
        self.buckets: list[NodeBucket] = []
        self.unusable: list[Unusable] = []
        # to ask of a dict whether it is a mapping takes long, and there are thousands
        listed = [r for r in records if r.__class__ is dict or isinstance(r, Mapping)]
        on_prem = set(config.get("_mimic_on_prem") or ())
        if on_prem:
            listed = [record for record in listed if record.get("Name") not in on_prem]
        self._records = NodeRecords(config, self._dynamic.keyed(listed))
        self._vcpus = self._vcpus_by_size()
        for name, part in parts.items():
            self._stated = StatedLimits(f" of {name}" if name else "")
            sorts = [(alike.first, alike.seen) for alike in self._records.sorts]
            if name:
                sorts = [s for s in sorts if split_name(str(s[0].get("NodeId")))[0] == name]
            used, read = self._in_use(sorts), self._reader(f"cluster {name}".strip())
            running = self._in_use(s for s in sorts if s[0].get("TargetState") == "Started")
            self._cluster = self._stated.of_cluster(part, used, running[1], read)
            self._read_part(part)
            known = {n for a in part.nodearrays or () if _is_usable(a) for n in self._names(a)}
            self.problems.extend(of_no_nodearray(sorts, known))
        self.names = self._records.names
        self.leaving = frozenset(self._records.leaving)
        self.nodearrays = [str(array.name) for array in self._arrays]
        said = (a.nodearray.get("Region") for a in self._arrays if isinstance(a.nodearray, Mapping))
        self.regions = [region for region in said if isinstance(region, str)]
        for array in self._arrays:
            self.nodearrays.extend(each.name for each in self._dynamic.of(array.name))
        in_state, find = self._records.in_state, self._records.find
        self.listed = Listed(
            *(in_state(*BOOTING), in_state("Failed"), find),
            *(in_state("Unavailable"), self._records.made_by, self._records.unusable),
        )
        self.problems.extend(self._records.problems)
        for problem in self.problems:
            logging.warning("%s", problem)

    def _read_part(self, part: ClusterStatus) -> None:
        """Make the buckets of one cluster."""
        for array in filter(_is_usable, part.nodearrays or ()):
            if is_disabled(array.nodearray):
                logging.fine("nodearray %s has autoscale.enabled=false: left alone", array.name)
                self._note_disabled(array)
                continue
            if not array.buckets:
                self.problems.append(
                    f"nodearray {array.name}: expected at least one bucket (a VM size that can be"
                    " used), found none; check its MachineType, region and quota in CycleCloud"
                )
            self.buckets.extend(self._nodearray(array))
            self.buckets.extend(self._leftovers(array))

    def _note_disabled(self, array: ClusterNodearrayStatus) -> None:
        """Remember what a nodearray that is left alone would offer."""
        record = array.nodearray if isinstance(array.nodearray, Mapping) else {}
        for bucket in array.buckets or ():
            try:
                made = self._declared(array.name, record, bucket)
                shut = NodeBucket(made, null_bucket_limits(0, made.vcpu_count), 0, [], valid=False)
            except GARBLED:
                continue
            self.unusable.append(Unusable(shut, "autoscale.enabled=false"))

    def _nodearray(self, array: ClusterNodearrayStatus) -> Iterable[NodeBucket]:
        """The buckets of a nodearray, and then those of the dynamic arrays that extend it."""
        record = array.nodearray if isinstance(array.nodearray, Mapping) else {}
        where = f"nodearray {array.name}"
        in_use = self._in_use(
            sort for name in self._names(array) for sort in self._records.of_nodearray(name)
        )
        facts = {"nodearray": array.name}
        shared = self._stated.of("nodearray", array, facts, in_use, self._reader(where))
        priority = 1000 * self._figure(record.get("Priority"), 1, f"{where}: Priority")
        usable: list[_Plain] = []
        for n, bucket in enumerate(array.buckets or ()):
            try:
                plain = self._plain(
                    array, record, {**self._cluster, **shared}, bucket, priority - n
                )
                made = self._in_groups(plain)
            except GARBLED as e:
                size = getattr(getattr(bucket, "definition", None), "machine_type", None)
                self.problems.append(
                    f"{where}, VM size {size}: set aside, its record cannot be used: {why(e)}"
                )
                continue
            yield from made
            usable.append(plain)
        for each in self._dynamic.of(array.name):
            yield from self._extended(each, usable)

    def _extended(self, array: DynamicArray, extended: Iterable[_Plain]) -> Iterable[NodeBucket]:
        """The buckets of a dynamic array: of the sizes that it may have, and has."""
        for plain in sorted(extended, key=lambda plain: array.rank(plain.definition.vm_size)):
            size = plain.definition.vm_size
            if not (array.takes(size) or self._records.has(array.key, size)):
                continue
            try:
                own = plain._replace(
                    key=array.key,
                    definition=array.definition(plain.definition),
                    listed=array.definition(plain.listed),
                    limits=array.limits(plain.limits, size),
                )
                yield from self._in_groups(own)
            except GARBLED as e:
                self.problems.append(f"dynamic array {array.name}, VM size {size}: {why(e)}")

    def _plain(
        self,
        array: ClusterNodearrayStatus,
        record: Record,
        shared: dict[str, _SharedLimit],
        bucket: NodearrayBucketStatus,
        priority: int,
    ) -> _Plain:
        definition = self._declared(array.name, record, bucket)
        listed, memory = definition, bucket.virtual_machine.memory
        if memory is not None and ht.Memory(memory, "g") != definition.memory:
            # a Memory of the nodearray is that of new nodes alone
            listed = definition.in_placement_group(None)
            listed.memory = ht.Memory(memory, "g")
        limits = self._bucket_limits(definition, shared, bucket)
        return _Plain(array.name, definition, listed, limits, record, bucket, priority)

    def _in_groups(self, plain: _Plain) -> list[NodeBucket]:
        """A bucket in each of its placement groups, and the one outside of any."""
        key, definition, listed, limits, record, bucket, priority = plain
        whole = NodeBucket(
            definition.in_placement_group(None),
            limits,
            number(bucket.max_placement_group_size, 0),
            [],
            priority=priority,
            last_capacity_failure=bucket.last_capacity_failure,
            valid=bucket.valid is not False,
            spot_placement_score=getattr(bucket, "spot_placement_score", None),
            listed=self._records.listed(key, listed, None),
        )
        made = [whole]
        if not whole.valid:
            self.unusable.append(Unusable(whole, str(bucket.invalid_reason or "not valid")))
        groups = self._placement_groups(key, definition, record, bucket)
        if groups:
            # there may be thousands, which share a template
            first = definition.in_placement_group(next(iter(groups)))
            template = NodeTemplate(first, is_shared=True)
            made[:0] = [
                whole._within(group, used_cores, template, self._records.listed(key, listed, group))
                for group, used_cores in groups.items()
            ]
        self._records.placed(key, definition.vm_size)
        return made

    def _declared(
        self, nodearray: str, record: Record, bucket: NodearrayBucketStatus
    ) -> NodeDefinition:
        """What new nodes of a bucket are."""
        if bucket.definition is None or not bucket.definition.machine_type:
            raise ValueError("expected a definition with a machineType, found none")
        size, region = str(bucket.definition.machine_type), record.get("Region")
        if not isinstance(region, str):
            raise ValueError(f"expected a Region in the nodearray, found {region!r}")
        machine = bucket.virtual_machine
        memory = record.get("Memory") or machine.memory
        made = _definition(
            nodearray, record, bucket.bucket_id, region, size, machine.vcpu_count, memory
        )
        made.gpu_count = vm_sizes.gpu_count(self._config, machine.gpu_count, made.gpu_count)
        made.resources = ht.with_sizes(resources_of(record))
        if made.vcpu_count <= 0:
            raise ValueError(f"expected a number of vCPUs above 0, found {made.vcpu_count}")
        return made

    def _leftovers(self, array: ClusterNodearrayStatus) -> Iterable[NodeBucket]:
        """Buckets for nodes that belong to none of the usable ones: they run, but nothing is
        placed on them."""
        record = array.nodearray if isinstance(array.nodearray, Mapping) else {}
        names = self._names(array)
        for key, size, group, first in self._records.leftovers(names):
            name = names[key]
            try:
                region = str(first.get("Region") or record.get("Region") or "unknown")
                said = first.get("CoreCount"), first.get("Memory")
                definition = _definition(name, record, f"{name}/{size}", region, size, *said)
                listed = self._records.listed(key, definition, group)
                count = len(listed[0])
                limits = null_bucket_limits(count, max(1, definition.vcpu_count))
                definition = definition.in_placement_group(group)
                yield NodeBucket(definition, limits, 0, [], valid=False, listed=listed)
            except GARBLED as e:
                self.problems.append(f"nodearray {name}, nodes of {size}: {why(e)}")
                continue
            self.problems.append(
                f"nodearray {name}: {counted(count, 'node')} of {size}, which it has no usable"
                " bucket for; no work is placed there"
            )

    def _names(self, array: ClusterNodearrayStatus) -> dict[str, str]:
        """The names of a nodearray and of the dynamic arrays that extend it."""
        return {array.name: array.name} | {a.key: a.name for a in self._dynamic.of(array.name)}

    def _placement_groups(
        self, key: str, d: NodeDefinition, record: Record, bucket: NodearrayBucketStatus
    ) -> dict[str, int]:
        """Placement groups, with the cores in use in each."""
        own = self._records.placement_groups(key, d.vm_size)
        named = bucket.placement_groups or ()
        if key != d.nodearray:
            # a dynamic array has those with nodes of its own
            mine = set(own)
            named = [g for g in named if g.name in mine] if mine else ()
        used = {g.name: number(g.active_core_count, 0) for g in named}
        for each in self._dynamic.of(key):
            for group in self._records.placement_groups(each.key, d.vm_size):
                used.pop(group, None)
        names = [*sorted(used), *configured_placement_groups(self._config, d.nodearray)]
        if record.get("PlacementGroupId"):
            names.append(record["PlacementGroupId"])
        names.extend(own)
        return {name: used.get(name, 0) for name in names if name}

    # -- limits

    def _bucket_limits(
        self, d: NodeDefinition, shared: dict[str, _SharedLimit], bucket: NodearrayBucketStatus
    ) -> BucketLimits:
        # how many nodes more the server would make; worked out where it does not say
        unused = number(bucket.max_count, 0) - number(bucket.active_count, 0)
        available = number(bucket.available_count, max(0, unused))
        available = min(shared["nodearray"].room(d.vcpu_count), available)
        family = vm_sizes.quota_family(d.location, d.vm_size)
        facts = {"nodearray": d.nodearray, "location": d.location, "spot": d.spot, "family": family}
        stated = self._stated.of("bucket", bucket, facts, (0, 0), lambda _, *said: number(*said))
        return BucketLimits.under(
            {**shared, **stated},
            d.vcpu_count,
            active_core_count=number(bucket.active_core_count, 0),
            active_count=number(bucket.active_count, 0),
            available_core_count=available * d.vcpu_count,
            available_count=available,
            max_core_count=number(bucket.max_core_count, 0),
            max_count=number(bucket.max_count, 0),
            name=f"Bucket({d.nodearray}, {d.vm_size})",
        )

    def _reader(self, where: str) -> Figure:
        """What reads figures of a part of the status, and reports one that is none."""
        return lambda field, value, default: self._figure(
            value, default, f"{where}: {wire_name(field)}"
        )

    # -- figures

    def _vcpus_by_size(self) -> dict[tuple[Any, Any], int]:
        """vCPUs by nodearray and VM size, as the buckets report them."""
        found = {}
        for array in self._arrays:
            for bucket in array.buckets or ():
                try:
                    size = bucket.definition and bucket.definition.machine_type.lower()
                    count = number(bucket.virtual_machine.vcpu_count, 0)
                    found.update({(name, size): count for name in self._names(array)})
                except GARBLED:
                    continue  # reported when the bucket is built
        return found

    def _in_use(self, sorts: Iterable[tuple[Record, int]]) -> tuple[int, int]:
        """The cores and the number of those that take a place, of so many records of each sort."""
        cores = nodes = 0
        for record, count in sorts:
            target, status = record.get("TargetState"), record.get("Status")
            # booting, running and terminating ones do, those at rest do not
            if target and (status != target or target == "Started"):
                nodes += count
                cores += count * self._vcpus_of(record)
        return cores, nodes

    def _vcpus_of(self, record: Record) -> int:
        size = record.get("MachineType") or ""
        try:
            known = self._vcpus.get((record.get("Template") or "", size.lower()))
            if known:
                return known
            if record.get("CoreCount"):
                return int(record["CoreCount"])
            aux = vm_sizes.get_aux_vm_size_info(record.get("Region"), ht.VMSize(size))
            return max(0, aux.vcpu_count)
        except GARBLED:
            return 0

    def _figure(self, value: Any, default: int, where: str) -> int:
        try:
            return number(value, default)
        except GARBLED:
            self.problems.append(f"{where}: expected a whole number, found {value!r}; not heeded")
            return default


def _is_usable(array: object) -> bool:
    return hasattr(array, "buckets")


def _definition(
    nodearray: str,
    array: Record,
    bucket_id: str,
    region: str,
    size: str,
    vcpu_count: int | None,
    memory: Any,
) -> NodeDefinition:
    """What nodes of a nodearray and size are; by the catalogue, where nothing else is said."""
    location, vm_size = ht.Location(region), ht.VMSize(size)
    aux = vm_sizes.get_aux_vm_size_info(location, vm_size)
    return NodeDefinition(
        ht.NodeArrayName(nodearray),
        ht.BucketId(bucket_id),
        vm_size,
        location,
        bool(array.get("Interruptible")),
        ht.SubnetId(array.get("SubnetId") or ""),
        number(vcpu_count, aux.vcpu_count),
        aux.gpu_count,
        aux.memory if memory is None else ht.Memory(memory, "g"),
        None,
        {},
        said if isinstance(said := array.get("Configuration"), Mapping) else {},
    )
