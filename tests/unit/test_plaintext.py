"""Text from outside is one line, and acts on no terminal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.errors import AutoscaleError, ConfigurationException
from hpc.autoscale.plaintext import columns_of, cut_start_to, cut_to, on_its_lines, on_one_line
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
