"""Shapes, stocks and packers for the tests of the engine, without nodes, buckets or constraints."""

from hpc.autoscale.packing.expr import Expr, MinResource, PropertyIs
from hpc.autoscale.packing.ledger import Account
from hpc.autoscale.packing.packer import Packer
from hpc.autoscale.packing.shape import ShapeTable
from hpc.autoscale.packing.stock import Stock


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
    """A packer with its table of shapes; stocks are added to it by `stock`."""

    def __init__(self, existing_first=True):
        self.packer = Packer(existing_first)
        self.table = self.packer.table

    def shape(self, bucket="a", units=None, trouble=None, failed=None, **state):
        """A shape; what is not a state of a shape is a resource."""
        template = self.table.template({"bucket": bucket}, units or {}, trouble, failed)
        return shape(self.table, template, **state)

    def stock(self, name="a", limit=10, accounts=None, nodes=(), failed=None, **new):
        """A bucket of nodes that have the resources `new` when they are new. `nodes`: the free cores of those that are
        there, or their shapes."""
        new = {"ncpus": 4, **new}
        artificial = bool(new.pop("artificial", False))
        stock = Stock(
            name,
            self.shape(name, **new),
            self.shape(name, **new),
            4,
            [Account(f"Bucket({name})", max_nodes=limit)] if accounts is None else accounts,
            artificial,
        )
        stock.since_failure = failed
        for node in nodes:
            stock.append(
                self.shape(name, **{**new, "ncpus": node}) if isinstance(node, int) else node
            )
        self.packer.add(stock)
        return stock

    def place_on_one(self, expr, units):
        """Place all units on one node in the short way; the plan as `said` has it, or why there is none."""
        outlook = self.packer.outlook(expr)
        if outlook is None:
            return None
        spot = outlook.fill_one(units)
        opened = spot is False
        if opened:
            spot = outlook.open_one(units)
        if not spot:
            return spot
        stock, position, _, _ = spot
        return [(stock.name, position, position + 1, units, opened)]

    def place(self, expr, want):
        """Ask, commit what was answered, and return it."""
        delta = self.packer.ask(expr, want)
        if delta:
            self.packer.commit(delta)
        return delta


def shape(table, template, vacant=True, closed=False, dormant=False, **free):
    """A shape of a table."""
    return table.shape(template, free, vacant, closed, dormant)


def lone_shapes(count):
    """Shapes that differ, for whoever does not care what they are."""
    table = ShapeTable()
    template = table.template({}, {})
    return [table.shape(template, {"ncpus": n}) for n in range(count)]


def free_cores(stock):
    """Free cores of the nodes of a stock, by position; None for one that is gone."""
    return [s.free["ncpus"] if s is not None else None for s in stock.shapes]


def codes(delta):
    """What kept the rest out: (stock, code)."""
    return [(stock.name, reject.code) for stock, reject in delta.rejects]


def state_of(bench):
    """All that a demand may change, shapes by their contents."""
    return [
        (
            [(s.free["ncpus"], s.vacant, s.closed, s.dormant) for s in stock.shapes],
            [(account.used_nodes, account.used_cores) for account in stock.accounts],
        )
        for stock in bench.packer.stocks
    ]


def said(delta):
    """A plan as (stock, first, end, units on each, opened)."""
    return [(p.stock.name, p.lo, p.hi, p.times, p.opened) for p in delta.placed]
