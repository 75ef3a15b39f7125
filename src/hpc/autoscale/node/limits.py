"""The limits that a bucket is under, as they are published, and the table of their kinds.

Each `_SharedLimit` is a limit of the engine that all buckets under it share, so that what one
bucket uses is gone for the others. `BucketLimits` gathers those of one bucket (and placement group)
and answers under the published names. Units: nodes and cores (vCPUs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.packing.limits import NO_LIMIT, Limit, charge_all

NO_SUCH_LIMIT = -1
"""What a number of `BucketLimits` is where there is no such limit."""


class LimitKind(NamedTuple):
    """One kind of limit that buckets share.

    name: what its published numbers begin with, as in `regional_available_count`.
    text: the name of one limit in messages. `spot_text`: that of one for spot nodes.
    scope: buckets with equal facts of these names share one limit.
    stated_by: the part of the cluster's status with the figures: `cluster`, `nodearray` or
        `bucket`.
    max_cores, used_cores, max_nodes, used_nodes: the fields of that part. Where several are named,
        the first that the server gives counts. Without a field for the most there is no such
        bound; what is used is counted from the node records where there is no field for it.
    most: what published numbers call the most there can be.
    spot_reads: the kind that takes the place of this one for spot nodes.
    publishes_nodes: whether the bound on nodes is in the published numbers; where it is not, they
        are worked out of cores alone.

    Facts are `nodearray`, `location`, `spot` and `family`, the VM family; `text` may name them.
    """

    name: str
    text: str
    scope: tuple[str, ...]
    stated_by: str
    max_cores: tuple[str, ...] = ()
    used_cores: tuple[str, ...] = ()
    max_nodes: tuple[str, ...] = ()
    used_nodes: tuple[str, ...] = ()
    most: str = "max"
    spot_text: str = ""
    spot_reads: str = ""
    publishes_nodes: bool = True

    @property
    def beginnings(self) -> tuple[str, ...]:
        """What names of its limits begin with."""
        return tuple(text.partition("(")[0] for text in (self.text, self.spot_text) if text)


KINDS = (
    LimitKind(
        "regional",
        text="Region({location})",
        spot_text="Spot({location})",
        scope=("location", "spot"),
        stated_by="bucket",
        max_cores=("regional_quota_core_count",),
        used_cores=("regional_consumed_core_count",),
        most="quota",
    ),
    LimitKind(
        "cluster",
        text="Cluster",
        scope=(),
        stated_by="cluster",
        max_cores=("max_core_count",),
        max_nodes=("max_count",),
        publishes_nodes=False,
    ),
    LimitKind(
        "nodearray",
        text="NodeArray({nodearray})",
        scope=("nodearray",),
        stated_by="nodearray",
        max_cores=("max_core_count",),
        max_nodes=("max_count",),
    ),
    LimitKind(
        "family",
        text="VM Family({family}, {location})",
        spot_text="Spot",
        spot_reads="regional",
        scope=("family", "location"),
        stated_by="bucket",
        # older servers report the family's figures under the plain names
        max_cores=("family_quota_core_count", "quota_core_count"),
        used_cores=("family_consumed_core_count", "consumed_core_count"),
    ),
)
"""Every kind of limit that buckets share, in the order in which they are published.

The figures of the server are read, charged, explained and published by these rows.
"""


class _SharedLimit(Limit):
    """A limit in cores, and optionally in nodes, that several buckets share; or what the server
    allows of one bucket.

    When more is in use than allowed, it counts as all in use, with a warning.
    """

    __slots__ = ()
    is_of_room: bool = False
    """Whether it is only known for how many more nodes there is room, not how many there may be."""

    def __init__(
        self,
        name: str,
        consumed_core_count: int,
        max_core_count: int,
        consumed_count: int | None = None,
        max_count: int | None = None,
    ) -> None:
        super().__init__(
            name,
            max_cores=max(0, max_core_count),
            used_cores=max(0, consumed_core_count),
            max_nodes=NO_LIMIT if max_count is None else max(0, max_count),
            used_nodes=max(0, consumed_count or 0),
        )
        if self.used_cores > self.max_cores:
            logging.warning(
                "%s: %d cores are in use and only %d allowed", name, self.used_cores, self.max_cores
            )
            self.beyond_cores = self.used_cores - self.max_cores
            self.used_cores = self.max_cores
        if self.used_nodes > self.max_nodes:
            logging.warning(
                "%s: %d nodes are in use and only %d allowed", name, self.used_nodes, self.max_nodes
            )
            self.beyond_nodes = self.used_nodes - self.max_nodes
            self.used_nodes = self.max_nodes
        self.opened()

    @property
    def _max_core_count(self) -> int:
        return self.max_cores

    @property
    def _consumed_core_count(self) -> int:
        return self.used_cores

    def _max_count(self, vcpu_count: int) -> int:
        return min(self.max_nodes, self.max_cores // max(1, vcpu_count))

    def _available_count(self, vcpu_count: int) -> int:
        return self.room(vcpu_count)

    def _max_by_cores(self, vcpu_count: int) -> int:
        return self.max_cores // max(1, vcpu_count)

    def _available_by_cores(self, vcpu_count: int) -> int:
        return max(0, self.max_cores - self.used_cores) // max(1, vcpu_count)

    def _active_count(self, vcpu_count: int) -> int:
        return self._max_count(vcpu_count) - self._available_count(vcpu_count)

    def _decrement(self, nodes: int, vcpu_count: int) -> None:
        self.charge(nodes, nodes * vcpu_count)

    def _increment(self, nodes: int, vcpu_count: int) -> None:
        self._decrement(-nodes, vcpu_count)

    def describe(self, owed_nodes: int = 0, owed_cores: int = 0) -> str:
        if not self.is_of_room:
            return super().describe(owed_nodes, owed_cores)
        planned = self.planned_nodes
        room = self.max_nodes - self.used_nodes + planned
        return f"{self.name} can take {room} new nodes, and {planned + owed_nodes} are planned"

    def __str__(self) -> str:
        return self.describe()


class _SpotLimit(_SharedLimit):
    """The stand-in for the family limit of spot nodes: it shows their regional limit.

    Nothing is charged to it.
    """

    __slots__ = ("_regional",)

    is_charged = False

    def __init__(self, regional_limits: _SharedLimit) -> None:
        self._regional: Limit = regional_limits
        super().__init__("Spot", regional_limits.used_cores, regional_limits.max_cores)

    def copied(self, copies: dict[Limit, Limit]) -> Limit:
        """Its one copy among these, which shows the copy of the regional limit."""
        made = super().copied(copies)
        if isinstance(made, _SpotLimit):
            made._regional = self._regional.copied(copies)
        return made

    def room(self, cores: int, owed_nodes: int = 0, owed_cores: int = 0) -> int:
        return self._regional.room(cores, owed_nodes, owed_cores)

    def bears(self, nodes: int, cores: int) -> bool:
        return self._regional.bears(nodes, cores)

    def charge(self, nodes: int, cores: int) -> None:
        """Do nothing: the regional limit itself is charged."""

    def describe(self, owed_nodes: int = 0, owed_cores: int = 0) -> str:
        return self._regional.describe(owed_nodes, owed_cores)

    @property
    def _consumed_core_count(self) -> int:
        return self._regional.used_cores


class BucketLimits:
    """All limits of one bucket. The command line shows every public name with `count` in it."""

    def __init__(
        self,
        vcpu_count: int,
        regional_limits: _SharedLimit,
        cluster_limits: _SharedLimit,
        nodearray_limits: _SharedLimit,
        family_limits: _SharedLimit,
        placement_group_limits: _SharedLimit | None,
        active_core_count: int,
        active_count: int,
        available_core_count: int,
        available_count: int,
        max_core_count: int,
        max_count: int,
        *,
        name: str = "Bucket",
        others: Mapping[str, _SharedLimit] = MappingProxyType({}),
    ) -> None:
        """`others` has the shared limits of kinds without an argument of their own, by kind."""
        self._vcpu_count = vcpu_count
        given = {
            "regional": regional_limits,
            "cluster": cluster_limits,
            "nodearray": nodearray_limits,
            "family": family_limits,
            **others,
        }
        self._shared = {kind.name: given[kind.name] for kind in KINDS if kind.name in given}
        for kind in KINDS:
            if kind.name in given:
                _check_name(given[kind.name], *kind.beginnings)
        if placement_group_limits is not None:
            _check_name(placement_group_limits, "PlacementGroup")
        self._group = placement_group_limits
        self._held: tuple[Limit, ...] = ()
        available = min(available_count, available_core_count // max(1, vcpu_count))
        self._set_own(name, available, (active_count, active_core_count))
        self._max_count, self._max_core_count = max_count, max_core_count

    def _set_own(self, name: str, available: int, active: tuple[int, int] = (0, 0)) -> None:
        """What the server says of the bucket alone: for how many more nodes it has room, and the
        nodes and cores in use. Of the class of all other limits: most are charged together, and the
        interpreter is slower where classes differ."""
        self._stated = nodes, _ = active
        self._own = _SharedLimit(name, 0, NO_LIMIT, nodes, nodes + max(0, available))
        self._own.is_of_room = True

    @classmethod
    def under(
        cls, shared: Mapping[str, _SharedLimit], vcpu_count: int, **rest: Any
    ) -> BucketLimits:
        """Limits outside of placement groups; `shared` by kind, `rest` as `__init__` has it."""
        others, kinds = dict(shared), ("regional", "cluster", "nodearray", "family")
        own: dict[str, Any] = {f"{kind}_limits": others.pop(kind) for kind in kinds}
        return cls(vcpu_count, **own, placement_group_limits=None, others=others, **rest)

    def in_placement_group(self, placement_group_limits: _SharedLimit) -> BucketLimits:
        """The limits of the same bucket within a placement group.

        All other limits are shared with this object.
        """
        _check_name(placement_group_limits, "PlacementGroup")
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._group = placement_group_limits
        return made

    def closed(self, name: str) -> BucketLimits:
        """The limits of a bucket that takes no new nodes; `name` begins the sentence that says so.

        All shared limits are shared with this object.
        """
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._set_own(name, 0)
        made._max_count = made._max_core_count = 0
        return made

    def hold(self, *limits: Limit) -> None:
        """Charge new nodes to more limits, which others may share. A limit is charged once, though
        several buckets have these limits and each of them says so."""
        self._held = (*self._held, *(limit for limit in limits if limit not in self._held))

    @property
    def parts(self) -> tuple[Limit, ...]:
        """Every limit that a new node is charged to: those that hold it back, and the others in the
        published order."""
        shared = (*self._held, self._own, *self._shared.values())
        return (*shared, self._group) if self._group is not None else shared

    @property
    def own(self) -> Limit:
        """The limit of the bucket alone."""
        return self._own

    def most_of(self, limit: Limit) -> int:
        """How many nodes of the bucket one of its limits allows, whatever else runs."""
        if limit is self._own:
            return self.max_count
        return min(limit.max_nodes, limit.max_cores // max(1, self._vcpu_count))

    @property
    def most_nodes(self) -> int:
        """How many nodes of the bucket there may be, whatever else runs, and once nothing is held
        back."""
        return min(self.most_of(limit) for limit in self._charged if limit not in self._held)

    def decrement(self, nodes: int = 1) -> None:
        """Use up `nodes` of every limit, or of none.

        RuntimeError (OutOfCapacity) when a limit does not have as many left.
        """
        if nodes > 0:
            charge_all(tuple(self._charged), nodes, nodes * self._vcpu_count)
        else:
            for limit in self.parts:
                limit.charge(nodes, nodes * self._vcpu_count)

    def increment(self, nodes: int = 1) -> None:
        """Give back `nodes` to every limit."""
        self.decrement(-nodes)

    def bear(self, nodes: int = 1) -> None:
        """Count `nodes` that exist, even above the limits."""
        for limit in self._charged:
            limit.bear(nodes, nodes * self._vcpu_count)

    def release(self, nodes: int = 1) -> None:
        """Note that `nodes` that were counted are gone.

        No more is given back than they had taken: where a limit was exceeded, or did not count all
        of them, the excess goes first.
        """
        for limit in self._charged:
            limit.release(nodes, nodes * self._vcpu_count)

    @property
    def _charged(self) -> Iterator[Limit]:
        return (limit for limit in self.parts if limit.is_charged)

    # -- the bucket itself

    @property
    def active_count(self) -> int:
        """The nodes in use, with the planned ones."""
        return self._own.used_nodes

    @property
    def active_core_count(self) -> int:
        """The cores in use, with those of planned nodes."""
        (nodes, said), cores = self._stated, self._vcpu_count
        since = self.active_count - nodes
        # a server may say less of cores than of nodes; none are below nothing
        return max(said + since * cores, min(said, self.active_count * cores))

    @property
    def available_count(self) -> int:
        """The nodes that this bucket itself and its placement group have room for.

        Shared limits may allow fewer.
        """
        room = self._own.room(self._vcpu_count)
        return room if self._group is None else min(room, self._group.room(self._vcpu_count))

    @property
    def available_core_count(self) -> int:
        """The cores of the nodes that this bucket itself and its placement group have room for."""
        return self.available_count * self._vcpu_count

    @property
    def max_count(self) -> int:
        """Most nodes the bucket, or its placement group, can have."""
        own = self._max_count
        return own if self._group is None else min(own, self._group._max_count(self._vcpu_count))

    @property
    def max_core_count(self) -> int:
        """Most cores the bucket, or its placement group, can have."""
        own = self._max_core_count
        return own if self._group is None else min(own, self._group.max_cores)

    # -- shared limits: these, and those of any other kind, are made from the table of kinds;
    # NO_SUCH_LIMIT where there is none

    if TYPE_CHECKING:
        regional_consumed_core_count: int
        regional_quota_core_count: int
        regional_quota_count: int
        regional_available_count: int
        cluster_consumed_core_count: int
        cluster_max_core_count: int
        cluster_max_count: int
        cluster_available_count: int
        nodearray_consumed_core_count: int
        nodearray_max_count: int
        nodearray_available_count: int
        family_consumed_core_count: int
        family_max_core_count: int
        family_max_count: int
        family_available_count: int

    @property
    def nodearray_max_core_count(self) -> int:
        """Most cores the nodearray can have with nodes of this size."""
        return self.nodearray_max_count * self._vcpu_count

    @property
    def placement_group_max_count(self) -> int:
        """Most nodes the placement group can have; -1 outside one."""
        return NO_SUCH_LIMIT if self._group is None else self._group._max_count(self._vcpu_count)

    @property
    def placement_group_available_count(self) -> int:
        """Nodes the placement group has room for; -1 outside one."""
        return (
            NO_SUCH_LIMIT if self._group is None else self._group._available_count(self._vcpu_count)
        )

    def __str__(self) -> str:
        said = dict.fromkeys(limit.describe() for limit in self.parts)
        return f"BucketLimits({'; '.join(said)})"

    __repr__ = __str__


def _publish(kind: LimitKind) -> None:
    """Give limits the numbers of a kind."""
    most, available = _SharedLimit._max_count, _SharedLimit._available_count
    if not kind.publishes_nodes:
        most, available = _SharedLimit._max_by_cores, _SharedLimit._available_by_cores
    numbers: dict[str, Callable[[_SharedLimit, int], int]] = {
        f"{kind.most}_count": most,
        "available_count": available,
    }
    if kind.max_cores:
        numbers[f"{kind.most}_core_count"] = lambda limit, _: limit._max_core_count
        numbers["consumed_core_count"] = lambda limit, _: limit._consumed_core_count
    else:
        numbers["consumed_count"] = lambda limit, _: limit.used_nodes
    for suffix, number in numbers.items():
        name = f"{kind.name}_{suffix}"
        if name not in vars(BucketLimits):
            setattr(BucketLimits, name, _number(kind, number))


def _number(kind: LimitKind, number: Callable[[_SharedLimit, int], int]) -> Any:
    def read(self: BucketLimits) -> int:
        limit = self._shared.get(kind.name)
        return NO_SUCH_LIMIT if limit is None else number(limit, self._vcpu_count)

    read.__doc__ = f"Of the limit {kind.text}, in nodes of this size or cores."
    return property(read)


for _kind in KINDS:
    _publish(_kind)


def cover(counted: Iterable[tuple[BucketLimits, int]]) -> None:
    """Note which nodes exist under each limit; several `BucketLimits` may share a limit.

    Nodes that a limit does not count must not be given back when they go.
    """
    there: dict[Limit, tuple[int, int]] = {}
    for limits, nodes in counted:
        for limit in limits._charged:
            known_nodes, known_cores = there.get(limit, (0, 0))
            there[limit] = known_nodes + nodes, known_cores + nodes * limits._vcpu_count
    for limit, (nodes, cores) in there.items():
        limit.cover(nodes, cores)


UNLIMITED = 2**31 - 1

Figure = Callable[[str, Any, int], int]
"""Reads a figure of a status: the name of its field, its value, and what counts where the server
says nothing."""


def number(value: Any, default: int) -> int:
    """A figure of the server as a whole number; the default where it says nothing.

    ValueError, TypeError or OverflowError for what is none.
    """
    return default if value is None else int(value)


class StatedLimits:
    """The shared limits that the parts of a cluster's status state, by the rows of `KINDS`.

    Buckets for which the facts of a kind's scope are equal share one limit. The first part of the
    status that says something defines it: older servers leave figures out, and what nobody says is
    no limit here.
    """

    def __init__(self, of_cluster: str = "") -> None:
        """`of_cluster`: what their names end with."""
        self._known: dict[tuple[object, ...], _SharedLimit] = {}
        self._of_cluster = of_cluster

    def of(
        self,
        part: str,
        status: object,
        facts: Mapping[str, Any],
        used: tuple[int, int],
        read: Figure,
    ) -> dict[str, _SharedLimit]:
        """The limits that a part of the status states, by the name of their kind.

        `facts`: what the scopes and names of kinds are made of. `used`: cores and nodes in use, for
        kinds that the server does not count.
        """
        found: dict[str, _SharedLimit] = {}
        for kind in KINDS:
            if kind.stated_by == part and facts.get("spot") and kind.spot_reads:
                found[kind.name] = _SpotLimit(found[kind.spot_reads])
            elif kind.stated_by == part:
                found[kind.name] = self._one(kind, status, facts, used, read)
        return found

    def of_cluster(
        self, status: object, used: tuple[int, int], running: int, read: Figure
    ) -> dict[str, _SharedLimit]:
        """The limits that the status of a whole cluster states. `running`: those of the nodes in
        use that are not on their way out."""
        cores, there = used
        most, nodes = nodes_of_cluster(status, there, running)

        def figure(field: str, value: Any, default: int) -> int:
            found = read(field, value, default)  # says so where it is none
            return most if field == "max_count" else found

        return self.of("cluster", status, {}, (cores, nodes), figure)

    def _one(
        self,
        kind: LimitKind,
        status: object,
        facts: Mapping[str, Any],
        used: tuple[int, int],
        read: Figure,
    ) -> _SharedLimit:
        def said(field: str, default: int, without: int) -> int:
            return read(field, getattr(status, field, None), default) if field else without

        key = (kind.name, *(facts[name] for name in kind.scope))
        most_cores, used_cores = _fields(status, kind.max_cores, kind.used_cores)
        most_nodes, used_nodes = _fields(status, kind.max_nodes, kind.used_nodes)
        found = self._known.get(key)
        if found is not None:
            is_stated = found.max_cores < NO_LIMIT or found.max_nodes < NO_LIMIT
            says = (getattr(status, field, None) for field in (most_cores, most_nodes) if field)
            if is_stated or all(figure is None for figure in says):
                return found
        text = kind.spot_text if facts.get("spot") and kind.spot_text else kind.text
        made = _SharedLimit(
            text.format(**facts) + self._of_cluster,
            said(used_cores, 0, used[0]),
            said(most_cores, UNLIMITED, NO_LIMIT),
            said(used_nodes, 0, used[1]) if kind.max_nodes else 0,
            said(most_nodes, UNLIMITED, NO_LIMIT),
        )
        if found is None:
            self._known[key] = made
            return made
        for figures in ("max", "used", "beyond"):
            for unit in ("cores", "nodes"):
                setattr(found, f"{figures}_{unit}", getattr(made, f"{figures}_{unit}"))
        found.opened()
        return found


def nodes_of_cluster(status: object, there: int, running: int) -> tuple[int, int]:
    """How many nodes a cluster may have, and how many of them it has, as its server counts.

    `there`: the nodes that take a place; `running`: those of them that are not on their way out.
    NO_LIMIT where nobody holds to the figure of the cluster: a bucket of it may have more. Where
    the server has room for more nodes than that leaves, it does not count all that run, such as the
    one of the scheduler. Figures that are none say nothing.
    """
    most = _said(status, "max_count", NO_LIMIT)
    arrays = getattr(status, "nodearrays", None) or ()
    buckets = [bucket for array in arrays for bucket in getattr(array, "buckets", None) or ()]
    is_bounded = getattr(status, "is_bounded", True)
    if not is_bounded or any(_said(bucket, "max_count", 0) > most for bucket in buckets):
        return NO_LIMIT, there
    room = max((_said(bucket, "available_count", 0) for bucket in buckets), default=0)
    return most, there - max(0, room - max(0, most - running))


def _said(part: object, field: str, default: int) -> int:
    try:
        return number(getattr(part, field, None), default)
    except (ValueError, TypeError, OverflowError):
        return default


def _fields(status: object, most: tuple[str, ...], used: tuple[str, ...]) -> tuple[str, str]:
    """The first field for the most there can be that has a figure, and the field for what is used
    that goes with it; empty where there is no such field."""
    found = ("", "")
    for found in zip_longest(most, used, fillvalue=""):
        if getattr(status, found[0], None) is not None:
            break
    return found


def _check_name(limit: _SharedLimit, *start: str) -> None:
    if not limit.name.startswith(start):
        raise AssertionError(f"expected a limit named {' or '.join(start)}…, found {limit.name!r}")


def null_bucket_limits(num_nodes: int, vcpu_count: int) -> BucketLimits:
    """Limits that are used up by `num_nodes` nodes: none can be added."""
    cores = num_nodes * vcpu_count
    used = (cores, cores, num_nodes, num_nodes)
    shared = {k.name: _SharedLimit(f"{k.beginnings[0]}(null)", *used) for k in KINDS}
    return BucketLimits.under(
        shared,
        vcpu_count,
        active_core_count=cores,
        active_count=num_nodes,
        available_core_count=0,
        available_count=0,
        max_core_count=cores,
        max_count=num_nodes,
    )
