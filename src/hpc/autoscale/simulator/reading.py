"""Checked reading of JSON objects: each value is taken out by its key, with the expected type.

The cluster description, the faults and the control calls are read through `Section`, so that one
implementation decides what a wrong value is and how it is reported. What a key means belongs to the
callers; the bodies of REST calls are read by the protocol models.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpc.autoscale.errors import AutoscaleError, did_you_mean
from hpc.autoscale.simulator.errors import DescriptionError

# Far beyond every duration and size that means something, and safely a float.
MOST = 1e15

MakeError = Callable[[str], AutoscaleError]


def shown(value: object) -> str:
    """`value` as an error message quotes it: as JSON, cut when it is long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class Section:
    """One JSON object at `path`, which may have the keys in `keys`.

    An unknown key raises at once, with a guess at the typo. A null counts as absent. Every
    exception is made by `error` from one line of text.
    """

    def __init__(
        self, value: object, path: str, keys: Sequence[str], error: MakeError = DescriptionError
    ) -> None:
        self.path = path
        self._error = error
        self._values = _object(value, path or "the document", error)
        for key in self._values:
            if key not in keys:
                guess = did_you_mean(key, keys) or f" (known: {', '.join(keys)})"
                raise error(f"{self.at(key)}: unknown key{guess}")

    def at(self, key: str) -> str:
        """The path of `key` inside this object."""
        return f"{self.path}.{key}" if self.path else key

    def fail(self, key: str, expected: str, found: object, hint: str = "") -> AutoscaleError:
        """The error that says what was expected at `key` and what was found."""
        was = "nothing" if found is None else shown(found)
        return self._error(f"{self.at(key)}: expected {expected}, found {was}{hint}")

    def has(self, key: str) -> bool:
        """Whether `key` is there and not null."""
        return self._values.get(key) is not None

    def raw(self, key: str) -> object:
        """The value as it is; None when absent."""
        return self._values.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """A string that is not empty; required when there is no default."""
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, "a string that is not empty", value)
        return value

    def any_text(self, key: str) -> str:
        """A string, which may be empty."""
        value = self._values.get(key)
        if not isinstance(value, str):
            raise self.fail(key, "a string", value)
        return value

    def maybe_text(self, key: str) -> str | None:
        """A string that is not empty, or None when absent."""
        return self.text(key) if self.has(key) else None

    def choice(self, key: str, options: Sequence[str], default: str) -> str:
        """One of a few words; when absent `default`, which need not be one of them."""
        if not self.has(key):
            return default
        value = self.text(key)
        if value not in options:
            expected = f"one of {', '.join(options)}"
            raise self.fail(key, expected, value, did_you_mean(value, options))
        return value

    def whole(self, key: str, default: int | None = None, least: int = 0) -> int:
        """A whole number that is at least `least`; required when there is no default."""
        value = self._values.get(key)
        return default if value is None and default is not None else self._whole(key, value, least)

    def _whole(self, key: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.fail(key, f"a whole number, {least} or more", value)
        return value

    def maybe_whole(self, key: str, least: int = 0) -> int | None:
        """A whole number that is at least `least`, or None when absent."""
        return self.whole(key, least=least) if self.has(key) else None

    def number(
        self, key: str, default: float | None = None, least: float = 0.0, most: float = MOST
    ) -> float:
        """A number between `least` and `most`; required when there is no default."""
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not least <= value <= most
        ):
            bound = f"{least:g} or more" if most == MOST else f"between {least:g} and {most:g}"
            raise self.fail(key, f"a number, {bound}", value)
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean value, true or false."""
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(key, "true or false", value)
        return value

    def values(self, key: str) -> list[object]:
        """A list of anything, empty when absent."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self.fail(key, "a list", value)
        return list(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty when absent."""
        found = []
        for index, value in enumerate(self.values(key)):
            if not isinstance(value, str):
                raise self.fail(f"{key}[{index}]", "a string", value)
            found.append(value)
        return tuple(found)

    def whole_list(self, key: str, least: int = 0) -> tuple[int, ...]:
        """A list of whole numbers, empty when absent."""
        return tuple(
            self._whole(f"{key}[{index}]", value, least)
            for index, value in enumerate(self.values(key))
        )

    def mapping(self, key: str) -> dict[str, Any]:
        """A JSON object with keys of any name, empty when absent."""
        value = self._values.get(key)
        return {} if value is None else _object(value, self.at(key), self._error)

    def wholes(self, key: str) -> dict[str, int]:
        """A JSON object of names to whole numbers, empty when absent."""
        return {
            name: self._whole(f"{key}.{name}", value, 0)
            for name, value in self.mapping(key).items()
        }

    def section(self, key: str, keys: Sequence[str]) -> "Section":
        """The object at `key`; an absent one reads as empty."""
        return Section(self.mapping(key), self.at(key), keys, self._error)

    def sections(self, key: str, keys: Sequence[str]) -> Iterator[tuple[str, "Section"]]:
        """The objects inside the object at `key`, by name and in order."""
        for name, value in self.mapping(key).items():
            yield name, Section(value, f"{self.at(key)}.{name}", keys, self._error)


def _object(value: object, path: str, error: MakeError) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise error(f"{path}: expected a JSON object, found {shown(value)}")
    return {str(key): item for key, item in value.items()}


def parse_json(text: str | bytes) -> Any:
    """The value in a JSON text.

    Raises ValueError with one line for anything that is not strictly JSON, for a key that an object
    has twice, and for text that is nested too deeply.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {shown(key)} occurs twice in one object")
        found[key] = value
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def read_json_file(path: str | Path) -> Any:
    """The value in a JSON file; DescriptionError that names the file when it cannot be read."""
    try:
        return parse_json(Path(path).expanduser().read_bytes())
    except OSError as error:
        raise DescriptionError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise DescriptionError(f"{path}: expected JSON: {error}") from None
