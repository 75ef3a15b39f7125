"""Files for `logging.config.fileConfig`: reading one, and what is wrong with one that is not used.

A look changes nothing: no handler is made, and no log file is opened. Called by the configuration
of logging, and by the checks of autoscale.json.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hpc.autoscale.errors import unreadable

if TYPE_CHECKING:
    from configparser import ConfigParser, SectionProxy

Known = Mapping[str, list[str]]
"""The names that formatters, handlers and loggers have."""


def read_conf(path: str) -> ConfigParser:
    """The content of a file. Raises OSError and `configparser.Error`, UnicodeDecodeError, and
    ValueError with the number of a line that makes no sense."""
    from configparser import ConfigParser, MissingSectionHeaderError, ParsingError

    parser, line = ConfigParser(), None
    with open(path, encoding="utf-8") as conf:
        try:
            parser.read_file(conf, path)
        except MissingSectionHeaderError as error:
            line = error.lineno
        except ParsingError as error:
            line = error.errors[0][0]
    if line is not None:  # not while the error is handled: it shows the line, with any password
        raise ValueError(f"expected [section] or key=value in line {line}")
    return parser


def problem_of(path: str) -> tuple[bool, str] | None:
    """What keeps a file from being used, in words, and whether commands end with that: they go on
    without one that cannot be read. None where nothing is seen without using it."""
    from configparser import Error

    try:
        conf = read_conf(path)
        known = {name: _names(conf[name]["keys"]) for name in _BY_SECTION}
        for plural, look in _BY_SECTION.items():
            for name in known[plural]:
                look(conf[f"{plural.removesuffix('s')}_{name}"], name, known)
        if "root" not in known["loggers"]:
            raise ValueError("expected root among the keys of loggers")
    except OSError as error:
        return False, unreadable(error)
    except (Error, ImportError, AttributeError, LookupError, SyntaxError, ValueError) as error:
        return True, f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def _names(keys: str) -> list[str]:
    return [name.strip() for name in keys.split(",") if name.strip()]


def _look_at_formatter(section: SectionProxy, _: str, known: Known) -> None:
    if name := section.get("class"):
        _find(name)


def _look_at_handler(section: SectionProxy, _: str, known: Known) -> None:
    try:
        _find(f"logging.{section['class']}")
    except (AttributeError, ImportError):
        _find(section["class"])
    for key in ("args", "kwargs"):
        compile(section.get(key, "()"), key, "eval")
    _look_at_level(section)
    if (formatter := section.get("formatter")) and formatter not in known["formatters"]:
        raise KeyError(formatter)


def _look_at_logger(section: SectionProxy, name: str, known: Known) -> None:
    _look_at_level(section)
    if name != "root":
        _ = section["qualname"]
    for handler in _names(section["handlers"]):
        if handler not in known["handlers"]:
            raise KeyError(handler)


def _look_at_level(section: SectionProxy) -> None:
    level = section.get("level")
    if level is not None and level not in logging.getLevelNamesMapping():
        raise ValueError(f"unknown level: {level!r}")


def _find(name: str) -> None:
    """Raises ImportError, AttributeError or ValueError where nothing has this name."""
    from pkgutil import resolve_name

    resolve_name(name)


_BY_SECTION: dict[str, Callable[[SectionProxy, str, Known], None]] = {
    "formatters": _look_at_formatter,
    "handlers": _look_at_handler,
    "loggers": _look_at_logger,
}
"""By section with names: what is looked at in the section of each of them. Each raises what using
that section would raise, as far as it is known without."""
