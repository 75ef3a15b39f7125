"""The binding to a real server: the interface's calls over REST, and the dry run.

It speaks through a `clusters` module and a session: ours (`ccbindings.clusters`,
`ccbindings.session`), or those of CycleCloud's own client or of a test, which have the same shape.
`new_cluster_bindings` makes it; the node manager calls it.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings import clusters, creation_sets, errors, foreign, recovery, settings
from hpc.autoscale.ccbindings.dryrun import DryRun
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    Model,
    NodeCreationRequest,
    NodeCreationResult,
    NodeList,
    NodeManagementResult,
)
from hpc.autoscale.ccbindings.replies import M
from hpc.autoscale.ccbindings.selection import SelectingBinding, Selection
from hpc.autoscale.ccbindings.session import Session, path_of
from hpc.autoscale.errors import (
    ConfigurationException,
    ReadOnlyModeException,
    check_kinds,
    counted,
)
from hpc.autoscale.redaction import Hiding, redact

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node

__all__ = ["ClusterBinding", "ReadOnlyModeException"]

_logger = logging.getLogger("cyclecloud.clustersapi")


class ClusterBinding(SelectingBinding):
    """The cluster `config["cluster_name"]`, over `session`.

    `clusters_module` has the functions of `ccbindings.clusters`; by default the one that goes with
    the session. With `read_only` nodes are created and started in memory only, and every other
    change is a ReadOnlyModeException. Raises ConfigurationException without a cluster name.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        session: Any,
        client: Any,
        clusters_module: Any = None,
        read_only: bool = False,
    ) -> None:
        name = config.get("cluster_name")
        if not isinstance(name, str) or not name:
            found = "nothing" if name is None else repr(name)
            raise ConfigurationException(
                f"cluster_name: expected the name of a cluster, found {found}"
            )
        self.config = config
        self._cluster_name = name
        self.session = session
        self.client = client
        self.clusters_module = clusters_module or (
            clusters if isinstance(session, Session) else foreign.clusters_module()
        )
        self.read_only = read_only
        self._dry_run = DryRun()
        password = config.get("password")
        self._hide = Hiding(password) if isinstance(password, str) else Hiding()

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return self._cluster_name

    @property
    def where(self) -> str:
        """The cluster and the address of its server, where that is known."""
        url = self._known.get("url")
        return f"cluster {self.cluster_name} at {url}" if url else f"cluster {self.cluster_name}"

    def __str__(self) -> str:
        known = self._known
        return (
            f"ClusterBinding(cluster_name={self.cluster_name}, url={known.get('url')},"
            f" username={known.get('username')}, verify={known.get('verify_certificates')})"
        )

    @property
    def _known(self) -> Any:
        return getattr(self.session, "_config", None) or self.config

    __repr__ = __str__

    def create_nodes(
        self, nodes: Sequence["Node"], request_id: str | None = None
    ) -> NodeCreationResult:
        """Ask for new nodes like these planned ones, in one request. The server chooses their
        names.
        """
        request_id = request_id or str(uuid.uuid4())
        if self.read_only:
            return self._dry_run.create(nodes, request_id)
        sets = [
            creation_sets.creation_set(group) for group in creation_sets.partition_by_set(nodes)
        ]
        request = NodeCreationRequest(request_id=request_id, sets=sets)
        request.validate()
        logging.info(
            "%s: creating %s in %s, request id %s",
            self.where,
            counted(len(nodes), "node"),
            counted(len(sets), "set"),
            request_id,
        )

        def recover(listing: NodeList) -> NodeCreationResult:
            return recovery.creation_result(request, request_id, listing)

        return self._mutate("create", NodeCreationResult, request, request_id, recover)

    def delete_nodes(
        self, nodes: Sequence["Node"], request_id: str | None = None
    ) -> NodeManagementResult:
        """Shut nodes down, which deletes them unless their shutdown policy says otherwise."""
        self._refuse_if_read_only("delete_nodes")
        return self.shutdown_nodes(nodes=nodes, request_id=request_id)

    def retry_failed_nodes(self) -> NodeManagementResult:
        """Have the server try again on every failed node.

        The server does not say which nodes these are, so the result names none.
        """
        self._refuse_if_read_only("retry_failed_nodes")
        self._guarded("retry_failed_nodes", self._retry)
        return NodeManagementResult(operation_id="", nodes=[])

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """Nodearrays, buckets and limits; with `nodes` also the nodes that are in use.

        Nodes of the dry run are among them.
        """
        status = self._read("get_cluster_status", ClusterStatus, nodes)
        if status.nodes is not None:  # else the server did not say which there are
            status.nodes = [*status.nodes, *self._dry_run.records.values()]
        return status

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """All node records, or those of one operation.

        Once the dry run has made nodes, only those are listed.
        """
        if operation_id or request_id:
            check_kinds("get_nodes", str | None, operation_id=operation_id, request_id=request_id)
        if self._dry_run.records:
            return self._dry_run.listing(operation_id, request_id)
        try:
            return self._read("get_nodes", NodeList, operation_id, request_id)
        except (errors.OperationNotFound, errors.CycleCloudUnreachable):
            raise
        except errors.CycleCloudError:
            if self._is_ours or not operation_id or request_id:
                raise
            # the operation of a lost reply goes by its request id; ours looks it up by itself
            return self._read("get_nodes", NodeList, None, operation_id)

    def scale(
        self,
        nodearray: str,
        total_core_count: int | None = None,
        total_node_count: int | None = None,
    ) -> NodeCreationResult:
        """Add nodes to a nodearray until it has a total of cores or of nodes.

        Exactly one of the two totals has to be given.
        """
        self._refuse_if_read_only("scale")
        return self._call(
            "scale", NodeCreationResult, nodearray, total_core_count, total_node_count
        )

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        """Raise InconsistentStatus unless these two replies may be acted on.

        A listing that has the dry run's nodes alone is accepted as it is.
        """
        super().check_listing(status, None if self._dry_run.records else node_list)

    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        request_id = request_id or str(uuid.uuid4())
        if self.read_only and action == "start":
            return self._dry_run.start(selection, request_id, lambda: self.get_nodes().nodes)
        self._refuse_if_read_only(f"{action}_nodes")
        request = selection.request(request_id)
        request.validate()

        def recover(listing: NodeList) -> NodeManagementResult:
            return recovery.management_result(action, request_id, listing)

        return self._mutate(action, NodeManagementResult, request, request_id, recover)

    def _refuse_if_read_only(self, call: str) -> None:
        if self.read_only:
            raise ReadOnlyModeException(f"Can not call {call} in read only mode.")

    def _mutate(
        self,
        action: str,
        model: type[M],
        request: Model,
        request_id: str,
        recover: Callable[[NodeList], M],
    ) -> M:
        """Carry out a request exactly once.

        Our functions see to that themselves; around another client's it is done here.
        """

        def call() -> M:
            return self._call(f"{action}_nodes", model, request, request_id=request_id)

        def ask() -> NodeList:
            # the lost reply was one of the tries
            left = max(1, settings.pacing(self.config).attempts - 1)
            return self._read("get_nodes", NodeList, None, request_id, attempts=left)

        if self._is_ours:
            return call()
        return foreign.carried_out_once(call, action, request_id, ask, recover)

    def _read(self, function: str, model: type[M], *args: Any, attempts: int | None = None) -> M:
        """The result of a read, which may be repeated.

        Our functions repeat it themselves; around another client's it is done here.
        """
        if self._is_ours:
            return self._call(function, model, *args)
        pacing = settings.pacing(self.config)
        return foreign.patiently(lambda: self._call(function, model, *args), pacing, attempts)

    @property
    def _is_ours(self) -> bool:
        return self.clusters_module is clusters

    def _call(self, function: str, model: type[M], *args: Any, request_id: str | None = None) -> M:
        """Call a function of the clusters module; its result as one of our models."""

        def call() -> Any:
            return getattr(self.clusters_module, function)(self.session, self.cluster_name, *args)

        reply = self._guarded(function, call, request_id)
        if self._is_ours:
            result: M = reply[1]
        else:
            result = foreign.judged(self._asked(function), reply, model, request_id, self._hide)
        _log(function, result)
        return result

    def _guarded(
        self, call: str, function: Callable[[], Any], request_id: str | None = None
    ) -> Any:
        return foreign.guarded(self._asked(call), function, request_id, self._hide)

    def _asked(self, call: str) -> str:
        """What errors of a call begin with: the cluster, its server and the call."""
        return f"{self.where}: {call}"

    def _retry(self) -> None:
        if self._is_ours:
            clusters.retry_failed_nodes(self.session, self.cluster_name)
            return
        context = self.clusters_module._RequestContext()
        context.path = path_of("cloud", "actions", "retry", self.cluster_name)
        accepted = [(code, "object", lambda value: value) for code in (200, 201, 202, 204)]
        self.session.request(context, "POST", expected_responses=accepted)


def _log(function: str, model: Model) -> None:
    if _logger.isEnabledFor(logging.FINE):
        shown = json.dumps(redact(model.to_dict()), default=str)
        _logger.log(logging.FINE, "%s: %s", function, shown)
    elif _logger.isEnabledFor(logging.DEBUG):
        _logger.debug("%s: %s%.100r", function, type(model).__name__, redact(_beginning(model)))


def _beginning(value: Any) -> Any:
    """A model as a dict in which each list has its first item only.

    A log line has no room for thousands of nodes.
    """
    if isinstance(value, Model):
        return {name: _beginning(part) for name, part in vars(value).items()}
    if isinstance(value, list):
        return [_beginning(item) for item in value[:1]]
    return value
