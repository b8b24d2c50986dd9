"""Commands as tests run them: the one line with which a wrong one fails."""

from __future__ import annotations

import pytest

from kcm.__main__ import main


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """Return the only line with which a command fails, without our name."""
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("kcm: ")
    return line.removeprefix("kcm: ")
