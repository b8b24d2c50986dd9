"""`kcm maintenance` on a real Kafka and the real exporter: marked, shown, ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from controller_model.records.changes import SessionState
from kcm.__main__ import main
from kcm.processes.ports import free_port
from kcm.stack.kafka import KraftBroker
from pipeline.maintenance import maintenance_topic, mark_key
from pipeline.topics import client_properties, ensure_topics
from tests.component.exporter.test_exporter import (
    Exporter,
    fresh_cluster,
    make_settings,
    now_ms,
    running,
)
from tests.support.samples import as_of, broker_view, log_view, topic_view
from tests.support.waiting import wait_until


class Command:
    """`kcm maintenance` against one exporter."""

    def __init__(self, exporter: Exporter, capsys: pytest.CaptureFixture[str]) -> None:
        self.exporter = exporter
        self._capsys = capsys

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run it, which must end so, and return what it printed, on either stream."""
        self._capsys.readouterr()
        url = ("--exporter", self.exporter.url)
        assert main(["maintenance", *arguments, *url]) == code, self._capsys.readouterr()
        captured = self._capsys.readouterr()
        assert bool(captured.err) == bool(code)
        return captured.out + captured.err

    def status(self) -> str:
        """Return what `kcm status` prints."""
        self._capsys.readouterr()
        assert main(["status", "--exporter", self.exporter.url]) == 0
        return self._capsys.readouterr().out

    def sample(self, broker: int, name: str = "kcm_broker_maintenance") -> float | None:
        """Return a broker's sample in /metrics."""
        return self.exporter.sample(name, cluster="prod", broker=str(broker))

    def planned(self) -> list[Any]:
        """Return the marks as the API tells them."""
        answer = self.exporter.get("/api/v1/clusters/prod/maintenance").json()
        marks: list[Any] = answer["planned"]
        return marks


def _holds(words: str) -> Callable[[str], bool]:
    return lambda told: words in told


@pytest.fixture
def command(pipeline_broker: KraftBroker, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """A running exporter of one cluster of two brokers, and the command."""
    settings = make_settings(pipeline_broker.bootstrap_servers)
    with running(settings) as exporter:
        wait_until(exporter.is_ready, deadline_s=30)
        exporter.write(
            broker_view(0, replicas=2, in_isr=2),
            broker_view(1, replicas=2, in_isr=2),
            topic_view("t"),
            fresh_cluster(),
        )
        wait_until(lambda: exporter.sample("kafka_broker_leaders", broker="1") is not None)
        wait_until(
            lambda: exporter.get("/api/v1/clusters/prod/maintenance").json()["written_to"],
            deadline_s=20,
        )
        yield Command(exporter, capsys)


def test_a_mark_is_in_force_when_the_command_ends(command: Command) -> None:
    """It needs no address of Kafka; metric and API have it at once, and other brokers have not."""
    assert "muted until then" in command.run("start", "--broker", "1", "--for", "30m")
    assert command.sample(1) == 1
    assert command.sample(0) is None
    until = command.sample(1, "kcm_broker_maintenance_end_timestamp_seconds")
    (mark,) = command.planned()
    assert until is not None
    assert mark["until"] == round(until * 1000)
    assert mark["until"] - mark["started_at"] == 30 * 60_000


def test_a_broker_that_is_not_safe_to_stop_is_told_so(command: Command) -> None:
    """It is marked, because a mark stops nothing, and whoever is about to is warned."""
    at = as_of(11)
    command.exporter.write(broker_view(1, at, offline_if_lost=1), fresh_cluster("prod", at))
    wait_until(lambda: command.sample(1, "kafka_broker_safe_to_stop"), lambda safe: safe == 0)
    out = command.run("start", "--broker", "0", "--broker", "1", "--for", "30m")
    assert "broker 1 is NOT safe to stop now: 1 partition would go offline" in out
    assert "broker 0 is NOT safe" not in out


def test_a_mark_set_on_figures_that_are_not_live_says_so(command: Command) -> None:
    """It is set, for it stops nothing; silence about a broker must not be taken for safety."""
    at = as_of(11)
    blind = log_view(session=SessionState.LOST, heartbeat_at=now_ms())
    command.exporter.write(fresh_cluster("prod", at, log=blind))
    wait_until(command.status, _holds("figures are blind"))
    out = command.run("start", "--broker", "0", "--for", "30m", "--reason", "see [/runbook]")
    assert "\nthe figures of prod are blind" in out
    assert "see [/runbook]" in command.run("status")


def test_a_mark_ends_by_command_and_all_of_them_without_a_broker(command: Command) -> None:
    """What has ended is gone from the metrics when the command ends; nothing to end is no error."""
    command.run("start", "--broker", "0", "--broker", "1", "--for", "30m", "--reason", "3.9.1")
    assert "broker 1: planned work has ended" in command.run("end", "--broker", "1")
    assert (command.sample(0), command.sample(1)) == (1, None)
    assert "brokers with some: 0" in command.run("end", "--broker", "1", code=2)
    assert "broker 0" in command.run("end")
    assert command.sample(0) is None
    assert "no work is planned" in command.run("end")


def test_progress_is_told_from_stop_to_caught_up(command: Command) -> None:
    """Each stage of a restart is a line of its own, with the replicas that are in sync."""
    command.run("start", "--broker", "1", "--for", "30m", "--reason", "disk \x1b[2J")
    assert "not stopped yet" in command.run("status")
    for broker, words in (
        (broker_view(1, as_of(11), live=False, replicas=2), "down for"),
        (broker_view(1, as_of(12), epoch=7, replicas=2, in_isr=1), "catching up"),
        (broker_view(1, as_of(13), epoch=7, replicas=2, in_isr=2), "in every ISR"),
    ):
        command.exporter.write(broker, fresh_cluster("prod", broker.as_of))
        shown = wait_until(lambda: command.run("status"), _holds(words))
        assert "\x1b" not in shown
    assert "1 of 1 done" in shown
    assert "yes, planned work" in command.status()
    assert "2 of 2" in shown
    told = json.loads(command.run("status", "--json"))
    assert told["planned"][0]["progress"] == "caught_up"


def test_overlapping_work_is_refused_unless_it_replaces(command: Command) -> None:
    """Nothing is written when one of the brokers is marked; --replace moves the end alone."""
    command.run("start", "--broker", "1", "--for", "1h", "--reason", "first")
    before = command.planned()
    line = command.run("start", "--broker", "0", "--broker", "1", "--for", "2h", code=4)
    assert "work on broker 1 is planned already, until 20" in line
    assert "(first)" in line
    assert command.planned() == before
    command.run("start", "--broker", "1", "--for", "2h", "--replace")
    (after,) = command.planned()
    assert after["until"] > before[0]["until"]
    assert {**after, "until": 0} == {**before[0], "until": 0}


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("--broker", "7", "--for", "30m"), 2, "has no broker 7; known: 0, 1"),
        (("--broker", "1", "--for", "25h"), 2, "--for"),
        (("--broker", "1", "--for", "soon"), 2, "'soon'"),
        (("--for", "30m"), 2, "--broker"),
        (("--broker", "1", "--for", "30m", "--cluster", "nope"), 2, "'nope'; known: prod"),
        (
            ("--broker", "1", "--for", "30m", "--topic-prefix", "nope"),
            2,
            "no topic nope.maintenance",
        ),
    ],
)
def test_a_mistake_is_one_line_and_marks_nothing(
    command: Command, arguments: tuple[str, ...], code: int, named: str
) -> None:
    """What is wrong is named, and what there is."""
    line = command.run("start", *arguments, code=code)
    assert named in line
    assert len(line.splitlines()) == 1
    assert command.planned() == []


def test_a_kafka_that_is_away_is_told_with_its_address(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left to believe that something is muted."""
    monkeypatch.setattr("kcm.maintenance.marks.WRITTEN_WITHIN_S", 1.0)
    away = f"127.0.0.1:{free_port()}"
    options = ("--broker", "1", "--for", "30m", "--bootstrap-servers", away)
    line = command.run("start", *options, code=3)
    assert away in line
    assert "nothing is muted" in line


def test_an_exporter_that_starts_later_knows_the_marks(command: Command) -> None:
    """Marks are in the topic, so a second exporter shows them; damaged ones do not stop it."""
    command.run("start", "--broker", "1", "--for", "30m")
    settings = command.exporter.settings
    topic = maintenance_topic(settings.topic_prefix)
    command.exporter.producer.produce(topic, key=b"rubbish", value=b"\xff")
    command.exporter.producer.produce(topic, key=mark_key("prod", 0), value=b"{}")
    assert command.exporter.producer.flush(10) == 0
    with running(settings.model_copy(update={"port": free_port()})) as second:
        wait_until(second.is_ready, deadline_s=30)
        wait_until(
            lambda: second.sample("kcm_broker_maintenance", broker="1"),
            lambda value: value == 1,
            deadline_s=30,
        )
        assert second.sample("kcm_broker_maintenance", broker="0") is None
        assert second.sample("kcm_exporter_unreadable_records_total", topic=topic) == 2


def test_a_topic_that_was_deleted_is_made_anew_and_its_marks_are_over(command: Command) -> None:
    """The exporter goes on, and shows what the topic holds; new marks find it again."""
    command.run("start", "--broker", "1", "--for", "30m")
    settings = command.exporter.settings
    admin = AdminClient(client_properties(settings))
    topic = maintenance_topic(settings.topic_prefix)
    admin.delete_topics([topic])[topic].result(10)
    wait_until(command.planned, lambda marks: marks == [], deadline_s=30)
    command.run("start", "--broker", "0", "--for", "30m")
    assert command.sample(0) == 1


def test_the_topic_is_compacted_and_as_often_replicated_as_the_views(command: Command) -> None:
    """Old marks are forgotten by Kafka, never the newest of a broker."""
    settings = command.exporter.settings
    ensured = ensure_topics(settings, stop=threading.Event())
    assert maintenance_topic(settings.topic_prefix) not in ensured.ids
    topic = maintenance_topic(settings.topic_prefix)
    metadata = AdminClient(client_properties(settings)).list_topics(topic, timeout=10)
    assert len(metadata.topics[topic].partitions) == 1
