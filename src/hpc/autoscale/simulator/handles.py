"""The simulator for Python programs, above all for tests: `serve` runs one in this process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hpc.autoscale.ccbindings import models
from hpc.autoscale.simulator.attributes import node_record
from hpc.autoscale.simulator.cluster import SimCluster
from hpc.autoscale.simulator.journal import EventLog
from hpc.autoscale.simulator.loading import load_description
from hpc.autoscale.simulator.runtime import Runtime, new_clock
from hpc.autoscale.simulator.server import SimulatorServer

T = TypeVar("T")


class ClusterHandle:
    """One cluster of a running simulator, to look at and to order accidents for. Thread-safe."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self.name = name
        self._runtime = runtime
        self._call(lambda cluster: None)

    def _call(self, act: Callable[[SimCluster], T]) -> T:
        return self._runtime.call(lambda cloud: act(cloud.cluster(self.name)))

    def nodes(self) -> list[models.Record]:
        """The records of all nodes, oldest first."""
        return self._call(lambda cluster: [node_record(node) for node in cluster.nodes()])

    def status(self) -> models.ClusterStatus:
        """The answer to GET status?nodes=true."""
        return self._call(lambda cluster: cluster.status(True))

    def evict(self, *names: str) -> list[str]:
        """Give running spot nodes notice of their eviction. Raises Conflict or NotFound."""
        return self._call(lambda cluster: cluster.evict(names))

    def fail(self, *names: str, message: str = "Failed on request") -> list[str]:
        """Let nodes fail; returns the names of those that could. Raises NotFound."""
        return self._call(lambda cluster: cluster.fail(names, message))

    def edit(self, *names: str, **attributes: Any) -> list[str]:
        """Change attributes of nodes, as in `edit("htc-1", KeepAlive=True)`. Raises Conflict or
        NotFound."""
        return self._call(lambda cluster: cluster.edit(names, attributes))


class ClockHandle:
    """The clock of the simulator, which `serve` makes one that is driven by hand unless told
    otherwise.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def now(self) -> float:
        """Seconds since 1970."""
        return self._runtime.clock.now()

    def advance(self, seconds: float) -> None:
        """Let this much time pass at once. Raises Conflict when the clock is real."""
        self._runtime.advance(seconds)

    def settle(self, limit: float = 86400.0) -> None:
        """Let time pass until nothing is due any more, at most `limit` seconds. Waits for no local
        machine."""
        self._runtime.settle(limit)


class FaultsHandle:
    """The faults of the simulator, to be ordered and taken back."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def add(self, kind: str, **fault: Any) -> None:
        """Order a fault, as in `add("lost_reply", endpoint="create_nodes", calls=[1])`. Raises
        DescriptionError."""
        self._runtime.call(lambda cloud: self._runtime.faults.add({"kind": kind, **fault}))

    def clear(self) -> None:
        """Take back all faults."""
        self._runtime.call(lambda cloud: self._runtime.faults.clear())

    def report(self) -> list[dict[str, Any]]:
        """Each fault with how many calls it has seen and how often it fired."""
        return self._runtime.call(lambda cloud: self._runtime.faults.report())


class Simulator:
    """A simulator that runs in this process, with its address and the handles that control it."""

    def __init__(self, runtime: Runtime, server: SimulatorServer) -> None:
        self._runtime = runtime
        self.url = server.url
        self.username = server.username
        self.password = server.password
        self.clock = ClockHandle(runtime)
        self.faults = FaultsHandle(runtime)
        self.journal: EventLog = runtime.journal

    def cluster(self, name: str) -> ClusterHandle:
        """A cluster by its name. Raises NotFound."""
        return ClusterHandle(self._runtime, name)

    def connection(self, cluster_name: str) -> dict[str, Any]:
        """The keys of an autoscale.json that connect to a cluster of this simulator."""
        return {
            "cluster_name": cluster_name,
            "url": self.url,
            "username": self.username,
            "password": self.password,
        }

    def machines(self) -> list[dict[str, Any]]:
        """The local machines that there are, with their pids."""
        return self._runtime.machines.report()

    def set_capacity(self, region: str, **counts: int) -> None:
        """Change how many VMs of some sizes a region can run. Raises NotFound."""
        self._runtime.call(lambda cloud: cloud.set_capacity(region, counts))


@contextmanager
def serve(
    description: str | Path | Mapping[str, Any],
    *,
    username: str = "simulator",
    password: str | None = None,
    clock: str = "driven",
    speed: float = 1.0,
    seed: int | None = 0,
    journal: str | Path | None = None,
    work_dir: str | Path | None = None,
    tls: tuple[str, str] | None = None,
    port: int = 0,
) -> Iterator[Simulator]:
    """Run a simulator on 127.0.0.1 in threads of this process for the time of a `with` block.

    Unlike the command line it starts with a driven clock and a fixed seed, so that tests repeat
    exactly. On the way out all local machines are ended. Raises DescriptionError or StartError.
    """
    runtime = Runtime(
        load_description(description), new_clock(clock, speed), seed, journal, work_dir
    )
    try:
        server = SimulatorServer(runtime, port=port, username=username, password=password, tls=tls)
        try:
            server.start()
            yield Simulator(runtime, server)
        finally:
            server.stop()
    finally:
        runtime.stop()
