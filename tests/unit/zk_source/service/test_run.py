"""One term of a watcher after the other."""

from __future__ import annotations

import threading

import pytest

from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from zk_source.config import WatchSettings
from zk_source.election.leader_elector import SoleWatcher
from zk_source.service import service
from zk_source.service.service import LogLostError

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
PAUSES = 3


class Stop(threading.Event):
    """A stop that notes the pauses, and comes after three."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Note a pause; the third one is the last."""
        self.pauses.append(timeout)
        if len(self.pauses) == PAUSES:
            self.set()
        return self.is_set()


class Election(SoleWatcher):
    """An election that is always won; counts how often the lead is given up."""

    def __init__(self) -> None:
        self.resigned = 0

    def resign(self) -> None:
        """Count it."""
        self.resigned += 1


@pytest.mark.parametrize(("sound_s", "pauses"), [(60.0, [1, 2, 4]), (-1.0, [1, 1, 1])])
def test_a_lost_log_gives_the_lead_up_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, sound_s: float, pauses: list[int]
) -> None:
    """Ever more rarely, unless the watcher ran well before; what was dropped is counted on."""
    election, stop = Election(), Stop()
    dropped: list[int] = []

    class Lost:
        def __init__(self, *_: object, dropped: int, **__: object) -> None:
            self.dropped = dropped

        def run(self, _stop: object) -> None:
            dropped.append(self.dropped)
            raise LogLostError("gone", self.dropped + 1)

    monkeypatch.setattr(service, "make_elector", lambda _settings: election)
    monkeypatch.setattr(service, "ensure_topics", lambda _settings, **_: TOPICS)
    monkeypatch.setattr(service, "check_readable", lambda *_: None)
    monkeypatch.setattr(service, "WatcherService", Lost)
    monkeypatch.setattr(service, "SOUND_S", sound_s)
    service.run(load(WatchSettings, cluster="prod", watcher_metrics_port=0), stop)
    assert (stop.pauses, election.resigned, dropped) == (pauses, PAUSES, [0, 1, 2])
