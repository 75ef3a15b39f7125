"""Names for planned nodes: the lowest free index of the nodearray, or what an integration's hook
says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from hpc.autoscale.errors import AutoscaleError

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket import NodeBucket

NameHook = Callable[["NodeBucket", int], str]

_MOST_TRIES = 100_000


class Names:
    """All names in use. A name that is in use stays so, which is why the indices below it need
    not be tried again."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.hook: NameHook | None = None
        self._next: dict[str, int] = {}
        self._next_of_hook: dict[int, int] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """These names are taken."""
        self.used.update(names)

    def set_hook(self, hook: NameHook | None) -> None:
        """From now on names are what the hook says."""
        self.hook = hook
        self._next_of_hook.clear()

    def take(self, bucket: NodeBucket, count: int) -> list[str]:
        """`take_one`, for so many."""
        nodearray = bucket.nodearray
        names, self._next[nodearray] = self._lowest(nodearray, count, self._next.get(nodearray, 1))
        self.used.update(names)
        return names

    def take_one(self, bucket: NodeBucket) -> str:
        """The lowest free name for one new node; it is in use from now on. For when there is no
        hook."""
        nodearray, used = bucket.nodearray, self.used
        index = self._next.get(nodearray, 1)
        while (name := f"{nodearray}-{index}") in used:
            index += 1
        self._next[nodearray] = index + 1
        used.add(name)
        return name

    def _lowest(
        self, nodearray: str, count: int, index: int, chosen: Collection[str] = ()
    ) -> tuple[list[str], int]:
        """The lowest names from an index on that are neither in use nor `chosen`, and where to
        go on."""
        found: list[str] = []
        while missing := count - len(found):
            names = [f"{nodearray}-{i}" for i in range(index, index + missing)]
            index += missing
            if not self.used.isdisjoint(names):
                names = [name for name in names if name not in self.used]
            found += [name for name in names if name not in chosen] if chosen else names
        return found, index

    def propose(self) -> Proposal:
        """Names for the new nodes of one plan; nothing is reserved before `Proposal.accept`."""
        return Proposal(self)


class Proposal:
    """Names of the new nodes of one plan. Cost: linear over all plans, however many names are in
    use."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._chosen: set[str] = set()
        # where to go on, by nodearray; it is that of all plans once this one is accepted
        self._next: dict[str, int] = {}
        self._next_of_hook: dict[int, int] = {}

    def names(self, bucket: NodeBucket, count: int) -> list[str]:
        """`count` free names for new nodes of a bucket. A hook is asked with index 1 and, when
        its answer is taken, with the next index that was not tried before; what it raises goes
        to the caller."""
        if self._names.hook is None:
            return self._lowest(bucket.nodearray, count)
        found: list[str] = []
        for _ in range(count):
            name = self._hooked(bucket)
            self._chosen.add(name)
            found.append(name)
        return found

    def accept(self) -> None:
        """The plan was carried out: the names are in use."""
        self._names.used |= self._chosen
        self._names._next.update(self._next)
        self._names._next_of_hook.update(self._next_of_hook)

    def _is_free(self, name: str) -> bool:
        return name not in self._names.used and name not in self._chosen

    def _lowest(self, nodearray: str, count: int) -> list[str]:
        index = self._next.get(nodearray) or self._names._next.get(nodearray, 1)
        found, self._next[nodearray] = self._names._lowest(nodearray, count, index, self._chosen)
        self._chosen.update(found)
        return found

    def _hooked(self, bucket: NodeBucket) -> str:
        hook = self._names.hook
        if hook is None:
            raise AutoscaleError("no node name hook is set")
        if self._is_free(name := hook(bucket, 1)):
            return name
        key = id(bucket)
        start = self._next_of_hook.get(key) or self._names._next_of_hook.get(key, 2)
        for index in range(start, start + _MOST_TRIES):
            if self._is_free(name := hook(bucket, index)):
                self._next_of_hook[key] = index
                return name
        raise AutoscaleError(
            f"the node name hook gave no free name for {bucket} in {_MOST_TRIES} tries"
        )
