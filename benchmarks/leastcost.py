"""The least-cost mode in the benchmarks: the workload's own prices as the user's, and what a plan
comes to.

Called by `measure` for tasks that say `prices`, also for plans of first fit, which are held against
the least-cost bound. Only nodes that do not run yet cost; the price is added up here from the new
nodes, and what the library says of it is held against that.
"""

from typing import Any

from clusters import make_jobs, mock_cluster, write_free_amounts
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.vm_sizes import use_price_override


class WrongPrice(RuntimeError):
    """The library says another price than its nodes cost, or one below its own bound."""


def use_prices(workload: dict[str, Any]) -> None:
    """Make the workload's prices the user's own."""
    prices: dict[str, dict[str, float]] = {}
    for bucket in workload["buckets"]:
        prices.setdefault(bucket["location"], {})[bucket["vm_size"]] = bucket["price"]
    use_price_override(prices)


def bound_of(workload: dict[str, Any]) -> float:
    """What the least-cost mode says that no plan for a workload can cost less than; for plans of
    other ways."""
    packing = {"objective": "cost", "optimize_seconds": 0.25}
    config = {"_mock_bindings": mock_cluster(workload), "packing": packing}
    calculator = new_demand_calculator(config, node_history=NullNodeHistory())
    write_free_amounts(calculator.node_mgr.get_nodes(), workload)
    calculator.add_jobs(make_jobs(workload))
    cost = calculator.get_demand().cost
    if cost is None:
        raise WrongPrice("expected a bound, found no cost")
    return cost.lower_bound


def cost_of(calculator: DemandCalculator, workload: dict[str, Any]) -> dict[str, Any]:
    """Price per hour, lower bound, gap and way of a plan. WrongPrice when they do not agree with
    its nodes."""
    demand = calculator.get_demand()
    prices = {bucket["vm_size"]: bucket["price"] for bucket in workload["buckets"]}
    price = sum(prices[str(node.vm_size)] for node in demand.new_nodes)
    said = demand.cost
    if said is None and not calculator.config["packing"].get("objective"):
        bound = bound_of(workload)
        return {"price": price, "bound": bound, "gap": price / bound - 1, "method": "first fit"}
    if said is None or abs(said.price_per_hour - price) > 1e-6 * max(1.0, price):
        raise WrongPrice(f"expected {price} per hour for the new nodes, found {said}")
    if said.lower_bound > price * (1 + 1e-9):
        raise WrongPrice(f"expected a bound of at most {price}, found {said.lower_bound}")
    return {
        "price": price,
        "bound": said.lower_bound,
        "gap": said.gap,
        "method": said.method,
    }
