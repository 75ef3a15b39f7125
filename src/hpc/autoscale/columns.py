"""Columns of tables of nodes: how they are written, what they show of a node, and in which order
rows come.

Called by whatever prints or completes them: printed demand, and the command line. A column is
written as `ctr@create_time_remaining`, `*ncpus`, `/ncpus`, `instance_id[:11]` or `state:none`:

    header@name        the value of name under another heading
    *name  /name       what is left of a resource; what is left and the total, as `3/4`
    name[start:stop]   part of the value's text
    name:default       what to show where there is no value
    "gpu:a100"         the value of a name with one of these signs in it

They combine. A column is parsed once, and looked up once for each node.
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
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.redaction import redact
from hpc.autoscale.tables import Dollars

_COLUMN = re.compile(
    r"(?:(?P<header>(?![*/]?\")[^@]+)@)?(?P<mark>[*/]?)"
    r"(?:\"(?P<quoted>.*?)\"|(?P<name>[^\[\]:@]+))"
    r"(?P<slice>\[[^\]]*\])?(?::(?P<default>.*))?",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^\[\]:@*/\"\s][^\[\]:@]*(?<!\s)")
_SLICE = re.compile(r"\[\s*(-?\d+)?\s*(:)?\s*(-?\d+)?\s*(?::\s*(-?\d+)?\s*)?\]")
_MISSING = object()
# What nodes have as plain attributes, of which the class itself knows nothing.
_ATTRIBUTES = ("delayed_node_id", "managed", "marked_for_deletion", "metadata", "target_state")
# Two names for one thing; the heading is always the first.
JOB_IDS = ("job_ids", "assigned_job_ids")
# What a node costs per hour, unless it has a resource of that name.
PRICE = "price"
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


def parse_column(text: str) -> Column:
    """Understand one column; ConfigurationException when it says nothing known."""
    match = _COLUMN.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        raise ConfigurationException(
            f"column {text!r}: expected a name such as name, header@name, *ncpus, /ncpus,"
            " instance_id[:11] or state:default"
        )
    plain, mark = match["name"], match["mark"]
    name = (match["quoted"] if plain is None else plain.strip()).lower()
    shown = JOB_IDS[0] if name in JOB_IDS else name
    header = match["header"] or (shown if mark == "/" else mark + shown)
    part = _parse_slice(match["slice"], text) if match["slice"] else None
    return Column(header.strip().upper(), name, mark, part, match["default"])


def column_named(name: str) -> str:
    """The column that shows what has this name, whatever is in the name."""
    return name if _PLAIN.fullmatch(name) else f'"{name}"'


def _parse_slice(text: str, column: str) -> slice | int:
    match = _SLICE.fullmatch(text)
    start, colon, stop, step = match.groups() if match else (None, None, None, None)
    if colon:
        if step and int(step) == 0:
            raise ConfigurationException(f"column {column!r}: a step of 0 selects nothing")
        return slice(*(int(number) if number else None for number in (start, stop, step)))
    if start is None or stop is not None or step is not None:
        raise ConfigurationException(
            f"column {column!r}: expected whole numbers such as [:11] or [-8:], found {text}"
        )
    return int(start)


def all_column_names(nodes: Iterable[Node]) -> list[str]:
    """Every property of a node and every resource that one of these nodes has: `name` first, the
    rest sorted. What a scheduler calls by something else than a text can be no column."""
    found = {name: getattr(Node, name) for name in dir(Node) if not name.startswith("_")}
    names = {
        n for n, each in found.items() if hasattr(type(each), "__get__") and not callable(each)
    }
    names.update(QUERYABLE_PROPERTIES, _ATTRIBUTES)
    for node in nodes:
        names.update(name for name in node.available if isinstance(name, str))
    return ["name", *sorted(names - {"name"})]


def all_columns(nodes: Iterable[Node]) -> list[str]:
    """The columns of `all_column_names`."""
    return list(map(column_named, all_column_names(nodes)))


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
    if column.part is None or whole:
        return value
    text = value if isinstance(value, str | list | tuple) else str(value)
    if isinstance(column.part, slice):
        return text[column.part]
    return text[column.part] if -len(text) <= column.part < len(text) else ""


def _look_up(column: Column, node: Node, buckets: Mapping[Any, Sequence[NodeBucket]]) -> Any | None:
    name = column.name
    if name == "hostname":
        return (node.hostname if node.exists else None) or node.private_ip or "tbd"
    if name in JOB_IDS:
        return sorted(node.assignments, key=str)
    if column.mark == "/":
        left, total = _entry(node.available, name), _entry(node.resources, name)
        # a default stands in where there is neither
        lacking = left is None and total is None and column.default is not None
        return None if lacking else f"{left}/{total}"
    is_amount = column.mark == "*"
    if not is_amount and (value := _attribute(node, name)) is not _MISSING:
        return value
    places = [node.available] if is_amount else []
    for place in (*places, node.resources, node.metadata):
        if (value := _entry(place, name)) is not None:
            return value
    if is_amount and (value := _attribute(node, name)) is not _MISSING:
        return value
    value = _attribute(_bucket_of(node, buckets), name)
    if value is _MISSING and name == PRICE:
        return price_of(node)
    return None if value is _MISSING else value


def price_of(node: Node) -> Dollars | None:
    """US dollars for one hour of the node by the catalogue; None when unknown."""
    price = price_per_hour(node.location, node.vm_size, node.spot)
    return None if price is None else Dollars(price)


def _attribute(thing: object, name: str) -> Any:
    """A plain attribute; methods and private names are not values to print."""
    value = _MISSING if name.startswith("_") else getattr(thing, name, _MISSING)
    return _MISSING if callable(value) else value


def _entry(values: Mapping[str, Any], name: str) -> Any | None:
    """An entry by name; columns are in lower case, resources need not be."""
    if name in values:
        return values[name]
    return next((value for key, value in values.items() if str(key).lower() == name), None)


def _bucket_of(node: Node, buckets: Mapping[Any, Sequence[NodeBucket]]) -> NodeBucket | None:
    """The node's bucket; those that differ only by placement group share their id."""
    found = buckets.get(node.bucket_id) or ()
    own = (each for each in found if each.placement_group == node.placement_group)
    return next(own, next(iter(found), None))


def row_order(node: Node) -> tuple[int, tuple[Any, ...]]:
    """Where a node's row goes: named ones, then those with an address by address, then by nodearray
    and number."""
    if node.private_ip:
        try:
            address = ipaddress.ip_address(node.private_ip)
        except ValueError:
            return 1, (0, 0, node.private_ip)
        return 1, (address.version, int(address), node.private_ip)
    number = ht.numbered(node.name)[1]
    if number is not None:
        return 2, (node.nodearray, number, node.name)
    return 0, tuple(node.name.split("-"))
