"""Nodearray definitions as a reporter gives them: what they mean, and what is wrong with them.

A definition is a dict with the keys that CycleCloud documents (`Name`, `TargetCount`, …); any other
key is a node attribute. Whether the cluster has what a definition names is asked by `check_arrays`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from hpc.autoscale.ccbindings.modelbase import check_of_nodes
from hpc.autoscale.ccbindings.models import ClusterStatus, NodearrayBucketStatus
from hpc.autoscale.errors import AutoscaleError, did_you_mean

DEFAULT_NODEARRAY = "execute"

_TARGETS = ("TargetCount", "TargetCoreCount")
_GROUPS = ("TargetGroupCount", "GroupInstanceCount", "GroupCoreCount")
MARK = "dynamic_array"
"""The key of a node's configuration, under `autoscale`, that names its dynamic array."""

WANTED_KEYS = (*_TARGETS, *_GROUPS, "IncludesJobs")
"""The keys that say how much is wanted; the others say what it is."""
MOST_GROUPS = 10_000
"""How many groups a definition may want: each has placement groups of its own in every pass."""
_OWN_KEYS = ("Name", *WANTED_KEYS, "MachineType", "ClusterName", "Dynamic", "Extends")
# attributes that scripts often set, so that a key that is close to one is taken for a typo of it
_COMMON = ("Configuration", "ImageName", "SubnetId", "Interruptible", "KeepAlive", "Azure", "Tags")
# names of nodes and of placement groups are made of it, and have limits of their own
_LONGEST_NAME = 40
# what CycleCloud says of a node and no request can set
_FACTS = ("NodeId", "InstanceId", "Status", "State", "TargetState", "PlacementGroupId", "GroupId")


class RequestError(AutoscaleError):
    """A request that cannot be used. The request set that stood before stays in force."""


class ArrayRequest(NamedTuple):
    """What one request set wants of one nodearray: `nodes`, or nodes with so many `cores` together.

    Beside that it wants `groups` of `group_nodes` nodes, or of nodes with `group_cores` together.
    `machine_types`: the only ones to start, in order of preference; empty for all that the
    nodearray has. `attributes`: merged onto the definition of each node that is started for this.

    A dynamic array is made of another one, and that one of a third, perhaps: `extends` has their
    names, and the last of them is a nodearray of the cluster. `has_target`: `nodes` or `cores` was
    said, if only 0. `includes_jobs`: nodes that a scheduler's jobs are on count as well.
    """

    name: str
    nodes: int = 0
    cores: int = 0
    groups: int = 0
    group_nodes: int = 0
    group_cores: int = 0
    machine_types: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = MappingProxyType({})
    cluster_name: str | None = None
    is_dynamic: bool = False
    extends: tuple[str, ...] = ()
    has_target: bool = True
    includes_jobs: bool = False

    @property
    def base(self) -> str:
        """The nodearray of the cluster that its nodes come from."""
        return self.extends[-1] if self.extends else self.name

    @property
    def group_array(self) -> str:
        """The array that the nodes of its groups are in: one for each size of groups."""
        size = f"{self.group_cores}" if self.group_cores else f"{self.group_nodes}i"
        return f"{self.name}:{size}"

    @property
    def has_groups(self) -> bool:
        """Whether it says something of groups, if only that there are none."""
        return bool(self.group_cores or self.group_nodes)

    @property
    def dynamic_arrays(self) -> tuple[str, ...]:
        """The arrays that are there because it lists them."""
        own = (self.name,) if self.is_dynamic else ()
        return (*own, self.group_array) if self.has_groups else own

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays of which it says how much is wanted."""
        own = (self.name,) if self.has_target or self.is_dynamic else ()
        return (*own, self.group_array) if self.has_groups else own


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with others over them, also inside of maps."""
    made = dict(below)
    for key, value in above.items():
        under = made.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            made[key] = merged(under, value)
        else:
            made[key] = value
    return made


def read_arrays(arrays: Any) -> tuple[ArrayRequest, ...]:
    """What a list of nodearray definitions asks for.

    RequestError, which names the definition and the key, when there is a mistake in one.
    """
    if not isinstance(arrays, list | tuple):
        raise RequestError(f"expected a list of nodearray definitions, found {arrays!r}")
    requests: dict[object, ArrayRequest] = {}
    with_target: set[str] = set()
    for index, definition in enumerate(arrays):
        request = _read(definition, f"arrays[{index}]")
        key = (request.name, request.group_nodes, request.group_cores)
        if key in requests:
            raise RequestError(
                f"arrays[{index}]: expected each Name once for each size of groups,"
                f" found {request.name!r} again"
            )
        has_target = any(definition.get(target) for target in _TARGETS)
        if has_target and request.name in with_target:
            raise RequestError(
                f"arrays[{index}]: expected TargetCount or TargetCoreCount once for each Name,"
                f" found another one of {request.name!r}"
            )
        if has_target:
            with_target.add(request.name)
        requests[key] = request
    return tuple(requests.values())


def check_attributes(definition: Mapping[str, Any]) -> None:
    """RequestError for attributes by which no pass could read the nodes, or by which they would be
    of another array than the one that they are started for."""
    where = f"nodearray {definition['Name']}"
    try:
        check_of_nodes(definition)
    except ValueError as error:
        raise RequestError(f"{where}: {error}") from None
    configuration = definition.get("Configuration") or {}
    if MARK in (configuration.get("autoscale") or {}):
        raise RequestError(
            f"{where}: Configuration: autoscale.{MARK} is set by this library and cannot be asked"
            " for"
        )


def check_arrays(
    requests: Sequence[ArrayRequest],
    cluster: str,
    status: ClusterStatus,
    dynamic: Iterable[str] = (),
) -> None:
    """RequestError when the cluster has no such nodearray, that no such machine type, a dynamic
    array has the name of a nodearray, or a group is larger than a placement group may be.

    `dynamic`: names of dynamic arrays that others have listed.
    """
    buckets = {array.name: list(array.buckets) for array in status.nodearrays}
    sizes = {
        name: [b.definition.machine_type for b in held if b.definition]
        for name, held in buckets.items()
    }
    taken = {name.lower() for name in sizes}
    for request in requests:
        where = f"nodearray {request.name}"
        if request.cluster_name not in (None, cluster):
            raise RequestError(
                f"{where}: ClusterName: expected {cluster!r}, found {request.cluster_name!r}"
            )
        new = request.name if request.is_dynamic else request.group_array
        if (request.is_dynamic or request.groups) and new.lower() in taken:
            raise RequestError(
                f"{where}: expected a new name for a dynamic array, found {new!r}, which is a"
                f" nodearray of cluster {cluster}"
            )
        if request.base not in sizes:
            names = ", ".join(sizes) or "none"
            key = f"{where}: Extends" if request.is_dynamic else "Name"
            own = (r.name for r in requests if r.is_dynamic and r.name != request.name)
            hint = did_you_mean(request.base, [*sizes, *dynamic, *own])
            raise RequestError(
                f"{key}: expected a nodearray of cluster {cluster} ({names}),"
                f" found {request.base!r}{hint}"
            )
        known = [size for size in sizes[request.base] if size]
        for size in request.machine_types:
            if size.lower() not in map(str.lower, known):
                raise RequestError(
                    f"{where}: MachineType: expected one of {', '.join(known)},"
                    f" found {size!r}{did_you_mean(size, known)}"
                )
        if request.groups:
            _check_group(request, where, buckets[request.base])


def _check_group(
    request: ArrayRequest, where: str, buckets: Iterable[NodearrayBucketStatus]
) -> None:
    """RequestError when there is no machine type of which a placement group can be large enough."""
    said: dict[str, None] = {}
    wanted = [size.lower() for size in request.machine_types]
    for bucket in buckets:
        size = (bucket.definition and bucket.definition.machine_type) or ""
        cores = bucket.virtual_machine.vcpu_count if bucket.virtual_machine else 0
        most = bucket.max_placement_group_size
        if not cores or most is None or (wanted and size.lower() not in wanted):
            continue
        needed = request.group_nodes or -(-request.group_cores // cores)
        if needed <= most:
            return
        said[f"{needed} of {size}, where {most} may be in a placement group"] = None
    if said:
        raise RequestError(f"{where}: a group is too large: it has {'; '.join(said)}")


def _read(definition: Any, where: str) -> ArrayRequest:
    if not isinstance(definition, Mapping):
        raise RequestError(f"{where}: expected a nodearray definition, found {definition!r}")
    name = definition.get("Name")
    _check_keys(definition, where)
    if not isinstance(name, str) or not name.strip():
        raise RequestError(f"{where}: Name: expected the name of a nodearray, found {name!r}")
    where = f"{where} ({name})"
    nodes, cores = (_count(definition, key, where) for key in _TARGETS)
    if nodes is not None and cores is not None:
        raise RequestError(f"{where}: expected TargetCount or TargetCoreCount, found both")
    groups, group_nodes, group_cores = (_count(definition, key, where) or 0 for key in _GROUPS)
    if groups > MOST_GROUPS:
        raise RequestError(
            f"{where}: TargetGroupCount: expected {MOST_GROUPS} at most, found {groups}"
        )
    if group_nodes and group_cores:
        raise RequestError(f"{where}: expected GroupCoreCount or GroupInstanceCount, found both")
    if groups and not (group_nodes or group_cores):
        raise RequestError(f"{where}: TargetGroupCount: expected GroupCoreCount of 1 or more too")
    if (group_nodes or group_cores) and definition.get("TargetGroupCount") is None:
        raise RequestError(f"{where}: expected TargetGroupCount beside the size of a group")
    attributes = {key: value for key, value in definition.items() if key not in _OWN_KEYS}
    try:
        json.dumps(attributes, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{where}: expected attributes that are JSON: {error}") from None
    cluster_name = definition.get("ClusterName")
    if not (cluster_name is None or isinstance(cluster_name, str)):
        raise RequestError(f"{where}: ClusterName: expected a text, found {cluster_name!r}")
    return ArrayRequest(
        name,
        nodes or 0,
        cores or 0,
        groups,
        group_nodes,
        group_cores,
        _machine_types(definition.get("MachineType"), where),
        attributes,
        cluster_name,
        _is_dynamic(definition, name, where),
        _extends(definition.get("Extends"), where),
        has_target=not (group_nodes or group_cores) or not (nodes is cores is None),
        includes_jobs=_flag(definition, "IncludesJobs", where),
    )


def _flag(definition: Mapping[str, Any], key: str, where: str) -> bool:
    value = definition.get(key)
    if not (value is None or isinstance(value, bool)):
        raise RequestError(f"{where}: {key}: expected true or false, found {value!r}")
    return bool(value)


def _is_dynamic(definition: Mapping[str, Any], name: str, where: str) -> bool:
    dynamic = _flag(definition, "Dynamic", where)
    if dynamic and (len(name) > _LONGEST_NAME or not name.isprintable()):
        raise RequestError(
            f"{where}: Name: expected at most {_LONGEST_NAME} printable characters for a dynamic"
            f" array, found {len(name)}"
        )
    return dynamic


def _extends(value: Any, where: str) -> tuple[str, ...]:
    """One name, or a list of names."""
    names = [] if value is None else [value] if isinstance(value, str) else value
    if not (isinstance(names, list | tuple) and all(isinstance(n, str) and n for n in names)):
        raise RequestError(f"{where}: Extends: expected the name of a nodearray, found {value!r}")
    return tuple(names)


def _check_keys(definition: Mapping[Any, Any], where: str) -> None:
    """RequestError for keys that are not supported, cannot be set, or look like a typo."""
    for key in definition:
        if not isinstance(key, str) or not key:
            raise RequestError(f"{where}: expected keys that are texts, found {key!r}")
        if key in _FACTS:
            raise RequestError(f"{where}: {key} is set by CycleCloud and cannot be asked for")
        if key not in (*_OWN_KEYS, *_COMMON):
            hint = _typo(key)
            if hint:
                raise RequestError(f"{where}: unknown key {key!r}{hint}")


def _typo(key: str) -> str:
    """The known key that an unknown one is likely to stand for; empty when there is none."""
    by_lower = {known.lower(): known for known in (*_OWN_KEYS, *_COMMON)}
    said = did_you_mean(key.lower(), by_lower)
    for lower, known in by_lower.items():
        if f"{lower!r}" in said and abs(len(known) - len(key)) <= 2:
            return said.replace(f"{lower!r}", f"{known!r}")
    return ""


def _count(definition: Mapping[str, Any], key: str, where: str) -> int | None:
    value = definition.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RequestError(f"{where}: {key}: expected a whole number of 0 or more, found {value!r}")
    return value


def _machine_types(value: Any, where: str) -> tuple[str, ...]:
    """One name, names separated by commas, or a list of names."""
    if value is None:
        return ()
    names = value.split(",") if isinstance(value, str) else value
    fits = isinstance(names, Sequence) and all(isinstance(n, str) and n.strip() for n in names)
    if not fits or not names:
        raise RequestError(
            f"{where}: MachineType: expected a machine type or a list of them, found {value!r}"
        )
    return tuple(dict.fromkeys(name.strip() for name in names))
