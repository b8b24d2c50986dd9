"""One term of a watcher after the other."""

from __future__ import annotations

import threading
from typing import Self

import pytest

from pipeline.runtime import UnreachableError
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from zk_source.config import WatchSettings
from zk_source.election.leader_elector import SoleWatcher
from zk_source.service import service
from zk_source.service.service import LeaseLostError, LogLostError

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
    names: set[str] = set()

    class Lost:
        def __init__(self, *_: object, name: str, dropped: int) -> None:
            names.add(name)
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
    assert len(names) == 1, "the fold adds dropped changes up by name"


def test_a_lost_lease_begins_a_new_watcher_and_the_election_ends_the_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The topics are made and read before the lead is taken, and made again once it is there."""
    steps: list[object] = []
    names: list[str] = []
    stop, settings = threading.Event(), load(WatchSettings, cluster="prod", watcher_metrics_port=0)

    class Terms(SoleWatcher):
        def wait(self, stop: threading.Event) -> Self | None:
            assert not stop.is_set()
            steps.append("wait")
            return self if len(names) < 2 else None

    terms = Terms()

    class Lost:
        def __init__(self, *given: object, name: str, dropped: int) -> None:
            assert (given[0], given[1], given[3], dropped) == (settings, TOPICS, terms, 0)
            names.append(name)

        def run(self, given: object) -> None:
            assert given is stop
            steps.append("lead")
            raise LeaseLostError

    def make(*given: object, **stops: object) -> EnsuredTopics:
        assert (given, stops) == ((settings,), {"stop": stop})
        steps.append("make")
        return TOPICS

    def read(*given: object) -> None:
        assert given == (settings, TOPICS, stop)
        steps.append("read")

    monkeypatch.setattr(service, "make_elector", lambda given: terms if given is settings else None)
    monkeypatch.setattr(service, "ensure_topics", make)
    monkeypatch.setattr(service, "check_readable", read)
    monkeypatch.setattr(service, "WatcherService", Lost)
    service.run(settings, stop)
    assert steps == [*(["make", "read", "wait", "make", "lead"] * 2), "make", "read", "wait"]
    assert len(set(names)) == 2


def test_kafka_that_is_away_ends_the_part_unless_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever stops a watcher that waits for Kafka is not shown an error."""
    stop, settings = threading.Event(), load(WatchSettings, cluster="prod", watcher_metrics_port=0)
    stops = False

    def away(*_: object, **__: object) -> None:
        if stops:
            stop.set()
        raise UnreachableError("away")

    monkeypatch.setattr(service, "ensure_topics", away)
    with pytest.raises(UnreachableError):
        service.run(settings, stop)
    stops = True
    service.run(settings, stop)
