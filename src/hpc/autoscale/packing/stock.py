"""What one bucket (and placement group) has to offer: its nodes as runs, the shape of a new one, and the limits that a
new one is charged to."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpc.autoscale.packing.expr import VACANT, Expr
from hpc.autoscale.packing.ledger import Account, Tab
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.room import Need, RoomTree
from hpc.autoscale.packing.runs import RunList
from hpc.autoscale.packing.shape import NodeShape, Unit

Journal = list["Stock"]
"""Stocks to which something happened that may let them take what they refused before."""


class Stock:
    """State of one bucket; changed by `Packer` alone, and by `reshape` when a node was written to from outside.

    `bucket_shape` is what ranking looks at, `new_shape` what a new node would be. `cores`: vCPUs of one node.
    `artificial`: stands for machines that cannot be ordered; ranked first. `reserved`: nodes promised elsewhere.
    """

    __slots__ = (
        "_marks",
        "_no_capacity",
        "_nodes_full",
        "_readings",
        "_room",
        "_tight",
        "accounts",
        "artificial",
        "bucket_shape",
        "cores",
        "journal",
        "name",
        "new_shape",
        "reserved",
        "runs",
    )

    def __init__(
        self,
        name: str,
        bucket_shape: NodeShape,
        new_shape: NodeShape,
        cores: int,
        accounts: Sequence[Account],
        artificial: bool = False,
    ) -> None:
        self.name = name
        self.bucket_shape = bucket_shape
        self.new_shape = new_shape
        self.cores = cores
        self.accounts = tuple(accounts)
        self.artificial = artificial
        self.reserved = 0
        self.runs = RunList()
        self._room = RoomTree()
        self._readings: dict[str, _Reading] = {}
        self._marks: dict[Expr, int] = {}
        self._tight: Account | None = None
        self._no_capacity: tuple[object, Reject] | None = None
        self._nodes_full: Reject | None = None
        self.journal: Journal = []

    @property
    def is_still_full(self) -> bool:
        """Whether the limit that was short when it was last asked has no room now; False says nothing."""
        tight = self._tight
        return tight is not None and tight.room(self.cores) <= self.reserved

    def has_room_for(self, nodes: int) -> bool:
        """Whether the limits allow so many more nodes. Cost: one limit, where it is the one that was short before."""
        nodes += self.reserved
        tight, cores = self._tight, self.cores
        if tight is not None and tight.room(cores) < nodes:
            return False
        for account in self.accounts:
            if account.room(cores) < nodes:
                self._tight = account
                return False
        return True

    def nodes_full(self) -> Reject:
        """That no node has room."""
        found = self._nodes_full
        if found is None or found.facts[0] != self.runs.size:
            found = self._nodes_full = Reject("NodesFull", self.runs.size)
        return found

    def no_capacity(self, tab: Tab) -> Reject:
        """Why there is no room for a new node beside what is on the tab."""
        if tab:
            return Reject("NoCapacity", tab.tightest(self.accounts, self.cores))
        state = [(account.used_nodes, account.used_cores) for account in self.accounts]
        self.has_room_for(1)
        if self._no_capacity is None or self._no_capacity[0] != state:
            reject = Reject("NoCapacity", tab.tightest(self.accounts, self.cores))
            self._no_capacity = (state, reject)
        return self._no_capacity[1]

    def first_to_ask(self, expr: Expr) -> int:
        """The first position that may fit; all before it have refused, and refuse still."""
        return self._marks.get(expr, 0)

    def refused_below(self, expr: Expr, position: int) -> None:
        """Remember that every node before `position` refuses a monotone expression."""
        self._marks[expr] = position

    def next_meeting(self, needs: Sequence[Need], start: int) -> int:
        """The first position from `start` on that may have what an expression needs, as `needs` has it; -1 when none
        has."""
        if start >= self.runs.size:
            return -1
        if not needs:
            return start
        found = self._room.first(start, needs)
        return found if found < self.runs.size else -1

    def needs(self, expr: Expr) -> list[Need]:
        """What an expression takes at least, for `next_meeting`; stays right whatever happens to the stock."""
        needs = []
        for name, amount, sized in expr.minima:
            reading = self._readings.get(name)
            if reading is None:
                reading = self._readings[name] = _Reading(name, self.new_shape.units.get(name))
                shapes = [s for lo, hi, s in self.runs.walk() for _ in range(lo, hi)]
                self._room.track(name, reading, shapes)
            unit = reading.unit
            needed = amount if sized or unit is None else amount * unit.factor
            # less than the rounding that `how_many` forgives: the tree may offer too much, never too little
            needs.append((self._room.maxima(name), needed - abs(needed) * 2e-9))
        return needs

    def append(self, shape: NodeShape | None, count: int = 1) -> None:
        """Nodes more, at the end."""
        self.runs.append(shape, count)
        self._room.set(self.runs.size - count, self.runs.size, shape)
        self.journal.append(self)

    def fill(self, lo: int, hi: int, shape: NodeShape) -> None:
        """Work was placed on nodes: they look like this now, and have less room than before."""
        self.runs.assign(lo, hi, shape)
        self._room.set(lo, hi, shape)

    def reshape(self, lo: int, hi: int, shape: NodeShape | None) -> None:
        """Give nodes another shape for a reason other than placing work: refusals of before no longer count."""
        self.runs.assign(lo, hi, shape)
        self._room.set(lo, hi, shape)
        self._marks.clear()
        self.journal.append(self)

    def __repr__(self) -> str:
        return f"Stock({self.name}, {self.runs.size} nodes in {len(self.runs)} runs)"


class _Reading:
    """How much a node has of one resource, in the unit that new nodes had it in when it was first asked for."""

    __slots__ = ("_known", "_name", "unit")

    def __init__(self, name: str, unit: Unit | None) -> None:
        self._name = name
        self.unit = unit
        self._known: dict[NodeShape, float] = {}

    def __call__(self, shape: NodeShape | None) -> float:
        if shape is None:
            return -math.inf
        found = self._known.get(shape)
        if found is None:
            found = self._known[shape] = self._read(shape)
        return found

    def _read(self, shape: NodeShape) -> float:
        if shape.unfit() is not None:
            return -math.inf
        if self._name == VACANT:
            return float(shape.vacant)
        available = shape.free.get(self._name)
        if not isinstance(available, (int, float)) or available != available:
            return -math.inf  # a maximum over what is not a number could hide other nodes
        return available if shape.units.get(self._name) == self.unit else math.inf
