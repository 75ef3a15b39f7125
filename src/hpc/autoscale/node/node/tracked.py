"""What a node keeps its values in: containers that report when they are written to.

Integrators write into a node's `available`, `_resources` and `assignments` directly, and the engine
must hear of each such write. What is available is also changed by the engine: `Amounts` reads that
from the engine's state whenever it is looked at. They behave as plain containers otherwise, and
copying or pickling them gives plain ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from enum import Enum
from typing import Any, Protocol

from hpc.autoscale.hpctypes import Size
from hpc.autoscale.packing.shape import NodeShape
from hpc.autoscale.util import ShellDict

_UNCHANGING = (str, int, float, Size, type(None))


def copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing that can be changed."""
    return {
        name: value if isinstance(value, _UNCHANGING) else deepcopy(value)
        for name, value in values.items()
    }


def can_be_shared(values: Mapping[str, Any]) -> bool:
    """Whether a plain copy of the mapping shares nothing that can be changed."""
    return all(isinstance(value, _UNCHANGING) for value in values.values())


def same(one: object, other: object) -> bool:
    """Equal and of one class: 1, 1.0 and True are told apart."""
    return one.__class__ is other.__class__ and one == other


class Change(Enum):
    """What of a node was written to."""

    RESOURCES = "totals, which decide nothing by themselves"
    AMOUNTS = "what is available"
    OCCUPANCY = "who is placed on it, and whether it takes more"
    IDENTITY = "names and addresses"
    ALL = "anything else that a decision may depend on"


class Owner(Protocol):
    """The node that a container belongs to."""

    @property
    def _shape(self) -> NodeShape | None:
        """What the engine knows of the node; None when no engine knows it."""

    def _changed(self, what: Change) -> None:
        """Called after each write."""

    def _amount_changed(self, name: str, value: object) -> None:
        """Called after each write of one amount that is available."""


def _reporting(base: type, names: str) -> dict[str, Any]:
    """For each named method of `base`, one that does the same and then tells `self.owner`."""

    def reporting(name: str) -> Any:
        method = getattr(base, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.catch_up()
            try:
                return method(self, *args, **kwargs)
            finally:
                self.owner._changed(self.what)

        call.__name__, call.__doc__ = name, method.__doc__
        return call

    return {name: reporting(name) for name in names.split()}


class TrackedDict(dict[str, Any]):
    """A dict that tells its owner of each write through it."""

    __slots__ = ("owner",)

    what = Change.RESOURCES

    def __init__(self, contents: Any, owner: Owner) -> None:
        self.owner = owner
        dict.__init__(self, contents)

    def catch_up(self) -> None:
        """Take in what others have changed since; nobody else writes to this one."""

    def replace(self, contents: Any) -> None:
        """Take over other contents without reporting it."""
        self.catch_up()
        dict.clear(self)
        dict.update(self, contents)

    def __reduce__(self) -> Any:
        return (dict, (dict(self),))

    def copy(self) -> dict[str, Any]:
        return dict(self)


_get, _put = dict.__getitem__, dict.__setitem__


class Amounts(TrackedDict):
    """What is available on a node. Where the engine has placed work, each look at it shows what is
    left by then.

    `shape` is what the engine knew of the node when the contents were last made equal to it.
    """

    __slots__ = ("shape",)

    what = Change.AMOUNTS

    def __init__(self, contents: Any, owner: Owner, shape: NodeShape | None = None) -> None:
        TrackedDict.__init__(self, contents, owner)
        self.shape = shape

    def catch_up(self) -> None:
        shape, known = self.owner._shape, self.shape
        if shape is known:
            return
        self.shape = shape
        if shape is None or known is None:
            return
        before = known.free
        for name, amount in shape.free.items():
            if isinstance(amount, (int, float)) and before.get(name) != amount:
                was = dict.get(self, name)
                _put(self, name, was.with_bytes(amount) if isinstance(was, Size) else amount)

    def __setitem__(self, name: str, value: Any) -> None:
        self.catch_up()
        _put(self, name, value)
        self.owner._amount_changed(name, value)

    def __getitem__(self, name: str) -> Any:
        self.catch_up()
        return _get(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        self.catch_up()
        return dict.get(self, name, default)

    def items(self) -> Any:
        self.catch_up()
        return dict.items(self)

    def values(self) -> Any:
        self.catch_up()
        return dict.values(self)

    def __iter__(self) -> Iterator[str]:
        # with an iterator of its own, `dict(amounts)` asks for each item by `__getitem__`
        return dict.__iter__(self)

    def __eq__(self, other: object) -> bool:
        self.catch_up()
        if isinstance(other, Amounts):
            other.catch_up()
        return dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Any) -> Any:
        self.catch_up()
        return dict.__or__(self, other)

    def __ror__(self, other: Any) -> Any:
        self.catch_up()
        return dict.__ror__(self, other)

    def __repr__(self) -> str:
        self.catch_up()
        return dict.__repr__(self)


class TrackedShellDict(TrackedDict, ShellDict):
    """A `TrackedDict` whose items are attributes as well, as they were when it was made."""

    def __init__(self, contents: Mapping[str, Any], owner: Owner) -> None:
        ShellDict.__init__(self, contents)
        # last: an item may have the name of this attribute
        self.owner = owner


class ShellAmounts(Amounts, ShellDict):
    """`Amounts` whose items are attributes as well, as they were when it was made."""

    def __init__(self, contents: Amounts, owner: Owner) -> None:
        ShellDict.__init__(self, dict(contents))
        # last: items may have the names of these attributes
        self.owner = owner
        self.shape = owner._shape


class ReadOnlyShellDict(ShellDict):
    """A picture of now that cannot be written to; its items are attributes as well."""

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("totals cannot be written to; what is left is in `available`")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = _refuse
    pop = popitem = clear = _refuse


class TrackedSet(set[str]):
    """A set that tells its owner of each write through it."""

    __slots__ = ("owner",)

    what = Change.OCCUPANCY

    def __init__(self, contents: Iterable[str], owner: Owner) -> None:
        self.owner = owner
        set.__init__(self, contents)

    def catch_up(self) -> None:
        """Take in what others have changed since; the engine adds to this very set."""

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
    (dict, TrackedDict, "__setitem__ __delitem__ __ior__ update setdefault pop popitem clear"),
    (
        set,
        TrackedSet,
        "add remove discard pop clear update difference_update intersection_update "
        "symmetric_difference_update __ior__ __iand__ __isub__ __ixor__",
    ),
):
    for _name, _method in _reporting(_base, _names).items():
        setattr(_cls, _name, _method)
