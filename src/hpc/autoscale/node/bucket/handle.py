"""The published `NodeBucket`: nodes of one VM size in one nodearray and placement group, existing and possible.

A bucket is a handle over a `Candidate` of the engine once a `NodeManager` has taken it in. It holds the `Node` objects by
position: one that was only planned is a name until somebody looks at it. Writes through a node, or into
`bucket.resources` or the example node, are gathered and given to the engine before the next question (`_sync`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from operator import is_
from typing import cast

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import util
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.bucket.definition import NodeDefinition
from hpc.autoscale.node.bucket.facts import BucketFacts
from hpc.autoscale.node.bucket.looks import Looks
from hpc.autoscale.node.bucket.mould import Finish, FinishNode, Mould, Planned
from hpc.autoscale.node.bucket.unseen import Unseen
from hpc.autoscale.node.limits import BucketLimits, _SharedLimit
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.copying import twin
from hpc.autoscale.node.node.shaping import Used, in_group, used_up
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.plan import Step
from hpc.autoscale.packing.shape import NodeShape, ShapeTable


class NodeBucket(BucketFacts):
    """One VM size in one nodearray and placement group.

    `last_capacity_failure`: seconds since the last one, negative or None for never. `artificial`: stands for machines
    that cannot be ordered. `priority` informs; it does not order. `mould`: what its new nodes are made from, shared with
    other buckets of the definition. `unseen`: nodes it has before `nodes`, which nobody has looked at yet. `resources` is
    live and may be written to.
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
        mould: Mould | None = None,
        unseen: Unseen | None = None,
    ) -> None:
        self._definition = definition
        self.limits = limits
        self.max_placement_group_size = max_placement_group_size
        self.priority = priority
        self.valid = valid
        self._artificial = artificial
        self._last_capacity_failure = last_capacity_failure
        self._spot_placement_score = spot_placement_score
        # by position: a node, the name of a planned one that nobody has looked at yet, what knows an existing one that
        # nobody has looked at yet, or None for one that is gone
        self._slots: list[Node | str | Unseen | None] = [unseen] * len(unseen) if unseen else []
        self._unseen = unseen or None
        self._gone: dict[int, Node] = {}
        # who was placed on each of those that are names
        self._links: dict[int, Sequence[str]] = {}
        # transient ids and host names of the nodes, but for those that are `_unlisted` so far
        self._known: set[str] = set()
        self._unlisted: list[Node] = []
        self._dirty = set(range(len(self._slots)))
        self._template_dirty = True
        self._looks = Looks(self.last_capacity_failure)
        self._uses: dict[tuple[NodeShape, NodeShape], Used] = {}
        self._candidate: Candidate | None = None
        self._finish: Finish | None = None
        self._on_write: Callable[[NodeBucket], None] | None = None
        self._reserved = 0
        self._mould = mould or self._at_home(Mould(definition))
        for node in nodes:
            self._adopt(node)

    # -- its nodes

    @property
    def nodes(self) -> list[Node]:
        """The nodes, existing and planned, in order. A list of its own: add with `add_nodes`."""
        self._make(planned_only=False)
        slots = cast(list[Node], self._slots)
        return [node for node in slots if node is not None] if self._gone else slots.copy()

    @property
    def _size(self) -> int:
        """How many nodes it has had by now, those that are gone included: the position of the next one."""
        return len(self._slots)

    def _made(self) -> list[Node]:
        """The nodes that there is a `Node` of."""
        # to ask of each whether it is a Node would take long for those that are not
        slots = cast(list[Node], self._slots)
        others = {kind for kind in set(map(type, slots)) if not issubclass(kind, Node)}
        return [slot for slot in slots if slot.__class__ not in others] if others else slots.copy()

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Add nodes that are not here yet (by transient id and by host name); AssertionError when not valid."""
        if not self.valid:
            raise AssertionError(f"nodes cannot be added to {self}: the bucket is not valid")
        self._make(planned_only=False)
        for node in nodes:
            self._list()
            if not {node.delayed_node_id.transient_id, node.hostname_or_uuid} & self._known:
                self._adopt(node)
                # limits that were read before it came know nothing of it
                node._is_counted = self._candidate is None and node._is_counted

    def _adopt(self, node: Node) -> None:
        position = len(self._slots)
        self._slots.append(node)
        self._take_in(node, position)
        self._mark((position,))

    def _take_in(self, node: Node, position: int) -> Node:
        own = node.__dict__
        own["_home"], own["_position"] = self, position
        if not node.exists and node.state == "Deallocated":
            own["_is_counted"] = False
        self._unlisted.append(node)
        return node

    @property
    def _counted(self) -> int:
        """How many of its nodes have a place under the limits."""
        made = self._made()
        others = len(self._slots) - len(made) - len(self._gone)
        if self._unseen is not None:
            kinds = compress(self._unseen.kinds, map(is_, self._slots, repeat(self._unseen)))
            others -= sum(not kind.attributes["exists"] for kind in kinds)
        return others + sum(node._is_counted for node in made)

    def _list(self) -> None:
        for node in self._unlisted:
            self._known |= {node.delayed_node_id.transient_id, node.hostname_or_uuid}
        self._unlisted.clear()

    def _names(self) -> list[str]:
        """The names of its nodes, but for those that nobody has looked at: whoever lists them knows all."""
        return [node.name for node in self._made()]

    def clone_with_placement_group(self, placement_group: ht.PlacementGroup) -> NodeBucket:
        """The same bucket within a placement group: no nodes yet, all other limits shared with this one."""
        if self.placement_group:
            raise AutoscaleError(f"expected a bucket without a placement group, found {self}")
        definition = self._definition.in_placement_group(placement_group, self._mould.given())
        cores = self.max_placement_group_size * self.vcpu_count
        group = _SharedLimit(f"PlacementGroup({placement_group})", 0, cores)
        return NodeBucket(
            definition,
            self.limits.in_placement_group(group),
            self.max_placement_group_size,
            [],
            artificial=self._artificial,
            priority=self.priority,
            last_capacity_failure=self._last_capacity_failure,
            valid=self.valid,
            spot_placement_score=self._spot_placement_score,
        )

    # -- between the engine and the handles

    def touched(self, node: Node) -> None:
        """A node was written to: the engine must hear of it before it is asked again."""
        if node._position < 0:  # the example node
            self._template_dirty = True
        else:
            self._dirty.add(node._position)
        if self._on_write is not None:
            self._on_write(self)

    def _mark(self, positions: Iterable[int]) -> None:
        """The engine is to look at these positions, and at what new nodes are made from, before it is asked again."""
        self._dirty.update(positions)
        if self._on_write is not None:
            self._on_write(self)

    def _join(
        self, blank: NodeShape, finish: Finish, on_write: Callable[[NodeBucket], None]
    ) -> Candidate:
        """Become part of an engine; its state here is the `Candidate` returned. `blank`: stands for its shapes before the first
        `_sync`, when default resources are defined. `finish` gives new nodes their default resources; `on_write` is called
        when something was written that `_sync` must pass on."""
        self._finish = finish
        self._on_write = on_write
        self._mould.recast()
        self._candidate = Candidate(
            str(self), blank, blank, max(1, self.vcpu_count), self._engine_limits, self._artificial
        )
        self._candidate.reserved = self._reserved
        self._candidate.since_failure = self.last_capacity_failure
        self._template_dirty = True
        self._mark(range(len(self._slots)))
        return self._candidate

    def _apply_defaults(
        self, finish: Finish, deferred: frozenset[str], apply: FinishNode | None = None
    ) -> None:
        """Give the bucket and the nodes that are here the default resources they lack. `deferred`: resources that
        differ from node to node, and stay out of what the engine sees. `apply`: does the same as `finish.apply`.
        """
        self._make()
        if deferred != self._looks.deferred:
            self._looks.defer(deferred)
            self._template_dirty = True
        # not all that is given is reported, and those made now have it already
        self._mark(range(len(self._slots)))
        if apply is None or not finish.ignore_groups:
            self._own_mould()
        if self._mould.is_shared:  # it reports to nobody
            self._template_dirty = True
        self._mould.derive(apply or finish.apply)
        if self._unseen is not None and not self._unseen.refine(finish.refined):
            self._make(planned_only=False)
        finish.apply_to(self._made())

    def _make(self, planned_only: bool = True) -> None:
        """Make the nodes that nobody has looked at yet."""
        if self._links:
            self._cast(list(self._links))
        if self._unseen is not None and not planned_only:
            for position in range(len(self._unseen)):
                self._seen(position)
            self._unseen = None

    def _cast(self, positions: Sequence[int]) -> None:
        """Make planned nodes."""
        candidate, finish = self._candidate, self._finish
        if not positions or candidate is None or finish is None:
            return
        slots = self._slots
        planned = zip(
            map(slots.__getitem__, positions),
            positions,
            map(candidate.shapes.__getitem__, positions),
            map(self._links.pop, positions),
            strict=True,
        )
        made = self._mould.fill(self, finish, candidate.new_shape, cast(Iterable[Planned], planned))
        for position, node in zip(positions, made, strict=True):
            slots[position] = node
        self._unlisted.extend(made)

    def _shapes(self, table: ShapeTable) -> tuple[NodeShape, NodeShape]:
        """What the engine sees of the bucket, and of a new node."""
        if self._finish is None:
            raise AutoscaleError(f"{self} does not belong to a node manager")
        mould, group = self._mould, self.placement_group
        bucket, new = mould.shapes(table, self._finish, self._looks.deferred)
        if not (mould.is_shared and group):
            return bucket, new
        moved = in_group(new, group)
        return moved if bucket is new else in_group(bucket, group), moved

    def _scratch(self, position: int) -> Node:
        """A copy of the node at a position, or beyond the last a new one, to try things on."""
        if position >= len(self._slots):
            # it has no name before it is planned; a number could be another node's
            return self._new_node(f"{self.nodearray}-new", util.uuid("hostname"))
        return twin(self._handle(position))

    def _sync(self, table: ShapeTable) -> bool:
        """Give the engine what was written through handles; True when the bucket itself looks different now."""
        candidate = self._candidate
        if candidate is None:
            raise AutoscaleError(f"{self} does not belong to a node manager")
        if self._dirty:
            self._sync_nodes(candidate, table)
        if not self._template_dirty:
            return False
        self._template_dirty = False
        self._make()
        self._mould.recast()
        candidate.bucket_shape, candidate.new_shape = self._shapes(table)
        return True

    def _sync_nodes(self, candidate: Candidate, table: ShapeTable) -> None:
        slots, known = self._slots, len(candidate.shapes)
        changed: dict[int, NodeShape | None] = {}
        added: list[NodeShape | None] = []
        for position in sorted(self._dirty):
            node = slots[position]
            shape = None
            if isinstance(node, Node):
                shape = self._looks.shape_of(node, table)
            elif isinstance(node, str):
                continue
            elif node is not None:
                shape = self._looks.shape_of_kind(node.kinds[position], table)
            if position < known:
                changed[position] = shape
            else:
                added.append(shape)
        self._dirty.clear()
        if added:
            candidate.extend(added)
        if changed:
            candidate.reshape(changed)

    def _took(self, placed: Step, names: Sequence[str], assignment_id: str) -> None:
        """The engine has placed something here; `names` are those of newly opened nodes, on which there is nobody yet."""
        if names:
            # `steps` may be none of them, when nobody is there so far
            self._opened(names, *([assignment_id] if placed.lo < placed.hi else []))
            return
        _, lo, hi, _, before, after, _ = placed
        links = self._links
        for position in range(lo, hi):
            # a planned node, which nobody has looked at
            if position in links:
                self._link(position, assignment_id)
            else:
                self._took_one(position, before, after, assignment_id)

    def _took_one(
        self, position: int, before: NodeShape, after: NodeShape, assignment_id: str
    ) -> None:
        """The engine has placed something on one node that exists."""
        node = self._slots[position]
        if not isinstance(node, Node):
            node = self._handle(position)
        if before.dormant:
            node._is_counted = True
        used = self._uses.get((before, after)) or self._used(before, after)
        node._placed(used, after.closed, (assignment_id,))

    def _used(self, before: NodeShape, after: NodeShape) -> Used:
        found = self._uses[before, after] = used_up(before.free, after.free)
        return found

    def _link(self, position: int, assignment_id: str) -> None:
        """Add to those who were placed on a planned node."""
        links = self._links[position]
        if isinstance(links, list):
            links.append(assignment_id)
        else:  # nodes share it
            self._links[position] = [*links, assignment_id]

    def _opened_one(self, name: str, assignment_id: str) -> None:
        """The engine has placed something on one new node, which has this name."""
        self._links[len(self._slots)] = [assignment_id]
        self._slots.append(name)

    def _opened(self, names: Sequence[str], *assignment_ids: str) -> None:
        """The engine has opened new nodes, on which there may be nobody yet."""
        size = len(self._slots)
        self._slots.extend(names)
        # they share it; see `_link`
        self._links.update(dict.fromkeys(range(size, len(self._slots)), assignment_ids))

    def _seen(self, position: int) -> Node | str | None:
        """What is at a position; an existing node is made now if nobody has looked at it yet."""
        found = self._slots[position]
        # a text is told from other things far faster than a node is
        if found is None or isinstance(found, (str, Node)):
            return found
        node = self._slots[position] = self._take_in(found.node(position), position)
        return node

    def _handle(self, position: int) -> Node:
        """The node at a position, also one that is gone; made now if nobody has looked at it yet."""
        found: object = self._seen(position)
        if isinstance(found, str):
            self._cast((position,))
            found = self._slots[position]
        if found is None:
            return self._gone[position]
        if not isinstance(found, Node):
            raise AutoscaleError(f"{self} has no planned node at {position}")
        return found

    def _new_node(self, name: str, hostname: str) -> Node:
        return self._mould.new_node(name, hostname, self._finish, self._definition)

    def _remove(self, node: Node) -> None:
        """A node is gone; its place is not used again."""
        position = node._position
        if self._slots[position] is node:
            self._list()
            self._slots[position] = None
            self._gone[position] = node
            self._mark([position])
            self._known -= {node.delayed_node_id.transient_id, node.hostname_or_uuid}
            node._home = None

    def __str__(self) -> str:
        group = f", pg={self.placement_group}" if self.placement_group else ""
        return f"NodeBucket(nodearray={self.nodearray}, vm_size={self.vm_size}{group})"

    def __repr__(self) -> str:
        return f"{str(self)[:-1]}, available={self.available_count})"
