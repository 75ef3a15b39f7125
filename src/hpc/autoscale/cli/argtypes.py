"""Types of command line arguments, and the two ways of telling the user something went wrong.

An argument that cannot be understood raises ArgumentTypeError, which argparse turns into its usual
message.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Any, NoReturn, get_args

from hpc.autoscale.errors import CommandLineError as CommandLineError
from hpc.autoscale.errors import did_you_mean, unreadable
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.plaintext import on_its_lines, on_one_line

_FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)
# values between commas; a comma inside quotes does not separate
_VALUES = re.compile(r"""\s*"[^"]*"|\s*'[^']*'|[^,]+""")
_OPERATORS = "<>!"
_WORDS = {"true": True, "false": False, "null": None}


def error(msg: Any, *args: Any) -> NoReturn:
    """Print a message on stderr, as `msg % args`, and end the process with exit code 1."""
    warn(msg, *args)
    raise SystemExit(1)


def warn(msg: Any, *args: Any) -> None:
    """Print a message on stderr, as `msg % args`.

    Arguments that are texts or errors are on one line, and nothing acts on a terminal.
    """
    shown = tuple(on_one_line(str(a)) if isinstance(a, str | Exception) else a for a in args)
    print(on_its_lines(str(msg) % shown if shown else str(msg)), file=sys.stderr)


def str_list(text: str) -> list[str]:
    """The values of a list like `a,b,c`, without the comma that completion leaves at its end."""
    return text.removesuffix(",").split(",")


def json_type(text: str) -> Any:
    """The value that JSON text stands for, or the content of a JSON file of that path.

    ArgumentTypeError when it is neither.
    """
    try:
        if os.path.exists(text):
            with open(text, encoding="utf-8") as stream:
                return json.load(stream, parse_constant=_no_json)
        return json.loads(text, parse_constant=_no_json)
    except OSError as problem:
        raise ArgumentTypeError(f"{text}: {unreadable(problem)}") from problem
    except ValueError as problem:
        missing = (
            "" if _begins_as_json(text) or os.path.exists(text) else "there is no such file, and "
        )
        raise ArgumentTypeError(
            f"expected a JSON file or JSON, found {text!r}: {missing}{problem}"
        ) from problem


def _no_json(constant: str) -> NoReturn:
    """Python reads NaN and Infinity, which JSON does not have."""
    raise ValueError(f"{constant} is no JSON")


def _begins_as_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[", '"')


def constraint_type(text: str) -> str:
    """A constraint as JSON text: either given as such, or as `name=value` or `name=value,value`."""
    try:
        json.loads(text, parse_constant=_no_json)
        return text
    except ValueError:
        pass
    name, equals, values = text.partition("=")
    if not equals or not name.strip():
        raise ArgumentTypeError(
            f"expected a constraint as JSON or as name=value[,value...], found {text!r}"
        )
    if text.lstrip()[0] in "{[":
        raise ArgumentTypeError(f"expected JSON, found {text!r}")
    parsed = [_scalar(value) for value in _VALUES.findall(values) or [""]]
    return json.dumps({name.strip(): parsed[0] if len(parsed) == 1 else parsed})


def constraint_option(text: str) -> str:
    """A constraint as JSON text, as `constraint_type` has it; ArgumentTypeError where there is
    another operator than `=`, which would become a part of the name or of the value."""
    name, _, value = text.partition("=")
    bare = name.strip().rstrip(_OPERATORS)
    is_operator = bare != name.strip() or value.startswith("=")
    if _begins_as_json(text) or not is_operator:
        return constraint_type(text)
    # of an amount, = means at least so much
    is_least = not {"<", "!"} & set(name.strip()[len(bare) :])
    guess = f"; did you mean '{bare.strip()}={value.lstrip('= ')}'?" if is_least else ""
    raise ArgumentTypeError(
        f"expected a constraint as JSON or as name=value[,value...], found {text!r}{guess}"
    )


def port_type(text: str) -> int:
    """The number of a port; ArgumentTypeError unless it is one, or 0 for a free one."""
    if text.isdecimal() and len(text) < 9 and int(text) <= 65535:
        return int(text)
    raise ArgumentTypeError(f"expected a port from 0 to 65535, found {text!r}")


def _scalar(text: str) -> str | bool | int | float | None:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if not math.isfinite(number):
            raise ArgumentTypeError(f"expected a finite number, or a text in quotes, found {text}")
        return number
    return text


def parse_format(text: str, formats: Sequence[OutputFormat] = _FORMATS) -> OutputFormat:
    """One of the output formats, json, table or table_headerless, in any case of letters; of
    `formats` where a command has not all of them."""
    for known in formats:
        if known == text.lower():
            return known
    raise ArgumentTypeError(
        f"expected {', '.join(formats)}, found {text!r}{did_you_mean(text, formats)}"
    )
