"""Compare the records of `kcm.changes` with the log files of a KRaft cluster's controllers: true, in order, none lost.

What is asserted:

- **True.** Each slice has the records that a majority of the controllers has in its files at these offsets: of the
  same epoch and time, with the same content, none besides, and the epoch of the record before it.
- **None lost.** It has all kept records of its offsets; what readers take of the log has no gap between offsets, but
  where a snapshot begins.
- **Whole.** A snapshot has, at its end, the topics, partitions and registrations that the files' records add up to.
- **Newest.** At a quiet moment the log ends behind the last kept record.

Watchers may write the same offsets: what is repeated is counted, and compared all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from controller_model.kafka import metadata_records as kafka
from controller_model.records.metadata_log import (
    NO_EPOCH,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from tests.faults.history import LOOKS, Checked, read_log
from tests.faults.judge import STALE_S
from tests.faults.metadata_truth import Batch, MetadataLogs

Key = tuple[Any, ...]


class MetadataHistory:
    """The two sides of one environment, compared after each of its cells."""

    def __init__(self, log_dirs: Sequence[Path], bootstrap_servers: Callable[[], str]) -> None:
        """Name the `log.dirs` of each controller, and the pipeline's Kafka."""
        self._log_dirs = log_dirs
        self._bootstrap_servers = bootstrap_servers
        self._checked = 0
        self._repeated = 0

    def check(self) -> Checked:
        """Compare all that was ever written; return what is new. All controllers must serve."""
        up_to = self._committed()[-1].last_offset
        for _ in range(LOOKS):
            time.sleep(STALE_S)
            batches = read_log(self._bootstrap_servers())
            published = [record for batch in batches for record in batch.metadata]
            comparison = MetadataComparison(self._committed())
            comparison.read(published)
            comparison.finish(up_to=up_to)
            if not comparison.problems:
                break
        new, self._checked = up_to + 1 - self._checked, up_to + 1
        repeated, self._repeated = comparison.repeated - self._repeated, comparison.repeated
        return Checked(new, 0, tuple(comparison.problems), max(0, repeated))

    def _committed(self) -> list[Batch]:
        logs = MetadataLogs(self._log_dirs)
        logs.read()
        return logs.committed


class MetadataComparison:
    """Compares published records, one after another, with the committed batches of the controllers' files."""

    def __init__(self, committed: Sequence[Batch]) -> None:
        self.problems: list[str] = []
        self.repeated = 0
        """Slices that readers drop, as all of it was there before."""
        self._end = 0
        """The offset with which readers go on."""
        self._committed = committed
        self._epochs: dict[int, tuple[int, int]] = {}
        self._records: dict[int, Any] = {}
        for batch in committed:
            for offset in range(batch.offset, batch.last_offset + 1):
                self._epochs[offset] = (batch.epoch, batch.at)
            self._records |= batch.records
        self._snapshot: tuple[SnapshotStarted, list[Any]] | None = None

    def read(self, published: Iterable[Any]) -> None:
        """Compare records."""
        for each in published:
            match each:
                case MetadataSlice():
                    self._compare(each)
                case SnapshotStarted():
                    self._snapshot = (each, [])
                case SnapshotPart():
                    if self._snapshot is not None and each.watcher == self._snapshot[0].watcher:
                        self._snapshot[1].extend(each.records)
                case SnapshotFinished():
                    if self._snapshot is not None and each.watcher == self._snapshot[0].watcher:
                        self._compare_snapshot(*self._snapshot)
                        self._snapshot = None
                case _:
                    pass

    def finish(self, *, up_to: int) -> None:
        """Assert that all kept records up to an offset are published."""
        missing = [offset for offset in self._records if self._end <= offset <= up_to]
        if missing:
            self.problems.append(f"the log ends at {self._end}: it lacks offsets {missing[:5]}")

    def _compare(self, found: MetadataSlice) -> None:
        where = f"slice {found.first} to {found.last} of {found.watcher}"
        published = {
            batch.offset_of(index): (batch.at, record)
            for batch in found.batches
            for index, record in enumerate(batch.records)
        }
        offsets = range(found.first, found.last + 1)
        for offset in offsets:
            held = self._epochs.get(offset)
            if held is None or held[0] != found.epoch:
                self.problems.append(f"{where}: offset {offset} of epoch {found.epoch} is {held}")
                return
        true = {
            offset: (self._epochs[offset][1], self._records[offset])
            for offset in offsets
            if offset in self._records
        }
        if published != true:
            differing = [
                offset
                for offset in sorted({*published, *true})
                if published.get(offset) != true.get(offset)
            ]
            self.problems.append(
                f"{where}: offset {differing[0]} is {published.get(differing[0])}, "
                f"in the files {true.get(differing[0])}"
            )
        before = self._epochs.get(found.first - 1, (NO_EPOCH, 0))[0]
        if found.after_epoch != before:
            self.problems.append(f"{where}: after epoch {found.after_epoch}, and not {before}")
        if found.first > self._end:
            self.problems.append(f"{where}: the log had ended at {self._end}: offsets are lost")
        self.repeated += found.last < self._end
        self._end = max(self._end, found.last + 1)

    def _compare_snapshot(self, started: SnapshotStarted, records: Sequence[Any]) -> None:
        where = f"snapshot {started.end} of {started.watcher}"
        held = self._epochs.get(started.end - 1)
        if held is None or held != (started.epoch, started.observed_at):
            self.problems.append(f"{where}: epoch {started.epoch}, and the files have {held}")
        before = (r for offset, r in sorted(self._records.items()) if offset < started.end)
        found, true = entities(records), entities(before)
        for key in sorted({*found, *true}, key=str):
            if found.get(key) != true.get(key):
                self.problems.append(f"{where}: {key} is {found.get(key)}, not {true.get(key)}")
                break
        self._end = max(self._end, started.end)


def entities(records: Iterable[Any]) -> dict[Key, Key]:
    """Return what records add up to: each topic, partition and registration, as a snapshot states it."""
    held: dict[Key, Any] = {}
    for each in records:
        match each:
            case kafka.Topic():
                held["topic", each.topic_id] = (each.name,)
            case kafka.RemoveTopic():
                topic = each.topic_id
                held = {key: value for key, value in held.items() if key[1] != topic}
            case kafka.Partition():
                led = (each.leader, each.leader_epoch, each.partition_epoch)
                held["partition", each.topic_id, each.partition_id] = (
                    each.replicas,
                    each.isr,
                    *led,
                )
            case kafka.PartitionChange():
                key = ("partition", each.topic_id, each.partition_id)
                if key in held:
                    held[key] = _changed(held[key], each)
            case kafka.RegisterBroker():
                state = (each.broker_epoch, each.fenced, each.in_controlled_shutdown)
                held["broker", each.broker_id] = state
            case kafka.UnregisterBroker():
                held.pop(("broker", each.broker_id), None)
            case kafka.BrokerRegistrationChange():
                epoch, fenced, stops = held["broker", each.broker_id]
                fenced = fenced if each.fenced is None else each.fenced
                stops = stops or each.in_controlled_shutdown
                held["broker", each.broker_id] = (epoch, fenced, stops)
            case _:
                pass
    return held


def _changed(state: Any, change: kafka.PartitionChange) -> Key:
    replicas, isr, leader, leader_epoch, epoch = state
    return (
        replicas if change.replicas is None else change.replicas,
        isr if change.isr is None else change.isr,
        leader if change.leader is None else change.leader,
        leader_epoch + (change.leader is not None),
        epoch + 1,
    )
