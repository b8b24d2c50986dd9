"""Partitions in one rack are counted where that can be known, and read again only where they changed."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.records.views import TopicView
from exporter.core.records import ClusterSnapshot, TopicEntry
from exporter.partitions.worst_topics import OneRackCount
from tests.support.samples import broker_view, cluster_view, log_view, topic_entry, topic_view

TOGETHER = topic_view("together", replicas=((0, 1), (1, 0)))
SPREAD = topic_view("spread", replicas=((0, 2), (2, 1)))


class _Read(TopicEntry, frozen=True, kw_only=True):
    """An entry that counts how often it is read."""

    reads: list[str]

    def decode(self) -> TopicView:
        """Count the call, and return the view."""
        self.reads.append(self.name)
        return super().decode()


def _entry(topic: TopicView, reads: list[str]) -> TopicEntry:
    return _Read(**msgspec.structs.asdict(topic_entry(topic)), reads=reads)


def _cluster(reads: list[str], denied: tuple[str, ...] = ()) -> ClusterSnapshot:
    return ClusterSnapshot(
        name="prod",
        partition=0,
        view=cluster_view(brokers_live=(0, 1, 2), log=log_view(denied=denied)),
        brokers={id_: broker_view(id_, rack=rack) for id_, rack in enumerate("aab")},
        topics={topic.name: _entry(topic, reads) for topic in (TOGETHER, SPREAD)},
    )


def test_partitions_in_one_rack_are_counted() -> None:
    """Brokers 0 and 1 share a rack, and there is another rack."""
    assert OneRackCount().of(_cluster([])) == len(TOGETHER.partitions)


def test_only_changed_topics_are_read_again() -> None:
    """A cluster is read once, then only its changed topics; a broker that changes its rack affects all."""
    reads: list[str] = []
    count, before = OneRackCount(), _cluster(reads)
    count.of(before)
    assert sorted(reads) == ["spread", "together"]
    reads.clear()
    changed = {**before.topics, "spread": _entry(SPREAD, reads)}
    count.of(msgspec.structs.replace(before, topics=changed))
    assert reads == ["spread"]
    reads.clear()
    moved = {**before.brokers, 1: broker_view(1, rack="b")}
    assert count.of(msgspec.structs.replace(before, brokers=moved)) == 1  # of spread: brokers 2, 1
    assert sorted(reads) == ["spread", "together"]


@pytest.mark.parametrize("path", ["/brokers", "/brokers/ids/2", "/brokers/topics/t"])
def test_there_is_no_count_if_the_watcher_was_denied_a_path(path: str) -> None:
    """Where the watcher was denied a part, there is no count rather than a lower one."""
    assert OneRackCount().of(_cluster([], denied=(path,))) is None


def test_without_a_second_live_rack_the_count_is_zero() -> None:
    """Where no other rack is live, the assignment is not to blame for one rack."""
    cluster = _cluster([])
    view = msgspec.structs.replace(cluster.view, brokers_live=(0, 1))
    assert OneRackCount().of(msgspec.structs.replace(cluster, view=view)) == 0
