"""From the request sets that stand to jobs, which the engine places like those of a scheduler.

Each nodearray of each set is one job that takes nodes whole. So nodes that exist are taken first,
limits and reasons are those of every job, and what several sets want adds up in nodes after each
was rounded up. Nodes that a scheduler's work is on are not among them, and count only for a wish
that says so.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import count
from types import MappingProxyType
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.config.naming import escaped_placement_group
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.offerings import offering_of
from hpc.autoscale.requestsets.definitions import ArrayRequest, read_arrays
from hpc.autoscale.requestsets.extending import DRIVERS_WISH, DriversWish, standing_sets
from hpc.autoscale.util import partition

Wanted = Sequence[tuple[str, ArrayRequest]]
"""What is wanted, with the name of the set that wants it."""

# Resources that nodes have only while request sets are served, by which targets are counted:
# a scheduler may have made something else of ncpus.
_CORES = "request_set_cores"
_NODES = "request_set_nodes"
# How the names of placement groups begin that are made here.
_GROUP_PREFIX = "group-"


class WantedNodes(Job):
    """Nodes that are wanted by number. That it was placed on a node is no work there: any other
    node like that one would do as well.

    `node_attributes` are merged onto the definitions of the nodes that are started for it.
    """

    node_attributes: Mapping[str, Any] = MappingProxyType({})

    @property
    def gives_attributes(self) -> bool:
        """Whether nodes that are started for it have any."""
        return bool(self.node_attributes)

    def attributes_of(self, node: Node) -> dict[str, Any]:
        """The attributes that a node has which is started for it."""
        return deepcopy(dict(self.node_attributes))


class RequestJob(WantedNodes):
    """Nodes that a request set wants of a nodearray, each taken whole.

    A group is placed as a whole or not at all; of others, as much as there is room for.
    `counts_work`: a driver wants it, for what runs already as well.
    """

    counts_work = False

    def __init__(
        self,
        name: str,
        request: ArrayRequest,
        nodes: int,
        cores: int,
        where: list[dict[str, Any]],
        is_group: bool = False,
    ) -> None:
        self.nodearray = request.group_array if is_group else request.name
        constraints = [
            {"node.nodearray": self.nodearray},
            {"exclusive": True},
            {_CORES if cores else _NODES: 1},
            *where,
        ]
        super().__init__(name, constraints, iterations=cores or nodes, colocated=is_group)
        self.is_group = is_group
        self.node_attributes = request.attributes
        self.includes_jobs = request.includes_jobs and not is_group
        self._wish = request

    @property
    def gives_attributes(self) -> bool:
        """Whether nodes that are started for it have any: those of groups do."""
        return self.is_group or super().gives_attributes

    def attributes_of(self, node: Node) -> dict[str, Any]:
        """As those of its definition; nodes of groups have the id of their group, too."""
        attributes = super().attributes_of(node)
        if not self.is_group:
            return attributes
        return _with_group_id(attributes, str(node.placement_group))

    def take_off(self, nodes: Iterable[Node]) -> None:
        """Want less by these nodes, as far as they are such as it wants."""
        sizes = [size.lower() for size in self._wish.machine_types]
        for node in nodes:
            fits = not sizes or node.vm_size.lower() in sizes
            if fits and node.nodearray == self._wish.name:
                self.iterations_remaining -= node.vcpu_count if self._wish.cores else 1
        self.iterations_remaining = max(0, self.iterations_remaining)


def requested_jobs(
    config: Mapping[str, Any],
    home: str,
    node_mgr: NodeManager,
    at_work: Callable[[], Collection[object]] = frozenset,
) -> list[RequestJob]:
    """The jobs of the request sets of a configuration that stand now, groups first, and those for
    what its driver wants of nodearrays.

    The node manager is given what they need: resources to count by, and placement groups.
    `at_work`: asked for the keys of the nodes at work, where the driver wants groups.
    """
    sets = standing_sets(config, home)
    wanted = [(one.name, request) for one in sets for request in read_arrays(one.arrays)]
    if not wanted:
        return []
    if any(request.cores or request.group_cores for _, request in wanted):
        node_mgr.add_default_resource({}, _CORES, "node.vcpu_count")
    if any(request.nodes or request.group_nodes for _, request in wanted):
        node_mgr.add_default_resource({}, _NODES, 1)
    wish: DriversWish | None = config.get(DRIVERS_WISH)
    of_driver = "" if wish is None else wish.name
    has_groups = any(request.groups for name, request in wanted if name == of_driver)
    busy = at_work() if has_groups else ()
    groups = list(_of_groups(wanted, _by_nodearray(node_mgr), node_mgr, busy))
    return [*groups, *_of_targets(wanted, _by_nodearray(node_mgr), of_driver)]


def _by_nodearray(node_mgr: NodeManager) -> dict[ht.NodeArrayName, list[NodeBucket]]:
    return partition(node_mgr.get_buckets(), lambda bucket: bucket.nodearray)


def _of_targets(
    wanted: Wanted, buckets: Mapping[ht.NodeArrayName, Sequence[NodeBucket]], of_driver: str
) -> Iterator[RequestJob]:
    """A job for the nodes that each set wants of a nodearray outside of groups. `of_driver`: the
    set that has what the driver wants."""
    for request_set, request in wanted:
        if not (request.nodes or request.cores):
            continue
        where = _any_of("node.vm_size", request.machine_types)
        held = buckets.get(ht.NodeArrayName(request.name), ())
        groups = {b.placement_group for b in held if _is_group(b.placement_group)}
        if groups:
            where.append({"not": {"node.placement_group": sorted(map(str, groups))}})
        name = f"request:{request_set}/{request.name}"
        job = RequestJob(name, request, request.nodes, request.cores, where)
        job.counts_work = request_set == of_driver
        yield job


def _of_groups(
    wanted: Wanted,
    buckets: Mapping[ht.NodeArrayName, Sequence[NodeBucket]],
    node_mgr: NodeManager,
    busy: Collection[object],
) -> Iterator[RequestJob]:
    """A job for each group, which has placement groups of its own: one for each machine type.

    Groups of one array are numbered over all sets: what stands in which number makes
    no difference, and the last ones go when fewer are wanted, those at work after all others.
    """
    numbers: dict[str, Iterator[int]] = {}
    for request_set, request in wanted:
        array = request.group_array
        prefix = _prefix_of(array)
        held = buckets.get(ht.NodeArrayName(array), ())
        plain = _plain_buckets(request, held)
        known = {b.placement_group: b for b in held if b.placement_group}
        numbers.setdefault(array, _numbers(prefix, held, busy))
        for _ in range(request.groups):
            number = next(numbers[array])
            by_name = {
                escaped_placement_group(f"{prefix}-{number}-{bucket.vm_size}"): bucket
                for bucket in plain
            }
            # a group that is complete stays where it is, whatever else could be had
            there = [n for n in by_name if n in known and _is_complete(request, known[n])]
            names = there[:1] or list(by_name)
            for name in names:
                if name not in known:
                    node_mgr.add_placement_group(name, by_name[name])
            yield RequestJob(
                f"request:{request_set}/{array}#{number}",
                request,
                request.group_nodes,
                request.group_cores,
                # without a machine type nothing fits
                _any_of("node.placement_group", names or [_GROUP_PREFIX]),
                is_group=True,
            )


def _numbers(prefix: str, buckets: Sequence[NodeBucket], busy: Collection[object]) -> Iterator[int]:
    """In which order the groups of an array are wanted: first those with nodes at work."""
    at_work = {
        int(number)
        for bucket in (buckets if busy else ())
        if bucket.placement_group and any(key_of(node) in busy for node in bucket.nodes)
        for number in re.findall(rf"^{re.escape(prefix)}-([1-9]\d*)-", bucket.placement_group)
    }
    yield from sorted(at_work)
    yield from (number for number in count(1) if number not in at_work)


def _prefix_of(array: str) -> str:
    """How the names of the placement groups of an array of groups begin; no two arrays have the
    same, whatever characters their names have."""
    name, _, size = array.rpartition(":")
    plain = escaped_placement_group(name)
    mark = "" if plain == name else f"-{zlib.crc32(name.encode()):08x}"
    return f"{_GROUP_PREFIX}{plain}{mark}-{size}"


def _plain_buckets(request: ArrayRequest, buckets: Sequence[NodeBucket]) -> list[NodeBucket]:
    """The buckets outside of placement groups that a request may use, in order of preference."""
    plain = [bucket for bucket in buckets if not bucket.placement_group]
    if not request.machine_types:
        return plain
    order = [size.lower() for size in request.machine_types]
    allowed = [bucket for bucket in plain if bucket.vm_size.lower() in order]
    return sorted(allowed, key=lambda bucket: order.index(bucket.vm_size.lower()))


def _is_complete(request: ArrayRequest, bucket: NodeBucket) -> bool:
    """Whether a placement group has all nodes of a group already."""
    nodes = sum(node.exists and node.state != "Failed" for node in bucket.nodes)
    if request.group_nodes:
        return nodes >= request.group_nodes
    return nodes * bucket.vcpu_count >= request.group_cores


def _is_group(placement_group: str | None) -> bool:
    return bool(placement_group) and str(placement_group).startswith(_GROUP_PREFIX)


def group_of(node: Node) -> str | None:
    """The group of a request set that a node belongs to; None for other nodes."""
    group = node.placement_group
    return str(group) if _is_group(group) else None


def _any_of(attribute: str, values: Sequence[str]) -> list[dict[str, Any]]:
    """The constraint that a node has one of the values, the first ones preferred; none without
    values."""
    each = [{attribute: value} for value in values]
    return [{"or": each}] if len(each) > 1 else each


def take_off_work(
    jobs: Iterable[RequestJob], requested: Iterable[Job], nodes: Iterable[Node]
) -> None:
    """Let wishes that include the nodes of jobs want less by those of `nodes` that work is on.

    `requested`: all wishes, which are no work.
    """
    names = {job.name for job in requested}
    at_work = [node for node in nodes if any(work not in names for work in node.assignments)]
    for job in jobs:
        job.take_off(at_work)


def keep_at_work(
    wishes: Iterable[RequestJob],
    nodes: Iterable[Node],
    busy: Collection[object],
    needed: Collection[object],
) -> None:
    """Let what a driver wants be its nodes at work, before idle ones of the same kind, which may go
    then: where it reports no hosts, only its jobs tell that work is there, by names of hosts.

    `busy`, `needed`: keys of nodes at work, and of those that somebody else needs. Groups stay
    where they are.
    """
    names = {job.name for job in wishes}
    there = [node for node in nodes if node.managed and node.exists and node.state != "Failed"]
    for alike in partition(there, offering_of).values():
        missed = [node for node in alike if key_of(node) in busy and not node.assignments]
        idle = [
            node
            for node in alike
            if node.assignments and key_of(node) not in busy and names.issuperset(node.assignments)
        ]
        for node, other in zip(missed, reversed(idle), strict=False):
            node.assignments.update(other.assignments)
            other.assignments.clear()
            node.required, other.required = True, key_of(other) in needed


def give_attributes(jobs: Iterable[Job], new_nodes: Iterable[Node]) -> None:
    """Let planned nodes have the attributes of the jobs by which they were wanted."""
    asked = {job.name: job for job in jobs if isinstance(job, WantedNodes)}
    asked = {name: job for name, job in asked.items() if job.gives_attributes}
    if not asked:
        return
    for node in new_nodes:
        for name in asked.keys() & node.assignments:
            node.node_attribute_overrides.update(asked[name].attributes_of(node))


def _with_group_id(attributes: dict[str, Any], group_id: str) -> dict[str, Any]:
    """The attributes with GroupId, and with `cyclecloud.node.group_id` in the configuration."""
    section: dict[str, Any] = attributes
    for key in ("Configuration", "cyclecloud", "node"):
        below = section.get(key)
        section[key] = section = dict(below) if isinstance(below, Mapping) else {}
    section["group_id"] = group_id
    return {**attributes, "GroupId": group_id}
