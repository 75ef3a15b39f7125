"""The endpoints of CycleCloud's REST API, one function each, over a `session.Session`.

They have the names, arguments and results of the module `cyclecloud.api.clusters` of CycleCloud's
own client, so that either can stand in for the other: session first, cluster second, and the result
a tuple of status and model. Requests may be objects of that client too. Every function raises
CycleCloudError and nothing else. Retrying and recovering is done below, in `session` and
`mutation`.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from hpc.autoscale.ccbindings import errors, recovery
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    ClusterUsage,
    NodeCreationRequest,
    NodeCreationResult,
    NodeList,
    NodeManagementRequest,
    NodeManagementResult,
    OperationStatus,
)
from hpc.autoscale.ccbindings.mutation import Mutation, Question
from hpc.autoscale.ccbindings.replies import NEVER_HAPPENED, M, Reply, decode, decode_model
from hpc.autoscale.ccbindings.session import ResponseStatus, Session, path_of


class _RequestContext:
    """The path of a request that has no function here, for `Session.request`."""

    def __init__(self, path: str = "") -> None:
        self.path = path


def get_cluster_status(
    session: Session, cluster_name: str, nodes: bool = False
) -> tuple[ResponseStatus, ClusterStatus]:
    """Limits, nodearrays and buckets; with `nodes` also the nodes that are in use."""
    path = path_of("clusters", cluster_name, "status")
    return _read(session, path, {"nodes": nodes}, ClusterStatus)


def get_nodes(
    session: Session,
    cluster_name: str,
    operation: str | None = None,
    request_id: str | None = None,
) -> tuple[ResponseStatus, NodeList]:
    """All node records that exist, or those of one operation.

    Raises OperationNotFound when the server knows no such operation. An operation whose reply was
    lost is known by its request id only, so an unknown operation id is looked up as a request id.
    """
    return _nodes_of(session, cluster_name, operation, request_id)


def _nodes_of(
    session: Session,
    cluster_name: str,
    operation: str | None,
    request_id: str | None,
    attempts: int | None = None,
) -> tuple[ResponseStatus, NodeList]:
    path = path_of("clusters", cluster_name, "nodes")
    query = {"operation": operation, "request_id": request_id}
    try:
        return _read(session, path, query, NodeList, attempts)
    except (errors.NotFound, errors.BadRequest) as error:
        if operation and not request_id:
            try:
                return get_nodes(session, cluster_name, request_id=operation)
            except errors.OperationNotFound:
                raise _operation_not_found(error) from None
        if NEVER_HAPPENED in error.server_message.lower():
            raise _operation_not_found(error) from None
        raise


def create_nodes(
    session: Session, cluster_name: str, request: Any
) -> tuple[ResponseStatus, NodeCreationResult]:
    """Create nodes, exactly once for the id of the request; a missing id is made up."""
    wanted: NodeCreationRequest = _checked(NodeCreationRequest, request)
    request_id = wanted.request_id or str(uuid.uuid4())
    wanted.request_id = request_id

    def recover(listing: NodeList) -> NodeCreationResult:
        return recovery.creation_result(wanted, request_id, listing)

    return Mutation(
        session,
        "create",
        path_of("clusters", cluster_name, "nodes", "create"),
        _decoder(NodeCreationResult),
        _question(session, cluster_name, request_id, recover),
        body=wanted.json_encode(),
    ).carry_out()


def start_nodes(
    session: Session, cluster_name: str, request: Any
) -> tuple[ResponseStatus, NodeManagementResult]:
    """Boot nodes that are off or deallocated."""
    return _manage(session, cluster_name, "start", request)


def deallocate_nodes(
    session: Session, cluster_name: str, request: Any
) -> tuple[ResponseStatus, NodeManagementResult]:
    """Stop the VMs and keep the nodes."""
    return _manage(session, cluster_name, "deallocate", request)


def remove_nodes(
    session: Session, cluster_name: str, request: Any
) -> tuple[ResponseStatus, NodeManagementResult]:
    """Terminate nodes and drop their records."""
    return _manage(session, cluster_name, "remove", request)


def shutdown_nodes(
    session: Session, cluster_name: str, request: Any
) -> tuple[ResponseStatus, NodeManagementResult]:
    """Terminate or deallocate, as each node's shutdown policy says."""
    return _manage(session, cluster_name, "shutdown", request)


def terminate_nodes(
    session: Session, cluster_name: str, request: Any
) -> tuple[ResponseStatus, NodeManagementResult]:
    """Delete the VMs, and the records of nodes that are not fixed."""
    return _manage(session, cluster_name, "terminate", request)


def reimage_nodes(
    session: Session, cluster_name: str, request: Any
) -> tuple[ResponseStatus, NodeManagementResult]:
    """Give nodes a fresh image."""
    return _manage(session, cluster_name, "reimage", request)


def restart_nodes(
    session: Session, cluster_name: str, request: Any
) -> tuple[ResponseStatus, NodeManagementResult]:
    """Reboot nodes."""
    return _manage(session, cluster_name, "restart", request)


def scale(
    session: Session,
    cluster_name: str,
    nodearray: str,
    total_core_count: int | None = None,
    total_node_count: int | None = None,
) -> tuple[ResponseStatus, NodeCreationResult]:
    """Add nodes to a nodearray until it has a total of cores or of nodes.

    Exactly one of the two totals has to be given. Nothing is ever removed.
    """
    return Mutation(
        session,
        "scale",
        path_of("clusters", cluster_name, "scale", nodearray),
        _decoder(NodeCreationResult),
        query={"totalCoreCount": total_core_count, "totalNodeCount": total_node_count},
    ).carry_out()


def retry_failed_nodes(session: Session, cluster_name: str) -> tuple[ResponseStatus, str]:
    """Have every failed node of the cluster tried again.

    The result is what the server said, if anything.
    """
    return Mutation(
        session,
        "retry",
        path_of("cloud", "actions", "retry", cluster_name),
        lambda reply: reply.body.decode("utf-8", "replace"),
    ).carry_out()


def get_usage(
    session: Session,
    cluster_name: str,
    timeframe: str | None = None,
    start: str | None = None,
    end: str | None = None,
    granularity: str | None = None,
    details: bool = False,
) -> tuple[ResponseStatus, ClusterUsage]:
    """The core-hours and the cost of a cluster over a time.

    `start` and `end` (ISO-8601, UTC) are for the timeframe `custom` only.
    """
    query = {
        "timeframe": timeframe,
        "from": start,
        "to": end,
        "granularity": granularity,
        "expand": "details" if details else None,
    }
    return _read(session, path_of("clusters", cluster_name, "usage"), query, ClusterUsage)


def get_operation(session: Session, operation_id: str) -> tuple[ResponseStatus, OperationStatus]:
    """The state of an operation, and when it began."""
    return _read(session, path_of("operations", operation_id), None, OperationStatus)


def list_operations(
    session: Session, request_id: str
) -> tuple[ResponseStatus, list[OperationStatus]]:
    """The operation of a request id, as a list of one.

    Raises OperationNotFound when there is none.
    """
    try:
        reply = session.read("/operations/", {"request_id": request_id})
    except errors.NotFound as error:
        if NEVER_HAPPENED in error.server_message.lower():
            raise _operation_not_found(error) from None
        raise
    data = decode(reply)
    try:
        operations = [OperationStatus.from_dict(item) for item in data]
        for operation in operations:
            operation.validate()
    except (TypeError, errors.InvalidModel) as error:
        found = reply.redact(str(error))
        raise errors.BadReply(reply.url, reply.status_code, "a list of operations", found) from None
    return ResponseStatus(reply.status_code), operations


def _read(
    session: Session,
    path: str,
    query: Mapping[str, Any] | None,
    model: type[M],
    attempts: int | None = None,
) -> tuple[ResponseStatus, M]:
    reply = session.read(path, query, attempts)
    found = decode_model(reply, model)
    if isinstance(found, NodeList):
        found.body = reply.body
    return ResponseStatus(reply.status_code), found


def _manage(
    session: Session, cluster_name: str, action: str, request: Any
) -> tuple[ResponseStatus, NodeManagementResult]:
    wanted: NodeManagementRequest = _checked(NodeManagementRequest, request)
    request_id = wanted.request_id or str(uuid.uuid4())
    wanted.request_id = request_id

    def recover(listing: NodeList) -> NodeManagementResult:
        return recovery.management_result(action, request_id, listing)

    return Mutation(
        session,
        action,
        path_of("clusters", cluster_name, "nodes", action),
        _decoder(NodeManagementResult),
        _question(session, cluster_name, request_id, recover),
        body=wanted.json_encode(),
    ).carry_out()


def _checked(model: type[M], request: Any) -> M:
    """A request, ours or that of another client, as a model of ours that has been validated."""
    to_dict = getattr(request, "to_dict", None)
    wanted = model.from_dict(to_dict() if callable(to_dict) else request)
    wanted.validate()
    return wanted


def _question(
    session: Session, cluster_name: str, request_id: str, recover: Callable[[NodeList], Any]
) -> Question:
    def ask(attempts: int) -> NodeList:
        return _nodes_of(session, cluster_name, None, request_id, attempts)[1]

    return Question(request_id, ask, recover)


def _decoder(model: type[M]) -> Callable[[Reply], M]:
    return lambda reply: decode_model(reply, model)


def _operation_not_found(error: errors.HttpError) -> errors.OperationNotFound:
    return errors.OperationNotFound(error.url, error.status_code, error.server_message)
