"""The column language: what `ctr@create_time_remaining`, `*ncpus`, `/ncpus`, `instance_id[:11]` and
`state:none` mean.

    header@name        the value of name under another heading
    *name  /name       what is left of a resource; what is left and the total, as `3/4`
    name[start:stop]   part of the value's text
    name:default       what to show where there is no value

They combine. Parsing is once per column, looking up once per column and node.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.redaction import redact

_COLUMN = re.compile(
    r"(?:(?P<header>[^@]+)@)?(?P<mark>[*/]?)(?P<name>[^\[\]:@]+)"
    r"(?P<slice>\[[^\]]*\])?(?::(?P<default>.*))?",
    re.DOTALL,
)
_SLICE = re.compile(r"\[\s*(-?\d+)?\s*(:)?\s*(-?\d+)?\s*(?::\s*(-?\d+)?\s*)?\]")
_MISSING = object()
# What nodes have as plain attributes, of which the class itself knows nothing.
_ATTRIBUTES = ("delayed_node_id", "managed", "marked_for_deletion", "metadata", "target_state")
# Two names for one thing; the heading is always the first.
JOB_IDS = ("job_ids", "assigned_job_ids")
# What people configure clusters with, passwords included; printed demand goes to logs.
_CONFIGURATIONS = frozenset({"software_configuration", "node_attribute_overrides"})


@dataclass(frozen=True)
class Column:
    """One column: where its value comes from and how it is headed."""

    header: str
    name: str
    mark: str = ""
    part: slice | int | None = None
    default: str | None = None

    @property
    def key(self) -> str:
        """The name of the value in JSON."""
        return self.header.lower()

    @property
    def is_plain_name(self) -> bool:
        """Whether it is the name of a node, whole and under its own heading."""
        return (self.header, self.name, self.mark, self.part) == ("NAME", "name", "", None)


def parse_column(text: str) -> Column:
    """Understand one column; ConfigurationException when it says nothing known."""
    match = _COLUMN.fullmatch(text.strip())
    if not match:
        raise ConfigurationException(
            f"column {text!r}: expected a name such as name, header@name, *ncpus, /ncpus,"
            " instance_id[:11] or state:default"
        )
    name = match["name"].strip().lower()
    mark = match["mark"]
    header = match["header"] or _heading(mark, name)
    part = _parse_slice(match["slice"], text) if match["slice"] else None
    return Column(header.strip().upper(), name, mark, part, match["default"])


def _heading(mark: str, name: str) -> str:
    if name in JOB_IDS:
        name = JOB_IDS[0]
    return name if mark == "/" else mark + name


def name_first(columns: Sequence[Column]) -> list[Column]:
    """The columns, the first that is plainly `name` before all others: scripts cut it out of
    tables."""
    found = next((column for column in columns if column.is_plain_name), None)
    if found is None:
        return list(columns)
    return [found, *(column for column in columns if column is not found)]


def _parse_slice(text: str, column: str) -> slice | int:
    match = _SLICE.fullmatch(text)
    start, colon, stop, step = match.groups() if match else (None, None, None, None)
    if colon:
        if step and int(step) == 0:
            raise ConfigurationException(f"column {column!r}: a step of 0 selects nothing")
        return slice(_int(start), _int(stop), _int(step))
    if start is None or stop is not None or step is not None:
        raise ConfigurationException(
            f"column {column!r}: expected whole numbers such as [:11] or [-8:], found {text}"
        )
    return int(start)


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def all_column_names(nodes: Iterable[Node]) -> list[str]:
    """Every property of a node and every resource that one of these nodes has: `name` first, the
    rest sorted."""
    names = {name for name in dir(Node) if not name.startswith("_") and _is_property(name)}
    names.update(QUERYABLE_PROPERTIES, _ATTRIBUTES)
    for node in nodes:
        names.update(node.available)
    return ["name", *sorted(names - {"name"})]


def _is_property(name: str) -> bool:
    found = getattr(Node, name)
    return hasattr(type(found), "__get__") and not callable(found)


def value_of(
    column: Column,
    node: Node,
    buckets: Mapping[Any, Sequence[NodeBucket]],
    whole: bool = False,
) -> Any:
    """The value to print; `whole` ignores the slice. The column's default, or None, where there is
    no value.

    Of configurations the secrets are left out.
    """
    value = _look_up(column, node, buckets)
    if column.name in _CONFIGURATIONS:
        value = redact(value)
    if value is None:
        return column.default
    if column.part is not None and not whole:
        return _cut(value, column.part)
    return value


def _cut(value: Any, part: slice | int) -> Any:
    if not isinstance(value, str | list | tuple):
        value = str(value)
    if isinstance(part, slice):
        return value[part]
    return value[part] if -len(value) <= part < len(value) else ""


def _look_up(column: Column, node: Node, buckets: Mapping[Any, Sequence[NodeBucket]]) -> Any | None:
    name = column.name
    if name == "hostname":
        return _hostname(node)
    if name in JOB_IDS:
        return sorted(node.assignments)
    if column.mark == "/":
        return _ratio(node, column)
    is_amount = column.mark == "*"
    if not is_amount and (value := _attribute(node, name)) is not _MISSING:
        return value
    places: list[Mapping[str, Any]] = [node.resources, node.metadata]
    if is_amount:
        places.insert(0, node.available)
    for place in places:
        value = _entry(place, name)
        if value is not None:
            return value
    if is_amount and (value := _attribute(node, name)) is not _MISSING:
        return value
    value = _attribute(_bucket_of(node, buckets), name)
    return None if value is _MISSING else value


def _hostname(node: Node) -> str:
    if node.exists and node.hostname:
        return node.hostname
    return node.private_ip or "tbd"


def _ratio(node: Node, column: Column) -> str | None:
    """`3/4`, with None for what is not there; a default stands in where there is neither."""
    left, total = _entry(node.available, column.name), _entry(node.resources, column.name)
    if left is None and total is None and column.default is not None:
        return None
    return f"{left}/{total}"


def _attribute(thing: object, name: str) -> Any:
    """A plain attribute; methods and private names are not values to print."""
    value = _MISSING if name.startswith("_") else getattr(thing, name, _MISSING)
    return _MISSING if callable(value) else value


def _entry(values: Mapping[str, Any], name: str) -> Any | None:
    """An entry by name; columns are in lower case, resources need not be."""
    if name in values:
        return values[name]
    return next((value for key, value in values.items() if key.lower() == name), None)


def _bucket_of(node: Node, buckets: Mapping[Any, Sequence[NodeBucket]]) -> NodeBucket | None:
    """The node's bucket; those that differ only by placement group share their id."""
    candidates = buckets.get(node.bucket_id) or []
    for bucket in candidates:
        if bucket.placement_group == node.placement_group:
            return bucket
    return candidates[0] if candidates else None


def row_order(node: Node) -> tuple[int, tuple[Any, ...]]:
    """Where a node's row goes: named ones, then those with an address by address, then by nodearray
    and number."""
    if node.private_ip:
        return 1, _address_order(node.private_ip)
    number = ht.numbered(node.name)[1]
    if number is not None:
        return 2, (node.nodearray, number, node.name)
    return 0, tuple(node.name.split("-"))


def _address_order(address: str) -> tuple[int, int, str]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return 0, 0, address
    return parsed.version, int(parsed), address
