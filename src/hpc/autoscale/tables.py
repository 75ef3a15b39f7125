"""Rows of any values as text: as a table in columns, or as JSON.

Called by whatever prints: demand, costs, requests. What a value is and which rows there are is the
caller's business. A row of a table is one line, and its values act on no terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Any, Literal, TextIO, get_args

from hpc.autoscale.errors import check_has, check_kinds, check_word
from hpc.autoscale.plaintext import (
    columns_of,
    cut_start_to,
    cut_to,
    on_one_line,
    padded,
    wrapped,
)

# how narrow a column may become; the first one holds an id
_LEAST, _LEAST_OF_FIRST = 8, 40
_INDENT = "    "

OutputFormat = Literal["json", "table", "table_headerless"]


class Dollars(float):
    """US dollars, of which a table shows four decimals; in JSON it is a number."""


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    stream: TextIO | None = None,
    output_format: OutputFormat = "table",
    width: int | None = None,
) -> None:
    """Print rows of any values; a column `header@name` is headed by its header. `width`: how many
    characters a line of a table may have."""
    check_kinds("printing rows", Iterable, columns=columns, rows=rows)
    headers = [column.split("@")[0] for column in columns]
    if output_format != "json":
        headers = [header.upper() for header in headers]
    write_rows(headers, rows, stream or sys.stdout, output_format, width)


def write_rows(
    headers: Sequence[str],
    rows: Iterable[Sequence[Any]],
    stream: TextIO,
    output_format: OutputFormat,
    width: int | None = None,
) -> None:
    """Write the headers as they are, and the rows.

    With `width`, the widest columns of a table are cut until it has no more characters in a line;
    the first column, by which people find a row, stays whole up to an id's length. Where that is
    not enough, each row is a paragraph: its first value, and the others behind their headers.
    """
    check_kinds("printing rows", int | None, width=width)
    check_has("printing rows", "write", stream=stream)
    check_word("printing rows", get_args(OutputFormat), output_format=output_format)
    if output_format == "json":
        objects = [dict(zip(headers, row, strict=False)) for row in rows]
        json.dump(_plain(objects), stream, indent=2)
        stream.write("\n")
    else:
        rows = [list(row) for row in rows]
        cells = [[_cell(value) for value in row] for row in rows]
        widths = calculate_column_widths(headers, cells)
        if width is not None and output_format == "table":
            widths = _narrowed(widths, headers, width)
            if sum(widths) + len(widths) - 1 > width:
                _write_paragraphs(headers, cells, stream, width)
                return
            cuts = list(map(_best_cut, widths, zip(*cells, strict=True))) if cells else []
            cells = [
                list(map(_within, widths, line, row, cuts))
                for line, row in zip(cells, rows, strict=True)
            ]
        lines = cells if output_format == "table_headerless" else [list(headers), *cells]
        for line in lines:
            text = " ".join(map(padded, line, widths))
            stream.write((text if width is None else text.rstrip()) + "\n")
    stream.flush()


def calculate_column_widths(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[int]:
    """How wide each column must be for its header and for the text of every value in it."""
    widths = [len(column.split("@")[0]) for column in columns]
    for row in rows:
        for index, value in enumerate(row[: len(widths)]):
            width = columns_of(_cell(value))
            if width > widths[index]:
                widths[index] = width
    return widths


def _narrowed(widths: Sequence[int], headers: Sequence[str], width: int) -> list[int]:
    """The widths of columns that fit into a line, as far as headers and the first column allow."""
    fitting = list(widths)
    least = [max(len(header), _LEAST) for header in headers]
    least[:1] = [max(*least[:1], _LEAST_OF_FIRST)]
    while sum(fitting) + len(fitting) - 1 > width:
        room = [(now, i) for i, now in enumerate(fitting) if now > least[i]]
        if not room:
            break
        # the first one comes last
        fitting[max(room, key=lambda each: (each[1] > 0, each))[1]] -= 1
    return fitting


def names_of_columns(given: Iterable[str] | None) -> list[str]:
    """The names of columns in a list, or in a text with commas between them; none for None."""
    check_kinds("columns", Iterable | None, names=given)
    return given.split(",") if isinstance(given, str) else list(given or [])


Cut = Callable[[str, int], str]
"""How a text is made to fit into a column."""


def _best_cut(width: int, cells: Sequence[str]) -> Cut:
    """What leaves more texts of a column different from each other: their beginnings, or their
    ends, as of VM sizes."""
    long = {cell for cell in cells if columns_of(cell) > width}
    by_start, by_end = ({cut(cell, width) for cell in long} for cut in (cut_to, cut_start_to))
    return cut_start_to if len(by_end) > len(by_start) else cut_to


def _within(width: int, cell: str, value: Any, cut: Cut) -> str:
    """The text of a value, cut to a width; of a list as many items as fit, and the number of the
    others."""
    if columns_of(cell) <= width:
        return cell
    items = cell.split(",") if isinstance(value, list | tuple | AbstractSet) else []
    for kept in range(len(items) - 1, 0, -1):
        short = f"{','.join(items[:kept])},+{len(items) - kept}"
        if columns_of(short) <= width:
            return short
    return cut(cell, width)


def _write_paragraphs(
    headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO, width: int
) -> None:
    """Write a paragraph for each row; values that are empty are left out. Without rows, the headers
    are all that there is."""
    lines: list[str] = []
    for first, *others in rows or [[" ".join(headers)]]:
        line = first
        for header, cell in zip(headers[1:], others, strict=False):
            if cell and columns_of(f"{line}  {header} {cell}") <= width:
                line += f"  {header} {cell}"
            elif cell:
                lines += wrapped(line, width, _INDENT)
                line = f"{_INDENT}{header} {cell}"
        lines += wrapped(line, width, _INDENT)
    stream.writelines(f"{line}\n" for line in lines)
    stream.flush()


_MOST_WRITTEN_OUT = 1e15
"""Numbers from this on are written with a power of ten: nobody reads three hundred digits."""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return on_one_line(value)
    if isinstance(value, int):  # early, since most others are these
        return str(value)
    if isinstance(value, Dollars):
        return f"{value:.4f}"
    if isinstance(value, float):
        return f"{value:.1f}" if abs(value) < _MOST_WRITTEN_OUT else f"{value:g}"
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
