"""What the simulated CycleCloud knows of demand: request sets that were posted to it, and nothing
else.

The protocol says how a node asks to stop, and not how demand is reported; the endpoint for that is
ours. It takes counts of instances and of cores. Who may stop is decided by the library's own rule.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpc.autoscale.autostop.decision import Answer, Code, KnownNode, Surplus, decide
from hpc.autoscale.ccbindings import models
from hpc.autoscale.requestsets.definitions import ArrayRequest, RequestError, read_arrays
from hpc.autoscale.requestsets.recording import LEAST_SECONDS
from hpc.autoscale.simulator.creation_requests import preferred
from hpc.autoscale.simulator.errors import BadRequest
from hpc.autoscale.simulator.lifecycle import Phase
from hpc.autoscale.simulator.nodes import SimNode

if TYPE_CHECKING:
    from hpc.autoscale.simulator.cluster import SimCluster


# phases of nodes that can serve nobody, and are not gone yet
_OF_NO_USE = (Phase.FAILED, Phase.EVICTING)


class PostedSets:
    """The request sets of one cluster."""

    def __init__(self, cluster: "SimCluster") -> None:
        self._cluster = cluster
        self._sets: dict[str, tuple[float, tuple[ArrayRequest, ...]]] = {}
        self._named: set[str] = set()

    def report(self, arrays: Any, request_set: str, expiration_interval: float) -> dict[str, int]:
        """Put a request set in the place of the one of its name, and add the nodes that are missing
        now; how many were added to each nodearray.

        Raises BadRequest for definitions that cannot be used, and Conflict for a nodearray that the
        cluster has not; nothing is changed then.
        """
        try:
            requests = read_arrays(arrays)
        except RequestError as error:
            raise BadRequest(str(error)) from None
        for request in requests:
            self._cluster.nodearray(request.name)
            if request.groups or request.machine_types or request.attributes:
                raise BadRequest(
                    f"{request.name}: the simulator takes Name, TargetCount and TargetCoreCount"
                )
        until = self._cluster.cloud.orchestrator.now + max(LEAST_SECONDS, expiration_interval)
        self._sets[request_set] = (until, requests)
        self._named.update(request.name for request in requests)
        added = {}
        for request in requests:
            result = self._cluster.scale(request.name, None, self._nodes_wanted(request.name))
            added[request.name] = sum(each.added or 0 for each in result.sets or ())
        return added

    def ask(self, instance: str) -> Answer:
        """Whether a node may stop; one that may is terminated."""
        nodes = [node for node in self._cluster.nodes() if instance in _ids(node)]
        if len(nodes) > 1:
            return Answer(Code.AMBIGUOUS, f"instance {instance} stands for several nodes")
        if not nodes or nodes[0].phase in (Phase.OFF, Phase.TERMINATED, Phase.DEALLOCATED):
            text = f"cluster {self._cluster.name} has no node with instance {instance} that runs"
            return Answer(Code.UNKNOWN_INSTANCE, text)
        (node,) = nodes
        if not node.counts:
            return Answer(Code.MAY_STOP, f"{node.name} is stopping", node.name)
        surplus = Surplus(self._candidates())
        answer = decide(surplus, [node.node_id], set(), ())[node.node_id]
        if answer.accepted:
            request = models.NodeManagementRequest(ids=[node.node_id])
            self._cluster.manage("terminate", request)
        return answer

    def _standing(self, nodearray: str) -> list[ArrayRequest]:
        now = self._cluster.cloud.orchestrator.now
        return [
            request
            for until, requests in self._sets.values()
            for request in requests
            if now < until and request.name == nodearray
        ]

    def _nodes_wanted(self, nodearray: str) -> int:
        """How many nodes all sets want, in nodes of the machine type that is started; each set is
        rounded up by itself."""
        cores = preferred(self._cluster.nodearray(nodearray)).vcpus
        return sum(each.nodes or -(-each.cores // cores) for each in self._standing(nodearray))

    def _candidates(self) -> Iterable[KnownNode]:
        by_array: dict[str, list[SimNode]] = {}
        for node in self._cluster.nodes():
            if node.counts:
                by_array.setdefault(node.nodearray.name, []).append(node)
        for name, nodes in by_array.items():
            # the smallest ones first, so that the rest may go whichever of the nodes those are
            alive = [node for node in nodes if node.phase not in _OF_NO_USE]
            alive.sort(key=lambda node: node.machine_type.vcpus)
            wanted = _count_wanted(self._standing(name), [n.machine_type.vcpus for n in alive])
            needed = {node.node_id for node in alive[:wanted]}
            for node in nodes:
                yield KnownNode(
                    node.node_id,
                    node.name,
                    (name,),
                    node.instance_id,
                    wanted=node.node_id in needed,
                    serves=node.phase not in _OF_NO_USE,
                    refusal=self._refusal(node),
                )

    def _refusal(self, node: SimNode) -> Answer | None:
        if node.is_set("KeepAlive"):
            text = f"{node.name} is to be kept alive (KeepAlive)"
            return Answer(Code.KEEP_ALIVE, text, node.name)
        if node.nodearray.name not in self._named:
            text = f"nobody has reported what is wanted of {node.nodearray.name}"
            return Answer(Code.DEMAND_UNKNOWN, text, node.name)
        return None


def _ids(node: SimNode) -> tuple[str | None, str]:
    return node.instance_id, node.node_id


def _count_wanted(requests: Iterable[ArrayRequest], cores: list[int]) -> int:
    """How many of the nodes with so many cores each, the smallest first, it takes to serve all of
    the requests, each with nodes of its own."""
    taken = 0
    for request in requests:
        taken += request.nodes
        missing = request.cores
        while missing > 0 and taken < len(cores):
            missing -= cores[taken]
            taken += 1
    return taken
