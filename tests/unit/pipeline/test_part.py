"""A part that runs alone, from its settings to its exit code."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from pipeline.part import main_of_part
from pipeline.runtime import ConflictError, finish_log
from pipeline.settings import PipelineSettings


@pytest.mark.usefixtures("signals_as_before", "no_settings_of_the_machine")
def test_a_part_alone_runs_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes its settings from the environment, and gets the event that a signal sets."""
    monkeypatch.setenv("KCM_TOPIC_PREFIX", "other")
    seen = []

    def run(settings: PipelineSettings, stop: threading.Event) -> None:
        seen.append(settings.topic_prefix)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set()

    assert main_of_part("watch", PipelineSettings, run) == 0
    assert seen == ["other"]


@pytest.mark.usefixtures("signals_as_before", "no_settings_of_the_machine")
def test_the_error_of_a_single_part_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The line begins with the command's verb, and the exit code is that of the error."""

    def run(_settings: PipelineSettings, _stop: threading.Event) -> None:
        raise ConflictError("somebody else has it")

    assert main_of_part("export", PipelineSettings, run) == 4
    assert finish_log()
    assert capsys.readouterr().err == "kcm export: somebody else has it\n"
