"""What a watcher writes beside others: who yields, who takes over, and what is written again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller_model.kafka.ids import AsOf
from controller_model.kafka.metadata_records import FeatureLevel
from controller_model.records.changes import ZnodeChange, encode_change
from controller_model.records.metadata_digest import MetadataDigest
from controller_model.records.metadata_log import (
    CAUGHT_UP_MS,
    MetadataHeartbeat,
    MetadataSlice,
    QuorumReplica,
    QuorumSample,
    SnapshotStarted,
)
from controller_model.records.views import ClusterView, ResyncWanted
from kraft_source.image import ImageAt
from kraft_source.observer.observer import NOTHING
from kraft_source.observer.released import (
    AnotherHistory,
    Committed,
    CommittedBatch,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.service.published_log import PublishedRecord, decode_published
from kraft_source.service.watcher import (
    NEWS_MS,
    REPAIR_MS,
    REPLACED_MS,
    SILENCE_MS,
    MetadataWatcher,
    Sight,
)
from kraft_source.slices import Made
from kraft_source.wire.messages import EpochEnd, EpochLeader
from pipeline.runtime import ConflictError
from tests.support.samples import cluster_view

LEVEL = FeatureLevel("metadata.version", 20)
SIGHT = Sight(5, EpochLeader(3001, 1))
ID, OTHER_ID = "A" * 22, "B" * 22


def batch(first: int, last: int | None = None, *, epoch: int = 1) -> CommittedBatch:
    """Return a batch with a record that is kept, its first."""
    end = first if last is None else last
    return CommittedBatch(first, end, epoch, 1_000 + end, [(first, LEVEL)])


def committed(first: int, last: int | None = None, *, epoch: int = 1) -> Committed:
    """Return a batch that is released."""
    one = batch(first, last, epoch=epoch)
    return Committed([one], one.last_offset + 1)


def watcher(
    name: str = "w5",
    *,
    is_alone: bool = True,
    records: list[PublishedRecord] | None = None,
    cluster_id: str | None = None,
    generation: int = 0,
) -> MetadataWatcher:
    """Return a watcher that has begun at time 0."""
    made = MetadataWatcher("prod", name, cluster_id, heartbeat_ms=10_000, now=0)
    made.begin(generation, records or [], is_alone=is_alone, now=0)
    made.tick(SIGHT, 0)
    popped(made)
    return made  # fmt: skip


def popped(made: MetadataWatcher) -> list[Any]:
    """Return the records that it writes now."""
    found = []
    while (each := made.pop()) is not None:
        found.append(each.record)
    return found


def slices(records: list[Any]) -> list[tuple[int, int]]:
    """Return the offsets of slices."""
    return [(each.first, each.last) for each in records if isinstance(each, MetadataSlice)]


def written(
    first: int,
    last: int,
    *,
    by: str = "w1",
    epoch: int = 1,
    after: int = 1,
    generation: int = 1,
    cluster_id: str | None = None,
) -> PublishedRecord:
    """Return a slice as it is read back."""
    return PublishedRecord(
        "prod", by, generation, 1_000, record="metadata_slice", first=first, last=last, epoch=epoch,
        after_epoch=after, cluster_id=cluster_id,
    )  # fmt: skip


def view(generation: int = 1, seq: int = 5, wanted: ResyncWanted | None = None) -> ClusterView:
    """Return the fold's view."""
    return cluster_view(at=AsOf("l", generation, seq), resync_wanted=wanted)


def test_a_watcher_that_is_alone_writes_at_once_in_generation_1() -> None:
    """It begins at offset 0."""
    made = watcher()
    made.handle_released(committed(0), None, 1)
    (record,) = popped(made)
    assert (record.generation, record.watcher, record.first, record.last) == (1, "w5", 0, 0)
    assert made.position == (1, 1)


def test_it_goes_on_where_the_topic_ends() -> None:
    """The epoch of the record before is known from there as well."""
    made = MetadataWatcher("prod", "w5", None, heartbeat_ms=10_000, now=0)
    records = [written(40, 49, epoch=3), written(50, 59, epoch=4, after=3)]
    assert made.begin(1, records, is_alone=True, now=0) == EpochEnd(60, 4)
    made.tick(SIGHT, 0)
    made.handle_released(committed(60, epoch=4), None, 1)
    assert slices(popped(made)) == [(60, 60)]


def test_a_hole_in_the_topic_is_where_it_begins() -> None:
    """What is behind the hole is written again."""
    made = MetadataWatcher("prod", "w5", None, heartbeat_ms=10_000, now=0)
    records = [written(40, 49), written(55, 59)]
    assert made.begin(1, records, is_alone=True, now=0) == EpochEnd(50, 1)


def test_beside_another_watcher_it_keeps_what_that_one_writes_until_it_is_read_back() -> None:
    """Nothing is written twice, and nothing is held longer than needed."""
    made = watcher(is_alone=False)
    made.handle_released(committed(0), None, 1)
    assert (popped(made), made.waiting, made.leads) == ([], 1, False)
    made.handle_published(written(0, 0), 100)
    made.tick(SIGHT, 100)
    assert (made.waiting, made.waiting_bytes, made.published) == (0, 0, 1)


def test_it_takes_over_from_one_that_is_silent_and_from_one_that_does_not_write() -> None:
    """A beat alone does not keep it back while the log stands still and there is more."""
    silent = watcher(is_alone=False)
    silent.handle_released(committed(0), None, 1)
    silent.tick(SIGHT, SILENCE_MS)
    assert popped(silent) == []
    silent.tick(SIGHT, SILENCE_MS + 1)
    assert slices(popped(silent)) == [(0, 0)]

    stuck = watcher(is_alone=False)
    for now in range(0, SILENCE_MS + 1_000, 500):
        stuck.hear("w1", 1, now)
        stuck.handle_released(committed(now // 500), None, now)
        stuck.tick(SIGHT, now)
    assert slices(popped(stuck)) == [(each, each) for each in range(8)]
    # It does not yield at once to the beats of one that it has just replaced, but to what that one writes.
    stuck.hear("w1", 1, SILENCE_MS + 1_000)
    assert stuck.leads
    stuck.handle_published(written(0, 20), SILENCE_MS + 1_100)
    stuck.hear("w1", 1, SILENCE_MS + 1_200)
    assert not stuck.leads


def test_one_that_was_paused_listens_before_it_takes_over() -> None:
    """What the other has sent in the meantime is still to be read."""
    made = watcher(is_alone=False)
    made.handle_released(committed(0), None, 1)
    for now in (20_000, 20_000 + SILENCE_MS):
        made.tick(SIGHT, now)
        assert not made.leads
    made.tick(SIGHT, 20_001 + SILENCE_MS)
    assert made.leads


@pytest.mark.parametrize(("other", "leads"), [("w1", False), ("w9", True)])
def test_of_two_that_write_the_one_whose_name_sorts_last_stops(other: str, *, leads: bool) -> None:
    """Both hear the other's beats, and both decide the same."""
    made = watcher("w5")
    made.hear(other, 1, REPLACED_MS)
    assert made.leads is leads


def test_a_blind_watcher_stops_beside_another_and_not_alone() -> None:
    """Its heartbeats are what shows that nobody answers."""
    blind = Sight(5, None, unreachable_since=1)
    made = watcher("w1")
    made.handle_released(committed(0), None, 1)
    made.tick(blind, 10)
    assert made.leads
    made.hear("w9", 1, 20)
    made.tick(blind, 30)
    assert not made.leads


def test_a_leader_that_falls_silent_is_reported_soon() -> None:
    """By a heartbeat that names the same leader."""
    made = watcher("w5")
    made.handle_released(committed(0), None, 1)
    leads = Sight(5, EpochLeader(3001, 1))
    made.tick(leads, 10)
    popped(made)
    made.tick(leads._replace(leader_silent_since=7), 10 + NEWS_MS)
    (beat,) = popped(made)
    assert (beat.leader, beat.leader_silent_since) == (3001, 7)


def test_a_hole_that_is_read_back_is_filled_after_a_while_and_once() -> None:
    """The metadata log is read again from there, and all that follows is written again."""
    made = watcher()
    made.handle_published(written(0, 4, by="w5"), 100)
    made.handle_published(written(9, 9, by="w5"), 200)
    made.tick(SIGHT, 300)
    assert made.restart_at is None
    made.tick(SIGHT, 200 + SILENCE_MS)
    assert made.restart_at == EpochEnd(5, 1)
    made.restart_at = None
    made.handle_released(committed(5, 9), None, 4_000)
    assert slices(popped(made)) == [(5, 9)]
    made.handle_published(written(5, 9, by="w5"), 4_100)
    made.tick(SIGHT, 20_000)
    assert (made.restart_at, made.repairs) == (None, 1)


def test_an_offset_that_the_fold_asks_for_is_written_again_although_the_topic_holds_it() -> None:
    """Where its epoch is not known, from the beginning; not again while the fold may just be slow."""
    made = watcher(records=[written(40, 49), written(50, 59)])
    made.handle_view(view(seq=45, wanted=ResyncWanted(number=1, reason="r", offset=45)), 100)
    assert made.restart_at == EpochEnd(45, 1)
    made.restart_at = None
    made.handle_released(committed(45, 59), None, 200)
    made.handle_released(committed(60), None, 300)
    assert slices(popped(made)) == [(45, 59), (60, 60)]
    made.handle_view(view(seq=45, wanted=ResyncWanted(number=2, reason="r", offset=7)), 400)
    assert made.restart_at is None
    made.handle_view(
        view(seq=45, wanted=ResyncWanted(number=2, reason="r", offset=7)), 100 + REPAIR_MS
    )
    assert made.restart_at == NOTHING


def test_a_request_without_an_offset_begins_the_next_generation_once() -> None:
    """The snapshot says why, and which request it answers."""
    made = watcher(records=[written(0, 9)])
    request = view(wanted=ResyncWanted(number=4, reason="an error"))
    made.handle_view(request, 100)
    assert (made.restart_at, made.generation) == (NOTHING, 2)
    made.restart_at = None
    made.handle_view(request, 200)
    assert made.restart_at is None
    made.handle_released(SnapshotOpened(EpochEnd(10, 1), 900), None, 300)
    (started,) = popped(made)
    assert isinstance(started, SnapshotStarted)
    assert (started.reason, started.answers, started.generation) == ("an error", 4, 2)


def test_another_history_is_the_next_generation_and_a_second_one_at_once_is_a_conflict() -> None:
    """Two watchers that see different logs under one name must not take turns for ever."""
    made = watcher(records=[written(0, 9)])
    made.handle_released(AnotherHistory(EpochEnd(10, 1), EpochEnd(5, 1)), None, 100_000)
    assert (made.generation, made.restart_at, made.leads) == (2, None, True)
    made.handle_released(committed(0), None, 100_100)
    assert [(each.generation, each.first) for each in popped(made)] == [(2, 0)]
    with pytest.raises(ConflictError, match="another KRaft cluster under the name prod"):
        made.handle_released(AnotherHistory(EpochEnd(1, 1), EpochEnd(0, 0)), None, 100_200)


def test_it_follows_another_watcher_to_the_next_generation() -> None:
    """It begins anew, skips what that one has written, and goes on."""
    made = watcher(records=[written(0, 9)])
    made.handle_published(written(0, 3, generation=2, after=-1), 100)
    assert (made.generation, made.restart_at, made.leads) == (2, NOTHING, False)
    made.handle_released(committed(0, 3), None, 200)
    made.handle_released(committed(4), None, 300)
    assert made.waiting == 1


def test_another_cluster_under_the_name_is_a_conflict_for_who_was_there_first() -> None:
    """The one that came later begins a generation, as after a cluster was made anew."""
    later = watcher(records=[written(0, 9, cluster_id=OTHER_ID)], cluster_id=ID)
    assert later.generation == 2
    first = watcher(records=[written(0, 9, cluster_id=ID)], cluster_id=ID)
    with pytest.raises(ConflictError, match=OTHER_ID):
        first.handle_published(written(0, 3, generation=2, after=-1, cluster_id=OTHER_ID), 100)


def test_who_writes_under_a_name_keeps_it() -> None:
    """The newest record decides when a watcher starts; one that runs is not ended by a cluster with ZooKeeper."""
    change: dict[str, Any] = {"kind": "heartbeat", "observed_at": 1, "path": "", "seq": 1, "v": 1}
    message = b"[" + encode_change(
        ZnodeChange(cluster="prod", generation=1, watcher="w1", **change)
    ) + b"]"  # fmt: skip
    (foreign,) = decode_published(message)
    with pytest.raises(ConflictError, match="as one with ZooKeeper"):
        watcher(records=[written(0, 9), foreign])
    made = watcher(records=[foreign, written(0, 9)])
    assert (made.generation, made.log.end) == (1, EpochEnd(10, 1))
    made.handle_published(msgspec.structs.replace(foreign, generation=7), 100)
    made.handle_published(written(10, 12), 200)
    assert (made.generation, made.log.end) == (1, EpochEnd(13, 1))


def test_what_the_controllers_hold_is_written_behind_all_up_to_there() -> None:
    """Also behind no-ops that wait for a slice; what was read of another history is not written."""
    made = watcher()
    made.handle_released(committed(0, 3), None, 100)
    made.handle_released(Committed([CommittedBatch(4, 4, 1, 1_004, [])], 5), None, 200)
    assert made.reconciles_at == 5
    digest = MetadataDigest(2, 6, 3, 255)
    made.reconcile(ImageAt(EpochEnd(5, 2), digest), 300)
    first, second = popped(made)
    assert (first.last, second.last) == (3, 4)
    made.reconcile(ImageAt(EpochEnd(5, 1), digest), 300)
    (record,) = popped(made)
    assert (record.end, record.epoch, record.digest) == (5, 1, "00000000000000ff")
    assert (record.topics, record.partitions, record.brokers) == (2, 6, 3)
    assert record.observed_at == 1_004
    made.handle_released(SnapshotOpened(EpochEnd(10, 1), 900), None, 400)
    assert made.reconciles_at is None


def test_a_snapshot_that_its_writer_left_is_followed_by_the_next_generation() -> None:
    """Readers take no slices until it ends, so nothing else would reach them."""
    made = watcher(records=[written(0, 9)])
    started = PublishedRecord(
        "prod", "w1", 1, 1_000, record="snapshot_started", end=50, epoch=2
    )  # fmt: skip
    made.handle_published(started, 100)
    made.tick(SIGHT, 200)
    assert made.generation == 1
    made.tick(SIGHT, 100 + SILENCE_MS + 1)
    assert (made.restart_at, made.generation) == (NOTHING, 2)


def test_a_snapshot_that_the_observer_gives_up_is_not_left_half_written() -> None:
    """What nobody has seen is dropped; what was written is followed by the next generation."""
    unseen = watcher(is_alone=False)
    unseen.handle_released(SnapshotOpened(EpochEnd(10, 1), 900), None, 1)
    unseen.handle_released(committed(0), None, 2)
    unseen.tick(SIGHT, SILENCE_MS)
    unseen.tick(SIGHT, SILENCE_MS + 1)
    assert slices(popped(unseen)) == [(0, 0)]

    seen = watcher()
    seen.handle_released(SnapshotOpened(EpochEnd(10, 1), 900), None, 1)
    assert len(popped(seen)) == 1
    seen.handle_released(committed(0), None, 2)
    assert (seen.restart_at, seen.generation, popped(seen)) == (NOTHING, 2, [])


def test_a_heartbeat_follows_the_no_ops_before_it_and_says_what_was_seen() -> None:
    """Its time is the cluster's, with what has passed since the last record."""
    made = watcher()
    no_op = CommittedBatch(0, 0, 1, 7_000, [])
    made.handle_released(Committed([no_op], 1), None, 9_000)
    made.tick(SIGHT, 10_000)
    only, heartbeat = popped(made)
    assert (only.first, only.last, only.batches) == (0, 0, ())
    assert isinstance(heartbeat, MetadataHeartbeat)
    assert (heartbeat.end, heartbeat.observed_at, heartbeat.sent_at) == (1, 8_000, 5)
    assert (heartbeat.leader, heartbeat.leader_epoch, heartbeat.high_watermark) == (3001, 1, 1)


def test_a_lost_quorum_is_told_at_once_and_once() -> None:
    """Without a leader nothing is committed, so nothing else shows it; then heartbeats have their interval again."""
    made = watcher()
    made.handle_released(committed(0), None, 100)
    vacant = SIGHT._replace(leader=EpochLeader(-1, 2))
    told = []
    for sight, now in ((SIGHT, 200), (vacant, 300), (vacant, 400), (SIGHT, 500), (vacant, 600)):
        made.tick(sight, now)
        told += [(each.leader, now) for each in popped(made) if isinstance(each, MetadataHeartbeat)]
    assert told == [(-1, 300), (-1, 600)]
    made.tick(vacant, 10_599)
    assert popped(made) == []
    made.tick(vacant, 10_600)
    assert [each.leader_epoch for each in popped(made)] == [2]


def test_a_snapshot_that_the_topic_holds_is_not_written_again() -> None:
    """Another watcher has written it, and what follows it."""
    made = watcher(is_alone=False)
    for record in ("snapshot_started", "snapshot_part", "snapshot_finished"):
        made.handle_published(
            PublishedRecord(
                "prod", "w1", 1, 1_000, record=record, end=10, epoch=1, number=1, parts=1
            ),
            100,
        )
    made.handle_released(SnapshotOpened(EpochEnd(10, 1), 900), None, 200)
    made.handle_released(SnapshotChunk([LEVEL], {}), None, 200)
    made.handle_released(SnapshotComplete(EpochEnd(10, 1)), None, 200)
    made.handle_released(committed(10), None, 300)
    made.tick(SIGHT, 300)
    made.tick(SIGHT, 300 + SILENCE_MS)
    assert [type(each) for each in popped(made)] == [MetadataSlice]


def test_what_is_made_is_what_is_encoded() -> None:
    """The bytes are those of the record."""
    made = watcher()
    made.handle_released(committed(0), None, 1)
    each: Made | None = made.pop()
    assert each is not None
    (read,) = decode_published(b"[" + each.data + b"]")
    assert (read.record, read.first, read.last, read.epoch) == ("metadata_slice", 0, 0, 1)


def test_an_id_that_is_learnt_late_is_in_what_follows_and_may_show_another_cluster() -> None:
    """The topic's records of a cluster that was made anew are another history."""
    made = watcher()
    made.handle_released(committed(0), None, 1)
    made.name_cluster(ID, 2)
    made.handle_released(committed(1), None, 3)
    assert [each.cluster_id for each in popped(made)] == [None, ID]
    other = watcher(records=[written(0, 9, cluster_id=OTHER_ID)])
    other.name_cluster(ID, 100_000)
    assert (other.generation, other.restart_at) == (2, NOTHING)


def test_who_leads_and_who_is_caught_up_is_reported_when_it_changes() -> None:
    """Not only each 10 s; but changes that follow each other quickly make one heartbeat a second."""
    made = watcher(records=[written(0, 4)])

    def beats_at(now: int, sight: Sight) -> int:
        made.tick(sight, now)
        return sum(isinstance(each, MetadataHeartbeat) for each in popped(made))

    def sight(*, late: int = 0, epoch: int = 1) -> Sight:
        voters = (
            QuorumReplica(3001, 9, 5_000, 5_000),
            QuorumReplica(3002, 9, 5_000 - late, 5_000 - late),
        )
        sample = QuorumSample(5_000, 3001, epoch, 9, voters)
        return SIGHT._replace(leader=EpochLeader(3001, epoch), quorum=sample)

    assert beats_at(1_000, sight()) == 1, "the first answer"
    assert beats_at(1_500, sight(late=900)) == 0, "it is caught up all the same"
    assert beats_at(1_900, sight(late=CAUGHT_UP_MS + 1)) == 0, "within a second"
    assert beats_at(2_000, sight(late=CAUGHT_UP_MS + 1)) == 1
    assert beats_at(3_500, sight(epoch=2)) == 1
    assert beats_at(5_000, sight(epoch=2)._replace(quorum=None)) == 1
    assert beats_at(5_500, sight(epoch=2)._replace(quorum=None)) == 0
    assert beats_at(15_000, sight(epoch=2)._replace(quorum=None)) == 1
