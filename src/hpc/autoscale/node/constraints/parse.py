"""From JSON to constraints.

The rules, in the order in which they are tried, are in `_constraint`; the names with a meaning of
their own are in `KEYWORDS`, to which `composites` adds those that hold other constraints. Whatever
is given, the outcome is a constraint or a `ConstraintError` that says where in the expression the
trouble is (what a custom parser raises is left alone).

`compile_expressions` is a short way to the engine for what most jobs say. It is asked about each
distinct job, remembers what each `{name: value}` means, and leaves to the parser whatever is not of
that kind, mistakes included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hpc.autoscale.errors import AutoscaleError, ConstraintError, check_kinds, did_you_mean
from hpc.autoscale.hpctypes import Size, whole_bytes
from hpc.autoscale.node.constraints.base import (
    Compiled,
    MalformedConstraint,
    NodeConstraint,
    Source,
    located,
)
from hpc.autoscale.node.constraints.conditions import (
    CapacityFailureBackoffConstraint,
    ExclusiveNode,
    InAPlacementGroup,
    MinResourcePerNode,
    Never,
    NodePropertyConstraint,
    NodeResourceConstraint,
    NotAllocated,
    ReadOnlyAlias,
    is_alias,
    size_class,
    size_of,
)
from hpc.autoscale.node.constraints.shared import (
    SharedConsumableConstraint,
    SharedNonConsumableConstraint,
)
from hpc.autoscale.packing import layers
from hpc.autoscale.packing.compound import AllOf, AnyOf
from hpc.autoscale.packing.expr import Expr, MinResource, ResourceIs

MAX_DEPTH = 50
"""How many constraints may stand in one another. Nobody writes more; a generated expression gets a
clear error."""

Parser = Callable[[dict[str, Any]], NodeConstraint]

CUSTOM_PARSERS: dict[str, Parser] = {}
"""What `register_parser` was given, by name."""


class ParsePosition(NamedTuple):
    """Where the parser is, and how it reads. `key` and `item` are where a value of a mapping and a
    member of a list stand."""

    path: str = ""
    depth: int = 0
    case_insensitive: bool = False

    def key(self, name: object) -> ParsePosition:
        path = f"{self.path}.{name}" if self.path else str(name)
        return ParsePosition(path, self.depth + 1, self.case_insensitive)

    def item(self, index: int) -> ParsePosition:
        return ParsePosition(f"{self.path}[{index}]", self.depth, self.case_insensitive)

    def one(self, expr: Any) -> NodeConstraint:
        """The one constraint that an expression stands for."""
        found = _element(expr, self)
        if found is None:
            raise MalformedConstraint("exactly one constraint", expr, self.path)
        return found


class Keyword(NamedTuple):
    """A name with a meaning of its own. `read` makes a constraint of a value and where it stands;
    `meaning` is for the table in the README, and names the value first."""

    read: Callable[[Any, ParsePosition], NodeConstraint]
    meaning: str


def register_parser(custom_attribute: str, parser: Parser) -> None:
    """From now on, in the whole process, `{custom_attribute: value}` is what
    `parser({custom_attribute: value})` returns.

    Goes before every other meaning the name may have.
    """
    check_kinds("register_parser", str, custom_attribute=custom_attribute)
    check_kinds("register_parser", Callable, parser=parser)  # type: ignore[arg-type]
    CUSTOM_PARSERS[custom_attribute] = parser


def get_constraints(
    exprs: Sequence[Any] | Mapping[str, Any], case_insensitive: bool = False
) -> list[NodeConstraint]:
    """The constraints that an expression, or each of a list of expressions, stands for.

    A mapping with several keys becomes one `And`, an empty one nothing; a constraint stays what it
    is. `case_insensitive`: texts that resources are compared with match in any case.
    ConstraintError where something cannot be understood; an AssertionError too when `exprs` is not
    a list.
    """
    if not isinstance(exprs, (list, tuple)):
        if not isinstance(exprs, Mapping):
            raise MalformedConstraint("a list of constraints or one dict", exprs)
        exprs = [exprs]
    at = ParsePosition(case_insensitive=case_insensitive)
    if len(exprs) == 1:
        found = _element(exprs[0], at)
        return [] if found is None else [found]
    return read_children(exprs, at)


def get_constraint(expr: Any, case_insensitive: bool = False) -> NodeConstraint:
    """The one constraint that an expression stands for; as `get_constraints`, and AssertionError
    when it is empty."""
    return ParsePosition(case_insensitive=case_insensitive).one(expr)


def new_job_constraint(
    attr: str, value: Any, in_alias: bool = False, case_insensitive: bool = False
) -> NodeConstraint:
    """The constraint that `{attr: value}` stands for. `in_alias` is not used."""
    return _constraint(attr, value, ParsePosition(case_insensitive=case_insensitive).key(attr))


def read_children(exprs: Iterable[Any], at: ParsePosition) -> list[NodeConstraint]:
    """The constraints in a list; empty mappings stand for none."""
    found = (_element(expr, at.item(index)) for index, expr in enumerate(exprs))
    return [constraint for constraint in found if constraint is not None]


def _element(expr: Any, at: ParsePosition) -> NodeConstraint | None:
    """A member of a list of constraints."""
    if isinstance(expr, NodeConstraint):
        return expr
    if not isinstance(expr, Mapping):
        hint = ". A list was unexpected" if isinstance(expr, (list, tuple)) else ""
        raise ConstraintError("a dict or a constraint", expr, at.path, hint)
    if is_alias(expr):
        return ReadOnlyAlias(str(expr["alias"]), str(expr["resource-name"]))
    found = [_constraint(attr, value, at.key(attr)) for attr, value in expr.items()]
    if len(found) > 1:
        return KEYWORDS["and"].read(found, at)
    return found[0] if found else None


def _constraint(attr: str, value: Any, at: ParsePosition) -> NodeConstraint:
    """The first rule that knows the name, else the one for the type of the value."""
    if at.depth > MAX_DEPTH:
        raise ConstraintError(f"at most {MAX_DEPTH} constraints in one another", value, at.path)
    if not isinstance(attr, str):
        raise ConstraintError("the name of a resource or a keyword", attr, at.path)
    if attr in CUSTOM_PARSERS:
        made: object = CUSTOM_PARSERS[attr]({attr: value})
        if not isinstance(made, NodeConstraint):
            raise ConstraintError("a constraint from the custom parser", made, at.path)
        return made
    if isinstance(value, NodeConstraint):
        return value
    with located(at.path):
        if attr in KEYWORDS:
            return KEYWORDS[attr].read(value, at)
        if isinstance(value, (list, tuple)):
            value = _scalars(value, at)
        if attr.startswith("node."):
            return _property(attr.removeprefix("node."), value)
        return _resource(attr, value, at.case_insensitive)


def _property(attr: str, value: Any) -> NodeConstraint:
    if value is not None and not isinstance(value, (str, int, float, list)):
        raise MalformedConstraint("a text, a number, a list of these, or null", value)
    return NodePropertyConstraint(attr, value if isinstance(value, list) else [value])


def _resource(attr: str, value: Any, case_insensitive: bool) -> NodeConstraint:
    size = size_of(value)
    if size is not None:
        return MinResourcePerNode(attr, size)
    if value is None or isinstance(value, (str, bool, list)):
        values = value if isinstance(value, list) else [value]
        return NodeResourceConstraint(attr, *values, case_insensitive=case_insensitive)
    if isinstance(value, (int, float, Size)):
        return MinResourcePerNode(attr, value)
    hint = did_you_mean(attr, [*KEYWORDS, *CUSTOM_PARSERS])
    expected = "a number, a size, a text, true, false, null or a list of these"
    raise ConstraintError(expected, value, hint=f"{hint} (Unsupported constraint value type)")


def _scalars(values: Sequence[Any], at: ParsePosition) -> list[Any]:
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, (str, int, float, Size)):
            raise ConstraintError("a text, a number or null", value, at.item(index).path)
    return list(values)


def _flag(value: Any) -> bool:
    """A yes or no; digits and the words in any case will do."""
    if isinstance(value, int):
        return bool(value)
    text = value.lower() if isinstance(value, str) else ""
    if text in ("true", "false"):
        return text == "true"
    if text.isdecimal():
        return bool(text.strip("0"))
    raise ConstraintError("true or false", value)


def _read_exclusive_task(value: Any, at: ParsePosition) -> NodeConstraint:
    return ExclusiveNode(_flag(value), job_exclusive=False)


def _read_never(value: Any, at: ParsePosition) -> NodeConstraint:
    if value is not None and not isinstance(value, (str, int, float)):
        raise ConstraintError("the reason as a text", value)
    return Never(str(value))


def _read_backoff(value: Any, at: ParsePosition) -> NodeConstraint:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConstraintError("a number of seconds", value)
    return CapacityFailureBackoffConstraint(value)


def _read_not_allocated(value: Any, at: ParsePosition) -> NodeConstraint:
    if not _flag(value):
        raise ConstraintError("true", value)
    return NotAllocated()


_OF_SHARED = "an object: what all nodes share, and what a task needs of it"
KEYWORDS: dict[str, Keyword] = {
    "exclusive": Keyword(
        lambda value, at: ExclusiveNode(_flag(value)), "true: a node that no other job is placed on"
    ),
    "exclusive-task": Keyword(_read_exclusive_task, "true: the same, for each task array"),
    "exclusive_task": Keyword(_read_exclusive_task, "as `exclusive-task`"),
    "never": Keyword(_read_never, "a text: no node does, for this reason"),
    "in-a-placement-group": Keyword(
        lambda value, at: InAPlacementGroup(_flag(value)),
        "true: in any placement group; false: in none",
    ),
    "capacity-failure-backoff": Keyword(
        _read_backoff, "a number: no new nodes so many seconds after Azure had no capacity"
    ),
    "not-allocated": Keyword(
        _read_not_allocated, "true: a node that nothing was allocated to (deprecated)"
    ),
    SharedConsumableConstraint.JSON_NAME: Keyword(
        lambda value, at: SharedConsumableConstraint.read(value), _OF_SHARED
    ),
    SharedNonConsumableConstraint.JSON_NAME: Keyword(
        lambda value, at: SharedNonConsumableConstraint.read(value), _OF_SHARED
    ),
}


_MOST_KNOWN = 10_000


def compile_expressions(constraints: list[Any], source: Source) -> Compiled | None:
    """What a list of constraints comes to that are dicts of scalars, lists of texts, and `or` of
    such dicts; None for any other list. `source` is the same to keep."""
    if "quick" in layers.OFF:
        return None
    exprs: list[Expr] = []
    try:
        for each in constraints:
            _add_exprs(exprs, each)
    except (_NotQuick, TypeError):  # the latter for a value that cannot be looked up
        return None
    return Compiled(tuple(exprs), source=source) if exprs else None


class _NotQuick(Exception):
    """The parser must be asked."""


def _add_exprs(exprs: list[Expr], constraint: Any, in_or: bool = False) -> list[Expr]:
    if constraint.__class__ is not dict or (
        CUSTOM_PARSERS and not CUSTOM_PARSERS.keys().isdisjoint(constraint)
    ):
        raise _NotQuick
    for name, value in constraint.items():
        if value.__class__ is not list:
            exprs.append(_expr_of(name, value))
        elif name != "or":
            exprs.append(_expr_of(name, tuple(value)))
        elif in_or or len(value) < 2:
            raise _NotQuick
        else:
            exprs.append(AnyOf([_all_of(*_add_exprs([], each, in_or=True)) for each in value]))
    return exprs


@lru_cache(_MOST_KNOWN)
def _all_of(*exprs: Expr) -> Expr:
    """The expression of one alternative."""
    if not exprs:
        raise _NotQuick
    return exprs[0] if len(exprs) == 1 else AllOf(exprs)


@lru_cache(_MOST_KNOWN, typed=True)
def _expr_of(name: Any, value: Any) -> Expr:
    """The expression of `{name: value}`, where a tuple of texts stands for a list of them."""
    is_known = not isinstance(value, tuple) or all(isinstance(each, str) for each in value)
    if not is_known or not isinstance(name, str) or name in ("class", "and"):
        raise _NotQuick  # an `and` stands for what is in it
    try:
        expr = _quick_resource(name, value) or new_job_constraint(name, value).lower()
    except AutoscaleError:
        raise _NotQuick from None
    if expr is None:
        raise _NotQuick
    return expr


def _quick_resource(name: str, value: Any) -> Expr | None:
    """What is written most, in fewer steps: a whole amount, a size, or a text of a resource."""
    if name in KEYWORDS or name[:5] == "node.":
        return None
    amount, sized = value, value.__class__ is str
    if sized:
        if size_class(value) is None:
            return ResourceIs(name, (value,))
        amount = whole_bytes(value)
    is_whole = amount.__class__ is int and 0 <= amount < 2**53
    return MinResource(name, amount, sized) if is_whole else None
