"""The command create_nodes: start nodes by hand, through the allocation that jobs go through."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hpc.autoscale.autoscaler.learning import stopping_limits
from hpc.autoscale.ccbindings.creation_sets import plain_name
from hpc.autoscale.ccbindings.modelbase import check_of_nodes
from hpc.autoscale.cli.argtypes import json_type
from hpc.autoscale.cli.base import CommandLine, Config, begin_to_boot
from hpc.autoscale.cli.cluster import check_cluster
from hpc.autoscale.cli.completion import completed_by
from hpc.autoscale.cli.unknown import check_is_read, check_vm_sizes, why_unusable
from hpc.autoscale.config.clusters import qualified, split_name
from hpc.autoscale.config.naming import group_or_none, is_placement_group
from hpc.autoscale.errors import AutoscaleError, MistakenWord, did_you_mean
from hpc.autoscale.explaining.limit_words import reason_in_words
from hpc.autoscale.explaining.refusals import limits_of_bucket
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import get_constraints
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.operations import where
from hpc.autoscale.redaction import redact
from hpc.autoscale.results import AllocationResult, BootupResult, why_failed

_NUMBERED = re.compile(r"[^%]*%\d{0,2}d[^%]*")


class CreationCommands(CommandLine):
    """The command create_nodes."""

    def create_nodes_parser(self, parser: ArgumentParser) -> None:
        """Options of create_nodes."""
        parser.set_defaults(read_only=False)
        add = parser.add_argument
        add("--keep-alive", "-k", action="store_true", help="never delete them for being idle")
        add("--nodes", "-n", type=int, help="how many nodes (1 unless slots are given)")
        add("--slots", "-s", type=int, help="how many slots; as many nodes as hold them")
        completed_by(
            self._complete_nodearrays, add("--nodearray", "-a", help="only of this nodearray")
        )
        completed_by(self._complete_vm_sizes, add("--vm-size", "-v", help="only of this VM size"))
        add("--placement-group", "-p", help="in this placement group, made if there is none")
        add("--name-format", help="how nodes are named, as in web-%%d")
        add(
            "--software-configuration",
            "-S",
            type=json_type,
            help="the nodes' Configuration: a JSON file, or JSON",
        )
        add(
            "--node-attribute-overrides",
            "-O",
            type=json_type,
            help="attributes of the nodes: a JSON file, or JSON",
        )
        self._add_constraint_expr(parser)
        add("--dry-run", "-d", action="store_true", help="say what would be created")
        add("--exclusive", "-x", action="store_true", help="one job per node")
        add("--exclusive-task", "-X", action="store_true", help="one task per node")
        self._add_output_columns(parser)
        self._add_output_format(parser)
        add("--strategy", "-t", choices=["pack", "scatter"], help="accepted, and of no effect")

    def create_nodes(
        self,
        config: Config,
        keep_alive: bool = False,
        nodes: int | None = None,
        slots: int | None = None,
        nodearray: str | None = None,
        vm_size: str | None = None,
        placement_group: str | None = None,
        name_format: str | None = None,
        software_configuration: dict[str, Any] | None = None,
        node_attribute_overrides: dict[str, Any] | None = None,
        constraint_expr: Sequence[str] = (),
        dry_run: bool = False,
        exclusive: bool = False,
        exclusive_task: bool = False,
        output_format: OutputFormat | None = None,
        output_columns: Sequence[str] | None = None,
        long: bool = False,
        strategy: str | None = None,
    ) -> None:
        """Creates nodes, by number or for a number of slots; all of them, or none."""
        _check_numbers(nodes, slots)
        overrides = _overrides(software_configuration, node_attribute_overrides)
        driver, config = self._prepared({**config, "read_only": True} if dry_run else config)
        if placement_group and is_placement_group(placement_group):
            _offer_placement_group(config, nodearray, placement_group)
        self._take_lock(config, driver)
        node_mgr = self._node_mgr(config, driver)
        _check_group(node_mgr, placement_group)
        if node_mgr.holds is not None:
            node_mgr.holds.lift()  # somebody asks for it
        if dry_run and name_format:
            _name_by(node_mgr, name_format, is_one=(slots or nodes or 1) == 1)
        _check_offer(node_mgr, nodearray, vm_size)
        given = self._constraints(constraint_expr)
        self._understood(given)
        buckets = node_mgr.get_buckets()
        check_vm_sizes(given, "", buckets)
        self._doubt_constraints(given, (), node_mgr)
        wanted = _wish(nodearray, vm_size, placement_group, exclusive, exclusive_task)
        # one task per node makes as many nodes as there are slots
        by_slots = slots if slots and not exclusive_task else None
        planned = _plan(node_mgr, [*given, wanted], slots or nodes or 1, by_slots)
        for node in planned:
            node.name_format = name_format
            node.keep_alive = keep_alive
            node.node_attribute_overrides.update(overrides)
        begin_to_boot(planned, config)
        columns = self._columns(config, output_columns, "create_nodes", output_format)
        self._check_columns(DemandResult([], planned, [], [], buckets))
        if dry_run:
            self._print_nodes(planned, columns, output_format, long, node_mgr)
            return
        booted = _boot(node_mgr, planned)
        created = booted.nodes or []
        self._print_nodes(created, columns, output_format, long, node_mgr)
        if len(created) < len(planned):
            why = "; ".join(booted.reasons) or "CycleCloud gave no reason"
            raise AutoscaleError(f"only {len(created)} of {len(planned)} nodes were created: {why}")


def _check_group(node_mgr: NodeManager, placement_group: str | None) -> None:
    """MistakenWord for what can be no placement group, and is none of the cluster."""
    if any(placement_group == each.placement_group for each in node_mgr.get_buckets()):
        return
    try:
        group_or_none(placement_group, "--placement-group")
    except AutoscaleError as error:
        raise MistakenWord(*error.args) from None


def _name_by(node_mgr: NodeManager, name_format: str, is_one: bool) -> None:
    """Let planned nodes have the names that a server would give them, which is not asked: by a
    format with a number in it, or by one without for one node. No server takes other formats."""
    if _NUMBERED.fullmatch(name_format) or (is_one and plain_name(name_format)):
        node_mgr.set_node_name_hook(partial(_name_of_format, split_name(name_format)[1]))


def _name_of_format(name_format: str, bucket: NodeBucket, index: int) -> str:
    """The name that a server gives to the how-manieth node by a format."""
    cluster = split_name(bucket.nodearray)[0]
    name = plain_name(name_format) or name_format % index
    return qualified(cluster, name) if cluster else name


def _check_numbers(nodes: int | None, slots: int | None) -> None:
    if nodes is not None and slots is not None:
        raise MistakenWord("expected either --nodes or --slots, found both")
    for option, number in (("--nodes", nodes), ("--slots", slots)):
        if number is not None and number < 1:
            raise MistakenWord(f"{option}: expected 1 or more, found {number}")


def _wish(
    nodearray: str | None,
    vm_size: str | None,
    placement_group: str | None,
    exclusive: bool,
    exclusive_task: bool,
) -> dict[str, Any]:
    """The constraint that the options of a command stand for: new nodes, and of which kind."""
    return {
        "node.exists": False,
        **({"exclusive": True} if exclusive else {}),
        **({"exclusive-task": True} if exclusive_task else {}),
        **({"node.nodearray": nodearray} if nodearray else {}),
        **({"node.vm_size": vm_size} if vm_size else {}),
        "node.placement_group": placement_group or None,
    }


def _plan(
    node_mgr: NodeManager, constraints: list[dict[str, Any]], wanted: int, slots: int | None
) -> list[Node]:
    """New nodes, planned: as many as have `slots` slots in all, or `wanted` nodes.

    AutoscaleError when there cannot be as many.
    """
    result = node_mgr.allocate(
        constraints,
        node_count=None if slots else wanted,
        slot_count=slots,
        allow_existing=False,
        assignment_id="create_nodes()",
    )
    if result and result.total_slots >= wanted:
        return result.nodes
    why = _why_too_few(node_mgr, constraints, result, wanted)
    place = where(node_mgr.cluster_bindings)
    if not result:
        raise AutoscaleError(f"{place}: no nodes can be created: {why}")
    what = "slots can be had" if slots else "nodes can be created"
    raise AutoscaleError(
        f"{place}: only {result.total_slots} of {wanted} {what}, and none was created: {why}"
    )


def _why_too_few(
    node_mgr: NodeManager,
    constraints: list[dict[str, Any]],
    result: AllocationResult,
    wanted: int,
) -> str:
    """Which limits keep what was planned from being as many nodes, or slots, as were wanted. What
    was planned takes nothing of them any more."""
    asked = get_constraints(constraints)
    buckets = [b for b in node_mgr.get_buckets() if all(c.satisfied_by_bucket(b) for c in asked)]
    # where nodes could be but for the limits, those say enough
    full = [bucket for bucket in buckets if stopping_limits(bucket)]
    by_place = {(bucket.bucket_id, bucket.placement_group): bucket for bucket in buckets}
    for node in result.nodes:
        by_place[node.bucket_id, node.placement_group].limits.release(1)
    needed = max(1, -(-wanted * len(result.nodes) // max(1, result.total_slots)))
    said: dict[object, str] = {}
    for bucket in full:
        for limit in limits_of_bucket(bucket, needed):
            said.setdefault(limit.key, limit.text)
    return "; ".join(said.values()) or reason_in_words(why_failed(result))


def _offer_placement_group(config: Config, nodearray: str | None, placement_group: str) -> None:
    section = config.setdefault("nodearrays", {}).setdefault(nodearray or "default", {})
    groups = section.setdefault("placement_groups", [])
    if placement_group not in groups:
        groups.append(placement_group)


def _check_offer(node_mgr: NodeManager, nodearray: str | None, vm_size: str | None) -> None:
    """MistakenWord when the cluster has not the nodearray or the VM size, AutoscaleError when it
    offers nothing, or has it and nobody can use it.
    """
    if not node_mgr.get_buckets():
        check_cluster(node_mgr)
    cluster = f"cluster {node_mgr.cluster_bindings.cluster_name}"
    buckets = node_mgr.get_buckets()
    arrays = dict.fromkeys(bucket.nodearray for bucket in buckets)
    if nodearray and nodearray not in arrays:
        check_is_read(nodearray, node_mgr)
        about = f"nodearray {nodearray}: "
        known = [p.removeprefix(about) for p in node_mgr.problems if p.startswith(about)]
        known += why_unusable(node_mgr, "nodearray", nodearray)
        if known:
            raise AutoscaleError(f"{cluster}, {about}{'; '.join(known)}")
        raise MistakenWord(
            f"{cluster} has no nodearray {nodearray!r}: expected one of"
            f" {', '.join(arrays) or 'none'}{did_you_mean(nodearray, arrays)}"
        )
    sizes = dict.fromkeys(b.vm_size for b in buckets if nodearray in (None, b.nodearray))
    if vm_size and vm_size not in sizes:
        where = f"{cluster}, nodearray {nodearray}" if nodearray else cluster
        if known := why_unusable(node_mgr, "vm_size", vm_size, nodearray):
            raise AutoscaleError(f"{where}: {'; '.join(known)}")
        raise MistakenWord(
            f"{where} has no VM size {vm_size!r}: expected one of"
            f" {', '.join(sizes) or 'none'}{did_you_mean(vm_size, sizes)}"
        )


def _overrides(
    software_configuration: dict[str, Any] | None, attributes: dict[str, Any] | None
) -> dict[str, Any]:
    """The attributes of the nodes, the software configuration among them. MistakenWord when one of
    them is no object, or cannot be an attribute."""
    _check_object("--software-configuration", software_configuration)
    _check_object("--node-attribute-overrides", attributes)
    overrides = dict(attributes or {})
    _check_object("--node-attribute-overrides: Configuration", overrides.get("Configuration"))
    if software_configuration:
        overrides["Configuration"] = {
            **(overrides.get("Configuration") or {}),
            **software_configuration,
        }
    try:
        check_of_nodes(overrides)
    except ValueError as error:
        raise MistakenWord(f"attributes of the nodes: {error}") from None
    return overrides


def _check_object(where: str, found: object) -> None:
    if found is not None and not isinstance(found, Mapping):
        raise MistakenWord(f"{where}: expected an object, found {_shown(found)}")


def _shown(found: object) -> str:
    text = json.dumps(redact(found), default=repr)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _boot(node_mgr: NodeManager, nodes: list[Node]) -> BootupResult[Node]:
    result = node_mgr.bootup(nodes)
    if not result:
        raise AutoscaleError(f"the nodes could not be created: {why_failed(result)}")
    return result
