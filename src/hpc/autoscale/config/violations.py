"""What a value has that a JSON Schema does not allow: each violation, and where it is.

Of draft 2020-12 as much as `schema.json` uses (`KEYWORDS`). A schema is read as it is: to compile
one takes longer than to hold a configuration against it, and each process begins with that. Beside
a `$ref` nothing else is looked at.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale.errors import is_number

Schema = Mapping[str, Any]
Place = tuple[str | int, ...]


class Violation(NamedTuple):
    """A `value` that breaks a `rule` of a `schema`, and its `place` in the whole: the keys and
    numbers that lead there."""

    place: Place
    value: Any
    rule: str
    schema: Schema


def find_violations(root: Schema, value: Any) -> Iterator[Violation]:
    """Everything in a value that a schema does not allow. Of what is wrong by itself no more is
    said, and of an object that lacks a key nothing else."""
    return _Reader(root).look(root, value, ())


class _Reader:
    """Holds values against a schema and its parts."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def look(self, schema: Schema, value: Any, place: Place) -> Iterator[Violation]:
        """What a part of a schema does not allow."""
        if "$ref" in schema:
            yield from self.look(self._target(schema["$ref"]), value, place)
            return
        broken = self._broken(schema, value)
        if broken is not None:
            yield Violation(place, value, broken, schema)
            return
        if isinstance(value, list | tuple) and "items" in schema:
            for number, item in enumerate(value):
                yield from self.look(schema["items"], item, (*place, number))
        if isinstance(value, dict):
            yield from self._look_inside(schema, value, place)
        if "if" in schema:
            branch = "then" if self._allows(schema["if"], value) else "else"
            yield from self.look(schema.get(branch, {}), value, place)

    def _look_inside(
        self, schema: Schema, value: dict[Any, Any], place: Place
    ) -> Iterator[Violation]:
        known = schema.get("properties", {})
        for key in known:
            if key in value:
                yield from self.look(known[key], value[key], (*place, key))
        patterns = schema.get("patternProperties", {})
        others = schema.get("additionalProperties", {})
        for key in value:
            matching = [p for p in patterns if isinstance(key, str) and _pattern(p).search(key)]
            for pattern in matching:
                yield from self.look(patterns[pattern], value[key], (*place, key))
            if key in known or matching:
                continue
            if others is False:
                yield Violation((*place, key), value[key], "additionalProperties", schema)
            else:
                yield from self.look(others, value[key], (*place, key))

    def _broken(self, schema: Schema, value: Any) -> str | None:
        """The first rule that a value breaks by itself."""
        for rule, allows in _RULES.items():
            if rule in schema and not allows(schema[rule], value):
                return rule
        if "anyOf" in schema and not any(self._allows(each, value) for each in schema["anyOf"]):
            return "anyOf"
        return "not" if "not" in schema and self._allows(schema["not"], value) else None

    def _allows(self, schema: Schema, value: Any) -> bool:
        return next(self.look(schema, value, ()), None) is None

    def _target(self, reference: str) -> Schema:
        """The part that a reference such as `#/$defs/text` means."""
        found = self._root
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        return found


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list | tuple),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
    "null": lambda value: value is None,
    "number": is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}


def _is_one_of(types: str | Sequence[str], value: Any) -> bool:
    return any(_TYPES[name](value) for name in ([types] if isinstance(types, str) else types))


def _is_regex(kind: str, value: Any) -> bool:
    if kind != "regex" or not isinstance(value, str):
        return True
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_among(known: Sequence[Any], value: Any) -> bool:
    return any(
        value == each and isinstance(value, bool) is isinstance(each, bool) for each in known
    )


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    # in JSON Schema, `$` is the very end and not also the line break before it
    return re.compile(re.sub(r"(?<!\\)\$", r"\\Z", text))


# Rules by keyword, in the order in which they are asked: whether they allow a value. Those that ask
# parts of the schema come behind them.
_RULES: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": _is_one_of,
    "enum": _is_among,
    "minLength": lambda least, value: not isinstance(value, str) or len(value) >= least,
    "pattern": lambda p, value: not isinstance(value, str) or bool(_pattern(p).search(value)),
    "format": _is_regex,
    # NaN, which Python reads in JSON, is within no limit
    "minimum": lambda least, value: not is_number(value) or value >= least,
    "maximum": lambda most, value: not is_number(value) or value <= most,
    "exclusiveMinimum": lambda least, value: not is_number(value) or value > least,
    "minItems": lambda least, value: not isinstance(value, list | tuple) or len(value) >= least,
    "minProperties": lambda least, value: not isinstance(value, dict) or len(value) >= least,
    "required": lambda keys, value: not isinstance(value, dict) or value.keys() >= set(keys),
}

KEYWORDS = frozenset(
    (
        *_RULES,
        *("$ref", "items", "properties", "patternProperties", "additionalProperties"),
        *("anyOf", "not", "if", "then", "else"),
    )
)
"""The keywords that are understood, beside those that describe."""
