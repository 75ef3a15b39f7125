"""Builders for the tests of the simulator's model: a cloud on a clock that the test moves, and
requests to it."""

import itertools
import random
from typing import Any

from hpc.autoscale.ccbindings import models
from hpc.autoscale.simulator.cluster import Cloud, SimCluster
from hpc.autoscale.simulator.loading import describe

F2 = "Standard_F2s_v2"
F4 = "Standard_F4s_v2"
REGION = "westus2"


def a_description(
    nodearrays: dict[str, Any] | None = None, regions: dict[str, Any] | None = None, **cluster: Any
) -> dict[str, Any]:
    """One cluster, c1, with nodearray htc of F2 and F4 unless told otherwise; every phase takes ten
    seconds."""
    arrays = nodearrays or {"htc": {"machine_types": [F2, F4]}}
    phases = (
        "allocation acquiring preparing restarting reimaging deallocating terminating"
        " allocation_failed eviction_notice"
    )
    return {
        "clusters": {"c1": {"region": REGION, "nodearrays": arrays, **cluster}},
        "regions": {REGION: regions} if regions else {},
        "lifecycle": dict.fromkeys(phases.split(), 10),
    }


class World:
    """A cloud with its journal; time stands still until `after`."""

    def __init__(self, description: dict[str, Any] | None = None, seed: int = 0) -> None:
        self.journal: list[dict[str, Any]] = []
        counter = itertools.count(1)
        self.cloud = Cloud(
            describe(description or a_description()),
            1_000_000.0,
            random.Random(seed),
            lambda: f"id-{next(counter)}",
            self.journal.append,
        )

    @property
    def cluster(self) -> SimCluster:
        """The cluster c1."""
        return self.cloud.cluster("c1")

    def after(self, seconds: float) -> None:
        """Let time pass."""
        self.cloud.orchestrator.advance(self.cloud.orchestrator.now + seconds)

    def create(
        self,
        count: int = 1,
        nodearray: str = "htc",
        request_id: str | None = None,
        cluster: str = "c1",
        **more: Any,
    ) -> models.NodeCreationResultSet:
        """Ask for one set of nodes; `more` are further keys of the set, as in JSON."""
        one = {"nodearray": nodearray, "count": count, **more}
        request = models.NodeCreationRequest.from_dict({"requestId": request_id, "sets": [one]})
        return self.cloud.cluster(cluster).create(request).sets[0]

    def manage(self, action: str, **selectors: Any) -> dict[str, str]:
        """Carry out an action; what it says of each node: OK, or the error."""
        request = models.NodeManagementRequest.from_dict(selectors)
        result = self.cluster.manage(action, request)
        return {node.name: node.error or node.status or "" for node in result.nodes}

    def statuses(self) -> dict[str, str]:
        """Status of each node by name."""
        nodes = self.cluster.node_list(None, None).nodes
        return {node["Name"]: node["Status"] for node in nodes}

    def record(self, name: str) -> dict[str, Any]:
        """The record of a node."""
        nodes = self.cluster.node_list(None, None).nodes
        return next(node for node in nodes if node["Name"] == name)

    def bucket(self, nodearray: str = "htc", vm_size: str = F2) -> models.NodearrayBucketStatus:
        """A bucket of the status."""
        arrays = {array.name: array for array in self.cluster.status(True).nodearrays}
        return next(
            bucket
            for bucket in arrays[nodearray].buckets
            if bucket.definition and bucket.definition.machine_type == vm_size
        )

    def events(self, name: str) -> list[str]:
        """What the journal tells of a node."""
        return [entry["event"] for entry in self.journal if entry.get("name") == name]


def a_world(seed: int = 0, **array: Any) -> World:
    """A cluster with one nodearray, htc, of one machine type."""
    return World(a_description({"htc": {"machine_types": [F2], **array}}), seed)


def booted(count: int = 1, attributes: dict[str, Any] | None = None, **array: Any) -> World:
    """A world with nodes that are Ready."""
    world = a_world(**array)
    world.create(count, nodeAttributes=attributes)
    world.after(30)
    assert set(world.statuses().values()) == {"Ready"}
    return world
