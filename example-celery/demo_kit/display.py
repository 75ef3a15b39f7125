"""Parts of which views of a demo are made: lines about what changed, and a picture that is redrawn
in place."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

V = TypeVar("V")

_COLOURS = {"Ready": "green", "Failed": "red", "Terminating": "dim", "planned": "cyan"}


class ChangedLines:
    """Prints lines with the seconds that have passed, and each only when it says something new."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._said: dict[str, str] = {}
        self._events = 0

    def new_events(self, events: Sequence[str]) -> None:
        """Print the events that were added since the last call."""
        for event in events[self._events :]:
            self._print(event)
        self._events = len(events)

    def when_changed(self, what: str, text: str) -> None:
        """Print `text` about `what` unless that was said last."""
        if self._said.get(what) != text:
            self._said[what] = text
            self._print(f"{what:<7} {text}")

    def _print(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.1f} s  {text}", flush=True)


@contextmanager
def open_view(is_plain: bool, lines: Callable[[], V], picture: Callable[[Any], V]) -> Iterator[V]:
    """A view: a picture on Rich's display, redrawn in place, where somebody watches a terminal;
    lines anywhere else, or when `is_plain`."""
    if is_plain or not is_terminal():
        yield lines()
        return
    from rich.live import Live

    with Live(refresh_per_second=8, transient=False) as display:
        yield picture(display)


def new_table(title: str, *columns: str) -> Any:
    """An empty table of Rich."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, expand=True)
    for column in columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    return table


def coloured(state: str) -> str:
    """The state of a node, marked up with its colour."""
    colour = _COLOURS.get(state, "yellow")
    return f"[{colour}]{state}[/{colour}]"


def is_terminal() -> bool:
    """Whether there is somebody to watch a picture."""
    return sys.stdout.isatty()
