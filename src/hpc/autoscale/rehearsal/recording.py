"""The doors of a pass with its commands recorded: a binding and a driver that pass reads on, and
note what would be commanded instead of doing it.

They answer as the server and the scheduler would when all goes well. Of the scheduler that is what
its driver foresees (`SchedulerDriver.foresee`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from hpc.autoscale.autoscaler.faults import at_once, calling, checked_nodes, has_name
from hpc.autoscale.autoscaler.learning import NewCalculator
from hpc.autoscale.ccbindings.creation_sets import partition_by_set
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import (
    ClusterStatus,
    NodeCreationResult,
    NodeCreationResultSet,
    NodeList,
    NodeManagementResult,
    NodeManagementResultNode,
    OperationStatus,
)
from hpc.autoscale.ccbindings.node_record import record_of
from hpc.autoscale.ccbindings.selection import RefusingBinding, Selection
from hpc.autoscale.commands import Ran
from hpc.autoscale.errors import ReadOnlyModeException
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory, NullNodeHistory, SQLiteNodeHistory
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.onpremises.workers import RunEach, State
from hpc.autoscale.rehearsal.changes import Action, Command, Seen
from hpc.autoscale.rehearsal.inputs import Inputs, digests_of
from hpc.autoscale.rehearsal.passing_on import PassingBinding, PassingDriver
from hpc.autoscale.rehearsal.state import StateCopy
from hpc.autoscale.results.verdicts import Verdict
from hpc.autoscale.util import NullSingletonLock, SingletonLock

_COMMANDS: Mapping[str, Action] = {"start": "start", "shutdown": "delete", "delete": "delete"}


class Recorder:
    """The commands of one rehearsal, in order. Clusters are commanded side by side, so that it may
    be called by several threads. `notes_inputs`: whether what is read is noted, too; else the
    doors tell of it for nothing."""

    def __init__(self, notes_inputs: bool = True) -> None:
        self._notes_inputs = notes_inputs
        self.commands: list[Command] = []
        self.inputs = Inputs()
        self._turn = threading.Lock()
        self._made = 0

    def heard_nodes(self, records: Sequence[Mapping[str, Any]]) -> None:
        """All nodes of the cluster were read."""
        if self._notes_inputs:
            self.inputs = self.inputs.with_nodes(records)

    def heard_status(self, status: ClusterStatus) -> None:
        """The status of the cluster was read."""
        if self._notes_inputs:
            self.inputs = self.inputs.with_limits(ClusterStatus.adopt(status))

    def heard_hosts(self, hosts: Sequence[SchedulerNode]) -> None:
        """The nodes of the scheduler were read."""
        if self._notes_inputs:
            self.inputs = self.inputs.with_hosts(hosts)

    def hearing_jobs(self, make: NewCalculator) -> NewCalculator:
        """What makes calculators as `make` does; its jobs, with those that the library adds, are
        known then."""

        def new(config: dict[str, Any], its: SchedulerDriver) -> tuple[Any, Sequence[Job]]:
            calculator, jobs = make(config, its)
            if self._notes_inputs:
                self.inputs = self.inputs.with_jobs(jobs)
            return calculator, jobs

        return new

    def heard_configuration(self, config: Mapping[str, Any]) -> None:
        """The configuration is this one."""
        if self._notes_inputs:
            self.inputs = replace(self.inputs, configuration=digests_of(config))

    def note(self, action: Action, nodes: Iterable[Node]) -> None:
        """Remember a command, and the nodes as they are now."""
        seen = [Seen.of(node, key_of(node)) for node in nodes]
        if seen:
            with self._turn:
                self.commands.append((action, seen))

    def note_worker(self, action: Action, names: Iterable[str]) -> None:
        """Remember a command for the workers of hosts on premises."""
        seen = [Seen(name, name, None, "", "", 0.0, False, ()) for name in names]
        with self._turn:
            self.commands.append((action, seen))

    def new_id(self, kind: str) -> str:
        """An id that nothing else has in this rehearsal."""
        with self._turn:
            self._made += 1
            return f"rehearsed-{kind}-{self._made}"


class RecordingBinding(RefusingBinding, PassingBinding):
    """A binding of which only reads get through. Nodes that would have been created or started are
    listed for their operation, and for that alone."""

    def __init__(self, inner: ClusterBindingInterface, recorder: Recorder) -> None:
        super().__init__(inner)
        self.recorder = recorder
        self._operations: dict[str, NodeList] = {}

    def create_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeCreationResult:
        """As if all of them had been made, by the names that they are planned by."""
        self.recorder.note("create", nodes)
        records = [self._created(node, request_id) for node in nodes]
        operation_id = self._operation("create", request_id, records)
        sets = [NodeCreationResultSet(added=len(alike)) for alike in partition_by_set(nodes)]
        return NodeCreationResult(operation_id=operation_id, sets=sets)

    def delete_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeManagementResult:
        """As if all of them were on their way out."""
        return self._manage("delete", Selection(nodes=nodes), request_id)

    def _refusal(self, call: str) -> ReadOnlyModeException:
        return ReadOnlyModeException(f"{call}: no pass asks for this, and a rehearsal does not")

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """All node records as they are, or what an operation of the rehearsal would have made."""
        known = self._operations.get(operation_id or request_id or "")
        if known is not None:
            return known
        listing = super().get_nodes(operation_id, request_id)
        if operation_id is None and request_id is None:
            self.recorder.heard_nodes(listing.nodes or [])
        return listing

    def get_cluster_status(self, nodes: bool = False) -> ClusterStatus:
        """The status as it is."""
        status = super().get_cluster_status(nodes)
        if not nodes:
            self.recorder.heard_status(status)
        return status

    def _manage(
        self, action: str, selection: Selection, request_id: str | None
    ) -> NodeManagementResult:
        command = _COMMANDS.get(action)
        if command is None or not selection.nodes:
            raise self._refusal(f"{action}_nodes")
        self.recorder.note(command, selection.nodes)
        started = [_record(node, None) for node in selection.nodes] if command == "start" else []
        results = [
            NodeManagementResultNode(id=node.delayed_node_id.node_id, name=node.name, status="OK")
            for node in selection.nodes
        ]
        operation_id = self._operation(action, request_id, started)
        return NodeManagementResult(operation_id=operation_id, nodes=results)

    def _created(self, node: Node, request_id: str | None) -> dict[str, Any]:
        record = _record(node, request_id)
        return {**record, "NodeId": self.recorder.new_id("node"), "Status": "Allocation"}

    def _operation(self, kind: str, request_id: str | None, records: list[dict[str, Any]]) -> str:
        operation_id = self.recorder.new_id(kind)
        status = OperationStatus(action=kind, start_time="")
        listing = NodeList(nodes=records, operation=status)
        self._operations[operation_id] = self._operations[request_id or operation_id] = listing
        return operation_id


def _record(node: Node, request_id: str | None) -> dict[str, Any]:
    """The record of a node that runs from now on, with all that was asked for."""
    found = _merged(record_of(node, request_id), node.node_attribute_overrides)
    return {**found, "TargetState": "Started"}


def _merged(record: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(record)
    for key, value in more.items():
        before = found.get(key)
        is_both = isinstance(value, Mapping) and isinstance(before, Mapping)
        found[key] = _merged(before, value) if is_both else value
    return found


class RecordingDriver(PassingDriver):
    """A driver of which only reads get through, and to which the site is read-only.

    It keeps no lock, and its node history is a copy.
    """

    def __init__(self, driver: SchedulerDriver, recorder: Recorder, state: StateCopy) -> None:
        super().__init__(driver)
        self.recorder = recorder
        self.state = state
        self._copies: list[SQLiteNodeHistory] = []

    # -- reads

    def preprocess_config(self, config: dict[str, Any]) -> dict[str, Any]:
        """The driver's, which is told that it must change nothing."""
        found: object = self.driver.preprocess_config(_read_only(config))
        if not isinstance(found, Mapping):
            return cast(dict[str, Any], found)  # whoever asked says what is wrong with it
        ours = ("read_only", "lock_file")
        kept = {key: value for key, value in found.items() if key not in ours}
        return {**kept, **{key: config[key] for key in ours if key in config}}

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        """The driver's."""
        self.driver.preprocess_node_mgr(_read_only(config), node_mgr)

    def wanted_arrays(self, config: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The driver's."""
        return self.driver.wanted_arrays(_read_only(config))

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        return self.driver._read_jobs_and_nodes(_read_only(config))

    def read_jobs_and_nodes(
        self, config: dict[str, Any], force: bool = False
    ) -> tuple[list[Job], list[SchedulerNode]]:
        """The driver's."""
        reading = super().read_jobs_and_nodes(_read_only(config), force)
        # who reads checks it all
        if isinstance(reading, tuple) and isinstance(reading[-1], list):
            hosts = [host for host in reading[-1] if isinstance(host, Node) and has_name(host)]
            self.recorder.heard_hosts(hosts)
        return reading

    def explain_job(self, job: Job, verdict: Verdict) -> None:
        """Nobody is told."""

    @property
    def has_place_for_verdicts(self) -> bool:
        """Nobody is to be told."""
        return False

    def new_singleton_lock(self, config: dict[str, Any]) -> SingletonLock:
        """None: others may go on with their work."""
        return NullSingletonLock()

    def new_node_history(self, config: dict[str, Any]) -> NodeHistory:
        """A copy of the driver's. One that is kept in no file is read and not written."""
        if type(self.driver).new_node_history is SchedulerDriver.new_node_history:
            return self._kept(str(config["nodehistorydb"]))
        found = self.driver.new_node_history(_read_only(config))
        if isinstance(found, SQLiteNodeHistory):
            return self._kept(self.state.of(found.path))
        if type(found) is NullNodeHistory:
            return NullNodeHistory()
        return ReadOnlyHistory(found) if isinstance(found, NodeHistory) else found

    def _kept(self, path: str) -> SQLiteNodeHistory:
        self._copies.append(SQLiteNodeHistory(path))
        return self._copies[-1]

    def close_histories(self) -> None:
        """Close the copies, and what the driver has opened."""
        while self._copies:
            self._copies.pop().close()
        self.driver.close_histories()

    # -- commands

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """The nodes that the driver foresees to forget."""
        return self._foreseen("handle_failed_nodes", nodes)

    def handle_undraining(self, nodes: list[Node]) -> list[Node]:
        """The nodes that the driver foresees to let in again."""
        return self._noted("undrain", "handle_undraining", nodes)

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """The nodes that the driver foresees to join."""
        return self._noted("join", "add_nodes_to_cluster", nodes)

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """All of the nodes."""
        return nodes

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """The nodes that the driver foresees to give up."""
        return self._foreseen("handle_boot_timeout", nodes)

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """The nodes that the driver foresees to be free of work; all are drained."""
        self.recorder.note("drain", nodes)
        return self._foreseen("handle_draining", nodes)

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """All of the nodes."""
        return nodes

    def _noted(self, action: Action, hook: str, nodes: list[Node]) -> list[Node]:
        found = self._foreseen(hook, nodes)
        self.recorder.note(action, found)
        return found

    def _foreseen(self, hook: str, nodes: list[Node]) -> list[Node]:
        asked = f"{self.driver}.foresee"
        with calling(asked):
            found = at_once(self.driver.foresee(hook, list(nodes)))
        return checked_nodes(asked, found)


def _read_only(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration by which a driver changes nothing."""
    return {**config, "read_only": True, "lock_file": None}


class ReadOnlyHistory(NodeHistory):
    """A history of somebody else's making, of which only questions get through."""

    def __init__(self, history: NodeHistory) -> None:
        self._history = history

    def update(self, nodes: Iterable[Node]) -> None:
        """Nothing is learnt."""

    def find_unmatched(self, for_at_least: float = 300) -> Any:
        """The history's."""
        return self._history.find_unmatched(for_at_least)

    def find_booting(self, for_at_least: float = 1800) -> Any:
        """The history's."""
        return self._history.find_booting(for_at_least)

    def find_ignored(self) -> Any:
        """The history's."""
        return self._history.find_ignored()

    def mark_ignored(self, nodes: Iterable[Node]) -> None:
        """Nothing is marked."""

    def unmark_ignored(self, nodes: Iterable[Node]) -> None:
        """Nothing is changed."""

    def decorate(self, nodes: Iterable[Node], config: Mapping[str, Any] | None = None) -> None:
        """The history's."""
        self._history.decorate(nodes, config)

    def sightings(self) -> Any:
        """The history's."""
        return self._history.sightings()

    def found_ready(self) -> Any:
        """The history's."""
        return self._history.found_ready()

    def ready_since(self) -> Any:
        """The history's."""
        return self._history.ready_since()

    def gone(self) -> Any:
        """The history's."""
        return self._history.gone()

    def drains(self) -> Any:
        """The history's."""
        return self._history.drains()

    def now(self) -> float:
        """The history's."""
        return self._history.now()


def recording_runner(recorder: Recorder) -> RunEach:
    """In the place of what runs the commands of hosts on premises: each is noted, and counts as
    done."""

    def run(
        doing: State, commands: Mapping[str, Sequence[str]], timeouts: Mapping[str, float]
    ) -> dict[str, Ran]:
        recorder.note_worker("start_worker" if doing == "starting" else "stop_worker", commands)
        return {name: Ran(0, "") for name in commands}

    return run
