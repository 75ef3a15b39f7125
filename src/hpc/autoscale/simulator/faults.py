"""Faults to order: which call of which endpoint goes wrong, and how.

`FaultBook` decides; `server` does what was decided. Faults come from the description's `faults`,
from the control endpoint and from tests. Each is a JSON object:

    endpoint     an endpoint of `ENDPOINTS`, "GET", "POST" or "*" (default)
    cluster      only calls for this cluster
    kind         one of `KINDS`
    calls        which calls, counted from 1 since the fault was installed: [1, 3]
    probability  or how likely each call is
    times        at most so often (by default as often as `calls` and `probability` say)
    acts         for kinds "status" (default false) and "html" (default true): whether the
                 request is carried out first
    status, message, retry_after
                 for kind "status": 200 to 599, the Message, seconds or an HTTP date
    seconds      for kind "latency": real seconds
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.simulator.errors import DescriptionError
from hpc.autoscale.simulator.reading import MakeError, Section

ENDPOINTS: Mapping[str, tuple[str, str]] = {
    "get_cluster_status": ("GET", "/clusters/<cluster>/status"),
    "get_nodes": ("GET", "/clusters/<cluster>/nodes"),
    "create_nodes": ("POST", "/clusters/<cluster>/nodes/create"),
    "deallocate_nodes": ("POST", "/clusters/<cluster>/nodes/deallocate"),
    "reimage_nodes": ("POST", "/clusters/<cluster>/nodes/reimage"),
    "remove_nodes": ("POST", "/clusters/<cluster>/nodes/remove"),
    "restart_nodes": ("POST", "/clusters/<cluster>/nodes/restart"),
    "shutdown_nodes": ("POST", "/clusters/<cluster>/nodes/shutdown"),
    "start_nodes": ("POST", "/clusters/<cluster>/nodes/start"),
    "terminate_nodes": ("POST", "/clusters/<cluster>/nodes/terminate"),
    "scale": ("POST", "/clusters/<cluster>/scale/<nodearray>"),
    "retry_failed_nodes": ("POST", "/cloud/actions/retry/<cluster>"),
    "ask_to_stop": ("POST", "/cloud/actions/autoscale/<cluster>/stop"),
    "ask_to_stop_by_get": ("GET", "/cloud/actions/autoscale/<cluster>/stop"),
    "report_demand": ("POST", "/cloud/actions/autoscale/<cluster>"),  # ours
    "submit_ghr": ("POST", "/clusters/<cluster>/nodes/<node>/ghr"),
    "get_ghr": ("GET", "/clusters/<cluster>/nodes/<node>/ghr"),
    "get_cluster_usage": ("GET", "/clusters/<cluster>/usage"),
    "list_operations": ("GET", "/operations/"),
    "get_operation": ("GET", "/operations/<operation_id>"),
    # Azure's own
    "get_token": ("GET", "/metadata/identity/oauth2/token"),
    "get_spot_scores": (
        "POST",
        "/subscriptions/<subscription>/providers/Microsoft.Compute/locations/<location>"
        "/placementScores/spot/generate",
    ),
    "get_prices": ("GET", "/api/retail/prices"),
}
"""The endpoints of the protocol, and those of Azure: verb and path of each."""

KINDS: Mapping[str, bool] = {
    "lost_reply": True,  # the connection is closed without an answer
    "no_reply": False,  # the same, before anything was done
    "status": False,  # an error status
    "latency": True,  # the right answer, late
    "html": True,  # a page for people, with status 200
    "truncated": True,  # half of the JSON, as a complete HTTP reply
    "cut_off": True,  # the connection is closed in the middle of the body
    "empty_nodes": True,  # the right answer without its nodes
}
"""What can go wrong, and whether the request is carried out by default."""


@dataclass(frozen=True)
class Fault:
    """One fault, with the keys that the docstring of the module describes."""

    kind: str
    endpoint: str = "*"
    cluster: str | None = None
    calls: tuple[int, ...] = ()
    probability: float = 1.0
    times: int | None = None
    acts: bool = True
    status: int = 500
    message: str = "The server cannot handle this request now"
    retry_after: str | None = None
    seconds: float = 0.0

    def concerns(self, endpoint: str, verb: str, cluster: str | None) -> bool:
        """Whether the fault counts this call."""
        return self.endpoint in ("*", verb, endpoint) and self.cluster in (None, cluster)


_KEYS = [item.name for item in fields(Fault)]
_ONLY_FOR: Mapping[str, tuple[str, ...]] = {
    "status": ("status",),
    "message": ("status",),
    "retry_after": ("status",),
    "acts": ("status", "html"),
    "seconds": ("latency",),
}


def read_faults(
    values: Sequence[object],
    path: str,
    clusters: Collection[str],
    error: MakeError = DescriptionError,
) -> tuple[Fault, ...]:
    """The faults in decoded JSON; `error` makes the exception for the first that is wrong."""
    return tuple(
        _read(Section(value, f"{path}[{index}]", _KEYS, error), clusters)
        for index, value in enumerate(values)
    )


def _read(section: Section, clusters: Collection[str]) -> Fault:
    if not section.has("kind"):
        raise section.fail("kind", f"one of {', '.join(KINDS)}", None)
    kind = section.choice("kind", list(KINDS), "")
    for key, kinds in _ONLY_FOR.items():
        if section.has(key) and kind not in kinds:
            expected = f"nothing, because it is only for kind {' and '.join(kinds)}"
            raise section.fail(key, expected, section.raw(key))
    cluster = section.maybe_text("cluster")
    if cluster is not None and cluster not in clusters:
        hint = did_you_mean(cluster, clusters)
        raise section.fail("cluster", "the name of a cluster", cluster, hint)
    status = section.whole("status", 500, least=200)
    if status > 599:
        raise section.fail("status", "an HTTP status, 200 to 599", status)
    return Fault(
        kind,
        endpoint=section.choice("endpoint", ["*", "GET", "POST", *ENDPOINTS], "*"),
        cluster=cluster,
        calls=section.whole_list("calls", least=1),
        probability=section.number("probability", 1.0, most=1.0),
        times=section.maybe_whole("times"),
        acts=section.flag("acts", KINDS[kind]),
        status=status,
        message=section.text("message", Fault.message),
        retry_after=_retry_after(section),
        seconds=section.number("seconds", 0.0, most=3600.0),
    )


def _retry_after(section: Section) -> str | None:
    value = section.raw("retry_after")
    if isinstance(value, str):
        if not value.isascii() or not value.isprintable():
            raise section.fail("retry_after", "seconds or an HTTP date", value)
        return value
    return f"{section.number('retry_after'):g}" if section.has("retry_after") else None


@dataclass
class _Installed:
    fault: Fault
    seen: int = 0
    fired: int = 0


class FaultBook:
    """The faults that are installed now.

    It is not thread-safe: the server uses it under its lock. The same `rng` and the same calls give
    the same faults.
    """

    def __init__(self, faults: Sequence[Fault], clusters: Collection[str], rng: random.Random):
        self._clusters = clusters
        self._installed = [_Installed(fault) for fault in faults]
        self._rng = rng

    def add(self, *values: object, error: MakeError = DescriptionError) -> None:
        """Install faults given in their JSON form, all or none.

        `error` makes the exception for the first that is wrong.
        """
        faults = read_faults(values, "faults", self._clusters, error)
        self._installed += [_Installed(fault) for fault in faults]

    def clear(self) -> None:
        """Remove all faults."""
        self._installed.clear()

    def report(self) -> list[dict[str, Any]]:
        """Each fault with how many calls it has seen and how often it fired."""
        return [
            {
                "kind": item.fault.kind,
                "endpoint": item.fault.endpoint,
                "seen": item.seen,
                "fired": item.fired,
            }
            for item in self._installed
        ]

    def next(self, endpoint: str, cluster: str | None) -> Fault | None:
        """The first installed fault whose turn it is at this call; None when the call is to go
        well.
        """
        verb = ENDPOINTS[endpoint][0]
        due = [item for item in self._installed if item.fault.concerns(endpoint, verb, cluster)]
        due = [item for item in due if self._turn(item)]
        if not due:
            return None
        due[0].fired += 1
        return due[0].fault

    def _turn(self, item: _Installed) -> bool:
        item.seen += 1
        fault = item.fault
        if fault.times is not None and item.fired >= fault.times:
            return False
        if fault.calls and item.seen not in fault.calls:
            return False
        return fault.probability >= 1.0 or self._rng.random() < fault.probability
