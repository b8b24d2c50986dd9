"""A reconciliation agrees with every fold that is right, and finds a record that a fold lost or took wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller_model.kafka import metadata_records as kafka
from controller_model.records.changes import digest_text
from controller_model.records.events import Divergent, Verified
from controller_model.records.metadata_log import (
    METADATA_LOG_VERSION,
    MetadataReconciled,
    MetadataSlice,
)
from controller_model.sources.kraft.reconciliation import digest_of
from kraft_source.image import ImageAt, MetadataImage
from kraft_source.observer.released import (
    Committed,
    CommittedBatch,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.wire.messages import EpochEnd
from tests.property.test_kraft_log import HISTORIES, Operation, cluster_of, operate
from tests.support.kraft_cluster import KraftCluster, KraftFold, Logged, Watcher

COMPARED = (
    kafka.PartitionChange,
    kafka.RemoveTopic,
    kafka.BrokerRegistrationChange,
    kafka.Config,
    kafka.FeatureLevel,
    kafka.KRaftVersion,
)
"""Records that can be lost so that a difference is certain while nothing later replaces what they changed."""


def committed(batches: Sequence[Logged]) -> Committed:
    """Return batches of a log as an observer releases them."""
    released = [
        CommittedBatch(
            each.offset,
            each.end - 1,
            each.epoch,
            each.at,
            [
                (each.offset + index, record)
                for index, record in enumerate(each.records)
                if not isinstance(record, kafka.NoOp)
            ],
        )
        for each in batches
    ]
    return Committed(released, batches[-1].end if batches else 0)


def image_of(cluster: KraftCluster, snapshot: Sequence[Any] = (), place: int = 0) -> ImageAt:
    """Return an image of a cluster from a snapshot at an offset, if there is one, and the log behind it."""
    image = MetadataImage()
    found: list[ImageAt] = []
    if place:
        end = EpochEnd(place, max(each.epoch for each in cluster.log if each.offset < place))
        half = len(snapshot) // 2
        for each in (
            SnapshotOpened(end, cluster.now),
            SnapshotChunk(list(snapshot[:half]), {}),
            SnapshotChunk(list(snapshot[half:]), {}),
            SnapshotComplete(end),
        ):
            found += image.apply_released(each)
    for batch in cluster.log:
        if batch.offset >= place:
            found += image.apply_released(committed([batch]))
    return found[-1]


def reconciled(image: ImageAt, *, generation: int = 1) -> MetadataReconciled:
    """Return the record that a watcher writes of an image."""
    end, digest = image
    return MetadataReconciled(
        v=METADATA_LOG_VERSION,
        cluster="prod",
        generation=generation,
        watcher="w1",
        observed_at=0,
        end=end.end_offset,
        epoch=end.epoch,
        topics=digest.topics,
        partitions=digest.partitions,
        brokers=digest.brokers,
        digest=digest_text(digest.digest),
    )


@given(before=HISTORIES, after=HISTORIES, elr=st.booleans(), has_snapshot=st.booleans())
def test_a_right_fold_agrees(
    before: Sequence[Operation], after: Sequence[Operation], *, elr: bool, has_snapshot: bool
) -> None:
    """Whether image and fold begin with the log or with a snapshot, and wherever that is: both hold the same."""
    cluster = cluster_of(before, elr=elr)
    snapshot, place = cluster.snapshot(), cluster.end
    late = KraftFold().feed(Watcher(cluster).snapshot(2))
    operate(cluster, after)
    cluster.tick(1_000)
    whole = KraftFold().feed(Watcher(cluster).slices())
    late.feed(Watcher(cluster).slices(first=place))
    image = image_of(cluster, snapshot, place) if has_snapshot else image_of(cluster)
    assert image.digest.partitions == sum(map(len, cluster.parts.values()))
    assert image.digest.brokers == len(cluster.brokers)
    for fold in (whole, late):
        assert digest_of(fold.state) == image.digest
        fold.feed([reconciled(image)])
        assert fold.cluster.log.divergent_since is None
        assert fold.cluster.log.reconciliations == 1
        assert fold.cluster.resync_wanted is None


def without(slices: Sequence[MetadataSlice], offset: int, put: Any) -> list[MetadataSlice]:
    """Return slices in which the record at an offset is another one, or none, as a faulty fold would have taken them."""
    faulty = []
    for each in slices:
        batches = []
        for batch in each.batches:
            records = [
                (batch.offset_of(index), record) for index, record in enumerate(batch.records)
            ]
            kept = [
                (place, put if place == offset else record)
                for place, record in records
                if place != offset or put is not None
            ]
            if kept:
                batches.append(
                    msgspec.structs.replace(
                        batch,
                        offset=kept[0][0],
                        offsets=tuple(place for place, _ in kept),
                        records=tuple(record for _, record in kept),
                    )
                )
        faulty.append(msgspec.structs.replace(each, batches=tuple(batches)))
    return faulty


def wrong(record: Any) -> Any:
    """Return a record that says something else than another one; None: the record is lost."""
    match record:
        case kafka.PartitionChange(isr=isr) if isr:
            return msgspec.structs.replace(record, isr=(*isr, 9))
        case kafka.Config(value=value) if value is not None:
            other = {"true": "false", "False": "true", "1": "2"}.get(value, "1")
            return msgspec.structs.replace(record, value=other)
        case kafka.FeatureLevel() | kafka.KRaftVersion():
            field = record.__struct_fields__[-1]
            return msgspec.structs.replace(record, **{field: getattr(record, field) + 1})
        case _:
            return None


@given(
    before=HISTORIES,
    after=st.lists(st.tuples(st.just("tick"), st.integers(0, 2_000)), max_size=3),
    elr=st.booleans(),
    is_lost=st.booleans(),
    data=st.data(),
)
def test_a_lost_or_wrong_record_is_found(
    before: Sequence[Operation],
    after: Sequence[Operation],
    data: st.DataObject,
    *,
    elr: bool,
    is_lost: bool,
) -> None:
    """A fold without a record, or with another one in its place, is told divergent, asks, and is right after a snapshot."""
    cluster = cluster_of(before, elr=elr)
    cluster.fence(1)
    operate(cluster, after)
    cluster.tick(500)
    slices = Watcher(cluster).slices()
    whole = digest_of(KraftFold().feed(slices).state)
    offsets = [
        (batch.offset_of(index), record)
        for each in slices
        for batch in each.batches
        for index, record in enumerate(batch.records)
        if isinstance(record, COMPARED)
    ]
    offset, record = data.draw(st.sampled_from(offsets))
    fold = KraftFold().feed(without(slices, offset, None if is_lost else wrong(record)))
    # A later record may say the same again: a broker that is fenced twice.
    assume(digest_of(fold.state) != whole)
    assert fold.cluster.log.incomplete_since is None or fold.cluster.log.anomalies
    fold.feed([reconciled(image_of(cluster))])
    log = fold.cluster.log
    assert log.divergent_since is not None
    assert fold.cluster.resync_wanted is not None
    assert fold.cluster.resync_wanted.offset is None
    told = [each for each in fold.events if isinstance(each, Divergent)]
    assert len(told) == 1
    assert f"at offset {cluster.end}" in told[0].reason
    # Contiguous slices alone do not end it.
    place = cluster.end
    cluster.tick(600_000)
    fold.feed(Watcher(cluster).slices(first=place)).feed([Watcher(cluster).heartbeat()])
    assert fold.cluster.log.divergent_since is not None
    again = Watcher(cluster, generation=2)
    fold.feed(again.snapshot(answers=fold.cluster.resync_wanted.number))
    cluster.tick(1_000)
    fold.feed(again.slices(first=fold.state.control.source.end))
    fold.feed([reconciled(image_of(cluster), generation=2)])
    assert fold.cluster.log.divergent_since is None
    assert isinstance(fold.events[-1], Verified)
    assert digest_of(fold.state) == image_of(cluster).digest


@pytest.mark.parametrize(
    "record",
    [
        kafka.Config(kafka.TOPIC_RESOURCE, "a", kafka.MIN_ISR, "2"),
        kafka.Config(kafka.TOPIC_RESOURCE, "a", kafka.MIN_ISR, " +3 "),
        kafka.Config(kafka.TOPIC_RESOURCE, "a", kafka.UNCLEAN, "False"),
        kafka.Config(kafka.BROKER_RESOURCE, "", kafka.MIN_ISR, "2"),
        kafka.Config(kafka.BROKER_RESOURCE, "1", kafka.UNCLEAN, "true"),
        kafka.FeatureLevel(kafka.METADATA_VERSION, 26),
        kafka.KRaftVersion(1),
    ],
)
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_setting_that_is_lost_or_wrong_is_found(record: Any, *, is_lost: bool) -> None:
    """Keys of topics, brokers and all brokers, features, and the version of the quorum."""
    cluster = cluster_of((), elr=False)
    offset = cluster.end
    cluster.write(record)
    slices = Watcher(cluster).slices()
    image = reconciled(image_of(cluster))
    assert KraftFold().feed([*slices, image]).cluster.log.divergent_since is None
    fold = KraftFold().feed(without(slices, offset, None if is_lost else wrong(record)))
    assert fold.feed([image]).cluster.log.divergent_since is not None


def test_a_setting_that_is_removed_is_none() -> None:
    """By its key, with its topic, by another value, as a feature that is off; and what no figure needs is not compared."""
    cluster = cluster_of((), elr=False)
    before = image_of(cluster).digest
    cluster.configure("a", kafka.MIN_ISR, "2")
    cluster.configure("a", kafka.MIN_ISR, "3")
    cluster.configure("a", kafka.UNCLEAN, "true")
    assert image_of(cluster).digest != before
    cluster.configure("a", kafka.MIN_ISR, None)
    cluster.configure("a", kafka.UNCLEAN, None)
    cluster.create("b", 1, 1)
    cluster.configure("b", kafka.MIN_ISR, "1")
    cluster.delete("b")
    cluster.write(kafka.FeatureLevel(kafka.ELR_VERSION, 1))
    cluster.write(kafka.FeatureLevel(kafka.ELR_VERSION, 0), kafka.KRaftVersion(0))
    cluster.write(kafka.Config(kafka.TOPIC_RESOURCE, "a", "retention.ms"))
    cluster.write(kafka.Config(8, "a", kafka.MIN_ISR, "1"))
    for odd in ("many", "9" * 5_000, "+"):
        cluster.write(kafka.Config(kafka.TOPIC_RESOURCE, "a", kafka.MIN_ISR, odd))
    assert image_of(cluster).digest == before
    fold = KraftFold().feed(Watcher(cluster).slices())
    assert digest_of(fold.state) == before


@given(HISTORIES)
def test_what_is_not_at_its_offset_is_not_compared(operations: Sequence[Operation]) -> None:
    """A fold that is behind asks for what it lacks, one that is ahead drops it: neither is told divergent."""
    cluster = cluster_of(operations, elr=False)
    place = cluster.end
    early = reconciled(image_of(cluster))
    cluster.create("late", 2, 2)
    late = reconciled(image_of(cluster))
    ahead = KraftFold().feed([*Watcher(cluster).slices(), early])
    behind = KraftFold().feed([*Watcher(cluster).slices(end=place), late])
    for fold in (ahead, behind):
        assert fold.cluster.log.divergent_since is None
        assert fold.cluster.log.reconciliations == 0
    assert behind.cluster.resync_wanted is not None
    assert behind.cluster.resync_wanted.offset == place
