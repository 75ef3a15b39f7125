"""Commands that list nodes or act on them.

They are nodes, join_nodes, delete_nodes, remove_nodes, reimage_nodes, restart_nodes and
retry_failed_nodes.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.autoscaler.commanding import look_twice, removals_in_doubt
from hpc.autoscale.autoscaler.faults import Faults, call_with_up_to
from hpc.autoscale.autoscaler.leaving import Leaving
from hpc.autoscale.autoscaler.reading import Reading, Readings, StaleReading
from hpc.autoscale.cli.argtypes import warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.unknown import check_vm_sizes
from hpc.autoscale.errors import AutoscaleError, MistakenWord
from hpc.autoscale.explaining.words import listed
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.guards import GUARDS, OF_THE_SITE, Asker, Command, in_words, key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.operations import REFUSALS, retry_failed
from hpc.autoscale.onpremises.listing import is_on_premises
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.results import NodeOperationResult, why_failed


class _Insist(Action):
    """The option `--force` of commands whose signature is published without it.

    Integrations override these commands, so the option is none of their arguments: it is noted on
    the command line object instead.
    """

    def __init__(self, option_strings: Sequence[str], command_line: NodeCommands, **known: Any):
        super().__init__(option_strings, **{**known, "dest": SUPPRESS, "nargs": 0})
        self._command_line = command_line

    def __call__(self, *_: object, **__: object) -> None:
        self._command_line._insists = True


class NodeCommands(CommandLine):
    """Commands on nodes that exist."""

    _insists = False

    def nodes_parser(self, parser: ArgumentParser) -> None:
        """Options of nodes."""
        self._add_output_columns(parser)
        self._add_output_format(parser)
        self._add_constraint_expr(parser)

    def nodes(
        self,
        config: Config,
        constraint_expr: Sequence[str],
        output_columns: Sequence[str] | None = None,
        output_format: OutputFormat | None = None,
        long: bool = False,
    ) -> None:
        """Lists the nodes, all or those that satisfy constraints."""
        given = self._constraints(constraint_expr)
        constraints = self._understood(given)
        driver, config = self._prepared(config)
        calculator, _ = call_with_up_to(self._demand_calc, config, driver)
        buckets = calculator.node_mgr.get_buckets()
        check_vm_sizes(given, "", buckets)
        every = calculator.finish().compute_nodes
        Leaving(calculator.node_history, every, Faults())  # writes how far they are
        self._doubt_constraints(given, every, calculator.node_mgr)
        nodes = [n for n in every if all(c.satisfied_by_node(n) for c in constraints)]
        self._say_if_nothing(nodes, constraints, every)
        columns = self._columns(config, output_columns, "nodes", output_format)
        if not output_columns and any("drain" in node.metadata for node in nodes):
            columns = list(dict.fromkeys([*columns, "drain"]))
        self._print_nodes(nodes, columns, output_format, long, calculator.node_mgr)

    def join_nodes_parser(self, parser: ArgumentParser) -> None:
        """Options of join_nodes."""
        parser.set_defaults(read_only=False)
        self._add_hostnames(parser)
        self._add_nodenames(parser)
        parser.add_argument(
            "--include-permanent",
            action="store_true",
            help="also nodes that were removed for good",
        )

    def join_nodes(
        self,
        config: Config,
        hostnames: Sequence[str],
        node_names: Sequence[str],
        include_permanent: bool = False,
    ) -> None:
        """Adds nodes to the scheduler."""
        _one_of(hostnames, node_names)
        driver, calculator, nodes = self._find_nodes(config, hostnames, node_names)
        _refuse_doubtful(calculator.node_mgr, nodes)
        if include_permanent:
            self._node_history(config).unmark_ignored(nodes)
        permanent = (True,) if include_permanent else ()
        joined = hooks.ask_for_nodes(driver.add_nodes_to_cluster, nodes, *permanent)
        print("Joined the following nodes:")
        _print_indented(joined)
        if left := _others(nodes, joined):
            raise AutoscaleError(f"the driver did not let in {', '.join(left)}")

    def delete_nodes_parser(self, parser: ArgumentParser) -> None:
        """Options of delete_nodes."""
        self._leaving_options(parser, "also nodes that have jobs or are about to get some")

    def _leaving_options(self, parser: ArgumentParser, what_is_forced: str) -> None:
        parser.set_defaults(read_only=False)
        self._add_hostnames(parser)
        self._add_nodenames(parser)
        parser.add_argument("--force", action="store_true", help=what_is_forced)

    def delete_nodes(
        self,
        config: Config,
        hostnames: Sequence[str],
        node_names: Sequence[str],
        force: bool = False,
    ) -> None:
        """Drains nodes, shuts them down and removes them from the scheduler."""
        self._let_go(config, hostnames, node_names, force=force)

    def remove_nodes_parser(self, parser: ArgumentParser) -> None:
        """Options of remove_nodes."""
        self._leaving_options(parser, "also nodes that have jobs or are to be kept")
        parser.add_argument(
            "--permanent", action="store_true", help="do not let them join again later"
        )

    def remove_nodes(
        self,
        config: Config,
        hostnames: Sequence[str],
        node_names: Sequence[str],
        force: bool = False,
        permanent: bool = False,
    ) -> None:
        """Removes nodes from the scheduler, and leaves them running."""
        self._let_go(config, hostnames, node_names, False, force, permanent)

    def _let_go(
        self,
        config: Config,
        hostnames: Sequence[str],
        node_names: Sequence[str],
        do_delete: bool = True,
        force: bool = False,
        permanent: bool = False,
    ) -> None:
        _one_of(hostnames, node_names)
        driver, calculator, nodes = self._find_nodes(config, hostnames, node_names)
        nodes = _without_those_of_the_site(nodes, hostnames, node_names)
        if do_delete:
            _refuse_kept(nodes)
        self._ask("drain", nodes, calculator.node_mgr, force)
        if force:
            _check_reachable("delete" if do_delete else "drain", nodes, calculator.node_mgr)
        else:
            doing = "Delete" if do_delete else "Remove"
            _confirm(doing, hostnames, node_names, calculator.node_mgr, len(nodes))
        read_before = Readings()
        read_before.remember(hooks.read(driver, config), hooks.ask(driver.reading_stamp))
        leaving, left = self._drain(driver, nodes, force)
        if leaving and not force:
            leaving, spared = self._look_again(config, driver, calculator, read_before, leaving)
            left += [f"left alone, and drained: {'; '.join(spared)}"] if spared else []
        if do_delete and leaving:
            leaving, refused = _delete(driver, calculator, leaving)
            left += [f"some nodes could not be deleted: {refused}"] if refused else []
        if permanent:
            self._node_history(config).mark_ignored(leaving)
        removed = hooks.ask_for_nodes(driver.handle_post_delete, leaving)
        place = self._place_of_nodes()
        print(f"Removed the following nodes{place and f' from {place}'}:")
        _print_indented(removed)
        if not do_delete and (kept := _others(leaving, removed)):
            left.append(f"the driver did not remove {', '.join(kept)}")
        if left:
            raise AutoscaleError("; ".join(left))

    def _place_of_nodes(self) -> str:
        """What nodes are removed from, in words for the user; empty where there is no scheduler."""
        return self.project_name

    def _ask(
        self, command: Command, nodes: Sequence[Node], node_mgr: NodeManager, insists: bool
    ) -> None:
        """AutoscaleError when the gate refuses a command for a node, unless the user insists.

        Who insists is asked nothing about the node's work from here on. Hosts on premises are
        refused in any case. Where insisting would not help, it is not offered.
        """
        for node in filter(is_on_premises, nodes):
            raise AutoscaleError(f"node {node.name} {OF_THE_SITE} [NotManaged]")
        if insists:
            return
        gate = node_mgr.gate
        gate.facts.asker, gate.facts.work = Asker.PERSON, self._work.on
        _, refused = gate.ask(
            command, [node for node in nodes if node.managed or command == "drain"]
        )
        for refusal in refused:
            if Asker.CALLER in GUARDS[refusal.guard].askers:
                raise AutoscaleError(f"nothing was done: {refusal}")
            node, _, _, code, text, _ = refusal
            raise AutoscaleError(
                f"node {node.name} {text} (--force to do it nevertheless) [{code}]"
            )

    def _drain(
        self, driver: SchedulerDriver, nodes: list[Node], force: bool
    ) -> tuple[list[Node], list[str]]:
        """Drain nodes; those that may go, which are all of them with `force`, and a sentence about
        others."""
        drained = hooks.ask_for_nodes(driver.handle_draining, nodes)
        print("Drained the following nodes:")
        _print_indented(drained)
        if force:
            return nodes, []
        busy = _others(nodes, drained)
        return drained, [f"left alone, as still draining: {', '.join(busy)}"] if busy else []

    def _look_again(
        self,
        config: Config,
        driver: SchedulerDriver,
        calculator: DemandCalculator,
        read_before: Readings,
        drained: Sequence[Node],
    ) -> tuple[list[Node], list[str]]:
        """Who may still go now that draining is done, and in words why others may not.

        Scheduler and cluster are asked again, as the loop does it: work may have started between
        the first look and the drain. AutoscaleError when either does not answer. A driver that can
        only hand over what it had before is told in the log, and its word for the nodes that it
        drained counts: unlike the loop, somebody watches.
        """
        faults, gone = Faults(), calculator.node_history.gone()

        def read_again() -> Reading:
            try:
                return read_before.read_for_deletion(driver, config, lambda: self._prepared(config))
            except StaleReading as stale:
                logging.warning("%s", stale)
                return hooks.read(driver, config)

        free, _ = look_twice(calculator, read_again, gone, drained, faults, command="drain")
        if faults.found:
            raise AutoscaleError(
                f"{faults.found[0]}: nothing was deleted, and {', '.join(n.name for n in drained)}"
                " stay drained"
            )
        kept = set(map(key_of, drained)) - set(map(key_of, free))
        refused = calculator.node_mgr.gate.refused.values()
        return free, in_words(r for r in refused if key_of(r.node) in kept)

    def reimage_nodes_parser(self, parser: ArgumentParser) -> None:
        """Options of reimage_nodes."""
        parser.set_defaults(read_only=False)
        self._add_hostnames(parser)
        self._add_nodenames(parser)
        parser.add_argument(
            "--force", action=_Insist, command_line=self, help="also nodes that have jobs"
        )

    def reimage_nodes(
        self, config: Config, hostnames: Sequence[str], node_names: Sequence[str]
    ) -> None:
        """Gives nodes a fresh disk and starts them again."""
        nodes, node_mgr = self._to_start_afresh("reimage", config, hostnames, node_names)
        _report("Reimaging", node_mgr.reimage_nodes(nodes))

    def restart_nodes_parser(self, parser: ArgumentParser) -> None:
        """Options of restart_nodes."""
        self.reimage_nodes_parser(parser)

    def restart_nodes(
        self, config: Config, hostnames: Sequence[str], node_names: Sequence[str]
    ) -> None:
        """Restarts nodes."""
        nodes, node_mgr = self._to_start_afresh("restart", config, hostnames, node_names)
        _report("Restarting", node_mgr.restart_nodes(nodes))

    def _to_start_afresh(
        self,
        command: Command,
        config: Config,
        hostnames: Sequence[str],
        node_names: Sequence[str],
    ) -> tuple[list[Node], NodeManager]:
        """The nodes of CycleCloud that are meant, to be reimaged or restarted.

        AutoscaleError when one of them has jobs, is about to get some or is required, unless the
        user insists.
        """
        _one_of(hostnames, node_names)
        _, calculator, nodes = self._find_nodes(config, hostnames, node_names)
        nodes = _without_those_of_the_site(nodes, hostnames, node_names)
        self._ask(command, nodes, calculator.node_mgr, self._insists)
        if not self._insists:
            _confirm(command.capitalize(), hostnames, node_names, calculator.node_mgr, len(nodes))
        return _of_cyclecloud(nodes), calculator.node_mgr

    def retry_failed_nodes_parser(self, parser: ArgumentParser) -> None:
        """Options of retry_failed_nodes."""
        parser.set_defaults(read_only=False)

    def retry_failed_nodes(self, config: Config) -> None:
        """Retries all nodes that failed."""
        driver, config = self._prepared(config)
        self._take_lock(config, driver)
        node_mgr = self._node_mgr(config, driver)
        node_mgr.gate.facts.asker = Asker.PERSON
        refused = retry_failed(
            node_mgr.cluster_bindings, node_mgr.get_failed_nodes(), node_mgr.gate
        )
        if refused:
            raise AutoscaleError(f"nothing was retried: {'; '.join(in_words(refused))}")


def _one_of(hostnames: Sequence[str] | None, node_names: Sequence[str] | None) -> None:
    if not hostnames and not node_names:
        raise MistakenWord("expected host names (-H) or node names (-N), found neither")


def _are_all(hostnames: Sequence[str] | None, node_names: Sequence[str] | None) -> bool:
    """Whether a user means all nodes."""
    return ["*"] in (list(hostnames or ()), list(node_names or ()))


def _without_those_of_the_site(
    nodes: list[Node], hostnames: Sequence[str] | None, node_names: Sequence[str] | None
) -> list[Node]:
    """The nodes without hosts on premises where all are meant, which is said on stderr. One that is
    named is left in, to be refused."""
    hosts = list(filter(is_on_premises, nodes))
    if not hosts or not _are_all(hostnames, node_names):
        return nodes
    names = listed([str(node.name) for node in hosts])
    warn("hosts on premises are left alone, since the loop starts and stops them: %s", names)
    return [node for node in nodes if not is_on_premises(node)]


def _refuse_doubtful(node_mgr: NodeManager, nodes: Sequence[Node]) -> None:
    """AutoscaleError when one of the nodes may be removed at any moment."""
    doubtful = set(map(key_of, removals_in_doubt(node_mgr)))
    names = [node.name for node in nodes if key_of(node) in doubtful]
    if names:
        raise AutoscaleError(
            f"{', '.join(names)}: nobody knows whether a request to remove "
            f"{'it' if len(names) == 1 else 'them'} still arrives, so no work should start there;"
            " the next pass finds out, and `azscale requests` lists it"
        )


def _of_cyclecloud(nodes: Sequence[Node]) -> list[Node]:
    """The nodes that CycleCloud knows; others are named on stderr.

    AutoscaleError when there are others and CycleCloud knows none.
    """
    known = [node for node in nodes if node.managed]
    strangers = [node.hostname_or_uuid for node in nodes if not node.managed]
    if strangers and not known:
        raise AutoscaleError(f"CycleCloud has no node with the host name {', '.join(strangers)}")
    if strangers:
        warn("CycleCloud has no node with the host name %s", ", ".join(strangers))
    return known


def _refuse_kept(nodes: Sequence[Node]) -> None:
    """AutoscaleError when one of the nodes is to be kept alive: CycleCloud would not delete it,
    whoever insists. Nothing was drained then."""
    for node in nodes:
        if node.managed and node.keep_alive:
            raise AutoscaleError(
                f"node {node.name} is to be kept alive, and CycleCloud does not delete such nodes,"
                " also not with --force: clear KeepAlive of the node first [KeepAlive]"
            )


def _others(nodes: Iterable[Node], done: Iterable[Node]) -> list[str]:
    """Names and states of the nodes that are not among these."""
    keys = set(map(key_of, done))
    return [f"{node.name} ({node.state})" for node in nodes if key_of(node) not in keys]


def _delete(
    driver: SchedulerDriver, calculator: DemandCalculator, drained: list[Node]
) -> tuple[list[Node], str]:
    """Delete drained nodes: those that go, and why others do not.

    Nodes that CycleCloud refused to delete are undrained. AutoscaleError when it refused all.
    """
    try:
        result = calculator.delete(drained)
    except REFUSALS:
        _undrain(driver, drained)
        raise
    accepted = set(map(key_of, result.nodes or ()))
    stay = [n for n in drained if n.managed and key_of(n) not in accepted] if result.reasons else []
    # what becomes of those whose answer was lost is not known
    in_doubt = set(map(key_of, removals_in_doubt(calculator.node_mgr)))
    _undrain(driver, [node for node in stay if key_of(node) not in in_doubt])
    if not result:
        raise AutoscaleError(f"the nodes could not be deleted: {why_failed(result)}")
    print("Deleting the following nodes:")
    _print_indented(result.nodes)
    left = set(map(key_of, stay))
    return [n for n in drained if key_of(n) not in left], why_failed(result) if stay else ""


def _undrain(driver: SchedulerDriver, nodes: list[Node]) -> None:
    """Let nodes take work again that were drained for nothing, where the driver can do that.

    Others, and those that it does not let in, are named on stderr.
    """
    faults, back = Faults(), []
    own = getattr(type(driver), "handle_undraining", None)
    if nodes and own is not None and own is not SchedulerDriver.handle_undraining:
        back = faults.nodes("undraining nodes", driver, "handle_undraining", nodes)
        print("Undrained the following nodes:")
        _print_indented(back)
    returned = set(map(key_of, back))
    if names := [node.name for node in nodes if key_of(node) not in returned]:
        why = "".join(f" ({found})" for found in faults.found)
        warn("Drained, and not deleted; `join_nodes` lets them in: %s%s", ", ".join(names), why)


def _check_reachable(command: Command, nodes: Sequence[Node], node_mgr: NodeManager) -> None:
    """AutoscaleError when CycleCloud could not be told to do that with one of the nodes, whatever
    runs there; nothing was drained then."""
    refused = node_mgr.gate.ask(command, [node for node in nodes if node.managed]).refused
    if refused:
        raise AutoscaleError(f"nothing was done: {'; '.join(in_words(refused))}")


def _confirm(
    doing: str,
    hostnames: Sequence[str] | None,
    node_names: Sequence[str] | None,
    node_mgr: NodeManager,
    count: int,
) -> None:
    """Ask the user before something is done to all nodes; AutoscaleError unless the answer is yes.

    Where stdin is no terminal nobody is asked.
    """
    if not _are_all(hostnames, node_names) or not (sys.stdin and sys.stdin.isatty()):
        return
    cluster = node_mgr.cluster_bindings.cluster_name
    said = "the only node" if count == 1 else f"all {count} nodes"
    print(f"{doing} {said} of {cluster}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise AutoscaleError("nothing was done")


def _report(doing: str, result: NodeOperationResult) -> None:
    if not result:
        raise AutoscaleError(f"{doing.lower()} the nodes failed: {why_failed(result)}")
    print(f"{doing} the following nodes:")
    _print_indented(result.nodes)


def _print_indented(nodes: Iterable[Any] | None) -> None:
    for node in nodes or []:
        print(f"    {on_one_line(str(node))}", file=sys.stdout)
