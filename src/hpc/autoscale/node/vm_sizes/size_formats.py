"""The two forms of the record of a VM size, and how the short one becomes the published one.

The short form is a line of `vm_sizes.json` (`{"vcpus": 4, "mem_gib": 8}`). The published form is
Azure's own: name, family, size, tier, location and capabilities. Only the catalogue and the reader
of override files use this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

SizeRecord = dict[str, Any]
Compact = Mapping[str, Any]

UNKNOWN_FAMILY = "unknown"


class CapabilityField(NamedTuple):
    """One key of the short form: the capability that it stands for, the type of its value, a
    factor.

    The capability is the value times the factor.
    """

    capability: str
    kind: type
    factor: int = 1


FIELDS: dict[str, CapabilityField] = {
    "vcpus": CapabilityField("vCPUs", int),
    "vcpus_avail": CapabilityField("vCPUsAvailable", int),
    "per_core": CapabilityField("vCPUsPerCore", int),
    "mem_gib": CapabilityField("MemoryGB", float),
    "gpus": CapabilityField("GPUs", int),
    "gpu": CapabilityField("GPUModel", str),
    "gpu_mem_gib": CapabilityField("GPUMemoryGB", float),
    "gpu_frac": CapabilityField("GPUFraction", float),
    "rdma": CapabilityField("RdmaEnabled", bool),
    "accel_net": CapabilityField("AcceleratedNetworkingEnabled", bool),
    "spot": CapabilityField("LowPriorityCapable", bool),
    "premium_io": CapabilityField("PremiumIO", bool),
    "arch": CapabilityField("CpuArchitectureType", str),
    "temp_gib": CapabilityField("MaxResourceVolumeMB", float, 1024),
    "nvme_gib": CapabilityField("NvmeDiskSizeInMiB", float, 1024),
    "parent": CapabilityField("ParentSize", str),
}
"""Every key of the short form but `family`, which is not a capability."""

_BELOW = {field.capability: False for field in FIELDS.values() if field.kind is bool}


def expand(name: str, location: str, compact: Compact) -> SizeRecord:
    """The published record of a size, made anew for each call.

    Flags that are not given are False, the architecture is x64 unless given, and a number that is
    not given is absent, because it is unknown.
    """
    capabilities: dict[str, Any] = {**_BELOW, "CpuArchitectureType": "x64"}
    for key, field in FIELDS.items():
        value = compact.get(key)
        if value is not None:
            capabilities[field.capability] = value if field.factor == 1 else value * field.factor
    if "vCPUs" in capabilities:
        capabilities.setdefault("vCPUsAvailable", capabilities["vCPUs"])
    return shell(name, location, compact.get("family"), capabilities)


def shell(name: str, location: str, family: str | None, capabilities: dict[str, Any]) -> SizeRecord:
    """A published record with these capabilities; tier and size follow from the name."""
    tier, _, size = name.partition("_")
    return {
        "name": name,
        "family": family or UNKNOWN_FAMILY,
        "size": size or name,
        "tier": tier if size else "",
        "location": location,
        "capabilities": capabilities,
    }


def capability_value(text: Any) -> Any:
    """The value that the text of a capability stands for: a flag, a number, a list or the text.

    Azure's API writes all capabilities as text.
    """
    if not isinstance(text, str):
        return text
    if text in ("True", "False"):
        return text == "True"
    if "," in text:
        return text.split(",")
    return _number(text)


def _number(text: str) -> Any:
    plain = text.replace(".", "", 1)
    if not (plain.isascii() and plain.isdigit()):
        return text
    return float(text) if "." in text else int(text)
