"""A constraint keyword is one class and one parser: an expression that the library has never heard
of is placed rightly."""

import pytest

from builders.least_cost import a_least_cost_calculator, a_market_cluster, sizes_of
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.leastcost.problem import is_plain
from hpc.autoscale.node.constraints import LoweredConstraint, register_parser
from hpc.autoscale.node.constraints.parse import CUSTOM_PARSERS
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.vm_sizes import use_price_override
from hpc.autoscale.packing.expr import Expr, Fit
from hpc.autoscale.packing.reject import Reject


class WithOverhead(Expr):
    """Takes so many cores, and one more for the job's daemon. Says nothing but what it reads and
    how it fits."""

    __slots__ = ("cores",)

    def __init__(self, cores):
        super().__init__((cores,))
        self.cores = cores + 1

    @property
    def reads(self):
        return frozenset({"ncpus"})

    def fit(self, view):
        times = view.free["ncpus"] // self.cores
        return (
            Fit(int(min(times, 2**40)), (("ncpus", self.cores),)) if times >= 1 else Reject("Small")
        )


class MostCores(WithOverhead):
    """Only on nodes of so many cores at most; takes nothing. The refusal is said to be able to
    change, as by default."""

    __slots__ = ()

    @property
    def reads(self):
        return frozenset({"node.vcpu_count"})

    def fit(self, view):
        return Fit() if view.prop("vcpu_count") < self.cores else Reject("Large")


class Thrice(WithOverhead):
    """At most three times on a node, and takes nothing: no plan of amounts can tell of that."""

    __slots__ = ()

    def fit(self, view):
        return Fit(3)


class Strange(LoweredConstraint):
    """A constraint that is one of these expressions."""

    def __init__(self, name, cls, value):
        self.attr, self.made, self.value = name, cls(value), value

    def expression(self):
        return self.made

    def to_dict(self):
        return {self.attr: self.value}

    def __str__(self):
        return f"({self.attr} {self.value})"


KEYWORDS = {"with-overhead": WithOverhead, "most-cores": MostCores, "thrice": Thrice}


@pytest.fixture(autouse=True)
def keywords():
    """The keywords of these tests, known to the parser, and prices."""
    use_price_override({"*": {"Standard_F4s": 0.2, "Standard_F8s": 0.36}})
    for name, cls in KEYWORDS.items():
        register_parser(name, lambda d, n=name, c=cls: Strange(n, c, d[n]))
    yield
    use_price_override(None)
    for name in KEYWORDS:
        del CUSTOM_PARSERS[name]


def first_fit(binding):
    """A calculator that takes buckets as they are declared."""
    return new_demand_calculator({"_mock_bindings": binding}, node_history=NullNodeHistory())


@pytest.mark.parametrize(
    ("constraint", "declared", "cheapest"),
    [
        ({"with-overhead": 1}, {"Standard_F4s": 5}, {"Standard_F8s": 2, "Standard_F4s": 1}),
        ({"with-overhead": 3}, {"Standard_F4s": 10}, {"Standard_F8s": 5}),
        ({"with-overhead": 4}, {"Standard_F8s": 10}, {"Standard_F8s": 10}),
        ({"ncpus": 4, "most-cores": 4}, {"Standard_F4s": 10}, {"Standard_F4s": 10}),
        (
            {"or": [{"with-overhead": 7}, {"most-cores": 4, "ncpus": 4}]},
            {"Standard_F8s": 10},
            {"Standard_F4s": 10},
        ),
        ({"not": {"most-cores": 4}, "ncpus": 4}, {"Standard_F8s": 5}, {"Standard_F8s": 5}),
        ({"thrice": 0}, {"Standard_F4s": 1}, {"Standard_F4s": 1}),
    ],
    ids=str,
)
def test_ten_jobs_are_placed(constraint, declared, cheapest):
    """By first fit, and in the least-cost plan, where it can be planned; alone and inside
    others."""
    for make, expected in ((first_fit, declared), (a_least_cost_calculator, cheapest)):
        calc = make(a_market_cluster())
        jobs = [Job(f"j{i}", constraint) for i in range(10)]
        calc.add_jobs(jobs)
        assert not any(job.iterations_remaining for job in jobs)
        assert sizes_of(calc.get_demand().new_nodes) == expected


def test_what_says_what_it_reads_is_in_the_plan():
    """And what does not is left to first fit."""
    assert is_plain(WithOverhead(1))
    assert is_plain(MostCores(4))

    class Silent(Expr):
        __slots__ = ()

    assert not is_plain(Silent(()))


def test_it_fits_where_it_fits():
    """On one node after another, as they fill up: the demand and the names of the nodes."""
    calc = first_fit(a_market_cluster())
    calc.add_jobs([Job(f"j{i}", {"with-overhead": 1}) for i in range(3)])
    assert [(node.name, len(node.assignments)) for node in calc.get_demand().new_nodes] == [
        ("htc-1", 2),
        ("htc-2", 1),
    ]
