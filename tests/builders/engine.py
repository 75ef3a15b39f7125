"""Shapes, candidates and packers for the tests of the engine, without nodes, buckets or
constraints."""

from collections.abc import Callable, Iterable
from typing import Any

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr, Fit, MinResource, PropertyIs, View
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.plan import Plan, Request
from hpc.autoscale.packing.planner import Planner
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import NodeShape, ShapeTable, Template, Unit

Placed = tuple[str, int, int, int, bool]
"""A step of a plan: candidate, first position, end, units on each node, whether they are new."""


def cores(amount: int) -> MinResource:
    """An expression that takes cores."""
    return MinResource("ncpus", amount)


def named(name: str) -> PropertyIs:
    """An expression that wants the bucket of a name."""
    return PropertyIs("bucket", [name])


class Anything(Expr):
    """An expression for tests: its `fit` is a function of the view."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[View], Fit | Reject], monotone: bool = True) -> None:
        super().__init__((id(function),), monotone)
        self.function = function

    def fit(self, view: View) -> Fit | Reject:
        return self.function(view)


class Bench:
    """A planner with its table of shapes; candidates are added to it by `candidate`."""

    def __init__(self, existing_first: bool = True) -> None:
        self.planner = Planner(existing_first)
        self.table = self.planner.table

    def shape(
        self,
        bucket: str = "a",
        units: dict[str, Unit] | None = None,
        trouble: str | None = None,
        failed: float | None = None,
        is_up: bool = True,
        **state: Any,
    ) -> NodeShape:
        """A shape; what is not a state of a shape is a resource."""
        template = self.table.template({"bucket": bucket}, units or {}, trouble, failed, is_up)
        return shape(self.table, template, **state)

    def candidate(
        self,
        name: str = "a",
        limit: int = 10,
        limits: list[Limit] | None = None,
        nodes: Iterable[int | NodeShape] = (),
        failed: float | None = None,
        **new: Any,
    ) -> Candidate:
        """A bucket of nodes that have the resources `new` when they are new. `nodes`: the free
        cores of those that are there, or their shapes."""
        new = {"ncpus": 4, **new}
        artificial = bool(new.pop("artificial", False))
        candidate = Candidate(
            name,
            self.shape(name, **new),
            self.shape(name, **new),
            4,
            [Limit(f"Bucket({name})", max_nodes=limit)] if limits is None else limits,
            artificial,
        )
        candidate.since_failure = failed
        candidate.extend(
            [
                self.shape(name, **{**new, "ncpus": node}) if isinstance(node, int) else node
                for node in nodes
            ]
        )
        self.planner.add(candidate)
        return candidate

    def place_quietly(self, expr: Expr, units: int = 1) -> list[Placed]:
        """Place units, and nobody is told why not; the plan as `said` has it."""
        plan = self.planner.plan(self.planner.cursor(expr), Request(units), explain=False)
        if plan:
            self.planner.apply(plan)
        return said(plan)

    def place(self, expr: Expr, wanted: Request) -> Plan:
        """Ask, apply what was answered, and return it."""
        plan = self.planner.ask(expr, wanted)
        if plan:
            self.planner.apply(plan)
        return plan


def shape(
    table: ShapeTable,
    template: Template,
    vacant: bool = True,
    closed: bool = False,
    dormant: bool = False,
    **free: object,
) -> NodeShape:
    """A shape of a table."""
    return table.shape(template, free, vacant, closed, dormant)


def free_cores(candidate: Candidate) -> list[object]:
    """Free cores of the nodes of a candidate, by position; None for one that is gone."""
    return [s.free["ncpus"] if s is not None else None for s in candidate.shapes]


def codes(plan: Plan) -> list[tuple[str, str]]:
    """What kept the rest out: (candidate, code)."""
    return [(candidate.name, reject.code) for candidate, reject in plan.rejects]


def state_of(bench: Bench) -> list[tuple[list[tuple[object, ...]], list[tuple[int, int]]]]:
    """All that a demand may change, shapes by their contents."""
    return [
        (
            [(s.free["ncpus"], s.vacant, s.closed, s.dormant) for s in candidate.shapes if s],
            [(limit.used_nodes, limit.used_cores) for limit in candidate.limits],
        )
        for candidate in bench.planner.candidates
    ]


def said(plan: Plan) -> list[Placed]:
    """A plan as (candidate, first, end, units on each, opened)."""
    return [(p.candidate.name, p.lo, p.hi, p.times, p.opened) for p in plan.steps]
