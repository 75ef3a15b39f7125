"""Questions about VM sizes: what one size is, which there are, which one was probably meant.

These are the published look-ups of `hpc.autoscale.node.vm_sizes`. They answer from the table in
`catalogue`. The look-ups never raise: what is not known is reported as unknown. `configure` puts
the `vm_sizes` section of autoscale.json into effect. Whoever builds a node manager from a
configuration calls it once per pass; a file is read again only when it has changed, so that a
daemon picks up an edited file and a pass costs nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from os import PathLike
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import ConfigurationException, is_number
from hpc.autoscale.node.vm_sizes.catalogue import NOTHING, VM_SIZES, SizeTable
from hpc.autoscale.node.vm_sizes.overrides import read_override
from hpc.autoscale.node.vm_sizes.prices import PRICES, PriceList, use_price_override
from hpc.autoscale.node.vm_sizes.size_formats import UNKNOWN_FAMILY, capability_value
from hpc.autoscale.util import ShellDict


class AuxVMSizeInfo:
    """The facts of one record, as numbers.

    An unknown count is -1 (GPUs 0), unknown memory -1g, an unknown family "unknown". `vcpu_count`
    is what the machine offers, which for constrained sizes is less than its parent has;
    `pcpu_count` is the physical cores behind them; `cores_per_socket` is Azure's number of vCPUs
    per core (its name is historical).
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.__record = record
        raw = record.get("capabilities")
        known: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        self.memory = ht.Memory(_number(known, "MemoryGB", -1), "g")
        self.infiniband: bool = capability_value(known.get("RdmaEnabled")) is True
        self.vm_family = ht.VMFamily(record.get("family") or UNKNOWN_FAMILY)
        available = _count(known, "vCPUsAvailable", 0)
        self.vcpu_count: int = available if available > 0 else _count(known, "vCPUs", -1)
        self.cores_per_socket: int = _count(known, "vCPUsPerCore", -1)
        per_core = self.cores_per_socket if self.vcpu_count >= 0 else 0
        self.pcpu_count: int = self.vcpu_count // per_core if per_core > 0 else self.vcpu_count
        self.gpu_count: int = max(0, _count(known, "GPUs", 0))

    @cached_property
    def capabilities(self) -> ShellDict:
        """Azure's capabilities of the size, as name -> value."""
        return ShellDict(dict(self.__record.get("capabilities") or {}))

    def get(self, key: str, default: Any = None) -> Any:
        """A capability, or else a key of the record; `default` when there is neither."""
        capabilities = self.__record.get("capabilities") or {}
        return capabilities.get(key, self.__record.get(key, default))

    def __repr__(self) -> str:
        return (
            f"AuxVMSizeInfo({self.__record.get('name', UNKNOWN_FAMILY)},"
            f" vcpu_count={self.vcpu_count}, "
            f"pcpu_count={self.pcpu_count}, memory={self.memory!r}, gpu_count={self.gpu_count}, "
            f"infiniband={self.infiniband})"
        )


def _number(known: Mapping[str, Any], key: str, unknown: int) -> float | int:
    value = capability_value(known.get(key))
    return value if is_number(value) else unknown


def _count(known: Mapping[str, Any], key: str, unknown: int) -> int:
    return int(_number(known, key, unknown))


_UNKNOWN = AuxVMSizeInfo({})
_BEGINNING = re.compile(r"^(?:standard|basic)[ _-]*")


def get_aux_vm_size_info(location: ht.Location | None, vm_size: ht.VMSize | None) -> AuxVMSizeInfo:
    """What is known of a size in a location. Never raises.

    Equal questions give the same object, at the cost of a look-up in a dict.
    """
    if isinstance(location, str) and isinstance(vm_size, str):
        return _info(location, vm_size)
    return _UNKNOWN


# bounded, because names come from outside; more than this many different ones are in no cluster
@lru_cache(maxsize=8192)
def _info(location: str, vm_size: str) -> AuxVMSizeInfo:
    record = VM_SIZES.find(location, vm_size)
    return _UNKNOWN if record is None else AuxVMSizeInfo(record)


VM_SIZES.on_change.append(_info.cache_clear)


def quota_family(location: ht.Location, vm_size: ht.VMSize) -> str:
    """The family whose quota a size draws on; where it is unknown, the name of the size."""
    family = get_aux_vm_size_info(location, vm_size).vm_family
    return VM_SIZES.usual_name(vm_size) if family == UNKNOWN_FAMILY else family


def gpu_count(config: Mapping[str, Any], reported: int | None, catalogue: int) -> int:
    """GPUs of a size: the higher of what CycleCloud reports and the catalogue (locked-down
    subscriptions report 0), or, with `"vm_sizes": {"gpu_count": "reported"}`, what is reported
    where that is above 0."""
    if (config.get("vm_sizes") or {}).get("gpu_count") == "reported" and reported:
        return reported
    return max(reported or 0, catalogue, 0)


def _inititialize_impl() -> None:
    """Read the table now instead of at the first question. The misspelling is published."""
    VM_SIZES.load()


def use_override(source: str | PathLike[str] | Mapping[str, Any] | list[Any] | None) -> None:
    """Let the user's facts win over the catalogue's from now on, in this process; None goes back to
    the catalogue.

    `source` is a JSON file or its contents: in the short form of `vm_sizes.json`, as location ->
    size -> record, or as `az vm list-skus` prints it. Raises ConfigurationException, with one line
    on the first thing that is wrong.
    """
    VM_SIZES.use(NOTHING if source is None else read_override(source, VM_SIZES.load()))


def all_possible_vm_sizes() -> list[str]:
    """Every known size, sorted."""
    return sorted(VM_SIZES.size_names())


def all_possible_vm_families() -> list[str]:
    """Every known family, sorted."""
    return sorted(VM_SIZES.families())


def all_possible_locations() -> list[str]:
    """Every location that has sizes of its own, sorted."""
    return list(VM_SIZES)


def suggest_vm_size(name: str) -> str | None:
    """The known size that was probably meant by a name that is none: letter case and a missing
    `Standard_` are overlooked before spelling is. The name itself when it is known; None when
    nothing is close."""
    usual = VM_SIZES.usual_name(name).lower()
    by_case = {known.lower(): known for known in VM_SIZES.size_names()}
    for candidate in (usual, f"standard_{usual}"):
        if candidate in by_case:
            return by_case[candidate]
    from difflib import get_close_matches

    # what they all begin with makes names close to each other, and takes most of the time
    by_end = {_BEGINNING.sub("", lower): known for lower, known in sorted(by_case.items())}
    end = _BEGINNING.sub("", usual)
    for text, among in ((usual, by_case if end == usual else {}), (end, by_end)):
        if close := get_close_matches(text, among, n=1):
            return among[close[0]]
    return None


# -- the `vm_sizes` section of autoscale.json

_TARGETS: Mapping[str, tuple[SizeTable | PriceList, Callable[[Any], None]]] = {
    "override": (VM_SIZES, use_override),
    "prices": (PRICES, use_price_override),
}


def configure(config: Mapping[str, Any]) -> None:
    """Use the files that `vm_sizes.override` and `vm_sizes.prices` of the configuration name.

    The keys may also have the contents of the files. A configuration without these keys undoes what
    an earlier one has set, and leaves alone what was set by calling `use_override` or
    `use_price_override`. Raises ConfigurationException.
    """
    section = config.get("vm_sizes") or {}
    if not isinstance(section, Mapping):
        raise ConfigurationException(f"vm_sizes: expected an object, found {section!r}")
    for key, (table, use) in _TARGETS.items():
        source = section.get(key)
        state = _state_of(source)
        if state != table.configured:
            use(source)
            table.configured = state


def _state_of(source: Any) -> object:
    """A value that differs whenever the source has to be read again."""
    if not isinstance(source, str):
        return source
    path = os.path.abspath(os.path.expanduser(source))
    try:
        status = os.stat(path)
    except OSError:
        return (path, None)
    return (path, status.st_mtime_ns, status.st_size)
