"""Several simulated clusters, and a configuration that has them as one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from builders.waiting_queue import WaitingQueue
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.autoscaler.summary import PassSummary
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.simulator import serve
from hpc.autoscale.simulator.handles import Simulator

SIZE = "Standard_F4s_v2"
REGIONS = {"east": "eastus", "west": "westus2", "north": "northeurope"}


class Clusters:
    """A server for each cluster, all with one cluster named `c` and one nodearray, `htc`, and all
    with the same seed: node names, NodeIds and host names are the same everywhere."""

    def __init__(self, servers: Mapping[str, Simulator], home: Path) -> None:
        self.servers = dict(servers)
        self.home = home
        self.entries: dict[str, dict[str, Any]] = {
            name: {"name": name, **server.connection("c")} for name, server in servers.items()
        }
        self.settings: dict[str, Any] = {}
        self.clock = clock.use_mock_clock()

    def __getitem__(self, name: str) -> Simulator:
        return self.servers[name]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration; each server is asked once, and not for long."""
        return {
            "clusters": list(self.entries.values()),
            "lock_file": None,
            "nodehistorydb": str(self.home / "nodehistory.db"),
            "retry": {"attempts": 1},
            "timeout": 5,
            **self.settings,
        }

    def run(self, jobs: int, hosts: Sequence[SchedulerNode] = ()) -> PassSummary:
        """One pass, as a new process would make it."""
        queue = WaitingQueue(jobs)
        queue.hosts = hosts
        autoscaler = Autoscaler(self.config, queue)
        try:
            return autoscaler.run_once()
        finally:
            autoscaler.driver.close_histories()

    def after(self, seconds: float) -> None:
        """Let time pass everywhere, for the loop too."""
        for server in self.servers.values():
            server.clock.advance(seconds)
        self.clock.sleep(seconds)

    def counts(self) -> dict[str, int]:
        """How many nodes each server has."""
        return {name: len(server.cluster("c").nodes()) for name, server in self.servers.items()}

    def changes(self, name: str) -> list[str]:
        """What has happened on a server, its faults left out."""
        entries = self.servers[name].journal.entries()
        return [str(entry["event"]) for entry in entries if entry["event"] != "fault"]


@contextmanager
def several_clusters(
    home: Path,
    quotas: Mapping[str, int | None],
    limits: Mapping[str, int] = MappingProxyType({}),
    **array: Any,
) -> Iterator[Clusters]:
    """Clusters by name, with how many nodes of four cores the quota of the region of each allows;
    None for any number. `limits`: those of each cluster, `array`: more of the nodearray of each."""
    with ExitStack() as stack:
        servers = {}
        for name, nodes in quotas.items():
            region = REGIONS.get(name, "eastus")
            quota = {} if nodes is None else {"quota": 4 * nodes}
            arrays = {"htc": {"machine_types": [SIZE], **array}}
            description = {
                "clusters": {"c": {"region": region, "nodearrays": arrays, **limits}},
                "regions": {region: quota},
            }
            servers[name] = stack.enter_context(serve(description))
        before = clock.use_clock(clock.Clock())
        try:
            yield Clusters(servers, home)
        finally:
            clock.use_clock(before)
