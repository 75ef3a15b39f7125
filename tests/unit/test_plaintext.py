"""Text from outside is one line, and acts on no terminal."""

import io
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.errors import AutoscaleError, ConfigurationException
from hpc.autoscale.plaintext import (
    columns_of,
    cut_start_to,
    cut_to,
    on_its_lines,
    on_one_line,
    without_repeats,
    wrapped,
)
from hpc.autoscale.results import BootupResult
from hpc.autoscale.tables import write_rows


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("htc-1", "htc-1"),
        ("größer 大", "größer 大"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("fdp.\u202eexe", r"fdp.\u202eexe"),
        ("a\u2028b\x85c", r"a\u2028b\x85c"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_acts_is_shown_as_its_escape(text: str, shown: str) -> None:
    """And everything else as it is."""
    assert on_one_line(text) == shown


@given(st.text())
def test_whatever_it_is(text: str) -> None:
    """One line, that any terminal and any file takes, and the same when it is done again."""
    shown = on_one_line(text)
    assert len(shown.splitlines()) <= 1 and on_one_line(shown) == shown
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    shown.encode("utf-8")


@given(st.text())
def test_lines_of_ones_own_stay(text: str) -> None:
    """Each of them as harmless as a line alone, but for tabs."""
    shown = on_its_lines(text)
    assert shown.split("\n") == [
        "\t".join(map(on_one_line, line.split("\t"))) for line in text.split("\n")
    ]


def test_errors_results_and_tables_are_such_text() -> None:
    """Whoever prints them has nothing to do."""
    assert str(AutoscaleError("no\nyes")) == r"no\nyes"
    assert str(ConfigurationException("\x1b[2J")) == r"\x1b[2J"
    assert BootupResult("failed", "", [], reasons=["fine", "no\nyes"]).reasons == [
        "fine",
        r"no\nyes",
    ]
    stream = io.StringIO()
    write_rows(["name", "job"], [["a\nb", ["\x1b", "c"]]], stream, "table")
    assert stream.getvalue() == "name job   \na\\nb \\x1b,c\n"


@given(text=st.text(alphabet="ab名前ñe\u0301", max_size=30), width=st.integers(1, 40))
def test_a_text_is_cut_to_columns_of_a_terminal(text, width):
    """Of which a wide character takes two, and an accent none."""
    shown = cut_to(text, width)
    assert columns_of(shown) <= width
    assert (shown == text) == (columns_of(text) <= width) or text == "…"
    assert text.startswith(shown.removesuffix("…"))
    shown = cut_start_to(text, width)
    assert columns_of(shown) <= width
    assert text.endswith(shown.removeprefix("…"))


@given(
    words=st.lists(st.text(alphabet="ab名前ñe\u0301-", min_size=1, max_size=30), max_size=8),
    width=st.integers(6, 40),
)
def test_a_text_is_wrapped_by_columns_of_a_terminal(words, width):
    """No line is wider, nothing is lost, and a line ends within a word only where that is wider."""
    lines = wrapped(" ".join(words), width, "    ")
    assert all(columns_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(words)
    assert all(line.startswith("    ") for line in lines[1:])
    if all(columns_of(word) <= width - 4 for word in words):
        assert " ".join(lines).split() == words


@given(text=st.text(alphabet="ab-  ", max_size=60), width=st.integers(6, 40))
def test_plain_texts_are_wrapped_as_ever(text, width):
    """As Python does it."""
    expected = textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
    assert wrapped(text, width, "  ") == expected


def test_of_a_long_text_so_many_lines():
    """The last of them has dots behind its last word, within the width."""
    text = "one two three four five"
    assert wrapped(text, 9, most=2) == ["one two", "three …"]
    assert wrapped(text, 9, most=9) == ["one two", "three", "four five"]
    assert wrapped("ab", -1, "    ") == ["a", "    b"]  # it ends, however narrow a line is
    assert wrapped("名" * 9, 6, most=2) == ["名名名", "名名…"]


def test_a_table_that_does_not_fit_is_paragraphs():
    """One for each row, with all of it; where cutting is enough it stays a table, also of a name
    that is longer than an id."""
    rows = [["名" * 25, 1, "x" * 30, None], ["b", 22, "", "yes"]]
    stream = io.StringIO()
    write_rows(["JOB", "NUMBER", "WHAT", "IS_PAID"], rows, stream, "table", 40)
    first = ["名" * 20, f"    {'名' * 5}", "    NUMBER 1", f"    WHAT {'x' * 30}"]
    assert stream.getvalue().splitlines() == [*first, "b  NUMBER 22  IS_PAID yes"]
    stream = io.StringIO()
    write_rows(["JOB", "NUMBER", "WHAT", "IS_PAID"], rows, stream, "table", 66)
    heads, line, _ = stream.getvalue().splitlines()
    assert heads.split() == ["JOB", "NUMBER", "WHAT", "IS_PAID"]
    assert line.startswith("名" * 20 + "… ") and max(map(columns_of, (heads, line))) <= 66


@pytest.mark.parametrize("width", [None, 40])
def test_tables_of_wide_names_are_aligned(width):
    """And as wide as they were told."""
    stream = io.StringIO()
    rows = [["name-名前", 1, "one"], ["b", 2, "名" * 40]]
    write_rows(["JOB", "N", "WHAT"], rows, stream, "table", width)
    _, first, second = stream.getvalue().splitlines()
    at = [columns_of(line[: line.index(mark)]) for line, mark in ((first, "1"), (second, "2"))]
    assert at == [10, 10]
    assert width is None or columns_of(second) <= width


def test_a_number_of_hundreds_of_digits_has_a_power_of_ten():
    """In tables; others are written out."""
    out = io.StringIO()
    write_rows(["A", "B"], [[1e308, 123456.78]], out, "table")
    assert out.getvalue().split() == ["A", "B", "1e+308", "123456.8"]


def test_equal_sentences_are_said_once():
    """In the order of their first appearance, and no more than so many."""
    assert without_repeats(["b", "a", "b", "b"]) == ["b (and 2 more alike)", "a"]
    said = without_repeats(map(str, range(25)), 20)
    assert (len(said), said[18], said[19]) == (20, "18", "… and 6 other reasons")
