"""The published `NodeBucket`: nodes of one VM size in one nodearray and placement group, existing
and possible.

What is kept of its nodes is in `node.state`, what new nodes are made from in `definition`. Writes
through a node are in the engine's state at once; those into `bucket.resources` or the example node
are worked out before the next question (`_sync`). Which buckets may serve some constraints is said
here too, for those who ask the constraints themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Protocol

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import util
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.bucket.definition import Finish, FinishNode, NodeDefinition, NodeTemplate
from hpc.autoscale.node.limits import BucketLimits, _SharedLimit
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import NodeClass, Reads, reads
from hpc.autoscale.node.node.state import BucketNodes
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.limits import NO_LIMIT, Limit, LimitExceeded
from hpc.autoscale.packing.plan import Step
from hpc.autoscale.packing.shape import NodeShape, ShapeTable
from hpc.autoscale.results import CandidatesResult, Result, SatisfiedResult, answer_of, weights_of
from hpc.autoscale.util import ShellDict

Listed = tuple[Sequence[NodeClass], Sequence[Any]]
"""Nodes that nobody has looked at: their classes, and what they are identified by."""


class NodeBucket:
    """One VM size in one nodearray and placement group.

    `last_capacity_failure`: seconds since the last one, negative or None for never. `artificial`:
    stands for machines that cannot be ordered. `priority` informs; it does not order. `template`:
    what its new nodes are made from, shared with other buckets of the definition. `listed`: nodes
    it has before `nodes`, which nobody has looked at yet. `resources` is live and may be written
    to.
    """

    def __init__(
        self,
        definition: NodeDefinition,
        limits: BucketLimits,
        max_placement_group_size: int,
        nodes: Sequence[Node],
        artificial: bool = False,
        priority: int = 0,
        last_capacity_failure: float | None = -1.0,
        valid: bool = True,
        spot_placement_score: str | None = None,
        *,
        template: NodeTemplate | None = None,
        listed: Listed | None = None,
    ) -> None:
        self._definition = definition
        self.limits = limits
        self.max_placement_group_size = max_placement_group_size
        self.priority = priority
        self.valid = valid
        self._artificial = artificial
        self._last_capacity_failure = last_capacity_failure
        self._spot_placement_score = spot_placement_score
        self._nodes = BucketNodes(self, self.last_capacity_failure, self._written)
        self._is_template_stale = True
        self._planned: NodeClass | None = None
        self._candidate: Candidate | None = None
        self._finish: Finish | None = None
        self._on_write: Callable[[NodeBucket], None] | None = None
        self._on_stale: Callable[[NodeBucket], None] | None = None
        self._reserved = 0
        self._template = template or NodeTemplate(definition)
        if not self._template.is_shared:  # what is written to it is reported here
            self._template.example._home = self._nodes
        if listed is not None:
            self._nodes.add_listed(*listed)
        for node in nodes:
            self._adopt(node)

    def _own_template(self) -> NodeTemplate:
        """The template, for whoever may write into it."""
        if self._template.is_shared:
            self._template = self._template.of(self._definition)
            self._template.example._home = self._nodes
        return self._template

    # -- what it is

    nodearray = reads("_definition.nodearray", ht.NodeArrayName, "Of which its nodes are made.")
    bucket_id = reads("_definition.bucket_id", ht.BucketId, "Shared by placement-group variants.")
    vm_size = reads("_definition.vm_size", ht.VMSize, "Azure VM size.")
    location = reads("_definition.location", ht.Location, "Azure region.")
    spot = reads("_definition.spot", bool, "Interruptible, at spot price.")
    subnet = reads("_definition.subnet", ht.SubnetId, "Subnet, as `group/network/subnet`.")
    is_artificial = reads("_artificial", bool, "Of a machine that is not of the cluster.")
    vcpu_count = reads("_definition.vcpu_count", int, "Virtual CPUs of one node.")
    memory = reads("_definition.memory", ht.Memory, "Memory of one node.")
    software_configuration: Reads[Any] = reads(
        "_definition.software_configuration", Mapping, "Configuration of the nodearray."
    )
    placement_group: Reads[ht.PlacementGroup | None] = reads(
        "_definition.placement_group", ht.PlacementGroup | None, "Placement group, if any."
    )
    spot_placement_score: Reads[str | None] = reads(
        "_spot_placement_score",
        str | None,
        "Azure's estimate of getting spot capacity: High, Medium, Low; None when the server does"
        " not say.",
    )
    # of its size, from the catalogue
    gpu_count = reads("_template.example.gpu_count", int, "GPUs of one node.")
    vm_family = reads("_template.example.vm_family", ht.VMFamily, "Quota family of the size.")
    vm_capabilities = reads("_template.example.vm_capabilities", ShellDict, "Of the size, raw.")
    pcpu_count = reads("_template.example.pcpu_count", int, "Physical cores of one node.")
    cores_per_socket = reads(
        "_template.example.cores_per_socket",
        int,
        "vCPUs to a physical core (-1 unknown), despite its name.",
    )

    @property
    def resources(self) -> dict[str, Any]:
        """Totals of a new node: live, may be written to."""
        return self._own_template().resources

    @property
    def example_node(self) -> Node:
        """A node like a new one, named `<nodearray>-0`: what constraints on buckets look at."""
        return self._own_template().example

    _example_node = example_node

    @property
    def supports_colocation(self) -> bool:
        """Whether placement groups make sense here (`autoscale.is_hpc` of the configuration,
        true by default)."""
        autoscale = self.software_configuration.get("autoscale") or {}
        return bool(autoscale.get("is_hpc", True))

    @property
    def last_capacity_failure(self) -> float | None:
        """Seconds since Azure last had no capacity here; None for never."""
        elapsed = self._last_capacity_failure
        return None if elapsed is None or elapsed < 0 else elapsed

    # -- how many there may be

    @property
    def _engine_limits(self) -> tuple[Limit, ...]:
        """The limits that a new node is charged to; one without room where they are not known."""
        # callers' tests pass all kinds of objects for limits that they never ask
        known = isinstance(self.limits, BucketLimits)
        return self.limits.parts if known else (Limit(f"Bucket({self})", max_nodes=0),)

    @property
    def available_count(self) -> int:
        """How many nodes can be added now, by the tightest of all limits, less those reserved."""
        room = min((a.room(self.vcpu_count) for a in self._engine_limits), default=NO_LIMIT)
        return max(0, room - self._reserved)

    @available_count.setter
    def available_count(self, nodes: int) -> None:
        # published oddity: assigning takes that many away
        self.limits.decrement(nodes)

    @property
    def family_available_count(self) -> int:
        """How many nodes the family's quota has room for, less those reserved."""
        return self.limits.family_available_count - self._reserved

    max_count = reads("limits.max_count", int, "Most nodes the bucket can have.")

    def decrement(self, count: int = 1) -> None:
        """Reserve places for `count` nodes until `commit` or `rollback`; AssertionError when
        there are fewer."""
        if count > 0 and count > self.available_count:
            raise AssertionError(
                f"expected room for {count} nodes in {self}, found {self.available_count}"
            )
        self._reserve(self._reserved + count)

    def increment(self, count: int = 1) -> None:
        """Take back `count` reserved places."""
        self._reserve(self._reserved - count)

    def commit(self) -> None:
        """Make the reserved places used."""
        reserved = self._reserved
        self._reserve(0)
        try:
            self.limits.decrement(reserved)
        except LimitExceeded:
            self._reserve(reserved)
            raise

    def rollback(self) -> None:
        """Forget the reserved places."""
        self._reserve(0)

    def _reserve(self, count: int) -> None:
        # what was never reserved cannot be taken back
        self._reserved = max(0, count)
        if self._candidate is not None:
            self._candidate.reserved = self._reserved

    # -- its nodes

    @property
    def nodes(self) -> list[Node]:
        """The nodes, existing and planned, in order. A list of its own: add with `add_nodes`."""
        return self._nodes.there()

    @property
    def live_count(self) -> int:
        """How many nodes have a place under the limits: those that run, boot or are planned."""
        return self._nodes.counted

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Add nodes that are not here yet (by transient id and by host name); AssertionError
        when not valid."""
        if not self.valid:
            raise AssertionError(f"nodes cannot be added to {self}: the bucket is not valid")
        for node in nodes:
            if not self._nodes.find_any({node.delayed_node_id.transient_id, node.hostname_or_uuid}):
                self._adopt(node)

    def _adopt(self, node: Node) -> None:
        # limits that were read before it came know nothing of it; one that rests takes no place
        rests = not node.exists and node.state == "Deallocated"
        self._nodes.adopt(node, self._candidate is None and node._is_counted and not rests)
        self._written(node)

    def clone_with_placement_group(self, placement_group: ht.PlacementGroup) -> NodeBucket:
        """The same bucket within a placement group: no nodes yet, other limits shared."""
        return self._within(placement_group)

    def _within(
        self,
        group: str,
        used_cores: int = 0,
        template: NodeTemplate | None = None,
        listed: Listed | None = None,
    ) -> NodeBucket:
        """The same bucket within a placement group in which so many cores are in use. `template`
        and `listed`: its own, see `NodeBucket`."""
        if self.placement_group:
            raise AutoscaleError(f"expected a bucket without a placement group, found {self}")
        cores = self.max_placement_group_size * self.vcpu_count
        return NodeBucket(
            self._definition.in_placement_group(group, self._template.given()),
            self.limits.in_placement_group(
                _SharedLimit(f"PlacementGroup({group})", used_cores, cores)
            ),
            self.max_placement_group_size,
            [],
            artificial=self._artificial,
            priority=self.priority,
            last_capacity_failure=self._last_capacity_failure,
            valid=self.valid,
            spot_placement_score=self._spot_placement_score,
            template=template,
            listed=listed,
        )

    # -- between the engine and the handles

    def _written(self, node: Node) -> None:
        """A node, or the example node, was written to."""
        if node._position < 0:
            self._renew_template()
        if self._on_write is not None:
            self._on_write(self)

    def _renew_template(self) -> None:
        self._is_template_stale = True
        if self._on_stale is not None:
            self._on_stale(self)

    def _join(
        self,
        blank: NodeShape,
        finish: Finish,
        on_write: Callable[[NodeBucket], None],
        on_stale: Callable[[NodeBucket], None],
    ) -> Candidate:
        """Become part of an engine; its state here is the `Candidate` returned.

        `blank` stands for its shapes before the first `_sync`, when default resources are defined.
        `finish` gives new nodes their default resources. `on_write` is called after each write, and
        `on_stale` when `_sync` must work something out.
        """
        self._finish = finish
        self._on_write, self._on_stale = on_write, on_stale
        self._template.renew()
        self._candidate = Candidate(
            str(self), blank, blank, max(1, self.vcpu_count), self._engine_limits, self._artificial
        )
        self._candidate.reserved = self._reserved
        self._candidate.since_failure = self.last_capacity_failure
        self._nodes.join(self._candidate, blank.table)
        self._renew_template()
        return self._candidate

    def _apply_defaults(
        self, finish: Finish, deferred: frozenset[str], apply: FinishNode | None = None
    ) -> None:
        """Give the bucket and the nodes that are here the default resources they lack.
        `deferred`: resources that differ from node to node, and stay out of what the engine
        knows. `apply`: does the same as `finish.apply`."""
        self._nodes.loosen()
        self._nodes.deferred = deferred
        if apply is None or not finish.ignore_groups:
            self._own_template()
        self._template.derive(apply or finish.apply)
        self._nodes.give_defaults(finish.refined, finish.apply_to)
        self._renew_template()

    @property
    def _finishing(self) -> Finish:
        if self._finish is None:
            raise AutoscaleError(f"{self} does not belong to a node manager")
        return self._finish

    def _scratch(self, position: int) -> Node:
        """A copy of the node at a position, or beyond the last a new one, to try things on."""
        if position >= len(self._nodes):
            # it has no name before it is planned; a number alone could be another node's
            return self._new_node(f"{self.nodearray}-new{position}", util.uuid("hostname"))
        return copy(self._nodes.handle(position))

    def _sync(self, table: ShapeTable) -> bool:
        """Let the engine know what new nodes are made from, and what default resources the nodes
        have, where that was written to; True when the bucket itself looks different now."""
        candidate = self._candidate
        if candidate is None:
            raise AutoscaleError(f"{self} does not belong to a node manager")
        self._nodes.bind()
        if not self._is_template_stale:
            return False
        self._is_template_stale = False
        self._template.renew()
        self._planned = None
        bucket, new = self._template.shapes(table, self._finishing, self._nodes.deferred)
        moved = {}
        if self._template.is_shared and (group := self.placement_group):
            moved = {s: table.with_property(s, "placement_group", group) for s in {bucket, new}}
        candidate.bucket_shape = moved.get(bucket, bucket)
        candidate.new_shape = moved.get(new, new)
        return True

    def _took(self, step: Step, names: Sequence[str], assignment_id: str | None) -> None:
        """The engine has placed something here; `names` are those of newly opened nodes, on which
        there may be nobody yet."""
        if names:
            planned = self._planned
            if planned is None:
                planned = self._template.planned(self._finishing, self.placement_group)
                if self._candidate is not None:
                    self._nodes.of_class[planned] = self._candidate.new_shape
                self._planned = planned
            self._nodes.open(planned, names, assignment_id)
            return
        if step.before.dormant:
            self._nodes.uncounted.difference_update(range(step.lo, step.hi))
        if assignment_id is not None:
            for position in range(step.lo, step.hi):
                self._nodes.placed(position, assignment_id)

    def _new_node(self, name: str, hostname: str) -> Node:
        return self._template.new_node(name, hostname, self._finish, self._definition)

    def _remove(self, node: Node) -> None:
        """A node is gone; its place is not used again."""
        if node._home is self._nodes:
            self._nodes.remove(node)
            self._written(node)

    def __str__(self) -> str:
        group = f", pg={self.placement_group}" if self.placement_group else ""
        return f"NodeBucket(nodearray={self.nodearray}, vm_size={self.vm_size}{group})"

    def __repr__(self) -> str:
        return f"{str(self)[:-1]}, available={self.available_count})"


class BucketCondition(Protocol):
    """What buckets are held against: as much of a constraint as they know."""

    def weight_buckets(
        self, bucket_weights: list[tuple[NodeBucket, float]]
    ) -> list[tuple[NodeBucket, float]]:
        """The buckets with the weights that it gives them; heavier ones are used first."""

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        """Whether a new node of the bucket would do."""


def bucket_candidates(
    buckets: Sequence[NodeBucket], constraints: Sequence[BucketCondition]
) -> CandidatesResult[NodeBucket]:
    """The valid buckets that satisfy all constraints, in order of preference, artificial ones
    first.

    Through the published protocol of the constraints, so that any subclass has its say; on failure
    `child_results` holds the first refusal of each bucket, in the order in which they would have
    been asked.
    """
    valid = [bucket for bucket in buckets if bucket.valid]
    if not valid:
        return CandidatesResult("NoBucketsDefined", child_results=[])
    candidates, refused = sift(valid, constraints)
    if not candidates:
        return CandidatesResult("CompoundFailure", child_results=refused)
    return CandidatesResult("success", candidates=candidates)


def sift(
    buckets: Sequence[NodeBucket],
    constraints: Sequence[BucketCondition],
    ask_artificial: bool = True,
) -> tuple[list[NodeBucket], list[Result]]:
    """Of valid buckets, those that satisfy all constraints, in order of preference, artificial
    ones first; and the first refusal of each other one. `ask_artificial` false: artificial ones
    pass, for their nodes to be asked each."""
    weights = [(bucket, float(len(buckets) - i)) for i, bucket in enumerate(buckets)]
    for constraint in constraints:
        weights = weights_of(constraint, weights)
    ordered = [bucket for bucket, _ in sorted(weights, key=lambda pair: pair[1], reverse=True)]
    candidates: list[NodeBucket] = []
    refused: list[Result] = []
    for bucket in ordered:
        if bucket._artificial and not ask_artificial:
            candidates.append(bucket)
            continue
        answers = (answer_of(constraint, bucket=bucket) for constraint in constraints)
        refusal = next((answer for answer in answers if not answer), None)
        if refusal is not None:
            refused.append(refusal)
        else:
            candidates.append(bucket)
    return sorted(candidates, key=lambda bucket: not bucket._artificial), refused
