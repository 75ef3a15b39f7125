"""Reading autoscale.json: files, the files that they include, and merging several into one.

The result is a plain dict. Whether it makes sense is checked elsewhere (`check`). Called through
`load_config`, by the command line and by integrations.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hpc.autoscale.errors import CircularIncludeError, ConfigurationException, unreadable
from hpc.autoscale.plaintext import on_one_line

Source = str | os.PathLike[str] | Mapping[str, Any]


class UnreadableFile(ConfigurationException):
    """A configuration file, the last of the chain that include each other, that is not there or
    cannot be read. The published text says of it, too, that it cannot be parsed."""

    def __init__(self, chain: tuple[str, ...], why: str) -> None:
        super().__init__(_unusable(chain, why))
        self._words = f"configuration {_origin(chain)}: {why}"

    def in_words(self) -> str:
        """Which file, and why."""
        return on_one_line(self._words)


def load_config(*configs: Source) -> dict[str, Any]:
    """Merge configurations, later ones over earlier ones, into a new dict.

    Each one is a mapping (`keys` and items are enough) or the path of a JSON file. A file may have
    `"include": [paths]`, relative to itself; what it includes goes over it. Nested values may be
    shared with the mappings given.
    ConfigurationException when a file cannot be read, is not a JSON object or has a key twice in
    one object; CircularIncludeError when files include each other.
    """
    merged: dict[str, Any] = {}
    for config in configs:
        merged = merge(merged, loaded(config))
    return merged


def loaded(config: Source) -> dict[str, Any]:
    """A configuration: the mapping itself, or what is in the file of that path. Errors are those of
    `load_config`."""
    if isinstance(config, dict):
        return config
    if isinstance(config, str | os.PathLike):
        return _read(os.path.abspath(config), ())
    if not hasattr(config, "keys"):
        raise ConfigurationException(
            f"expected a configuration as a mapping, or the path of a JSON file, found {config!r}"
        )
    return dict(config)


def merge(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Two configurations as one new dict.

    Lists are joined without duplicates and objects are merged; in other conflicts `right` wins.
    """
    merged = dict(left)
    for key, value in right.items():
        merged[key] = _merged(merged[key], value) if key in merged else value
    return merged


def _merged(left: Any, right: Any) -> Any:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return merge(left, right)
    if isinstance(left, list) and isinstance(right, list):
        joined: list[Any] = []
        for item in [*left, *right]:
            if item not in joined:
                joined.append(item)
        return joined
    return right


def _read(
    path: str,
    chain: tuple[str, ...],
    parsed: Callable[[tuple[str, ...]], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    chain = (*chain, path)
    merged = config = (parsed or _parsed)(chain)
    for include in _includes(config, chain):
        merged = merge(merged, _read(_beside(path, include), chain, parsed))
    return merged


def files_of(path: str | os.PathLike[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A configuration file and those that it includes, each with its own content.

    Raises ConfigurationException and CircularIncludeError as `load_config` does.
    """
    yield from _files(os.path.abspath(path), ())


def _files(path: str, chain: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    chain = (*chain, path)
    config = _parsed(chain)
    yield path, config
    for include in _includes(config, chain):
        yield from _files(_beside(path, include), chain)


def _beside(path: str, include: str) -> str:
    return os.path.abspath(os.path.join(os.path.dirname(path), include))


def load_with_duplicates(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[str]]:
    """What `load_config` returns of a path, with the last value of each key that stands twice in
    one object, and a line about each of those. Raises as `load_config` does."""
    found: list[str] = []

    def parsed(chain: tuple[str, ...]) -> dict[str, Any]:
        config = _parsed(chain, _Object)
        found.extend(
            f"{chain[-1]}: {where}: expected each key once, found it twice"
            for where in _places_twice(config, "")
        )
        return config

    return _read(os.path.abspath(path), (), parsed), found


class _Object(dict[str, Any]):
    """A JSON object that knows which of its keys stood in it twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]


def _places_twice(value: object, where: str) -> Iterator[str]:
    if isinstance(value, _Object):
        for key in value.twice:
            yield f"{where}.{key}".lstrip(".")
        for key, below in value.items():
            yield from _places_twice(below, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _places_twice(below, f"{where}[{index}]")


def _parsed(
    chain: tuple[str, ...], pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The content of the last file of the chain, without the files that it includes. An object is
    made of its pairs by `pairs`; by default each key has to stand in it once."""
    import json

    pairs = pairs or _each_key_once

    *including, path = chain
    if path in including:
        raise CircularIncludeError(f"Circular include found: {' ---> '.join(chain)}")
    try:
        with open(path, encoding="utf-8") as file:
            config: Any = json.load(file, object_pairs_hook=pairs)
    except OSError as e:
        raise UnreadableFile(chain, unreadable(e)) from e
    except ValueError as e:
        raise ConfigurationException(_unusable(chain, str(e))) from e
    except RecursionError:
        raise ConfigurationException(_unusable(chain, "it is nested too deeply")) from None
    if not isinstance(config, dict):
        found = f"expected a JSON object, found {type(config).__name__}"
        raise ConfigurationException(_unusable(chain, found))
    return config


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object made of its pairs; ValueError when a key stands in it twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            others = ", ".join(dict.fromkeys(repr(other) for other, _ in pairs if other != key))
            raise ValueError(
                f"expected each key once, found {key!r} twice beside {others or 'nothing'}"
            )
        found[key] = value
    return found


def _includes(config: Mapping[str, Any], chain: tuple[str, ...]) -> list[str]:
    includes = config.get("include") or []
    if isinstance(includes, str):
        return [includes]
    if not isinstance(includes, list) or not all(isinstance(i, str) for i in includes):
        raise ConfigurationException(
            _unusable(chain, f"include: expected a list of paths, found {includes!r}")
        )
    return includes


def _unusable(chain: tuple[str, ...], why: str) -> str:
    return f"Could not parse config {_origin(chain)}: {why}"


def _origin(chain: tuple[str, ...]) -> str:
    *including, path = chain
    return f"{path} (included by {including[-1]})" if including else path
