"""What a workload's constraints mean, worked out from their JSON alone: for the checker of plans,
which trusts nobody.

It imports nothing of the library. Amounts are floats in base units (memory in GiB), compared to
within `EPSILON`. A node is judged after the pass, when nobody remembers what was free while it was
filled: an amount then lay between what is left now and what there was at first, and a constraint is
only called broken when it is broken for all of these.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import Any, NamedTuple

EPSILON = 1e-6
UNITS = {"b": 2.0**-30, "k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10}
"""GiB in each unit of memory."""

Constraint = Mapping[str, Any]
Amounts = Mapping[str, float]


class Unjudged(ValueError):
    """A constraint that this module cannot judge. Never taken for one that holds."""


class Choice(NamedTuple):
    """One way in which an iteration of a job can be on a node: what it takes, and whether it keeps
    the node to itself."""

    takes: Amounts
    closes: bool = False


class Site(NamedTuple):
    """What is known of a node. `props`: by name without "node."; `texts`: resources that are not
    amounts. `most`: the amounts there were at first, `least`: those that are left now. `occupied`:
    somebody is on it, or has it to himself.
    """

    props: Mapping[str, Any]
    texts: Mapping[str, Any]
    most: Amounts
    least: Amounts
    occupied: bool = False


NOTHING = Choice({})


def choices(constraints: Iterable[Constraint], site: Site) -> list[Choice]:
    """Every way in which constraints may all have held, the one that is documented to be taken
    first; [] for none."""
    found: list[Choice] = []
    for combination in product(*[_of_mapping(each, site) for each in constraints]):
        takes: dict[str, float] = {}
        for choice in combination:
            for name, amount in choice.takes.items():
                takes[name] = takes.get(name, 0.0) + amount
        made = Choice(takes, any(choice.closes for choice in combination))
        if made not in found and fits(takes, site.most):
            found.append(made)
    return found


def fits(takes: Amounts, free: Amounts) -> bool:
    """Whether that much is there."""
    return all(name in free and free[name] + EPSILON >= need for name, need in takes.items())


def times(takes: Amounts, free: Amounts, at_most: int) -> int:
    """How often that much is there, up to a number."""
    counts = [int((free[name] + EPSILON) // need) for name, need in takes.items() if need > EPSILON]
    return max(0, min([at_most, *counts])) if fits(takes, free) else 0


def _of_mapping(constraint: Constraint, site: Site) -> list[Choice]:
    """Those of a mapping: all of its keys at once."""
    if len(constraint) == 1:
        ((key, value),) = constraint.items()
        return _of_item(key, value, site)
    return choices([{key: value} for key, value in constraint.items()], site)


def _of_item(key: str, value: Any, site: Site) -> list[Choice]:
    if key in ("and", "or", "xor", "not"):
        return _of_composite(key, value, site)
    if key == "never":
        return []
    if key in ("exclusive", "exclusive-task"):
        return _where(not value or not site.occupied, Choice({}, bool(value)))
    if key == "in-a-placement-group":
        return _where(bool(site.props["placement_group"]) == value)
    if key.startswith("node."):
        name = key.removeprefix("node.")
        if name not in site.props:
            raise Unjudged(f"expected one of {', '.join(site.props)} after node., found {key!r}")
        return _where(_is_one_of(site.props[name], value))
    if _is_amount(value):
        takes = {key: _amount(key, value)}
        return _where(fits(takes, site.most), Choice(takes))
    return _where(key in site.texts and _is_one_of(site.texts[key], value))


def _of_composite(word: str, value: Any, site: Site) -> list[Choice]:
    if word == "and":
        return choices(value, site)
    if word == "or":
        return [choice for child in value for choice in _of_mapping(child, site)]
    if word == "not":
        return _where(not _certain(value, site))
    return [
        choice
        for index, child in enumerate(value)
        for choice in _of_mapping(child, site)
        if not any(_certain(other, site) for i, other in enumerate(value) if i != index)
    ]


def _certain(constraint: Constraint, site: Site) -> bool:
    """Whether a constraint held whatever was free by then; one on who else is there cannot be told
    afterwards."""
    if any(key.startswith("exclusive") for key in _keys(constraint)):
        raise Unjudged(f"expected no exclusive inside not or xor, found {constraint!r}")
    least = site._replace(most=site.least)
    return bool(_of_mapping(constraint, least))


def _keys(constraint: Constraint) -> Iterable[str]:
    for key, value in constraint.items():
        yield key
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, Mapping):
                yield from _keys(child)


def _where(condition: bool, choice: Choice = NOTHING) -> list[Choice]:
    return [choice] if condition else []


def _is_one_of(target: Any, value: Any) -> bool:
    values: Sequence[Any] = value if isinstance(value, list) else [value]
    for each in values:
        if isinstance(each, str) and isinstance(target, str):
            if fnmatchcase(target, each):
                return True
        elif each == target:
            return True
    return False


def _is_amount(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith(("memory::", "size::"))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _amount(key: str, value: Any) -> float:
    """An amount in base units: `memory::4g`, or a number in the unit that the resource is named
    after."""
    if isinstance(value, str):
        number = value.split("::", 1)[1]
        return float(number[:-1]) * UNITS[number[-1].lower()]
    if key.startswith("mem") and key.endswith("b"):
        return float(value) * UNITS[key[3:-1] or "b"]
    return float(value)
