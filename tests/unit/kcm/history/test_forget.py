"""`kcm forget`: its question, its refusals, its output."""

from __future__ import annotations

import io

import pytest

from kcm.__main__ import main
from kcm.history import forget as forget_module
from kcm.history.forget import check_unwatched
from pipeline.runtime import ConflictError
from tests.support.kafka_client import Client, Message, use_client
from tests.support.kafka_producer import FakeProducer, use_producer
from tests.support.samples import cluster_view, record

VIEWS = ("kcm.views", 0)


class Signs:
    """Answers of a `WatcherSigns`, one for each look."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)

    def has_written(self) -> bool:
        """Return the next answer; False after the last."""
        return self.answers.pop(0) if self.answers else False


class Clock:
    """A clock that only sleep moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


@pytest.mark.parametrize(("within_s", "ends_at_s"), [(25.0, 25.0), (0.5, 0.5), (0.0, 0.0)])
def test_a_cluster_is_unwatched_only_after_the_whole_time_without_a_sign(
    within_s: float, ends_at_s: float
) -> None:
    """The last check is after that time."""
    clock = Clock()
    check_unwatched(Signs().has_written, "prod", within_s=within_s, clock=clock, sleep=clock.sleep)
    assert clock.now_s == ends_at_s


def test_the_first_sign_of_a_watcher_ends_the_check() -> None:
    """The first sign is enough."""
    clock = Clock()
    with pytest.raises(ConflictError, match="a watcher of prod still writes: stop all"):
        check_unwatched(
            Signs(False, False, True).has_written,
            "prod",
            within_s=25,
            clock=clock,
            sleep=clock.sleep,
        )
    assert clock.now_s == 2


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    """Views of two clusters in one partition, no writer, and a record of what is written."""
    views = [record(cluster_view(name)) for name in ("old", "prod")]
    messages = [Message(VIEWS, at, key=v.key, value=v.value) for at, v in enumerate(views)]
    use_client(monkeypatch, Client(messages, ends=((0, 2),)))
    made = FakeProducer()
    use_producer(monkeypatch, made)
    monkeypatch.setattr(forget_module, "LISTEN_S", 0.0)
    monkeypatch.setattr(forget_module, "check_writable", lambda *_: None)
    return made


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_an_unconfirmed_forget_changes_nothing(
    producer: FakeProducer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
) -> None:
    """It prints what it would remove; no answer, such as from a script, counts as no."""
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert main(["forget", "old"]) == 7
    out, err = capsys.readouterr()
    assert out.startswith("old: 1 view in kcm.views; last sign of life of its watcher: 2026-11-")
    assert err.splitlines()[-1] == "kcm: nothing was done: not confirmed (--yes does not ask)"
    assert producer.written == []


@pytest.mark.parametrize("arguments", [(), ("--yes",)])
def test_a_confirmed_forget_removes_this_cluster_alone(
    producer: FakeProducer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
) -> None:
    """The yes is typed or given as an option; the result is printed."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["forget", "old", *arguments]) == 0
    assert [(topic, key) for topic, key, _ in producer.written] == [
        ("kcm.changes", "old"),
        ("kcm.views", "old/cluster"),
    ]
    assert "forgotten: old, 1 view\n" in capsys.readouterr().out


def test_an_unknown_cluster_is_refused_with_the_known_names(
    producer: FakeProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line with exit code 2."""
    assert main(["forget", "odl", "--yes"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "kcm: kcm.views has no cluster 'odl': it has old, prod\n")
    assert producer.written == []


def test_a_running_watcher_prevents_the_forget(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line with exit code 4."""
    monkeypatch.setattr(forget_module, "WatcherSigns", lambda *_: Signs(True))
    assert main(["forget", "old", "--yes"]) == 4
    expected = "kcm: a watcher of old still writes: stop all its watchers first; nothing was done"
    assert capsys.readouterr().err.splitlines()[-1] == expected
    assert producer.written == []


def test_a_watcher_that_starts_during_the_confirmation_prevents_the_forget(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the question may take an hour."""
    monkeypatch.setattr(forget_module, "WatcherSigns", lambda *_: Signs(False, True))
    assert main(["forget", "old", "--yes"]) == 4
    assert producer.written == []
