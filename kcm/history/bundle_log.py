"""Keep what an incident needs: its events, and the log from the last good resync before it to its end.

The rule: a resync is good when the replay of the log finds it complete and verified, and when it
ended before the incident begins. Then the part needs no earlier record. Otherwise the part begins
where the topic does, and the bundle says what is not known because of that. Of a KRaft cluster a snapshot of its metadata
log is what a resync is, and so is the beginning of that log.
"""

import tempfile
from collections.abc import Iterator

import msgspec

from controller_model.history.log_replay import LogReplay
from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import Position
from controller_model.records.changes import AnyRecord, ChangeKind, ZnodeChange
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.event_records import EventId, decode_event, encode_event
from controller_model.records.loose_log import LooseChange, decode_line
from controller_model.records.metadata_log import (
    AnyMetadataRecord,
    MetadataSlice,
    SnapshotFinished,
    SnapshotStarted,
    batch_by_batch,
    encode_metadata,
)
from kcm.cli.text import time_text

_raw_decoder = msgspec.json.Decoder(tuple[msgspec.Raw, ...])


class _Part:
    """The records from one resync's start to the next one's, in a file that is deleted when closed."""

    def __init__(self, first: AnyRecord) -> None:
        self.first = first
        self.changes = 0
        self.unreadable = 0
        self.file = tempfile.NamedTemporaryFile(prefix="kcm-bundle-")  # noqa: SIM115  # closed when the part is dropped


class IncidentLog:
    """Takes a log record by record, and keeps on disk what the incident needs."""

    def __init__(self, cluster: str | None, *, from_ms: int, to_ms: int) -> None:
        self.chosen = cluster
        """The cluster that the user named; None: the first one that the log names."""
        self.from_ms = from_ms
        self.to_ms = to_ms
        self.replay = LogReplay(cluster)
        self.last: AnyRecord | None = None
        """The last change that was taken and not dropped."""
        self.at_from: Position | None = None
        """The position of the last change up to the beginning of the incident."""
        self.is_anchored = False
        """Whether the part begins with a good resync that ended before the incident."""
        self.is_over = False
        """Whether a change after the incident has been seen."""
        self._parts: list[_Part] = []
        self._early: list[bytes] = []
        """Unreadable records before the first change."""

    @property
    def first(self) -> AnyRecord | None:
        """The first change that is kept; None before any."""
        return self._parts[0].first if self._parts else None

    @property
    def changes(self) -> int:
        """How many changes are kept."""
        return sum(part.changes for part in self._parts)

    @property
    def unreadable(self) -> int:
        """How many records are kept that cannot be read."""
        return sum(part.unreadable for part in self._parts)

    def add_message(self, message: bytes) -> None:
        """Take one message of the log."""
        try:
            records = [bytes(raw) for raw in _raw_decoder.decode(message)]
        except DECODING_ERRORS:
            records = [message]
        for record in records:
            self._add_record(record.replace(b"\n", b" "))

    def lines(self) -> Iterator[bytes]:
        """Yield the kept records, in order."""
        for part in self._parts:
            part.file.seek(0)
            yield from part.file

    def close(self) -> None:
        """Drop everything that is kept."""
        for part in self._parts:
            part.file.close()

    def _add_record(self, record: bytes) -> None:
        loose = decode_line(record)
        for request in loose.requests:
            self._add_request(record, request)
        for change in loose.changes:
            self._add_change(record, change)
        for metadata in loose.metadata:
            self._add_metadata(record, metadata)
        if loose.unreadable:
            self._add_unreadable(record, loose.reason)

    def _add_request(self, record: bytes, request: ElectionRequest) -> None:
        if self._parts and not self.is_over and request.cluster == self.replay.cluster:
            self.replay.store_requests((request,))
            self._write(record)

    def _add_unreadable(self, record: bytes, reason: str) -> None:
        if self.is_over:
            return
        self.replay.count_unreadable(1, reason)
        if self._parts:
            self._write(record)
            self._parts[-1].unreadable += 1
        else:
            self._early.append(record)

    def _add_change(self, record: bytes, change: LooseChange) -> None:
        names = self.replay.clusters
        if change.cluster:
            names.add(change.cluster)
        if change.cluster not in {"", self.replay.cluster or change.cluster}:
            return
        dropped = self.replay.drops(change)
        if change.observed_at > self.to_ms and not dropped:
            self.is_over = True
        if self.is_over:
            return
        self.replay.apply_changes((change,))
        if dropped:
            self._store_change(record)  # the replay of the bundle must count it, too
            return
        # As in `Point`: a change that follows a later time counts as later, whatever its own time
        # is.
        is_before = self.replay.state.control.now <= self.from_ms
        if not self._parts or (is_before and change.kind is ChangeKind.RESYNC_STARTED):
            self._begin_part(change)
        self._store_change(record)
        self.last = change
        if is_before:
            self.at_from = change.position
            self._drop_what_is_not_needed(change)

    def _add_metadata(self, line: bytes, record: AnyMetadataRecord) -> None:
        """Take a record of a KRaft cluster; of a slice that passes an end of the incident, batch by batch."""
        self.replay.clusters.add(record.cluster)
        if record.cluster != (self.replay.cluster or record.cluster):
            return
        now = self.replay.state.control.now
        is_split = any(now <= end < record.observed_at for end in (self.from_ms, self.to_ms))
        for piece in batch_by_batch(record) if is_split else (record,):
            if piece.observed_at > self.to_ms:
                self.is_over = True
            if not self.is_over:
                self._add_piece(encode_metadata(piece) if is_split else line, piece)

    def _add_piece(self, line: bytes, record: AnyMetadataRecord) -> None:
        log = self.replay.state.control.log
        views_from = log.views_from
        self.replay.apply_metadata((record,))
        control = self.replay.state.control
        is_before = control.now <= self.from_ms
        is_whole = isinstance(record, MetadataSlice) and record.first == 0
        if not self._parts or (is_before and (is_whole or isinstance(record, SnapshotStarted))):
            self._begin_part(record)
            if is_whole:
                self._keep_from(len(self._parts) - 1)
        self._store_change(line)
        self.last = record
        if is_before:
            self.at_from = record.position
        is_read = isinstance(record, SnapshotFinished) and control.log.views_from != views_from
        if is_before and is_read:
            # Another watcher may have begun one that it did not end; the last that began is the one that was read.
            self._keep_from(len(self._parts) - 1)

    def _begin_part(self, change: AnyRecord) -> None:
        self._parts.append(_Part(change))
        for record in self._early:
            self._write(record)
        self._parts[-1].unreadable = len(self._early)
        self._early = []

    def _store_change(self, record: bytes) -> None:
        self._write(record)
        self._parts[-1].changes += 1

    def _write(self, record: bytes) -> None:
        self._parts[-1].file.write(record + b"\n")

    def _drop_what_is_not_needed(self, change: ZnodeChange) -> None:
        """Start the kept part at the resync that has just ended, if it was a good one."""
        if change.kind is not ChangeKind.RESYNC_FINISHED:
            return
        began = self.replay.state.control.log.views_from
        for index, part in enumerate(self._parts):
            if part.first.position == began:
                self._keep_from(index)
                return

    def _keep_from(self, index: int) -> None:
        """Drop the parts before one that needs no earlier record."""
        for old in self._parts[:index]:
            old.file.close()
        self._parts = self._parts[index:]
        self.is_anchored = True


class IncidentEvents:
    """Takes the messages of <prefix>.events in order, and keeps the events of the incident.

    They are the pipeline's own events, as published at the time; a replay of the bundle's log may
    group some of them differently. An event that a batch published twice is taken once.
    """

    def __init__(self, cluster: str, *, from_ms: int, to_ms: int) -> None:
        self.kept: list[bytes] = []
        self._cluster = cluster
        self._from_ms = from_ms
        self._to_ms = to_ms
        self._highest: EventId | None = None
        self._earliest: int | None = None
        self._lineages: set[str] = set()
        self._unreadable = 0

    def add_message(self, message: bytes) -> None:
        """Take one message."""
        try:
            record = decode_event(message)
        except UnreadableRecordError:
            self._unreadable += 1
            return
        is_again = self._highest is not None and record.id <= self._highest
        if record.cluster != self._cluster or is_again:
            return
        self._highest = record.id
        at = record.event.at
        self._earliest = at if self._earliest is None else min(at, self._earliest)
        if self._from_ms <= at <= self._to_ms:
            self._lineages.add(record.id.lineage)
            self.kept.append(encode_event(record))

    def missing(self, topic: str, *, is_cut: bool) -> list[str]:
        """Return what is missing; `is_cut`: retention has deleted records from the topic."""
        missing = []
        if self._earliest is None:
            missing.append(f"{topic} has no event of the cluster: the fold has published none")
        elif is_cut and self._earliest > self._from_ms:
            earliest = time_text(self._earliest)
            missing.append(f"events before {earliest} are gone: the topic's retention took them")
        if self._unreadable:
            missing.append(f"{self._unreadable} events cannot be read")
        if len(self._lineages) > 1:
            missing.append(
                f"the events are of {len(self._lineages)} lineages: a later one publishes again what "
                "an earlier one published"
            )
        return missing
