"""A verdict as text for a terminal of 80 columns: the one line, the causes, the fixes."""

from __future__ import annotations

from collections.abc import Iterator

from hpc.autoscale.plaintext import wrapped
from hpc.autoscale.results.verdicts import Verdict

_WIDTH = 80
_HEADINGS = {"node": "What is known of it:", "bucket": "What is known of it:"}


def lines_of(verdict: Verdict, width: int = _WIDTH, is_folded: bool = False) -> Iterator[str]:
    """The verdict, with lines of at most `width` columns; the first one as it is however long,
    unless `is_folded`, for programs that read it."""
    yield from _folded(verdict.line, width, "", "  ") if is_folded else [verdict.line]
    heading = _HEADINGS.get(verdict.about.partition(" ")[0], "In the way, nearest first:")
    shown = [cause for cause in verdict.causes if cause.where or cause.said or cause.until]
    if shown or len(verdict.causes) > 1:
        yield ""
        yield heading
        for number, cause in enumerate(verdict.causes, 1):
            where = f"  {cause.where}" if cause.where else ""
            yield from _folded(f"{number}. {cause.code}{where}", width, "  ", "     ")
            yield from _folded(cause.text, width, "     ")
            if cause.said and cause.said not in cause.text:
                yield from _folded(f"message: {cause.said}", width, "     ")
    if verdict.fixes:
        yield ""
        yield "What would let it start, each alone:"
        for fix in verdict.fixes:
            yield from _folded(fix.text, width, "  - ", "    ")
    if verdict.left_out:
        yield ""
        said = verdict.left_out[:1].upper() + verdict.left_out[1:]
        yield from _folded(f"{said}.", width, "", "  ")


def _folded(text: str, width: int, first: str, rest: str | None = None) -> list[str]:
    return wrapped(first + text, width, first if rest is None else rest)
