"""A cluster's records in the pipeline's topics: its views, signs of a watcher, and the nulls that remove it."""

from __future__ import annotations

import pytest

from kcm.history.cluster_records import (
    PublishedCluster,
    WatcherSigns,
    read_published,
    write_tombstones,
)
from pipeline.runtime import UnreachableError
from pipeline.settings import PipelineSettings, load
from pipeline.topic_reader import RecordReader
from pipeline.topics import topic_names
from tests.support.kafka_client import EOF_CODE, Client, Message, use_client
from tests.support.kafka_producer import FakeProducer, use_producer
from tests.support.samples import T0, cluster_view, record

NAMES = topic_names("kcm")
VIEWS = (NAMES.views, 0)
LOG = (NAMES.changes, 0)


@pytest.fixture
def settings() -> PipelineSettings:
    """Return the defaults."""
    return load(PipelineSettings)


def stored(*keys_and_values: tuple[bytes | None, bytes | None]) -> list[Message]:
    """Return records of the views, in their order."""
    return [
        Message(VIEWS, offset, key=key, value=value)
        for offset, (key, value) in enumerate(keys_and_values)
    ]


def test_keys_with_a_tombstone_are_not_among_the_published_views(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings
) -> None:
    """The result is by cluster; a foreign key, or a cluster without its own view, does not show a watcher."""
    view = record(cluster_view("prod"))
    messages = stored(
        (b"prod/broker/0", b"old"),
        (b"prod/topic/t/0", b"t"),
        (view.key, view.value),
        (b"prod/broker/0", None),
        (b"left/topic/t/0", b"t"),
        (b"damaged/cluster", b"no view"),
        (b"gone/cluster", b"x"),
        (b"gone/cluster", None),
        (b"\xff", b"x"),
        (None, b"x"),
    )
    use_client(monkeypatch, Client(messages, ends=((0, len(messages)),)))
    with RecordReader(settings, "g") as reader:
        assert read_published(reader, [VIEWS]) == {
            "prod": PublishedCluster(("prod/cluster", "prod/topic/t/0"), T0),
            "left": PublishedCluster(("left/topic/t/0",), None),
            "damaged": PublishedCluster(("damaged/cluster",), None),
        }


@pytest.mark.parametrize(
    ("message", "has_written"),
    [
        (Message(LOG, 5, key=b"prod"), True),
        (Message(VIEWS, 5, key=b"prod/watcher"), True),
        (Message(VIEWS, 5, key=b"prod/cluster"), False),
        (Message(LOG, 5, key=b"other"), False),
        (Message(VIEWS, 5, key=b"other/watcher"), False),
        (Message(LOG, 5, key=b"prod", value=None), False),
    ],
)
def test_records_of_the_log_and_heartbeats_are_signs_of_a_watcher(
    monkeypatch: pytest.MonkeyPatch,
    settings: PipelineSettings,
    message: Message,
    *,
    has_written: bool,
) -> None:
    """The fold's records, other clusters' records, nulls and earlier records are no sign of a watcher."""
    other = VIEWS if message.topic() == NAMES.changes else LOG
    ends = ((0, 5), (0, 5), (0, 6), (0, 6))
    client = Client([message, Message(other, 5, EOF_CODE)], ends=ends)
    use_client(monkeypatch, client)
    with RecordReader(settings, "g") as reader:
        signs = WatcherSigns(reader, NAMES, "prod", 0)
        assert signs.has_written() is has_written
        assert client.assigned[-1] == {LOG: 5, VIEWS: 5}
        assert not signs.has_written(), "the same record counts once"


def test_tombstones_go_to_the_log_first_and_then_to_the_cluster_view(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings
) -> None:
    """A fold that has not read the null would write the removed views again."""
    producer = FakeProducer()
    use_producer(monkeypatch, producer)
    keys = ("prod/broker/0", "prod/cluster", "prod/topic/t/0")
    write_tombstones(settings, NAMES, "prod", partitions=1, keys=keys)
    assert producer.written == [
        (NAMES.changes, "prod", 0),
        (NAMES.views, "prod/cluster", 0),
        (NAMES.views, "prod/broker/0", 0),
        (NAMES.views, "prod/topic/t/0", 0),
    ]


def test_a_refused_write_to_the_log_leaves_the_views_unchanged(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings
) -> None:
    """The error is one line; the command can be run again."""
    producer = FakeProducer(refused=NAMES.changes)
    use_producer(monkeypatch, producer)
    with pytest.raises(UnreachableError, match=r"of kcm\.changes: .*; run the same command again"):
        write_tombstones(settings, NAMES, "prod", partitions=1, keys=["prod/cluster"])
    assert [topic for topic, *_ in producer.written] == [NAMES.changes]
