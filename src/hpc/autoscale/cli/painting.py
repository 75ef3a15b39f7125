"""What lines look like on a terminal: how wide they may be, and in which colours.

Colours are for terminals only, and not where NO_COLOR is set. The text itself acts on no terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, TextIO

from hpc.autoscale.plaintext import wrapped

_COLOURS = {"come": "32", "change": "33", "go": "31", "warn": "1;33", "faint": "2", "title": "1"}

NARROWEST = 40
"""No line is made for fewer characters than that."""

_USUAL, _READABLE = 80, 100


def screen_width() -> int:
    """How many characters a line of the terminal has: 80 where there is none, and never less than
    40. COLUMNS of the environment comes first."""
    return max(NARROWEST, shutil.get_terminal_size((_USUAL, 24)).columns)


def text_width() -> int:
    """How many characters a line of sentences has: those of the terminal, up to 100, because longer
    lines are hard to read."""
    return min(_READABLE, screen_width())


def table_width() -> int | None:
    """How many characters a line of a table may have on a terminal; None for programs, which read
    tables whole."""
    return screen_width() if sys.stdout.isatty() else None


def folded(line: str, stream: TextIO) -> str:
    """A line as it is for programs, which read lines whole; for a terminal, several that fit."""
    if not stream.isatty():
        return line
    return "\n".join(wrapped(line, screen_width(), "    "))


def is_coloured(stream: Any) -> bool:
    """Whether a stream shows colours."""
    return not os.getenv("NO_COLOR") and can_draw(stream)


def can_draw(stream: Any) -> bool:
    """Whether a stream is a terminal that does more than print one line after the other."""
    if os.getenv("TERM") in ("dumb", "unknown"):
        return False
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty())


def print_painted(text: str, style: str = "plain", stream: TextIO | None = None) -> None:
    """Print a line in the colour of its style, where the stream shows any."""
    out: Any = sys.stdout if stream is None else stream
    colour = _COLOURS.get(style)
    paint = getattr(out, "write_painted", None)
    if colour and text and paint is not None and is_coloured(out):
        paint(text, f"\x1b[{colour}m", "\x1b[0m")
        out.write("\n")
    else:
        out.write(f"{text}\n")
