"""The nodes that are on their way out, in one pass: how far each is, and which are wanted again.

The states and the changes between them are those of `node/nodehistory/draining`. Each change is
written down before what it stands for is commanded; where that is not possible nothing is
commanded. Called by `passes` and `commanding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.learning import node_names
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory
from hpc.autoscale.node.nodehistory.draining import Drain, DrainState, may_become

KEPT_AFTER = 1800.0
"""For so many seconds the scheduler was asked to let a node go, until others are drained before it:
it may keep it for ever."""


class Leaving:
    """The nodes of a cluster that are not active, by the node history. `nodes`: all that are
    listed, before work is placed on them."""

    def __init__(self, history: NodeHistory, nodes: Iterable[Node], faults: Faults) -> None:
        self._history = history
        self._faults = faults
        self._known: dict[str, Drain] = dict(
            faults.guard("reading the node history", history.drains) or {}
        )
        self._ran: dict[object, frozenset[str]] = {}
        for node in nodes if self._known else ():
            if key_of(node) in self._known:
                self._ran[key_of(node)] = frozenset(map(str, node.assignments))
                node.metadata["drain"] = str(self._known[str(key_of(node))].state)

    def state_of(self, node: Node) -> DrainState:
        """How far a node is."""
        known = self._known.get(str(key_of(node)))
        return DrainState.ACTIVE if known is None else known.state

    def is_active(self, node: Node) -> bool:
        """Whether a node is not on its way out."""
        return self.state_of(node) is DrainState.ACTIVE

    def is_kept(self, node: Node) -> bool:
        """Whether a node that is to go may stay for ever: the scheduler has not let it go for long,
        or CycleCloud was told to delete it and has not."""
        known = self._known.get(str(key_of(node)))
        if known is None or known.state is DrainState.DRAINED:
            return False
        return known.state is DrainState.DELETING or known.since < self._history.now() - KEPT_AFTER

    def in_turn(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes in the order in which they are to be drained. Those that are kept come last, so
        that they do not use up what one pass may delete."""
        return sorted(nodes, key=self.is_kept)

    def move(self, nodes: Iterable[Node], to: DrainState, why: Mapping[object, str]) -> bool:
        """Let nodes change their state; whether that could be written down. AutoscaleError for a
        change that there is not: nothing is changed then."""
        now = self._history.now()
        changes: dict[str, Drain | None] = {}
        for node in nodes:
            before, node_id = self.state_of(node), str(key_of(node))
            if before is not to and not may_become(before, to):
                raise AutoscaleError(f"{node.name} is {before}, and cannot become {to}")
            known = self._known.get(node_id)
            if to in (DrainState.ACTIVE, DrainState.GONE):
                changes[node_id] = None
            elif known is None or known.state is not to:
                reason = why.get(key_of(node)) or (known.why if known else "")
                changes[node_id] = Drain(to, str(reason), now)
        return self._write(changes)

    def take_back(self, driver: SchedulerDriver, nodes: Sequence[Node]) -> tuple[str, ...]:
        """Let those of the nodes, which exist, be active again that are wanted: the names of those
        that the driver let in. That comes before anything is created."""
        wanted = [node for node in nodes if self._is_wanted(node)]
        if not wanted:
            return ()
        returned = self._faults.nodes("undraining nodes", driver, "handle_undraining", wanted)
        keys = set(map(key_of, returned))
        back = [node for node in wanted if key_of(node) in keys]
        if not self.move(back, DrainState.ACTIVE, {}):
            return ()
        if back:
            logging.info("wanted again: %s", ", ".join(node_names(back)))
        return node_names(back)

    def _is_wanted(self, node: Node) -> bool:
        """Whether work was placed on a node that is on its way out, beside what ran there, or it
        is to be kept alive."""
        if key_of(node) not in self._ran:
            return False
        return node.keep_alive or not self._ran[key_of(node)].issuperset(node.assignments)

    def forget_gone(self, nodes: Iterable[Node]) -> None:
        """Forget nodes that do not exist any more."""
        if self._known:
            there = {str(key_of(node)) for node in nodes if node.exists}
            self._write({node_id: None for node_id in self._known if node_id not in there})

    def _write(self, changes: Mapping[str, Drain | None]) -> bool:
        if not changes:
            return True

        def write() -> bool:
            self._history.note_drains(changes)
            return True

        if not self._faults.guard("updating the node history", write):
            return False
        for node_id, drain in changes.items():
            if drain is None:
                self._known.pop(node_id, None)
            else:
                self._known[node_id] = drain
        return True
