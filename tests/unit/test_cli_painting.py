"""How wide a line may be: one rule for screens, sentences and tables."""

import sys

import pytest

from hpc.autoscale.cli.painting import screen_width, table_width, text_width


@pytest.mark.parametrize(
    ("columns", "screen", "text"), [("80", 80, 80), ("200", 200, 100), ("3", 40, 40), ("x", 80, 80)]
)
def test_as_wide_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str, screen: int, text: int
) -> None:
    """Sentences up to 100 characters, and nothing below 40."""
    monkeypatch.setenv("COLUMNS", columns)
    assert (screen_width(), text_width()) == (screen, text)


def test_tables_that_programs_read_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those on a terminal are cut."""
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert table_width() is None
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert table_width() == 70
