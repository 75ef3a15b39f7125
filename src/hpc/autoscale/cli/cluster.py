"""Commands that look at the cluster and at what it offers.

They are connect, buckets, limits, debug_cluster_status and validate_constraint.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any, TextIO, cast

from hpc.autoscale.autoscaler.learning import nothing_to_start
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import folded
from hpc.autoscale.cli.unknown import check_vm_sizes, unknown_vm_sizes
from hpc.autoscale.columns import column_named
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import NodeConstraint
from hpc.autoscale.node.limits import NO_SUCH_LIMIT, BucketLimits
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import live_resources
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.plaintext import on_one_line, shorten
from hpc.autoscale.redaction import redact
from hpc.autoscale.regions import Weights, configured_weights
from hpc.autoscale.util import json_dump, partition

_BUCKET_COLUMNS = [
    "nodearray",
    "placement_group",
    "vm_size",
    "vcpu_count",
    "pcpu_count",
    "memory",
    "available_count",
]
# The same memory as in the column `memory`, in other units; `limits` has them all the same.
_REPETITIVE = frozenset({"memb", "memkb", "memmb", "memtb"})
_LIMITS_COLUMNS = [*_BUCKET_COLUMNS[:3], "vm_family", *_BUCKET_COLUMNS[3:]]


class ClusterCommands(CommandLine):
    """Commands that look at the cluster."""

    def connect(self, config: Config) -> None:
        """Checks that CycleCloud can be reached and has nodes to offer; silent when all is well."""
        check_cluster(self._prepared_node_mgr(config))

    def buckets_parser(self, parser: ArgumentParser) -> None:
        """Options of buckets."""
        self._add_output_columns(parser)
        self._add_output_format(parser)
        self._add_constraint_expr(parser)

    def buckets(
        self,
        config: Config,
        constraint_expr: Sequence[str],
        output_columns: Sequence[str] | None = None,
        output_format: OutputFormat | None = None,
        long: bool = False,
    ) -> None:
        """Lists the kinds of nodes that can be started, all or those that satisfy constraints."""
        given = self._constraints(constraint_expr)
        constraints = self._understood(given)
        driver, prepared = self._prepared(config)
        node_mgr = self._node_mgr(prepared, driver)
        weights = configured_weights(prepared)
        every = node_mgr.get_buckets()
        check_vm_sizes(given, "", every)
        holds = node_mgr.holds
        held = {id(bucket): holds.of(bucket) if holds else None for bucket in every}
        shown = {id(bucket): _with_limits(bucket, held[id(bucket)], weights) for bucket in every}
        self._doubt_constraints(given, list(shown.values()), node_mgr)
        asked = ((bucket, _Offered(bucket, shown[id(bucket)])) for bucket in every)
        buckets = [b for b, offered in asked if all(map(offered.satisfies, constraints))]
        self._say_if_nothing(buckets, constraints, every)
        columns = self._columns(config, output_columns, "buckets", output_format)
        why: dict[str, list[NodeBucket]] = {}
        if not output_columns:
            columns = columns if self._is_short else list(_columns_of(config, buckets))
            why = partition([b for b in buckets if held[id(b)]], lambda b: str(held[id(b)]))
            more = {
                "region_weight": weights is not None,
                "backoff": bool(why) and self._width is None,
            }
            columns = list(dict.fromkeys([*columns, *(name for name in more if more[name])]))
        rows = (_as_printed(shown[id(bucket)], output_format or "table") for bucket in buckets)
        self._print_nodes(rows, columns, output_format, long, node_mgr)
        if self._width is not None:  # no column of a screen is as wide as these
            for text, resting in why.items():
                names = shorten(dict.fromkeys(f"{b.nodearray}/{b.vm_size}" for b in resting))
                print(folded(f"{names}: {text}", sys.stdout))
        check_cluster(node_mgr)

    def _columns_by_default_of(self, config: Config, command: str | None) -> list[str]:
        """The columns that a command prints when the user does not say which.

        For buckets and limits they depend on the resources that the buckets of the cluster have.
        """
        if command not in ("buckets", "limits"):
            return super()._columns_by_default_of(config, command)
        buckets = self._prepared_node_mgr(config).get_buckets()
        return _columns_of_limits(buckets) if command == "limits" else _columns_of(config, buckets)

    def limits_parser(self, parser: ArgumentParser) -> None:
        """Options of limits."""
        self._add_output_columns(parser)
        self._add_output_format(parser, default="json")

    def limits(
        self,
        config: Config,
        output_format: OutputFormat | None = None,
        long: bool = False,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        """Prints all limits and quotas of each kind of node, as JSON unless asked otherwise."""
        node_mgr = self._prepared_node_mgr(config)
        form = output_format or "json"
        rows = (_as_printed(_with_limits(bucket), form) for bucket in node_mgr.get_buckets())
        columns = self._columns(config, output_columns, "limits", form)
        self._print_nodes(rows, columns, form, long, node_mgr)
        check_cluster(node_mgr)

    def debug_cluster_status_parser(self, parser: ArgumentParser) -> None:
        """Options of debug_cluster_status."""
        parser.add_argument("--nodes", action="store_true", help="with all nodes")
        self._add_noted_format(parser, "json", ("json",))

    def debug_cluster_status(self, config: Config, nodes: bool = False) -> None:
        """Prints the status of the cluster as CycleCloud gives it, without its secrets."""
        status = new_cluster_bindings(config).get_cluster_status(nodes)
        json_dump(redact(status.to_dict()), sys.stdout)
        print()

    def validate_constraint_parser(self, parser: ArgumentParser) -> None:
        """Options of validate_constraint."""
        self._add_constraint_expr(parser)
        self._add_noted_format(parser, "json", ("json",))

    def validate_constraint(
        self,
        config: Config,
        constraint_expr: Sequence[str],
        writer: TextIO | None = None,
        quiet: bool = False,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Parses constraints; prints them as JSON, and on stderr in words."""
        merged = self._constraints(constraint_expr)
        constraints = self._understood(merged)
        if not quiet:
            for unknown in unknown_vm_sizes(merged, ""):
                warn("%s", unknown)
            for constraint in constraints:
                print(on_one_line(str(constraint)), file=sys.stderr)
        validated = merged[0] if len(merged) == 1 else merged
        writer = writer or sys.stdout
        json_dump(validated, writer)
        writer.write("\n")
        return validated

    def _prepared_node_mgr(self, config: Config) -> NodeManager:
        driver, config = self._prepared(config)
        return self._node_mgr(config, driver)


class _Offered:
    """A bucket as constraints see it, its limits among its resources, so that `-C` can ask for
    them. The bucket itself does not get them: no job can ask for a limit."""

    def __init__(self, bucket: NodeBucket, example_node: Node) -> None:
        self._bucket = bucket
        self.example_node = example_node
        self.resources = live_resources(example_node)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)

    def satisfies(self, constraint: NodeConstraint) -> bool:
        """Whether a new node of the bucket would do."""
        return bool(constraint.satisfied_by_bucket(cast(NodeBucket, self)))


def check_cluster(node_mgr: NodeManager) -> None:
    """AutoscaleError when the cluster offers nothing to start, or has other problems."""
    name = node_mgr.cluster_bindings.cluster_name
    problem = nothing_to_start(node_mgr) or "; ".join(node_mgr.problems)
    if not problem and not node_mgr.get_buckets():
        problem = "expected at least one nodearray, found none"
    if problem:
        raise AutoscaleError(f"cluster {name}: {problem}")


def _as_printed(row: Node, form: OutputFormat) -> Node:
    """A row of `_with_limits`; in a table to be read nothing stands for limits that there are
    not."""
    if form == "table":
        for known in (live_resources(row), row.available):
            known.update({name: "" for name in _COUNTS if known.get(name) == NO_SUCH_LIMIT})
    return row


def _with_limits(
    bucket: NodeBucket, held: str | None = None, weights: Weights | None = None
) -> Node:
    """A node to print in the place of a bucket: its example node, with the limits as resources, why
    it is held back, and the weight of its region, where regions have weights."""
    node = bucket.example_node.clone()
    resources = live_resources(node)
    resources.update(_counts(bucket.limits))
    resources["available_count"] = bucket.available_count  # under all limits together
    resources["backoff"] = held or ""
    if weights is not None:
        resources["region_weight"] = weights.get(str(bucket.location), 0)
    node.available.update(
        {name: resources[name] for name in resources if name not in node.available}
    )
    return node


_COUNTS = [name for name in dir(BucketLimits) if "count" in name and not name.startswith("_")]


def _counts(limits: BucketLimits) -> dict[str, int]:
    values = {name: getattr(limits, name) for name in _COUNTS}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _columns_of_limits(buckets: Iterable[NodeBucket]) -> list[str]:
    """The columns of `limits`: names of buckets, all their resources, and all their limits."""
    names = [name for bucket in buckets for name in bucket.resources]
    counts = [name for bucket in buckets for name in _counts(bucket.limits)]
    return list(dict.fromkeys([*_LIMITS_COLUMNS, *map(column_named, names), *counts]))


def _columns_of(config: Config, buckets: Iterable[NodeBucket]) -> list[str]:
    """The columns of `buckets`: as configured, or else names of buckets and their resources.

    Resources that give the same amount in another unit are left out.
    """
    configured = (config.get("output-columns") or {}).get("buckets")
    if configured:
        return list(configured)
    names = [name for bucket in buckets for name in bucket.resources if name not in _REPETITIVE]
    return list(dict.fromkeys([*_BUCKET_COLUMNS, *map(column_named, names)]))
