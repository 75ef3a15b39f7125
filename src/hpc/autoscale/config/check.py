"""Whether a configuration is what the library expects, and if not, what exactly is wrong.

`schema.json` says what is expected; this module turns the first violation into one line. What
depends on the cluster (names of nodearrays, constraints) is checked by those who know it. Called by
the command line and the loop before they begin.
"""

import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hpc.autoscale.config.clusters import find_conflicts
from hpc.autoscale.config.violations import Violation, find_violations
from hpc.autoscale.errors import ConfigurationException, did_you_mean, is_number
from hpc.autoscale.onpremises.hosts import find_mistakes
from hpc.autoscale.redaction import is_secret, redact
from hpc.autoscale.statefiles import STATE_FILES

_MODIFIERS = ("add", "subtract", "multiply", "divide", "divide_floor")

# Keys of the files that passes write, each of which is overwritten as a whole or is a database.
_WRITTEN = (
    *("lock_file", "verdicts_file", "metrics.file", "metrics.health_file"),
    *(file.key for file in STATE_FILES if file.is_named),
)
_SHARED_BY_ALL = (":memory:", "/dev/")

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
    """A line about each thing that is wrong with a configuration, as in `check_config`. An object
    that lacks a key has one line, whatever else is wrong in it."""
    is_right = True
    for violation in find_violations(config_schema(), dict(config)):
        is_right = False
        yield _explain(violation)
    for section in _SHARED_SECTIONS:
        yield from _find_typos(section, config)
    resources = config.get("default_resources")
    for i, resource in enumerate(resources if isinstance(resources, list | tuple) else ()):
        if isinstance(resource, Mapping):
            yield from _find_modifiers(f"default_resources[{i}]", resource)
    if is_right:  # what is wrong by itself contradicts nothing
        yield from _find_contradictions(config)
        yield from _find_shared_files(config)
        yield from find_mistakes(config.get("on_premises") or ())
        yield from find_conflicts(config)


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


def _explain(violation: Violation) -> str:
    """The line of text about a violation. Where a key is missing it may be there under another
    name."""
    place, value, rule, schema = violation
    if rule == "required":
        known = schema["properties"]
        unknown = next((k for k in value if k not in known and not str(k).startswith("_")), None)
        if unknown is None:
            missing = next(key for key in schema[rule] if key not in value)
            found = ", ".join(value) or "no keys"
            return f"{_place(place)}: expected the key {missing!r}, found {found}"
        place, rule = (*place, unknown), "additionalProperties"
    where = _place(place)
    if rule == "additionalProperties":
        known = schema["properties"]
        expected = f"expected one of {', '.join(known)}{did_you_mean(str(place[-1]), known)}"
        return f"{where}: unknown key, {expected}"
    expected = schema.get("expected") or _expected(rule, schema[rule])
    hint = ""
    if rule == "enum" and isinstance(value, str):
        hint = did_you_mean(value, [each for each in schema[rule] if isinstance(each, str)])
    elif isinstance(value, int | float) and not (isinstance(value, bool) or is_number(value)):
        hint = ", which is no finite number"
    return (
        f"{where or 'the configuration'}: expected {expected}, found {_shown(where, value)}{hint}"
    )


def _place(steps: Iterable[str | int]) -> str:
    """Where something is, as in `default_resources[2].name`."""
    where = ""
    for step in steps:
        where = f"{where}[{step}]" if isinstance(step, int) else _join(where, step)
    return where


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


def _find_shared_files(config: Mapping[str, Any]) -> Iterator[str]:
    """A line about each key that names a file that another one has named: each would overwrite what
    the other needs, or move it away as damaged."""
    known: dict[str, str] = {}
    for key in _WRITTEN:
        section, _, name = key.rpartition(".")
        path = ((config.get(section) or {}) if section else config).get(name)
        if not (isinstance(path, str) and path) or path.startswith(_SHARED_BY_ALL):
            continue
        first = known.setdefault(os.path.normpath(path), key)
        if first != key:
            yield f"{key}: expected a file of its own, found that of {first}: {path}"


def _seconds_of(key: str, config: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The seconds of a timeout, with where they are, without parts of a second, which do not count;
    0 by nodearray means the default."""
    value = config.get(key)
    if isinstance(value, Mapping):
        return [
            (f"{key}.{name}", int(seconds))
            for name, each in value.items()
            if (seconds := float(each or 0))
        ]
    return [] if value is None else [(key, int(float(value or 0)))]
