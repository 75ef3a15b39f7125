"""The protocol over HTTP: routes, credentials, JSON in and out, and the faults that were ordered.

It knows werkzeug and is imported when a server starts. What requests mean is decided by the model;
the simulator's own endpoints below `/simulator/` are in `control`.
"""

import contextlib
import json
import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from hpc.autoscale.autostop.web import body_of
from hpc.autoscale.ccbindings import models
from hpc.autoscale.requestsets.recording import STANDARD
from hpc.autoscale.simulator import azure, control
from hpc.autoscale.simulator.errors import BadRequest, RequestRefused
from hpc.autoscale.simulator.exchange import (
    LARGEST_BODY,
    boolean,
    http_error,
    json_body,
    json_value,
    message,
    reply,
    text,
    unauthorized,
    whole,
)
from hpc.autoscale.simulator.faults import ENDPOINTS, Fault
from hpc.autoscale.simulator.runtime import Runtime
from hpc.autoscale.simulator.usage import UsageQuery
from hpc.autoscale.wsgi.basic import Login

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_log = logging.getLogger(__name__)

_PAGE = (
    "<!DOCTYPE html><html><head><title>CycleCloud</title></head><body><h1>Log in</h1></body></html>"
)


@cache
def _routes() -> Map:
    """The endpoint of each path. To make it takes longer than all else at the start."""
    routes = {**ENDPOINTS, **control.ENDPOINTS}
    return Map(
        [Rule(path, methods=[verb], endpoint=name) for name, (verb, path) in routes.items()],
        strict_slashes=False,
        merge_slashes=False,
    )


class Application:
    """The WSGI application of one simulator."""

    def __init__(self, runtime: Runtime, credentials: Login) -> None:
        self._runtime = runtime
        self._credentials = credentials
        self._routes = _routes()

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        request = Request(environ)
        request.max_content_length = LARGEST_BODY
        return self._respond(request)(environ, start_response)

    def _respond(self, request: Request) -> Response:
        admitted = self._credentials.admits(request.headers.get("Authorization"))
        try:
            endpoint, arguments = self._routes.bind_to_environ(request.environ).match()
        except HTTPException as error:
            return http_error(request, error) if admitted else unauthorized()
        if not admitted and endpoint not in azure.NAMES:
            return unauthorized()
        if endpoint in control.ENDPOINTS:
            return self._answer(control.answer, request, endpoint, arguments)
        handler = azure.answer if endpoint in azure.NAMES else _answer
        fault = self._runtime.next_fault(endpoint, arguments.get("cluster"))
        if fault is None:
            return self._answer(handler, request, endpoint, arguments)
        time.sleep(fault.seconds)
        response = (
            self._answer(handler, request, endpoint, arguments) if fault.acts else _error(fault)
        )
        return _spoil(fault, request, response)

    def _answer(
        self,
        handler: "Callable[[Runtime, Request, str, Mapping[str, str]], Response]",
        request: Request,
        endpoint: str,
        arguments: Mapping[str, str],
    ) -> Response:
        try:
            return handler(self._runtime, request, endpoint, arguments)
        except RequestRefused as error:
            return message(error.status_code, error.code, str(error))
        except HTTPException as error:
            return http_error(request, error)
        except Exception:  # noqa: BLE001  the edge: the caller gets an answer whatever went wrong
            _log.exception("%s %s failed", request.method, request.path)
            return message(500, "InternalError", "The simulator failed; its log has the details")


# -------------------------------------------------------------------- the protocol's endpoints


def _answer(
    runtime: Runtime, request: Request, endpoint: str, arguments: Mapping[str, str]
) -> Response:
    if endpoint in ("list_operations", "get_operation"):
        return _operations(runtime, request, arguments)
    name = arguments["cluster"]
    if endpoint == "get_cluster_status":
        with_nodes = boolean(request, "nodes")
        return reply(runtime.call(lambda c: c.cluster(name).status(with_nodes).to_dict()))
    if endpoint == "get_nodes":
        ids = text(request, "operation"), text(request, "request_id")
        return reply(runtime.call(lambda c: c.cluster(name).node_list(*ids).to_dict()))
    if endpoint == "get_cluster_usage":
        query = _usage_query(request)
        return reply(runtime.call(lambda c: c.cluster(name).usage(query).to_dict()))
    if endpoint == "get_ghr":
        # what a report looks like when it is read is ours: the protocol does not say
        return reply(runtime.call(lambda c: c.cluster(name).health_report(arguments["node"])))
    if endpoint == "submit_ghr":
        said = text(request, "category"), text(request, "description")
        runtime.call(lambda c: c.cluster(name).report_health(arguments["node"], *said))
        return Response(status=202)
    if endpoint in ("ask_to_stop", "ask_to_stop_by_get"):
        return _ask_to_stop(runtime, name, text(request, "instance"))
    if endpoint == "report_demand":
        arrays = json_value(request)
        request_set = text(request, "request_set") or STANDARD
        seconds = float(whole(request, "expiration_interval") or 0)
        report = (arrays, request_set, seconds)
        return reply({"added": runtime.call(lambda c: c.cluster(name).demand.report(*report))})
    if endpoint == "retry_failed_nodes":
        return reply({"retried": runtime.call(lambda c: c.cluster(name).retry_failed())})
    return _change(runtime, request, endpoint, arguments)


def _ask_to_stop(runtime: Runtime, name: str, instance: str | None) -> Response:
    if instance is None:
        raise BadRequest("instance: expected an id, found none")
    answer = runtime.call(lambda cloud: cloud.cluster(name).demand.ask(instance))
    return reply(body_of(answer, instance), answer.code.status)


def _usage_query(request: Request) -> UsageQuery:
    return UsageQuery(
        text(request, "timeframe"),
        text(request, "from"),
        text(request, "to"),
        text(request, "granularity"),
        details=text(request, "expand") == "details",
    )


def _operations(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> Response:
    if "operation_id" in arguments:
        wanted = arguments["operation_id"]
        return reply(runtime.call(lambda cloud: cloud.operation(wanted).status().to_dict()))
    request_id = text(request, "request_id")
    found = runtime.call(lambda cloud: cloud.operations(request_id))
    return reply([operation.to_dict() for operation in found])


def _change(
    runtime: Runtime, request: Request, endpoint: str, arguments: Mapping[str, str]
) -> Response:
    """The response to a request that adds nodes or acts on them.

    It has status 202 and the operation's URL as its Location.
    """
    name = arguments["cluster"]
    result: models.NodeCreationResult | models.NodeManagementResult
    if endpoint == "scale":
        array = arguments["nodearray"]
        totals = whole(request, "totalCoreCount"), whole(request, "totalNodeCount")
        result = runtime.call(lambda cloud: cloud.cluster(name).scale(array, *totals))
    elif endpoint == "create_nodes":
        creation = models.NodeCreationRequest.from_dict(json_body(request))
        result = runtime.call(lambda cloud: cloud.cluster(name).create(creation))
    else:
        action = endpoint.removesuffix("_nodes")
        management = models.NodeManagementRequest.from_dict(json_body(request))
        result = runtime.call(lambda cloud: cloud.cluster(name).manage(action, management))
    response = reply(result.to_dict(), 202)
    response.headers["Location"] = f"{request.root_url}operations/{result.operation_id}"
    return response


# -------------------------------------------------------------------- faults


def _error(fault: Fault) -> Response:
    response = message(fault.status, "Fault", fault.message)
    if fault.retry_after is not None:
        response.headers["Retry-After"] = fault.retry_after
    return response


def _spoil(fault: Fault, request: Request, response: Response) -> Response:
    """The response that a caller gets in place of the right one, as the fault says."""
    data = response.get_data()
    if fault.kind in ("lost_reply", "no_reply"):
        _hang_up(request)
    elif fault.kind == "status":
        return _error(fault)
    elif fault.kind == "html":
        return Response(_PAGE, 200, content_type="text/html")
    elif fault.kind == "truncated":
        response.set_data(data[: len(data) // 2])
    elif fault.kind == "cut_off":
        response.response = _half(data, request)
    elif fault.kind == "empty_nodes":
        value = json.loads(data)
        if isinstance(value, dict) and "nodes" in value:
            response.set_data(json.dumps({**value, "nodes": []}))
    return response


def _half(data: bytes, request: Request) -> Iterator[bytes]:
    yield data[: len(data) // 2]
    _hang_up(request)


def _hang_up(request: Request) -> None:
    """Close the connection without a response.

    It raises an exception that the server takes for a caller that went away.
    """
    connection = request.environ["werkzeug.socket"]
    with contextlib.suppress(OSError):  # the caller was faster
        connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError("a fault was ordered")
