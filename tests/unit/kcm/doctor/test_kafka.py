"""The lines of `kcm doctor` about the pipeline's Kafka and the cluster that is shown."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcm.doctor import kafka
from kcm.doctor.findings import Level
from kcm.doctor.kafka import check_kafka, same_cluster, shown_cluster
from pipeline.settings import PipelineSettings, load


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_why_kafka_does_not_answer_is_told_before_the_check_is_given_up() -> None:
    """Nothing listens there: the line says so, and not only that the check took too long."""
    settings = load(PipelineSettings, bootstrap_servers="127.0.0.1:1")
    (finding,) = check_kafka(settings, within_s=0.5).findings
    assert finding.level is Level.FAIL
    assert "127.0.0.1:1 does not answer: " in finding.text
    assert "Connection refused" in finding.text


@pytest.mark.usefixtures("no_settings_of_the_machine")
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
        ("b", {"prod": "a"}, Level.FAIL, "ZooKeeper holds cluster b, the exporter shows prod (a)"),
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
