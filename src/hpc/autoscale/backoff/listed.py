"""What a listing says of nodes that boot and of those that have failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

Record = Mapping[str, Any]

WITHOUT_A_VM = ("Allocation", "Allocating", "Acquiring")
BOOTING = (*WITHOUT_A_VM, "Starting", "Preparing")


def _none_of(request_ids: Collection[str]) -> Sequence[Record]:
    return ()


class Listed(NamedTuple):
    """The newest listing: booting and failed nodes, a function that finds the records of some
    NodeIds, nodes that cannot be used any more (spot nodes that are about to be evicted), and a
    function that finds the records of the nodes that some requests have made."""

    booting: Sequence[Record]
    failed: Sequence[Record]
    find: Callable[[Collection[str]], Mapping[str, Record]]
    unavailable: Sequence[Record] = ()
    made_by: Callable[[Collection[str]], Sequence[Record]] = _none_of
