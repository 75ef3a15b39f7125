"""A screen that is drawn again and again, with rich; importing it fails where that is missing.

Called by `status --watch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hpc.autoscale.cli.standing import Standing
from hpc.autoscale.cli.standing_text import Line, screen
from hpc.autoscale.plaintext import on_one_line


class LiveScreen(AbstractContextManager["LiveScreen"]):
    """The alternate screen of a terminal, which is as it was before afterwards.

    `every`: seconds from look to look, which the last line says. `styles`: what rich makes of the
    style of a line.
    """

    def __init__(
        self, every: float, styles: Mapping[str, str], console: Console | None = None
    ) -> None:
        self._every = every
        self._styles = styles
        self._console = console or Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)

    def __enter__(self) -> LiveScreen:
        self._live.__enter__()
        self._live.update(Text("looking …"), refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def __call__(self, standing: Standing | None, problem: str) -> None:
        """Draw the last look that worked, and what is wrong now."""
        width, height = self._console.size
        lines = screen(standing, width, height - 1) if standing else []
        foot = Line(f"every {self._every:g} s; Ctrl-C ends", "faint")
        if problem:
            foot = Line(on_one_line(problem), "bad")
        self._live.update(self._drawn(lines, foot), refresh=True)

    def _drawn(self, lines: Sequence[Line], foot: Line) -> Text:
        """The lines that there is room for, and the last one at the bottom."""
        width, height = self._console.size
        room = max(1, height - 1)
        shown = list(lines[:room])
        if len(lines) > room:
            shown[-1] = Line(f"… {len(lines) - room + 1} more lines", "faint")
        shown += [Line("")] * (room - len(shown))
        text = Text(no_wrap=True, overflow="crop")
        for line in shown:
            self._append(text, line, width)
            text.append("\n")
        self._append(text, foot, width)
        return text

    def _append(self, text: Text, line: Line, width: int) -> None:
        text.append(line.text[:width], self._styles[line.style])
        if line.beside:
            text.append(line.beside.text, self._styles[line.beside.style])
