"""Listening to a pass: what comes in through its doors, and what goes out, becomes a record.

The doors are the binding of the cluster and the driver of the scheduler. `PassRecorder` stands
beside them: it answers nothing and changes nothing, and what fails here never fails a pass. Called
by the loop; a pass finds it in its configuration.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from hpc.autoscale import hpctypes as ht
from hpc.autoscale._version import __version__
from hpc.autoscale.ccbindings import MADE_BY, new_cluster_bindings
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import ClusterStatus, NodeList
from hpc.autoscale.collector import collecting_seldom
from hpc.autoscale.config.secrets import known_secrets
from hpc.autoscale.journal.changes import Rows, distinct
from hpc.autoscale.journal.records import EMPTY, NAMES, Written, key_of_node, status_rows
from hpc.autoscale.journal.snapshots import host_rows, job_rows
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.redaction import Hiding, redact, redact_texts

RECORDER = "_journal"
"""The entry of a pass's configuration with its recorder."""

CAUSES = 50
"""Reasons why jobs wait that are worked out for one record at most."""

_COMMANDS = {
    "create_nodes": "create",
    "start_nodes": "start",
    "delete_nodes": "delete",
    "shutdown_nodes": "delete",
}
_HOOKS = {"handle_undraining": "undrain", "handle_draining": "drain"}


class PassRecorder:
    """What is heard of one pass. It may be called by several threads."""

    def __init__(self, at: float, driver: object) -> None:
        import platform

        self.at = at
        self.by = {
            "program": f"hpc-autoscale {__version__}",
            "driver": f"{type(driver).__module__}:{type(driver).__qualname__}",
            "host": platform.node(),
            "pid": os.getpid(),
            "source": "loop",
        }
        self.lists: dict[str, Rows] = dict(EMPTY)
        self.decided: list[dict[str, Any]] = []
        self.why: Mapping[object, str] = {}
        self._turn = threading.Lock()
        self._is_new = {"status", "nodes", "jobs", "hosts"}

    # -- the doors

    def around(self, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration of a pass that is listened to."""
        made_by = config.get(MADE_BY)

        def make(own: Mapping[str, Any]) -> ClusterBindingInterface:
            binding = new_cluster_bindings({**own, MADE_BY: made_by} if made_by else own)
            return cast(ClusterBindingInterface, _HeardBinding(binding, self))

        return {**config, MADE_BY: make, RECORDER: self}

    def heard_reading(self, jobs: Sequence[object], hosts: Sequence[Node]) -> None:
        """The scheduler was read."""
        if self._first("jobs"):
            with collecting_seldom():
                self.lists["jobs"] = job_rows(jobs)
                self.lists["hosts"] = host_rows(hosts)

    def heard_status(self, status: object) -> None:
        """The cluster has answered with its status."""
        if self._first("status"):
            self.lists["status"] = status_rows(status_json(status))._replace(plain=redact_texts)

    def heard_nodes(self, listing: object) -> None:
        """The cluster has listed its nodes."""
        if self._first("nodes"):
            self.lists["nodes"] = node_rows(NodeList.adopt(listing).nodes or ())

    def heard_command(self, action: str, nodes: Iterable[Node]) -> None:
        """A command about nodes is about to be given."""
        rows = list(self._rows(action, list(nodes)))
        with self._turn:
            self.decided += rows

    def heard_hook(self, hook: str, given: Sequence[Node]) -> None:
        """A method of the driver that takes nodes is about to be called."""
        action = _HOOKS.get(hook)
        if action and given:
            self.heard_command(action, given)

    def _first(self, what: str) -> bool:
        with self._turn:
            is_first = what in self._is_new
            self._is_new.discard(what)
            return is_first

    def _rows(self, action: str, nodes: Sequence[Node]) -> Iterable[dict[str, Any]]:
        """What is decided, as rows: one for each node, and for new ones one for each bucket."""
        if action != "create":
            for node in nodes:
                found = _about(action, [node])
                reason = self.why.get(key_of(node))
                yield {**found, "node": str(node.name), **({"reason": reason} if reason else {})}
            return
        alike: dict[str, list[Node]] = {}
        for node in nodes:
            alike.setdefault(bucket_name(node), []).append(node)
        for some in alike.values():
            yield _about(action, some)

    # -- the end

    def written(self, config: Mapping[str, Any], did: Mapping[str, Any]) -> Written:
        """The record. `did`: what the pass did, as JSON, `unsatisfied` left out."""
        own = dict(did)
        for name in NAMES:
            self.lists[name] = Rows.of_texts(own.pop(name, ()))
        return Written(
            at=self.at,
            by=self.by,
            config=readable(config),
            lists=self.lists,
            decided=self.decided,
            did=own,
            doors={},
            hiding=Hiding(*known_secrets(config)),
        )


def readable(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as a journal has it: without secrets, and without live objects."""
    own = {k: v for k, v in config.items() if not str(k).startswith("_")}
    found: dict[str, Any] = redact(own)
    return found


def node_rows(records: Sequence[Mapping[str, Any]]) -> Rows:
    """The records of a listing."""
    return Rows(
        distinct([str(key_of_node(record)) for record in records]), list(records), redact_texts
    )


def status_json(status: object) -> dict[str, Any]:
    """The JSON form of a status, that of several clusters with its parts."""
    parts: Mapping[str, ClusterStatus] = getattr(status, "parts", None) or {}
    found: dict[str, Any] = ClusterStatus.adopt(status).to_dict()
    found.pop("nodes", None)
    if parts:
        found["nodearrays"] = []
        found["problems"] = list(getattr(status, "problems", ()))
        found["parts"] = {name: part.to_dict() for name, part in parts.items()}
    return found


def unsatisfied_rows(jobs: Sequence[Any]) -> Rows:
    """The jobs that wait, as `UnsatisfiedJob` has them, each with its reason as far as that is
    among the first `CAUSES`."""
    explained: dict[int, tuple[str | None, str | None]] = {}
    values = []
    for job in jobs:
        cause = id(job.cause)
        if cause not in explained:
            known = len(explained) < CAUSES
            explained[cause] = (job.reason, job.limit) if known else (None, None)
        values.append((job.name, job.missing, job.unit, *explained[cause]))
    return Rows(distinct([str(job.name) for job in jobs]), values, _unsatisfied_json)


def _unsatisfied_json(value: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("job", "missing", "unit", "reason", "limit"), value, strict=True))


def bucket_name(node: Node) -> str:
    """Nodearray, VM size and placement group with slashes between them."""
    parts = (str(node.nodearray), str(node.vm_size), str(node.placement_group or ""))
    return "/".join(filter(None, parts))


def _about(action: str, nodes: Sequence[Node]) -> dict[str, Any]:
    prices = [_price(node) for node in nodes]
    known = [price for price in prices if price is not None]
    sign = -1 if action in ("delete",) else 1
    changes = action in ("create", "start", "delete")
    total: float | None = round(sign * sum(known), 6) if len(known) == len(prices) else None
    jobs = {str(job) for node in nodes for job in node.assignments}
    return {
        "action": action,
        "bucket": bucket_name(nodes[0]),
        "count": len(nodes),
        "nodes": [str(node.name) for node in nodes],
        "price_per_hour": total if changes else 0.0,
        "jobs": sorted(jobs, key=ht.name_order),
    }


def _price(node: Node) -> float | None:
    return price_per_hour(node.location, node.vm_size, bool(node.spot)) if node.managed else 0.0


class _HeardBinding:
    """A binding that is listened to; it answers as the one within it does."""

    def __init__(self, inner: ClusterBindingInterface, recorder: PassRecorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_recorder"):  # not there yet, while an object is copied
            raise AttributeError(name)
        found = getattr(self._inner, name)
        if name in _COMMANDS:
            return self._heard_command(found, _COMMANDS[name])
        return found

    def __str__(self) -> str:
        return str(self._inner)

    __repr__ = __str__

    def __deepcopy__(self, memo: object) -> _HeardBinding:
        """Connections are not copied."""
        return self

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The status."""
        status = self._inner.get_cluster_status(nodes=nodes)
        self._recorder.heard_status(status)
        return status

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """Node records."""
        if operation_id is None and request_id is None:
            listing = self._inner.get_nodes()
            self._recorder.heard_nodes(listing)
            return listing
        return self._inner.get_nodes(operation_id=operation_id, request_id=request_id)

    def _heard_command(self, call: Callable[..., Any], action: str) -> Callable[..., Any]:
        def command(nodes: Sequence[Node] | None = None, **kwargs: Any) -> Any:
            self._recorder.heard_command(action, nodes or ())
            return call(nodes=nodes, **kwargs) if nodes is not None else call(**kwargs)

        return command
