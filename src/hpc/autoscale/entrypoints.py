"""Functions that installed distributions offer by name, in groups of entry points."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from hpc.autoscale.errors import ConfigurationException, did_you_mean, one_line

T = TypeVar("T")


def offered(
    group: str,
    name: object,
    what: str,
    known: Collection[str],
    check: Callable[[Any, str], T],
    where: str = "",
) -> T:
    """What a distribution offers by a name, as `check` makes it of the object and its name.

    `what` it is, as "an order policy", and `known`, the names that need no distribution, are for
    the errors; `where` stands before their text. ConfigurationException when nobody offers it, and
    when it cannot be imported or `check` raises anything.
    """
    # takes as long to import as the rest of the library
    from importlib.metadata import entry_points

    found = entry_points(group=group)
    if isinstance(name, str) and name in found.names:
        try:
            return check(found[name].load(), name)
        except Exception as error:  # it is the code of others
            said = f"the {what.split(maxsplit=1)[1]} {name!r} ({found[name].value}) cannot be had"
            raise ConfigurationException(f"{where}{said}: {one_line(error)}") from error
    names = [*known, *sorted(found.names - set(known))]
    hint = did_you_mean(name, names) if isinstance(name, str) else ""
    raise ConfigurationException(
        f"{where}expected {what} ({', '.join(names)}), found {name!r}{hint}"
    )
