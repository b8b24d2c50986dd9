"""Replay a whole log outside of the pipeline, and take snapshots at given points.

The rule: where the fold does not know enough it requests a resync, which a recording cannot answer.
So a log that does not begin with a resync is applied from its first change on, and the snapshot says
that it is incomplete. If the first resync cannot be proved, counting starts at its end all the same.
The pipeline's own logs need neither, and give what the fold gives. What the fold drops has no effect
here either. A record that cannot be read leaves a hole, which the next change shows by its seq; if
none does, as at the log's end, the snapshot is incomplete.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, cast

import msgspec

from controller_model.facts.stamp import where
from controller_model.fold.log_clock import time_after
from controller_model.fold.replay import EventBatch, is_dropped
from controller_model.handlers.apply import apply_fact
from controller_model.history.snapshot import Snapshot, snapshot
from controller_model.kafka.ids import NO_CONTROLLER, NOWHERE, Position
from controller_model.records.changes import AnyRecord, ChangeKind, ZnodeChange
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.event_records import coalesce
from controller_model.records.events import (
    AnyEvent,
    Baseline,
    BrokerStarted,
    ControllerElected,
    Incomplete,
    TopicCreated,
    TopicExpanded,
)
from controller_model.records.loose_log import LooseChange, complete
from controller_model.records.metadata_log import AnyMetadataRecord, batch_by_batch
from controller_model.records.views import Failover
from controller_model.sources.source_of import is_of, source_of
from controller_model.sources.zookeeper.controller import start_counting
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.sources.zookeeper.stats import stamp_of
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.log_state import LogState, is_time
from controller_model.state.source import LogRecord

CUT = "the log does not begin with a resync: what was there before it is not known"
UNPROVED = "the first resync of the log could not be proved: something may be missing"
OF_ANOTHER_KIND = "a ZooKeeper cluster and a KRaft cluster share this name"
FINISH_AFTER_CHANGES = 2_000
"""After how many changes a failover is ended whose work disappeared without a write. A change that does
its work ends it at once; the fold ends the rest at the ends of batches, which a recording does not have."""

UNREADABLE = "a record could not be read, and none after it shows that it held nothing new"


class Point(msgspec.Struct, frozen=True):
    """A point in the log: up to a position, or up to a time; the end of the log with neither."""

    until: Position | None = None
    at: int | None = None
    """Milliseconds since 1970, by the log's clock (observed_at)."""

    def is_before(self, change: AnyRecord) -> bool:
        """Return whether the change is after this point."""
        if self.until is not None:
            return change.position > self.until
        return self.at is not None and change.observed_at > self.at


END = Point()

AssumedOf = Callable[[str], Assumed]
"""Returns the settings in the own files of a cluster's brokers, by the cluster's name; empty: no record names it."""


class Sampler(Protocol):
    """Takes samples of the cluster's state at given times of the log's clock."""

    next_at: int
    """The next of these times, in milliseconds since 1970."""

    def sample_until(self, state: ClusterState, until: int) -> None:
        """Take a sample for each time before `until`, which is the time of the next change.

        It may project the state; nothing else here does.
        """


class LogReplay:
    """One cluster's log, applied record by record; it takes snapshots at the requested points.

    Without a cluster's name, the first one that the log names is taken; `clusters` then shows
    whether there are more.
    """

    def __init__(
        self,
        cluster: str | None = None,
        *,
        points: Sequence[Point] = (END,),
        assumed: AssumedOf | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self.cluster = cluster
        """The cluster that is replayed; None while no record has named one."""
        self.clusters: set[str] = set()
        """Every cluster's name in the log so far."""
        self.first: AnyRecord | None = None
        """The first change or record of the cluster, applied or not."""
        self.snapshots: dict[Point, Snapshot | None] = {}
        """The snapshot at each point; None if the log begins after it."""
        self.unreached: tuple[Point, ...] = ()
        """The points behind the log's end."""
        self._assumed = assumed or (lambda _: Assumed())
        self._sampler = sampler
        control = ControlPlane(
            cluster or "", assumed=self._assumed(cluster or ""), counters_since=0
        )
        control.log.position = _JUST_BEFORE
        self.state = ClusterState(control, MemoryTopicStore(), ZOOKEEPER)
        self._batch = EventBatch(self.state)
        self._ahead = list(dict.fromkeys(points))
        self._unreadable_before: list[tuple[int, str]] = []
        self._is_unread = False
        """Whether records could not be read since the last change, and nothing shows what they held."""
        self._cut = False
        self._unfinished = 0
        """Changes applied since an open failover was last examined."""

    @property
    def is_done(self) -> bool:
        """Whether all snapshots are taken, so that nothing that follows would change them."""
        return not self._ahead

    def apply_changes(self, changes: Iterable[LooseChange]) -> list[AnyEvent]:
        """Apply the changes of one line; return their events, one per cause."""
        for change in changes:
            if self._is_ours(change) and self._ahead:
                self._apply_next(change)
        in_failover = self.state.control.controller.view.failover is Failover.UNDER_WAY
        if in_failover and self._unfinished >= FINISH_AFTER_CHANGES:
            self._unfinished = 0
            self._batch.finish_failover()
        return self._take_events()

    def apply_metadata(self, records: Iterable[AnyMetadataRecord]) -> list[AnyEvent]:
        """Apply the records of one line of a KRaft cluster; return their events, one per cause."""
        for record in records:
            if self._is_ours(record) and self._ahead:
                self._apply_metadata(record)
        return self._take_events()

    def store_requests(self, requests: Iterable[ElectionRequest]) -> None:
        """Hold the election requests at this position; they do not name the cluster to replay."""
        for request in requests:
            if request.cluster == self.cluster and self.first is not None and self._ahead:
                self._batch.store_request(request)

    def count_unreadable(self, records: int, reason: str) -> list[AnyEvent]:
        """Count records that could not be read; return the events that report them."""
        if self.first is None:
            self._unreadable_before.append((records, reason))
            return []
        control = self.state.control  # a point that is reached already cannot lack them
        reached = [point for point in self._ahead if point.until == control.log.position]
        self._take_snapshots(reached)
        if not self._ahead:
            return []
        self._is_unread = True
        self._batch.count_unreadable(records, at=control.now, reason=reason)
        return self._take_events()

    def drops(self, loose: LooseChange) -> bool:
        """Return whether replay drops a change of the cluster: it is not newer, or another watcher's."""
        return self.first is not None and is_dropped(self._log, self._complete(loose))

    def finish(self) -> list[AnyEvent]:
        """End the log: take the snapshots that are left, and return the last events."""
        if self._is_unread:
            self._mark_incomplete(UNREADABLE)
        self._batch.finish_failover()
        if self._sampler is not None and self._ahead:
            self._sampler.sample_until(self.state, self.state.control.now + 1)
        events = self._take_events()
        self.unreached = tuple(
            each
            for each in self._ahead
            if each.until is not None and self._log.position < each.until
        )
        self._take_snapshots(self._ahead)
        return events

    @property
    def _log(self) -> LogState:
        return self.state.control.log

    def _take_events(self) -> list[AnyEvent]:
        """Return the events since the last line, one per cause."""
        if self._sampler is None:  # no views are projected
            self.state.changed.clear()
            self.state.removed.clear()
        return coalesce(self._batch.take_events())

    def _is_ours(self, record: LooseChange | AnyMetadataRecord) -> bool:
        name = record.cluster
        if not name:
            return True
        self.clusters.add(name)
        if self.cluster is None:
            self.cluster = self.state.control.cluster = name
            self.state.control.assumed = self._assumed(name)
        return name == self.cluster

    def _is_of_its_kind(self, record: LooseChange | AnyMetadataRecord) -> bool:
        """Return whether a record is of the kind of its cluster; count one that is not."""
        if is_of(self.state.source, record):
            return True
        self._batch.count_unreadable(1, at=self.state.control.now, reason=OF_ANOTHER_KIND)
        return False

    def _complete(self, loose: LooseChange) -> LooseChange:
        log = self._log
        return complete(
            loose, after=log.position, watcher=log.view.watcher, now=self.state.control.now
        )

    def _apply_next(self, loose: LooseChange) -> None:
        if not self._is_of_its_kind(loose):
            return
        change = self._complete(loose)
        is_first = self.first is None
        if not is_first:
            if is_dropped(self._log, change):
                self._batch.apply(change)  # this counts it as dropped
                return
            if self._is_unread and not (loose.has_place and _is_next(self._log, change)):
                self._mark_incomplete(UNREADABLE)
            self._is_unread = False
        if self._sampler is not None and not is_first:
            self._sample_before(change, self._sampler)
        self._take_snapshots([point for point in self._ahead if point.is_before(change)])
        self.first = self.first or change
        if not self._ahead:
            return
        if is_first:
            self._begin(change)
        self._apply(change)

    def _apply_metadata(self, record: AnyMetadataRecord) -> None:
        """Apply one record of a KRaft cluster; a slice is applied batch by batch where a point or a sample is in it."""
        if self.first is None:
            self._begin_metadata(record)
        elif not self._is_of_its_kind(record):
            return
        self._is_unread = False  # the offsets show whether anything is missing
        is_split = self._sampler or any(point.is_before(record) for point in self._ahead)
        for piece in batch_by_batch(record) if is_split else (record,):
            if self._sampler is not None and self.first is not None:
                self._sample_before(piece, self._sampler)
            self._take_snapshots([point for point in self._ahead if point.is_before(piece)])
            self.first = self.first or record
            if not self._ahead:
                return
            self._batch.apply(piece)

    def _begin_metadata(self, first: AnyMetadataRecord) -> None:
        """Take the log for that of a KRaft cluster, before anything is applied."""
        control = self.state.control
        begun_at = next(batch_by_batch(first)).observed_at
        if is_time(begun_at):
            control.counters_since = control.now = begun_at
        control.log.position, control.source = NOWHERE, None
        self.state = ClusterState(control, MemoryTopicStore(), source_of(control, [first]))
        self._batch = EventBatch(self.state)
        for records, reason in self._unreadable_before:
            self._batch.count_unreadable(records, at=begun_at, reason=reason)

    def _sample_before(self, change: AnyRecord, sampler: Sampler) -> None:
        """Take the samples whose times are before the next change."""
        clock = self._log.clock
        correction = 0 if clock is None else clock.correction
        if change.observed_at + correction <= sampler.next_at:  # the log's time will not pass it
            return
        until = time_after(
            self.state, cast("LogRecord", change)
        )  # it reads the record's time alone
        if until > sampler.next_at:
            self._batch.finish_failover()  # as at the end of each of the fold's batches
            sampler.sample_until(self.state, until)

    def _take_snapshots(self, points: Sequence[Point]) -> None:
        for point in points:
            self.snapshots[point] = None if self.first is None else snapshot(self.state)
        self._ahead = [point for point in self._ahead if point not in points]

    def _begin(self, first: ZnodeChange) -> None:
        """Start at the first change; if it does not begin a resync, what was before it is missing."""
        control = self.state.control
        if is_time(first.observed_at):
            control.counters_since = control.now = first.observed_at
        control.log.position = Position(first.generation, first.seq - 1)
        control.log.view.watcher = first.watcher
        if first.kind is not ChangeKind.RESYNC_STARTED:
            self._cut = True
            control.log.baseline = True
            self._mark_incomplete(CUT, position=first.position)
        for records, reason in self._unreadable_before:
            self._batch.count_unreadable(records, at=first.observed_at, reason=reason)

    def _apply(self, change: ZnodeChange) -> None:
        self._unfinished += 1
        self._batch.apply(change, partial(self._edit, change))

    def _edit(self, change: ZnodeChange, events: list[AnyEvent]) -> list[AnyEvent]:
        """Return what is reported of a change, and let counting start where the fold's cannot."""
        log = self._log
        ends_resync = change.kind is ChangeKind.RESYNC_FINISHED
        if ends_resync and not log.baseline:
            # The fold would request this resync again; here counting starts with it, and is not reported.
            log.reason = UNPROVED
            start_counting(self.state, stamp_of(change), apply_fact)
        if self._cut and log.view.resync_under_way:
            return [event for event in events if not _is_found(event)]
        if self._cut and ends_resync and log.view.incomplete_since is None:
            self._cut = False
            view = self.state.control.controller.view
            counting = Baseline(
                **where(stamp_of(change)),
                znodes=log.view.znodes,
                controller=view.id,
                epoch=view.epoch,
                elected_at=view.elected_at,
            )
            return [*events, counting]
        return events

    def _mark_incomplete(self, reason: str, position: Position | None = None) -> None:
        """Mark the figures as incomplete and report that, unless they are; no resync can be requested."""
        log, now = self._log, self.state.control.now
        if log.view.incomplete_since is not None:
            return
        log.view.incomplete_since = now
        log.reason = reason
        self._batch.add([Incomplete(at=now, position=position or log.position, reason=reason)])


_JUST_BEFORE = Position(1, 0)
"""The position before the first record, if that record does not hold one."""


def _is_next(log: LogState, change: ZnodeChange) -> bool:
    return change.position == Position(log.position.generation, log.position.seq + 1)


def _is_found(event: AnyEvent) -> bool:
    """Return whether the first resync of a cut log reports this only because it finds what was there."""
    if isinstance(event, ControllerElected):
        return event.from_broker == NO_CONTROLLER
    return isinstance(event, BrokerStarted | TopicCreated | TopicExpanded)
