"""Where demands go that are all or nothing: all of it in one stock (a bucket, or a placement group of one).

Called by `strategy.plan` for a demand that is wanted whole.
"""

from __future__ import annotations

from hpc.autoscale.packing.draft import Delta, Draft, Probe, Want
from hpc.autoscale.packing.expr import Fit
from hpc.autoscale.packing.ledger import Tab
from hpc.autoscale.packing.outlook import Outlook
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.stock import Stock


def plan_whole(want: Want, outlook: Outlook, existing_first: bool, probe: Probe | None) -> Delta:
    """Place all that is wanted in one stock, or nothing and say of each stock how much of it fits."""
    stocks = outlook.stocks
    if existing_first:
        for index, _ in outlook.in_use():
            draft = Draft(want, outlook, probe)
            draft.use(index)
            if not draft.left:
                return draft.delta()
            draft.abandon()
    misses: dict[int, Draft] = {}
    for index in range(len(stocks)):
        if probe is None and not _may_hold(outlook, index, want):
            continue
        misses[index] = draft = _one_stock(want, outlook, index, probe)
        if not draft.left:
            return draft.delta()
        draft.abandon()
    rejects: list[tuple[Stock, Reject]] = []
    for index, stock in enumerate(stocks):
        # what need not be tried to find a place is tried to say how close it came
        draft = misses.get(index) or _one_stock(want, outlook, index, probe)
        said = draft.rejects(existing_first, (index,))
        why = f": {said[-1][1].explain()}" if said else ""
        rejects.append((stock, Reject("GangTooLarge", want.units, draft.units, why)))
    return Delta((), 0, Tab(), tuple(rejects))


def _may_hold(outlook: Outlook, index: int, want: Want) -> bool:
    """Whether a stock may hold all that is wanted: it has nodes with room, or the limits allow enough new ones."""
    if outlook.may_use(index):
        return True
    fit = outlook.opening(index)
    if not isinstance(fit, Fit):
        return False
    return outlook.stocks[index].has_room_for(-(-want.units // min(fit.count, want.per_node)))


def _one_stock(want: Want, outlook: Outlook, index: int, probe: Probe | None) -> Draft:
    draft = Draft(want, outlook, probe)
    draft.use(index)
    draft.open(index)
    return draft
