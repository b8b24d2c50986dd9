"""A replayed log of a KRaft cluster shows at any place what a log shows that ends there, however it is cut into slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller_model.history.log_replay import END, LogReplay, Point
from controller_model.history.snapshot import Snapshot
from controller_model.kafka.ids import NOWHERE, Position
from controller_model.records.changes import join_changes
from controller_model.records.events import AnyEvent
from controller_model.records.loose_log import decode_line
from controller_model.records.metadata_log import AnyMetadataRecord, batch_by_batch, encode_metadata
from tests.property.test_kraft_log import HISTORIES, Operation, cluster_of
from tests.support.kraft_cluster import KraftCluster, Watcher


def replayed(
    records: Iterable[AnyMetadataRecord], *points: Point
) -> tuple[list[Snapshot | None], list[AnyEvent]]:
    """Replay records, one a line, and return the snapshots at the points and the events."""
    replay = LogReplay(points=points)
    events = [
        event
        for each in records
        for event in replay.apply_metadata(decode_line(encode_metadata(each)).metadata)
    ]
    events += replay.finish()
    assert replay.state.control.log.view.errors == 0
    return [replay.snapshots[point] for point in points], events


def facts(snapshot: Snapshot | None) -> Snapshot | None:
    """Return a snapshot without its place: records that are not kept move it, and nothing else."""
    if snapshot is None:
        return None
    return msgspec.structs.replace(snapshot, as_of=NOWHERE, at=0)


def up_to(cluster: KraftCluster, end: int) -> Snapshot | None:
    """Return what a log shows that ends with the last batch that ends at an offset or before it."""
    ends = [each.end for each in cluster.log if each.end <= end]
    if not ends:
        return None
    return facts(replayed(Watcher(cluster).slices(end=ends[-1]), END)[0][0])


@given(HISTORIES, st.booleans(), st.lists(st.integers(0, 400), max_size=5))
def test_each_place_shows_what_a_log_shows_that_ends_there(
    operations: Sequence[Operation], elr: bool, ends: list[int]
) -> None:
    """By offset, also within a batch, which is then not included, and by time."""
    cluster = cluster_of(operations, elr=elr)
    by_offset = [Point(until=Position(1, end)) for end in ends]
    times = [cluster.log[min(end, len(cluster.log) - 1)].at for end in ends]
    by_time = [Point(at=at) for at in times]
    shown, _ = replayed(Watcher(cluster).slices(), *by_offset, *by_time)
    wanted = [up_to(cluster, end) for end in ends]
    wanted += [
        up_to(cluster, max(each.end for each in cluster.log if each.at <= at)) for at in times
    ]
    assert [facts(each) for each in shown] == wanted


@given(HISTORIES, st.booleans(), st.lists(st.integers(0, 400), max_size=8))
def test_how_a_log_is_cut_changes_nothing(
    operations: Sequence[Operation], elr: bool, cuts: list[int]
) -> None:
    """Neither where slices end, nor that each batch is one, changes what is shown at the end."""
    cluster = cluster_of(operations, elr=elr)
    (whole,), events = replayed(Watcher(cluster).slices(), END)
    (cut,), _ = replayed(Watcher(cluster).slices(cuts), END)
    single = [part for each in Watcher(cluster).slices() for part in batch_by_batch(each)]
    (apart,), events_apart = replayed(single, END)
    assert cut == whole
    assert facts(apart) == facts(whole)
    assert [type(each) for each in events_apart] == [type(each) for each in events]


def test_lines_may_hold_records_of_both_kinds_and_damage() -> None:
    """Each record is read for itself; what cannot be read, or is of another version, is counted."""
    cluster = cluster_of([], elr=False)
    records = Watcher(cluster).slices()
    later = encode_metadata(records[0]).replace(b'"v":1', b'"v":9')
    line = join_changes([*map(encode_metadata, records), b'{"path":"/a"}', later, b"7"])
    read = decode_line(line)
    assert read.metadata == tuple(records)
    assert (len(read.changes), read.unreadable, read.ends_unreadable) == (1, 2, True)
    assert decode_line(encode_metadata(records[0])).metadata == (records[0],)


def test_a_cluster_has_records_of_one_kind() -> None:
    """Records of a ZooKeeper cluster under the same name are counted, and change nothing."""
    cluster = cluster_of([], elr=False)
    replay = LogReplay()
    replay.apply_metadata(Watcher(cluster).slices())
    before = replay.state.control.log.view.unreadable
    zookeepers = decode_line(b'{"cluster":"prod","path":"/brokers/topics/x","data":""}').changes
    replay.apply_changes(zookeepers)
    assert replay.state.control.log.view.unreadable == before + 1
    assert "x" not in set(replay.state.topics.names())
