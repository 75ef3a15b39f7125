"""A binding that is listened to: it answers as the one within it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import ClusterStatus, NodeList
from hpc.autoscale.node.node import Node

if TYPE_CHECKING:
    from hpc.autoscale.journal.recording import PassRecorder

COMMANDS = {
    "create_nodes": "create",
    "start_nodes": "start",
    "delete_nodes": "delete",
    "shutdown_nodes": "delete",
}
"""The calls of a binding by which a pass changes a cluster, and what they do."""


class HeardBinding:
    """A binding."""

    def __init__(self, inner: ClusterBindingInterface, recorder: PassRecorder) -> None:
        self._inner = inner
        self._recorder = recorder
        where = getattr(inner, "where", None)  # a binding of an integration need not have it
        members = getattr(inner, "members", None)  # those of several clusters
        several = {} if members is None else {"members": members}
        recorder.doors["cluster"] = {"name": inner.cluster_name, "where": where, **several}
        self._are_several = members is not None
        self._away: object = None
        self._recorder.doors["cluster"].update(self._news())

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_recorder"):  # not there yet, while an object is copied
            raise AttributeError(name)
        found = getattr(self._inner, name)
        if name in COMMANDS:
            return self._command(name, found)
        return self._as_read(found) if name == "as_read" else found

    def __str__(self) -> str:
        return str(self._inner)

    __repr__ = __str__

    def __deepcopy__(self, memo: object) -> HeardBinding:
        """Connections are not copied."""
        return self

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The status."""
        ask = self._inner.get_cluster_status
        status: ClusterStatus = self._ask("status", ask, {"asked": nodes}, nodes=nodes)
        self._recorder.heard_status(status, nodes, self._news())
        return status

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """Node records."""
        if operation_id is None and request_id is None:
            listing: NodeList = self._ask("nodes", self._inner.get_nodes, {})
            self._recorder.heard_nodes(listing, self._news())
            return listing
        asked = (
            {"request_id": request_id} if operation_id is None else {"operation_id": operation_id}
        )
        listing = self._ask(
            "listing", self._inner.get_nodes, {"id": operation_id or request_id}, **asked
        )
        self._recorder.heard_listing(operation_id or request_id, listing, self._news())
        return listing

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        """Raise what the binding raises."""
        check = getattr(self._inner, "check_listing", None)
        if check is not None:
            self._ask("check", check, {}, status, *(() if node_list is None else (node_list,)))
        self._recorder.heard("check")

    def _command(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def command(nodes: Sequence[Node] | None = None, **kwargs: Any) -> Any:
            asked = list(nodes or ())
            self._recorder.heard_command(COMMANDS[name], asked)
            given = {} if nodes is None else {"nodes": nodes}
            known = {"call": name, "id": kwargs.get("request_id")}
            answer = self._ask("command", call, known, **given, **kwargs)
            self._recorder.heard_done(known, answer, self._news())
            return answer

        return command

    def _as_read(self, call: Callable[[], tuple[ClusterStatus, NodeList]]) -> Callable[..., Any]:
        def as_read() -> tuple[ClusterStatus, NodeList]:
            with self._recorder.outside():
                status, listing = call()
            self._recorder.heard_as_read(status, listing, self._news())
            return status, listing

        return as_read

    def _news(self) -> dict[str, Any]:
        """Which of several clusters are set aside, and why, if these are others than before."""
        if not self._are_several:
            return {}
        away = dict(getattr(self._inner, "away", {}))
        never = list(getattr(self._inner, "never_read", ()))
        before, self._away = self._away, (away, never)
        return {} if before == self._away else {"away": away, "never_read": never}

    def _ask(
        self,
        door: str,
        call: Callable[..., Any],
        known: dict[str, Any],
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Ask the binding; its errors are heard."""
        with self._recorder.outside():
            try:
                return call(*args, **kwargs)
            except Exception as error:
                self._recorder.heard_error(door, {**known, **self._news()}, error)
                raise
