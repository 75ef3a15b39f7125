"""The table of VM sizes: the facts in the package, with the user's own over them.

It is read on first use. `VM_SIZES` is the one table of the process and reads as location -> size ->
record. What a record means is in `info`, how an override file is written in `overrides`; prices are
in `prices`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.node.vm_sizes.size_formats import (
    UNKNOWN_FAMILY,
    Compact,
    SizeRecord,
    expand,
    shell,
)

RESOURCE_FILE: str = os.path.join(os.path.dirname(os.path.dirname(__file__)), "vm_sizes.json")
"""Path of the size table that comes with the package."""


class SizeFacts(NamedTuple):
    """A size table as a file gives it.

    `sizes` hold in every location. `records` hold in one location and have the published form, but
    may leave things out.
    """

    sizes: Mapping[str, Compact] = MappingProxyType({})
    locations: frozenset[str] = frozenset()
    proxies: Mapping[str, str] = MappingProxyType({})
    records: Mapping[str, Mapping[str, SizeRecord]] = MappingProxyType({})


NOTHING = SizeFacts()


def read_packaged(path: str) -> SizeFacts:
    """The table in the package. When it cannot be read this is logged, and the table is empty."""
    import json

    try:
        with open(path, encoding="utf-8") as stream:
            data = json.load(stream)
        return SizeFacts(data["sizes"], frozenset(data["locations"]), data["proxied-locations"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        logging.error(
            "Cannot read the VM sizes in %s, all of them are unknown now: %s", path, error
        )
        return NOTHING


class SizeTable(Mapping[str, Mapping[str, SizeRecord]]):
    """A mapping location -> VM size -> record, read from `path` when it is first looked into.

    A record is made for each look-up and belongs to the caller. The functions in `on_change` are
    called whenever answers may differ from earlier ones. `configured` is what `settings` laid over
    the table last.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.on_change: list[Callable[[], None]] = []
        self._packaged: SizeFacts | None = None
        self.configured: object = None
        self.override = NOTHING
        self._lock = threading.Lock()
        self._sizes: dict[str, Compact] = {}
        self._by_case: dict[str, str] = {}

    def load(self) -> SizeFacts:
        """The packaged table, which is read at the first call."""
        packaged = self._packaged
        if packaged is None:
            with self._lock:
                packaged = self._packaged or read_packaged(self.path)
                self._combine(packaged)
                self._packaged = packaged
        return packaged

    def use(self, override: SizeFacts) -> None:
        """Let the user's facts win over the packaged ones, in place of an earlier call's."""
        packaged = self.load()
        with self._lock:
            self.override = override
            self._combine(packaged)
        for changed in self.on_change:
            changed()

    def _combine(self, packaged: SizeFacts) -> None:
        sizes = dict(packaged.sizes)
        for name, changes in self.override.sizes.items():
            base = dict(sizes.get(name, {}))
            if "vcpus" in changes:
                base.pop("vcpus_avail", None)
            sizes[name] = {**base, **changes}
        self._sizes = sizes
        self._by_case = {}

    def find(self, location: str, vm_size: str) -> SizeRecord | None:
        """The record of a size in a location, or in the one that stands in for it; None when
        unknown.

        Letter case does not matter in sizes, as for Azure; locations are found only as written.
        """
        found = self.exactly(location, vm_size)
        if found is None and (usual := self.usual_name(vm_size)) != vm_size:
            found = self.exactly(location, usual)
        return found

    def exactly(self, location: str, vm_size: str) -> SizeRecord | None:
        """The record of a size in a location, with the letter case of the size as written."""
        base = self._made(location, vm_size) or self._borrowed(location, vm_size)
        return self._laid_over(base, location, vm_size)

    def _borrowed(self, location: str, vm_size: str) -> SizeRecord | None:
        other = self.stand_in(location)
        if other is None:
            return None
        logging.debug("Using the VM sizes of %s for %s", other, location)
        return self._laid_over(self._made(other, vm_size), other, vm_size)

    def _laid_over(self, base: SizeRecord | None, location: str, vm_size: str) -> SizeRecord | None:
        """The user's record over the base record, if there is one.

        A user's record without a core count describes no machine: it only corrects the base record.
        """
        given = self.override.records.get(location, {}).get(vm_size)
        if given is None:
            return base
        base = base or shell(vm_size, location, None, {})
        inherited = {} if "vCPUs" in given["capabilities"] else base["capabilities"]
        return {**base, **given, "capabilities": {**inherited, **given["capabilities"]}}

    def _made(self, location: str, vm_size: str) -> SizeRecord | None:
        if not self._is_listed(location):
            return None
        compact = self._sizes.get(vm_size)
        return None if compact is None else expand(vm_size, location, compact)

    def _is_listed(self, location: str) -> bool:
        return location in self.load().locations or location in self.override.locations

    def stand_in(self, location: str) -> str | None:
        """The location whose sizes hold in one that has no sizes of its own.

        None when there is no such location, or the location has sizes.
        """
        if self._is_listed(location):
            return None
        return self.override.proxies.get(location) or self.load().proxies.get(location)

    def usual_name(self, vm_size: str) -> str:
        """The size as the table spells it, whatever its letter case.

        A size that the table lacks is returned as it is.
        """
        self.load()
        if vm_size in self._sizes:
            return vm_size
        if not self._by_case:
            self._by_case = {name.lower(): name for name in self.size_names()}
        return self._by_case.get(vm_size.lower(), vm_size)

    def size_names(self) -> set[str]:
        """Every size that is known anywhere."""
        self.load()
        return set(self._sizes).union(*self.override.records.values())

    def families(self) -> set[str]:
        """Every family that is known anywhere."""
        self.load()
        families = {compact.get("family") for compact in self._sizes.values()}
        for records in self.override.records.values():
            families.update(record.get("family") for record in records.values())
        return {family for family in families if family and family != UNKNOWN_FAMILY}

    def __getitem__(self, location: str) -> Mapping[str, SizeRecord]:
        if location not in self:
            raise KeyError(location)
        return LocationSizes(self, location)

    def __contains__(self, location: object) -> bool:
        return location in self._locations()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._locations()))

    def __len__(self) -> int:
        return len(self._locations())

    def _locations(self) -> set[str]:
        return {*self.load().locations, *self.override.locations, *self.override.records}

    def names_in(self, location: str) -> set[str]:
        """Every size known in a location."""
        names: set[str] = set()
        for place in (location, self.stand_in(location)):
            if place is not None:
                names.update(self.override.records.get(place, ()))
                names.update(self._sizes if self._is_listed(place) else ())
        return names

    def __repr__(self) -> str:
        return f"SizeTable({self.path!r})"


class LocationSizes(Mapping[str, SizeRecord]):
    """The sizes of one location, as a mapping from size to record."""

    def __init__(self, table: SizeTable, location: str) -> None:
        self._table = table
        self._location = location

    def __getitem__(self, vm_size: str) -> SizeRecord:
        found = self._table.exactly(self._location, vm_size)
        if found is None:
            raise KeyError(vm_size)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._table.names_in(self._location)))

    def __len__(self) -> int:
        return len(self._table.names_in(self._location))

    def __repr__(self) -> str:
        return f"<{len(self)} VM sizes in {self._location}>"


VM_SIZES = SizeTable(RESOURCE_FILE)
