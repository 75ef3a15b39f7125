"""Text from outside as one harmless line.

Names of jobs and hosts, messages of servers and the output of schedulers are data. A line break in
one would begin a line of a log that nobody wrote, and an escape sequence would act on the terminal
that shows it. Called wherever text gets into an error, a result, a log record or a table; which
text that is, is not known here.
"""

import re
import unicodedata
from collections.abc import Iterable

NAMED_AT_MOST = 5
"""How many things of a kind a text names before it only counts them."""

# Control characters, marks that change the direction of writing or cannot be seen, ends of lines
# and paragraphs, halves of surrogate pairs, and tags.
_UNSAFE = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_ANY = f"[{_UNSAFE}]"
_BUT_LINES = f"(?![\n\t])[{_UNSAFE}]"


def on_one_line(text: str) -> str:
    r"""`text` with each character that acts instead of being seen as its escape, as `\n` and
    `\x1b`."""
    # most texts are harmless, and this looks at them once, in C
    return text if text.isprintable() else re.sub(_ANY, _escaped, text)


def on_its_lines(text: str) -> str:
    """`on_one_line` for a text of our own making, whose line breaks and tabs are meant."""
    return text if text.isprintable() else re.sub(_BUT_LINES, _escaped, text)


def in_words(text: str, longest: int) -> str:
    """The words of `text` with one space between them, and nothing that cannot be seen; at most so
    many characters, of which the last three are dots where there was more."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= longest else f"{words[: longest - 4]} ..."


def amount_in_words(amount: float) -> str:
    """An amount of money with two decimals; `< 0.01` for one that is not zero and would look so."""
    return "< 0.01" if 0 < amount < 0.005 else f"{amount:,.2f}"


def shorten(names: Iterable[str]) -> str:
    """The names, or the first and the last of many."""
    listed = list(names)
    if len(listed) <= NAMED_AT_MOST:
        return ", ".join(listed)
    return f"{listed[0]} … {listed[-1]}"


def columns_of(text: str) -> int:
    """How many columns of a terminal a text of one line takes: two for a wide character, as of
    Chinese, and none for an accent that stands by itself."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def cut_to(text: str, width: int) -> str:
    """A text, or as much of it as so many columns take, with dots at its end."""
    if columns_of(text) <= width:
        return text
    taken, left = 0, width - 1
    while left >= (own := _columns(text[taken])):
        left -= own
        taken += 1
    return f"{text[:taken]}…"


def cut_start_to(text: str, width: int) -> str:
    """A text, or as much of its end as so many columns take, behind dots."""
    return cut_to(text[::-1], width)[::-1]


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
