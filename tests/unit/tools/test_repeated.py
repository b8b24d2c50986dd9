"""Tests that are run many times: one that depends on luck is named, with how often it failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import repeated
from tests.support.processes import command_lines

ONE_PROCESS = ("-n0", "-p", "no:cacheprovider")

EVERY_SECOND_TIME = """
from pathlib import Path

def test_steady():
    pass

def test_of_luck(request):
    seen = Path(__file__).with_name("seen")
    seen.touch()
    seen.write_text(seen.read_text() + "x")
    assert len(seen.read_text()) % 2
"""


def test_a_test_that_fails_in_some_rounds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two rounds of three pass; the one with a failure keeps what pytest printed; nothing runs on."""
    (tmp_path / "test_luck.py").write_text(EVERY_SECOND_TIME)
    monkeypatch.chdir(tmp_path)
    busy_before = _busy()

    assert repeated.main(["3", *ONE_PROCESS, "test_luck.py"]) == 1

    printed = capsys.readouterr().out.splitlines()
    assert [line.split(" in ")[0] for line in printed] == [
        "round 1 of 3: 2 passed",
        "round 2 of 3: 1 failed, 1 passed",
        "round 3 of 3: 2 passed",
        "failed 1 of 3 times: test_luck.py::test_of_luck",
        "2 of 3 rounds without a failure",
    ]
    assert "assert" in (tmp_path / "repeated-2.txt").read_text()
    assert not (tmp_path / "repeated-1.txt").exists()
    assert _busy() == busy_before


def _busy() -> set[int]:
    return {pid for pid, line in command_lines().items() if b"while True: pass" in line}
