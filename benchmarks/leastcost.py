"""The least-cost mode in the benchmarks: the workload's own prices as the user's, and what a plan
comes to.

Called by `measure` for tasks that say `prices`. Only nodes that do not run yet cost; the price is
added up here from the new nodes, and what the library says of it is held against that.
"""

from typing import Any

from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.node.vm_sizes import use_price_override


class WrongPrice(RuntimeError):
    """The library says another price than its nodes cost, or one below its own bound."""


def use_prices(workload: dict[str, Any]) -> None:
    """Make the workload's prices the user's own."""
    prices: dict[str, dict[str, float]] = {}
    for bucket in workload["buckets"]:
        prices.setdefault(bucket["location"], {})[bucket["vm_size"]] = bucket["price"]
    use_price_override(prices)


def cost_of(calculator: DemandCalculator, workload: dict[str, Any]) -> dict[str, Any]:
    """Price per hour, lower bound, gap and way of a plan. WrongPrice when they do not agree with
    its nodes."""
    demand = calculator.get_demand()
    prices = {bucket["vm_size"]: bucket["price"] for bucket in workload["buckets"]}
    price = sum(prices[str(node.vm_size)] for node in demand.new_nodes)
    said = demand.cost
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
