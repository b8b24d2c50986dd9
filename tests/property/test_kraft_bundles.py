"""The log of an incident of a KRaft cluster: what is kept of it shows at both ends what the whole log shows."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from controller_model.history.log_replay import LogReplay, Point
from controller_model.history.snapshot import Snapshot
from controller_model.records.changes import join_changes
from controller_model.records.loose_log import decode_line
from controller_model.records.metadata_log import (
    AnyMetadataRecord,
    SnapshotStarted,
    encode_metadata,
)
from kcm.history.bundle_log import IncidentLog
from tests.property.test_kraft_log import HISTORIES, Operation, cluster_of, operate
from tests.support.kraft_cluster import Watcher


def recorded(before: Sequence[Operation], after: Sequence[Operation]) -> list[AnyMetadataRecord]:
    """Return a log in whose middle a snapshot was read, as after the topic had lost what was before."""
    cluster = cluster_of(before, elr=False)
    watcher = Watcher(cluster)
    cluster.tick(500)
    records: list[AnyMetadataRecord] = [*watcher.slices(), *watcher.snapshot(parts=2)]
    end = cluster.end
    operate(cluster, after)
    cluster.tick(500)
    return [*records, *watcher.slices(first=end), watcher.heartbeat()]


def at(lines: Sequence[bytes], *times: int) -> list[tuple[object, ...] | None]:
    """Return what a replay of lines shows at these times: all but what counts since its beginning."""
    points = [Point(at=each) for each in times]
    replay = LogReplay("prod", points=points)
    for line in lines:
        replay.apply_metadata(decode_line(line).metadata)
    replay.finish()
    return [shown(replay.snapshots[point]) for point in points]


def shown(snapshot: Snapshot | None) -> tuple[object, ...] | None:
    """Return what a snapshot says of the cluster itself."""
    if snapshot is None:
        return None
    live = {broker: each.live for broker, each in snapshot.brokers.items() if each.live}
    return snapshot.topics, snapshot.counts, snapshot.controller.id, live


@given(HISTORIES, HISTORIES, st.tuples(st.floats(0, 1), st.floats(0, 1)), st.booleans())
def test_what_is_kept_shows_at_both_ends_what_the_whole_log_shows(
    before: Sequence[Operation],
    after: Sequence[Operation],
    ends: tuple[float, float],
    is_without_beginning: bool,
) -> None:
    """The log may begin with a snapshot; what begins at offset 0 or with a whole snapshot needs nothing earlier."""
    records = recorded(before, after)
    if is_without_beginning:
        first = next(i for i, each in enumerate(records) if isinstance(each, SnapshotStarted))
        records = records[first:]
    begun, ended = records[0].observed_at, records[-1].observed_at
    from_ms, to_ms = sorted(begun + round(each * (ended - begun)) for each in ends)
    log = IncidentLog(None, from_ms=from_ms, to_ms=to_ms)
    for record in records:
        log.add_message(join_changes([encode_metadata(record)]))
    kept = [line.rstrip(b"\n") for line in log.lines()]
    log.close()
    whole = [encode_metadata(each) for each in records]
    assert log.is_anchored
    assert at(kept, from_ms, to_ms) == at(whole, from_ms, to_ms)
    assert max(decode_line(line).metadata[0].observed_at for line in kept) <= to_ms
