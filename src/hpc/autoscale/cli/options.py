"""Options that several commands share, and how their values are used: columns, formats,
constraints, names of nodes."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from hpc.autoscale.autoscaler.faults import call_with_up_to
from hpc.autoscale.cli.argtypes import constraint_type, parse_format, str_list
from hpc.autoscale.cli.completion import Completion, completed_by
from hpc.autoscale.cli.hooks import Config
from hpc.autoscale.cli.unknown import unknown_columns
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandprinter import OutputFormat, print_demand
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager


class CommandLine(Completion):
    """Base of all groups of commands."""

    _asked: Sequence[str] = ()
    """Columns that the user asked for."""

    # -- constraints

    def _constraints(self, exprs: Iterable[str]) -> list[dict[str, Any]]:
        """Constraint expressions as JSON objects; those that do not overlap are merged into one."""
        merged: list[dict[str, Any]] = []
        for expr in exprs or []:
            parsed = json.loads(expr)
            for item in parsed if isinstance(parsed, list) else [parsed]:
                if not isinstance(item, dict):
                    raise AutoscaleError(f"expected a constraint as a JSON object, found {expr}")
                if merged and not merged[-1].keys() & item.keys():
                    merged[-1].update(item)
                else:
                    merged.append(dict(item))
        return merged

    # -- output

    def _get_default_output_columns(self, config: Config, cmd_name: str | None = None) -> list[str]:
        """The columns for a command: as configured for it, as configured by default, or the
        integration's."""
        configured = config.get("output-columns") or {}
        return (
            configured.get(cmd_name)
            or configured.get("default")
            or call_with_up_to(self._default_output_columns, config, cmd_name)
            or self._default_output_columns(config)
        )

    def _columns_by_default_of(self, config: Config, command: str | None) -> list[str]:
        """The columns that a command prints when the user does not say which."""
        return call_with_up_to(self._get_default_output_columns, config, command)

    def _columns(self, config: Config, columns: Sequence[str] | None, cmd: str) -> list[str]:
        """The columns that the user asked for, or the command's; `all` stands for all, as the
        printer sees it."""
        self._asked = list(columns or ())
        if columns and "all" in columns:
            return []
        return list(columns or self._columns_by_default_of(config, cmd))

    def _warn_of_columns(self, result: DemandResult) -> None:
        """Say which of the columns that the user asked for are none."""
        nodes = [*result.compute_nodes, *result.new_nodes]
        self._warn_once(*unknown_columns(self._asked, nodes, result.buckets))

    def _print_nodes(
        self,
        nodes: Iterable[Node],
        columns: Sequence[str],
        output_format: OutputFormat | None,
        long: bool = False,
        node_mgr: NodeManager | None = None,
    ) -> None:
        buckets = node_mgr.get_buckets() if node_mgr else []
        result = DemandResult([], list(nodes), [], [], buckets)
        self._warn_of_columns(result)
        print_demand(list(columns), result, sys.stdout, output_format or "table", long=long)

    # -- options that several commands share

    def _add_output_columns(self, parser: ArgumentParser) -> None:
        completed_by(
            self._complete_output_columns,
            parser.add_argument(
                "--output-columns",
                "-o",
                type=str_list,
                help="columns to print, separated by commas, or all",
            ),
        )
        parser.add_argument(
            "--long", "-l", action="store_true", help="print values whole where columns are cut"
        )

    def _add_output_format(self, parser: ArgumentParser, default: OutputFormat = "table") -> None:
        parser.add_argument(
            "--output-format",
            "-F",
            type=parse_format,
            default=default,
            help=f"json, table or table_headerless (default {default})",
        )

    def _add_hostnames(self, parser: ArgumentParser) -> None:
        completed_by(
            self._complete_hostnames,
            parser.add_argument(
                "--hostnames",
                "-H",
                type=str_list,
                default=[],
                help="host names, separated by commas; * for all",
            ),
        )

    def _add_nodenames(self, parser: ArgumentParser) -> None:
        completed_by(
            self._complete_node_names,
            parser.add_argument(
                "--node-names",
                "-N",
                type=str_list,
                default=[],
                help="node names, separated by commas; * for all",
            ),
        )

    def _add_constraint_expr(self, parser: ArgumentParser) -> None:
        completed_by(
            self._complete_constraints,
            parser.add_argument(
                "--constraint-expr",
                "-C",
                type=constraint_type,
                action="append",
                default=[],
                help="a constraint, as JSON or as name=value[,value…]; may be given more than once",
            ),
        )
