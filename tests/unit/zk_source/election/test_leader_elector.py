"""A watcher may write the log at once without an election, and otherwise when it was elected."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from pipeline.runtime import EnvironmentProblemError, UnreachableError, UsageError
from pipeline.settings import load
from pipeline.topic_probe import TopicProbe
from source_log.lease import LeaseStatus, SoleWatcher
from zk_source.config import WatchSettings
from zk_source.election import leader_elector
from zk_source.election.leader_elector import LeaderElector, make_elector
from zk_source.wire.kazoo_client import Authenticating

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

TURN_S = 0.2
"""What a standby waits on in each turn."""


class FakeCandidacy:
    """A fake candidacy: connected, and not elected."""

    def __init__(self, settings: WatchSettings, identifier: str, *, on_change: Any) -> None:
        assert (settings.cluster, bool(identifier)) == ("prod", True)
        self.on_change = on_change
        self.path = "/election/prod"
        self.term = 7
        self.won = self.ended = self.is_silent_for_too_long = False
        self.silent_s = 0.0
        self.may_stand = True
        self.refused = ""
        self.connection = SimpleNamespace(
            auth_failed=False,
            last_error="a:1: down",
            tls_advice="",
            refusal=Authenticating.refusal,
        )
        self.steps: list[str] = []

    @property
    def status(self) -> LeaseStatus:
        """Valid once it has won."""
        return LeaseStatus.VALID if self.won else LeaseStatus.LOST

    def start(self) -> None:
        """Note it."""
        self.steps.append("start")

    def report_alive(self) -> None:
        """Note it."""
        self.steps.append("alive")

    def close(self) -> None:
        """Note it."""
        self.steps.append("close")


class FakeProbe:
    """A fake probe of the log, and its thread."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self.error: Exception | None = None
        """What ended its thread."""
        self.steps: list[str] = []
        self.thread = self

    def start(self) -> None:
        """Note it."""
        self.steps.append("start")

    def check(self) -> None:
        """Raise what ended it."""
        if self.error is not None:
            raise self.error

    def close(self, wait_s: float) -> None:
        """Note it."""
        assert wait_s == 0
        self.steps.append("close")


class Standby(threading.Event):
    """An elector whose waits are simulated; it also serves as the `stop` event."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        super().__init__()
        self.now_s = 100.0
        self.terms: list[FakeCandidacy] = []
        self.turn: Callable[[], None] = lambda: None
        """The actions while the elector waits for a change."""
        self.turns = 0
        self.pauses_s: list[float | None] = []
        self.probe = FakeProbe()
        monkeypatch.setattr(leader_elector, "Candidacy", self._stand)
        monkeypatch.setattr(leader_elector, "now_s", lambda: self.now_s)
        there = {"cluster": "prod", "election_path": "/election", "zookeeper": "zk:2181"}
        self.settings = load(WatchSettings, **there | settings)
        elector = make_elector(self.settings)
        assert isinstance(elector, LeaderElector)
        self.elector = elector
        monkeypatch.setattr(elector._news, "wait", self._wait_for_news)

    @property
    def term(self) -> FakeCandidacy:
        """The newest candidacy."""
        return self.terms[-1]

    def lead(self, *turns: Callable[[], object]) -> Any:
        """Wait for the lead while these things happen, one in each turn; then stop."""
        self.clear()
        left = list(turns)

        def turn() -> None:
            if left:
                left.pop(0)()
            else:
                self.set()

        self.turn = turn
        return self.elector.wait(self, lambda: cast("TopicProbe", self.probe))

    def wait(self, timeout: float | None = None) -> bool:
        """Note a pause."""
        self.pauses_s.append(timeout)
        return self.is_set()

    def _stand(self, *given: Any, **options: Any) -> FakeCandidacy:
        self.terms.append(FakeCandidacy(*given, **options))
        return self.terms[-1]

    def _wait_for_news(self, timeout_s: float) -> None:
        assert timeout_s == TURN_S
        self.turns += 1
        self.now_s += timeout_s
        self.turn()


def nothing() -> None:
    """Let a turn pass."""


def events(logged: list[Any]) -> list[str]:
    """Return the lines that were logged."""
    return [entry["event"] for entry in logged]


def test_without_an_election_path_no_candidacy_is_started() -> None:
    """The watcher runs alone, and connects to no election."""
    assert isinstance(make_elector(load(WatchSettings)), SoleWatcher)


def test_a_standby_logs_once_and_leads_as_soon_as_it_is_elected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then its main loop works. For the next term it is a candidate again, and logs that again.

    An outage after a term began with the wait, not in the outage before the term.
    """
    standby = Standby(monkeypatch)
    term = standby.term

    def win() -> None:
        term.won = True

    with structlog.testing.capture_logs() as logged:
        assert standby.lead(nothing, nothing, win) is term
    assert events(logged) == ["standing by for election", "elected: this watcher leads"]
    assert (logged[0]["path"], logged[1]["czxid"]) == (term.path, term.term)
    assert (term.steps, standby.turns) == (["start"], 3)
    term.won = False
    with structlog.testing.capture_logs() as logged:
        assert standby.lead(nothing) is None
    assert events(logged) == ["standing by for election"]
    assert standby.terms == [term]
    assert not standby.pauses_s
    standby.now_s += 3_600
    term.silent_s = 1.0
    with structlog.testing.capture_logs() as logged:
        standby.lead(*[nothing] * 12)
    (line,) = events(logged)
    assert "does not answer (for 2 s)" in line


def test_a_change_during_the_lease_check_is_handled_without_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A standby takes over at once, not at its next poll."""
    standby = Standby(monkeypatch)
    standby.term.on_change()
    seen: list[bool] = []
    warn = standby.elector._warn

    def win(given: Any) -> None:
        seen.append(standby.elector._news.is_set())
        standby.term.on_change()
        warn(given)

    monkeypatch.setattr(standby.elector, "_warn", win)
    standby.lead(lambda: seen.append(standby.elector._news.is_set()))
    assert seen[:2] == [False, True]


def test_a_candidacy_that_ended_or_is_silent_for_too_long_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old candidacy is closed first, and an ensemble that refuses each one is not flooded with new ones."""
    standby = Standby(monkeypatch)

    def end() -> None:
        standby.term.ended = True

    def fall_silent() -> None:
        standby.term.is_silent_for_too_long = True

    def win() -> None:
        standby.term.won = True

    assert standby.lead(end, nothing, fall_silent, win) is standby.term
    assert [term.steps for term in standby.terms] == [
        *[["start", "close"]] * 2,
        ["start"],
    ]
    assert standby.pauses_s == [TURN_S, TURN_S]


def test_an_election_that_never_answered_ends_a_watcher_that_fails_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends after two seconds, with advice. Without fail_fast, or once the election has answered, the watcher waits."""
    standby = Standby(monkeypatch, fail_fast=True)
    standby.term.silent_s = 1.0
    with pytest.raises(UnreachableError, match=r"zk:2181 does not answer .* a:1: down; .*names it"):
        standby.lead(*[nothing] * 20)
    assert standby.turns == 10

    def answer() -> None:
        standby.term.silent_s = 0.0

    def fall_silent() -> None:
        standby.term.silent_s = 1.0

    standby = Standby(monkeypatch, fail_fast=True)
    standby.term.silent_s = 1.0
    with structlog.testing.capture_logs() as logged:
        standby.lead(nothing, answer, nothing, fall_silent, *[nothing] * 40)
    standing, *silent = events(logged)
    assert standing == "standing by for election"
    assert [line.partition(" (")[0] for line in silent] == [
        "the election's ZooKeeper at zk:2181 does not answer"
    ] * 3
    patient = Standby(monkeypatch, fail_fast=False)
    patient.term.silent_s = 1.0
    with structlog.testing.capture_logs() as logged:
        patient.lead(*[nothing] * 12)
    assert len(logged) == 1


def test_an_outage_begins_when_the_election_answered_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the standby has waited until then: a short silence is not reported as a long one."""
    standby = Standby(monkeypatch)

    def wait_long() -> None:
        standby.now_s += 3_600

    def fall_silent() -> None:
        standby.term.silent_s = 1.0

    with structlog.testing.capture_logs() as logged:
        standby.lead(wait_long, fall_silent, *[nothing] * 12)
    standing_by, line = events(logged)
    assert standing_by == "standing by for election"
    assert "does not answer (for 2 s)" in line


def test_a_chroot_that_is_found_missing_after_the_connection_ends_a_watcher_that_fails_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While that is being checked, the ensemble does not count as one that was reached."""
    standby = Standby(monkeypatch, fail_fast=True)
    standby.term.may_stand = False

    def find_none() -> None:
        standby.term.refused = "the chroot /c: it is not there"

    with (
        structlog.testing.capture_logs() as logged,
        pytest.raises(UsageError, match="refused the chroot /c"),
    ):
        standby.lead(nothing, find_none, *[nothing] * 20)
    assert logged == []


def test_a_refusal_by_the_election_ensemble_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing credentials and rights end the watcher; the chroot may be created while it waits."""
    standby = Standby(monkeypatch)
    standby.term.refused = "the chroot /c: it is not there"
    with structlog.testing.capture_logs() as logged:
        standby.lead(*[nothing] * 12)
    (line,) = events(logged)
    assert line.endswith("at zk:2181 refused the chroot /c: it is not there; correct the chroot")
    standby.term.ended = True
    with pytest.raises(EnvironmentProblemError, match=r"refused the chroot .*allow CREATE"):
        standby.lead(nothing)
    standby = Standby(monkeypatch)
    standby.term.connection.auth_failed = True
    with pytest.raises(
        EnvironmentProblemError, match="zk:2181 refused the credentials in zk_auth: correct them"
    ):
        standby.lead(nothing)


def test_a_standby_that_does_not_reach_the_log_is_no_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So whoever leads knows from the candidates whether another would do better. It stands again when it does."""
    standby = Standby(monkeypatch)
    first = standby.term

    def lose() -> None:
        standby.probe.failure = "timed out"

    def find() -> None:
        standby.probe.failure = None

    def win() -> None:
        standby.term.won = True

    with structlog.testing.capture_logs() as logged:
        assert standby.lead(nothing, lose, nothing, nothing, find, win) is standby.term
    assert events(logged) == [
        "standing by for election",
        "the log is out of reach: no candidate",
        "standing by for election",
        "elected: this watcher leads",
    ]
    assert (first.steps, standby.term.steps) == (["start", "close"], ["start"])
    assert len(standby.terms) == 2
    assert standby.probe.steps == ["start", "close"]


def test_who_does_not_reach_the_log_notes_no_outage_of_the_election(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not ask the election's ZooKeeper. That has its time to answer once the log is reached."""
    standby = Standby(monkeypatch, fail_fast=True)
    standby.probe.failure = "timed out"
    standby.term.silent_s = 1.0

    def wait_long() -> None:
        standby.now_s += 3_600

    def find() -> None:
        standby.probe.failure = None

    def answer() -> None:
        standby.term.silent_s = 0.0

    with structlog.testing.capture_logs() as logged:
        assert standby.lead(wait_long, find, nothing, answer, nothing) is None
    assert events(logged) == ["standing by for election"]


def test_a_probe_that_died_ends_the_wait_for_the_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would learn any more whether the log is out of reach."""
    standby = Standby(monkeypatch)

    def die() -> None:
        standby.probe.error = LookupError("the probe")

    with pytest.raises(LookupError, match="the probe"):
        standby.lead(nothing, die, nothing)
    assert standby.probe.steps == ["start", "close"]


def test_who_never_reached_the_log_never_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would win, and write nothing."""
    standby = Standby(monkeypatch)
    standby.probe.failure = "timed out"
    assert standby.lead(nothing, nothing) is None
    assert standby.term.steps == []


def test_after_a_resignation_the_next_wait_stands_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is given up at once: others need not wait for the end of the session."""
    standby = Standby(monkeypatch)
    standby.term.won = True
    standby.lead()
    standby.elector.resign()
    first, second = standby.terms
    assert (first.steps, second.steps) == (["close"], [])
    assert standby.lead(nothing) is None
    assert second.steps == ["start"]
    standby.elector.close()
    assert second.steps == ["start", "close"]
    assert len(standby.terms) == 2
