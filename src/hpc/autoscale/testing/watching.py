"""A driver that is watched: passes everything on to the driver under test and notes where it breaks
its word.

What is noted here holds in every pass of every check. It also lets a check do something at the very
moment before a hook is called. Used by `stage` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from hpc.autoscale.errors import one_line
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.rehearsal.passing_on import PassingDriver
from hpc.autoscale.results.verdicts import Verdict
from hpc.autoscale.testing.promise import BrokenPromise, hosts_of, settle
from hpc.autoscale.testing.world import Host, SchedulerWorld

T = TypeVar("T")


class WatchedDriver(PassingDriver):
    """The driver under test, and what was seen of it.

    `broken`   what it did that it must never do, as sentences `raised`   what its hooks raised
    `before`   by the name of a hook: what is to happen just before it is called next `repeats`
    whether each hook is called twice with the same nodes, as after a pass that was cut short
    `told` names of the jobs that it was told about

    `kept_out` are the names of nodes that the driver is not asked to let in, as if the scheduler
    refused them.
    """

    def __init__(
        self, driver: SchedulerDriver, world: SchedulerWorld, kept_out: Collection[str] = ()
    ) -> None:
        super().__init__(driver)
        self.broken: list[str] = []
        self.raised: list[Exception] = []
        self.before: dict[str, Callable[[], object]] = {}
        self.repeats = False
        self.told: list[str] = []
        self._kept_out = kept_out
        self._world = world

    # -- watched

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        """The driver's; twice where hooks are repeated. What it was told of is kept in `told`."""
        self.told.append(str(job.name))
        for _ in range(2 if self.repeats else 1):
            try:
                self.driver.explain_job(job, verdict)
            except Exception as error:
                self.broken.append(f"explain_job: {one_line(error)}")
                raise

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """The driver's; what it returns of CycleCloud's nodes is ready, and known to the
        scheduler."""
        asked = [node for node in nodes if str(node.name) not in self._kept_out]
        joined = self._hook("add_nodes_to_cluster", asked)
        known = self._hosts()
        if known is None:
            return joined
        for node in filter(_is_managed, joined):
            if node.state not in READY_STATES:
                self._note("add_nodes_to_cluster", node, f"is {node.state} and not ready")
            elif short_name(node.hostname) not in known:
                self._note("add_nodes_to_cluster", node, "is not known to the scheduler")
        return joined

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self._hook("handle_post_join_cluster", nodes)

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """The driver's; what it returns takes no work and has none."""
        drained = self._hook("handle_draining", nodes)
        hosts = self._hosts() or {}
        for node in drained:
            host = hosts.get(short_name(node.hostname))
            if host and host.takes_work:
                self._note("handle_draining", node, "still takes new work")
            if host and host.tasks:
                self._note("handle_draining", node, f"has work (tasks that run: {host.tasks})")
        return drained

    def handle_undraining(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self._hook("handle_undraining", nodes)

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self._hook("handle_failed_nodes", nodes)

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self._hook("handle_boot_timeout", nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self._hook("handle_post_delete", nodes)

    def _hook(self, name: str, nodes: list[Node]) -> list[Node]:
        """Call a hook with lists of its own, since drivers may take nodes out of them."""
        hook = getattr(self.driver, name)
        try:
            self.before.pop(name, _nothing)()
            for _ in range(2 if self.repeats else 1):
                returned = hook(list(nodes))
        except Exception as error:
            self.raised.append(error)
            raise
        self._ask(settle)
        return self._returned(name, nodes, returned)

    def _returned(self, name: str, given: list[Node], returned: object) -> list[Node]:
        """What a hook returned, as far as it is nodes that it was given."""
        if not isinstance(returned, Iterable):
            self.broken.append(
                f"{name}: expected a list of nodes to be returned, found {returned!r}"
            )
            return []
        own = {id(node) for node in given}
        known = []
        for node in returned:
            if id(node) in own:
                known.append(node)
            else:
                self.broken.append(
                    f"{name}: expected nodes of the list that was given, found {node!r}:"
                    " return the objects that were given, not copies or others"
                )
        return known

    def _note(self, name: str, node: Node, what: str) -> None:
        self.broken.append(f"{name}: returned {node.name} ({node.hostname}), which {what}")

    def _hosts(self) -> Mapping[str, Host] | None:
        return self._ask(hosts_of)

    def _ask(self, question: Callable[[SchedulerWorld], T]) -> T | None:
        """What the world answers; None when it breaks its own word. The loop would take that for an
        error of the hook."""
        try:
            return question(self._world)
        except BrokenPromise as error:
            self.broken.append(str(error))
            return None


def _is_managed(node: Node) -> bool:
    """Whether it is CycleCloud's; the scheduler's own hosts are among those that are handed over,
    too."""
    return node.managed


def _nothing() -> None:
    """What happens before a hook when nothing is to happen."""
