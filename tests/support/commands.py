"""Run commands in tests and get the one line that a failing one prints; print lines as they come."""

from __future__ import annotations

import sys

import pytest

from kcm.__main__ import main


def say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """Return the only line that a failing command prints, without the program's name."""
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("kcm: ")
    return line.removeprefix("kcm: ")
