"""Prints demand: nodes as rows, whatever columns (`hpc.autoscale.columns`) the reader asks for, as
a table or as JSON.

Called by the command line and by integrations; nothing here decides anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TextIO

from hpc.autoscale.columns import Column, all_columns, parse_column, row_order, value_of
from hpc.autoscale.errors import check_has
from hpc.autoscale.hpclogging.printed import logging_stream
from hpc.autoscale.hpctypes import BucketId
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.tables import OutputFormat, names_of_columns, write_rows

# Whole mappings and objects: of use to a program, not in a table.
_ONLY_IN_JSON = frozenset({"available", "node"})


class Demand(Protocol):
    """What is printed of a demand; see `hpc.autoscale.job.demand.Demand`."""

    new_nodes: list[Node]

    @property
    def compute_nodes(self) -> list[Node]:
        """Every node once."""

    @property
    def buckets_by_id(self) -> dict[BucketId, list[NodeBucket]]:
        """The buckets of each bucket id."""

    @property
    def cost(self) -> object:
        """What the new nodes cost, where that was worked out; printed as its text."""


class DemandPrinter:
    """Prints the nodes of a demand, one row each.

    `column_names` empty or None: every property of a node and every resource. A text is names with
    commas between them, as azscale takes them. `name` is the first column wherever it is asked
    for. `long` prints values whole where a column asks for a slice.
    `width`: how many characters a line of a table may have, unless `long`. A column that cannot be
    understood raises ConfigurationException.
    """

    def __init__(
        self,
        column_names: Iterable[str] | None = None,
        stream: TextIO | None = None,
        output_format: OutputFormat | None = "table",
        long: bool = False,
        width: int | None = None,
    ) -> None:
        self.width = None if long else width
        self.column_names = names_of_columns(column_names)
        self.stream = stream or sys.stdout
        self.output_format: OutputFormat = output_format or "table"
        self.long = long

    def print_columns(self, result: Demand | None = None) -> None:
        """Print the names of the columns, without any rows."""
        columns = self._columns(result)
        if self.output_format == "json":
            write_rows(["column"], [[c.key] for c in columns], self.stream, "json")
        else:
            write_rows([c.header for c in columns], [], self.stream, "table")

    def print_demand(self, result: Demand) -> None:
        """Print a row for each node, those with an address by address, new ones by nodearray and
        number; below a table what the new nodes cost, where that was worked out."""
        check_has("print_demand", "compute_nodes", demand_result=result)
        columns = self._columns(result)
        distinct = {id(node): node for node in [*result.compute_nodes, *result.new_nodes]}
        nodes = sorted(distinct.values(), key=row_order)
        buckets = result.buckets_by_id
        rows = [
            [value_of(column, node, buckets, whole=self.long) for column in columns]
            for node in nodes
        ]
        names = [c.key if self.output_format == "json" else c.header for c in columns]
        write_rows(names, rows, self.stream, self.output_format, self.width)
        if result.cost is not None and self.output_format == "table":
            self.stream.write(f"\nNew nodes: {result.cost}\n")

    def _columns(self, result: Demand | None) -> list[Column]:
        names = self.column_names or all_columns(result.compute_nodes if result else [])
        columns = [parse_column(name) for name in names]
        # scripts cut it out of tables
        first = next((c for c in columns if c == Column("NAME", "name", default=c.default)), None)
        columns.sort(key=lambda column: column is not first)
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
    demand_result: Demand,
    stream: TextIO | None = None,
    output_format: OutputFormat | None = "table",
    log: bool = False,
    long: bool = False,
    width: int | None = None,
) -> None:
    """Print demand; with `log`, each line goes to the logger `demand` as well."""
    written_to: Any = logging_stream(stream or sys.stdout) if log else stream
    DemandPrinter(columns, written_to, output_format, long, width).print_demand(demand_result)
    if log:
        written_to.close()


def print_columns(
    demand_result: Demand | None,
    stream: TextIO | None = None,
    output_format: OutputFormat | None = "table",
    long: bool = False,
) -> None:
    """Print the names of all columns that this demand could be printed with."""
    DemandPrinter(None, stream, output_format, long).print_columns(demand_result)
