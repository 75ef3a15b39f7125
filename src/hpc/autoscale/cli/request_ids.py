"""The command requests: creates and removals whose outcome is not known, and how to drop them.

Only `azscale` has it. What is kept, and what a pass makes of it, is in `node/requests`.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Collection, Mapping, Sequence

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import learning
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.cli.argtypes import CommandLineError, str_list, warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import table_width
from hpc.autoscale.clock import in_utc
from hpc.autoscale.config.clusters import members_of, split_name
from hpc.autoscale.errors import AutoscaleError, CycleCloudError, counted, did_you_mean
from hpc.autoscale.explaining.words import in_time
from hpc.autoscale.node.operations import is_known
from hpc.autoscale.node.requests import Removal, RequestLog, Sent, is_elsewhere, is_old
from hpc.autoscale.tables import OutputFormat, print_rows

_COLUMNS = ["request_id", "command", "node", "begun", "sender", "state", "server"]
# of a table that fits on a screen
_SHORT = ["request_id", "command", "node", "age", "state", "server"]


class RequestIdCommands(CommandLine):
    """The command requests."""

    def requests_parser(self, parser: ArgumentParser) -> None:
        """Options of requests."""
        add = parser.add_argument
        parser.set_defaults(read_only=False)
        add("action", nargs="?", choices=["list", "drop"], help="drop: forget some (default list)")
        add("--ids", type=str_list, default=[], help="only these request ids")
        add("--old", action="store_true", help="only those of an hour ago and before")
        add("--ask", action="store_true", help="ask the server about creates, too")
        add("--force", action="store_true", help="drop also what may still be under way")
        add("--long", "-l", action="store_true", help="a table of all that is known, and whole")
        self._add_output_format(parser)

    def requests(
        self,
        config: Config,
        action: str | None = None,
        ids: Sequence[str] = (),
        old: bool = False,
        ask: bool = False,
        force: bool = False,
        output_format: OutputFormat | None = None,
        long: bool = False,
    ) -> None:
        """Lists creates and removals of which nobody knows whether they happened, or drops some."""
        driver, config = self._with_driver(config)
        config = learning.with_requests_file(config, driver)
        if action == "drop":
            if not ids and not old:
                raise CommandLineError("requests drop: expected --ids or --old, found neither")
            self._take_lock(config, driver)
        path = config.get("requests_file")
        if not path:
            raise AutoscaleError(
                "requests_file: expected a file that keeps requests, found none, nor a directory of"
                " the node history to have it in"
            )
        log = RequestLog(path)
        every: list[Sent | Removal] = [*log.creates, *log.removals]
        found = _chosen(every, ids, old)
        if action == "drop":
            _drop(log, found, force)
        bindings = new_cluster_bindings(config) if ask else None
        names = [name for name, _ in members_of(config)]
        answers = {one.request_id: _asked(bindings, one, names) for one in found if bindings}
        if long or (output_format or "table") != "table":
            rows = [_row(one, answers) for one in found]
            print_rows(_COLUMNS, rows, sys.stdout, output_format or "table")
        else:
            columns = _SHORT if ask else _SHORT[:-1]
            rows = [_short_row(one, answers)[: len(columns)] for one in found]
            print_rows(columns, rows, sys.stdout, "table", table_width())


def _chosen(every: Sequence[Sent | Removal], ids: Sequence[str], old: bool) -> list[Sent | Removal]:
    known = {one.request_id for one in every}
    for request_id in ids:
        if request_id not in known:
            guess = did_you_mean(request_id, known)
            raise AutoscaleError(
                f"requests: expected an id that is kept, found {request_id!r}{guess}"
            )
    return [one for one in every if (not ids or one.request_id in ids) and (not old or is_old(one))]


def _drop(log: RequestLog, found: Sequence[Sent | Removal], force: bool) -> None:
    """All of them, or none: AutoscaleError when one may be under way, unless the user insists."""
    for one in found:
        if is_elsewhere(one) and not force:
            raise AutoscaleError(
                f"request {one.request_id} may be under way, from {one.sender}"
                " (--force to drop it nevertheless)"
            )
    log.forget_removals([one for one in found if isinstance(one, Removal)])
    for one in found:
        if isinstance(one, Sent):
            log.settle(one.request_id)
    warn("dropped: %s", counted(len(found), "request"))


def _row(one: Sent | Removal, answers: Mapping[str, str | None]) -> list[str | None]:
    """What is known of a request, by `_COLUMNS`."""
    request_id, command, node, _, state, server = _short_row(one, answers)
    return [request_id, command, node, in_utc(one.begun), str(one.sender), state, server]


def _short_row(one: Sent | Removal, answers: Mapping[str, str | None]) -> list[str | None]:
    """What is known of a request, by `_SHORT`."""
    return [
        one.request_id,
        one.command if isinstance(one, Removal) else "create_nodes",
        one.name if isinstance(one, Removal) else None,
        in_time(clock.time() - one.begun),
        _state(one),
        answers.get(one.request_id),
    ]


def _state(one: Sent | Removal) -> str:
    if is_old(one):
        return "old"
    if is_elsewhere(one):
        return "under way"
    return "called off" if isinstance(one, Removal) and one.called_off else "in doubt"


def _asked(
    bindings: ClusterBindingInterface, one: Sent | Removal, clusters: Collection[str]
) -> str | None:
    """What the server knows of a create; None for a removal, of which it cannot be asked.

    `clusters`: the names of those of the configuration, where there are several. A cluster that was
    taken out of it is not asked.
    """
    if isinstance(one, Removal):
        return None
    try:
        known = is_known(bindings, one.request_id)
    except CycleCloudError as error:
        return f"cannot be asked: {error}"
    cluster, _ = split_name(one.request_id)
    if not known and cluster and cluster not in clusters:
        return f"not asked: the configuration has no cluster {cluster}"
    return "carried out" if known else "does not know it"
