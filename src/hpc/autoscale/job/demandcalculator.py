"""The published `DemandCalculator`: from jobs and the scheduler's nodes to what must be created and
what may go.

It joins what the scheduler and the cluster say of nodes, gives each job to the node manager, and
keeps the node history. Idle and boot policy is here; acting on it is the caller's decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import compress
from operator import not_
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import results
from hpc.autoscale.collector import collecting_seldom
from hpc.autoscale.errors import check_kinds, check_numbers
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.job import Job, Outcome
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.placement import Listener, new_strategy
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node import nodehistory
from hpc.autoscale.node.identity import Identities, claimed_ids, short_name
from hpc.autoscale.node.joining import Joining, await_hosts
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import server_id_of
from hpc.autoscale.node.nodehistory import NodeHistory, NodeHistoryResult, NullNodeHistory
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.node.nodemanager.provisioner import recount
from hpc.autoscale.node.operations import each_once
from hpc.autoscale.results import BootupResult, DeleteResult, Result
from hpc.autoscale.util import NullSingletonLock, SingletonLock, configured_lock, load_config

AtLeast = float | Callable[[Node], float]
"""Seconds, for all nodes or for each."""


class DemandCalculator:
    """Places jobs one after another; `get_demand` can be asked at any time.

    `node_queue`: in which order nodes are reported. `singleton_lock`: held by whoever may change
    the cluster.
    """

    def __init__(
        self,
        config: dict[str, Any],
        node_mgr: NodeManager,
        node_history: NodeHistory | None = None,
        node_queue: NodeQueue | None = None,
        singleton_lock: SingletonLock | None = None,
    ) -> None:
        self.config = config
        self.node_mgr = node_mgr
        self.node_history = NullNodeHistory() if node_history is None else node_history
        # one of our own is filled when it is first needed
        self._node_queue = NodeQueue() if node_queue is None else node_queue
        # what comes later through the manager itself is not in the demand
        self._sizes = node_mgr._inventory.sizes()
        # bucket by bucket, priorities too are those of upstream: as of pushing, and of the last job
        # that was added
        self._is_as_declared = node_mgr._is_as_declared
        self._update_is_due = False
        self._singleton_lock = singleton_lock or NullSingletonLock()
        self.reported: set[Node] = set()  # nodes that are hosts of the scheduler
        # whether the driver has compared the scheduler's nodes with the cluster's
        # (`validate_nodes`)
        self.nodes_are_validated = False
        self._strategy = new_strategy(node_mgr, config)
        if node_queue is not None or self._is_as_declared:
            self._node_queue._push_all(node_mgr.get_non_failed_nodes())
        if type(self.node_history).decorate is not NullNodeHistory.decorate:
            known = [node for node in node_mgr.get_nodes() if node.exists and server_id_of(node)]
            try:
                self.node_history.decorate(known, config)
            except nodehistory.NodeHistoryError as error:
                # work is placed without it, and whoever deletes nodes asks it again
                logging.warning("%s", error)

    # -- jobs

    def add_job(self, job: Job) -> None:
        """Place a job; what could not be is in `job.iterations_remaining` and in the results."""
        self._place([job])
        self._update_is_due = True

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        """Place jobs in order, exactly as one `add_job` after another would; at the least cost,
        where the configuration asks for that, for all of them together."""
        check_kinds("placing jobs", Iterable, jobs=jobs)
        self._update_queue()
        with collecting_seldom():
            self._place(jobs)

    def place(self, jobs: Sequence[Job], listener: Listener | None = None) -> list[Outcome]:
        """`add_jobs`, and what each job got. `listener` hears of each before handlers of results
        do; errors that it takes set one job aside, others are raised."""
        check_kinds("placing jobs", Iterable, jobs=jobs)
        self._update_queue()
        with collecting_seldom():
            outcomes = self._place(jobs, listener)
        self._update_is_due = True
        return outcomes

    def _place(
        self, jobs: Sequence[Job], listener: Listener | None = None, explain: bool = False
    ) -> list[Outcome]:
        """The one way to the node manager for jobs."""
        explain = explain or self._is_as_declared
        try:
            outcomes = self._strategy.place(jobs, listener, explain)
        finally:
            results.settle()
        if self._is_as_declared:
            for outcome in outcomes:
                if outcome.units and outcome.was_told:
                    self._node_queue._push_all(outcome.result.nodes)
        return outcomes

    def _add_job(self, job: Job) -> Result:
        """`add_job`, and its result. A job that scatters is placed as a whole or not at all; of any
        other, as much as there is room for is a success."""
        return self._place([job], explain=True)[0].result

    # -- nodes as the scheduler sees them

    def update_scheduler_nodes(self, scheduler_nodes: Sequence[SchedulerNode]) -> None:
        """Join the scheduler's nodes to the cluster's: by the NodeId that they name, else by short
        host name (`Identities`).

        What the scheduler says of amounts and assignments wins (unless the node's metadata says
        `override_resources` false); a host that the cluster does not know is taken in as unmanaged,
        and gets no work when it is a node that is going, or has the host name of another node.
        RuntimeError when a host name stands for two nodes that exist.
        """
        self._update_queue()
        identities, joining = Identities(self.node_mgr.get_nodes()), Joining()
        unknown = []
        for snode in each_once(scheduler_nodes, "update_scheduler_nodes"):
            known = identities.find(snode)
            if known is None:
                unknown.append(snode)
            elif (snode.metadata or {}).get("override_resources", True):
                joining.join(known, snode)
            else:
                known.metadata.update(deepcopy(snode.metadata))
                # what runs there runs there, whoever is right about amounts
                known.assignments.update(snode.assignments)
            if known is not None:
                self.reported.add(known)
                if not known.exists:
                    recount(known)  # what rests and has work is started, which takes room
        for snode in unknown:
            self._doubt(snode, identities)
        if unknown:
            self.node_mgr._inventory.take_in(unknown)

    def await_hosts(self) -> None:
        """Nodes that are no host of the scheduler yet are given work as if they still booted."""
        await_hosts(self.node_mgr.get_buckets(), self.reported)

    def _doubt(self, snode: SchedulerNode, identities: Identities) -> None:
        """Close a host that the cluster does not know where it can do no work, and say so where
        that is odd."""
        claimed, short = claimed_ids(snode), short_name(snode.hostname)
        # one that rests is no machine now, so a host that says it is another node may be one
        namesakes = [n for n in identities.named(short) if n.managed and (n.exists or not claimed)]
        if not self.node_mgr._inventory.leaving.isdisjoint({*claimed, short}):
            snode.closed = True  # the scheduler will forget it; until then it can do no work
        elif namesakes:
            snode.closed = True  # there is one machine of that name, and it is counted already
            logging.warning(
                "%s gets no work: it has the host name of %s, and %s",
                snode,
                ", ".join(node.name for node in namesakes),
                f"says it is node {' and '.join(claimed)}" if claimed else "they do not exist now",
            )
        elif claimed:
            logging.warning(
                "%s says it is node %s, which the cluster does not know: "
                "gone, or of another cluster",
                snode,
                " and ".join(claimed),
            )

    # -- what it comes to

    @collecting_seldom()
    def get_demand(self) -> DemandResult:
        """Nodes to create, in use, not in use, and failed, as of now."""
        failed, nodes = self._failed_and_queued()
        new, buckets = self.node_mgr.get_new_nodes(), self.node_mgr.get_buckets()
        is_required = [node.required for node in nodes]
        matched = list(compress(nodes, is_required))
        unmatched = list(compress(nodes, map(not_, is_required)))
        return DemandResult(new, matched, unmatched, failed, buckets, self._strategy.cost)

    def finish(self) -> DemandResult:
        """`get_demand`, under the name for the end of a calculation."""
        return self.get_demand()

    def get_compute_nodes(self) -> list[Node]:
        """All nodes of the demand."""
        return self.get_demand().compute_nodes

    def _failed_and_queued(self) -> tuple[list[Node], list[Node]]:
        """The nodes that have failed, and all others in the queue's order, but for those that
        somebody planned beside the calculator. Priorities are as of now; where packing goes bucket
        by bucket, as of the last job.
        """
        apart = self.node_mgr._inventory.apart.since(self._sizes)
        nodes = self.node_mgr.get_nodes()
        failed = [node for node in nodes if node.state == "Failed"]
        if apart or failed:
            others = apart.union(failed)
            nodes = [node for node in nodes if node not in others]
        self._update_queue()
        if not self._is_as_declared:
            self._node_queue.update()
        self._node_queue._push_all(nodes)
        if len(self._node_queue) == len(nodes):
            return failed, list(self._node_queue)
        # the queue never forgets a node
        present = {id(node) for node in nodes}
        return failed, [node for node in self._node_queue if id(node) in present]

    def _update_queue(self) -> None:
        """Ask for priorities anew where a job was added since. Cost: once for however many jobs,
        where nothing else is done meanwhile."""
        if self._update_is_due and self._is_as_declared:
            self._node_queue.update()
        self._update_is_due = False

    # -- history, and what it says

    def update_history(self) -> None:
        """Note which nodes there are, which are ready, and which are needed."""
        failed, queued = self._failed_and_queued()
        self.node_history.update([*queued, *failed])

    def find_unmatched_for(
        self, at_least: AtLeast = 300, unmatched_nodes: Sequence[Node] | None = None
    ) -> list[Node]:
        """Nodes without work for more than `at_least` seconds, of those given (None: of the current
        demand)."""
        nodes = self.get_demand().unmatched_nodes if unmatched_nodes is None else unmatched_nodes
        found = self.node_history.find_unmatched(for_at_least=-1)
        idle = [n for n in each_once(nodes, "find_unmatched_for") if not n.assignments]
        return self._before(idle, found, at_least)

    def find_booting(
        self, at_least: AtLeast = 1800, booting_nodes: Sequence[Node] | None = None
    ) -> list[Node]:
        """Nodes that should run and have never been ready, for more than `at_least` seconds; failed
        ones among them."""
        nodes = self.node_mgr.get_nodes() if booting_nodes is None else each_once(booting_nodes)
        booting = [n for n in nodes if n.target_state == "Started" and n.state not in READY_STATES]
        return self._before(booting, self.node_history.find_booting(for_at_least=-1), at_least)

    def _before(
        self, nodes: Sequence[Node], found: NodeHistoryResult, at_least: AtLeast
    ) -> list[Node]:
        """Those of the nodes whose time in the history lies more than `at_least` seconds back; not
        one of which it knows no time."""
        check_numbers("finding nodes", at_least=0 if callable(at_least) else at_least)
        times: dict[Any, float] = {node_id: time for node_id, _, time in found}

        def is_late(node: Node) -> bool:
            if (time := times.get(server_id_of(node))) is None:
                return False
            seconds = at_least(node) if callable(at_least) else at_least
            return time < self.node_history.now() - seconds

        return list(filter(is_late, nodes))

    # -- acting

    def bootup(self, nodes: Sequence[Node] | None = None) -> BootupResult[Node]:
        """Create and start nodes; None: all new ones. None at all is a success."""
        wanted = self.node_mgr.get_new_nodes() if nodes is None else nodes
        if not wanted:
            return BootupResult("success", "", None, None)
        return self.node_mgr.bootup(wanted)

    def delete(self, nodes: Sequence[Node] | None = None) -> DeleteResult[Node]:
        """Shut nodes down; None: all unmatched ones. None at all is a success."""
        wanted = self.get_demand().unmatched_nodes if nodes is None else nodes
        if not wanted:
            return DeleteResult("success", "", None, None)
        return self.node_mgr.delete(wanted)

    def __str__(self) -> str:
        return f"DemandCalculator({self.node_mgr})"

    __repr__ = __str__


@collecting_seldom()
def new_demand_calculator(
    config: str | dict[str, Any],
    existing_nodes: Sequence[SchedulerNode] | None = None,
    node_mgr: NodeManager | None = None,
    node_history: NodeHistory | None = None,
    disable_default_resources: bool = False,
    node_queue: NodeQueue | None = None,
    singleton_lock: SingletonLock | None = NullSingletonLock(),  # noqa: B008  published default
) -> DemandCalculator:
    """A calculator for the cluster of `config` (a dict, or the path of a file).

    `existing_nodes`: nodes as the scheduler reports them. The history is `nodehistory.db` in the
    working directory unless one is given. System default resources are defined unless
    `disable_default_resources` is true; that of the configuration only lets the definitions there
    come first, as it says what a node manager has. A `singleton_lock` of None takes the lock that
    the configuration names: MultipleInstancesError when another process holds it.
    """
    loaded = load_config(config)
    # what behaves like one will do, as in tests of integrations
    if node_mgr is not None and not hasattr(node_mgr, "get_nodes"):
        check_kinds("new_demand_calculator", NodeManager, node_mgr=node_mgr)
    if node_history is not None and not hasattr(node_history, "decorate"):
        check_kinds("new_demand_calculator", NodeHistory, node_history=node_history)
    without = disable_default_resources
    if node_mgr is None:
        own_first = bool(loaded.get("disable_default_resources", False))
        node_mgr = new_node_manager({**loaded, "disable_default_resources": without or own_first})
        without = without or not own_first  # it has them already
    elif logging.is_configured(loaded):
        logging.initialize_logging(loaded)
    if not without:
        node_mgr.set_system_default_resources()
    if singleton_lock is None:
        singleton_lock = configured_lock(loaded)
    if node_history is None:
        from hpc.autoscale.node.nodehistory import SQLiteNodeHistory

        node_history = SQLiteNodeHistory()
    calculator = DemandCalculator(loaded, node_mgr, node_history, node_queue, singleton_lock)
    if existing_nodes:
        calculator.update_scheduler_nodes(existing_nodes)
    return calculator
