"""What a node has: containers that report when they are written to, what nodes that are made alike
have in common, and what the engine sees of it.

Integrators write into a node's `available`, `_resources` and `assignments` directly, and the engine
must hear of each such write. What is available is also changed by the engine: `Amounts` reads that
from the engine's state whenever it is looked at. The containers behave as plain ones otherwise, and
copying or pickling them gives plain ones.

A cluster has thousands of nodes of few classes. A `NodeClass` is made of one sample; each further
node is a copy of its attributes, and its containers are made when somebody first looks at them.
Which nodes are alike is for the callers to know: `nodemanager.records` for those of the cluster,
`bucket.definition` for planned ones.

To the engine, sized resources are numbers of bytes. `NodeView` lets an expression look at one node
directly; `shape_of` gives the interned shape under which the engine groups it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from enum import Enum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.hpctypes import Size, magnitude_bytes
from hpc.autoscale.packing.shape import IDENTITY, NodeShape, ShapeTable, Unit
from hpc.autoscale.util import ShellDict

if TYPE_CHECKING:
    from hpc.autoscale.node.node.node import Node
    from hpc.autoscale.node.node.state import BucketNodes

T = TypeVar("T", covariant=True)


class Reads(property, Generic[T]):
    """A property without a setter, of a `kind` that no function's annotation tells."""

    kind: type[T] | UnionType

    if TYPE_CHECKING:

        def __get__(self, owner: object, cls: object = None) -> T: ...  # type: ignore[override]


def reads(path: str, kind: type[T] | UnionType, says: str) -> Reads[T]:
    """A property that is what an object has under a path of attributes, as in `_definition.spot`,
    which is of this kind; `says` is the docstring."""
    found = Reads[T](attrgetter(path))
    found.kind, found.__doc__ = kind, says
    return found


_UNCHANGING = (str, int, float, Size, type(None))


def copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing that can be changed."""
    return {
        name: value if isinstance(value, _UNCHANGING) else deepcopy(value)
        for name, value in values.items()
    }


def can_be_shared(values: Mapping[str, Any]) -> bool:
    """Whether a plain copy of the mapping shares nothing that can be changed."""
    return all(isinstance(value, _UNCHANGING) for value in values.values())


def same(one: object, other: object) -> bool:
    """Equal, of one class and in one unit: 1, 1.0 and True are told apart, 1g and 1024m too."""
    if one is other:
        return True
    if isinstance(one, Size) and isinstance(other, Size) and one.magnitude != other.magnitude:
        return False
    return one.__class__ is other.__class__ and one == other


# -- containers


class Change(Enum):
    """What of a node was written to."""

    RESOURCES = "totals, which decide nothing by themselves"
    AMOUNTS = "what is available"
    OCCUPANCY = "who is placed on it, and whether it takes more"
    IDENTITY = "names and addresses"
    ALL = "anything else that a decision may depend on"


class TrackedDict(dict[str, Any]):
    """A dict that tells the node that it belongs to of each write through it."""

    __slots__ = ("owner",)

    what = Change.RESOURCES

    def __init__(self, contents: Any, owner: Node) -> None:
        self.owner = owner
        dict.__init__(self, contents)

    def __reduce__(self) -> Any:
        return (dict, (dict(self),))

    def copy(self) -> dict[str, Any]:
        return dict(self)


class TrackedSet(set[str]):
    """A set that tells the node that it belongs to of each write through it."""

    __slots__ = ("owner",)

    what = Change.OCCUPANCY

    def __init__(self, contents: Iterable[str], owner: Node) -> None:
        self.owner = owner
        set.__init__(self, contents)

    def __repr__(self) -> str:
        return repr(set(self))

    def __reduce__(self) -> Any:
        return (set, (list(self),))

    def copy(self) -> set[str]:
        return set(self)


class Amounts(TrackedDict):
    """What is available on a node. Where the engine has placed work, each look at it shows what is
    left by then.

    `shape` is what the engine knew of the node when the contents were last made equal to it.
    """

    __slots__ = ("shape",)

    what = Change.AMOUNTS

    def __init__(self, contents: Any, owner: Node, shape: NodeShape | None = None) -> None:
        TrackedDict.__init__(self, contents, owner)
        self.shape = shape

    def catch_up(self) -> None:
        """Take in what the engine has changed since."""
        shape, known = self.owner._shape, self.shape
        if shape is known:
            return
        self.shape = shape
        if shape is None or known is None:
            return
        before = known.free
        for name, amount in shape.free.items():
            if isinstance(amount, (int, float)) and before.get(name) != amount:
                was = dict.get(self, name)
                value = was.with_bytes(amount) if isinstance(was, Size) else amount
                dict.__setitem__(self, name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        self.catch_up()
        dict.__setitem__(self, name, value)
        self.owner._changed(self.what, (name, value))

    def __iter__(self) -> Iterator[str]:
        # with an iterator of its own, `dict(amounts)` asks for each item by `__getitem__`
        return dict.__iter__(self)


def _reading(method: Any) -> Any:
    """A method of a dict for `Amounts`: the same, of what is left by now."""

    def read(self: Amounts, *args: Any) -> Any:
        self.catch_up()
        if args and isinstance(args[0], Amounts):  # what it is held against
            args[0].catch_up()
        return method(self, *args)

    return read


def _writing(method: Any) -> Any:
    """A method of a container: the same, and the owner is told, also where it fails half-way."""

    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, Amounts):
            self.catch_up()
        try:
            return method(self, *args, **kwargs)
        finally:
            self.owner._changed(self.what)

    return write


for _cls, _base, _wrapped, _names in (
    (Amounts, dict, _reading, "__getitem__ get items values __eq__ __ne__ __or__ __ror__ __repr__"),
    (
        TrackedDict,
        dict,
        _writing,
        "__setitem__ __delitem__ __ior__ update setdefault pop popitem clear",
    ),
    (
        TrackedSet,
        set,
        _writing,
        "add remove discard pop clear update difference_update intersection_update "
        "symmetric_difference_update __ior__ __iand__ __isub__ __ixor__",
    ),
):
    for _name in _names.split():
        setattr(_cls, _name, _wrapped(getattr(_base, _name)))


class TrackedShellDict(TrackedDict, ShellDict):
    """A `TrackedDict` whose items are attributes as well, as they were when it was made."""

    def __init__(self, contents: Mapping[str, Any], owner: Node) -> None:
        ShellDict.__init__(self, contents)
        # last: an item may have the name of this attribute
        self.owner = owner


class ShellAmounts(Amounts, ShellDict):
    """`Amounts` whose items are attributes as well, as they were when it was made."""

    def __init__(self, contents: Amounts, owner: Node) -> None:
        ShellDict.__init__(self, dict(contents))
        # last: items may have the names of these attributes
        self.owner = owner
        self.shape = owner._shape


class ReadOnlyShellDict(ShellDict):
    """A picture of now that cannot be written to; its items are attributes as well."""

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("totals cannot be written to; what is left is in `available`")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = _refuse
    pop = popitem = clear = _refuse


# -- node classes

_new, _set = object.__new__, object.__setattr__

Own = tuple[str, Callable[["Node"], Any]]
"""A resource that each node has a value of its own for, and where that comes from."""

# Attributes that are made when somebody first looks at them.
MADE_LATE = (
    "delayed_node_id",
    "_hostname",
    "_resources",
    "_Node__available",
    "_Node__assignments",
    "_Node__node_attribute_overrides",
    "metadata",
)


class Hardware(NamedTuple):
    """What machine a node is, as it was given: nodes of one class share it."""

    vm_size: ht.VMSize
    location: ht.Location
    spot: bool
    vcpu_count: int
    memory: ht.Memory
    infiniband: bool
    gpu_count: int | None


class NodeClass:
    """What nodes that are made alike have in common, taken from a sample.

    `own`: resources that each node has a value of its own for; the sample has a placeholder for
    each. `totals` and `free`: what they have and have available. `identify` gives a node, as its
    `__dict__`, its names, from what its bucket knows of it: a record, or the name of a planned
    node. `finish` gives it what only the node itself can tell.
    """

    __slots__ = ("_cls", "_is_plain", "attributes", "finish", "free", "identify", "own", "totals")

    def __init__(
        self,
        sample: Node,
        own: Iterable[Own] = (),
        identify: Callable[[dict[str, Any], Any], None] | None = None,
        finish: Callable[[Node], None] | None = None,
        **changes: Any,
    ) -> None:
        """`changes`: attributes of the nodes that differ from those of the sample."""
        self._cls = type(sample)
        self.totals = dict(sample._resources)
        self.free = dict(sample.available)
        self.own = tuple(own)
        self.identify = identify
        self.finish = finish
        self._is_plain = can_be_shared(self.totals) and can_be_shared(self.free)
        attributes = sample.__getstate__()
        for name in (*MADE_LATE, "_aux", "_closed", "_used", "_counted"):
            attributes.pop(name, None)
        # with a place for each that a node is given, a copy need not grow
        own_names = {"_class": self, "_node_id": None, "_home": None, "_position": -1}
        self.attributes = {**attributes, **own_names, **changes}

    def filled(self, shared: Mapping[str, Any], node: Node) -> dict[str, Any]:
        """Amounts as one node has them, which may be written to."""
        found = dict(shared) if self._is_plain else copied(shared)
        for name, value in self.own:
            found[name] = value(node)
        return found

    def node(self, source: Any, home: BucketNodes | None = None, position: int = -1) -> Node:
        """A node of this class; `source` is what `identify` takes. `home`: where its state is."""
        made = _new(self._cls)
        # several times as fast as to set one attribute after another
        own = self.attributes.copy()
        own["_home"], own["_position"] = home, position
        if self.identify is None:
            own["_name"] = source
        else:
            self.identify(own, source)
        _set(made, "__dict__", own)
        return made

    def sample(self) -> Node:
        """A node of this class, without what is each one's own."""
        made = _new(self._cls)
        _set(made, "__dict__", self.attributes.copy())
        made.__dict__["_resources"] = TrackedDict(copied(self.totals), made)
        made.__dict__["_Node__available"] = Amounts(copied(self.free), made)
        return made

    def like(self, sample: Node, own: Iterable[Own]) -> NodeClass:
        """The class of nodes that differ from those of this one in what they have."""
        changes = {k: v for k, v in self.attributes.items() if k == "_hostname"}
        return NodeClass(sample, own, self.identify, self.finish, **changes)


def live_resources(node: Node) -> TrackedDict:
    """The totals of a node, which may be written to; its `resources` may not."""
    return node._resources


def server_id_of(node: Node) -> ht.NodeId | None:
    """The id that the server has given a node, if it has. As `node.delayed_node_id.node_id`, which
    need not be made for it."""
    made = node.__dict__.get("delayed_node_id")
    return node._node_id if made is None else made.node_id


def server_ids_of(nodes: Iterable[Node]) -> list[ht.NodeId | None]:
    """`server_id_of` each of thousands of nodes, without a call for each."""
    return [
        node._node_id if (made := node.__dict__.get("delayed_node_id")) is None else made.node_id
        for node in nodes
    ]


def assigned_to(node: Node) -> Collection[str]:
    """Ids of the jobs that are placed on a node now. As `node.assignments`, which need not be made
    for it."""
    made: Collection[str] | None = node.__dict__.get("_Node__assignments")
    if made is None and node._home is not None:
        made = node._home.assigned.get(node._position)
    return made or ()


def class_of_unread(node: Node) -> NodeClass | None:
    """The class of a node whose amounts nobody has looked into; None for any other."""
    own = node.__dict__
    is_read = "_resources" in own or "_Node__available" in own
    return None if is_read else own.get("_class")


def free_of_each(nodes: Iterable[Node], name: str) -> list[Any]:
    """`available.get(name)` of each node. Nodes that the engine knows need not be looked into
    for a plain number."""
    found: list[Any] = []
    known: dict[NodeShape | None, Any] = {}
    for node in nodes:
        home = node._home
        shape = home.shapes[node._position] if home is not None and home.is_bound else None
        if shape in known:
            found.append(known[shape])
        elif shape is None or name not in shape.free or name in shape.template.units:
            found.append(node.available.get(name))
        else:
            found.append(known.setdefault(shape, shape.free[name]))
    return found


# -- what the engine sees

# Statuses of nodes that must get no work: broken, or on their way out.
_TROUBLED = frozenset(
    (
        *("Failed", "Failure", "Error", "Unavailable"),
        *("Terminating", "Terminated", "Stopping", "Stopped", "Deallocating"),
    )
)


@cache
def _unit(factor: int, suffix: str) -> Unit:
    return Unit(factor, suffix)


def split_sizes(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Unit]]:
    """The values with sizes as bytes, and the units those sizes were written in."""
    plain: dict[str, Any] = {}
    units: dict[str, Unit] = {}
    for name, value in values.items():
        if isinstance(value, Size):
            plain[name] = value.bytes
            units[name] = _unit(magnitude_bytes(value.magnitude), value.magnitude)
        else:
            plain[name] = value
    return plain, units


def restore(values: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Engine values as a node holds them: bytes become sizes of the class and magnitude found in
    `like`."""
    restored: dict[str, Any] = {}
    for name, value in values.items():
        was = like.get(name)
        if isinstance(was, Size) and not isinstance(value, Size):
            restored[name] = was if was.bytes == value else was.with_bytes(value)
        else:
            restored[name] = value
    return restored


def trouble_of(node: Node) -> str | None:
    """What keeps a node from being given work, as a word or two; None when nothing does."""
    if node.state in _TROUBLED:
        return str(node.state)
    if node.target_state == "Terminated" or (node.exists and node.target_state == "Off"):
        return f"going to be {node.target_state}"
    return None


class NodeView:
    """One node as an expression sees it, as it is now: made anew for each question."""

    __slots__ = ("_amounts", "_node", "last_capacity_failure")

    def __init__(self, node: Node, last_capacity_failure: float | None = None) -> None:
        self._node = node
        self._amounts: tuple[Mapping[str, Any], Mapping[str, Unit]] | None = None
        self.last_capacity_failure = last_capacity_failure

    def _split(self) -> tuple[Mapping[str, Any], Mapping[str, Unit]]:
        if self._amounts is None:  # many questions are about properties alone
            self._amounts = split_sizes(self._node.available)
        return self._amounts

    @property
    def free(self) -> Mapping[str, Any]:
        """What is available, sizes as bytes."""
        return self._split()[0]

    @property
    def units(self) -> Mapping[str, Unit]:
        """The units those sizes are written in."""
        return self._split()[1]

    @property
    def vacant(self) -> bool:
        """Nothing is assigned."""
        return not assigned_to(self._node)

    @property
    def closed(self) -> bool:
        """Takes no more work."""
        return self._node.closed

    def prop(self, name: str) -> object:
        """The value of any node property."""
        return getattr(self._node, name)


def shape_of(
    node: Node,
    table: ShapeTable,
    properties: Collection[str],
    deferred: Collection[str] = (),
    last_capacity_failure: float | None = None,
    like: NodeShape | None = None,
) -> NodeShape:
    """The shape of a node. `properties`: which of its properties decide (identity ones are left
    out anyway); `deferred`: resources that differ from node to node and are looked up on the
    node when a constraint reads them. `last_capacity_failure`: of its bucket, which concerns
    nodes that must be started again. `like`: the shape of a node that is like this one but for
    amounts."""
    free, units = split_sizes(node.available)
    for name in deferred:
        free.pop(name, None)
        units.pop(name, None)
    is_deallocated = not node.exists and node.state == "Deallocated"
    boots = node.exists and node.target_state == "Started" and node.state not in ht.READY_STATES
    if like is not None and like.units == units:
        template = like.template
    else:
        template = table.template(
            {name: getattr(node, name) for name in properties if name not in IDENTITY},
            units,
            trouble_of(node),
            last_capacity_failure if is_deallocated else None,
            is_up=not (boots or is_deallocated),
        )
    return table.shape(
        template,
        free,
        vacant=not assigned_to(node),
        closed=node.closed,
        dormant=is_deallocated and not node._in_demand,
    )
