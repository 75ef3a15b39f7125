"""Placement groups of VM sizes, and gangs, for the tests of where gangs go."""

from collections.abc import Iterable
from typing import Any

from builders.engine import Bench, cores
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import Exclusive, Expr, InPlacementGroup
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.shape import NodeShape

NODES = AllOf([Exclusive(), InPlacementGroup(), cores(1)])


def nodes(count: int) -> Request:
    """So many nodes, all in one group."""
    return Request(count, 1, True)


def slots(count: int) -> Request:
    """So many slots, all in one group."""
    return Request(count, whole=True)


class Site(Bench):
    """A bench of candidates that are placement groups of VM sizes."""

    def __init__(self, existing_first: bool = True, **limits: int) -> None:
        super().__init__(existing_first)
        self.limits = {size: Limit(f"Size({size})", max_nodes=n) for size, n in limits.items()}

    def group(
        self,
        group: str,
        room: int = 10,
        size: str = "F4",
        busy: int = 0,
        idle: Iterable[int] = (),
        ncpus: int = 4,
        artificial: bool = False,
    ) -> Candidate:
        """A group with room for so many new nodes; `busy` nodes are full, `idle` ones have these
        cores free."""
        props = {"nodearray": "hpc", "vm_size": size, "placement_group": group}
        template = self.table.template(props, {})

        def shape(free: int, **state: Any) -> NodeShape:
            return self.table.shape(template, {"ncpus": free}, **state)

        own = Limit(f"Group({group})", max_nodes=room)
        shared = self.limits.setdefault(size, Limit(f"Size({size})"))
        new = shape(ncpus)
        candidate = Candidate(f"{size}/{group}", new, new, 4, [shared, own], artificial)
        for _ in range(busy):
            candidate.append(shape(0, vacant=False, closed=True))
        for free in idle:
            candidate.append(shape(free, vacant=free == ncpus))
        self.planner.add(candidate)
        return candidate

    def where(self, wanted: Request, expr: Expr = NODES) -> tuple[str, int] | None:
        """The candidate that gets a gang, and how many nodes are opened; None when it fits
        nowhere."""
        plan = self.place(expr, wanted)
        if not plan:
            return None
        assert plan.units == wanted.units
        (name,) = {placed.candidate.name for placed in plan.steps}
        return name, sum(p.hi - p.lo for p in plan.steps if p.opened)
