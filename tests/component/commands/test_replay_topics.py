"""`kcm replay --from-topic` and `kcm bundle` on real topics."""

from __future__ import annotations

import json
import threading
import uuid
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from controller_model.records.changes import ZnodeChange, encode_change
from controller_model.records.event_records import encode_event, number
from controller_model.records.events import AnyEvent
from kcm.__main__ import main
from kcm.history.bundle_file import AFTER_NAME, BEFORE_NAME, EVENTS_NAME, LOG_NAME, read_manifest
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from pipeline.settings import PipelineSettings, load
from pipeline.topics import EnsuredTopics, ensure_topics
from tests.support.histories import Fold, History, encode_changes, small_cluster
from tests.support.waiting import DEADLINE_S

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

HOUR_MS = 3_600_000


class Topics:
    """Topics of one test, and a writer."""

    def __init__(self, broker: KraftBroker, partitions: int) -> None:
        self.prefix = f"replay-{uuid.uuid4().hex[:8]}"
        self.settings = load(
            PipelineSettings,
            bootstrap_servers=broker.bootstrap_servers,
            topic_prefix=self.prefix,
            partitions=partitions,
        )
        self.ensured: EnsuredTopics = ensure_topics(self.settings, stop=threading.Event())
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})

    @property
    def options(self) -> list[str]:
        """The options that name them."""
        return [
            "--bootstrap-servers",
            self.settings.bootstrap_servers,
            "--topic-prefix",
            self.prefix,
        ]

    def append_new(self, changes: Sequence[ZnodeChange], *, at_a_time: int = 5) -> None:
        """Append changes to the log."""
        for start in range(0, len(changes), at_a_time):
            self.append(
                self.ensured.names.changes, encode_changes(changes[start : start + at_a_time])
            )

    def append_events(self, cluster: str, events: Iterable[AnyEvent]) -> None:
        """Append events, as the fold would."""
        for record in number(cluster, "l1", events):
            self.append(self.ensured.names.events, encode_event(record))

    def append(self, topic: str, value: bytes, *, partition: int = 0) -> None:
        """Append any message."""
        self._producer.produce(topic, value=value, partition=partition)
        assert self._producer.flush(DEADLINE_S) == 0


@pytest.fixture
def topics(pipeline_broker: KraftBroker) -> Topics:
    """Topics of one partition."""
    return Topics(pipeline_broker, 1)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    """Run kcm; return what it wrote to standard output and standard error."""
    capsys.readouterr()
    assert main(arguments) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def snapshot_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return the snapshot that `kcm replay` prints."""
    out, _ = run(capsys, "replay", "--json", *arguments)
    answer: dict[str, Any] = json.loads(out)
    return answer


def incident() -> History:
    """A day in a cluster's life: two resyncs, and a broker that dies after the second."""
    history = small_cluster()
    history.heartbeat()
    history.broker(7)
    history.now += HOUR_MS
    history.resync()
    history.heartbeat()
    history.broker_gone(0)
    history.elect(1)
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    history.heartbeat()
    return history


def test_the_log_is_read_from_its_topic(
    topics: Topics, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """--from-topic gives what a file with the same changes gives, to its last byte."""
    history = incident()
    topics.append_new(history.changes)
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"".join(encode_change(change) + b"\n" for change in history.changes))
    from_file, _ = run(capsys, "replay", str(file), "--json")
    from_topic, err = run(capsys, "replay", "--from-topic", *topics.options, "--json")
    assert from_topic == from_file
    assert err == ""
    assert json.loads(from_topic)["complete"] is True


def test_a_cluster_is_found_among_partitions(
    pipeline_broker: KraftBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a name every partition is read, one of them is enough, and damage names its place."""
    topics = Topics(pipeline_broker, 3)
    name = topics.ensured.names.changes
    topics.append(name, b"no json", partition=1)
    history = incident()
    topics.append(name, encode_changes(history.changes), partition=2)
    out, err = run(capsys, "replay", "--from-topic", *topics.options, "--json")
    answer = json.loads(out)
    assert (answer["cluster"], answer["counts"]["unreadable"]) == ("prod", 1)
    assert f"{name}[1]@0: unreadable" in err


def test_a_topic_that_is_not_there_is_reported_and_not_made(
    topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped prefix is one line; reading creates nothing."""
    for _ in range(2):
        options = ["--bootstrap-servers", topics.settings.bootstrap_servers]
        out, err = run(
            capsys, "replay", "--from-topic", *options, "--topic-prefix", "nobody", code=2
        )
        assert out == ""
        assert err.startswith("kcm: there is no topic nobody.changes at ")
        assert len(err.splitlines()) == 1


@pytest.mark.full
def test_a_kafka_that_does_not_answer_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """An unreachable Kafka is one line and exit code 3."""
    options = ["--bootstrap-servers", f"127.0.0.1:{free_port()}"]
    out, err = run(capsys, "replay", "--from-topic", *options, code=3)
    assert out == ""
    assert "does not answer" in err
    assert len(err.splitlines()) == 1


def test_an_empty_topic_is_reported(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to replay is one line."""
    _, err = run(capsys, "replay", "--from-topic", *topics.options, code=2)
    assert err == "kcm: there is no change in the log\n"


def test_a_bundle_holds_the_incident_and_replays_to_the_same(
    topics: Topics, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The log begins at the last resync before --from; facts at both ends are the whole log's."""
    history = incident()
    fold = Fold()
    topics.append_new(history.changes)
    topics.append_events("prod", fold.follow(history))
    resyncs = [change for change in history.changes if change.kind == "resync_started"]
    ended = next(c for c in reversed(history.changes) if c.kind == "resync_finished")
    begin, end = ended.observed_at + 1, history.changes[-1].observed_at
    file = tmp_path / "incident.zip"
    span = ["--from", str(begin), "--to", str(end)]
    out, err = run(capsys, "bundle", *topics.options, *span, "--output", str(file))
    assert out.startswith(f"{file}: cluster prod, ")
    assert "missing" not in err
    manifest = read_manifest(file)
    assert manifest.missing == ()
    assert manifest.log_first == resyncs[-1].position
    assert manifest.log_last == history.changes[-1].position
    assert manifest.at_from == ended.position
    with zipfile.ZipFile(file) as bundle:
        lines = bundle.read(LOG_NAME).splitlines()
        events = [json.loads(line) for line in bundle.read(EVENTS_NAME).splitlines()]
        before, after = (json.loads(bundle.read(name)) for name in (BEFORE_NAME, AFTER_NAME))
    assert len(lines) == manifest.changes == history.changes[-1].seq - resyncs[-1].seq + 1
    assert {event["event"]["kind"] for event in events} >= {"ControllerElected", "BrokerStopped"}
    assert len(events) == manifest.events
    assert all(begin <= event["event"]["at"] <= end for event in events)
    assert snapshot_of(capsys, str(file)) == after
    assert snapshot_of(capsys, str(file), "--at", str(begin)) == before
    whole = snapshot_of(capsys, "--from-topic", *topics.options)
    for facts in ("topics", "pending", "complete"):
        assert after[facts] == whole[facts]
    assert after["controller"]["id"] == whole["controller"]["id"] == 1


def test_a_bundle_says_what_the_log_does_not_hold(
    topics: Topics, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A log without a resync before --from, and no events: answer here, in the file, and at replay."""
    history = incident()
    topics.append_new(history.changes[3:12])
    file = tmp_path / "incident.zip"
    last = history.changes[11]
    span = ["--from", str(history.changes[3].observed_at - 5), "--to", str(last.observed_at)]
    _, err = run(capsys, "bundle", *topics.options, *span, "--output", str(file))
    manifest = read_manifest(file)
    assert manifest.at_from is None
    assert len(manifest.missing) == 3
    for reason in manifest.missing:
        assert f"kcm: missing: {reason}" in err
    out, err = run(capsys, "replay", str(file), "--json")
    assert [line for line in err.splitlines() if "incident.zip: " in line]
    assert json.loads(out)["as_of"]["seq"] == last.seq
