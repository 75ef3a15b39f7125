"""Names for planned nodes: the lowest free index of the nodearray, or what an integration's hook says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hpc.autoscale.errors import AutoscaleError

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket import NodeBucket

NameHook = Callable[["NodeBucket", int], str]

_MOST_TRIES = 1_000_000


class Names:
    """All names in use, and the next free one of each nodearray. Proposing a name takes linear time over all calls."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.hook: NameHook | None = None
        self._next: dict[str, int] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """These names are taken."""
        self.used.update(names)

    def propose(self, bucket: NodeBucket, count: int, besides: set[str]) -> list[str]:
        """`count` free names for new nodes of a bucket. Nothing is reserved; `besides`, to which they are added, holds
        names proposed in the same plan. A hook is asked with index 1, 2, … until its answer is free; what it raises
        goes to the caller."""
        names = []
        for _ in range(count):
            name = self._hooked(bucket, besides) if self.hook else self._lowest(bucket, besides)
            besides.add(name)
            names.append(name)
        return names

    def _lowest(self, bucket: NodeBucket, besides: set[str]) -> str:
        nodearray = bucket.nodearray
        index = self._next.get(nodearray, 1)
        while (name := f"{nodearray}-{index}") in self.used or name in besides:
            index += 1
            if name in self.used:
                self._next[nodearray] = index  # names in use stay so: never looked at again
        return name

    def _hooked(self, bucket: NodeBucket, besides: set[str]) -> str:
        if self.hook is None:
            raise AutoscaleError("no node name hook is set")
        for index in range(1, _MOST_TRIES):
            name = self.hook(bucket, index)
            if name not in self.used and name not in besides:
                return name
        raise AutoscaleError(
            f"the node name hook gave no free name for {bucket} in {_MOST_TRIES} tries"
        )
