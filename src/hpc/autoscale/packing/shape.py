"""What decides whether something fits on a node, and nothing else.

A `Template` is what nodes of one origin have in common and cannot change by placing work on them. A
`NodeShape` is a template with the amounts still free and how the node is occupied. Shapes are
interned in a `ShapeTable`: equal is identical, so a question that was answered for one node is
answered for all that are like it. Names, addresses and ids are not here: they decide nothing,
except for constraints that say so (`IDENTITY`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hpc.autoscale.packing.amounts import Quantity as Quantity
from hpc.autoscale.packing.amounts import left
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.shown import Unit as Unit

if TYPE_CHECKING:
    from hpc.autoscale.packing.expr import Expr, Fit

CLOSED = Reject("NodeClosed")

# Properties that differ from node to node. A constraint on one of them is answered node by node.
IDENTITY: frozenset[str] = frozenset(
    (
        *("name", "hostname", "fqdn", "hostname_or_uuid", "private_ip", "instance_id"),
        *("create_time", "create_time_unix", "create_time_remaining"),
        *("last_match_time", "last_match_time_unix", "delete_time", "delete_time_unix"),
    )
)


# Properties that all nodes of a bucket share and keep.
OF_BUCKET = ("nodearray", "bucket_id", "vm_size", "vm_family", "location", "spot")


class Template:
    """What all nodes of one origin share: property values by name, and the units of sized
    resources.

    Compared by identity; `ShapeTable.template` hands out one object for equal contents. `usable` is
    false for a node that must get no work (failed, terminating), with `trouble` saying what it is.
    `last_capacity_failure`: of the bucket, for nodes that need capacity of Azure before they can be
    used. `is_up`: false where no work can start yet, as they boot or are at rest. `frozen`: the
    properties, as `freeze` has them.
    """

    __slots__ = ("frozen", "is_up", "last_capacity_failure", "properties", "trouble", "units")

    def __init__(
        self,
        properties: Mapping[str, object],
        units: Mapping[str, Unit],
        trouble: str | None,
        last_capacity_failure: float | None,
        is_up: bool,
        frozen: Any,
    ) -> None:
        self.properties, self.units, self.frozen = properties, units, frozen
        self.trouble, self.last_capacity_failure = trouble, last_capacity_failure
        self.is_up = is_up


class NodeShape:
    """A template with what is still free on the node and how it is occupied. Immutable; made by
    `ShapeTable` alone.

    `free`: amounts and other values by resource name, sized resources in bytes. `vacant`: nothing
    is assigned. `closed`: takes no more work. `dormant`: using it needs a place under the limits,
    because no VM runs yet. `unclaimed`: not up, and no work was counted on it so far. `values`: of
    `free`, in the order of the names of the `frame`, where it has one.
    """

    __slots__ = (
        *("closed", "dormant", "frame", "free", "table", "template", "unclaimed", "vacant"),
        "values",
    )

    def __init__(
        self,
        table: ShapeTable,
        template: Template,
        free: Mapping[str, object],
        occupied: _Occupied,
        frame: Frame | None = None,
        values: tuple[object, ...] = (),
    ) -> None:
        self.table = table
        self.template = template
        self.free = free
        self.vacant, self.closed, self.dormant = occupied
        self.unclaimed = self.dormant if template.is_up else self.dormant or self.vacant
        self.frame = frame
        self.values = values

    @property
    def units(self) -> Mapping[str, Unit]:
        """Units of sized resources by name."""
        return self.template.units

    @property
    def last_capacity_failure(self) -> float | None:
        """Seconds since the bucket last ran out of capacity, where the node must still be given
        some; None otherwise."""
        return self.template.last_capacity_failure

    def prop(self, name: str) -> object:
        """The value of a property that the template knows; KeyError for an identity property."""
        return self.template.properties[name]

    def fit(self, expr: Expr) -> Fit | Reject:
        """Whether and how often `expr` fits here."""
        unfit = self.unfit() if self.closed or self.template.trouble else None
        return expr.fit(self) if unfit is None else unfit

    def unfit(self) -> Reject | None:
        """Why the node takes no work at all, whatever is asked; None when it does."""
        if self.template.trouble:
            return Reject("NodeUnusable", self.template.trouble)
        return CLOSED if self.closed else None

    def after(self, fit: Fit, times: int) -> NodeShape:
        """The shape once `fit` was taken `times` times."""
        closed = self.closed or fit.closes
        free = self.free
        if fit.take:
            free = {**free, **{name: left(free[name], n, times) for name, n in fit.take}}
        return self.table.shape(self.template, free, False, closed, False)


class ShapeTable:
    """Hands out one `Template` and one `NodeShape` object for equal contents."""

    def __init__(self) -> None:
        self._templates: dict[object, Template] = {}
        self._frames: dict[object, Frame] = {}
        # those with values that are not plain
        self._shapes: dict[object, NodeShape] = {}

    def __len__(self) -> int:
        return len(self._shapes) + sum(len(frame.shapes) for frame in self._frames.values())

    def template(
        self,
        properties: Mapping[str, object],
        units: Mapping[str, Unit],
        trouble: str | None = None,
        last_capacity_failure: float | None = None,
        is_up: bool = True,
        frozen: object = None,
    ) -> Template:
        """The template with these contents; `frozen`: as in it, where that is known."""
        frozen = freeze(properties) if frozen is None else frozen
        key = (frozen, frozenset(units.items()), trouble, last_capacity_failure, is_up)
        found = self._templates.get(key)
        if found is None:
            found = self._templates[key] = Template(dict(properties), dict(units), *key[2:], frozen)
        return found

    def shape(
        self,
        template: Template,
        free: Mapping[str, object],
        vacant: bool = True,
        closed: bool = False,
        dormant: bool = False,
    ) -> NodeShape:
        """The shape with these contents."""
        occupied = (vacant, closed, dormant)
        plain = _plainly(free)
        if plain is not None:
            names, values, kinds = plain
            return self._frame(template, occupied, names, kinds).shape(values, free)
        key = (template, occupied, freeze(free))
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = NodeShape(self, template, dict(free), occupied)
        return found

    def with_property(self, shape: NodeShape, name: str, value: object) -> NodeShape:
        """The shape of a node that is like those of another shape but for one property."""
        was, frame = shape.template, shape.frame
        given, own = {**was.properties, name: value}, freeze({name: was.properties[name]})
        frozen = was.frozen - own | freeze({name: value})
        facts = was.trouble, was.last_capacity_failure, was.is_up
        template = self.template(given, was.units, *facts, frozen)
        if frame is None:
            return self.shape(template, shape.free, shape.vacant, shape.closed, shape.dormant)
        moved = self._frame(template, frame.occupied, frame.names, frame.kinds)
        return moved.shape(shape.values, shape.free)

    def revised(self, shape: NodeShape, failed: float | None, is_up: bool) -> NodeShape:
        """The shape of the same node, up or not, in want of capacity that `failed` so long ago."""
        was = shape.template
        template = self.template(was.properties, was.units, was.trouble, failed, is_up)
        return self.shape(template, shape.free, shape.vacant, shape.closed, shape.dormant)

    def _frame(
        self,
        template: Template,
        occupied: _Occupied,
        names: tuple[str, ...],
        kinds: tuple[type, ...],
    ) -> Frame:
        key = (template, occupied, names, kinds)
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = Frame(self, template, occupied, names, kinds)
        return found


_Occupied = tuple[bool, bool, bool]
"""Vacant, closed, dormant."""


class Frame:
    """Shapes that differ in amounts alone; `names` and `kinds` of the values, in the order of the
    names. There may be thousands of shapes, and this is what makes one from another in few
    steps."""

    def __init__(
        self,
        table: ShapeTable,
        template: Template,
        occupied: _Occupied,
        names: tuple[str, ...],
        kinds: tuple[type, ...],
    ) -> None:
        self._table = table
        self.template = template
        self.occupied = occupied
        self.names = names
        self.kinds = kinds
        self._where = {name: index for index, name in enumerate(names)}
        self.shapes: dict[tuple[object, ...], NodeShape] = {}
        self._refuses = occupied[1] or bool(template.trouble)
        # the frame of nodes that have work and take more
        self._used: Frame | None = None

    def shape(self, values: tuple[object, ...], free: Mapping[str, object]) -> NodeShape:
        """The shape with these values; `free` has them by name."""
        found = self.shapes.get(values)
        if found is None:
            args = (self._table, self.template, dict(free), self.occupied, self, values)
            found = self.shapes[values] = NodeShape(*args)
        return found

    def places(
        self, amounts: Sequence[tuple[str, int, bool]]
    ) -> Sequence[tuple[int, int]] | Literal[False] | None:
        """Where in the values of these shapes amounts (resource, amount, whether it is in bytes)
        are taken from, each with the amount; None where these shapes have none of it. False: that
        is not a matter of whole numbers; see `NodeShape.fit` and `after`."""
        if self._refuses:
            return None
        found = []
        for name, amount, sized in amounts:
            place = self._where.get(name)
            if place is None:
                return None
            if self.kinds[place] is not int or not (sized or name not in self.template.units):
                return False
            found.append((place, amount))
        return found

    def less(self, shape: NodeShape, places: Sequence[tuple[int, int]]) -> NodeShape:
        """One of these shapes once amounts that it has were taken from it."""
        values: list[Any] = list(shape.values)
        for place, amount in places:
            values[place] -= amount
        if self._used is None:
            given = (self.template, (False, False, False), self.names, self.kinds)
            self._used = self._table._frame(*given)
        target = self._used
        key = tuple(values)
        found = target.shapes.get(key)
        if found is None:
            found = target.shape(key, dict(zip(self.names, values, strict=True)))
        return found


PLAIN = frozenset((str, int, float, bool, type(None)))
"""Classes of values that are equal only where they look the same, once their classes are."""


def _plainly(
    values: Mapping[str, object],
) -> tuple[tuple[str, ...], tuple[object, ...], tuple[type, ...]] | None:
    """Names in order, values and kinds of values by name; None where a value is not plain."""
    try:
        names = sorted(values)
    except TypeError:  # a name that is no text, written by hand
        return None
    found = tuple([values[name] for name in names])
    kinds = tuple(map(type, found))
    return (tuple(names), found, kinds) if PLAIN.issuperset(kinds) else None


def freeze(value: object) -> object:
    """A hashable stand-in: equal for equal values of equal types, so that 1, 1.0 and True stay
    apart.

    Mappings are compared without regard to order. A value that cannot be hashed stands for itself
    alone.
    """
    if value.__class__ in PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return tuple([(v.__class__, freeze(v)) for v in value])
    if isinstance(value, Mapping):
        return frozenset(
            [(k, v.__class__, v if v.__class__ in PLAIN else freeze(v)) for k, v in value.items()]
        )
    if isinstance(value, (set, frozenset)):
        return frozenset((v.__class__, freeze(v)) for v in value)
    try:
        hash(value)
    except TypeError:
        return (value.__class__, id(value))
    return value
