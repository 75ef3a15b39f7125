"""What would be different: settings of a question such as "what if the quota were 512", and the
limits of a cluster as they would be then.

A setting is a key and a value. `quota.NAME`, `nodearray.NAME.…` and `cluster.…` are about what the
server says, `price.SIZE` about the price list, and any other key is one of autoscale.json. Nothing
is asked or decided here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import (
    ClusterNodearrayStatus,
    ClusterStatus,
    NodearrayBucketStatus,
    NodeList,
)
from hpc.autoscale.config.check import check_config, config_schema
from hpc.autoscale.errors import CommandLineError, did_you_mean
from hpc.autoscale.node.vm_sizes import get_aux_vm_size_info
from hpc.autoscale.packing.limits import NO_LIMIT
from hpc.autoscale.plaintext import beginning
from hpc.autoscale.rehearsal.passing_on import PassingBinding

SPOT = "spot"
_OF_CLUSTER = ("max_count", "max_core_count")
_OF_ARRAY = (*_OF_CLUSTER, "enabled")
_KINDS = {
    "quota": "quota.FAMILY or quota.REGION",
    "nodearray": f"nodearray.NAME.KEY, where KEY is one of {', '.join(_OF_ARRAY)}",
    "cluster": f"cluster.KEY, where KEY is one of {', '.join(_OF_CLUSTER)}",
    "price": "price.SIZE",
}
_DEAREST = 1_000_000_000
"""No node costs as many dollars per hour, and sums of larger numbers may be none."""


class SettingError(CommandLineError):
    """A setting that cannot be understood, or that is about something that there is not."""


class Otherwise:
    """The settings of a question, of each key the last. `given`: their values by key, `written`:
    how each was given; `limits`: those that are about what the server says, by key."""

    def __init__(self, settings: Iterable[str]) -> None:
        self.limits: dict[str, int | bool] = {}
        self._keys: dict[str, Any] = {}
        self._prices: dict[str, float] = {}
        self.given: dict[str, Any] = {}
        self.written: dict[str, str] = {}
        for setting in settings:
            self._read(setting)

    def config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration as it would be. SettingError for a key that nobody knows,
        ConfigurationException for a value that makes no sense."""
        known = config_schema()["properties"]
        changed = {k: v if k.startswith("_") else copy.deepcopy(v) for k, v in config.items()}
        for key, value in self._keys.items():
            steps = key.split(".")
            _check_key(key, steps, config, known)
            _put(changed, steps, value, key)
        if self._prices:
            section = changed.setdefault("vm_sizes", {})
            prices = section.setdefault("prices", {})
            if not isinstance(prices, dict):
                raise SettingError(
                    "--set price: vm_sizes.prices names a file, and cannot be added to"
                )
            for size, dollars in self._prices.items():
                for each in [place for place in prices.values() if isinstance(place, dict)]:
                    each.pop(size, None)
                prices.setdefault("*", {})[size] = dollars
        check_config({key: value for key, value in changed.items() if not key.startswith("_")})
        return changed

    def binding(
        self, new_binding: Callable[[Mapping[str, Any]], ClusterBindingInterface]
    ) -> Callable[[Mapping[str, Any]], ClusterBindingInterface]:
        """What makes a binding with the limits as they would be, of what makes the other one."""
        return lambda config: OtherLimits(new_binding(config), self.limits, tuple(self._prices))

    def _read(self, setting: str) -> None:
        key, equals, text = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise SettingError(f"--set, --case: expected KEY=VALUE, found {setting!r}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # nested too deeply
            value = text
        kind, _, rest = key.partition(".")
        self.given[key], self.written[key] = value, setting
        if kind == "price" and rest:
            self._prices[rest] = _dollars(key, value)
        elif kind in ("quota", "nodearray", "cluster") and rest:
            self.limits[key] = _limit(key, value)
        else:
            self._keys[key] = value


def _check_key(
    key: str, steps: Sequence[str], config: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    """SettingError for a key, or a key of a section, that nobody knows."""
    first = steps[0]
    if first in _KINDS and first not in config:
        raise SettingError(f"--set {key}: expected {_KINDS[first]}, found {key!r}")
    if first not in known and first not in config:
        kinds = ", ".join(f"{kind}.…" for kind in _KINDS)
        guess = did_you_mean(first, [*known, *_KINDS])
        raise SettingError(
            f"--set {key}: expected a key of autoscale.json, or {kinds}, found {first!r}{guess}"
        )
    in_section = (known.get(first) or {}).get("properties") or {}
    own = config.get(first)
    mine = own if isinstance(own, Mapping) else {}
    if len(steps) > 1 and in_section and steps[1] not in in_section and steps[1] not in mine:
        raise SettingError(
            f"--set {key}: expected a key of the section {first}, found"
            f" {steps[1]!r}{did_you_mean(steps[1], in_section)}"
        )


def _put(config: dict[str, Any], steps: Sequence[str], value: Any, key: str) -> None:
    section: Any = config
    for number, step in enumerate(steps[:-1]):
        if not isinstance(section.setdefault(step, {}), dict):
            where = ".".join(steps[: number + 1])
            raise SettingError(f"--set {key}: {where} is {section[step]!r}, and has no keys")
        section = section[step]
    section[steps[-1]] = value


def _dollars(key: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= _DEAREST:
        most = f", {_DEAREST:,} at most" if is_number and value > 0 else ""
        raise SettingError(
            f"--set {key}: expected dollars per hour above 0{most}, found {_shown(value)}"
        )
    return float(value)


def _shown(value: Any) -> str:
    """A value as somebody has typed it, and no more of it than can be read."""
    return beginning(repr(value) if isinstance(value, str) else json.dumps(value))


def _limit(key: str, value: Any) -> int | bool:
    """The value of a limit. SettingError for one that makes no sense, and before that for a limit
    that neither nodearrays nor clusters have; quotas have names that only the cluster knows."""
    kind, _, rest = key.partition(".")
    what = ""
    if kind == "nodearray" and "." not in rest:
        raise SettingError(f"--set {key}: expected {_KINDS[kind]}, found {key!r}")
    if kind == "nodearray":
        what = _known(key, rest.rpartition(".")[2], _OF_ARRAY)
    elif kind == "cluster":
        _known(key, rest, _OF_CLUSTER)
    if what == "enabled":
        if not isinstance(value, bool):
            raise SettingError(f"--set {key}: expected false, found {_shown(value)}")
        if value:
            raise SettingError(
                f"--set {key}: expected false, found true: the cluster does not say what limits"
                " there would be where autoscale.enabled is false"
            )
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SettingError(
            f"--set {key}: expected a whole number, 0 or more, found {_shown(value)}"
        )
    return value


class OtherLimits(PassingBinding):
    """A binding whose status has the limits that are given.

    SettingError, when the status is read, for a limit of something that the cluster has not, and
    for one of the VM sizes that are `priced`.
    """

    def __init__(
        self,
        inner: ClusterBindingInterface,
        limits: Mapping[str, int | bool],
        priced: Sequence[str] = (),
    ) -> None:
        super().__init__(inner)
        self._limits = limits
        self._priced = priced

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name != "as_read":
            return found

        def as_read() -> tuple[ClusterStatus, NodeList]:
            status, listing = found()
            return self._changed(status), listing

        return as_read

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The status with other limits."""
        return self._changed(ClusterStatus.adopt(super().get_cluster_status(nodes)))

    def _changed(self, status: ClusterStatus) -> ClusterStatus:
        if self._priced:
            sizes = _sizes_of(status)
            for size in self._priced:
                _known(f"price.{size}", size, sizes)
        if not self._limits:
            return status
        before, after = status, copy.deepcopy(status)
        for key, value in self._limits.items():
            _change(after, key, value)
        statuses = [(before, after)]
        parts = getattr(after, "parts", None) or {}
        known = getattr(before, "parts", None) or {}
        statuses += [(known[name], part) for name, part in parts.items()]
        for old, new in statuses:
            for was, array in zip(old.nodearrays or (), new.nodearrays or (), strict=True):
                for had, bucket in zip(was.buckets or (), array.buckets or (), strict=True):
                    _let_follow((old, was, had), (new, array, bucket))
        return after


_Place = tuple[ClusterStatus, ClusterNodearrayStatus, NodearrayBucketStatus]


def _change(status: ClusterStatus, key: str, value: int | bool) -> None:
    kind, _, rest = key.partition(".")
    if kind == "cluster":
        rest = _known(key, rest, _OF_CLUSTER)
        for each in (status, *(getattr(status, "parts", None) or {}).values()):
            setattr(each, rest, value)
    elif kind == "nodearray":
        name, _, what = rest.rpartition(".")
        what = _known(key, what, _OF_ARRAY)
        arrays = {array.name: array for array in status.nodearrays or ()}
        array = arrays[_known(key, name, arrays)]
        if what == "enabled":
            _disable(array)
        else:
            setattr(array, what, value)
    else:
        _change_quota(status, key, rest, int(value))


def _disable(array: ClusterNodearrayStatus) -> None:
    """Let its record say what that of a nodearray with autoscale.enabled=false says."""
    section: dict[str, Any] = array.nodearray
    for key in ("Configuration", "autoscale"):
        if not isinstance(section.get(key), dict):
            section[key] = {}
        section = section[key]
    section["enabled"] = False


def _sizes_of(status: ClusterStatus) -> list[str]:
    """The VM sizes of a cluster."""
    buckets = (bucket for array in status.nodearrays or () for bucket in array.buckets or ())
    definitions = [bucket.definition for bucket in buckets if bucket.definition]
    return list(dict.fromkeys(each.machine_type for each in definitions))


def _known(key: str, name: str, names: Iterable[str]) -> str:
    """The name, in the spelling that is known. SettingError when there is none."""
    listed = list(names)
    for each in listed:
        if each.lower() == name.lower():
            return each
    shown = ", ".join(listed[:8]) + (" …" if len(listed) > 8 else "")
    raise SettingError(
        f"--set {key}: expected one of {shown}, found {name!r}{did_you_mean(name, listed)}"
    )


def _change_quota(status: ClusterStatus, key: str, name: str, cores: int) -> None:
    quotas: dict[str, list[tuple[NodearrayBucketStatus, str]]] = {}
    for array in status.nodearrays or ():
        for bucket in array.buckets or ():
            for quota, field in _quotas_of(array, bucket):
                quotas.setdefault(quota, []).append((bucket, field))
    for bucket, field in quotas[_known(key, name, quotas)]:
        was = getattr(bucket, f"{field}_quota_core_count")
        if bucket.quota_core_count == was or bucket.quota_core_count > cores:
            bucket.quota_core_count = cores
            bucket.quota_count = cores // _quota_cores(bucket)
        setattr(bucket, f"{field}_quota_core_count", cores)
        setattr(bucket, f"{field}_quota_count", cores // _quota_cores(bucket))


def _quotas_of(
    array: ClusterNodearrayStatus, bucket: NodearrayBucketStatus
) -> Iterator[tuple[str, str]]:
    """The names of the quotas that a bucket is under, each with what its fields begin with."""
    record = array.nodearray or {}
    region = str(record.get("Region") or "")
    if record.get("Interruptible"):
        yield f"{SPOT}.{region}", "regional"
        return
    yield region, "regional"
    if bucket.definition is not None:
        size = ht.VMSize(bucket.definition.machine_type)
        yield get_aux_vm_size_info(ht.Location(region), size).vm_family, "family"


def _quota_cores(bucket: NodearrayBucketStatus) -> int:
    machine = bucket.virtual_machine
    return max(1, machine.vcpu_quota_count or machine.vcpu_count)


def _let_follow(old: _Place, new: _Place) -> None:
    """Let what the server works out of limits follow them: how many nodes there may be in a bucket,
    and in a group of it, and how many more. Where the server said less than its limits allow, that
    stands."""
    bucket, had = new[2], old[2]
    cores = max(1, bucket.virtual_machine.vcpu_count)
    most = _followed(had.max_count, _places(*old), _places(*new))
    groups = [min(count, _scaleset_size(old[1])) for count in (had.max_count, most)]
    bucket.max_count, bucket.max_core_count = most, most * cores
    size = _followed(had.max_placement_group_size, *groups)
    bucket.max_placement_group_size, bucket.max_placement_group_core_size = size, size * cores
    room = _followed(had.available_count, _room(*old), _room(*new))
    bucket.available_count, bucket.available_core_count = room, room * cores


def _followed(said: int, before: int, after: int) -> int:
    return max(0, after if said >= before else min(said, after))


def _scaleset_size(array: ClusterNodearrayStatus) -> int:
    """How many nodes a placement group may have, whatever the maxima are."""
    azure = (array.nodearray or {}).get("Azure")
    size = azure.get("MaxScalesetSize") if isinstance(azure, Mapping) else None
    return size if isinstance(size, int) and not isinstance(size, bool) else NO_LIMIT


def _places(
    status: ClusterStatus, array: ClusterNodearrayStatus, bucket: NodearrayBucketStatus
) -> int:
    """How many nodes there may be in all."""
    cores = max(1, bucket.virtual_machine.vcpu_count)
    return min(
        *(status.max_count, status.max_core_count // cores),
        *(array.max_count, array.max_core_count // cores),
    )


def _room(
    status: ClusterStatus, array: ClusterNodearrayStatus, bucket: NodearrayBucketStatus
) -> int:
    """How many more there may be."""
    cores, quota_cores = max(1, bucket.virtual_machine.vcpu_count), _quota_cores(bucket)
    arrays = status.nodearrays or ()
    used = [(_active(each, "active_count"), _active(each, "active_core_count")) for each in arrays]
    all_nodes, all_cores = (sum(each) for each in zip(*used, strict=True))
    rooms: list[int] = [
        bucket.max_count - bucket.active_count,
        status.max_count - all_nodes,
        (status.max_core_count - all_cores) // cores,
        array.max_count - _active(array, "active_count"),
        (array.max_core_count - _active(array, "active_core_count")) // cores,
    ]
    for _, field in _quotas_of(array, bucket):
        quota = getattr(bucket, f"{field}_quota_core_count")
        if quota is not None:
            taken = getattr(bucket, f"{field}_consumed_core_count") or 0
            rooms.append((quota - taken) // quota_cores)
    return min(rooms)


def _active(array: ClusterNodearrayStatus, field: str) -> int:
    return sum(int(getattr(bucket, field) or 0) for bucket in array.buckets or ())
