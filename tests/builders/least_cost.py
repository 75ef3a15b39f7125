"""Problems for the tests of the least-cost mode: stocks with prices, and demands by their cores."""

from builders.engine import Bench, cores
from hpc.autoscale.packing.leastcost.problem import Item, Problem
from hpc.autoscale.packing.ledger import Account


class Market(Bench):
    """Stocks with prices. An expression may be asked of all of them, in order."""

    def __init__(self):
        super().__init__()
        self.prices = {}

    def offer(self, name, price, ncpus, limit=100, accounts=None, nodes=(), **new):
        """A stock of nodes with so many cores, at a price."""
        if accounts is None:
            accounts = [Account(f"Bucket({name})", max_nodes=limit)]
        stock = self.stock(name, accounts=accounts, nodes=nodes, ncpus=ncpus, **new)
        stock.cores = ncpus
        self.prices[stock] = price
        return stock

    def ranked(self, expr):
        """The stocks that may serve an expression."""
        return self.packer.ranking(expr).stocks

    def price_of(self, stock):
        """The price of a stock."""
        return self.prices[stock]

    def problem(self, wanted):
        """The problem of placing units by cores: {2: 5} is five units of two cores."""
        items = [Item(cores(n) if isinstance(n, int) else n, units) for n, units in wanted.items()]
        return Problem.of(items, self.ranked, self.price_of)


def nodes_used(problem, lots):
    """Nodes by name of the stock, and whether they are new."""
    found = {}
    for lot in lots:
        bin_ = problem.bins[lot.bin]
        key = (bin_.stock.name, bin_.opened)
        found[key] = found.get(key, 0) + lot.nodes
    return found


def placed_units(problem, lots):
    """Units placed by item."""
    found = [0] * len(problem.items)
    for lot in lots:
        for item, units in lot.load:
            found[item] += units * lot.nodes
    return found
