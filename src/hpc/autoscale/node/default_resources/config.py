"""Default resources as a configuration has them, and those that every node has.

`definitions_from_config` reads the key `default_resources` and says which entry and which key is
wrong; the definitions themselves are in `definition`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpc.autoscale.errors import ConstraintError, did_you_mean
from hpc.autoscale.node.default_resources.definition import (
    MODIFIERS,
    DefaultResource,
    definition_from,
)
from hpc.autoscale.node.default_resources.values import (
    NODE_ID,
    DefaultResourceError,
    MemoryDefault,
    NodeIdDefault,
)


def definitions_from_config(entries: Any) -> list[DefaultResource]:
    """The definitions in `default_resources` of a configuration.

    DefaultResourceError names the entry and the key that is wrong.
    """
    if not isinstance(entries, (list, tuple)):
        raise DefaultResourceError(f"default_resources: Expected a list, found {entries!r}")
    return [_from_entry(entry, f"default_resources[{i}]") for i, entry in enumerate(entries)]


def _from_entry(entry: Any, where: str) -> DefaultResource:
    if not isinstance(entry, Mapping):
        raise DefaultResourceError(f"{where}: Expected select, name and value, found {entry!r}")
    for key, kinds, said in (
        ("select", (Mapping,), "a mapping"),
        ("name", (str,), "a text"),
        ("value", (str, int, float, bool), "a text, number or boolean"),
    ):
        if not isinstance(entry.get(key), kinds):
            found = repr(entry[key]) if key in entry else "nothing"
            raise DefaultResourceError(
                f"default_resources: Expected {said} at {where}.{key}, found {found}"
            )
    steps = [key for key in MODIFIERS if key in entry]
    if len(steps) > 1:
        raise DefaultResourceError(
            f"default_resources: Expected at most one of {', '.join(MODIFIERS)} at {where}, found"
            f" {', '.join(steps)}"
        )
    unknown = [key for key in entry if key not in ("select", "name", "value", *MODIFIERS)]
    if unknown:
        hint = did_you_mean(unknown[0], ["select", "name", "value", *MODIFIERS])
        raise DefaultResourceError(
            f"default_resources: unknown key {unknown[0]!r} at {where}{hint}"
        )
    step = steps[0] if steps else None
    if step and not entry[step]:
        raise DefaultResourceError(
            f"default_resources: Expected a number or a size other than 0 at {where}.{step}, found"
            f" {entry[step]!r}"
        )
    try:
        return definition_from(
            dict(entry["select"]),
            entry["name"],
            entry["value"],
            step,
            entry[step] if step else None,
        )
    except ConstraintError as e:
        raise DefaultResourceError(f"{where}.select: {e}") from e
    except DefaultResourceError as e:
        raise DefaultResourceError(f"{where}: {e}") from e


SYSTEM_DEFAULTS: Sequence[tuple[str, Any]] = (
    ("ncpus", "node.vcpu_count"),
    ("pcpus", "node.pcpu_count"),
    ("ngpus", "node.gpu_count"),
    ("memb", MemoryDefault("b")),
    ("memkb", MemoryDefault("k")),
    ("memmb", MemoryDefault("m")),
    ("memgb", MemoryDefault("g")),
    ("memtb", MemoryDefault("t")),
    ("nodearray", "node.nodearray"),
    (NODE_ID, NodeIdDefault()),
)
"""Name and value of what every node has unless `disable_default_resources` is set; order is the
published one."""
