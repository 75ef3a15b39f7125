"""Names in a configuration: nodearrays, which can be checked only when the cluster has been read,
and placement groups, which can be checked before.

A misspelt nodearray has no effect and raises no error; but a file may be shared by clusters that
differ, so it is a doubt and no error. The node manager asks; the command line tells people. What is
no name of a placement group is an error, wherever a user, a configuration or an integration gives
it; names that the cluster itself reports are not checked: they exist. Nodes may be
of a nodearray that it has no more.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.config.clusters import cluster_named
from hpc.autoscale.errors import AutoscaleError, ConfigurationException, counted, did_you_mean

_BY_NODEARRAY = ("idle_timeout", "boot_timeout", "nodearrays")

NODEARRAYS = ("node.nodearray", "nodearray")
"""What constraints call the nodearray of a node."""

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_EXPECTED = "expected letters, digits, _ and - in a placement group"


def unknown_nodearrays(
    config: Mapping[str, Any], known: Collection[str], unread: Collection[str] = ()
) -> list[str]:
    """A sentence on each nodearray that the configuration names and the cluster does not have.
    `unread`: those of several clusters of which nobody knows what they have."""
    named: list[tuple[str, str]] = []
    for key in _BY_NODEARRAY:
        section = config.get(key)
        if isinstance(section, Mapping):
            own = (n for n in section if n != "default" and not n.startswith("_"))
            named.extend((f"{key}.{name}", name) for name in own)
    for index, resource in enumerate(config.get("default_resources") or ()):
        select = resource.get("select") if isinstance(resource, Mapping) else None
        where = f"default_resources[{index}].select"
        named.extend(values_named(select, NODEARRAYS, where))
    return [
        f"{where}: the cluster has no nodearray {name!r}{did_you_mean(name, known)}"
        for where, name in named
        if name not in known and not any(fnmatchcase(each, name) for each in known)
        if cluster_named(name, unread) is None
    ]


def of_no_nodearray(
    sorts: Iterable[tuple[Mapping[str, Any], int]], nodearrays: Collection[str]
) -> Iterator[str]:
    """A sentence on each nodearray that nodes are of and the status does not have, as when it was
    taken out of the cluster while they ran. `sorts`: a record of nodes that are alike, and how many
    there are. A node outside of nodearrays has its own name as `Template`."""
    many: Counter[str] = Counter()
    for record, count in sorts:
        name = record.get("Template")
        is_of_one = isinstance(name, str) and name != record.get("Name")
        if is_of_one and name not in nodearrays and record.get("TargetState") == "Started":
            many[str(name)] += count
    for name, count in sorted(many.items()):
        yield (
            f"nodearray {name}: the cluster has none of this name, and {counted(count, 'node')} of"
            " it; left alone until somebody terminates them in CycleCloud"
        )


def values_named(
    constraints: Any, keys: Collection[str], where: str = ""
) -> Iterator[tuple[str, str]]:
    """The texts that constraints, as JSON, have under one of `keys`, each with its place.

    They are found at any depth.
    """
    if isinstance(constraints, list | tuple):
        for index, item in enumerate(constraints):
            yield from values_named(item, keys, f"{where}[{index}]")
    elif isinstance(constraints, Mapping):
        for key, value in constraints.items():
            place = f"{where}.{key}" if where else key
            if key in keys:
                values: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
                yield from ((place, each) for each in values if isinstance(each, str))
            else:
                yield from values_named(value, keys, place)


def checked_placement_group(name: str, whose: str) -> ht.PlacementGroup:
    """The name of a placement group; RuntimeError unless it is made of letters, digits, `_` and
    `-`."""
    if not is_placement_group(name):
        raise AutoscaleError(f"{_EXPECTED}, found {name!r} ({whose})")
    return ht.PlacementGroup(name)


def group_or_none(name: str | None, whose: str) -> ht.PlacementGroup | None:
    """The checked name of a placement group; None where there is no name."""
    return checked_placement_group(name, whose) if name else None


def escaped_placement_group(name: str) -> ht.PlacementGroup:
    """The name with every illegal character replaced by `_`."""
    return ht.PlacementGroup("".join([each if each in _LEGAL else "_" for each in name]))


def spare_group(vm_size: str, number: int) -> ht.PlacementGroup:
    """What a placement group is called that is made before anybody asks for one."""
    return ht.PlacementGroup(f"{vm_size}_pg{number}")


def number_of_spare(group: str | None, vm_size: str) -> int | None:
    """The number of a placement group that is called as a spare one of a VM size; None for any
    other."""
    number = (group or "").removeprefix(f"{vm_size}_pg")
    return int(number) if number != group and number.isdecimal() else None


def configured_placement_groups(config: Mapping[str, Any], nodearray: str) -> list[str]:
    """The placement groups that a configuration gives a nodearray: those for all nodearrays
    (`nodearrays.default.placement_groups`), then its own. ConfigurationException, with the place,
    for what is no list of names."""
    sections = config.get("nodearrays") or {}
    return [
        name
        for section in ("default", nodearray)
        for name in _names(section, sections.get(section) or {})
    ]


def check_placement_groups(config: Mapping[str, Any]) -> None:
    """ConfigurationException, with the place, for placement groups in a configuration that are no
    list of names, and for settings of nodearrays that are no object."""
    sections = _object("nodearrays", config.get("nodearrays"))
    for section, settings in sections.items():
        if not section.startswith("_"):  # a comment
            _names(section, _object(f"nodearrays.{section}", settings))


def _object(where: str, found: Any) -> Mapping[str, Any]:
    if found and not isinstance(found, Mapping):
        raise ConfigurationException(f"{where}: expected an object, found {found!r}")
    return found or {}


def _names(section: str, settings: Mapping[str, Any]) -> list[str]:
    found = settings.get("placement_groups")
    if not found:
        return []
    where = f"nodearrays.{section}.placement_groups"
    if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
        raise ConfigurationException(
            f"{where}: expected a list of names of placement groups, found {found!r}"
        )
    names = list(found)
    for index, name in enumerate(names):
        if name and not is_placement_group(name):
            raise ConfigurationException(f"{where}[{index}]: {_EXPECTED}, found {name!r}")
    return [name for name in names if name]


def is_placement_group(name: object) -> bool:
    """Whether it is the name of a placement group that may be made."""
    return isinstance(name, str) and name != "" and _LEGAL.issuperset(name)
