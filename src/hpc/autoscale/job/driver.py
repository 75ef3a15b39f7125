"""The contract between the autoscaler and a scheduler: what an integration writes for its
scheduler.

A driver reads jobs and nodes from the scheduler and carries out there what has been decided (join,
drain, remove). It never talks to CycleCloud: nodes are created and deleted by the caller
(`hpc.autoscale.autoscaler`, the command line, or an integration's own loop), which calls the
methods below in the documented order.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory, SQLiteNodeHistory
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.spare_groups import (
    add_default_placement_groups as add_default_placement_groups,
)
from hpc.autoscale.results.verdicts import Verdict
from hpc.autoscale.statefiles import HISTORY, path_of
from hpc.autoscale.util import NullSingletonLock, SingletonLock, lock_file_of, take_lock, wants_lock


class SchedulerDriver(ABC):
    """What the autoscaler needs from a scheduler.

    The methods that take nodes are called once per pass, in the order in which they are listed
    here; `handle_failed_nodes` twice. They must be safe to repeat: a pass may be cut short, and the
    next one starts anew with the same nodes.

    A driver may be made for each pass, and another one to look again before nodes are deleted. What
    it must remember from pass to pass belongs into the scheduler, or it is made by a function that
    returns the same one each time.

    State of this base class is name-mangled, because subclasses keep caches of their own under
    similar names.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.__jobs_and_nodes: tuple[list[Job], list[SchedulerNode]] | None = None
        self.__histories: dict[tuple[str, bool], SQLiteNodeHistory] = {}

    @property
    def autoscale_home(self) -> str:
        """The directory of this integration: AUTOSCALE_HOME, or `/opt/azurehpc/<name>`."""
        return os.getenv("AUTOSCALE_HOME") or os.path.join("/opt", "azurehpc", self.name)

    # -- what an integration must write

    @abstractmethod
    def initialize(self) -> None:
        """Prepare the scheduler (custom resources, hooks). Called at the start of every pass."""

    @abstractmethod
    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration with what this scheduler adds to it: default resources, usually."""

    @abstractmethod
    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        """Ask the scheduler for the jobs that want nodes and for the nodes that it knows.

        Job and SchedulerNode objects must be made anew each time: a pass writes into them what it
        has placed, and a pass that is handed objects of the one before ends there, because it was
        told nothing new. What is raised for one job ends the pass for all: `jobs.build_jobs` makes
        them so that it does not.
        """

    @abstractmethod
    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """Forget these failed nodes in the scheduler; return those that may be deleted.

        Called with the scheduler's nodes that are `marked_for_deletion`, before anything else, and
        again with the nodes that CycleCloud says have failed. Both lists may be empty.
        """

    @abstractmethod
    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """Make these nodes usable in the scheduler, each of them again every pass; return those
        that were joined.

        Nodes that are not ready yet are among them and are to be left for a later pass. A node that
        was drained and is wanted again comes back through here.
        """

    @abstractmethod
    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """Called with the nodes just joined; return those that this changed."""

    @abstractmethod
    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """These nodes did not come up in time; return those that may be deleted."""

    @abstractmethod
    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """Let these idle nodes take no new work; return those that have none left and may be
        deleted.

        A node still busy is not returned, and is asked about again in the next pass.
        """

    @abstractmethod
    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """Remove these deleted nodes from the scheduler; return those that were removed."""

    # -- what an integration may write

    def validate_nodes(  # noqa: B027 - optional: most schedulers have nothing to compare
        self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]
    ) -> None:
        """Called once in a pass, before work is placed, to compare hosts with CycleCloud's nodes
        and those on premises, which have no times yet (`create_time_unix` is 0). A host taken out
        of the list, as its node is lost, gets no work. Dry runs (`read_only`) change nothing."""

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        """Prepare a new node manager: the `ccnodeid` resource and spare placement groups."""
        add_ccnodeid_default_resource(node_mgr)
        add_default_placement_groups(config, node_mgr)

    def handle_undraining(self, nodes: list[Node]) -> list[Node]:
        """Let these nodes, which `handle_draining` was called with before, take work again, because
        there is demand for them; return those that do.

        Called before `add_nodes_to_cluster`, which is given them too. This class returns them all:
        a driver may leave it to `add_nodes_to_cluster` to let them in.
        """
        return nodes

    def foresee(self, hook: str, nodes: list[Node]) -> list[Node]:
        """Those of the nodes that the method named `hook`, one of those that take and return nodes,
        would return if it were called with them now. Asked by plans (`hpc.autoscale.rehearsal`):
        nothing may be changed here. This class: the ready ones for `add_nodes_to_cluster`, or all.
        """
        if hook == "add_nodes_to_cluster":
            return [node for node in nodes if node.state in READY_STATES]
        return nodes

    def wanted_arrays(self, config: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Nodes that are wanted beside those for jobs, as nodearray definitions in the form of
        `hpc.autoscale.jetpack.update`. Called after the jobs were read, also in dry runs."""
        return ()

    def explain_job(self, job: Job, verdict: Verdict) -> None:  # noqa: B027 - optional
        """Put what there is to say of a job where its user looks, such as the comment of the job:
        `verdict.line` is one sentence, `verdict.code` one word.

        Called at the end of a pass, for jobs that wait or cannot be looked at, when their verdict
        is another than before, and once when their nodes are there or come; not for jobs that are
        no longer handed over. What is raised is noted and harms nothing.
        """

    def name_of_job(self, name: str) -> str:
        """The name of the job, of those read last, that stands for what users call `name`, where
        several are handed over as one; of no job where nothing is wanted. Asked by `explain`."""
        return name

    @property
    def has_place_for_verdicts(self) -> bool:
        """Whether `explain_job` does anything: whether a subclass has one."""
        return type(self).explain_job is not SchedulerDriver.explain_job

    @property
    def has_place_for_requests(self) -> bool:
        """Whether `explain_job` is called also for what request sets and `wanted_arrays` want of
        nodearrays: jobs that the scheduler does not know."""
        return False

    def reading_stamp(self) -> object | None:
        """What tells the answer that was last read from others, such as the number that the
        scheduler gave it, or when it was made: the same stamp twice means the same answer. Only for
        drivers that may be handed an old one; None where nobody can tell."""
        return None

    def new_node_queue(self, config: dict[str, Any]) -> NodeQueue:
        """The order in which existing nodes are filled."""
        return NodeQueue()

    def new_singleton_lock(self, config: dict[str, Any]) -> SingletonLock:
        """Take the lock `lock_file` (default `<home>/lock.file`), and that of the cluster on this
        machine; none when `lock_file` is null or the mode is read-only.

        MultipleInstancesError when another process holds it, ConfigurationException when there is
        no place for it.
        """
        if not wants_lock(config):
            return NullSingletonLock()
        path = lock_file_of(config, os.path.join(self.autoscale_home, "lock.file"))
        _require_directory("lock_file", path, "null for no lock")
        return take_lock(path, config)

    def new_node_history(self, config: dict[str, Any]) -> NodeHistory:
        """What nodes did, opened once: `nodehistorydb`, by default `<home>/nodehistory.db`."""
        path = path_of(HISTORY, config, self.autoscale_home)
        key = (path, bool(config.get("read_only", False)))
        if key not in self.__histories:
            if not key[1]:
                _require_directory("nodehistorydb", path, "a file elsewhere")
            self.__histories[key] = SQLiteNodeHistory(*key)
        return self.__histories[key]

    def close_histories(self) -> None:
        """Close the node histories that were opened here, when another driver takes over. Asked for
        again, one is opened anew."""
        while self.__histories:
            self.__histories.popitem()[1].close()

    # -- for callers

    def read_jobs_and_nodes(
        self, config: dict[str, Any], force: bool = False
    ) -> tuple[list[Job], list[SchedulerNode]]:
        """Jobs and nodes of the scheduler, read once; `force` reads them again."""
        if force or self.__jobs_and_nodes is None:
            self.__jobs_and_nodes = self._read_jobs_and_nodes(config)
        return self.__jobs_and_nodes

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    __repr__ = __str__


def _require_directory(key: str, path: str, otherwise: str) -> None:
    """ConfigurationException unless the file's directory exists."""
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory):
        raise ConfigurationException(
            f"{key}: the directory of {path} does not exist: "
            f"create {directory}, or set {key} to {otherwise}"
        )


def add_ccnodeid_default_resource(node_mgr: NodeManager) -> None:
    """Let every node have its CycleCloud id as resource `ccnodeid`, so that a scheduler can report
    it back."""
    node_mgr.add_default_resource({}, "ccnodeid", lambda node: node.delayed_node_id.node_id)
