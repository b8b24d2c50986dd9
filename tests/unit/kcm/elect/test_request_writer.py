"""What `kcm elect` writes to the log before it elects, and what happens when the log takes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation

from controller_model.kafka.ids import TopicPartition, partition_of
from controller_model.records.changes import decode_message
from kcm.elect import request_writer
from kcm.elect.elect import read_pipeline
from kcm.elect.request_writer import RequestWriter
from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings, load
from tests.support.kafka_client import Admin, Client, use_client
from tests.support.kafka_producer import FakeProducer, use_producer

PARTITIONS = [TopicPartition("t", 0), TopicPartition("u", 7)]


class Desk:
    """A writer on fake clients, and its warnings."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        refused: str = "",
        metadata_error: int | None = None,
        rights: list[AclOperation] | None = None,
    ) -> None:
        self.producer = FakeProducer(refused=refused)
        use_producer(monkeypatch, self.producer)
        use_client(monkeypatch, Client(partitions=5, metadata_error=metadata_error))
        admin = Admin({"mine.changes": "id"})
        admin.rights = rights or []
        monkeypatch.setattr("pipeline.topics.AdminClient", lambda *_, **__: admin)
        monkeypatch.setattr(request_writer, "clock_ms", lambda: 7)
        self.warnings: list[str] = []
        settings = load(PipelineSettings, bootstrap_servers="k:1", topic_prefix="mine")
        monkeypatch.setattr(request_writer, "warn", self.warnings.append)
        self.writer = RequestWriter(settings, "prod", holds_s=60.5)


def test_a_request_goes_to_the_key_and_partition_of_its_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has the cluster's key and partition, so that it comes before the changes of the elections."""
    desk = Desk(monkeypatch)
    desk.writer.write(PARTITIONS)
    desk.writer.write(PARTITIONS[:1])
    place = ("mine.changes", "prod", partition_of("prod", 5))
    assert desk.producer.written == [place, place]
    (first,), (second,) = (decode_message(value or b"").requests for value in desk.producer.values)
    assert first.partitions == (("t", 0), ("u", 7))
    assert (first.cluster, first.requested_at, first.holds_ms) == ("prod", 7, 60_500)
    assert second.partitions == (("t", 0),)
    assert desk.warnings == []


def test_a_request_is_in_the_log_before_kafka_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The elections may be in the log a moment after the question, and a later record would not name them."""
    desk = Desk(monkeypatch)
    written: list[int] = []

    def elect(partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str | None]:
        written.append(len(desk.producer.written))
        return dict.fromkeys(partitions)

    ask = desk.writer.recorded(elect)
    assert ask(PARTITIONS) == {PARTITIONS[0]: None, PARTITIONS[1]: None}
    ask(PARTITIONS[:1])
    assert written == [1, 2]


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ({"refused": "mine.changes"}, "did not take all records of mine.changes"),
        ({"metadata_error": KafkaError.UNKNOWN_TOPIC_OR_PART}, "mine.changes"),
        ({"metadata_error": KafkaError._TRANSPORT}, "does not answer"),
        ({"rights": [AclOperation.READ]}, "does not let the monitor write mine.changes"),
    ],
)
def test_a_failed_write_of_a_request_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, trouble: dict[str, Any], why: str
) -> None:
    """The elections continue, and no chunk waits for the log again."""
    desk = Desk(monkeypatch, **trouble)
    for _ in range(3):
        desk.writer.write(PARTITIONS)
    (line,) = desk.warnings
    assert line.startswith("the grade will not name these elections: ")
    assert why in line
    assert len(desk.producer.written) == ("refused" in trouble)


def test_the_pipelines_kafka_comes_from_the_option_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are an option, or the environment and the file of all parts; without them no request is written."""
    nothing: dict[str, str | None] = {"bootstrap_servers": None, "topic_prefix": None}
    assert read_pipeline(None, nothing) is None
    said = read_pipeline(None, nothing | {"bootstrap_servers": "k:1", "topic_prefix": "mine"})
    assert said is not None
    assert (said.bootstrap_servers, said.topic_prefix) == ("k:1", "mine")
    with pytest.raises(UsageError, match="option --pipeline-servers: 'k' is not host:port"):
        read_pipeline(None, nothing | {"bootstrap_servers": "k"})
    monkeypatch.setenv("KCM_BOOTSTRAP_SERVERS", "k2:1")
    said = read_pipeline(None, nothing)
    assert said is not None
    assert said.bootstrap_servers == "k2:1"
