"""A loop over a simulated cluster where machines cannot be had, or do not come up: what tests of
back-off have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler, PassSummary
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.simulator import serve
from hpc.autoscale.simulator.cluster import Cloud
from hpc.autoscale.simulator.handles import Simulator
from hpc.autoscale.simulator.loading import describe

F2, F4 = "Standard_F2s_v2", "Standard_F4s_v2"
REGION = "southcentralus"


class Waiting(GenericDriver):
    """A scheduler whose jobs wait for ever. `new_jobs` makes them, each time they are read;
    `wanted` are definitions of nodearrays that are wanted beside them, and `new_hosts` makes the
    hosts that the scheduler knows."""

    def __init__(
        self,
        new_jobs: Callable[[], list[Job]],
        wanted: Sequence[Mapping[str, Any]] = (),
        new_hosts: Callable[[], list[SchedulerNode]] = list,
    ) -> None:
        super().__init__("waiting")
        self._new_jobs = new_jobs
        self._new_hosts = new_hosts
        self._wanted = wanted

    def wanted_arrays(self, config: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        return self._wanted

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        return self._new_jobs(), self._new_hosts()


class Site:
    """One cluster `c` and a loop over it, a new process for each pass. `config` is that of every
    pass; what `new_jobs` makes waits in each of them, on hosts that `new_hosts` makes."""

    def __init__(self, simulator: Simulator, home: Path) -> None:
        self.simulator = simulator
        self.new_jobs: Callable[[], list[Job]] = list
        self.new_hosts: Callable[[], list[SchedulerNode]] = list
        self.wanted: Sequence[Mapping[str, Any]] = ()
        self.home = home
        self.config: dict[str, Any] = {
            **simulator.connection("c"),
            "lock_file": None,
            "nodehistorydb": str(home / "nodehistory.db"),
            "retry": {"attempts": 1},
        }
        self._clock = clock.use_mock_clock()
        self._clock.now = simulator.clock.now()
        self._seen = 0

    def want(self, count: int, **constraints: Any) -> None:
        """So many jobs wait, each for a node of its own."""
        wanted = {"ncpus": 1, "exclusive": True, **constraints}
        self.new_jobs = lambda: [Job(f"j{i}", dict(wanted)) for i in range(count)]

    def new_driver(self) -> Waiting:
        """A driver of the scheduler, as a new process has it."""
        return Waiting(self.new_jobs, self.wanted, self.new_hosts)

    def run(self, **config: Any) -> PassSummary:
        """One pass."""
        return Autoscaler({**self.config, **config}, self.new_driver).run_once()

    def wait(self, seconds: float) -> None:
        """Time passes, for the cluster and for the loop."""
        self.simulator.clock.advance(seconds)
        self._clock.now += seconds

    def change(
        self,
        nodearrays: dict[str, Any],
        region: dict[str, Any] | None = None,
        limits: dict[str, Any] | None = None,
    ) -> None:
        """Somebody gives the cluster other nodearrays and limits, and the region other quotas, as
        in `a_site`; nodes stay, and their nodearrays must."""
        new = describe(_described(nodearrays, region, limits))

        def change(cloud: Cloud) -> None:
            cluster = cloud.cluster("c")
            cluster.description, cloud.regions = new.clusters["c"], new.regions
            arrays = cluster.description.nodearrays
            for array in arrays.values():
                for size in array.machine_types:
                    cluster.bucket_ids.setdefault((array.name, size), cloud.orchestrator.new_id())
            for node in cluster.nodes():
                node.nodearray = arrays[node.nodearray.name]
            cloud.orchestrator.capacity.clear()
            for of in new.regions.values():
                cloud.set_capacity(of.name, of.capacity)

        self.simulator._runtime.call(change)

    def made(self) -> Counter[str]:
        """How many nodes the server has made since this was asked last, by nodearray and size."""
        entries = [e for e in self.simulator.journal.entries() if e["event"] == "created"]
        new, self._seen = entries[self._seen :], len(entries)
        return Counter(f"{e['nodearray']}/{e['vm_size']}" for e in new)

    def nodes(self, nodearray: str | None = None) -> list[Mapping[str, Any]]:
        """The records of the nodes."""
        every = self.simulator.cluster("c").nodes()
        return [node for node in every if nodearray in (None, node["Template"])]

    def hosts_with(self, ncpus: int, total: int) -> list[SchedulerNode]:
        """The hosts of the nodes that are ready: nothing runs there, and so many cores of the total
        are available."""
        made = []
        for node in self.nodes():
            if node["Status"] == "Ready":
                its = {"ncpus": total, "ccnodeid": node["NodeId"]}
                host = SchedulerNode(node["Hostname"], its)
                host.available["ncpus"] = ncpus
                made.append(host)
        return made

    def names(self, nodearray: str | None = None) -> list[str]:
        """The names of the nodes."""
        return [node["Name"] for node in self.nodes(nodearray)]


@contextmanager
def a_site(
    home: Path,
    nodearrays: dict[str, Any],
    region: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    **lifecycle: Any,
) -> Iterator[Site]:
    """A site with these nodearrays, and `limits` of the cluster; all phases take 10 s unless told
    otherwise."""
    with serve(_described(nodearrays, region, limits, **lifecycle)) as simulator:
        yield Site(simulator, home)


def _described(
    nodearrays: dict[str, Any],
    region: dict[str, Any] | None,
    limits: dict[str, Any] | None,
    **lifecycle: Any,
) -> dict[str, Any]:
    phases = "allocation acquiring preparing terminating allocation_failed deallocating"
    return {
        "clusters": {"c": {"region": REGION, "nodearrays": nodearrays, **(limits or {})}},
        "regions": {REGION: region or {}},
        "lifecycle": {**dict.fromkeys(phases.split(), 10), "jitter": 0, **lifecycle},
    }
