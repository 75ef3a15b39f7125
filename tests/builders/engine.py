"""Shapes, candidates and packers for the tests of the engine, without nodes, buckets or constraints."""

from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr, MinResource, PropertyIs
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.planner import Planner
from hpc.autoscale.packing.shape import ShapeTable


def cores(amount):
    """An expression that takes cores."""
    return MinResource("ncpus", amount)


def named(name):
    """An expression that wants the bucket of a name."""
    return PropertyIs("bucket", [name])


class Anything(Expr):
    """An expression for tests: its `fit` is a function of the view."""

    __slots__ = ("function",)

    def __init__(self, function, monotone=True):
        super().__init__((id(function),), monotone)
        self.function = function

    def fit(self, view):
        return self.function(view)


class Bench:
    """A planner with its table of shapes; candidates are added to it by `candidate`."""

    def __init__(self, existing_first=True):
        self.planner = Planner(existing_first)
        self.table = self.planner.table

    def shape(self, bucket="a", units=None, trouble=None, failed=None, **state):
        """A shape; what is not a state of a shape is a resource."""
        template = self.table.template({"bucket": bucket}, units or {}, trouble, failed)
        return shape(self.table, template, **state)

    def candidate(self, name="a", limit=10, limits=None, nodes=(), failed=None, **new):
        """A bucket of nodes that have the resources `new` when they are new. `nodes`: the free cores of those that are
        there, or their shapes."""
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
        for node in nodes:
            candidate.append(
                self.shape(name, **{**new, "ncpus": node}) if isinstance(node, int) else node
            )
        self.planner.add(candidate)
        return candidate

    def place_quietly(self, expr, units=1):
        """Place units, and nobody is told why not; the plan as `said` has it."""
        plan = self.planner.plan(self.planner.cursor(expr), Request(units), explain=False)
        if plan:
            self.planner.apply(plan)
        return said(plan)

    def place(self, expr, wanted):
        """Ask, apply what was answered, and return it."""
        plan = self.planner.ask(expr, wanted)
        if plan:
            self.planner.apply(plan)
        return plan


def shape(table, template, vacant=True, closed=False, dormant=False, **free):
    """A shape of a table."""
    return table.shape(template, free, vacant, closed, dormant)


def lone_shapes(count):
    """Shapes that differ, for whoever does not care what they are."""
    table = ShapeTable()
    template = table.template({}, {})
    return [table.shape(template, {"ncpus": n}) for n in range(count)]


def free_cores(candidate):
    """Free cores of the nodes of a candidate, by position; None for one that is gone."""
    return [s.free["ncpus"] if s is not None else None for s in candidate.shapes]


def codes(plan):
    """What kept the rest out: (candidate, code)."""
    return [(candidate.name, reject.code) for candidate, reject in plan.rejects]


def state_of(bench):
    """All that a demand may change, shapes by their contents."""
    return [
        (
            [(s.free["ncpus"], s.vacant, s.closed, s.dormant) for s in candidate.shapes],
            [(limit.used_nodes, limit.used_cores) for limit in candidate.limits],
        )
        for candidate in bench.planner.candidates
    ]


def said(plan):
    """A plan as (candidate, first, end, units on each, opened)."""
    return [(p.candidate.name, p.lo, p.hi, p.times, p.opened) for p in plan.steps]
