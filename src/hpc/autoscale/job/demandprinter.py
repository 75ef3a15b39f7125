"""Prints demand: nodes as rows, whatever columns the reader asks for, as a table or as JSON.

Called by the command line and by integrations; nothing here decides anything. A column is written
as `ctr@create_time_remaining`, `*ncpus`, `/ncpus`, `instance_id[:11]` or `state:none`:

    header@name        the value of name under another heading
    *name  /name       what is left of a resource; what is left and the total, as `3/4`
    name[start:stop]   part of the value's text
    name:default       what to show where there is no value

They combine. A column is parsed once, and looked up once for each node. Also a stream that writes
each line of printed demand to the log as well, and the filter that keeps those lines out elsewhere.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TextIO

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.redaction import redact

OutputFormat = Literal["json", "table", "table_headerless"]

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
# Whole mappings and objects: of use to a program, not in a table.
_ONLY_IN_JSON = frozenset({"available", "node"})
# The name on the records, by which filters know them whatever logger they were given to.
RECORD_NAME = "demandprinter"


class DemandPrinter:
    """Prints the nodes of a DemandResult, one row each.

    `column_names` empty or None: every property of a node and every resource. `name` is the first
    column wherever it is asked for. `long` prints values whole where a column asks for a slice. A
    column that cannot be understood raises ConfigurationException.
    """

    def __init__(
        self,
        column_names: Iterable[str] | None = None,
        stream: TextIO | None = None,
        output_format: OutputFormat | None = "table",
        long: bool = False,
    ) -> None:
        self.column_names = list(column_names or [])
        self.stream = stream or sys.stdout
        self.output_format: OutputFormat = output_format or "table"
        self.long = long

    def print_columns(self, result: DemandResult | None = None) -> None:
        """Print the names of the columns, without any rows."""
        columns = self._columns(result)
        if self.output_format == "json":
            write_rows(["column"], [[c.key] for c in columns], self.stream, "json")
        else:
            write_rows([c.header for c in columns], [], self.stream, "table")

    def print_demand(self, result: DemandResult) -> None:
        """Print a row for each node, those with an address by address, new ones by nodearray and
        number; below a table what the new nodes cost, where that was worked out."""
        columns = self._columns(result)
        nodes = [*result.compute_nodes]
        known = {id(node) for node in nodes}
        nodes.extend(node for node in result.new_nodes if id(node) not in known)
        nodes.sort(key=row_order)
        buckets = result.buckets_by_id
        rows = [
            [value_of(column, node, buckets, whole=self.long) for column in columns]
            for node in nodes
        ]
        names = [c.key if self.output_format == "json" else c.header for c in columns]
        write_rows(names, rows, self.stream, self.output_format)
        if result.cost is not None and self.output_format == "table":
            self.stream.write(f"\nNew nodes: {result.cost}\n")

    def _columns(self, result: DemandResult | None) -> list[Column]:
        names = self.column_names or all_column_names(result.compute_nodes if result else [])
        columns = name_first([parse_column(name) for name in names])
        hidden = {"hostname_required"}
        if self.output_format != "json":
            hidden |= _ONLY_IN_JSON
        return [c for c in columns if c.name not in hidden]

    def __str__(self) -> str:
        return (
            f"DemandPrinter(columns={self.column_names}, output_format={self.output_format},"
            f" long={self.long})"
        )

    __repr__ = __str__


def print_demand(
    columns: Sequence[str] | None,
    demand_result: DemandResult,
    stream: TextIO | None = None,
    output_format: OutputFormat | None = "table",
    log: bool = False,
    long: bool = False,
) -> None:
    """Print demand; with `log`, each line goes to the logger `demand` as well."""
    target: Any = stream or sys.stdout
    tee: LoggingStream | None = None
    if log:
        target = tee = logging_stream(target)
    DemandPrinter(columns, target, output_format, long).print_demand(demand_result)
    if tee:
        tee.close()


def print_columns(
    demand_result: DemandResult | None,
    stream: TextIO | None = None,
    output_format: OutputFormat | None = "table",
    long: bool = False,
) -> None:
    """Print the names of all columns that this demand could be printed with."""
    DemandPrinter(None, stream, output_format, long).print_columns(demand_result)


# -- columns


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
        return slice(*(int(number) if number else None for number in (start, stop, step)))
    if start is None or stop is not None or step is not None:
        raise ConfigurationException(
            f"column {column!r}: expected whole numbers such as [:11] or [-8:], found {text}"
        )
    return int(start)


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


# -- rows as text


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    stream: TextIO | None = None,
    output_format: OutputFormat = "table",
) -> None:
    """Print rows of any values; a column `header@name` is headed by its header."""
    headers = [column.split("@")[0] for column in columns]
    if output_format != "json":
        headers = [header.upper() for header in headers]
    write_rows(headers, rows, stream or sys.stdout, output_format)


def write_rows(
    headers: Sequence[str],
    rows: Iterable[Sequence[Any]],
    stream: TextIO,
    output_format: OutputFormat,
) -> None:
    """Write the headers as they are, and the rows."""
    if output_format == "json":
        objects = [dict(zip(headers, row, strict=False)) for row in rows]
        json.dump(_plain(objects), stream, indent=2)
        stream.write("\n")
    else:
        cells = [[_cell(value) for value in row] for row in rows]
        widths = calculate_column_widths(headers, cells)
        lines = cells if output_format == "table_headerless" else [list(headers), *cells]
        for line in lines:
            stream.write(" ".join(map(str.ljust, line, widths)) + "\n")
    stream.flush()


def calculate_column_widths(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[int]:
    """How wide each column must be for its header and for the text of every value in it."""
    widths = [len(column.split("@")[0]) for column in columns]
    for row in rows:
        for index, value in enumerate(row[: len(widths)]):
            width = len(value if value.__class__ is str else _cell(value))
            if width > widths[index]:
                widths[index] = width
    return widths


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int):  # early, since most others are these
        return str(value)
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple | AbstractSet):
        return ",".join(sorted(_cell(item) for item in value))
    return str(value)


def _plain(value: Any) -> Any:
    """The same value in terms that JSON has: sizes and ids by their own `to_json`, sets as sorted
    lists."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        # JSON has no word for infinity and not-a-number
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    for form in ("to_json", "to_dict"):
        convert = getattr(value, form, None)
        if callable(convert):
            return _plain(convert())
    return str(value)


# -- printed demand in the log


class LoggingStream:
    """Writes on to another stream, and gives each finished line to a logger. Closing leaves the
    other stream open."""

    def __init__(self, wrapped: TextIO, logger: logging.Logger) -> None:
        self._wrapped = wrapped
        self._logger = logger
        self._unfinished = ""

    def write(self, text: str) -> int:
        """Write text; lines that it completes are logged."""
        self._wrapped.write(text)
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._log(line)
        return len(text)

    def flush(self) -> None:
        """Flush the other stream."""
        self._wrapped.flush()

    def close(self) -> None:
        """Log what is left without a line end, and flush."""
        if self._unfinished:
            self._log(self._unfinished)
            self._unfinished = ""
        self._wrapped.flush()

    def _log(self, line: str) -> None:
        # whatever the level of the logger: handlers and filters have their say
        record = self._logger.makeRecord(
            RECORD_NAME, logging.INFO, __file__, 0, line, args=(), exc_info=None
        )
        self._logger.handle(record)


def logging_stream(wrapped: TextIO, logger_name: str | None = None) -> LoggingStream:
    """A stream that writes to `wrapped` and gives each line at INFO to a logger, by default
    `demand`, whatever its level."""
    return LoggingStream(wrapped, logging.getLogger(logger_name or "demand"))


class ExcludeDemandPrinterFilter(logging.Filter):
    """Drops the lines of printed demand: for handlers whose log should not repeat the table."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for records of the demand printer."""
        return record.name != RECORD_NAME
