"""The section `on_premises` of autoscale.json: which hosts there are, and how their workers are
started and stopped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from hpc.autoscale.errors import ConfigurationException, did_you_mean
from hpc.autoscale.hpctypes import Memory, without_domain

ON_PREMISES = "on-premises"
"""The location of these hosts, and their nodearray where the configuration names none."""

SECTION = "on_premises"
COMMAND_TIMEOUT = 60.0

_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--")


class OnPremisesHost(NamedTuple):
    """A host; `start` and `stop` are commands as lists of words, empty where its worker is always
    there."""

    name: str
    hostname: str
    nodearray: str = ON_PREMISES
    resources: Mapping[str, Any] = MappingProxyType({})
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    command_timeout: float = COMMAND_TIMEOUT

    @property
    def is_commanded(self) -> bool:
        """Whether its worker is started and stopped."""
        return bool(self.start)

    @property
    def node_id(self) -> str:
        """What stands for a NodeId, which CycleCloud has not given it."""
        return f"{ON_PREMISES}/{self.name}"


def hosts_of(config: Mapping[str, Any]) -> list[OnPremisesHost]:
    """The hosts of a configuration that is right as far as its schema goes.

    ConfigurationException for one that contradicts another, or itself.
    """
    section = config.get(SECTION) or []
    for problem in find_mistakes(section):
        raise ConfigurationException(problem)
    return [_host(entry) for entry in section]


def find_mistakes(section: Any) -> Iterator[str]:
    """A line about each thing that is wrong in the section and that its schema does not say."""
    seen: dict[tuple[str, str], int] = {}
    for number, entry in enumerate(section):
        where = f"{SECTION}[{number}]"
        for key in ("name", "hostname"):
            value = str(entry.get(key) or entry["name"]).lower()
            value = without_domain(value) if key == "hostname" else value
            first = seen.setdefault((key, value), number)
            if first != number:
                yield f"{where}.{key}: expected another one than {SECTION}[{first}], found {value}"
        resources = entry["resources"]
        if "ncpus" not in resources:
            hint = next((did_you_mean(key, ["ncpus"]) for key in resources), "")
            found = ", ".join(resources) or "nothing"
            yield f"{where}.resources: expected ncpus, found {found}{hint}"
        if memory_in(resources) is None:
            found = resources["memgb"]
            yield f"{where}.resources.memgb: expected a number or a size, found {found!r}"
        for key, value in resources.items():
            if key != "memgb" and isinstance(value, float) and not math.isfinite(value):
                yield f"{where}.resources.{key}: expected a finite number, found {value}"
        yield from _find_contradictions(where, entry)


def memory_in(resources: Mapping[str, Any]) -> Memory | None:
    """The memory of a host, as its resource `memgb` says, a number of GB or a size; 0 where there
    is none. None for what is neither, and for less than nothing."""
    found = resources.get("memgb", 0)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    try:
        memory = Memory(found, "g") if is_number else Memory.value_of(str(found))
        float(memory)  # no job could be told of more than a float holds
    except (ValueError, RuntimeError):
        return None
    return memory if memory >= 0 else None


def _find_contradictions(where: str, entry: Mapping[str, Any]) -> Iterator[str]:
    has = {key for key in ("start", "stop", "systemd_unit", "ssh") if entry.get(key)}
    if "systemd_unit" in has and has & {"start", "stop"}:
        yield f"{where}.systemd_unit: expected it or start and stop, found both"
    elif len(has & {"start", "stop"}) == 1:
        (one,) = has & {"start", "stop"}
        other = "stop" if one == "start" else "start"
        yield f"{where}.{other}: expected a command beside {one}, found none"
    if "ssh" in has and "systemd_unit" not in has:
        yield (
            f"{where}.ssh: expected systemd_unit beside it; write ssh into start and stop instead,"
            ' as in ["ssh", "rack-1", "/opt/worker", "start"]'
        )


def _host(entry: Mapping[str, Any]) -> OnPremisesHost:
    start, stop = (tuple(entry.get(key) or ()) for key in ("start", "stop"))
    unit = entry.get("systemd_unit")
    if unit:
        before = (*_SSH, str(entry["ssh"])) if entry.get("ssh") else ()
        start, stop = ((*before, "systemctl", verb, str(unit)) for verb in ("start", "stop"))
    name = str(entry["name"])
    return OnPremisesHost(
        name,
        str(entry.get("hostname") or name),
        str(entry.get("nodearray") or ON_PREMISES),
        dict(entry["resources"]),
        start,
        stop,
        float(entry.get("command_timeout") or COMMAND_TIMEOUT),
    )
