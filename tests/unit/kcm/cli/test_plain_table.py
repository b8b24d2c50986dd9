"""Tables on a narrow terminal: what is cut, what wraps, and what is never hidden."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from kcm.cli.plain_table import PlainTable

HOST = "3 kafka-3.brokers.production.eu-west-1.example.com"
FIGURES = ("48211", "144633", "NO: 12 offline, 3 under min ISR")


def printed(table: PlainTable, width: int) -> list[str]:
    """Return the lines of a table on a terminal of this width."""
    file = io.StringIO()
    Console(file=file, width=width, markup=False, emoji=False).print(table, crop=False)
    return file.getvalue().splitlines()


def brokers() -> PlainTable:
    """Return a table as `kcm status` makes it."""
    table = PlainTable("broker", "leaders", "replicas", "safe to stop", cut=("broker",))
    table.add(HOST, *FIGURES)
    return table


def test_a_wide_terminal_gets_each_row_as_one_line() -> None:
    """Nothing is cut, wrapped or narrowed."""
    lines = printed(brokers(), 200)
    assert len(lines) == 2
    assert all(text in lines[1] for text in (HOST, *FIGURES))


@pytest.mark.parametrize("width", [80, 60, 40, 20, 5])
def test_no_figure_is_hidden_however_narrow_the_terminal_is(width: int) -> None:
    """Only the host is cut, with an ellipsis, and the broker's number is in front of it."""
    text = " ".join(printed(brokers(), width))
    words = text.split()
    assert {"broker", "leaders", "replicas", "48211", "144633", "12", "offline,", "ISR"} <= {*words}
    assert "3 kafka" in text
    assert "…" in text


@pytest.mark.parametrize("width", [80, 60, 50])
def test_lines_stay_within_a_terminal_that_has_room_for_the_words(width: int) -> None:
    """A longer line would break the columns."""
    assert max(map(len, printed(brokers(), width))) <= width


def test_a_text_that_may_not_be_cut_is_whole_on_any_terminal() -> None:
    """This holds even for a word that is wider than the terminal."""
    table = PlainTable("a", "b")
    table.add("x" * 30, Text("y" * 30))
    assert "x" * 30 in printed(table, 20)[1]
    assert "y" * 30 in printed(table, 20)[1]


@pytest.mark.parametrize("text", ["[/b]", "[ops] kernel", ":smile:", "[bold]x"])
def test_markup_in_a_cell_is_text(text: str) -> None:
    """Text in a rack or a reason is shown literally."""
    table = PlainTable("rack")
    table.add(text)
    assert printed(table, 80)[1].strip() == text
