"""Lines in colours: on a terminal, unless NO_COLOR is set. The text itself acts on no terminal."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

_COLOURS = {"come": "32", "change": "33", "go": "31", "warn": "1;33", "faint": "2", "title": "1"}


def is_coloured(stream: Any) -> bool:
    """Whether a stream shows colours."""
    if os.getenv("NO_COLOR") or os.getenv("TERM") == "dumb":
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
