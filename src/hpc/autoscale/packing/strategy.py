"""Where the slots of one demand go: on nodes with room first, then on new nodes.

`plan` answers without changing anything. Its `Delta` holds every change, so that committing it cannot fail half-way.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hpc.autoscale.packing.draft import Delta, Draft, Probe, Want
from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.gang import plan_whole
from hpc.autoscale.packing.outlook import Outlook
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.packing.stock import Stock


def plan(
    want: Want,
    outlook: Outlook,
    existing_first: bool = True,
    probe: Probe | None = None,
) -> Delta:
    """Place what is wanted on the stocks of `outlook`, in their order. Changes nothing but the memory of refusals.

    existing_first: nodes with room in any of the stocks come before new nodes in the first. A delta of no units, with
    its rejects, is the answer when nothing fits.
    """
    if want.whole:
        return plan_whole(want, outlook, existing_first, probe)
    draft = Draft(want, outlook, probe)
    if existing_first:
        for index, _ in outlook.in_use():
            draft.use(index)
            if not draft.left:
                return draft.delta()
        for index in range(len(outlook.stocks)):
            draft.open(index)
            if not draft.left:
                return draft.delta()
    else:
        for index in range(len(outlook.stocks)):
            draft.use(index)
            draft.open(index)
    return draft.delta(draft.rejects(existing_first))


class Spot(NamedTuple):
    """One node that takes all of a demand: the one at `position` of `stock`, or, there being none yet, a new one."""

    stock: Stock
    position: int
    before: NodeShape
    after: NodeShape
    opened: bool


def on_one_node(units: int, outlook: Outlook) -> Spot | Literal[False] | None:
    """The one node on which `plan` would place `units` slots, with nodes that are there before new ones; False: not one
    slot fits anywhere; None: ask `plan`. Most demands are of one slot, and this is all they need. The expression must
    be monotone."""
    found = outlook.spot()
    if found is not None:
        stock, position, shape, fit = found
        if fit.count < units or shape.dormant:
            return None
        return Spot(stock, position, shape, shape.after(fit, units), False)
    for index, stock in enumerate(outlook.stocks):
        if stock.is_still_full:
            continue
        new = outlook.opening(index)
        if not isinstance(new, Fit) or not stock.has_room_for(1):
            continue
        if new.count < units:
            return None
        shape = stock.new_shape
        return Spot(stock, len(stock.shapes), shape, shape.after(new, units), True)
    return False
