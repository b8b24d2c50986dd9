"""Times and names as people write and read them."""

from __future__ import annotations

import pytest

from kcm.cli.text import printable, read_milliseconds, time_text
from pipeline.runtime import UsageError


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 1_795_251_600_123])
def test_a_time_that_is_printed_is_read_again(milliseconds: int) -> None:
    """It keeps its milliseconds."""
    assert read_milliseconds("--at", time_text(milliseconds)) == milliseconds


def test_a_time_out_of_the_calendar_is_printed_as_it_is() -> None:
    """A damaged record may hold any number."""
    assert time_text(10**18) == str(10**18)
    assert time_text(-(10**18)) == str(-(10**18))


def test_a_bad_time_names_the_option() -> None:
    """The user then knows which of two times is bad."""
    with pytest.raises(UsageError, match="option --from: 'noon' is no time"):
        read_milliseconds("--from", "noon")


@pytest.mark.parametrize(
    ("text", "shown"), [("t\x1b[2J", "t?[2J"), ("a\nb", "a?b"), ("ünï", "ünï"), ("\u202ex", "?x")]
)
def test_no_text_steers_a_terminal(text: str, shown: str) -> None:
    """Escapes, line ends and bidirectional marks are replaced; letters stay."""
    assert printable(text) == shown
