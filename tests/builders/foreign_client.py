"""A stand-in for CycleCloud's own Python client: packages, classes and functions of the same names
and shapes.

Its objects share no class with ours. What it answers comes from a mock cluster, turned into its own
objects.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Self

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding

FIELDS = {
    "ClusterStatus": "max_core_count max_count nodearrays nodes state target_state",
    "ClusterNodearrayStatus": "buckets max_core_count max_count name nodearray",
    "NodearrayBucketStatus": "active_core_count active_count active_nodes"
    " available_core_count available_count bucket_id consumed_core_count definition"
    " family_consumed_core_count family_quota_core_count"
    " family_quota_count invalid_reason last_capacity_failure max_core_count max_count"
    " max_placement_group_core_size max_placement_group_size placement_groups"
    " quota_core_count quota_count regional_consumed_core_count regional_quota_core_count"
    " regional_quota_count valid virtual_machine",
    "NodearrayBucketStatusDefinition": "machine_type",
    "NodearrayBucketStatusVirtualMachine": "gpu_count infiniband memory pcpu_count vcpu_count",
    "PlacementGroupStatus": "active_core_count active_count name",
    "NodeCreationRequest": "request_id sets",
    "NodeCreationRequestSet": "count definition name_format name_offset node_attributes nodearray"
    " placement_group_id",
    "NodeCreationRequestSetDefinition": "machine_type",
    "NodeCreationResult": "operation_id sets",
    "NodeCreationResultSet": "added message",
    "NodeList": "nodes operation",
    "NodeManagementRequest": "filter hostnames ids ip_addresses names request_id",
    "NodeManagementResult": "nodes operation_id",
    "NodeManagementResultNode": "error id name status",
    "OperationStatus": "action start_time",
}
NESTED = {
    "nodearrays": "ClusterNodearrayStatus",
    "buckets": "NodearrayBucketStatus",
    "NodearrayBucketStatus.definition": "NodearrayBucketStatusDefinition",
    "NodeCreationRequestSet.definition": "NodeCreationRequestSetDefinition",
    "virtual_machine": "NodearrayBucketStatusVirtualMachine",
    "placement_groups": "PlacementGroupStatus",
    "NodeCreationRequest.sets": "NodeCreationRequestSet",
    "NodeCreationResult.sets": "NodeCreationResultSet",
    "NodeManagementResult.nodes": "NodeManagementResultNode",
    "operation": "OperationStatus",
}


Answer = tuple["ResponseStatus", "Foreign"]


def wire(name: str) -> str:
    """The name of a field in JSON."""
    if name == "ip_addresses":
        return name
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


class Foreign:
    """Base of the stand-in's models: plain attributes, None unless they are given."""

    def __init__(self, **values: object) -> None:
        for name in FIELDS[type(self).__name__].split():
            setattr(self, name, values.get(name))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, without what is None."""

        def plain(value: Any) -> Any:
            if isinstance(value, list):
                return [plain(item) for item in value]
            return value.to_dict() if isinstance(value, Foreign) else value

        return {wire(n): plain(v) for n, v in vars(self).items() if v is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """From the JSON form."""
        made = cls()
        for name in vars(made):
            value = data.get(wire(name))
            kind = NESTED.get(f"{cls.__name__}.{name}") or NESTED.get(name)
            if kind and isinstance(value, list):
                value = [MODELS[kind].from_dict(item) for item in value]
            elif kind and value is not None:
                value = MODELS[kind].from_dict(value)
            setattr(made, name, value)
        return made

    def validate(self) -> None:
        """Accepts everything."""


MODELS: dict[str, type[Foreign]] = {name: type(name, (Foreign,), {}) for name in FIELDS}


class ResponseStatus:
    """What comes first in the result of every function."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class ForeignSession:
    """A session of the stand-in; `requested` has what went through `request`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.requested: list[tuple[str, str]] = []

    def request(
        self,
        context: Any,
        method: str,
        query: object = None,
        headers: object = None,
        body: object = None,
        expected_responses: Sequence[tuple[int, object, Callable[[str], object]]] = (),
    ) -> tuple[ResponseStatus, object]:
        """Notes the request and answers with the first response that is expected."""
        self.requested.append((method, context.path))
        code, _, converter = expected_responses[0]
        return ResponseStatus(code), converter("done")


class ForeignClient:
    """A client of the stand-in; `config` is what it was made with."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.session = ForeignSession(self.config)


class Functions(ModuleType):
    """The module of functions. `calls`: the names of those that were called, in order."""

    _RequestContext: type

    def __init__(self) -> None:
        super().__init__("cyclecloud.api.clusters")
        self.calls: list[str] = []


def clusters_module(cluster: MockClusterBinding) -> Functions:
    """The module of functions, over a mock cluster; `calls` has their names in order."""
    module = Functions()

    class _RequestContext:
        path = None

    def answer(name: str, code: int, ours: Any, kind: str) -> Answer:
        module.calls.append(name)
        return ResponseStatus(code), MODELS[kind].from_dict(ours.to_dict())

    def get_cluster_status(session: object, name: str, nodes: bool = False) -> Answer:
        return answer("get_cluster_status", 200, cluster.get_cluster_status(nodes), "ClusterStatus")

    def get_nodes(
        session: object, name: str, operation: str | None = None, request_id: str | None = None
    ) -> Answer:
        return answer("get_nodes", 200, cluster.get_nodes(operation, request_id), "NodeList")

    def create_nodes(session: object, name: str, request: Foreign) -> Answer:
        (wanted,) = request.to_dict()["sets"]
        present = cluster.nodearrays[wanted["nodearray"]].buckets[0].active_count
        made = cluster.scale(wanted["nodearray"], total_node_count=present + wanted["count"])
        return answer("create_nodes", 202, made, "NodeCreationResult")

    def scale(
        session: object,
        name: str,
        nodearray: str,
        total_core_count: int | None = None,
        total_node_count: int | None = None,
    ) -> Answer:
        made = cluster.scale(nodearray, total_core_count, total_node_count)
        return answer("scale", 202, made, "NodeCreationResult")

    def manage(verb: str) -> Callable[[object, str, Foreign], Answer]:
        def call(session: object, name: str, request: Foreign) -> Answer:
            ids = request.to_dict()["ids"]
            done = getattr(cluster, verb)(node_ids=ids)
            return answer(verb, 202, done, "NodeManagementResult")

        return call

    for function in (get_cluster_status, get_nodes, create_nodes, scale):
        setattr(module, function.__name__, function)
    for verb in ("start", "deallocate", "remove", "shutdown", "terminate", "reimage", "restart"):
        setattr(module, f"{verb}_nodes", manage(f"{verb}_nodes"))
    module._RequestContext = _RequestContext
    return module


def install(monkeypatch: pytest.MonkeyPatch, cluster: MockClusterBinding) -> Functions:
    """Have `import cyclecloud` find the stand-in; the module of its functions."""
    packages = {
        name: ModuleType(name) for name in ("cyclecloud", "cyclecloud.api", "cyclecloud.model")
    }
    for name, model in MODELS.items():
        module = packages[f"cyclecloud.model.{name}Module"] = ModuleType(name)
        setattr(module, name, model)
    functions = packages["cyclecloud.api.clusters"] = clusters_module(cluster)
    vars(packages["cyclecloud.api"])["clusters"] = functions
    packages["cyclecloud.client"] = ModuleType("cyclecloud.client")
    vars(packages["cyclecloud.client"])["Client"] = ForeignClient
    for name in ("api", "model"):
        setattr(packages["cyclecloud"], name, packages[f"cyclecloud.{name}"])
    for name, module in packages.items():
        monkeypatch.setitem(sys.modules, name, module)
    return functions
