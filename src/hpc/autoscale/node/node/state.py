"""The nodes of one bucket, by position: the only place where it is kept what is left on them and
who was placed there.

A node that nobody has looked at is a few entries in lists here; a `Node` is made of them when
somebody asks, and reads and writes them from then on. The shapes are the list that the engine
decides by. While no engine knows the bucket, or default resources are being given out, the state is
not bound: each node keeps what is its own, until `bind`.

Jobs that are meant for one host need not be held against all nodes: `positions_of` says where the
nodes are that have a text which tells nodes apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import kind_and_value
from hpc.autoscale.node.node.contents import Change, NodeClass, TrackedSet, assigned_to, shape_of
from hpc.autoscale.node.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr, OneOf, TextPattern, text_pattern
from hpc.autoscale.packing.shape import NodeShape, ShapeTable

_MOST_REWRITTEN = 10_000


# Properties that change by writes to the node alone, which are reported.
_KEPT = frozenset(
    f"node.{name}" for name in ("name", "hostname", "fqdn", "hostname_or_uuid", "instance_id")
)


def pin_of(expr: Expr) -> Expr | None:
    """The condition of an expression that names something that tells a node apart and is kept here,
    a property or a resource, and the texts that it may be (its `one_of`); None where there is
    none."""
    for each in expr.conditions():
        one_of = each.one_of
        if one_of is not None and (one_of.name in _KEPT or one_of.name[:5] != "node."):
            return each
    return None


class _Index:
    """Positions by text. `texts`: by position."""

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self._where: dict[str, set[int]] = {}
        # all texts, sorted; None: to be made
        self._sorted: list[str] | None = None

    def put(self, position: int, text: str | None) -> None:
        """The text of a position is this now."""
        was = self.texts[position]
        if was == text:
            return
        if was is not None:
            self._where[was].discard(position)
        if text is not None:
            if text not in self._where:
                self._where[text] = set()
                self._sorted = None
            self._where[text].add(position)
        self.texts[position] = text

    def positions(self, one_of: OneOf) -> Sequence[int]:
        """The positions that have one of some texts, in order. Cost: that of those, and of the
        texts that begin as a pattern does."""
        found: set[int] = set()
        for text in one_of.texts:
            pattern = text_pattern(text)
            for each in (text,) if pattern is None else self._matching(pattern):
                found |= self._where.get(each, set())
        return sorted(found)

    def _matching(self, pattern: TextPattern) -> Iterator[str]:
        if self._sorted is None:
            self._sorted = sorted(self._where)
        prefix = pattern.prefix
        start = bisect_left(self._sorted, prefix)
        end = bisect_right(self._sorted, prefix, start, key=lambda text: text[: len(prefix)])
        return filter(pattern.matches, self._sorted[start:end])


class BucketNodes:
    """The state of the nodes of one bucket. All lists go by position; a position is never used
    again.

    `handles`: the `Node` of each position, None until somebody has looked at it. `classes` and
    `sources`: what it is made from then. `shapes`: what the engine knows of it, None for one that
    is gone. `assigned`: who was placed there. `used`: positions that work was placed on, or that
    somebody requires. `uncounted`: those that have no place under the limits.
    `last_capacity_failure`: of the bucket. `on_write` is called after each write through a node.
    """

    def __init__(
        self,
        bucket: object,
        last_capacity_failure: float | None,
        on_write: Callable[[Node], None],
    ) -> None:
        self.bucket = bucket
        self.handles: list[Node | None] = []
        self.classes: list[NodeClass | None] = []
        self.sources: list[Any] = []
        self.shapes: list[NodeShape | None] = []
        self.assigned: dict[int, Sequence[str] | TrackedSet] = {}
        self.used: set[int] = set()
        self.uncounted: set[int] = set()
        self.gone: set[int] = set()
        # resources that differ from node to node, and are in no shape
        self.deferred: frozenset[str] = frozenset()
        # of the texts that tell nodes apart, by the property or resource that was asked for
        self._indexes: dict[str, _Index] = {}
        self.is_bound = False
        self._on_write = on_write
        self._last_capacity_failure = last_capacity_failure
        self._candidate: Candidate | None = None
        self._table: ShapeTable | None = None
        # what is known of nodes that are as their class made them
        self.of_class: dict[NodeClass, NodeShape] = {}
        # what becomes of a shape when one amount is written, or somebody is placed on the node
        self._rewritten: dict[object, NodeShape] = {}
        # ids and host names of the nodes at positions before the second
        self._known: set[str] = set()
        self._known_until = 0

    def __len__(self) -> int:
        return len(self.handles)

    @property
    def counted(self) -> int:
        """How many of the nodes have a place under the limits."""
        return len(self.handles) - len(self.uncounted | self.gone)

    # -- handles

    def handle(self, position: int, ids_of: Node | None = None) -> Node:
        """The node at a position, also one that is gone; made now if nobody has looked at it
        yet, with the host name and the transient id of `ids_of`."""
        node = self.handles[position]
        return self._make(position, ids_of) if node is None else node

    def there(self) -> list[Node]:
        """The nodes that are there, in order."""
        self.bind()
        for position, node in enumerate(self.handles) if not all(self.handles) else ():
            if node is None:
                self._make(position)
        return self.made() if self.gone else cast(list[Node], self.handles.copy())

    def made(self) -> list[Node]:
        """Those of which there is a `Node`."""
        return [node for i, node in enumerate(self.handles) if node and i not in self.gone]

    def _make(self, position: int, ids_of: Node | None = None) -> Node:
        node_class = self.classes[position]
        if node_class is None:
            raise AutoscaleError(f"{self.bucket} has no node at {position}")
        home = self if node_class.finish is None else None
        node = node_class.node(self.sources[position], home, position)
        if ids_of is not None:
            node.__dict__["_hostname"] = ids_of._hostname
            node.delayed_node_id.transient_id = ids_of.delayed_node_id.transient_id
        if node_class.finish is not None:
            # as a new one, before anything is placed on it
            node_class.finish(node)
            node.available.shape = self.class_shape(node_class) if self.is_bound else None
            node.__dict__.update(_home=self, _position=position)
            node.__dict__.pop("_Node__assignments", None)  # if it was looked at: none so far
        self.handles[position] = node
        return node

    def find_any(self, names: Collection[str]) -> bool:
        """Whether one of these transient ids or host names is that of a node here."""
        for position in range(self._known_until, len(self.handles)):
            self._known |= _names_of(self.handle(position))
        self._known_until = len(self.handles)
        return not self._known.isdisjoint(names)

    def positions_of(self, one_of: OneOf) -> Sequence[int]:
        """Where the nodes are that have one of some texts, in order. Cost: each node once for a
        property or resource, and once more when it was written to."""
        name = one_of.name
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = _Index()
        known, count = len(index.texts), len(self.handles)
        index.texts += [None] * (count - known)
        for position in range(known, count):
            self._enter(name, index, position)
        return index.positions(one_of)

    def _enter(self, name: str, index: _Index, position: int) -> None:
        node = self.handle(position)
        found = getattr(node, name[5:]) if name[:5] == "node." else node.available.get(name)
        index.put(position, found if isinstance(found, str) else None)

    # -- nodes come and go

    def add_listed(self, classes: Sequence[NodeClass], sources: Sequence[Any]) -> None:
        """Nodes of the cluster that nobody has looked at."""
        lo = len(self.handles)
        self.handles.extend([None] * len(classes))
        self.classes.extend(classes)
        self.sources.extend(sources)
        for position, node_class in enumerate(classes, lo):
            if not node_class.attributes["exists"]:
                self.uncounted.add(position)

    def adopt(self, node: Node, is_counted: bool) -> None:
        """A node that somebody made; it keeps nothing of its own from now on that is kept here."""
        position = len(self.handles)
        self.handles.append(node)
        self.classes.append(None)
        self.sources.append(None)
        if node._allocated:
            self.used.add(position)
        if not is_counted:
            self.uncounted.add(position)
        self.assigned[position] = node.assignments
        shape = self.shape_now(node) if self.is_bound else None
        node.__dict__["_home"], node.__dict__["_position"] = self, position
        if self._candidate is not None and shape is not None:
            self._candidate.extend([shape])
            node.available.shape = shape

    def open(self, node_class: NodeClass, names: Sequence[str], assignment_id: str | None) -> None:
        """Planned nodes that the engine has opened, and who was placed on each of them."""
        lo = len(self.handles)
        placed = None if assignment_id is None else (assignment_id,)
        for position, name in enumerate(names, lo):
            self.handles.append(None)
            self.classes.append(node_class)
            self.sources.append(name)
            self.used.add(position)
            if placed is not None:
                self.assigned[position] = placed
        if node_class.finish is None:
            return
        # they have something that only the node itself can tell
        changed: dict[int, NodeShape | None] = {}
        for position in range(lo, len(self.handles)):
            node = self._make(position)
            node.available.catch_up()
            changed[position] = node.available.shape = self.shape_now(node)
        self.reshape(changed)

    def placed(self, position: int, assignment_id: str) -> None:
        """The engine has placed work on a node; what is left there is in its shape already."""
        self.used.add(position)
        there = self.assigned.get(position)
        if isinstance(there, list):  # as most are
            there.append(assignment_id)
        elif there is None:
            self.assigned[position] = (assignment_id,)
        elif isinstance(there, TrackedSet):
            set.add(there, assignment_id)  # the engine is not told what it did
        else:  # nodes may share it
            self.assigned[position] = [*there, assignment_id]

    def remove(self, node: Node) -> None:
        """A node is gone; it belongs to nobody."""
        position = node._position
        self.find_any(())
        node._leave()
        self._known -= _names_of(node)
        self.gone.add(position)
        if self._candidate is not None and self.is_bound:
            self._candidate.reshape({position: None})

    # -- what is kept of each

    def assignments_of(self, node: Node) -> TrackedSet:
        """Who was placed on a node: a live set, which is kept here."""
        there = self.assigned.get(node._position, ())
        if not isinstance(there, TrackedSet):
            there = self.assigned[node._position] = TrackedSet(there, node)
        return there

    def close(self, position: int, closed: bool) -> None:
        """Say whether a node takes no more work."""
        shape = self.shapes[position]
        if shape is not None and shape.closed != closed:
            self._set(position, self._occupied(shape, shape.vacant, closed, shape.dormant))
            self._on_write(self.handle(position))

    def count(self, node: Node, takes_place: bool) -> None:
        """Say whether a node has a place under the limits."""
        (self.uncounted.discard if takes_place else self.uncounted.add)(node._position)

    # -- writes through handles

    def written(self, node: Node, what: Change, amount: tuple[str, object] | None = None) -> None:
        """Something was written through a node: the engine knows of it when this returns. `amount`:
        the name and the value of the one amount that was written."""
        position = node._position
        if position >= 0 and position not in self.gone:
            if self.is_bound:
                self._take_in(node, position, what, amount)
            for name, index in self._indexes.items() if what is not Change.OCCUPANCY else ():
                if position < len(index.texts):
                    self._enter(name, index, position)
        self._on_write(node)

    def _take_in(
        self, node: Node, position: int, what: Change, amount: tuple[str, object] | None
    ) -> None:
        shape = self.shapes[position]
        if shape is None or what in (Change.RESOURCES, Change.IDENTITY):
            return
        if what is Change.OCCUPANCY:
            dormant = not (node.exists or node._in_demand) and node.state == "Deallocated"
            vacant = not assigned_to(node)
            if (vacant, dormant) == (shape.vacant, shape.dormant):
                return
            changed = self._occupied(shape, vacant, shape.closed, dormant)
            amounts = node.__dict__.get("_Node__available")
            if amounts is not None and amounts.shape is shape:
                amounts.shape = changed  # nothing else was taken
        else:
            # a class of somebody's own may answer by what is available
            is_ours = what is Change.AMOUNTS and node.__class__ is Node
            # many nodes are often given the same, which is worked out once
            key = self._amount_key(shape, *amount) if is_ours and amount is not None else None
            known = self._rewritten.get(key) if key is not None else None
            changed = known or self.shape_now(node, shape if is_ours else None)
            if key is not None and known is None:
                self._remember(key, changed)
            node.available.shape = changed
        self._set(position, changed)

    def _amount_key(self, shape: NodeShape, name: str, value: object) -> object:
        """Equal for writes that make the same of a shape; None where that cannot be told."""
        told = None if name in self.deferred else kind_and_value(value)
        return None if told is None else (shape, name, told)

    def _set(self, position: int, shape: NodeShape) -> None:
        if self._candidate is not None and shape is not self.shapes[position]:
            self._candidate.reshape({position: shape})

    def _occupied(self, shape: NodeShape, vacant: bool, closed: bool, dormant: bool) -> NodeShape:
        """The shape of the same node where others are placed on it."""
        key = (shape, vacant, closed, dormant)
        found = self._rewritten.get(key)
        if found is None:
            table = shape.table
            found = table.shape(shape.template, shape.free, vacant, closed, dormant)
            self._remember(key, found)
        return found

    def reshape(self, changed: Mapping[int, NodeShape | None]) -> None:
        """Nodes look like this, by position, until they are written to."""
        if changed and self._candidate is not None:
            self._candidate.reshape(changed)

    def _remember(self, key: object, shape: NodeShape) -> None:
        if len(self._rewritten) >= _MOST_REWRITTEN:
            self._rewritten.clear()
        self._rewritten[key] = shape

    def shape_now(self, node: Node, like: NodeShape | None = None) -> NodeShape:
        """What the engine knows, or would know, of a node of this bucket or a copy of one. `like`:
        see `shape_of`."""
        if self._table is None:
            raise AutoscaleError(f"{self.bucket} does not belong to a node manager")
        failure = self._last_capacity_failure
        return shape_of(node, self._table, QUERYABLE_PROPERTIES, self.deferred, failure, like)

    def class_shape(self, node_class: NodeClass | None) -> NodeShape:
        """What the engine knows of nodes that are as their class made them."""
        if node_class is None:
            raise AutoscaleError(f"{self.bucket} has a node that nobody can make")
        found = self.of_class.get(node_class)
        if found is None:
            found = self.of_class[node_class] = self.shape_now(node_class.sample())
        return found

    # -- becoming the engine's, and being looked at by definitions of default resources

    def join(self, candidate: Candidate, table: ShapeTable) -> None:
        """Be the nodes of a bucket of an engine, from the next `bind` on."""
        self._candidate = candidate
        self._table = table
        self.shapes = candidate.shapes

    def bind(self) -> None:
        """From now on the state is kept here, and the engine knows it. Before the engine is
        asked, and before nodes are handed out."""
        if self.is_bound or self._candidate is None:
            return
        self.of_class.clear()
        self._rewritten.clear()
        self._indexes.clear()
        known = len(self.shapes)
        found = [self._bound_shape(position) for position in range(len(self.handles))]
        self.is_bound = True
        there = enumerate(found[:known])
        self.reshape({i: shape for i, shape in there if shape is not self.shapes[i]})
        if len(found) > known:
            self._candidate.extend(found[known:])

    def _bound_shape(self, position: int) -> NodeShape | None:
        if position in self.gone:
            return None
        node, node_class = self.handles[position], self.classes[position]
        if node is None or (node._class is not None and "_Node__available" not in node.__dict__):
            shape = self.class_shape(node_class if node is None else node._class)
            vacant = not self.assigned.get(position)
            closed = node is not None and node._closed
            dormant = shape.dormant and vacant and position not in self.used
            if (vacant, closed, dormant) == (shape.vacant, shape.closed, shape.dormant):
                return shape
            return self._occupied(shape, vacant, closed, dormant)
        like = None if node._class is None else self.class_shape(node._class)
        shape = self.shape_now(node, None if like is None or like.dormant else like)
        node.available.shape = shape
        return shape

    def loosen(self) -> None:
        """From now on each node keeps what is its own. Nodes that nobody has looked at, and that
        have all that their class gave them, are not made for it; planned ones are."""
        if not self.is_bound:
            return
        for position, shape in enumerate(self.shapes):
            node = self.handles[position]
            if node is None:
                node_class = self.classes[position]
                if shape is None or node_class is None:
                    continue
                if position not in self.used and shape is self.of_class.get(node_class):
                    continue
                node = self._make(position)
            if shape is not None:
                own = node.__dict__
                if shape.closed:
                    own["_closed"] = True
                if "_Node__available" in own or shape is not self.of_class.get(own["_class"]):
                    node.available.catch_up()
        self.is_bound = False

    def give_defaults(
        self,
        refined: Callable[[NodeClass], NodeClass | None],
        apply_to: Callable[[Iterable[Node]], None],
    ) -> None:
        """Give all nodes the default resources that they lack; those that nobody has looked at,
        class by class."""
        unmade = [position for position, node in enumerate(self.handles) if node is None]
        by_class = {c: refined(c) for c in {self.classes[position] for position in unmade} if c}
        for position in unmade:
            old = self.classes[position]
            new = by_class.get(old) if old is not None else None
            if new is None:
                self._make(position)
            else:
                self.classes[position] = new
        apply_to(self.made())


def place_of(node: Node) -> tuple[BucketNodes, int, NodeShape] | None:
    """Where the state of a node is kept, its position there, and its shape; None where no engine
    knows it."""
    home, shape = node._home, node._shape
    return None if home is None or shape is None else (home, node._position, shape)


def _names_of(node: Node) -> set[str]:
    return {node.delayed_node_id.transient_id, node.hostname_or_uuid}
