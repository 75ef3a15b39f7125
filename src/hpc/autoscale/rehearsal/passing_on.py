"""A binding and a driver that pass everything on to another one: what is put around the doors of a
pass derives from these and overrides what it is about.

Nothing is recorded or changed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpc.autoscale.autoscaler.faults import call_with_up_to
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    NodeCreationResult,
    NodeList,
    NodeManagementResult,
)
from hpc.autoscale.ccbindings.selection import SelectingBinding, Selection
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.results.verdicts import Verdict
from hpc.autoscale.util import SingletonLock


class PassingBinding(SelectingBinding):
    """A binding that answers as `inner` does, also where that has more than the interface asks for,
    such as the binding of several clusters."""

    def __init__(self, inner: ClusterBindingInterface) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # it is not there yet, while an object is copied
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __str__(self) -> str:
        return str(self.inner)

    __repr__ = __str__

    def __deepcopy__(self, memo: object) -> PassingBinding:
        """Connections are not copied."""
        return self

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return self.inner.cluster_name

    @property
    def where(self) -> str:
        """The cluster and its server, for messages."""
        # a binding of an integration may have no such property
        return str(getattr(self.inner, "where", f"cluster {self.inner.cluster_name}"))

    def create_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeCreationResult:
        return self.inner.create_nodes(nodes, request_id=request_id)

    def delete_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeManagementResult:
        return self.inner.delete_nodes(nodes, request_id=request_id)

    def retry_failed_nodes(self) -> NodeManagementResult:
        return self.inner.retry_failed_nodes()

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        return self.inner.get_cluster_status(nodes=nodes)

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        if operation_id is None and request_id is None:
            return self.inner.get_nodes()
        if operation_id is None:
            return self.inner.get_nodes(request_id=request_id)
        return self.inner.get_nodes(operation_id=operation_id)

    def scale(
        self,
        nodearray: str,
        total_core_count: int | None = None,
        total_node_count: int | None = None,
    ) -> NodeCreationResult:
        return self.inner.scale(nodearray, total_core_count, total_node_count)

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        check = getattr(self.inner, "check_listing", None)
        if check is not None:
            check(status, node_list)

    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        chosen = {key: value for key, value in vars(selection).items() if value}
        method = getattr(self.inner, f"{action}_nodes")
        result: NodeManagementResult = method(request_id=request_id, **chosen)
        return result


class PassingDriver(SchedulerDriver):
    """A driver that does as `driver` does."""

    def __init__(self, driver: SchedulerDriver) -> None:
        super().__init__(driver.name)
        self.driver = driver

    def __getattr__(self, name: str) -> Any:
        """What only this kind of driver has, for command lines that know it."""
        if name == "driver" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.driver, name)

    def __str__(self) -> str:
        return str(self.driver)

    __repr__ = __str__

    @property
    def autoscale_home(self) -> str:
        """The driver's."""
        return self.driver.autoscale_home

    def initialize(self) -> None:
        """The driver's."""
        self.driver.initialize()

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """The driver's."""
        return self.driver.preprocess_config(config)

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        """The driver's."""
        self.driver.preprocess_node_mgr(config, node_mgr)

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        """The driver's."""
        self.driver.validate_nodes(scheduler_nodes, cc_nodes)

    def wanted_arrays(self, config: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The driver's."""
        return self.driver.wanted_arrays(config)

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        """The driver's."""
        self.driver.explain_job(job, verdict)

    @property
    def has_place_for_verdicts(self) -> bool:
        """The driver's."""
        return self.driver.has_place_for_verdicts

    def name_of_job(self, name: str) -> str:
        """As the driver says."""
        return self.driver.name_of_job(name)

    @property
    def has_place_for_requests(self) -> bool:
        """The driver's."""
        return self.driver.has_place_for_requests

    def reading_stamp(self) -> object | None:
        """The driver's."""
        return self.driver.reading_stamp()

    def foresee(self, hook: str, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self.driver.foresee(hook, nodes)

    def new_node_queue(self, config: dict[str, Any]) -> NodeQueue:
        """The driver's."""
        return self.driver.new_node_queue(config)

    def new_singleton_lock(self, config: dict[str, Any]) -> SingletonLock:
        """The driver's."""
        return self.driver.new_singleton_lock(config)

    def new_node_history(self, config: dict[str, Any]) -> NodeHistory:
        """The driver's."""
        return self.driver.new_node_history(config)

    def close_histories(self) -> None:
        """The driver's."""
        self.driver.close_histories()

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        return self.driver._read_jobs_and_nodes(config)

    def read_jobs_and_nodes(
        self, config: dict[str, Any], force: bool = False
    ) -> tuple[list[Job], list[SchedulerNode]]:
        """The driver's."""
        return call_with_up_to(self.driver.read_jobs_and_nodes, config, force)

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self.driver.handle_failed_nodes(nodes)

    def handle_undraining(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self.driver.handle_undraining(nodes)

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """The driver's."""
        return call_with_up_to(self.driver.add_nodes_to_cluster, nodes, include_permanent)

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self.driver.handle_post_join_cluster(nodes)

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self.driver.handle_boot_timeout(nodes)

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self.driver.handle_draining(nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """The driver's."""
        return self.driver.handle_post_delete(nodes)
