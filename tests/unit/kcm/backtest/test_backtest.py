"""`kcm backtest` refuses bad use before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.__main__ import main
from tests.support.commands import complaint


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--from", "noon"], "option --from: 'noon' is no time"),
        (["--from", "20", "--to", "10"], "--from 20 is after --to 10"),
        (
            ["--scrape-interval", "0s"],
            "option --scrape-interval: '0s' is no duration of 1s or more",
        ),
        (["--evaluation-interval", "1.5m"], "option --evaluation-interval: '1.5m' is no duration"),
        (["--label", "env"], "option --label: 'env' is not NAME=VALUE, such as env=prod"),
        (["--label", "a-b=c"], "option --label: 'a-b=c' is not NAME=VALUE"),
    ],
)
def test_bad_use_is_one_line(
    arguments: list[str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the option and what to write."""
    assert complaint(capsys, "backtest", "rules.yaml", "log.jsonl", *arguments).startswith(reported)


def test_a_missing_promtool_is_one_line_with_how_to_install_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code says that the machine lacks something."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["backtest", str(tmp_path / "rules.yaml"), "-"]) == 5
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "kcm: the program promtool is not on PATH; install it (Debian: apt install prometheus)"
    )
