"""Problems for the tests of the least-cost mode: candidates with prices, and demands by their
cores."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from builders.engine import Bench, cores
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.leastcost.problem import Item, Lot, Problem
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.packing.shape import NodeShape

MANY = 100_000


class Market(Bench):
    """Candidates with prices. An expression may be asked of all of them, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.prices: dict[Candidate, float] = {}

    def offer(
        self,
        name: str,
        price: float,
        ncpus: int,
        limit: int = 100,
        limits: list[Limit] | None = None,
        nodes: Iterable[int | NodeShape] = (),
        **new: Any,
    ) -> Candidate:
        """A candidate of nodes with so many cores, at a price."""
        if limits is None:
            limits = [Limit(f"Bucket({name})", max_nodes=limit)]
        candidate = self.candidate(name, limits=limits, nodes=nodes, ncpus=ncpus, **new)
        candidate.cores = ncpus
        self.prices[candidate] = price
        return candidate

    def ranked(self, expr: Expr) -> Sequence[Candidate]:
        """The candidates that may serve an expression."""
        return self.planner.ranking(expr).candidates

    def price_of(self, candidate: Candidate) -> float:
        """The price of a candidate."""
        return self.prices[candidate]

    def problem(self, wanted: Mapping[Any, int]) -> Problem:
        """The problem of placing units by cores: {2: 5} is five units of two cores."""
        items = [Item(cores(n) if isinstance(n, int) else n, units) for n, units in wanted.items()]
        return Problem.of(items, self.ranked, self.price_of)


def nodes_used(problem: Problem, lots: Iterable[Lot]) -> dict[tuple[str, bool], int]:
    """Nodes by name of the candidate, and whether they are new."""
    found: dict[tuple[str, bool], int] = {}
    for lot in lots:
        bin_ = problem.bins[lot.bin]
        key = (bin_.candidate.name, bin_.opened)
        found[key] = found.get(key, 0) + lot.nodes
    return found


def placed_units(problem: Problem, lots: Iterable[Lot]) -> list[int]:
    """Units placed by item."""
    found = [0] * len(problem.items)
    for lot in lots:
        for item, units in lot.pattern:
            found[item] += units * lot.nodes
    return found


def a_market_cluster(
    sizes: Iterable[tuple[str, int]] = (("Standard_F4s", 100), ("Standard_F8s", 100)), **array: Any
) -> MockClusterBinding:
    """A nodearray with buckets of some sizes and limits."""
    binding = MockClusterBinding()
    binding.add_nodearray("htc", {}, **{"max_core_count": MANY, "max_count": MANY, **array})
    for size, limit in sizes:
        binding.add_bucket(
            "htc",
            size,
            limit,
            limit,
            family_quota_core_count=MANY,
            family_quota_count=MANY,
            regional_quota_core_count=MANY,
            regional_quota_count=MANY,
            placement_groups=["pg0", "pg1"],
        )
    return binding


def a_least_cost_calculator(binding: MockClusterBinding, **packing: Any) -> DemandCalculator:
    """A calculator in least-cost mode, with as much work as it likes and no more."""
    config = {
        "_mock_bindings": binding,
        "packing": {"objective": "cost", "optimize_seconds": 60, "optimize_rounds": 30, **packing},
    }
    return new_demand_calculator(config, node_history=NullNodeHistory())


def sizes_of(nodes: Iterable[Node]) -> dict[str, int]:
    """How many nodes there are of each size."""
    found: dict[str, int] = {}
    for node in nodes:
        found[str(node.vm_size)] = found.get(str(node.vm_size), 0) + 1
    return found
