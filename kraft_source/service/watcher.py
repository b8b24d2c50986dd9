"""Decides what one watcher of a KRaft cluster writes into `kcm.changes`, beside any number of others.

The rule: every watcher makes the same records, so none needs the others' consent, and whoever writes one more time than
needed does no harm. To write each record once, a watcher that hears another one only keeps what it would have written,
until it reads it back; if that does not come, it writes. Nothing is dropped: what is not in the log yet is kept, within
a bound, and the controllers hold the rest. A hole in the log, whether read back or named by the fold, is filled by
reading the metadata log again from there. Another history gets the next generation.

No I/O, no clock: `now` is in ms of a clock that never goes back.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from controller_model.kafka.ids import Position
from controller_model.records.changes import digest_text
from controller_model.records.metadata_log import (
    METADATA_LOG_VERSION,
    MetadataHeartbeat,
    MetadataReconciled,
    MetadataSlice,
    QuorumSample,
    SnapshotFinished,
    SnapshotRecord,
    encode_metadata,
)
from controller_model.records.views import ClusterView
from kraft_source.image import ImageAt
from kraft_source.observer.observer import NOTHING
from kraft_source.observer.released import AnotherHistory, Committed, Released
from kraft_source.service.published_log import SLICE, PublishedLog, PublishedRecord
from kraft_source.slices import Made, RecordMaker
from kraft_source.wire.messages import EpochEnd, EpochLeader
from pipeline.runtime import ConflictError

SILENCE_MS = 3_000
"""Another watcher that is not heard for so long, or lets the log stand still although there is more, is replaced."""
REPLACED_MS = 15_000
"""So long a watcher that replaced a living one goes on beside it, unless that one writes again."""
REPETITIONS = 3
"""So many slices in a row that another watcher had written before: it is faster, and this one stops writing."""
REPAIR_MS = 10_000
"""A hole that is still there after this time is filled again: a reader may need the time to see that it was."""
ANSWER_MS = 60_000
"""The same for a request of the fold, which begins anew with all that the metadata log holds."""
READING_MS = 120_000
"""So long the fold may stand still while it reads a snapshot: it takes 60 s for 1,000,000 partitions."""
NEWS_MS = 1_000
"""The least time between heartbeats that report a change of the quorum: candidates may follow each other quickly."""
CONTEST_MS = 60_000
"""Two histories within this time are written by watchers of two clusters under one name."""

_UNFINISHED = "a snapshot was left unfinished by the watcher that wrote it"


class Sight(NamedTuple):
    """What an observer knows at a time, for heartbeats."""

    sent_at: int
    """In ms since 1970, by the watcher's clock."""
    leader: EpochLeader | None = None
    unreachable_since: int | None = None
    """In ms since 1970, by the watcher's clock."""
    quorum: QuorumSample | None = None
    leader_silent_since: int | None = None
    """Since when the leader has not answered although a voter names it, in ms since 1970, by the watcher's clock."""
    snapshot: tuple[int, int] | None = None
    """The end of the newest snapshot that a controller offers, and when its last record was appended."""

    @property
    def has_no_leader(self) -> bool:
        """Whether a voter says that the newest epoch has no leader."""
        return self.leader is not None and self.leader.id < 0

    @property
    def news(self) -> tuple[object, ...]:
        """What is reported at once when it changes: who leads, whether anybody answers, and which voters are caught up."""
        sample = self.quorum
        of_sample = None if sample is None else (sample.epoch, sample.leader, sample.caught_up)
        is_answered = self.unreachable_since is None, self.leader_silent_since is None
        return self.leader, is_answered, of_sample


class MetadataWatcher:
    """What one watcher holds, and decides to write. The caller carries out `restart_at` and writes what `pop` returns."""

    def __init__(
        self, cluster: str, name: str, cluster_id: str | None, *, heartbeat_ms: int, now: int
    ) -> None:
        self.name = name
        self.log = PublishedLog()
        self.generation = 0
        self.leads = False
        """Whether it writes."""
        self.restart_at: EpochEnd | None = None
        """Where an observer has to begin anew; set back by the caller."""
        self.repairs = 0
        """How often a hole was filled."""
        self.waiting_bytes = 0
        self._cluster, self._cluster_id = cluster, cluster_id
        self._waiting: deque[Made] = deque()
        self._waiting_since = now
        """Since when a kept record waits without a move of the log."""
        self._heartbeat_ms = heartbeat_ms
        self._heartbeat_due = now
        self._beaten: tuple[tuple[object, ...], int] | None = None
        """What the last heartbeat reported (`Sight.news`), and when."""
        self._is_vacant = False
        """Whether a voter said at the last turn that there is no leader."""
        self._heard = now
        """When another watcher of this generation was heard; the past if none ever was."""
        self._moved = self._ticked = now
        self._replaced = now - REPLACED_MS - 1
        """When another watcher was replaced that lives, but did not write what it should."""
        self._repetitions = 0
        self._republish_to = 0
        """Offsets below are written again although the log holds them."""
        self._repaired = now - REPAIR_MS
        self._answered: tuple[int, int] | None = None
        """The number of the fold's last request that was answered, and when."""
        self._history_began = now - CONTEST_MS
        self._reading: tuple[Position, int] | None = None
        """Where the fold stands that reads a snapshot, and since when."""
        self._has_open_snapshot = False
        """Whether the beginning of a snapshot was handed out, and not its end."""
        self._appended: tuple[int, int] | None = None
        """When the newest known record was appended, by the controller's clock, and when that became known."""
        self.published = 0
        """The offset behind what was handed out, in this generation."""
        self.maker = self._new_maker(NOTHING)

    @property
    def position(self) -> Position:
        """The place in the log behind what was handed out."""
        return Position(self.generation, self.published)

    @property
    def waiting(self) -> int:
        """Records that wait."""
        return len(self._waiting)

    def begin(
        self, generation: int, records: Iterable[PublishedRecord], *, is_alone: bool, now: int
    ) -> EpochEnd:
        """Begin behind what the topic holds; return where an observer has to begin.

        `generation`: the highest of the log, the views and beats. `is_alone`: no other watcher seems to run. Raises
        ConflictError where the newest record is of a cluster with ZooKeeper: its history goes on.
        """
        is_of_zookeeper = False
        for record in records:
            is_of_zookeeper = bool(record.kind)
            if not is_of_zookeeper:
                self.log.apply_record(record)
                self._note_appended(record.observed_at, now)
        if is_of_zookeeper:
            raise ConflictError(
                f"the topic holds the cluster {self._cluster} as one with ZooKeeper: give the KRaft cluster "
                "another --cluster"
            )
        self.generation = max(1, generation, self.log.generation)
        self._heard = now - SILENCE_MS - 1 if is_alone else now
        ids = {self._cluster_id, self.log.cluster_id} - {None}
        if len(ids) > 1:
            self.generation += 1
            self._history_began = now
        is_ours = self.generation == self.log.generation and self.log.end is not None
        place = self.log.end if is_ours and self.log.end is not None else NOTHING
        self._go_on_from(place)
        self.restart_at = None
        return place

    def name_cluster(self, cluster_id: str, now: int) -> None:
        """Note the cluster's id, which a controller has told; the topic may hold another cluster under our name."""
        if self._cluster_id is not None:
            return
        self._cluster_id = cluster_id
        self.maker.name_cluster(cluster_id)
        is_same = self.log.generation == self.generation
        if is_same and self.log.cluster_id not in {None, cluster_id}:
            self._begin_history(now)

    def handle_released(self, released: Released, leader: EpochLeader | None, now: int) -> None:
        """Take what an observer has released."""
        if isinstance(released, AnotherHistory):
            self._begin_history(now)
            self.restart_at = None  # the observer has begun anew by itself
        if isinstance(released, Committed) and self.maker.is_in_snapshot:
            # Another controller has the log itself, so the observer gave the snapshot up.
            if self._has_open_snapshot:
                self._begin_anew(_UNFINISHED)
                return
            self._forget_snapshot()
        for made in self.maker.handle_released(released, leader):
            if not self._add(made, now):
                return
        if self.maker.appended_at is not None:
            self._note_appended(self.maker.appended_at, now)

    def handle_published(self, record: PublishedRecord, now: int) -> None:
        """Take the next record that the topic holds, whoever wrote it."""
        if record.kind:
            return  # of a cluster with ZooKeeper that was given our name: the fold counts it, and says so
        has_moved = self.log.apply_record(record)
        is_ours = record.watcher == self.name
        if self.log.generation > self.generation:
            self._join(now)
        if not is_ours and record.generation == self.generation:
            self._heard = now
        self._note_appended(record.observed_at, now)
        if has_moved:
            self._moved = now
            if not is_ours:
                self._replaced = now - REPLACED_MS - 1
        if is_ours and record.record == SLICE and record.last >= self._republish_to:
            self._repetitions = 0 if has_moved or self.log.is_missing else self._repetitions + 1
            if self._repetitions >= REPETITIONS and now - self._heard < SILENCE_MS:
                self.leads = False
                self._repetitions = 0

    def hear(self, watcher: str, generation: int, now: int) -> None:
        """Note a beat of another watcher that writes; of two that do, the one whose name sorts last stops."""
        if generation < self.generation:
            return
        self._heard = now
        if self.name > watcher and now - self._replaced > REPLACED_MS:
            self.leads = False

    def handle_view(self, view: ClusterView, now: int) -> None:
        """Answer what the fold asks for."""
        self._note_reading(view, now)
        wanted = view.resync_wanted
        if not self.leads or wanted is None or view.as_of.generation > self.generation:
            return
        if wanted.offset is not None:
            if now - self._repaired >= REPAIR_MS:
                epoch = self.log.epoch_at(wanted.offset - 1)
                is_known = wanted.offset > 0 and epoch is not None
                self._repair(EpochEnd(wanted.offset, epoch or 0) if is_known else NOTHING, now)
            return
        if self._answered is not None:
            number, at = self._answered
            if wanted.number <= number and now - at < ANSWER_MS:
                return
        self._answered = wanted.number, now
        self._begin_anew(wanted.reason)
        self.maker.answers = wanted.number

    def _note_reading(self, view: ClusterView, now: int) -> None:
        """Note for how long the fold has waited for the rest of a snapshot."""
        if not view.log.resync_under_way:
            self._reading = None
        elif self._reading is None or self._reading[0] != view.as_of.position:
            self._reading = view.as_of.position, now
        elif now - self._reading[1] > READING_MS and self.leads:
            self._reading = None
            self._begin_anew(_UNFINISHED)

    def tick(self, sight: Sight, now: int) -> None:
        """Decide what depends on time alone."""
        self._drop_published(now)
        if now - self._ticked > SILENCE_MS and not self.leads:
            # This process was paused: what others have sent in the meantime is still to be read.
            self._heard = self._moved = now
        self._ticked = now
        has_other = now - self._heard <= SILENCE_MS
        if sight.unreachable_since is not None and has_other:
            self.leads = False
        elif not self.leads and (not has_other or self._is_stuck(now)):
            self.leads = True
            if has_other:
                self._replaced = now
        if self.leads and now - max(self._repaired, self._moved) >= SILENCE_MS:
            self._fill_hole(now)
        self._beat(sight, now)

    def _beat(self, sight: Sight, now: int) -> None:
        """Write a heartbeat if one is due, or soon after what it reports has changed."""
        was_vacant, self._is_vacant = self._is_vacant, sight.has_no_leader
        if self._is_vacant and not was_vacant:
            # A lost quorum commits nothing: only a heartbeat shows it, and it must not wait.
            self._heartbeat_due = now
        elif self._beaten is not None and self._beaten[0] != sight.news:
            self._heartbeat_due = min(self._heartbeat_due, self._beaten[1] + NEWS_MS)
        if now < self._heartbeat_due:
            return
        self._beaten = sight.news, now
        self._heartbeat_due = now + self._heartbeat_ms
        for made in self.maker.flush():
            self._add(made, now)
        heartbeat = self._heartbeat(sight, now)
        if self.leads and heartbeat is not None:
            if self._waiting and isinstance(self._waiting[-1].record, MetadataHeartbeat):
                self.waiting_bytes -= len(self._waiting.pop().data)
            self._append(heartbeat, now)

    @property
    def reconciles_at(self) -> int | None:
        """The offset up to which an image must be for `reconcile`; None: this watcher does not write, or has not all."""
        is_whole = self.leads and not self.maker.is_in_snapshot and self.restart_at is None
        return self.maker.released if is_whole else None

    def reconcile(self, image: ImageAt, now: int) -> None:
        """Write what the controllers hold at `reconciles_at`, behind all up to there; nothing for another history."""
        for made in self.maker.flush():
            if not self._add(made, now):
                return
        end, digest = image
        if end != self.maker.place:
            return
        record = MetadataReconciled(
            v=METADATA_LOG_VERSION,
            cluster=self._cluster,
            generation=self.generation,
            watcher=self.name,
            observed_at=self.maker.appended_at or 0,
            cluster_id=self._cluster_id,
            end=end.end_offset,
            epoch=end.epoch,
            topics=digest.topics,
            partitions=digest.partitions,
            brokers=digest.brokers,
            digest=digest_text(digest.digest),
        )
        self._append(Made(record, encode_metadata(record)), now)

    def _fill_hole(self, now: int) -> None:
        """Write what readers of the topic lack, if there is anything."""
        writer = self.log.snapshot_writer
        if writer is not None and writer != self.name:
            # Readers wait for the rest of a snapshot that nobody writes, and take no slices.
            self._repaired = now
            self._begin_anew(_UNFINISHED)
        elif self.log.is_missing and self.log.end is not None:
            self._repair(self.log.end, now)

    def wait_ms(self, now: int) -> int:
        """Return after how long `tick` may have something to do."""
        return max(0, min(self._heartbeat_due - now, SILENCE_MS // 3))

    def pop(self) -> Made | None:
        """Return the next record to write; None: nothing now."""
        if not self.leads or not self._waiting:
            return None
        made = self._waiting.popleft()
        self.waiting_bytes -= len(made.data)
        if isinstance(made.record, MetadataSlice | SnapshotFinished):
            self.published = _seq(made)
        if isinstance(made.record, SnapshotRecord):
            self._has_open_snapshot = not isinstance(made.record, SnapshotFinished)
        return made

    @property
    def _held(self) -> int:
        """The offset behind what a reader of the topic holds, in this generation."""
        is_same = self.log.generation == self.generation
        return self.log.end.end_offset if is_same and self.log.end is not None else 0

    def _new_maker(self, place: EpochEnd) -> RecordMaker:
        return RecordMaker(self._cluster, self.name, self._cluster_id, self.generation, place)

    def _go_on_from(self, place: EpochEnd) -> None:
        """Make records from a place on; what waits is made again."""
        self.maker = self._new_maker(place)
        self.published = place.end_offset
        self.restart_at = place
        self._waiting.clear()
        self.waiting_bytes = 0
        self._has_open_snapshot = False

    def _begin_anew(self, reason: str) -> None:
        """Write all that the metadata log holds, in the next generation."""
        self.generation = max(self.generation, self.log.generation) + 1
        self._republish_to = 0
        self._go_on_from(NOTHING)
        self.maker.snapshot_reason = reason

    def _forget_snapshot(self) -> None:
        """Drop the beginning of a snapshot that nobody has seen."""
        self.maker.is_in_snapshot = False
        kept = [each for each in self._waiting if isinstance(each.record, MetadataSlice)]
        self._waiting = deque(kept)
        self.waiting_bytes = sum(len(each.data) for each in kept)

    def _repair(self, place: EpochEnd, now: int) -> None:
        self.repairs += 1
        self._repaired = now
        if self._has_open_snapshot:
            self._begin_anew(_UNFINISHED)
            return
        self._republish_to = max(self._held, self.published)
        self._go_on_from(place)

    def _begin_history(self, now: int) -> None:
        """Begin the next generation, or join the one that another watcher has begun."""
        if self.log.generation > self.generation:
            self._join(now)
            return
        if now - self._history_began < CONTEST_MS:
            raise ConflictError(
                f"another watcher writes the metadata log of another KRaft cluster under the name "
                f"{self._cluster}: give each cluster its own --cluster, or correct --controllers"
            )
        self._history_began = now
        self.generation += 1
        self._republish_to = 0
        self.leads = True
        self._go_on_from(NOTHING)

    def _join(self, now: int) -> None:
        """Follow another watcher to the generation that it has begun."""
        ids = {self._cluster_id, self.log.cluster_id} - {None}
        if len(ids) > 1:
            raise ConflictError(
                f"another watcher writes the KRaft cluster {self.log.cluster_id} under the name "
                f"{self._cluster}, which watches {self._cluster_id} here: give each cluster its own --cluster"
            )
        self.generation = self.log.generation
        self.leads = False
        self._heard = self._history_began = now
        self._republish_to = 0
        self._go_on_from(NOTHING)

    def _add(self, made: Made, now: int) -> bool:
        """Keep a record until it is in the log; return False if it shows that the log is of another history."""
        record = made.record
        begin = record.first if isinstance(record, MetadataSlice) else _seq(made)
        if _seq(made) > self._held or begin < self._republish_to:
            self._append(made, now)
            return True
        if isinstance(record, MetadataSlice):
            known = self.log.epoch_at(record.last)
            if known is not None and known != record.epoch:
                self._begin_history(now)
                return False
        return True

    def _append(self, made: Made, now: int) -> None:
        if not self._waiting:
            self._waiting_since = now
        self._waiting.append(made)
        self.waiting_bytes += len(made.data)

    def _drop_published(self, now: int) -> None:
        """Drop what waits and another watcher has written in the meantime."""
        if self.leads:
            return
        while self._waiting and _seq(self._waiting[0]) <= self._held:
            self.waiting_bytes -= len(self._waiting.popleft().data)
            self._waiting_since = now
        self.published = max(self.published, self._held)

    def _is_stuck(self, now: int) -> bool:
        """Return whether nobody else writes what waits here."""
        stood = now - max(self._moved, self._waiting_since)
        has_news = any(_is_news(made) for made in self._waiting)
        return has_news and stood > SILENCE_MS

    def _note_appended(self, at: int, now: int) -> None:
        if self._appended is None or at > self._appended[0]:
            self._appended = at, now

    def _heartbeat(self, sight: Sight, now: int) -> Made | None:
        """Return a heartbeat; None while no time of the cluster is known."""
        if self._appended is None:
            return None
        at, known = self._appended
        waiting = max((_seq(each) for each in self._waiting), default=0)
        leader = sight.leader
        snapshot = max(filter(None, (sight.snapshot, self.maker.snapshot)), default=None)
        record = MetadataHeartbeat(
            v=METADATA_LOG_VERSION,
            cluster=self._cluster,
            generation=self.generation,
            watcher=self.name,
            observed_at=at + now - known,
            cluster_id=self._cluster_id,
            end=max(self.published, waiting, self._held),
            sent_at=sight.sent_at,
            high_watermark=self.maker.high_watermark,
            leader=None if leader is None else leader.id,
            leader_epoch=None if leader is None else leader.epoch,
            unreachable_since=sight.unreachable_since,
            leader_silent_since=sight.leader_silent_since,
            quorum=sight.quorum,
            snapshot_end=None if snapshot is None else snapshot[0],
            snapshot_at=None if snapshot is None else snapshot[1],
        )
        return Made(record, encode_metadata(record))


def _seq(made: Made) -> int:
    """Return the offset behind what a record covers."""
    record = made.record
    return record.last + 1 if isinstance(record, MetadataSlice) else record.end


def _is_news(made: Made) -> bool:
    record = made.record
    if isinstance(record, MetadataSlice):
        return bool(record.batches or record.unknown)
    return isinstance(record, SnapshotRecord)
