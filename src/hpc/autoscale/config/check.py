"""Whether a configuration is what the library expects, and if not, what exactly is wrong.

`schema.json` says what is expected; this module turns the first violation into one line. What
depends on the cluster (names of nodearrays, constraints) is checked by those who know it. Called by
the command line and the loop before they begin.
"""

import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpc.autoscale.config.clusters import find_conflicts
from hpc.autoscale.errors import ConfigurationException, did_you_mean
from hpc.autoscale.onpremises.hosts import find_mistakes
from hpc.autoscale.redaction import is_secret, redact

_MODIFIERS = ("add", "subtract", "multiply", "divide", "divide_floor")

# Integrations add keys of their own in these places ("" is the top), so only what looks like a typo
# is refused there.
_SHARED_SECTIONS = ("", "autoscale", "output-columns")

_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}


def check_config(config: Mapping[str, Any]) -> None:
    """Raise ConfigurationException if something is wrong with the configuration.

    Its text is one line about the first thing that is wrong: where it is
    (`default_resources[2].name`), what was expected, what was found, and what was probably meant.
    Secrets are not shown.
    """
    problem = next(find_problems(config), None)
    if problem is not None:
        raise ConfigurationException(problem)


def find_problems(config: Mapping[str, Any]) -> Iterator[str]:
    """A line about each thing that is wrong with a configuration, as in `check_config`.

    What is wrong is left out, and the rest looked at again; so an object that lacks a key has one
    line, whatever else is wrong in it. Where that leaves out what has to be there, something right
    takes its place.
    """
    is_right = True
    for problem in _find_violations(config):
        is_right = False
        yield problem
    for section in _SHARED_SECTIONS:
        yield from _find_typos(section, config)
    resources = config.get("default_resources")
    for i, resource in enumerate(resources if isinstance(resources, list | tuple) else ()):
        if isinstance(resource, Mapping):
            yield from _find_modifiers(f"default_resources[{i}]", resource)
    if is_right:  # what is wrong by itself contradicts nothing
        yield from _find_contradictions(config)
        yield from find_mistakes(config.get("on_premises") or ())
        yield from find_conflicts(config)


def _find_violations(config: Mapping[str, Any]) -> Iterator[str]:
    """A line about each violation of the schema."""
    import fastjsonschema

    validate = _validator(frozenset(config))
    left, has_copy = dict(config), False
    left_out: set[tuple[int, str]] = set()
    while True:
        try:
            validate(left)
            return
        except fastjsonschema.JsonSchemaValueException as e:
            if not has_copy:
                left, has_copy = _numbered(config), True
            steps = _steps_to(str(e.name).removeprefix("data"), left)
            ours = _missing_key(e.definition, e.value) if e.rule == "required" else None
            if steps and ours and (id(e.value), ours) in left_out:
                if not _stand_in(validate, left, e.value, ours):
                    _leave_out(e, steps, left)
                continue
            yield _explain(_place(steps or (), left), e)
            if not steps:
                return
            left_out.add(_leave_out(e, steps, left))


class _Numbered(list[Any]):
    """A list from which items can be left out; the others keep the numbers that they had."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items)
        self.numbers = list(range(len(self)))

    def __delitem__(self, index: Any) -> None:
        super().__delitem__(index)
        del self.numbers[index]


def _numbered(value: Any) -> Any:
    """A copy of a configuration, or part of one, that things can be left out of."""
    if isinstance(value, Mapping):
        return {key: _numbered(each) for key, each in value.items()}
    if isinstance(value, list) and not isinstance(value, _Numbered):
        return _Numbered(map(_numbered, value))
    return value


def _steps_to(name: str, config: Any) -> list[str | int] | None:
    """The keys and numbers that a name such as `.default_resources[2].name` consists of, given that
    a key may have dots and brackets of its own; None where there is no such thing."""
    if not name:
        return []
    if isinstance(config, list):
        number, _, after = name.removeprefix("[").partition("]")
        found: list[tuple[str | int, str]] = [(int(number), after)] if number.isdigit() else []
    elif isinstance(config, Mapping):
        keys = sorted((key for key in config if isinstance(key, str)), key=len, reverse=True)
        found = [(key, name[len(key) + 1 :]) for key in keys if name.startswith(f".{key}")]
    else:
        return None
    for step, after in found:
        below = _steps_to(after, config[step]) if after[:1] in ("", ".", "[") else None
        if below is not None:
            return [step, *below]
    return None


def _place(steps: Iterable[str | int], config: Any) -> str:
    """Where something is, as in `default_resources[2].name`."""
    where = ""
    for step in steps:
        if isinstance(config, list):
            number = config.numbers[int(step)] if isinstance(config, _Numbered) else step
            where = f"{where}[{number}]"
        else:
            where = _join(where, str(step))
        config = config[step]
    return where


def _stand_in(
    validate: Callable[[Mapping[str, Any]], Any], config: Any, where: dict[str, Any], key: str
) -> bool:
    """Give an object of the configuration something right for a key; whether anything is."""
    import fastjsonschema

    right: tuple[Any, ...] = ("x", 1, {}, [], True)
    for value in right:
        where[key] = value
        try:
            validate(config)
        except fastjsonschema.JsonSchemaValueException as e:
            if e.value is value:
                continue
        return True
    return False


def _leave_out(e: Any, steps: Sequence[str | int], config: Any) -> tuple[int, str]:
    """Take out of a configuration what a violation is about; of what, by `id`, and which key."""
    *above, last = steps
    for step in above:
        config = config[step]
    unknown = _unknown_key(e.definition, e.value) if e.rule == "additionalProperties" else None
    if unknown is not None:
        config, last = config[last], unknown
    del config[last]
    return id(config), str(last)


def unknown_commands(config: Mapping[str, Any], commands: Iterable[str]) -> list[str]:
    """A sentence on each command in `output-columns` that is neither ours nor among `commands`.

    It may be a command of another program that reads the same file, so it is no error.
    """
    known = {*config_schema()["properties"]["output-columns"]["properties"], *commands}
    return [
        f"output-columns.{name}: there is no command {name!r}{did_you_mean(name, sorted(known))}"
        for name in config.get("output-columns") or ()
        if name not in known and not name.startswith("_")
    ]


@functools.cache
def config_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of autoscale.json.

    The keyword `expected` in it is our own: what an error message says was expected.
    """
    schema: dict[str, Any] = json.loads(Path(__file__).with_name("schema.json").read_text("utf-8"))
    return schema


@functools.cache
def _validator(keys: frozenset[str]) -> Callable[[Mapping[str, Any]], Any]:
    """Checks a configuration with these keys. To compile the rules of all that there are takes ten
    times as long as those of one section."""
    import fastjsonschema

    schema = config_schema()
    given = {key: rule for key, rule in schema["properties"].items() if key in keys}
    validate: Callable[[Mapping[str, Any]], Any] = fastjsonschema.compile(
        {**schema, "properties": given}, use_default=False
    )
    return validate


def _explain(where: str, e: Any) -> str:
    """The line of text about a violation; `e` is a JsonSchemaValueException."""
    if e.rule in ("additionalProperties", "required"):
        return _explain_keys(where, e.definition, e.value)
    expected = e.definition.get("expected") or _expected(e.rule, e.rule_definition)
    hint = ""
    if e.rule == "enum" and isinstance(e.value, str):
        hint = did_you_mean(e.value, [each for each in e.rule_definition if isinstance(each, str)])
    return (
        f"{where or 'the configuration'}: expected {expected}, found {_shown(where, e.value)}{hint}"
    )


def _explain_keys(where: str, schema: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The line of text about a key that is unknown, or else about one that is missing."""
    known = schema["properties"]
    unknown = _unknown_key(schema, found)
    if unknown is not None:
        expected = f"expected one of {', '.join(known)}{did_you_mean(unknown, known)}"
        return f"{_join(where, unknown)}: unknown key, {expected}"
    missing = _missing_key(schema, found)
    return f"{where}: expected the key {missing!r}, found {', '.join(found) or 'no keys'}"


def _missing_key(schema: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    return str(next(key for key in schema["required"] if key not in found))


def _unknown_key(schema: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    known = schema["properties"]
    return next((key for key in found if key not in known and not key.startswith("_")), None)


def _expected(rule: str, definition: Any) -> str:
    if rule == "type":
        types = [definition] if isinstance(definition, str) else definition
        return " or ".join(_TYPES[t] for t in types)
    if rule == "enum":
        return "one of " + ", ".join(json.dumps(v) for v in definition)
    return f"{rule} {definition}"


def _shown(where: str, value: Any) -> str:
    if is_secret(where.rpartition(".")[2]):
        return "something else (not shown, being a secret)"
    text = json.dumps(redact(value), default=repr)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _join(where: str, key: str) -> str:
    shown = key if len(key) <= 80 else f"{key[:77]}..."
    return f"{where}.{shown}" if where else shown


def _find_typos(section: str, config: Mapping[str, Any]) -> Iterator[str]:
    """A line about each key that is one typo away from a key of ours."""
    schema = config_schema()
    values: object = config
    if section:
        schema, values = schema["properties"][section], config.get(section)
    if not isinstance(values, Mapping):
        return
    known = schema["properties"]
    for key in values:
        if key in known or key.startswith("_"):
            continue
        meant = next((k for k in known if _is_typo(key, k)), None)
        if meant:
            yield f"{_join(section, key)}: unknown key; did you mean {meant!r}?"


def _is_typo(key: str, known: str) -> bool:
    """Whether a key is a known one but for its separators and case, or for one slip of the finger.

    A slip is a letter too many, a letter too few, another letter, or two letters that changed
    places. Short words are often one letter apart without being typos, so for them only separators
    and case count.
    """
    if _letters(key) == _letters(known):
        return True
    if min(len(key), len(known)) < 5 or abs(len(key) - len(known)) > 1:
        return False
    same = next((i for i, (a, b) in enumerate(zip(key, known, strict=False)) if a != b), None)
    if same is None:
        return True
    a, b = key[same:], known[same:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def _letters(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def _find_modifiers(where: str, resource: Mapping[str, Any]) -> Iterator[str]:
    found = [m for m in _MODIFIERS if m in resource]
    if len(found) > 1:
        yield (
            f"{where}: expected at most one of {', '.join(_MODIFIERS)}, found {' and '.join(found)}"
        )


def _find_contradictions(config: Mapping[str, Any]) -> Iterator[str]:
    """A line about each timeout by which nodes would be created and deleted for ever."""
    section = config.get("autoscale") or {}
    interval = float(section.get("interval") or 0)
    for where, seconds in _seconds_of("boot_timeout", config):
        if seconds <= 0 or seconds < interval:
            found = f" with autoscale.interval {interval:g}" if interval else ""
            yield (
                f"{where}: expected at least as many seconds as there are from pass to pass, and"
                f" more than 0, found {seconds:g}{found}: every node would be given up before it"
                " could boot"
            )
    passes = section.get("min_idle_passes")
    if passes is None or passes > 1 or float(section.get("min_lifetime") or 0) > 0:
        return
    for where, seconds in _seconds_of("idle_timeout", config):
        if seconds <= 0:
            yield (
                f"{where}: expected more than 0 seconds where autoscale.min_idle_passes is {passes}"
                " and there is no autoscale.min_lifetime, found 0: a node would go before its work"
                " begins"
            )


def _seconds_of(key: str, config: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The seconds of a timeout, with where they are; 0 by nodearray means the default."""
    value = config.get(key)
    if isinstance(value, Mapping):
        return [
            (f"{key}.{name}", seconds) for name, each in value.items() if (seconds := _float(each))
        ]
    return [] if value is None else [(key, _float(value))]


def _float(value: Any) -> float:
    """A number that the schema has let through; one too large for floats is endless."""
    try:
        return float(value or 0)
    except OverflowError:
        return math.inf
