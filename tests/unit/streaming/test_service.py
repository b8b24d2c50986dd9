"""What is checked before Spark starts, and what the loop around queries does when one fails."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from pipeline.runtime import EnvironmentProblemError, KcmError
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from streaming.config import StreamSettings
from streaming.lineage import Lineage
from streaming.metrics import FoldMetrics
from streaming.service import _Fold, run
from streaming.workspace import Workspace
from tests.support.progress import PROGRESS


def fake_java(folder: Path, version: str) -> Path:
    """Write a program that answers `-version` as a Java would; return its home."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return folder


def test_missing_jars_are_named(tmp_path: Path) -> None:
    """Before anything starts, with what to do."""
    java_home = fake_java(tmp_path / "java", "17.0.1")
    settings = load(StreamSettings, connector_jars=(tmp_path / "no.jar",), java_home=java_home)
    with pytest.raises(EnvironmentProblemError, match=r"no\.jar; correct connector_jars"):
        run(settings, threading.Event())
    without = load(StreamSettings, java_home=java_home)
    with pytest.raises(EnvironmentProblemError, match="not given: set connector_jars"):
        run(without, threading.Event())


class PlayedQueries:
    """Queries that end, each after its batches and with its text, and what the fold makes of them."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, failures: Sequence[tuple[int, str]]
    ) -> None:
        """Play one query a failure: how many batches end before it, and the exception's text."""
        self.lineages: list[str] = []
        self._failures = iter(failures)
        self._batches = itertools.count()
        self._text = ""
        self._stop = threading.Event()
        topics = EnsuredTopics(topic_names("kcm"), 1, dict.fromkeys(topic_names("kcm"), "id"))
        played: dict[str, object] = {
            "ensure_topics": lambda *_, **__: topics,
            "published_lineage": lambda *_: None,
            "truncated_log": lambda *_: None,
            "start_query": self._start,
            "failure_text": lambda _: self._text,
            "Session": lambda *_: SimpleNamespace(alive=True, spark=None, close=lambda: None),
            "TopicProbe": lambda *_, **__: SimpleNamespace(
                thread=SimpleNamespace(start=_nothing, check=_nothing, close=_nothing),
                answer=None,
                failure=None,
            ),
            "Backoff": lambda **_: SimpleNamespace(next_s=lambda: 0.0, reset=_nothing),
            "POLL_S": 0,
        }
        for name, value in played.items():
            monkeypatch.setattr(f"streaming.service.{name}", value)
        self._workspace = Workspace(folder, stop=self._stop)

    def run(self) -> None:
        """Fold until the last query has failed; raises what the user would hear."""
        settings = load(StreamSettings)
        with self._workspace as workspace:
            metrics = FoldMetrics(CollectorRegistry())
            _Fold(settings, self._stop, workspace, Path("java"), metrics).run()

    def _start(self, *given: object) -> object:
        lineage = given[3]
        assert isinstance(lineage, Lineage)
        self.lineages.append(lineage.name)
        batches, self._text = next(self._failures, (0, ""))
        if not self._text:
            self._stop.set()
        ended = [next(self._batches) for _ in range(batches)]
        reports = [
            SimpleNamespace(json=msgspec.json.encode(PROGRESS | {"batchId": n})) for n in ended
        ]
        return SimpleNamespace(isActive=False, recentProgress=reports, stop=_nothing)


def _nothing(*_: object) -> None:
    """Do nothing."""


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_failures_with_batches_between_them_never_end_the_fold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are unrelated, however many there are in a year: the lineage stays."""
    played = PlayedQueries(monkeypatch, tmp_path, [(1, "who knows")] * 12)
    played.run()
    assert len(played.lineages) == 13
    assert len(set(played.lineages)) == 1


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_failures_without_a_batch_between_them_end_it_after_a_new_lineage_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second begins a lineage, the fourth ends the part with one line."""
    played = PlayedQueries(monkeypatch, tmp_path, [(1, "who knows"), *[(0, "who knows")] * 9])
    with pytest.raises(KcmError, match="fails again and again: who knows"):
        played.run()
    assert len(played.lineages) == 4
    assert len(set(played.lineages)) == 2
