"""Where the slots of one demand go: on nodes with room first, then on new nodes.

`plan` answers without changing anything. Its `Plan` holds every change, so that committing it cannot fail half-way.
"""

from __future__ import annotations

from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.gang import plan_whole
from hpc.autoscale.packing.groups import Groups
from hpc.autoscale.packing.plan import Draft, Plan, Probe, Request


def plan(
    request: Request,
    cursor: Cursor,
    existing_first: bool = True,
    probe: Probe | None = None,
    groups: Groups | None = None,
) -> Plan:
    """Place what is wanted on the candidates of `cursor`, in their order. Changes nothing but the memory of refusals.

    existing_first: nodes with room in any of the candidates come before new nodes in the first. `groups`: see `plan_whole`. A
    plan of no units, with its rejects, is the answer when nothing fits.
    """
    if request.whole:
        return plan_whole(request, cursor, existing_first, probe, groups)
    draft = Draft(request, cursor, probe)
    if existing_first:
        for index, _ in cursor.in_use():
            draft.use(index)
            if not draft.left:
                return draft.plan()
        for index in cursor.openings(draft.left, request.per_node):
            draft.open(index)
            if not draft.left:
                return draft.plan()
    else:
        for index in cursor.openings(request.units, request.per_node):
            draft.use(index)
            draft.open(index)
    return draft.plan(draft.rejects(existing_first))
