"""The settings that a user gives to a replay."""

from __future__ import annotations

import pytest

from kcm.__main__ import main


def test_only_the_settings_that_a_replay_needs_are_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They give the topics and the credentials, and nothing that only running parts need."""
    assert main(["replay", "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--bootstrap-servers", "--kafka-properties", "--topic-prefix", "--config"):
        assert f"\n  {option} " in shown
    for option in ("--partitions", "--metrics-host", "--log-level"):
        assert option not in shown
