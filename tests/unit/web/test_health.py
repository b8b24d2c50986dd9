"""What a part's /healthz and its figures say of its main loop and its log."""

from __future__ import annotations

import asyncio
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request

from pipeline.build import revision
from pipeline.queued_file import QueuedFile
from web.health import PartHealth


class Part:
    """A part whose main loop's age the test sets; a moment's wait takes no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.registry = CollectorRegistry()
        self.ages_s = [0.0]
        self.waits_s: list[float] = []
        self.health = PartHealth(self.registry, self._age)
        monkeypatch.setattr("web.health.asyncio.sleep", self._sleep)

    def _age(self) -> float:
        return self.ages_s[0]

    async def _sleep(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        if len(self.ages_s) > 1:
            self.ages_s.pop(0)

    def asked(self) -> tuple[int, Any]:
        """Return the status and the body of /healthz."""
        answer = asyncio.run(self.health.answer(Request({"type": "http"})))
        return answer.status_code, json.loads(bytes(answer.body))


def test_a_loop_that_turns_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is at something long: each part's turns take less than the limit."""
    part = Part(monkeypatch)
    for part.ages_s[0] in (0.0, 60.0):
        assert part.asked() == (200, {"alive": True})
    assert not part.health.hangs
    assert not part.waits_s


def test_a_loop_that_does_not_turn_is_answered_by_503_and_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one line, with for how long."""
    part = Part(monkeypatch)
    part.ages_s = [74.8]
    reason = "the main loop has not turned for 75 s: it hangs; restart this part"
    assert part.asked() == (503, {"alive": False, "reason": reason})
    assert part.health.hangs
    assert part.registry.get_sample_value("kcm_main_loop_age_seconds") == 74.8


def test_a_process_that_goes_on_after_a_pause_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may be asked before its main loop has had a moment to turn."""
    part = Part(monkeypatch)
    part.ages_s = [3_600.0, 0.2]
    assert part.asked() == (200, {"alive": True})
    assert part.waits_s == [1.0]


def test_lost_lines_of_the_log_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """None are lost where the log needs no queue."""
    registry = Part(monkeypatch).registry
    assert registry.get_sample_value("kcm_log_lost_lines_total") == 0
    log = QueuedFile(sys.stderr, lambda lines: f"{lines} lost")
    log.lost_lines = 7
    monkeypatch.setattr(sys, "stderr", log)
    assert registry.get_sample_value("kcm_log_lost_lines_total") == 7


def test_each_part_says_which_build_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The version of the installed package; in a checkout, whose files may change, no revision."""
    labels = {
        "version": version("kafka-controller-monitor"),
        "revision": "unknown",
        "python": platform.python_version(),
    }
    assert Part(monkeypatch).registry.get_sample_value("kcm_build_info", labels) == 1
    built = tmp_path / "revision.txt"
    built.write_text("0123abc-dirty\n")
    assert revision(built) == "0123abc-dirty"
