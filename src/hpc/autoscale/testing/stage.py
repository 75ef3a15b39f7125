"""Where a driver is put to the test: the real loop over a cluster in memory, a world for its
scheduler, and a clock that stands still.

A `Stage` is told what happens (work comes, machines boot, fail and vanish, time passes) and runs
passes. It checks nothing that a check is about, only what must hold always. The checks are in
`conformance`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from hpc.autoscale.autoscaler import Autoscaler, PassSummary
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.ccbindings.mock.nodes import MockNode
from hpc.autoscale.clock import MockClock
from hpc.autoscale.errors import one_line
from hpc.autoscale.hpctypes import Hostname, NodeStatus
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.testing.builders import a_config, a_mock_clock
from hpc.autoscale.testing.promise import BrokenPromise, expect, hosts_of, settle
from hpc.autoscale.testing.watching import WatchedDriver
from hpc.autoscale.testing.world import Host, Machine, SchedulerWorld, SelfStartingWorld

IDLE_TIMEOUT = 300
BOOT_TIMEOUT = 1800
"""Seconds, for every nodearray."""


def snapshot(stage: Stage) -> tuple[dict[str, tuple[str | None, str]], dict[str, Host]]:
    """The nodes of the cluster and the hosts of the scheduler."""
    return stage.nodes(), stage.hosts()


def replaced(stage: Stage, name: str, why: str) -> None:
    """Passes in which a node goes and another one comes for its work, whatever its name.
    BrokenPromise otherwise."""
    __tracebackhide__ = True
    node_id, _ = stage.nodes()[name]
    left = len(stage.nodes())

    def is_done() -> bool:
        ids = {node_id for node_id, _ in stage.nodes().values()}
        return node_id not in ids and stage.has_nodes(left)

    stage.run_until(is_done, f"{name} is deleted and replaced: {why}")


class Stage:
    """One cluster, one scheduler, one driver. `cluster`, `clock`, `world` and `driver` are there to
    be used.

    `config` is that of every pass. Nodes are called by their names in the cluster, hosts by their
    names in the scheduler: they differ. Methods raise BrokenPromise where the driver breaks its
    word.
    """

    def __init__(self, world: SchedulerWorld, clock: MockClock, home: Path) -> None:
        self.world = world
        self.clock = clock
        self.cluster = world.new_cluster()
        self.config = {
            **a_config(self.cluster, idle_timeout=IDLE_TIMEOUT, boot_timeout=BOOT_TIMEOUT),
            **world.config,
            "lock_file": str(home / "lock.file"),
            "nodehistorydb": str(home / "nodehistory.db"),
        }
        self._hostnames: dict[str, str] = {}
        self._kept_out: set[str] = set()
        self._started: dict[str, int] = {}
        self.driver = self.new_process()

    # -- what happens

    def new_process(self) -> WatchedDriver:
        """The autoscaler ends and is started again: from now on another driver serves the same
        scheduler."""
        self.driver = WatchedDriver(self.world.new_driver(), self.world, self._kept_out)
        self._loop = Autoscaler(self.config, self.driver)
        return self.driver

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.sleep(seconds)

    def submit(self, tasks: int) -> None:
        """Tasks come, and wait; where they start by themselves, those do for which there is
        room."""
        self.world.submit(tasks)
        settle(self.world)

    def resubmit(self) -> None:
        """As much work as fills a node waits anew where tasks start by themselves; elsewhere what
        was not started waits."""
        if isinstance(self.world, SelfStartingWorld):
            self.submit(self.world.tasks_per_node)

    def prepare(self, name: str, hostname: str | None = None) -> None:
        """A node has a VM, a host name and an address, and is still being configured."""
        node = self.cluster.nodes[name]
        if not node.private_ip:
            self.cluster.assign_ip([name])
        hostname = hostname or node.hostname
        hostname = hostname or self.world.hostname_of(name, str(node.private_ip))
        node._settle(Hostname(hostname), node.private_ip)
        node.state = NodeStatus("Preparing")

    def come_up(self, *names: str, hostname: str | None = None) -> list[str]:
        """Nodes become ready; the names of their hosts. `hostname`: the name that one is to
        have."""
        for name in names:
            self.prepare(name, hostname)
            self.cluster.update_state("Ready", [name])
            machine = _machine(self.cluster.nodes[name])
            self._hostnames[name] = machine.hostname
            self.world.machine_up(machine)
            settle(self.world)
        return [self._hostnames[name] for name in names]

    def come_up_unknown(self, name: str) -> None:
        """A node becomes ready, and the scheduler does not take it in: nothing starts there, and
        joining has no effect."""
        self.prepare(name)
        self.cluster.update_state("Ready", [name])
        self._kept_out.add(name)

    def fail(self, name: str) -> None:
        """A node fails, whether it is up or not."""
        self.cluster.update_state("Failed", [name])
        self._machine_is_gone(name)

    def vanish(self, name: str) -> None:
        """A node disappears, as after an eviction: CycleCloud does not list it any more."""
        self.cluster.remove_nodes(names=[name])
        self._machine_is_gone(name)

    def start(self, host: str, tasks: int = 1) -> None:
        """Waiting tasks start on a host that has joined; where they start by themselves, they
        have."""
        __tracebackhide__ = True
        if isinstance(self.world, SelfStartingWorld):
            self._has_started(host, tasks)
            return
        for _ in range(tasks):
            expect(
                self.world.start(host),
                f"expected the scheduler to start a waiting task on {host}, which has joined; it"
                " starts none."
                f" It says of its hosts: {self.hosts()}",
            )

    def _has_started(self, host: str, tasks: int) -> None:
        """Besides those that were seen to start, and have not ended, so many tasks run on a
        host."""
        __tracebackhide__ = True
        settle(self.world)
        seen = self._started.get(short_name(host), 0) + tasks
        found = self.hosts().get(short_name(host), Host(False)).tasks
        expect(
            found >= seen,
            f"expected the scheduler to have started waiting tasks on {host} by itself, so that"
            f" {seen} run there;"
            f" found {found}. It says of its hosts: {self.hosts()}",
        )
        self._started[short_name(host)] = seen

    def finish(self, host: str, tasks: int = 1) -> None:
        """Tasks that run on a host end."""
        for _ in range(tasks):
            self.world.finish(host)
            settle(self.world)
        left = self._started.get(short_name(host), 0) - tasks
        self._started[short_name(host)] = max(0, left)

    # -- passes

    def run(self, dry_run: bool = False, set_aside: int = 0) -> PassSummary:
        """One pass, in which nothing may go wrong, and so many jobs are set aside."""
        __tracebackhide__ = True
        try:
            summary = self._pass(dry_run)
        except BrokenPromise:
            raise
        except Exception as problem:
            raise BrokenPromise(f"expected a pass, found {one_line(problem)}") from problem
        if self.driver.raised:
            error = self.driver.raised[0]
            raise BrokenPromise(f"{summary.errors[0]}") from error
        expect(summary.ok, f"expected a pass without errors, found: {_lines(summary.errors)}")
        found = len(summary.set_aside)
        expect(
            found == set_aside,
            f"expected jobs that can be used, and {set_aside} to be set aside; {found} were:"
            f" {_lines(summary.set_aside)}",
        )
        return summary

    def run_in_trouble(self) -> PassSummary | None:
        """One pass in which something may go wrong; None when it could not be done at all."""
        __tracebackhide__ = True
        return Faults(fatal=(BrokenPromise,)).guard("pass", self._pass)

    def _pass(self, dry_run: bool = False) -> PassSummary:
        __tracebackhide__ = True
        self.driver.broken.clear()
        self.driver.raised.clear()
        try:
            dry = Autoscaler(self.config, self.driver, dry_run=True) if dry_run else None
            summary = (dry or self._loop).run_once()
        finally:
            self.driver.before.clear()
        for name in summary.deleted:
            self._machine_is_gone(name)
        expect(not self.driver.broken, _lines(self.driver.broken))
        return summary

    # -- how it looks now

    def nodes(self) -> dict[str, tuple[str | None, str]]:
        """The nodes that the cluster lists: by their names, id and state."""
        listed = [node for node in self.cluster.nodes.values() if node.listed]
        return {str(n.name): (n.delayed_node_id.node_id, str(n.state)) for n in listed}

    def has_nodes(self, number: int) -> bool:
        """Whether the cluster lists so many; or one more, where lost work may wait again beside
        what was resubmitted."""
        spare = 1 if isinstance(self.world, SelfStartingWorld) else 0
        return number <= len(self.nodes()) <= number + spare

    def hosts(self) -> dict[str, Host]:
        """What the scheduler says of its hosts, by short names in lower case."""
        __tracebackhide__ = True
        return hosts_of(self.world)

    def knows(self, host: str) -> bool:
        """Whether the scheduler knows a host."""
        return short_name(host) in self.hosts()

    def open_hosts(self) -> set[str]:
        """The hosts that take work."""
        return {name for name, host in self.hosts().items() if host.takes_work}

    def host_of(self, name: str) -> str:
        """The host of a node that came up."""
        return self._hostnames[name]

    def node_of(self, host: str) -> str:
        """The name of the node that is up as this host."""
        return next(
            name for name, known in self._hostnames.items() if short_name(known) == short_name(host)
        )

    # -- scenes that checks begin with

    def grow(self, nodes: int) -> list[str]:
        """Work for so many whole nodes waits, and these have come up and joined: their hosts, in
        the order of names."""
        __tracebackhide__ = True
        before = set(self.nodes())
        self.submit(nodes * self.world.tasks_per_node)
        self.run()
        new = [name for name in self.nodes() if name not in before]
        expect(
            len(new) == nodes,
            f"expected {nodes} new nodes for {nodes * self.world.tasks_per_node} waiting tasks"
            f" ({self.world.tasks_per_node} fill a node), found {len(new)}",
        )
        hosts = self.come_up(*new)
        self.run()
        missing = {short_name(host) for host in hosts} - self.open_hosts()
        expect(
            not missing,
            f"expected {_named(missing)} to take work: ready, and a pass was run. Hosts:"
            f" {self.hosts()}",
        )
        return hosts

    def grow_idle(self, nodes: int) -> list[str]:
        """So many nodes that have done their work, and nothing for longer than the idle timeout."""
        __tracebackhide__ = True
        hosts = self.grow(nodes)
        for host in hosts:
            self.start(host, self.world.tasks_per_node)
            self.finish(host, self.world.tasks_per_node)
        self.run()
        self.wait(IDLE_TIMEOUT + 1)
        return hosts

    def run_until(self, done: Callable[[], bool], otherwise: str, passes: int = 3) -> None:
        """Passes until something is done: drivers may need more than one to notice. BrokenPromise
        when it never is."""
        __tracebackhide__ = True
        for _ in range(passes):
            self.run()
            if done():
                return
        raise BrokenPromise(
            f"expected within {passes} passes that {otherwise}."
            f" Nodes: {self.nodes()}. Hosts: {self.hosts()}"
        )

    # -- within

    def _machine_is_gone(self, name: str) -> None:
        host = self._hostnames.pop(name, None)
        if host is not None:
            self.world.machine_down(host)
            self._started.pop(short_name(host), None)
            settle(self.world)


@contextmanager
def on_stage(world: SchedulerWorld, home: Path) -> Iterator[Stage]:
    """A stage for a world, with `home` as the directory of the integration; for the time of a
    `with` block the clock of the process is the stage's, and names of hosts are not looked up."""
    home.mkdir(parents=True, exist_ok=True)
    with (
        a_mock_clock() as clock,
        patch.dict(os.environ, {"AUTOSCALE_HOME": str(home)}),
        patch.object(SchedulerNode, "ignore_hostnames", True),
    ):
        try:
            yield Stage(world, clock, home)
        finally:
            world.close()


def _machine(node: MockNode) -> Machine:
    return Machine(
        hostname=str(node.hostname),
        private_ip=str(node.private_ip),
        node_id=str(node.delayed_node_id.node_id),
        node_name=str(node.name),
        nodearray=str(node.nodearray),
        vcpus=node.vcpu_count,
    )


def _lines(things: Iterable[object]) -> str:
    return "\n".join(map(str, things))


def _named(hosts: Iterable[str]) -> str:
    return ", ".join(sorted(hosts))
