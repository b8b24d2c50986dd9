"""How a command ends: one line and an exit code for each kind of error."""

from __future__ import annotations

import pytest

from kcm.cli.exits import describe, print_error
from pipeline.runtime import ConflictError, EnvironmentProblemError, UnreachableError, UsageError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (UnreachableError("x"), 3),
        (ConflictError("x"), 4),
        (EnvironmentProblemError("x"), 5),
        (RuntimeError("x\ny"), 1),
    ],
)
def test_each_error_has_one_line_and_its_exit_code(error: Exception, code: int) -> None:
    """The exit code gives the kind of trouble, and the message is one line."""
    text, exit_code = describe(error)
    assert exit_code == code
    assert len(text.splitlines()) == 1


def test_what_an_error_repeats_does_not_steer_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A name in a stranger's file may hold any character."""
    assert print_error(UsageError("no topic a\x1b[2Jb\x9b1m\n \tat log")) == 2
    assert capsys.readouterr().err == "kcm: no topic a?[2Jb?1m\n        at log\n"
