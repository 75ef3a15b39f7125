"""What the author of a driver supplies for the conformance checks: a scheduler that can be played
with.

A `SchedulerWorld` is a scheduler, a real one on the test machine or a fake, together with what
happens to it from outside: users submit, tasks start and end, machines appear and die, the network
fails. In a `SelfStartingWorld` tasks start by themselves. The checks (`conformance`) and the stage
on which they happen (`stage`) know a scheduler only by this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import SkipTest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.testing.builders import a_cluster


@dataclass(frozen=True)
class Host:
    """What the scheduler says of a host: how many tasks run there, and whether it would start more
    if there is room."""

    takes_work: bool
    tasks: int = 0


@dataclass(frozen=True)
class Machine:
    """A VM that runs: by which name the scheduler will know it, and what CycleCloud says of it."""

    hostname: str
    private_ip: str
    node_id: str
    node_name: str
    nodearray: str
    vcpus: int


class NotInThisWorld(SkipTest):
    """Raised by a world that cannot do what a check needs; the check is skipped, with this as the
    reason."""


class SchedulerWorld(ABC):
    """One scheduler with nothing in it, and drivers for it. A new one is made for each check.

    All work is equal tasks, of which `tasks_per_node` fill a node of `new_cluster()`. Methods
    return when the scheduler has done what it was told, and see it as it is at that moment: `hosts`
    answers even while drivers get no answer. Host names are compared without regard to case and up
    to their first dot.
    """

    tasks_per_node: int = 4
    """How many tasks fill a node; at least 2."""

    config: Mapping[str, Any] = {}
    """What the driver needs in autoscale.json: the scheduler's own section, default resources. No
    timeouts."""

    # -- what every world has

    @abstractmethod
    def new_driver(self) -> SchedulerDriver:
        """A new driver for this scheduler, as a new process would make it."""

    @abstractmethod
    def submit(self, tasks: int) -> None:
        """Let this many tasks wait."""

    @abstractmethod
    def start(self, hostname: str) -> bool:
        """Let the scheduler start a waiting task on a host; False when it would not: unknown,
        drained, full, no task."""

    @abstractmethod
    def finish(self, hostname: str) -> None:
        """Let a task that runs on this host come to its end."""

    @abstractmethod
    def hosts(self) -> Mapping[str, Host]:
        """The hosts that the scheduler knows, by name. One that it has only been promised takes no
        work, or is left out.

        It answers at any time: inside `unreachable()` too, where only drivers get no answer.
        """

    @abstractmethod
    def unreachable(self) -> AbstractContextManager[None]:
        """While this lasts, drivers that ask the scheduler get no answer. The checks do: `hosts()`
        answers on."""

    # -- what some worlds have

    def new_cluster(self) -> MockClusterBinding:
        """The cluster: nodes of four cores, ten at most. Of one nodearray and one VM size."""
        return a_cluster()

    def hostname_of(self, node_name: str, private_ip: str) -> str:
        """Which host name a node gets; as CycleCloud has it, ip-0a010002 for 10.1.0.2.

        Each check begins with that one. A world around a real scheduler in which something is left
        of the host of the check before gives names that are new in each check.
        """
        return "ip-" + "".join(f"{int(number):02x}" for number in private_ip.split("."))

    def machine_up(self, machine: Machine) -> None:  # noqa: B027 - only some need it
        """A node has become ready: whatever starts on it by itself (a daemon, a worker) has
        started."""

    def machine_down(self, hostname: str) -> None:  # noqa: B027 - only some need it
        """A host is no more: nothing on it answers, and what ran there is lost or waits again, at
        the latest when the driver has removed the host. A real scheduler notices late: until then
        it says what it said before."""

    def silence(self, hostname: str) -> AbstractContextManager[None]:
        """While this lasts the scheduler hears nothing from a host, on which tasks run on.

        A world around a real scheduler yields when that has noticed.
        """
        raise NotInThisWorld("this world cannot silence a host")

    def add_own_host(self, hostname: str) -> None:
        """A host of the scheduler that CycleCloud never knew, as on premises. It takes work and has
        room for a node's."""
        raise NotInThisWorld("this world has no hosts of its own")

    def submit_nonsense(self) -> None:
        """Let something wait of which a driver can make no job: nonsense in the place of an amount,
        a constraint that does not parse."""
        raise NotInThisWorld("nothing waits in this world that makes no sense")

    def close(self) -> None:  # noqa: B027 - only some need it
        """End what `__init__` began. Called after each check."""


class SelfStartingWorld(SchedulerWorld):
    """A world whose scheduler starts waiting tasks by itself, wherever a host takes work and has
    room: the workers of Celery, or a real scheduler that runs as it does.

    Nobody tells it to start a task, so it has `settle` in the place of `start`. What ran on a
    machine that is lost may be lost or wait again: the checks submit new work then.
    """

    @abstractmethod
    def settle(self) -> None:
        """Return when every waiting task has started for which there is room: on a host that takes
        work, and whose machine is up.

        Called whenever something happened: work came, a task ended, a machine came up or died, the
        driver did something. A fake starts tasks here; a world around a real scheduler waits until
        that has done so, and until it has heard from each host that was let in. A silent host, and
        one whose machine is down, starts nothing, whatever the scheduler says of it: they are not
        to be waited for.
        """

    def start(self, hostname: str) -> bool:
        """Whether a task runs there, once the scheduler has had its turn. Not called by the
        checks."""
        self.settle()
        return any(host.tasks for name, host in self.hosts().items() if name == hostname)
