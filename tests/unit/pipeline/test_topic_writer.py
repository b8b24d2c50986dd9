"""Each record of the command line is acknowledged; one that is not is an error."""

from __future__ import annotations

import pytest

from pipeline.runtime import UnreachableError
from pipeline.settings import PipelineSettings, load
from pipeline.topic_writer import NewRecord, RecordWriter
from tests.support.kafka_producer import FakeProducer, use_producer

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")
RECORDS = (NewRecord("a", b"1"), NewRecord("b", None))


def test_records_are_written_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the client's queue is full for a moment; a null is a record like any other."""
    producer = FakeProducer()
    use_producer(monkeypatch, producer)
    RecordWriter(load(PipelineSettings), within_s=1).write("kcm.changes", 3, RECORDS)
    assert producer.written == [("kcm.changes", "a", 3), ("kcm.changes", "b", 3)]
    assert producer.values == [b"1", None]


def test_refused_or_unsent_records_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It names Kafka and the topic."""
    producer = FakeProducer(refused="kcm.changes")
    use_producer(monkeypatch, producer)
    writer = RecordWriter(load(PipelineSettings, bootstrap_servers="k:1"), within_s=1)
    with pytest.raises(UnreachableError, match=r"Kafka at k:1 did not take all .* kcm\.changes: "):
        writer.write("kcm.changes", 0, RECORDS)
    monkeypatch.setattr(FakeProducer, "flush", lambda _self, _timeout: 1)
    producer.refused = None
    with pytest.raises(UnreachableError, match=r"kcm\.views"):
        writer.write("kcm.views", 0, RECORDS)
