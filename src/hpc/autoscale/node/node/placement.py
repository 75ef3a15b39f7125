"""What a placement group may be called."""

from __future__ import annotations

import re

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import AutoscaleError

_LEGAL = r"[a-zA-Z0-9_-]+"
_ILLEGAL = r"[^a-zA-Z0-9_-]"


def checked_placement_group(name: str, whose: str) -> ht.PlacementGroup:
    """The name of a placement group; RuntimeError unless it is made of letters, digits, `_` and `-`."""
    if not re.fullmatch(_LEGAL, name):
        raise AutoscaleError(
            f"expected letters, digits, _ and - in a placement group, found {name!r} ({whose})"
        )
    return ht.PlacementGroup(name)


def escaped_placement_group(name: str) -> ht.PlacementGroup:
    """The name with every illegal character replaced by `_`."""
    return ht.PlacementGroup(re.sub(_ILLEGAL, "_", name))
