"""A screen that is drawn again and again, with rich; importing it fails where that is missing.

Called by `status --watch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hpc.autoscale.cli.painting import NARROWEST
from hpc.autoscale.cli.standing import Standing
from hpc.autoscale.cli.standing_text import Line, problem_lines, screen
from hpc.autoscale.plaintext import cut_to


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
        self._drawn: tuple[Standing | None, str, tuple[int, int]] | None = None

    def __enter__(self) -> LiveScreen:
        self._live.__enter__()
        self._live.update(Text("looking …"), refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def __call__(self, standing: Standing | None, problem: str) -> None:
        """Draw the last look that worked, and what is wrong now."""
        width, height = self._console.size
        self._drawn = standing, problem, (width, height)
        foot = [Line(f"every {self._every:g} s; Ctrl-C ends", "faint")]
        if problem:
            foot = problem_lines(problem, width)[-height:]
        room = height - len(foot)
        lines = screen(standing, max(width, NARROWEST), room) if standing else []
        self._live.update(self._text(lines, foot, room, width), refresh=True)

    def fit(self) -> None:
        """Draw the same again where the terminal has another size by now."""
        if self._drawn and self._drawn[2] != tuple(self._console.size):
            self(*self._drawn[:2])

    def _text(self, lines: Sequence[Line], foot: Sequence[Line], room: int, width: int) -> Text:
        """The lines that there is room for, and those of the foot at the bottom."""
        shown = list(lines[:room])
        if shown and len(lines) > room:
            shown[-1] = Line(f"… {len(lines) - room + 1} more lines", "faint")
        shown += [Line("")] * (room - len(shown))
        text = Text(no_wrap=True, overflow="crop")
        for number, line in enumerate([*shown, *foot]):
            text.append("\n" if number else "")
            self._append(text, line, width)
        return text

    def _append(self, text: Text, line: Line, width: int) -> None:
        text.append(cut_to(line.text, width), self._styles[line.style])
        if line.beside:
            text.append(line.beside.text, self._styles[line.beside.style])
