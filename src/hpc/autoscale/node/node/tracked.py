"""A dict and a set that report when they are written to.

Integrators write into a node's `available`, `_resources` and `assignments` directly. The engine groups nodes by what
they look like, so it must hear of such a write; these containers are how. They behave as plain ones otherwise, and
copying or pickling them gives plain ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hpc.autoscale.util import ShellDict

if TYPE_CHECKING:
    from hpc.autoscale.node.node.handle import Node


class Owner(Protocol):
    """Whoever hears of writes."""

    def _changed(self) -> None:
        """Called after each."""


class Home(Protocol):
    """Where a node belongs: told of each write that could change a decision."""

    def touched(self, node: Node) -> None:
        """Called after the node was written to."""


def _reporting(base: type, names: Iterable[str]) -> dict[str, Any]:
    """For each named method of `base`, one that does the same and then tells `self.owner`."""

    def reporting(name: str) -> Any:
        method = getattr(base, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            finally:
                self.owner._changed()

        call.__name__, call.__doc__ = name, method.__doc__
        return call

    return {name: reporting(name) for name in names}


_put = dict.__setitem__


class TrackedDict(dict[str, Any]):
    """A dict that tells its owner of each write through it."""

    __slots__ = ("owner",)

    def __init__(self, contents: Any, owner: Owner) -> None:
        self.owner = owner
        dict.__init__(self, contents)

    def __setitem__(self, name: str, value: Any) -> None:
        # the one write that is made thousands of times
        _put(self, name, value)
        self.owner._changed()

    def replace(self, contents: Any) -> None:
        """Take over other contents without reporting it."""
        dict.clear(self)
        dict.update(self, contents)

    def __reduce__(self) -> Any:
        return (dict, (dict(self),))

    def copy(self) -> dict[str, Any]:
        return dict(self)


class TrackedShellDict(TrackedDict, ShellDict):
    """The same with items that are attributes as well."""

    def __init__(self, contents: Mapping[str, Any], owner: Owner) -> None:
        ShellDict.__init__(self, contents)
        # last: an item may have the name of this attribute
        self.owner = owner


class ReadOnlyShellDict(ShellDict):
    """A picture of now that cannot be written to; its items are attributes as well."""

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("totals cannot be written to; what is left is in `available`")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = _refuse
    pop = popitem = clear = _refuse


class TrackedSet(set[str]):
    """A set that tells its owner of each write through it."""

    __slots__ = ("owner",)

    def __init__(self, contents: Iterable[str], owner: Owner) -> None:
        self.owner = owner
        set.__init__(self, contents)

    def __repr__(self) -> str:
        return repr(set(self))

    def extend_quietly(self, contents: Iterable[str]) -> None:
        """Add members without reporting it."""
        set.update(self, contents)

    def __reduce__(self) -> Any:
        return (set, (list(self),))

    def copy(self) -> set[str]:
        return set(self)


for _base, _cls, _names in (
    (
        dict,
        TrackedDict,
        "__delitem__ __ior__ update setdefault pop popitem clear",
    ),
    (
        set,
        TrackedSet,
        "add remove discard pop clear update difference_update intersection_update "
        "symmetric_difference_update __ior__ __iand__ __isub__ __ixor__",
    ),
):
    for _name, _method in _reporting(_base, _names.split()).items():
        setattr(_cls, _name, _method)
