"""The simulator's own endpoints, below `/simulator/`: clock, journal, faults and machines.

They take the same credentials as the protocol itself.

    GET    /simulator/clusters                     names of the clusters
    GET    /simulator/clock                        {"now": seconds, "driven": true or false}
    POST   /simulator/clock                        {"advance": seconds}, or {"settle": seconds at
                                                   most} until nothing is pending any more; for
                                                   driven clocks only
    GET    /simulator/journal?since=0&event=…      {"entries": […]}; filters also by cluster,
                                                   node_id, name, nodearray, cause
    GET    /simulator/faults                       {"faults": […]} with how often each was seen
                                                   and fired
    POST   /simulator/faults                       {"faults": […]} installs more, in the form that
                                                   `faults` describes
    DELETE /simulator/faults                       removes all
    GET    /simulator/machines                     {"machines": […]} with node ids, names, pids
    POST   /simulator/clusters/{cluster}/evict     {"names": […]}
    POST   /simulator/clusters/{cluster}/fail      {"names": […], "message": "…"}
    POST   /simulator/clusters/{cluster}/edit      {"names": […], "attributes":
                                                   {"KeepAlive": false}}
    POST   /simulator/regions/{region}/capacity    {"Standard_F2s_v2": 0}: VMs that the region
                                                   can run

Called by `app`; each answer is JSON, and wrong requests are answered like those of the protocol.
"""

from collections.abc import Callable, Mapping

from werkzeug.wrappers import Request, Response

from hpc.autoscale.simulator.errors import BadRequest
from hpc.autoscale.simulator.exchange import json_body, reply, text, whole
from hpc.autoscale.simulator.reading import Section
from hpc.autoscale.simulator.runtime import Runtime

ENDPOINTS: Mapping[str, tuple[str, str]] = {
    "list_clusters": ("GET", "/simulator/clusters"),
    "get_clock": ("GET", "/simulator/clock"),
    "move_clock": ("POST", "/simulator/clock"),
    "get_journal": ("GET", "/simulator/journal"),
    "get_faults": ("GET", "/simulator/faults"),
    "add_faults": ("POST", "/simulator/faults"),
    "clear_faults": ("DELETE", "/simulator/faults"),
    "get_machines": ("GET", "/simulator/machines"),
    "evict": ("POST", "/simulator/clusters/<cluster>/evict"),
    "fail": ("POST", "/simulator/clusters/<cluster>/fail"),
    "edit": ("POST", "/simulator/clusters/<cluster>/edit"),
    "set_capacity": ("POST", "/simulator/regions/<region>/capacity"),
}
"""Verb and path of each endpoint."""

_JOURNAL_FACTS = ("event", "cluster", "node_id", "name", "nodearray", "cause")


def answer(
    runtime: Runtime, request: Request, endpoint: str, arguments: Mapping[str, str]
) -> Response:
    """Carry out a request for one of `ENDPOINTS`. Raises a RequestRefused for one that is wrong."""
    return reply(_HANDLERS[endpoint](runtime, request, arguments))


def _list_clusters(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    return {"clusters": list(runtime.cloud.clusters)}


def _get_clock(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    return {"now": runtime.clock.now(), "driven": runtime.clock.driven}


def _move_clock(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    wanted = _section(request, "advance", "settle")
    if wanted.has("advance") == wanted.has("settle"):
        raise BadRequest("expected exactly one of advance and settle, in seconds")
    if wanted.has("advance"):
        runtime.advance(wanted.number("advance"))
    else:
        runtime.settle(wanted.number("settle"))
    return _get_clock(runtime, request, arguments)


def _get_journal(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    facts = {name: value for name in _JOURNAL_FACTS if (value := text(request, name)) is not None}
    runtime.call(lambda cloud: None)
    return {"entries": runtime.journal.entries(whole(request, "since") or 0, **facts)}


def _get_faults(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    return {"faults": runtime.call(lambda cloud: runtime.faults.report())}


def _add_faults(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    faults = _section(request, "faults").values("faults")
    runtime.call(lambda cloud: runtime.faults.add(*faults, error=BadRequest))
    return _get_faults(runtime, request, arguments)


def _clear_faults(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    runtime.call(lambda cloud: runtime.faults.clear())
    return _get_faults(runtime, request, arguments)


def _get_machines(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    return {"machines": runtime.machines.report()}


def _evict(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    names = _section(request, "names").texts("names")
    return {"names": runtime.call(lambda c: c.cluster(arguments["cluster"]).evict(names))}


def _fail(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    section = _section(request, "names", "message")
    names = section.texts("names")
    why = section.text("message", "Failed on request")
    return {"names": runtime.call(lambda c: c.cluster(arguments["cluster"]).fail(names, why))}


def _edit(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    section = _section(request, "names", "attributes")
    names, changes = section.texts("names"), section.mapping("attributes")
    return {"names": runtime.call(lambda c: c.cluster(arguments["cluster"]).edit(names, changes))}


def _set_capacity(runtime: Runtime, request: Request, arguments: Mapping[str, str]) -> object:
    wanted = json_body(request)
    counts = Section({"capacity": wanted}, "", ["capacity"], BadRequest).wholes("capacity")
    runtime.call(lambda cloud: cloud.set_capacity(arguments["region"], counts))
    return {"capacity": counts}


def _section(request: Request, *keys: str) -> Section:
    return Section(json_body(request), "", keys, BadRequest)


_HANDLERS: Mapping[str, Callable[[Runtime, Request, Mapping[str, str]], object]] = {
    "list_clusters": _list_clusters,
    "get_clock": _get_clock,
    "move_clock": _move_clock,
    "get_journal": _get_journal,
    "get_faults": _get_faults,
    "add_faults": _add_faults,
    "clear_faults": _clear_faults,
    "get_machines": _get_machines,
    "evict": _evict,
    "fail": _fail,
    "edit": _edit,
    "set_capacity": _set_capacity,
}
