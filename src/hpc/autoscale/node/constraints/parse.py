"""From JSON to constraints.

The rules, in the order in which they are tried, are in `_constraint`; the names with a meaning of their own are in
`KEYWORDS`, to which `composites` adds those that hold other constraints. Whatever is given, the outcome is a constraint
or a `ConstraintError` that says where in the expression the trouble is (what a custom parser raises is left alone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from hpc.autoscale.errors import ConstraintError, did_you_mean
from hpc.autoscale.hpctypes import Memory, Size, SizeError
from hpc.autoscale.node.constraints.base import NodeConstraint
from hpc.autoscale.node.constraints.errors import MalformedConstraint, join_path, located
from hpc.autoscale.node.constraints.properties import (
    CapacityFailureBackoffConstraint,
    ExclusiveNode,
    InAPlacementGroup,
    Never,
    NodePropertyConstraint,
    NotAllocated,
)
from hpc.autoscale.node.constraints.resources import (
    SIZE_TEXT,
    MinResourcePerNode,
    NodeResourceConstraint,
    ReadOnlyAlias,
    is_alias,
)
from hpc.autoscale.node.constraints.shared import (
    SharedConsumableConstraint,
    SharedNonConsumableConstraint,
)

MAX_DEPTH = 50
"""How many constraints may stand in one another. Nobody writes more; a generated expression gets a clear error."""

_JSON = frozenset((dict, list, str, int, float, bool, type(None)))

Parser = Callable[[dict[str, Any]], NodeConstraint]

CUSTOM_PARSERS: dict[str, Parser] = {}
"""What `register_parser` was given, by name."""


class Reading(NamedTuple):
    """Where the parser is, and how it reads."""

    path: str = ""
    depth: int = 0
    case_insensitive: bool = False

    def key(self, name: object) -> Reading:
        """Where the value of a key stands."""
        path = join_path(self.path, str(name))
        return Reading(path, self.depth + 1, self.case_insensitive)

    def item(self, index: int) -> Reading:
        """Where a member of a list stands."""
        return Reading(f"{self.path}[{index}]", self.depth, self.case_insensitive)

    def one(self, expr: Any) -> NodeConstraint:
        """The one constraint that an expression stands for."""
        found = _element(expr, self)
        if found is None:
            raise MalformedConstraint("exactly one constraint", expr, self.path)
        return found


Keyword = Callable[[str, Any, Reading], NodeConstraint]


def register_parser(custom_attribute: str, parser: Parser) -> None:
    """From now on, in the whole process, `{custom_attribute: value}` is what `parser({custom_attribute: value})` returns.

    Goes before every other meaning the name may have.
    """
    CUSTOM_PARSERS[custom_attribute] = parser


def get_constraints(
    exprs: Sequence[Any] | Mapping[str, Any], case_insensitive: bool = False
) -> list[NodeConstraint]:
    """The constraints that an expression, or each of a list of expressions, stands for.

    A mapping with several keys becomes one `And`, an empty one nothing; a constraint stays what it is.
    `case_insensitive`: texts that resources are compared with match in any case. ConstraintError where something cannot
    be understood; an AssertionError too when `exprs` is not a list.
    """
    if not isinstance(exprs, (list, tuple)):
        if not isinstance(exprs, Mapping):
            raise MalformedConstraint("a list of constraints or one dict", exprs)
        exprs = [exprs]
    reading = Reading(case_insensitive=case_insensitive)
    if len(exprs) == 1:
        found = _element(exprs[0], reading)
        return [] if found is None else [found]
    return read_children(exprs, reading)


def get_constraint(expr: Any, case_insensitive: bool = False) -> NodeConstraint:
    """The one constraint that an expression stands for; as `get_constraints`, and AssertionError when it is empty."""
    return Reading(case_insensitive=case_insensitive).one(expr)


def new_job_constraint(
    attr: str, value: Any, in_alias: bool = False, case_insensitive: bool = False
) -> NodeConstraint:
    """The constraint that `{attr: value}` stands for. `in_alias` is not used."""
    return _constraint(attr, value, Reading(case_insensitive=case_insensitive).key(attr))


def read_children(exprs: Iterable[Any], reading: Reading) -> list[NodeConstraint]:
    """The constraints in a list; empty mappings stand for none."""
    found = (_element(expr, reading.item(index)) for index, expr in enumerate(exprs))
    return [constraint for constraint in found if constraint is not None]


def _is_constraint(value: object) -> TypeGuard[NodeConstraint]:
    # to tell for the first time that a class is none takes long
    return value.__class__ not in _JSON and isinstance(value, NodeConstraint)


def _element(expr: Any, reading: Reading) -> NodeConstraint | None:
    """A member of a list of constraints."""
    if _is_constraint(expr):
        return expr
    if isinstance(expr, (list, tuple)):
        hint = ". A list was unexpected"
        raise ConstraintError("a dict or a constraint", expr, reading.path, hint)
    if not isinstance(expr, Mapping):
        raise ConstraintError("a dict or a constraint", expr, reading.path)
    if is_alias(expr):
        return ReadOnlyAlias(str(expr["alias"]), str(expr["resource-name"]))
    found = [_constraint(attr, value, reading.key(attr)) for attr, value in expr.items()]
    if len(found) > 1:
        return KEYWORDS["and"]("and", found, reading)
    return found[0] if found else None


def _constraint(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    """The first rule that knows the name, else the one for the type of the value."""
    if reading.depth > MAX_DEPTH:
        raise ConstraintError(
            f"at most {MAX_DEPTH} constraints in one another", value, reading.path
        )
    if not isinstance(attr, str):
        raise ConstraintError("the name of a resource or a keyword", attr, reading.path)
    if attr in CUSTOM_PARSERS:
        return _checked(CUSTOM_PARSERS[attr]({attr: value}), reading)
    if _is_constraint(value):
        return value
    with located(reading.path):
        if attr in KEYWORDS:
            return KEYWORDS[attr](attr, value, reading)
        if attr.startswith("node."):
            return _property(attr, value, reading)
        return read_resource(attr, value, reading)


def _checked(made: Any, reading: Reading) -> NodeConstraint:
    if not isinstance(made, NodeConstraint):
        raise ConstraintError("a constraint from the custom parser", made, reading.path)
    return made


def _property(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    if value is not None and not isinstance(value, (str, int, float, list, tuple)):
        raise MalformedConstraint("a text, a number, a list of these, or null", value, reading.path)
    values = _scalars(value, reading) if isinstance(value, (list, tuple)) else [value]
    return NodePropertyConstraint(attr.removeprefix("node."), values)


def read_resource(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    """What `{attr: value}` stands for when `attr` is the name of a resource."""
    if isinstance(value, str) and SIZE_TEXT.match(value):
        return MinResourcePerNode(attr, _size(value, reading))
    if value is None or isinstance(value, (str, bool)):
        return NodeResourceConstraint(attr, value, case_insensitive=reading.case_insensitive)
    if isinstance(value, (list, tuple)):
        values = _scalars(value, reading)
        return NodeResourceConstraint(attr, *values, case_insensitive=reading.case_insensitive)
    if isinstance(value, (int, float, Size)):
        return MinResourcePerNode(attr, value)
    known = [*KEYWORDS, *CUSTOM_PARSERS]
    raise ConstraintError(
        "a number, a size, a text, true, false, null or a list of these",
        value,
        reading.path,
        f"{did_you_mean(attr, known)} (Unsupported constraint value type)",
    )


def _size(text: str, reading: Reading) -> Size:
    kind = Memory if text.startswith("memory") else Size
    try:
        return kind.value_of(text)
    except SizeError as e:
        raise ConstraintError("a size such as 'memory::4g'", text, reading.path, f": {e}") from None


def _scalars(values: Sequence[Any], reading: Reading) -> list[Any]:
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, (str, int, float, Size)):
            raise ConstraintError("a text, a number or null", value, reading.item(index).path)
    return list(values)


def _flag(value: Any, reading: Reading) -> bool:
    """A yes or no; digits and the words in any case will do."""
    if isinstance(value, int):
        return bool(value)
    text = value.lower() if isinstance(value, str) else ""
    if text in ("true", "false"):
        return text == "true"
    if text.isdecimal():
        return bool(text.strip("0"))
    raise ConstraintError("true or false", value, reading.path)


def _read_exclusive(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    return ExclusiveNode(_flag(value, reading), job_exclusive=attr == "exclusive")


def _read_never(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    if value is not None and not isinstance(value, (str, int, float)):
        raise ConstraintError("the reason as a text", value, reading.path)
    return Never(str(value))


def _read_in_a_placement_group(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    return InAPlacementGroup(_flag(value, reading))


def _read_backoff(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConstraintError("a number of seconds", value, reading.path)
    return CapacityFailureBackoffConstraint(value)


def _read_not_allocated(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    if not _flag(value, reading):
        raise ConstraintError("true", value, reading.path)
    return NotAllocated()


def _read_shared(attr: str, value: Any, reading: Reading) -> NodeConstraint:
    outer = reading.path.removesuffix(attr)
    try:
        if attr == SharedConsumableConstraint.JSON_NAME:
            return SharedConsumableConstraint.from_dict({attr: value})
        return SharedNonConsumableConstraint.from_dict({attr: value})
    except ConstraintError as e:
        raise type(e)(e.expected, e.found, outer + e.path, e.hint) from None


KEYWORDS: dict[str, Keyword] = {
    "exclusive": _read_exclusive,
    "exclusive_task": _read_exclusive,
    "exclusive-task": _read_exclusive,
    "never": _read_never,
    "in-a-placement-group": _read_in_a_placement_group,
    "capacity-failure-backoff": _read_backoff,
    "not-allocated": _read_not_allocated,
    SharedConsumableConstraint.JSON_NAME: _read_shared,
    SharedNonConsumableConstraint.JSON_NAME: _read_shared,
}
