"""What a wish says of dynamic arrays, made complete: each definition says all by itself.

A definition of a dynamic array that is known is merged onto the one that stands, and takes over
what the arrays say that it extends. So no request set depends on what another one says later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.requestsets.definitions import (
    WANTED_KEYS,
    RequestError,
    check_attributes,
    merged,
    read_arrays,
)
from hpc.autoscale.requestsets.store import RequestSet, RequestStore
from hpc.autoscale.statefiles import REQUEST_SETS, path_of

Definition = Mapping[str, Any]

DRIVERS_WISH = "_wanted_arrays"
"""The entry of a configuration with what the driver of a pass wants, a `DriversWish`."""


class DriversWish:
    """What a driver wants of nodearrays: nodearray definitions. `name`: of the driver, which is
    asked when somebody wants to know, until it has answered once."""

    def __init__(self, name: str, ask: Callable[[], Sequence[Definition]]) -> None:
        self.name = name
        self._ask = ask
        self.answered: Sequence[Definition] | None = None

    def arrays(self) -> Sequence[Definition]:
        """The definitions. Raises what the driver raises."""
        if self.answered is None:
            self.answered = self._ask()
        return self.answered


# what an array does not hand on to those that extend it
_OF_ONE = ("Name", "ClusterName", "Dynamic", "Extends", *WANTED_KEYS)


def standing_sets(config: Mapping[str, Any], home: str) -> list[RequestSet]:
    """The request sets that stand now, and as one more what the driver of a pass wants.

    AutoscaleError when they cannot be read, or when there is a mistake in what the driver wants.
    """
    now = clock.time()
    sets = [
        one for one in RequestStore(path_of(REQUEST_SETS, config, home)).sets() if one.stands(now)
    ]
    wish: DriversWish | None = config.get(DRIVERS_WISH)
    if wish is None:
        return sets
    name = wish.name
    try:
        wanted = wish.arrays()
    except AutoscaleError:
        raise
    except Exception as error:
        raise AutoscaleError(f"{name}: wanted_arrays: {type(error).__name__}: {error}") from error
    if not wanted:
        return sets
    others = [one for one in sets if one.name != name]
    try:
        read_arrays(wanted)
        arrays = completed(wanted, name, others)
    except RequestError as error:
        raise RequestError(f"{name}: wanted_arrays: {error}") from error
    return [*others, RequestSet(name, now, now + 1, arrays)]


def completed(
    arrays: Sequence[Definition], request_set: str, sets: Iterable[RequestSet]
) -> list[dict[str, Any]]:
    """The definitions of a wish as they are recorded: `Extends` of a dynamic array is a nodearray
    of the cluster, or a list that ends with one.

    `arrays` can be read. `sets`: those that stand, and the one that this wish replaces.
    RequestError for an array that extends nothing or itself, or that another set has made of
    another nodearray, and for attributes by which no node could be read.
    """
    known = _Known(request_set, sets)
    wished = [known.onto(definition) for definition in arrays]
    own = {one["Name"]: one for one in wished if one.get("Dynamic")}
    made = []
    for definition in wished:
        if definition.get("Dynamic"):
            path, attributes = known.path(definition, own)
            extends = path if len(path) > 1 else path[0]
            definition = {**merged(attributes, definition), "Extends": extends}
        elif definition.get("Extends"):
            raise RequestError(
                f"nodearray {definition['Name']}: Extends: expected Dynamic: true beside it"
            )
        check_attributes(definition)
        made.append(definition)
    known.check(made)
    return made


class _Known:
    """The dynamic arrays that request sets have listed, those of `request_set` first."""

    def __init__(self, request_set: str, sets: Iterable[RequestSet]) -> None:
        self._listed: dict[str, Definition] = {}
        self._made_of: dict[str, tuple[str, str]] = {}
        for one in sorted(sets, key=lambda one: (one.name != request_set, one.name)):
            for definition in one.arrays:
                if definition.get("Dynamic"):
                    self._listed.setdefault(str(definition["Name"]), definition)
            others = () if one.name == request_set else read_arrays(one.arrays)
            for request in others:
                for array in request.dynamic_arrays:
                    self._made_of.setdefault(array, (request.base, one.name))

    def onto(self, definition: Definition) -> dict[str, Any]:
        """A definition merged onto the one that its array has; one that says what it extends is
        complete."""
        if len(_names(definition)) > 1:
            raise RequestError(
                f"nodearray {definition['Name']}: Extends: expected one name,"
                f" found {definition['Extends']!r}"
            )
        found = self._listed.get(definition["Name"])
        if found is None or definition.get("Extends") or definition.get("Dynamic") is False:
            return dict(definition)
        below = {key: value for key, value in found.items() if key not in WANTED_KEYS}
        given = {key: value for key, value in definition.items() if value is not None}
        return merged(below, given)

    def path(
        self, definition: Definition, own: Mapping[str, Definition]
    ) -> tuple[list[str], dict[str, Any]]:
        """The arrays that one extends, a nodearray of the cluster last, and what they hand on."""
        where = f"nodearray {definition['Name']}: Extends"
        path = [str(definition["Name"])]
        attributes: dict[str, Any] = {}
        current: Definition | None = definition
        while current is not None:
            extends = _names(current)
            if not extends:
                raise RequestError(f"{where}: expected the nodearray that it is made of")
            path += extends
            if len(set(path)) < len(path):
                raise RequestError(f"{where}: expected no circle, found {' -> '.join(path)}")
            if current is not definition:
                handed_on = {k: v for k, v in current.items() if k not in _OF_ONE}
                attributes = merged(handed_on, attributes)
            # what was recorded has the whole way
            current = own.get(path[-1]) or self._listed.get(path[-1])
        return path[1:], attributes

    def check(self, made: Sequence[Definition]) -> None:
        """RequestError when an array has been made of another nodearray, by another set or by
        another definition."""
        made_of = dict(self._made_of)
        for request in read_arrays(made):
            for array in request.dynamic_arrays:
                base, reporter = made_of.setdefault(array, (request.base, "this one"))
                if base != request.base:
                    raise RequestError(
                        f"nodearray {array}: Extends: expected {base!r}, which it extends in"
                        f" request set {reporter}, found {request.base!r}"
                    )


def _names(definition: Definition) -> list[str]:
    extends = definition.get("Extends")
    return [] if not extends else [extends] if isinstance(extends, str) else list(extends)
