"""Names in a configuration that can be checked only when the cluster has been read: nodearrays.

A misspelt name has no effect and raises no error; but a file may be shared by clusters that differ,
so it is a doubt and no error. The node manager asks; the command line tells people.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from hpc.autoscale.errors import did_you_mean

_BY_NODEARRAY = ("idle_timeout", "boot_timeout", "nodearrays")

NODEARRAYS = ("node.nodearray", "nodearray")
"""What constraints call the nodearray of a node."""


def unknown_nodearrays(config: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """A sentence on each nodearray that the configuration names and the cluster does not have."""
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
    ]


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
