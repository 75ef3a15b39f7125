"""Rows of any values as text: as a table in columns, or as JSON.

Called by whatever prints: demand, costs, requests. What a value is and which rows there are is the
caller's business. A row of a table is one line, and its values act on no terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Any, Literal, TextIO

from hpc.autoscale.plaintext import on_one_line

OutputFormat = Literal["json", "table", "table_headerless"]


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
            width = len(_cell(value))
            if width > widths[index]:
                widths[index] = width
    return widths


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return on_one_line(value)
    if isinstance(value, int):  # early, since most others are these
        return str(value)
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple | AbstractSet):
        return ",".join(sorted(_cell(item) for item in value))
    return on_one_line(str(value))


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
