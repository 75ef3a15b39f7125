"""Reading a JSON file as a `Description`, with one clear line for the first mistake in it.

The form of the file is documented in the package itself. Everything is checked here, before
anything runs: typos in keys, VM sizes and regions that do not exist, quotas that nothing uses,
templates with unknown placeholders.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.node.vm_sizes import (
    AuxVMSizeInfo,
    all_possible_locations,
    get_aux_vm_size_info,
    quota_family,
    suggest_vm_size,
)
from hpc.autoscale.simulator.attributes import MANAGED
from hpc.autoscale.simulator.description import (
    DEFAULT_CLUSTER_NODES,
    DEFAULT_SCALESET_SIZE,
    UNLIMITED_CORES,
    ClusterDescription,
    Description,
    Lifecycle,
    MachineTemplate,
    MachineType,
    Nodearray,
    Region,
)
from hpc.autoscale.simulator.errors import DescriptionError
from hpc.autoscale.simulator.faults import read_faults
from hpc.autoscale.simulator.reading import Section, read_json_file
from hpc.autoscale.simulator.templating import PLACEHOLDERS, placeholders

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# as somebody types it into a form
_CLUSTER_NAME = re.compile(rf"{_NAME.pattern}(?: +[A-Za-z0-9_.-]+)*")

_INVALID_REASONS = ["NotActivated", "DisabledMachineType"]
_SCORES = ["High", "Medium", "Low"]

_TOP_KEYS = ["clusters", "regions", "lifecycle", "faults"]
_CLUSTER_KEYS = [
    "max_count",
    "max_core_count",
    "region",
    "subnet_id",
    "lifecycle",
    "nodearrays",
    "nodes",
]
_REGION_KEYS = [item.name for item in fields(Region) if item.name != "name"]
_LIFECYCLE_KEYS = [item.name for item in fields(Lifecycle)]
_NODEARRAY_KEYS = [item.name for item in fields(Nodearray) if item.name not in ("name", "is_array")]
_NODE_KEYS = [
    "machine_type",
    "region",
    "subnet_id",
    "hostnames",
    "attributes",
    "lifecycle",
    "machine",
]
_MACHINE_TYPE_KEYS = [item.name for item in fields(MachineType) if item.name != "quota_vcpus"]
_MACHINE_KEYS = [item.name for item in fields(MachineTemplate)]


def load_description(source: str | Path | Mapping[str, Any]) -> Description:
    """The description in a JSON file, or in a mapping of the same form. Raises DescriptionError."""
    if isinstance(source, Mapping):
        return describe(source)
    value = read_json_file(source)
    try:
        return describe(value)
    except DescriptionError as error:
        raise DescriptionError(f"{source}: {error}") from None


def describe(value: object) -> Description:
    """The description in decoded JSON. Raises DescriptionError for the first thing that is
    wrong."""
    top = Section(value, "", _TOP_KEYS)
    lifecycle = _lifecycle(top, Lifecycle())
    clusters = {
        name: _cluster(name, section, lifecycle)
        for name, section in top.sections("clusters", _CLUSTER_KEYS)
    }
    if not clusters:
        raise top.fail("clusters", "at least one cluster", top.raw("clusters"))
    _check_names(clusters, "clusters", _CLUSTER_NAME, "'-', '_', '.' and spaces inside")
    regions = {
        name: _region(name, section) for name, section in top.sections("regions", _REGION_KEYS)
    }
    arrays = [
        array
        for cluster in clusters.values()
        for array in (*cluster.nodearrays.values(), *cluster.nodes.values())
    ]
    _check_regions(regions, arrays)
    used = sorted({array.region for array in arrays})
    return Description(
        clusters,
        {name: regions.get(name, Region(name)) for name in used},
        read_faults(top.values("faults"), "faults", clusters),
    )


def _check_names(
    names: Iterable[str],
    path: str,
    pattern: re.Pattern[str] = _NAME,
    others: str = "'-', '_' and '.'",
) -> None:
    """Raise DescriptionError for names that cannot be part of URLs and host names.

    Two names that differ only in case would be one host.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not pattern.fullmatch(name):
            raise DescriptionError(
                f"{path}: expected names of letters, digits, {others}, found {name!r}"
            )
        earlier = seen.setdefault(name.lower(), name)
        if earlier != name:
            raise DescriptionError(f"{path}.{name}: this name is taken by {earlier!r}")


def _region(name: str, section: Section) -> Region:
    numbers = {
        f.name: section.whole(f.name, getattr(Region, f.name))
        for f in fields(Region)
        if f.type is int
    }
    return Region(
        name,
        family_quotas=section.wholes("family_quotas"),
        capacity=section.wholes("capacity"),
        **numbers,
    )


def _check_regions(regions: Mapping[str, Region], arrays: list[Nodearray]) -> None:
    """Raise DescriptionError for regions, families and sizes that no nodearray uses.

    They are typos: their quotas would silently never apply.
    """
    for region in regions.values():
        path = f"regions.{region.name}"
        _check_used(region.name, (array.region for array in arrays), path)
        types = [t for a in arrays if a.region == region.name for t in a.machine_types.values()]
        for family in region.family_quotas:
            _check_used(family, (t.family for t in types), f"{path}.family_quotas.{family}")
        for size in region.capacity:
            _check_used(size, (t.name for t in types), f"{path}.capacity.{size}")


def _check_used(name: str, used: Iterable[str], path: str) -> None:
    by_case = {word.lower(): word for word in used}
    if name.lower() not in by_case:
        close = get_close_matches(name.lower(), by_case, n=1)
        guess = f"; did you mean {by_case[close[0]]!r}?" if close else ""
        known = ", ".join(sorted(by_case.values()))
        raise DescriptionError(f"{path}: no nodearray uses this (used are: {known}){guess}")


def _cluster(name: str, section: Section, defaults: Lifecycle) -> ClusterDescription:
    lifecycle = _lifecycle(section, defaults)
    max_count = section.whole("max_count", DEFAULT_CLUSTER_NODES)
    max_core_count = section.whole("max_core_count", UNLIMITED_CORES)
    nodearrays = {
        array: _nodearray(array, part, section, lifecycle)
        for array, part in section.sections("nodearrays", _NODEARRAY_KEYS)
    }
    if not nodearrays:
        raise section.fail("nodearrays", "at least one nodearray", section.raw("nodearrays"))
    _check_names(nodearrays, section.at("nodearrays"))
    nodes = {
        node: _node(node, part, section, lifecycle)
        for node, part in section.sections("nodes", _NODE_KEYS)
    }
    _check_names([*nodearrays, *nodes], section.at("nodes"))
    for node in nodes:
        if node in nodearrays:
            raise DescriptionError(
                f"{section.at('nodes')}.{node}: this name is that of a nodearray"
            )
    return ClusterDescription(name, max_count, max_core_count, nodearrays, nodes)


def _node(name: str, section: Section, cluster: Section, defaults: Lifecycle) -> Nodearray:
    """A node outside of nodearrays; `cluster` is the section around it."""
    region = section.maybe_text("region") or cluster.text("region")
    subnet = cluster.text("subnet_id", f"simulated/{region}/default")
    value = section.raw("machine_type")
    entry = {"name": value} if isinstance(value, str) else value
    path = section.at("machine_type")
    if entry is None:
        raise section.fail("machine_type", "a VM size", None)
    size = _machine_type(Section(entry, path, _MACHINE_TYPE_KEYS), region)
    return Nodearray(
        name,
        region=region,
        subnet_id=section.text("subnet_id", subnet),
        machine_types={size.name.lower(): size},
        max_count=1,
        max_core_count=UNLIMITED_CORES,
        hostnames=section.choice("hostnames", ["name", "address"], "name"),
        attributes=_attributes(section),
        lifecycle=_lifecycle(section, defaults),
        machine=_machine(section),
        is_array=False,
    )


def _nodearray(name: str, section: Section, cluster: Section, defaults: Lifecycle) -> Nodearray:
    """A nodearray; `cluster` is the section around it.

    Region, subnet and limits of the cluster hold where the nodearray gives none.
    """
    region = section.maybe_text("region") or cluster.text("region")
    subnet = cluster.text("subnet_id", f"simulated/{region}/default")
    return Nodearray(
        name,
        region=region,
        subnet_id=section.text("subnet_id", subnet),
        machine_types=_machine_types(section, region),
        max_count=section.whole("max_count", cluster.whole("max_count", DEFAULT_CLUSTER_NODES)),
        max_core_count=section.whole(
            "max_core_count", cluster.whole("max_core_count", UNLIMITED_CORES)
        ),
        spot=section.flag("spot"),
        max_placement_group_size=section.whole(
            "max_placement_group_size", DEFAULT_SCALESET_SIZE, least=1
        ),
        placement_groups=section.texts("placement_groups"),
        priority=section.maybe_whole("priority"),
        throttle_capacity=section.flag("throttle_capacity"),
        throttle_capacity_time=section.number("throttle_capacity_time", 300.0),
        hostnames=section.choice("hostnames", ["name", "address"], "name"),
        attributes=_attributes(section),
        lifecycle=_lifecycle(section, defaults),
        machine=_machine(section),
    )


def _attributes(section: Section) -> Mapping[str, Any]:
    attributes = section.mapping("attributes")
    for key in attributes:
        if key.lower() in MANAGED:
            raise DescriptionError(
                f"{section.at('attributes')}.{key}: this attribute is set by the simulator itself"
            )
    return attributes


def _lifecycle(section: Section, defaults: Lifecycle) -> Lifecycle:
    """The durations and rates of a section; those that it does not give are as in `defaults`."""
    given = section.section("lifecycle", _LIFECYCLE_KEYS)
    parts = ("jitter", "boot_failure_rate")
    changes: dict[str, Any] = {
        key: given.number(key, most=1.0) if key in parts else given.number(key)
        for key in _LIFECYCLE_KEYS
        if given.has(key)
    }
    return replace(defaults, **changes)


def _machine_types(section: Section, region: str) -> Mapping[str, MachineType]:
    values = section.values("machine_types")
    if not values:
        expected = "a list of VM sizes that is not empty (without one a nodearray has no buckets)"
        raise section.fail("machine_types", expected, section.raw("machine_types"))
    found: dict[str, MachineType] = {}
    for index, value in enumerate(values):
        path = f"{section.at('machine_types')}[{index}]"
        entry = {"name": value} if isinstance(value, str) else value
        machine_type = _machine_type(Section(entry, path, _MACHINE_TYPE_KEYS), region)
        if machine_type.name.lower() in found:
            raise DescriptionError(f"{path}: {machine_type.name} is listed twice")
        found[machine_type.name.lower()] = machine_type
    return found


def _machine_type(section: Section, region: str) -> MachineType:
    """A VM size as the catalogue knows it, or with the numbers that the section gives."""
    name = section.text("name")
    known = get_aux_vm_size_info(ht.Location(region), ht.VMSize(name))
    if known.vcpu_count < 0 and not (section.has("vcpus") and section.has("memory_gb")):
        raise _unknown_size(section, name, region)
    vcpus = section.whole("vcpus", known.vcpu_count, least=1)
    pcpus = known.pcpu_count if known.pcpu_count > 0 else vcpus
    return MachineType(
        name,
        family=section.text("family", quota_family(ht.Location(region), ht.VMSize(name))),
        vcpus=vcpus,
        pcpus=section.whole("pcpus", min(pcpus, vcpus), least=1),
        gpus=section.whole("gpus", known.gpu_count),
        memory_gb=section.number("memory_gb", float(known.memory.convert_to("g").value)),
        infiniband=section.flag("infiniband", known.infiniband),
        quota_vcpus=vcpus if section.has("vcpus") else _charged_vcpus(known),
        max_count=section.maybe_whole("max_count"),
        invalid_reason=section.choice("invalid_reason", _INVALID_REASONS, ""),
        spot_placement_score=section.choice("spot_placement_score", _SCORES, ""),
    )


def _unknown_size(section: Section, name: str, region: str) -> Exception:
    meant = suggest_vm_size(name)
    if meant == name:
        hint = did_you_mean(region, all_possible_locations())
        return DescriptionError(
            f"{section.path}: expected a known region, found {region!r} (needed for {name}){hint}"
        )
    hint = f"; did you mean {meant!r}?" if meant else ""
    return section.fail("name", "a known VM size, or `vcpus` and `memory_gb` with it", name, hint)


def _charged_vcpus(known: AuxVMSizeInfo) -> int:
    """The vCPUs that Azure charges: a constrained size is charged with all those of its parent."""
    charged = known.get("vCPUs")
    return max(known.vcpu_count, charged) if isinstance(charged, int) else known.vcpu_count


def _machine(section: Section) -> MachineTemplate | None:
    if not section.has("machine"):
        return None
    machine = section.section("machine", _MACHINE_KEYS)
    command = machine.texts("command")
    if not command:
        raise machine.fail("command", "a list of arguments", machine.raw("command"))
    env = machine.mapping("env")
    template = MachineTemplate(
        command=command,
        env={name: Section(env, machine.at("env"), list(env)).any_text(name) for name in env},
        ready_file=machine.maybe_text("ready_file"),
        ready_command=machine.texts("ready_command"),
        grace=machine.number("grace", 10.0),
        on_exit=machine.choice("on_exit", ["fail", "restart"], "fail"),
        restart_delay=machine.number("restart_delay", 1.0),
    )
    texts = [*command, *template.ready_command, template.ready_file or "", *template.env.values()]
    for text in texts:
        for name in placeholders(text):
            if name not in PLACEHOLDERS:
                hint = did_you_mean(name, PLACEHOLDERS) or f" (known: {', '.join(PLACEHOLDERS)})"
                raise DescriptionError(f"{machine.path}: unknown placeholder {{{name}}}{hint}")
    return template
