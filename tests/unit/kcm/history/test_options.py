"""What a user gives to a replay: its settings."""

from __future__ import annotations

import pytest

from kcm.__main__ import main


def test_only_the_settings_that_a_replay_needs_are_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where the topics are, and how to log in; nothing of parts that run."""
    assert main(["replay", "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--bootstrap-servers", "--kafka-properties", "--topic-prefix", "--config"):
        assert f"\n  {option} " in shown
    for option in ("--partitions", "--metrics-host", "--log-level"):
        assert option not in shown
