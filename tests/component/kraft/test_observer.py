"""Observers of a real quorum while its controllers are killed and paused, compared with the controllers' own files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from controller_model.kafka.metadata_records import Topic
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.quorum import METADATA_FOLDER
from kcm.servers.supervisor import Supervisor
from kraft_source.observer.released import (
    Committed,
    CommittedBatch,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.wire.connection import Access, ControllerConnection
from kraft_source.wire.messages import TOPIC, ControllerEndpoint, EpochEnd
from kraft_source.wire.records import Record, decode
from tests.component.kraft.watched_quorum import Watching, batches_on_disk
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_3_9, KAFKA_4_4, Release
from tests.support.topic_changes import create_topic
from tests.support.waiting import DEADLINE_S, SESSION_MS, wait_until


def replicas(cluster: KraftCluster) -> set[int]:
    """Return all replicas of the metadata log that the leader knows: voters, and observers that fetch from it.

    Empty when whoever led does not lead any more.
    """
    endpoint = ControllerEndpoint(HOST, cluster.quorum.ports[cluster.await_leader().id])
    connection = ControllerConnection(endpoint, Access(), timeout_s=DEADLINE_S)
    partition = {"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}
    answer = connection.call("DescribeQuorum", {"topics": [partition]}, timeout_s=DEADLINE_S)
    connection.close()
    quorum = answer["topics"][0]["partitions"][0]
    return {each["replica_id"] for each in (*quorum["current_voters"], *quorum["observers"])}


def end_of(cluster: KraftCluster, voter: int) -> int:
    """Return the offset of the last record in a controller's file."""
    log_dir = cluster.controllers[voter].log_dir
    return max(batch.last_offset for batch in batches_on_disk(log_dir))


def behind_the_first(batch: CommittedBatch) -> list[tuple[int, Record]]:
    """Return what is kept of a batch behind its first offset."""
    return [(offset, record) for offset, record in batch.records if offset > batch.offset]


def names(watching: Watching) -> list[str]:
    """Return the topics that were released, in order."""
    records: list[Record] = []
    for each in watching.released:
        if isinstance(each, SnapshotChunk):
            records += each.records
        elif isinstance(each, Committed):
            records += [record for batch in each.batches for _, record in batch.records]
    return [record.name for record in records if isinstance(record, Topic)]


@pytest.mark.parametrize(
    ("release", "dynamic"),
    [pytest.param(KAFKA_3_9, False, marks=pytest.mark.full), (KAFKA_4_4, True)],
    ids=["3.9-static", "4.4-dynamic"],
)
def test_two_observers_release_what_the_controllers_have_on_disk(
    supervisor: Supervisor, tmp_path: Path, *, release: Release, dynamic: bool
) -> None:
    """A leader killed, records that lose their leader before they are committed, a leader paused: no difference, no hole."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(release),
        tmp_path,
        brokers=(1,),
        dynamic=dynamic,
        session_timeout_ms=SESSION_MS,
        # A leader without followers resigns after 1.5 times this (LeaderState.timeUntilCheckQuorumExpires).
        properties={"controller.quorum.fetch.timeout.ms": 4_000},
        name=f"observed-{release.version}",
    )
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    with Watching(cluster) as one, Watching(cluster) as two:
        create_topic(admin, "under-the-first", 3)
        first = one.await_leader(cluster)
        cluster.controllers[first.id].kill()
        second = one.await_leader(cluster, after=first)
        create_topic(admin, "under-the-second", 3)
        cluster.controllers[first.id].start()

        # Without its followers a leader goes on appending; what it appends then is never committed.
        second = one.await_leader(cluster, after=first)
        followers = [voter for voter in cluster.controllers if voter != second.id]
        for voter in followers:
            cluster.controllers[voter].pause()
        # The answers that they wait for have one or two more records: they read them when they go on.
        copied = max(end_of(cluster, voter) for voter in followers) + 2
        wait_until(lambda: one.observer._log.end.end_offset, lambda end: end > copied + 1)
        cluster.controllers[second.id].pause()
        for voter in followers:
            cluster.controllers[voter].resume()
        cluster.await_leader(lambda leader: leader.epoch > second.epoch)
        cluster.controllers[second.id].resume()
        third = one.await_leader(cluster, after=second)
        create_topic(admin, "under-the-third", 3)
        for each in (one, two):
            wait_until(partial(names, each), lambda found: "under-the-third" in found)
            status = wait_until(
                partial(getattr, each.observer, "status"),
                lambda now: (now.no_leader_since, now.unreachable_since) == (None, None),
            )
            assert status.leader is not None
        listed = wait_until(
            lambda: replicas(cluster), lambda seen: seen >= {1, *cluster.controllers}
        )
        assert listed == {1, *cluster.controllers}, "an observer is listed"
    assert one.divergences > 0
    for each in (one, two):
        each.await_copies(cluster)
    cluster.kill()

    assert names(one) == names(two) == ["under-the-first", "under-the-second", "under-the-third"]
    assert [each for each in one.elected if each in {first, second, third}] == [
        first,
        second,
        third,
    ]
    for each in (one, two):
        released = each.batches
        assert [batch.offset for batch in released] == [
            0,
            *(batch.last_offset + 1 for batch in released[:-1]),
        ]
        for voter, node in cluster.controllers.items():
            on_disk = {batch.offset: batch for batch in batches_on_disk(node.log_dir)}
            for batch in released:
                theirs = on_disk[batch.offset]
                assert batch[:4] == theirs[:4], voter
                assert batch.records == decode(theirs).records, voter
            assert not any(batch.unknown for batch in released)
        # Its work while records come each 500 ms, with elections in between.
        assert each.runner.requests < 40 * len(released)


@pytest.mark.full
@pytest.mark.parametrize(
    ("release", "is_named"),
    [(KAFKA_3_9, False), (KAFKA_4_4, True)],
    ids=["3.9", "4.4"],
)
def test_a_quorum_that_is_lost_with_its_leader_is_noticed(
    supervisor: Supervisor, tmp_path: Path, *, release: Release, is_named: bool
) -> None:
    """The survivor says that nobody leads, or, from Kafka 4.0 on, names a dead leader, which is told as silent until another is elected."""
    cluster = KraftCluster(supervisor, nodes_jars(release), tmp_path, brokers=(), name="lost")
    cluster.start()
    with Watching(cluster) as watching:
        led = watching.await_leader(cluster)
        lost = [led.id, next(voter for voter in cluster.controllers if voter != led.id)]
        for voter in lost:
            cluster.controllers[voter].kill()
        wait_until(lambda: watching.observer.status.leader_silent_since or not is_named)
        wait_until(lambda: watching.observer.status.no_leader_since or is_named)
        status = watching.observer.status
        assert status.leader is not None
        assert (status.leader.id == led.id, status.leader.id < 0) == (is_named, not is_named)
        for voter in lost:
            cluster.controllers[voter].start()
        wait_until(
            lambda: watching.observer.status,
            lambda now: (
                now.answered_at is not None
                and now.answered_at > (status.answered_at or 0)
                and (now.no_leader_since, now.leader_silent_since) == (None, None)
            ),
        )
    cluster.kill()


def test_a_late_observer_begins_with_a_snapshot(supervisor: Supervisor, tmp_path: Path) -> None:
    """All topics are in the snapshot or behind it; another observer, that saw them come, is not interrupted by it."""
    cluster = KraftCluster(
        supervisor,
        nodes_jars(KAFKA_4_4),
        tmp_path,
        controllers=(3001,),
        brokers=(1,),
        properties={
            "metadata.log.max.record.bytes.between.snapshots": 2_000,
            # So many no-ops that some share a batch with other records.
            "metadata.max.idle.interval.ms": 10,
        },
        session_timeout_ms=SESSION_MS,
        name="snapshots",
    )
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topics = [f"topic-{number}" for number in range(30)]
    with Watching(cluster) as early:
        for topic in topics:
            create_topic(admin, topic, 3)
        folder = cluster.controllers[3001].log_dir / METADATA_FOLDER
        wait_until(lambda: [*folder.glob("*.checkpoint")], lambda found: len(found) > 1)
        with Watching(cluster) as late:
            wait_until(lambda: names(late), lambda found: topics[-1] in found)
        wait_until(lambda: names(early), lambda found: topics[-1] in found)
        # Who has published a part of a large batch goes on behind that part.
        # Kafka may put a no-op, of which no record is kept, and what follows into one batch.
        last = [batch for batch in early.batches if behind_the_first(batch)][-1]
        with Watching(cluster, start=EpochEnd(last.offset + 1, last.epoch)) as again:
            wait_until(lambda: again.batches)
    cluster.kill()
    assert again.batches[0] == last._replace(offset=last.offset + 1, records=behind_the_first(last))
    assert names(early) == topics
    # Where the cluster starts slowly, one is there before the topics are.
    opened = [type(each) for each in early.released].index(Committed)
    assert not any(isinstance(each, SnapshotOpened) for each in early.released[opened:])
    assert sorted(names(late)) == sorted(topics)
    started, finished = (
        late.released[0],
        next(each for each in late.released if isinstance(each, SnapshotComplete)),
    )
    assert isinstance(started, SnapshotOpened)
    end = started.snapshot
    assert finished.snapshot == end
    assert (folder / f"{end.end_offset:020d}-{end.epoch:010d}.checkpoint").exists()
    # Its time is that of the last record that it includes.
    before = [batch for batch in early.batches if batch.last_offset < end.end_offset]
    assert (before[-1].last_offset + 1, before[-1].at) == (end.end_offset, started.at)
    behind = late.batches
    assert (
        behind
        == [batch for batch in early.batches if batch.offset >= end.end_offset][: len(behind)]
    )
