"""Text from outside as one harmless line.

Names of jobs and hosts, messages of servers and the output of schedulers are data. A line break in
one would begin a line of a log that nobody wrote, and an escape sequence would act on the terminal
that shows it. Called wherever text gets into an error, a result, a log record or a table; which
text that is, is not known here.
"""

import re
import unicodedata
from collections import Counter
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
_WORDS = re.compile(r"(\s*)(\S+)")
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


def beginning(text: str) -> str:
    """A value as text, or the first 60 characters of it and dots: more of it nobody reads."""
    return text if len(text) <= 60 else f"{text[:60]} …"


def shorten(names: Iterable[str]) -> str:
    """The names, or the first and the last of many."""
    listed = list(names)
    if len(listed) <= NAMED_AT_MOST:
        return ", ".join(listed)
    return f"{listed[0]} … {listed[-1]}"


def without_repeats(texts: Iterable[str], most: int = 20) -> list[str]:
    """Sentences in their order, equal ones once, with how many they stand for; of more than `most`
    the last says how many are left out."""
    counts = Counter(texts)
    said = [f"{text} (and {n - 1} more alike)" if n > 1 else text for text, n in counts.items()]
    if len(said) > most:
        said[most - 1 :] = [f"… and {len(said) - most + 1} other reasons"]
    return said


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
    return f"{text[: _fitting(text, width - 1)]}…"


def cut_start_to(text: str, width: int) -> str:
    """A text, or as much of its end as so many columns take, behind dots."""
    return cut_to(text[::-1], width)[::-1]


def padded(text: str, width: int) -> str:
    """A text with blanks behind it, so that it takes so many columns."""
    return text + " " * (width - columns_of(text))


def wrapped(text: str, width: int, indent: str = "", most: int | None = None) -> list[str]:
    """The lines of a text, of so many columns at most, of which all but the first begin with
    `indent`; with `most` no more than so many, and dots at the end where there was more. A line
    ends between words, unless a word alone is wider than a line."""
    lines: list[str] = []
    line = ""
    for gap, word in _WORDS.findall(text):
        if line.strip() and columns_of(line + gap + word) > width >= columns_of(indent + word):
            lines.append(line)
            line, gap = indent, ""
        line += gap
        while word and columns_of(line + word) > width:
            # at least one character, however narrow a line is
            taken = max(_fitting(word, width - columns_of(line)), 0 if line.strip() else 1)
            lines.append((line + word[:taken]).rstrip())
            line, word = indent, word[taken:]
        line += word
    if line.strip():
        lines.append(line)
    if most is not None and len(lines) > most:
        lines[most - 1 :] = [_with_dots(lines[most - 1], width)]
    return lines


def _with_dots(line: str, width: int) -> str:
    """A line with dots behind its last word for which there is room then."""
    while columns_of(line) > width - 2 and " " in line.strip():
        line = line[: line.rindex(" ")].rstrip()
    return f"{line} …" if columns_of(line) <= width - 2 else f"{line[: _fitting(line, width - 1)]}…"


def _fitting(text: str, width: int) -> int:
    """How many of the first characters of a text fit into so many columns."""
    for taken, character in enumerate(text):
        width -= _columns(character)
        if width < 0:
            return taken
    return len(text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escaped(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
