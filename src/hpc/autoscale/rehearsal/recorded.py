"""A site as a journal has it at one pass: its cluster and its queue, for rehearsals of other
decisions.

Unlike a pass that is decided again, such a rehearsal may ask what was not asked then. So each
question is answered from what was read first: the status, the nodes, the jobs and the hosts. What
the autoscaler remembered is found out by deciding the passes before it again (`replaying`).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any, Self

from hpc.autoscale.ccbindings.errors import OperationNotFound
from hpc.autoscale.ccbindings.models import ClusterStatus, NodeList
from hpc.autoscale.ccbindings.selection import RefusingBinding
from hpc.autoscale.ccbindings.several import SeveralClusters
from hpc.autoscale.clock import MockClock
from hpc.autoscale.errors import ReadOnlyModeException
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.journal import Journal, JournalError, PassRecord
from hpc.autoscale.journal.snapshots import host_from, jobs_from
from hpc.autoscale.journal.state import restore, settings
from hpc.autoscale.node.node import Node
from hpc.autoscale.rehearsal.passing_on import PassingDriver
from hpc.autoscale.replaying.doors import members_of, union_of
from hpc.autoscale.statefiles import STATE_FILES


def record_in(journal: Journal, number: int | None = None) -> PassRecord:
    """A pass of a journal, the last one unless told which. JournalError when there is none, or it
    could not read the cluster or the scheduler."""
    if number is None:
        last = deque(journal, maxlen=1)
        record = last[0] if last else None
    else:
        record = next((each for each in journal if each.number == number), None)
    if record is None:
        raise journal.without("pass" if number is None else f"pass {number}")
    if not record.status:
        raise JournalError(
            f"journal {journal.path}: nothing was read of the cluster in pass {record.number}"
        )
    if record.unread:
        missing, why = ", ".join(record.unread), record.did["ended_by"]
        raise JournalError(
            f"journal {journal.path}: pass {record.number} could not read {missing}: {why}; name"
            " one that could with --pass"
        )
    return record


class RecordedBinding(RefusingBinding):
    """The cluster of a pass. Nothing can be commanded."""

    def __init__(self, record: PassRecord) -> None:
        self._record = record

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return str(self._record.config.get("cluster_name") or "")

    @property
    def where(self) -> str:
        """The cluster, and of which pass it is."""
        return f"cluster {self.cluster_name} at pass {self._record.number}"

    def __str__(self) -> str:
        return self.where

    def __deepcopy__(self, memo: object) -> RecordedBinding:
        return self

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The status that was read first."""
        status = ClusterStatus.from_dict(dict(self._record.status))
        if nodes:
            status.nodes = [dict(each) for each in self._record.nodes]
        return status

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """The nodes that were read first. No operation is known."""
        if operation_id is not None or request_id is not None:
            raise OperationNotFound("get_nodes", 404, "operations are not in a journal")
        return NodeList(nodes=[dict(each) for each in self._record.nodes])

    def check_listing(self, status: ClusterStatus, node_list: NodeList | None = None) -> None:
        """Nothing: that was done when it was read."""

    def _refusal(self, call: str) -> ReadOnlyModeException:
        return ReadOnlyModeException(f"{call}: a journal is read and not changed")


class RecordedClusters(RecordedBinding, SeveralClusters):
    """Several clusters at a pass. Those that did not answer when it looked first are set aside."""

    never_read: tuple[str, ...] = ()

    def __init__(self, record: PassRecord) -> None:
        RecordedBinding.__init__(self, record)
        cluster = record.doors["cluster"]
        SeveralClusters.__init__(self, members_of(cluster))
        calls = (call for call in record.doors.get("calls", ()) if call["door"] == "status")
        first: Mapping[str, Any] = next(calls, {})
        # who is set aside is written down when it changes
        self.away = dict(first.get("away", cluster.get("away", ())))
        self.never_read = tuple(first.get("never_read", cluster.get("never_read", ())))

    @property
    def cluster_name(self) -> str:
        """The names of all clusters."""
        return ", ".join(self.members)

    @property
    def where(self) -> str:
        """The clusters, and of which pass they are."""
        return f"clusters {self.cluster_name} at pass {self._record.number}"

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The union as it was read first, with the status of each cluster."""
        status = union_of(self._record.status)
        if nodes:
            status.nodes = [dict(each) for each in self._record.nodes]
        return status

    def __deepcopy__(self, memo: object) -> RecordedClusters:
        return self

    def as_read(self) -> tuple[ClusterStatus, NodeList]:
        """The status and the nodes as when they were read first."""
        return self.get_cluster_status(), self.get_nodes()


def binding_at(record: PassRecord) -> RecordedBinding:
    """The cluster of a pass, or its clusters."""
    several = "members" in (record.doors.get("cluster") or {})
    return RecordedClusters(record) if several else RecordedBinding(record)


class RecordedDriver(PassingDriver):
    """The site's driver, with the jobs and hosts of a pass in the place of those of now."""

    def __init__(self, driver: SchedulerDriver, record: PassRecord) -> None:
        super().__init__(driver)
        self._record = record

    def initialize(self) -> None:
        """The scheduler is not asked."""

    def validate_nodes(self, scheduler_nodes: list[SchedulerNode], cc_nodes: list[Node]) -> None:
        """That was done then."""

    def reading_stamp(self) -> object | None:
        """None: each answer is made anew."""

    def read_jobs_and_nodes(
        self, config: dict[str, Any], force: bool = False
    ) -> tuple[list[Job], list[SchedulerNode]]:
        """The jobs and hosts as they were read, made anew each time."""
        return self._read_jobs_and_nodes(config)

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        jobs: list[Any] = jobs_from(self._record.jobs)
        hosts: list[Any] = [host_from(each) for each in self._record.hosts]
        return jobs, hosts


class RecordedSite:
    """A pass of a journal as a site. Use it as a context: meanwhile there is a directory for what
    the autoscaler remembers. `state`: what that is at first, as `replaying.remembered_before` has
    it."""

    def __init__(self, record: PassRecord, state: Mapping[str, str] | None = None) -> None:
        self._record = record
        self._directory = TemporaryDirectory(prefix="hpc-autoscale-")
        try:
            restore(state or {}, self._directory.name)
        except (ValueError, zlib.error, OSError) as problem:
            self._directory.cleanup()
            raise JournalError(
                f"pass {record.number}: what was remembered cannot be used: {problem}"
            ) from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    def config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A configuration with the files of this site in the place of its own. `_recorded`: its
        jobs are those of the journal."""
        kept = {key: value for key, value in config.items() if key != "journal"}
        named = {file.key: "of this site" for file in STATE_FILES if file.is_named}
        return {**kept, **settings({**kept, **named}, self._directory.name), "_recorded": True}

    @property
    def doors(self) -> dict[str, Any]:
        """What the command line and `rehearse` take of it."""
        record = self._record
        interval = record.doors.get("interval")
        return {
            "around": lambda driver: RecordedDriver(driver, record),
            "new_binding": lambda config: binding_at(record),
            "clock": MockClock(record.at),
            "interval": None if interval is None else float(interval),
        }
