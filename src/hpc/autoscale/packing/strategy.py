"""Where the slots of one demand go: on nodes with room first, then on new nodes.

`plan` answers without changing anything. Its `Delta` holds every change, so that committing it cannot fail half-way.
"""

from __future__ import annotations

from hpc.autoscale.packing.draft import Delta, Draft, Placed, Probe, Want
from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.gang import plan_whole
from hpc.autoscale.packing.outlook import Outlook


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


def on_one_node(want: Want, outlook: Outlook) -> Placed | None:
    """All that is wanted on one node that is there, if that is what `plan` would say with nodes that are there first;
    None: ask `plan`. Most demands are of one slot, and this is all they need."""
    units = want.units
    if units > want.per_node:
        return None
    for index, stock in outlook.in_use():
        position, _ = outlook.find(index)
        if position >= 0:
            _, shape = stock.runs.run_from(position)
            fit = outlook.fit(shape) if shape is not None else None
            if shape is None or not isinstance(fit, Fit) or fit.count < units or shape.dormant:
                return None
            after = shape.after(fit, units)
            return Placed(stock, position, position + 1, units, shape, after, False)
    return None
