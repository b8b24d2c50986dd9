"""The lines of `kcm doctor` about the pipeline's Kafka and the cluster that is shown."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcm.doctor import kafka
from kcm.doctor.findings import Finding, Level
from kcm.doctor.kafka import _topic, check_kafka, same_cluster, shown_cluster
from pipeline.settings import PipelineSettings, load
from pipeline.topics import topic_names, topic_settings

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


def test_why_kafka_does_not_answer_is_told_before_the_check_is_given_up() -> None:
    """Nothing listens there: the line says so, and not only that the check took too long."""
    settings = load(PipelineSettings, bootstrap_servers="127.0.0.1:1")
    (finding,) = check_kafka(settings, within_s=0.5).findings
    assert finding.level is Level.FAIL
    assert "127.0.0.1:1 does not answer: " in finding.text
    assert "Connection refused" in finding.text


def test_a_kafka_without_sasl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the setting that asks for SASL."""
    told = (
        "sasl_plaintext://k:1/bootstrap: SASL PLAIN mechanism handshake failed: Broker: Request not valid in "
        "current SASL state: broker's supported mechanisms:  (after 0ms in state AUTH_HANDSHAKE)"
    )

    class Admin:
        def __init__(self, properties: dict[str, Any], **_options: Any) -> None:
            self._report = properties["error_cb"]

        def describe_cluster(self, **_options: Any) -> Future[None]:
            answer: Future[None] = Future()
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
            return answer

        def poll(self, _timeout_s: float) -> None:
            self._report(KafkaError(KafkaError._AUTHENTICATION, told))

    monkeypatch.setattr(kafka, "AdminClient", Admin)
    settings = load(PipelineSettings, bootstrap_servers="k:1")
    (finding,) = check_kafka(settings, within_s=1.0).findings
    assert (finding.text, finding.todo) == (
        "k:1: sasl_plaintext://k:1/bootstrap: this port has no SASL, which security.protocol asks for",
        "check kafka_properties",
    )


def test_a_pipeline_on_the_watched_kafka_is_a_warning() -> None:
    """Equal ids are a warning; a missing id is not measured."""
    assert same_cluster("a", "b").level is Level.OK
    assert same_cluster("a", "a").level is Level.WARN
    assert same_cluster(None, "a").level is Level.UNKNOWN
    assert same_cluster("a", None).level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("watched", "shown", "level", "words"),
    [
        ("a", {"prod": "a", "stage": "b"}, Level.OK, "as prod"),
        ("b", {"prod": "a"}, Level.FAIL, "this ZooKeeper: cluster b; the exporter shows prod (a)"),
        ("b", {"prod": "a", "stage": None}, Level.UNKNOWN, "does not know"),
        ("b", {}, Level.UNKNOWN, "shows no cluster"),
        (None, {"prod": "a"}, Level.UNKNOWN, "/cluster/id"),
    ],
)
def test_an_exporter_that_shows_another_cluster_fails(
    watched: str | None, shown: dict[str, str | None], level: Level, words: str
) -> None:
    """The ZooKeeper of one cluster with the exporter of another must not pass."""
    finding = shown_cluster(watched, shown)
    assert finding.level is level
    assert words in finding.text


def topic(*, replicas: int, brokers: int = 3, **held: str) -> Finding:
    """Return the finding about the log with so many replicas, and settings other than the monitor's."""
    partition = SimpleNamespace(leader=1, isr=[0] * replicas, replicas=[0] * replicas)
    found = SimpleNamespace(partitions=[partition], topic_id="id")
    settings = load(PipelineSettings, bootstrap_servers="k:1")
    actual = {**topic_settings(topic_names("kcm"))["kcm.changes"], "min.insync.replicas": "2"}
    actual |= {key.replace("_", "."): value for key, value in held.items()}
    return _topic(settings, "kcm.changes", found, dict(actual), brokers)


def test_times_of_writers_are_a_warning_with_the_command_that_ends_it() -> None:
    """Retention cannot be relied on."""
    finding = topic(replicas=3, message_timestamp_type="CreateTime", retention_ms="1")
    assert finding.level is Level.WARN
    assert "stops retention; retention.ms=1, the monitor's is 604800000" in finding.text
    assert finding.todo == (
        "kafka-configs.sh --bootstrap-server k:1 --alter --entity-type topics "
        "--entity-name kcm.changes --add-config message.timestamp.type=LogAppendTime"
    )


@pytest.mark.parametrize(
    ("replicas", "min_isr", "brokers", "level", "words"),
    [
        (3, "2", 3, Level.OK, "replication factor 3"),
        (2, "1", 3, Level.OK, "replication factor 2"),
        (1, "1", 2, Level.OK, "replication factor 1"),
        (1, "1", 3, Level.WARN, "its only copy is on one of 3 brokers"),
        (3, "1", 3, Level.WARN, "what one broker alone has acknowledged is lost with it"),
        (3, "3", 3, Level.WARN, "while one broker is down, nothing can be written"),
        (1, "2", 1, Level.FAIL, "nothing can be written"),
    ],
)
def test_replicas_and_min_isr_are_judged_together(
    replicas: int, min_isr: str, brokers: int, level: Level, words: str
) -> None:
    """One broker may be lost without losing records, and may be down without stopping them."""
    finding = topic(replicas=replicas, brokers=brokers, min_insync_replicas=min_isr)
    assert finding.level is level
    assert words in finding.text
