"""Placement groups of VM sizes, and gangs, for the tests of where gangs go."""

from builders.engine import Bench, cores
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.draft import Want
from hpc.autoscale.packing.expr import Exclusive, InPlacementGroup
from hpc.autoscale.packing.ledger import Account
from hpc.autoscale.packing.stock import Stock

NODES = AllOf([Exclusive(), InPlacementGroup(), cores(1)])


def nodes(count):
    """So many nodes, all in one group."""
    return Want(count, 1, True)


def slots(count):
    """So many slots, all in one group."""
    return Want(count, whole=True)


class Site(Bench):
    """A bench of stocks that are placement groups of VM sizes."""

    def __init__(self, existing_first=True, **limits):
        super().__init__(existing_first)
        self.limits = {size: Account(f"Size({size})", max_nodes=n) for size, n in limits.items()}

    def group(self, group, room=10, size="F4", busy=0, idle=(), ncpus=4, artificial=False):
        """A group with room for so many new nodes; `busy` nodes are full, `idle` ones have these cores free."""
        props = {"nodearray": "hpc", "vm_size": size, "placement_group": group}
        template = self.table.template(props, {})

        def shape(free, **state):
            return self.table.shape(template, {"ncpus": free}, **state)

        own = Account(f"Group({group})", max_nodes=room)
        shared = self.limits.setdefault(size, Account(f"Size({size})"))
        new = shape(ncpus)
        stock = Stock(f"{size}/{group}", new, new, 4, [shared, own], artificial)
        for _ in range(busy):
            stock.append(shape(0, vacant=False, closed=True))
        for free in idle:
            stock.append(shape(free, vacant=free == ncpus))
        self.packer.add(stock)
        return stock

    def where(self, want, expr=NODES):
        """The stock that gets a gang, and how many nodes are opened; None when it fits nowhere."""
        delta = self.place(expr, want)
        if not delta:
            return None
        assert delta.units == want.units
        (name,) = {placed.stock.name for placed in delta.placed}
        return name, sum(p.hi - p.lo for p in delta.placed if p.opened)
