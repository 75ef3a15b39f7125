"""Where the slots of one demand go: on nodes with room first, then on new nodes.

`plan` answers without changing anything. Its `Delta` holds every change, so that committing it cannot fail half-way.
"""

from __future__ import annotations

from hpc.autoscale.packing.draft import Delta, Draft, Probe, Want
from hpc.autoscale.packing.gang import plan_whole
from hpc.autoscale.packing.groups import Groups
from hpc.autoscale.packing.outlook import Outlook


def plan(
    want: Want,
    outlook: Outlook,
    existing_first: bool = True,
    probe: Probe | None = None,
    groups: Groups | None = None,
) -> Delta:
    """Place what is wanted on the stocks of `outlook`, in their order. Changes nothing but the memory of refusals.

    existing_first: nodes with room in any of the stocks come before new nodes in the first. `groups`: see `plan_whole`. A
    delta of no units, with its rejects, is the answer when nothing fits.
    """
    if want.whole:
        return plan_whole(want, outlook, existing_first, probe, groups)
    draft = Draft(want, outlook, probe)
    if existing_first:
        for index, _ in outlook.in_use():
            draft.use(index)
            if not draft.left:
                return draft.delta()
        for index in outlook.openings(draft.left, want.per_node):
            draft.open(index)
            if not draft.left:
                return draft.delta()
    else:
        for index in outlook.openings(want.units, want.per_node):
            draft.use(index)
            draft.open(index)
    return draft.delta(draft.rejects(existing_first))
