"""The part of a pass that starts and stops workers on premises.

A host is in every pass a node that exists. Once demand is known, the workers of hosts that work was
placed on are started; those of hosts that were idle for long enough are drained and stopped, past
the same gate as nodes of the cloud. What fails is reported, rests, and keeps no other host waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.commands import Ran
from hpc.autoscale.config.reported_hosts import reports_idle_hosts
from hpc.autoscale.errors import counted, one_line
from hpc.autoscale.node.node import Node
from hpc.autoscale.onpremises.hosts import OnPremisesHost, hosts_of
from hpc.autoscale.onpremises.listing import is_on_premises
from hpc.autoscale.onpremises.workers import (
    BEGIN_WITHIN,
    RUN_EACH,
    STATES_FILE,
    HostState,
    HostStatesError,
    Workers,
)
from hpc.autoscale.plaintext import shorten

Command = Callable[[Iterable[OnPremisesHost]], dict[str, Ran]]


class HostsOfPass:
    """The hosts of one pass, of the configuration that it has."""

    def __init__(self, config: Mapping[str, Any], faults: Faults) -> None:
        path = config.get(STATES_FILE)
        listed = hosts_of(config) if path else ()
        self._hosts = {host.name: host for host in listed if host.is_commanded}
        self._workers = Workers(str(path), run=config.get(RUN_EACH))
        self._faults = faults
        self._expects_idle = reports_idle_hosts(config)

    def __bool__(self) -> bool:
        """Whether there are any whose workers are started here."""
        return bool(self._hosts)

    def start(
        self, nodes: Iterable[Node], reported: set[str], patience: Callable[[Node], float]
    ) -> list[Node]:
        """Start the workers of nodes that work was placed on, where they are not up; the nodes
        whose workers were started.

        One that counts as up is started again when the scheduler has not reported its host for
        `patience` seconds, and rests when that was in vain. `reported`: names of the hosts that it
        reports.
        """
        by_name = {str(node.name): node for node in nodes if self._is_commanded(node)}
        heard = [self._hosts[name] for name in by_name if name in reported]
        wanted = {name: node for name, node in by_name.items() if node.required}
        if not by_name:
            return []

        def is_missing(host: OnPremisesHost, state: HostState) -> bool:
            age = clock.time() - state.since
            return host.name not in reported and not 0 <= age <= patience(wanted[host.name])

        def find() -> list[OnPremisesHost]:
            self._workers.bring_back()
            if heard:
                self._workers.note_heard(heard)
            due = self._workers.to_start([self._hosts[name] for name in wanted], is_missing)
            resting = self._workers.note_silent(due) if due and self._expects_idle else []
            if resting:
                self._faults.note(
                    f"{shorten([host.name for host in resting])}: started again, and still not"
                    " reported by the scheduler within the boot timeout; gets no work for now"
                )
            return [host for host in due if host not in resting]

        due = self._guard("looking for workers on premises to start", find)
        return self._command("starting", self._workers.start, due or [], wanted)

    def may_stop(self, nodes: Sequence[Node]) -> list[Node]:
        """Those of the nodes whose worker may run, and can be stopped."""
        by_name = {str(node.name): node for node in nodes if self._is_commanded(node)}
        if not by_name:
            return []
        hosts = [self._hosts[name] for name in by_name]
        due = self._guard(
            "looking for workers on premises to stop", lambda: self._workers.to_stop(hosts)
        )
        return [by_name[host.name] for host in due or []]

    def stop(self, nodes: Sequence[Node]) -> list[Node]:
        """Stop the workers of idle nodes; those that were stopped."""
        by_name = {str(node.name): node for node in nodes}
        hosts = [self._hosts[name] for name in by_name]
        return self._command("stopping", self._workers.stop, hosts, by_name)

    def _is_commanded(self, node: Node) -> bool:
        return is_on_premises(node) and str(node.name) in self._hosts

    def _guard(
        self, phase: str, find: Callable[[], list[OnPremisesHost]]
    ) -> list[OnPremisesHost] | None:
        return self._faults.guard(phase, find)

    def _command(
        self,
        doing: str,
        command: Command,
        hosts: Sequence[OnPremisesHost],
        by_name: Mapping[str, Node],
    ) -> list[Node]:
        if not hosts:
            return []
        phase = f"{doing} workers on premises"
        try:
            done = command(hosts)
        except HostStatesError as error:
            self._faults.add(phase, one_line(error))
            return []
        for name, ran in done.items():
            if not ran.is_done:
                self._faults.add(phase, f"host {name}: {ran.problem}")
        if left := [host.name for host in hosts if host.name not in done]:
            self._faults.add(
                phase,
                f"the commands of {counted(len(left), 'host')}, the first of {left[0]}, are left"
                f" for the next pass: {BEGIN_WITHIN:g} seconds went by with those of others",
            )
        made = [by_name[name] for name, ran in done.items() if ran.is_done]
        logging.info("%s: %s", phase, ", ".join(str(node.name) for node in made) or "none")
        return made
