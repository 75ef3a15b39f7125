"""From what the server says of a cluster to buckets with their nodes and limits.

Pure but for log lines: a status, the node records and the configuration go in, buckets come out. A
nodearray, bucket or record that makes no sense is set aside and reported in `Built.problems`; it
never stops the others, and nodes that run are never lost sight of: those that fit no usable bucket
are in one that takes no work.

Buckets for which the facts of a limit kind's scope are equal share one limit (`SharedLimits`). The
first part of the status that says something defines it: older servers leave figures out, and what
nobody says is no limit here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.modelbase import wire_name
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
)
from hpc.autoscale.errors import counted
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition
from hpc.autoscale.node.bucket.definition import NodeTemplate
from hpc.autoscale.node.limits import (
    KINDS,
    BucketLimits,
    LimitKind,
    _SharedLimit,
    _SpotLimit,
    null_bucket_limits,
)
from hpc.autoscale.node.nodemanager.records import NodeRecords, Record, values_of
from hpc.autoscale.packing.limits import NO_LIMIT
from hpc.autoscale.requestsets.dynamic import DynamicArray, DynamicArrays

# What reading a garbled reply may raise. AutoscaleError, for sizes that are none, is a
# RuntimeError.
_GARBLED = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
)
# What decides whether a node takes a place, and of how many cores.
_PLACE = ("TargetState", "Status", "Template", "MachineType", "CoreCount", "Region")


UNLIMITED = 2**31 - 1

Read = Callable[[Any, int, str], int]
"""Makes a whole number of a figure, or the default where there is none; the text is the figure's
name.
"""


class Built(NamedTuple):
    """`buckets` in declared order; `names` of all nodes the server knows; `problems`, a sentence
    each; ids and host names of nodes that are `leaving`; names of all `nodearrays`, those
    without buckets included; the state that the cluster is to reach (`target_state`)."""

    buckets: list[NodeBucket]
    names: list[str]
    problems: list[str]
    leaving: frozenset[str]
    nodearrays: list[str]
    target_state: str | None = None


def build(
    config: Mapping[str, Any],
    status: ClusterStatus,
    records: Sequence[Record],
    dynamic: DynamicArrays | None = None,
) -> Built:
    """The buckets of a cluster, those of `dynamic` arrays included."""
    dynamic = DynamicArrays() if dynamic is None else dynamic
    return _Builder(config, status, records, dynamic).build()


class _Plain(NamedTuple):
    """A bucket outside of placement groups: what new nodes are, what `listed` ones are whose
    records do not say, limits, the nodearray of the cluster with its record, and the status."""

    definition: NodeDefinition
    listed: NodeDefinition
    limits: BucketLimits
    nodearray: str
    record: Record
    bucket: NodearrayBucketStatus
    priority: int


class _Builder:
    def __init__(
        self,
        config: Mapping[str, Any],
        status: ClusterStatus,
        records: Sequence[Record],
        dynamic: DynamicArrays,
    ) -> None:
        on_prem = set(config.get("_mimic_on_prem") or ())
        self.config = config
        self.target_state = status.target_state
        self.arrays = [a for a in status.nodearrays or () if hasattr(a, "buckets")]
        self.problems: list[str] = []
        self.shared = SharedLimits()
        listed = _records(records, on_prem)
        self.dynamic = dynamic
        self.records = NodeRecords(config, dynamic.relabelled(listed))
        self.vcpus = self._vcpus_by_size()
        in_use = self._in_use(_alike(listed))
        self.cluster = self.shared.stated("cluster", status, {}, in_use, self._reader("cluster"))

    def build(self) -> Built:
        buckets: list[NodeBucket] = []
        for array in self.arrays:
            if _setting(array.nodearray, "autoscale", "enabled") is False:
                logging.fine("nodearray %s has autoscale.enabled=false: left alone", array.name)
                continue
            if not array.buckets:
                self.problems.append(
                    f"nodearray {array.name}: expected at least one bucket (a VM size that can be"
                    " used), found none; "
                    "check MachineType, region and quota of the nodearray in CycleCloud"
                )
            buckets.extend(self._nodearray(array))
            buckets.extend(self._leftovers(array))
        self.problems.extend(self.records.problems)
        for problem in self.problems:
            logging.warning("%s", problem)
        leaving = frozenset(self.records.leaving)
        arrays = [str(array.name) for array in self.arrays]
        arrays += [each.name for array in self.arrays for each in self.dynamic.of(array.name)]
        return Built(buckets, self.records.names, self.problems, leaving, arrays, self.target_state)

    def _nodearray(self, array: ClusterNodearrayStatus) -> Iterable[NodeBucket]:
        """The buckets of a nodearray, and then those of the dynamic arrays that extend it."""
        record = array.nodearray if isinstance(array.nodearray, Mapping) else {}
        where = f"nodearray {array.name}"
        in_use = self._in_use(
            sort for name in self._names(array) for sort in self.records.of_nodearray(name)
        )
        facts = {"nodearray": array.name}
        shared = self.shared.stated("nodearray", array, facts, in_use, self._reader(where))
        priority = 1000 * self._figure(record.get("Priority"), 1, f"{where}: Priority")
        usable: list[_Plain] = []
        for n, bucket in enumerate(array.buckets or ()):
            try:
                plain = self._plain(array, record, {**self.cluster, **shared}, bucket, priority - n)
                made = self._in_groups(plain)
            except _GARBLED as e:
                size = getattr(getattr(bucket, "definition", None), "machine_type", None)
                self.problems.append(
                    f"{where}, VM size {size}: set aside, its record cannot be used: {_why(e)}"
                )
                continue
            yield from made
            usable.append(plain)
        for each in self.dynamic.of(array.name):
            yield from self._dynamic(each, usable)

    def _dynamic(self, array: DynamicArray, extended: Iterable[_Plain]) -> Iterable[NodeBucket]:
        """The buckets of a dynamic array: of the sizes that it may have, and has."""
        for plain in sorted(extended, key=lambda plain: array.rank(plain.definition.vm_size)):
            size = plain.definition.vm_size
            if not (array.takes(size) or self.records.has(array.name, size)):
                continue
            try:
                own = plain._replace(
                    definition=array.definition(plain.definition),
                    listed=array.definition(plain.listed),
                    limits=array.limits(plain.limits, size),
                )
                yield from self._in_groups(own)
            except _GARBLED as e:
                self.problems.append(f"dynamic array {array.name}, VM size {size}: {_why(e)}")

    def _plain(
        self,
        array: ClusterNodearrayStatus,
        record: Record,
        shared: dict[str, _SharedLimit],
        bucket: NodearrayBucketStatus,
        priority: int,
    ) -> _Plain:
        definition = self._definition(array.name, record, bucket)
        vcpus = definition.vcpu_count
        if vcpus <= 0:
            raise ValueError(f"expected a number of vCPUs above 0, found {vcpus}")
        available = min(shared["nodearray"].room(vcpus), _available(bucket))
        shared = {**shared, **self.shared.stated("bucket", bucket, _facts(definition))}
        limits = BucketLimits(
            vcpus,
            shared.pop("regional"),
            shared.pop("cluster"),
            shared.pop("nodearray"),
            shared.pop("family"),
            None,
            active_core_count=number(bucket.active_core_count, 0),
            active_count=number(bucket.active_count, 0),
            available_core_count=available * vcpus,
            available_count=available,
            max_core_count=number(bucket.max_core_count, 0),
            max_count=number(bucket.max_count, 0),
            name=f"Bucket({array.name}, {definition.vm_size})",
            others=shared,
        )
        listed = _as_listed(definition, bucket)
        return _Plain(definition, listed, limits, array.name, record, bucket, priority)

    def _in_groups(self, plain: _Plain) -> list[NodeBucket]:
        """A bucket in each of its placement groups, and the one outside of any."""
        definition, listed, limits, array, record, bucket, priority = plain
        group_size = number(bucket.max_placement_group_size, 0)
        groups = self._placement_groups(definition, array, record, bucket)
        # thousands of buckets may be one in as many placement groups, the first of which stands for
        # all here
        first = groups[0][0]
        template = NodeTemplate(_in_group(definition, first), is_shared=True) if first else None
        made = [
            NodeBucket(
                _in_group(definition, group),
                _group_limits(limits, group, group_size * definition.vcpu_count, used_cores),
                group_size,
                [],
                priority=priority,
                last_capacity_failure=bucket.last_capacity_failure,
                valid=bucket.valid is not False,
                spot_placement_score=getattr(bucket, "spot_placement_score", None),
                template=template if group else None,
                listed=self.records.listed(listed, group),
            )
            for group, used_cores in groups
        ]
        self.records.placed(definition.nodearray, definition.vm_size)
        return made

    def _leftovers(self, array: ClusterNodearrayStatus) -> Iterable[NodeBucket]:
        """Buckets for nodes that belong to none of the usable ones: they run, but nothing is
        placed on them."""
        record = array.nodearray if isinstance(array.nodearray, Mapping) else {}
        for name, size, group, first in self.records.leftovers(self._names(array)):
            try:
                definition = _as_recorded(name, record, size, first)
                listed = self.records.listed(definition, group)
                count = len(listed[0])
                limits = null_bucket_limits(count, max(1, definition.vcpu_count))
                definition = _in_group(definition, group)
                yield NodeBucket(definition, limits, 0, [], valid=False, listed=listed)
            except _GARBLED as e:
                self.problems.append(f"nodearray {name}, nodes of {size}: {_why(e)}")
                continue
            self.problems.append(
                f"nodearray {name}: {counted(count, 'node')} of {size}, which it has no"
                " usable bucket for; "
                "no work is placed there"
            )

    def _names(self, array: ClusterNodearrayStatus) -> list[str]:
        """The names of a nodearray and of the dynamic arrays that extend it."""
        return [array.name, *(each.name for each in self.dynamic.of(array.name))]

    def _definition(
        self, nodearray: str, record: Record, bucket: NodearrayBucketStatus
    ) -> NodeDefinition:
        machine = bucket.virtual_machine
        memory = record.get("Memory") or machine.memory
        machine_type = ht.VMSize(_machine_type(bucket))
        region = _region(record)
        aux = vm_sizes.get_aux_vm_size_info(region, machine_type)
        return NodeDefinition(
            ht.NodeArrayName(nodearray),
            ht.BucketId(bucket.bucket_id),
            machine_type,
            region,
            bool(record.get("Interruptible")),
            ht.SubnetId(record.get("SubnetId") or ""),
            number(machine.vcpu_count, aux.vcpu_count),
            gpu_count(self.config, machine.gpu_count, aux.gpu_count),
            aux.memory if memory is None else ht.Memory(memory, "g"),
            None,
            ht.with_sizes(_setting(record, "autoscale", "resources") or {}),
            record.get("Configuration") or {},
        )

    def _placement_groups(
        self, d: NodeDefinition, array: str, record: Record, bucket: NodearrayBucketStatus
    ) -> list[tuple[str | None, int]]:
        """Placement groups with the cores in use in each; the bucket itself, outside of any,
        comes last."""
        own = self.records.placement_groups(d.nodearray, d.vm_size)
        named = bucket.placement_groups or ()
        if d.nodearray != array:
            # a dynamic array has those with nodes of its own
            named = [g for g in named if g.name in own] if own else ()
        used = {g.name: number(g.active_core_count, 0) for g in named}
        for each in self.dynamic.of(d.nodearray):
            for group in self.records.placement_groups(each.name, d.vm_size):
                used.pop(group, None)
        configured = self.config.get("nodearrays") or {}
        names: list[str] = sorted(used)
        for section in ("default", d.nodearray):
            names.extend((configured.get(section) or {}).get("placement_groups") or ())
        if record.get("PlacementGroupId"):
            names.append(record["PlacementGroupId"])
        names.extend(own)
        groups: list[tuple[str | None, int]] = [(n, used.get(n, 0)) for n in dict.fromkeys(names)]
        return [*groups, (None, 0)]

    # -- figures

    def _vcpus_by_size(self) -> dict[tuple[Any, Any], int]:
        """vCPUs by nodearray and VM size, as the buckets report them."""
        found = {}
        for array in self.arrays:
            for bucket in array.buckets or ():
                try:
                    size = _machine_type(bucket)
                    count = number(bucket.virtual_machine.vcpu_count, 0)
                    found.update({(name, size): count for name in self._names(array)})
                except _GARBLED:
                    continue  # reported when the bucket is built
        return found

    def _in_use(self, sorts: Iterable[tuple[Record, int]]) -> tuple[int, int]:
        """The cores and the number of those that take a place, of so many records of each sort."""
        cores = nodes = 0
        for record, count in sorts:
            if _takes_place(record):
                nodes += count
                cores += count * self._vcpus_of(record)
        return cores, nodes

    def _vcpus_of(self, record: Record) -> int:
        size = record.get("MachineType") or ""
        try:
            known = self.vcpus.get((record.get("Template") or "", size))
            if known:
                return known
            if record.get("CoreCount"):
                return int(record["CoreCount"])
            aux = vm_sizes.get_aux_vm_size_info(record.get("Region"), ht.VMSize(size))
            return max(0, aux.vcpu_count)
        except _GARBLED:
            return 0

    def _reader(self, where: str) -> Read:
        """What reads the limits of a part of the status; a figure that is none is reported and
        not heeded."""
        return lambda value, default, name: self._figure(
            value, default, f"{where}: {wire_name(name)}"
        )

    def _figure(self, value: Any, default: int, where: str) -> int:
        try:
            return number(value, default)
        except _GARBLED:
            self.problems.append(f"{where}: expected a whole number, found {value!r}; not heeded")
            return default


def _records(records: Iterable[Any], on_prem: set[str]) -> list[Record]:
    """Records that are any, without the nodes that are to be taken for machines on premises."""
    # to ask of a dict whether it is a mapping takes long, and there are thousands
    found = [r for r in records if r.__class__ is dict or isinstance(r, Mapping)]
    return [r for r in found if r.get("Name") not in on_prem] if on_prem else found


def _alike(records: Sequence[Record]) -> Iterable[tuple[Record, int]]:
    """One record of each sort of those that take the same place, and how many there are."""
    if not records:
        return ()
    try:
        found = Counter(values_of(_PLACE, records))
    except TypeError:  # a value that cannot be compared
        return [(record, 1) for record in records]
    return [(dict(zip(_PLACE, values, strict=True)), count) for values, count in found.items()]


def _why(e: BaseException) -> str:
    return f"{e!r}" if isinstance(e, (AttributeError, LookupError, TypeError)) else str(e)


def _facts(d: NodeDefinition) -> dict[str, Any]:
    """What scopes and names of limits are made of."""
    family = vm_sizes.quota_family(d.location, d.vm_size)
    return {"nodearray": d.nodearray, "location": d.location, "spot": d.spot, "family": family}


def _machine_type(bucket: NodearrayBucketStatus) -> str:
    if bucket.definition is None or not bucket.definition.machine_type:
        raise ValueError("expected a definition with a machineType, found none")
    return str(bucket.definition.machine_type)


def _region(record: Record) -> ht.Location:
    if not isinstance(record.get("Region"), str):
        raise ValueError(f"expected a Region in the nodearray, found {record.get('Region')!r}")
    return ht.Location(record["Region"])


def _available(bucket: NodearrayBucketStatus) -> int:
    """How many nodes more the server would make; worked out from its other figures where it does
    not say."""
    unused = number(bucket.max_count, 0) - number(bucket.active_count, 0)
    return number(bucket.available_count, max(0, unused))


def _as_recorded(nodearray: str, array: Record, size: str, record: Record) -> NodeDefinition:
    """What a node without a bucket is, by its own record and the catalogue."""
    location = ht.Location(str(record.get("Region") or array.get("Region") or "unknown"))
    vm_size = ht.VMSize(size)
    aux = vm_sizes.get_aux_vm_size_info(location, vm_size)
    memory = record.get("Memory")
    return NodeDefinition(
        ht.NodeArrayName(nodearray),
        ht.BucketId(f"{nodearray}/{size}"),
        vm_size,
        location,
        bool(array.get("Interruptible")),
        ht.SubnetId(array.get("SubnetId") or ""),
        number(record.get("CoreCount"), aux.vcpu_count),
        aux.gpu_count,
        aux.memory if memory is None else ht.Memory(memory, "g"),
        None,
        {},
        array.get("Configuration") or {},
    )


def gpu_count(config: Mapping[str, Any], reported: int | None, catalogue: int) -> int:
    """GPUs of a size: the higher of what CycleCloud reports and the catalogue (locked-down
    subscriptions report 0), or, with `"vm_sizes": {"gpu_count": "reported"}`, what is reported
    where that is above 0."""
    if (config.get("vm_sizes") or {}).get("gpu_count") == "reported" and reported:
        return reported
    return max(reported or 0, catalogue, 0)


def _as_listed(definition: NodeDefinition, bucket: NodearrayBucketStatus) -> NodeDefinition:
    """What nodes of a bucket are whose records do not say: a Memory of the nodearray is that of
    new nodes alone."""
    memory = bucket.virtual_machine.memory
    if memory is None or ht.Memory(memory, "g") == definition.memory:
        return definition
    listed = _in_group(definition, definition.placement_group)
    listed.memory = ht.Memory(memory, "g")
    return listed


def _in_group(definition: NodeDefinition, group: str | None) -> NodeDefinition:
    name = ht.PlacementGroup(group) if group else None
    return definition.in_placement_group(name, definition.resources)


def _group_limits(
    limits: BucketLimits, group: str | None, max_cores: int, used_cores: int
) -> BucketLimits:
    if not group:
        return limits
    return limits.in_placement_group(
        _SharedLimit(f"PlacementGroup({group})", used_cores, max_cores)
    )


def _takes_place(record: Record) -> bool:
    """Whether a node counts against limits: booting, running and terminating ones do, those at
    rest do not."""
    target, status = record.get("TargetState"), record.get("Status")
    return bool(target) and (status != target or target == "Started")


def _setting(record: Mapping[str, Any] | None, *path: str) -> Any:
    found: Any = record.get("Configuration") if isinstance(record, Mapping) else None
    for key in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def number(value: Any, default: int, name: str = "") -> int:
    """A figure of the server as a whole number; the default where it says nothing. ValueError,
    TypeError or OverflowError for what is none.
    """
    return default if value is None else int(value)


class SharedLimits:
    """The accounts of one cluster, by kind and scope."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _SharedLimit] = {}

    def stated(
        self,
        by: str,
        status: object,
        facts: Mapping[str, Any],
        used: tuple[int, int] = (0, 0),
        read: Read = number,
    ) -> dict[str, _SharedLimit]:
        """The limits that a part of the status states, by the name of their kind.

        `facts`: what the scopes and names of kinds are made of. `used`: cores and nodes in use, for
        kinds that the server does not count.
        """
        found: dict[str, _SharedLimit] = {}
        for kind in KINDS:
            if kind.stated_by != by:
                continue
            if facts.get("spot") and kind.spot_reads:
                found[kind.name] = _SpotLimit(found[kind.spot_reads])
            else:
                found[kind.name] = self._account(kind, status, facts, used, read)
        return found

    def _account(
        self,
        kind: LimitKind,
        status: object,
        facts: Mapping[str, Any],
        used: tuple[int, int],
        read: Read,
    ) -> _SharedLimit:
        key = (kind.name, *(facts[name] for name in kind.scope))
        cores = _said(status, kind.max_cores, kind.used_cores)
        nodes = _said(status, kind.max_nodes, kind.used_nodes)
        found = self._known.get(key)
        if found is not None and (_is_stated(found) or cores.most is nodes.most is None):
            return found
        text = kind.spot_text if facts.get("spot") and kind.spot_text else kind.text
        said = _SharedLimit(
            text.format(**facts),
            cores.in_use(read, used[0]),
            cores.at_most(read),
            nodes.in_use(read, used[1]) if kind.max_nodes else 0,
            nodes.at_most(read),
        )
        if found is None:
            self._known[key] = said
            return said
        for figure in ("max", "used", "beyond"):
            for unit in ("cores", "nodes"):
                setattr(found, f"{figure}_{unit}", getattr(said, f"{figure}_{unit}"))
        found.opened()
        return found


class _Said(NamedTuple):
    """Two figures of the server, as it gave them, and the names of the fields that they stood
    in."""

    most: Any = None
    used: Any = None
    most_field: str = ""
    used_field: str = ""

    def at_most(self, read: Read) -> int:
        """The most there can be; no limit where there is no such field."""
        return read(self.most, UNLIMITED, self.most_field) if self.most_field else NO_LIMIT

    def in_use(self, read: Read, counted: int) -> int:
        """What is used; what was counted where there is no such field."""
        return read(self.used, 0, self.used_field) if self.used_field else counted


def _said(status: object, most: tuple[str, ...], used: tuple[str, ...]) -> _Said:
    """The figures of a unit, of the first field for the most that has one and the field for what is
    used that goes with it.
    """
    found = _Said()
    for most_field, used_field in zip_longest(most, used, fillvalue=""):
        found = _Said(
            getattr(status, most_field, None),
            getattr(status, used_field, None) if used_field else None,
            most_field,
            used_field,
        )
        if found.most is not None:
            break
    return found


def _is_stated(limit: _SharedLimit) -> bool:
    """Whether anybody has said how much there is."""
    return limit.max_cores < UNLIMITED or limit.max_nodes < UNLIMITED
