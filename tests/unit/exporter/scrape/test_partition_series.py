"""Every partition in kafka_exporter's names."""

from __future__ import annotations

import pytest

from controller_model.records.views import TopicView
from exporter.core.render import Format
from exporter.intake.view_store import ViewStore
from exporter.scrape import partition_series
from exporter.scrape.partition_series import PARTITION_METRICS, PartitionCollector
from tests.support.samples import as_of, cluster_view, deleted, record, topic_view


def exposition(collector: PartitionCollector, store: ViewStore) -> bytes:
    """Render what has changed, and return all lines."""
    for _ in collector.render(store.clusters):
        pass
    return b"".join(collector.lines(Format.TEXT))


def scrape(*topics: TopicView) -> list[str]:
    """Return the sample lines about these topics."""
    store = ViewStore()
    for topic in topics:
        store.apply(record(topic))
    store.apply(record(cluster_view()))
    body = exposition(PartitionCollector(), store)
    return [line for line in body.decode().splitlines() if not line.startswith("#")]


def test_names_and_values_are_those_of_kafka_exporter() -> None:
    """The leader's value is its id, -1 without one; flags are 0 or 1."""
    lines = scrape(topic_view("t", leader=(1, -1), isr=((1,), (1, 0))))
    labels = 'cluster="prod",topic="t",partition="0"'
    assert f"kafka_topic_partition_leader{{{labels}}} 1" in lines
    assert f"kafka_topic_partition_in_sync_replica{{{labels}}} 1" in lines
    assert f"kafka_topic_partition_replicas{{{labels}}} 2" in lines
    assert f"kafka_topic_partition_leader_is_preferred{{{labels}}} 0" in lines
    assert f"kafka_topic_partition_under_replicated_partition{{{labels}}} 1" in lines
    assert 'kafka_topic_partition_leader{cluster="prod",topic="t",partition="1"} -1' in lines


def test_brokers_and_partitions_of_topics_are_counted_as_kafka_exporter_does() -> None:
    """These are the registered brokers, and the partitions of a topic over all its chunks."""
    chunks = [topic_view("large", partitions=(n, n + 1), chunk=n // 2, chunks=2) for n in (0, 2)]
    lines = scrape(*chunks, topic_view("t"))
    assert [line for line in lines if line.startswith("kafka_brokers")] == [
        f'kafka_brokers{{cluster="prod"}} {len(cluster_view().brokers_live or ())}'
    ]
    assert [line for line in lines if line.startswith("kafka_topic_partitions{")] == [
        'kafka_topic_partitions{cluster="prod",topic="large"} 4',
        'kafka_topic_partitions{cluster="prod",topic="t"} 2',
    ]


def test_a_partition_without_state_has_replicas_only() -> None:
    """Values whose state znode does not exist yet are absent, not zero."""
    lines = scrape(topic_view("t", leader=(None, None), isr=(None, None)))
    of_partitions = [line.partition("{")[0] for line in lines if "partition=" in line]
    assert of_partitions == ["kafka_topic_partition_replicas"] * 2


def test_replicas_being_added_do_not_make_a_partition_under_replicated() -> None:
    """During a reassignment only the replicas that should already be in sync count."""
    view = topic_view(
        "t", replicas=((0, 1, 2), (1, 0)), adding={0: (2,)}, leader=(0, 1), isr=((0, 1), (1, 0))
    )
    lines = scrape(view)
    name = "kafka_topic_partition_under_replicated_partition"
    assert f'{name}{{cluster="prod",topic="t",partition="0"}} 0' in lines


def test_only_changed_topics_are_rendered_again_and_deleted_ones_dropped() -> None:
    """A topic keeps its bytes object until its view changes, and leaves no series behind."""
    store = ViewStore()
    for view in (topic_view("a"), topic_view("b"), topic_view("c"), cluster_view()):
        store.apply(record(view))
    collector = PartitionCollector()
    exposition(collector, store)
    before = dict(collector._cached)
    store.apply(record(topic_view("a", as_of(2), leader=(1, 1))))
    store.apply(record(deleted(as_of(2)), "prod/topic/c/0"))
    store.apply(record(cluster_view(at=as_of(2))))
    body = exposition(collector, store)
    assert collector._cached["prod/topic/b/0"] is before["prod/topic/b/0"]
    assert collector._cached["prod/topic/a/0"] is not before["prod/topic/a/0"]
    assert b'topic="c"' not in body
    for metric in PARTITION_METRICS:
        assert body.count(f"# TYPE {metric.name} ".encode()) == 1


def test_the_size_of_steps_and_pieces_does_not_change_the_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lines are the same whatever the size of a step; the result of a step is kept."""
    store = ViewStore()
    for name in "abcdef":
        store.apply(record(topic_view(name)))
    store.apply(record(cluster_view()))
    whole = exposition(PartitionCollector(), store)
    monkeypatch.setattr(partition_series, "STEP_BYTES", 1)
    monkeypatch.setattr(partition_series, "PIECE_BYTES", 1)
    collector = PartitionCollector()
    steps = collector.render(store.clusters)
    next(steps)
    assert len(collector._cached) == 1
    sizes = list(collector.render(store.clusters))
    assert len(sizes) == 5, "the first topic is rendered already"
    monkeypatch.setattr(partition_series, "STEP_BYTES", 2 * sizes[0])
    steps_of_two = list(PartitionCollector().render(store.clusters))
    assert steps_of_two == [2 * sizes[0]] * 3, "topics of the same length"
    pieces = list(collector.lines(Format.TEXT))
    assert len(pieces) == 1 + 6 * len(PARTITION_METRICS)
    assert all(pieces)
    assert b"".join(pieces) == whole


def test_an_answer_under_way_is_not_changed_by_a_later_scrape() -> None:
    """Its lines are read from another thread while the next scrape renders."""
    store = ViewStore()
    for view in (topic_view("a"), topic_view("b"), cluster_view()):
        store.apply(record(view))
    collector = PartitionCollector()
    whole = exposition(collector, store)
    under_way = collector.lines(Format.TEXT)
    store.apply(record(topic_view("c", as_of(2))))
    store.apply(record(deleted(as_of(2)), "prod/topic/a/0"))
    store.apply(record(cluster_view(at=as_of(2), brokers_live=(7, 8, 9))))
    exposition(collector, store)
    assert b"".join(under_way) == whole
