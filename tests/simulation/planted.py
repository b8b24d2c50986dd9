"""Bugs of the protocol, each planted by a small patch of the real code for the time of a test.

The rule: a simulation that does not catch them is useless, so a test proves that it does.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from controller_model.facts.origin import Origin
from controller_model.fold import replay as replay_module
from controller_model.fold.replay import Reported
from controller_model.kafka.ids import AsOf, Position
from controller_model.records import changes, decoding
from controller_model.records.changes import ChangeKind, ZnodeChange, digest_text, znode_digest
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.events import AnyEvent
from controller_model.records.views import ClusterView
from controller_model.sources.zookeeper import proofs
from controller_model.sources.zookeeper import source as zookeeper_source
from controller_model.sources.zookeeper.source import ZOOKEEPER, ZooKeeperSource
from controller_model.sources.zookeeper.state import ZooKeeperState
from controller_model.sources.zookeeper.stats import Freshness
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind, classify
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Handle, Inferred, Source
from controller_model.tracking import asked_elections
from exporter.core.records import ClusterSnapshot
from exporter.core.status import ReadingState, ReadingStatus
from exporter.intake.view_store import ViewStore
from pipeline import topics
from pipeline.kafka_errors import MissingTopic
from pipeline.runtime import Backoff
from pipeline.settings import PipelineSettings
from pipeline.topic_records import Record
from pipeline.topics import EnsuredTopics, TopicNames
from source_log import readback
from source_log.generation_fencing import Generations
from source_log.lease import LeaseStatus
from source_log.log_completeness import LogCompleteness
from source_log.publisher import Publisher
from source_log.readback import Readback
from streaming import failures, published_lineage, service, truncated_log
from streaming import processor as processor_module
from streaming.failures import FailureKind
from streaming.state_codec import ControlRow
from streaming.topic_journal import Entries, PackedTopics
from streaming.watchdog import BatchClock, Watchdog
from tests.simulation import planted_edges, planted_watcher
from zk_source.election import candidacy
from zk_source.election.candidacy import Candidacy, Proof, lease_status
from zk_source.watcher.denied_paths import MAX_NAMED, DeniedPaths
from zk_source.watcher.pulse import Pulse
from zk_source.watcher.readiness import ReadinessCheck, ResyncReadiness, Wait
from zk_source.watcher.recorder import Recorder
from zk_source.watcher.tree_reader import TreeReader
from zk_source.watcher.tree_walk import Purpose
from zk_source.watcher.watcher import Watcher
from zk_source.watcher.zookeeper_clock import ZookeeperClock, _Noticed
from zk_source.wire.inbox import Inbox, Item, Notification
from zk_source.wire.operations import Refused, ZnodeData

Plant = Callable[[], AbstractContextManager[None]]


PLANTED: dict[str, Plant] = {**planted_edges.PLANTED, **planted_watcher.PLANTED}
"""By name: how to plant it."""

CAUGHT_BY: dict[str, tuple[int, ...]] = {**planted_edges.CAUGHT_BY, **planted_watcher.CAUGHT_BY}
"""By name: several seeds that catch it, so that catching it is not luck.

Of 800 seeds only one finds `lost views not asked for`. A change of what a seed does may require other
seeds.
"""


def _caught_by(*seeds: int) -> Callable[[Plant], Plant]:
    """Register a bug under its function's name, with the seeds that catch it."""

    def register(plant: Plant) -> Plant:
        name = plant.__name__.replace("_", " ")
        PLANTED[name], CAUGHT_BY[name] = plant, seeds
        return plant

    return register


@contextmanager
def _patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    real = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, real)


@_caught_by(0, 2)
def no_dedupe() -> AbstractContextManager[None]:
    """A change that was already applied is applied again."""
    real = vars(replay_module)["replay"]

    def replay(state: ClusterState, change: ZnodeChange) -> Reported:
        log = state.control.log
        if change.position <= log.position and change.watcher == log.view.watcher:
            log.position = Position(change.generation, change.seq - 1)
        done: Reported = real(state, change)
        return done

    return _patched(replay_module, "replay", replay)


@_caught_by(28, 116)
def stale_applied() -> AbstractContextManager[None]:
    """A value wins over a newer one, or over a newer delete."""
    real = vars(zookeeper_source)["judge"]

    def judge(held: ZooKeeperState, stat: Origin | None, change: ZnodeChange) -> Freshness:
        freshness: Freshness = real(held, stat, change)
        return Freshness.NEWS if freshness is Freshness.STALE else freshness

    return _patched(zookeeper_source, "judge", judge)


@_caught_by(12, 15)
def hole_ignored() -> AbstractContextManager[None]:
    """A jump of seq within a generation is not noticed."""
    real = replay_module._jump

    def jump(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
        log = state.control.log
        if change.generation != log.position.generation:
            return real(state, change)
        log.position = change.position
        return []

    return _patched(replay_module, "_jump", jump)


@_caught_by(31, 234)
def beginning_of_a_generation_not_missed() -> AbstractContextManager[None]:
    """A generation of which the log has lost the beginning is followed as if it were whole."""
    real = replay_module._jump

    def jump(state: ClusterState, change: ZnodeChange) -> list[AnyEvent]:
        if change.generation == state.control.log.position.generation:
            return real(state, change)
        real(state, msgspec.structs.replace(change, kind=ChangeKind.RESYNC_STARTED, seq=1))
        state.control.log.position = change.position
        return []

    return _patched(replay_module, "_jump", jump)


@_caught_by(9, 17)
def delete_on_a_broken_resync() -> AbstractContextManager[None]:
    """A resync with a gap, or with another digest, deletes what it did not report."""
    real = proofs._finish_resync

    def finish(state: ClusterState, change: ZnodeChange, handle: Handle) -> proofs.Applied:
        resync = state.control.source.resync
        if resync is not None:
            resync.whole = True
            change = msgspec.structs.replace(
                change, znodes=resync.znodes, digest=digest_text(resync.digest)
            )
        return real(state, change, handle)

    records = {**proofs.CONTROL_RECORDS, ChangeKind.RESYNC_FINISHED: finish}
    return _patched(zookeeper_source, "CONTROL_RECORDS", records)


_TURNS_LATE = 3
"""For how many turns of the watcher a notification waits in kazoo's other thread."""


@_caught_by(0, 23)
def reply_before_event() -> AbstractContextManager[None]:
    """Replies overtake the notifications that came before them: kazoo's two threads."""
    real = Inbox.pop

    def pop(self: Inbox, timeout_s: float) -> Item | None:
        kept: deque[Item] = self.__dict__.setdefault("kept", deque())
        while (item := real(self, timeout_s)) is not None:
            if not isinstance(item, Notification):
                return item
            kept.append(item)
        turns = self.__dict__["turns"] = self.__dict__.get("turns", 0) + 1
        if kept and turns % _TURNS_LATE == 0:
            self.__dict__["turns"] -= 1
            return kept.popleft()
        return None

    return _patched(Inbox, "pop", pop)


@_caught_by(4, 7)
def generation_reused() -> AbstractContextManager[None]:
    """A new watcher continues in the highest generation that it saw."""

    def begin_next(self: Generations, now_ms: int) -> None:
        if not self.generation:
            self._began_ms = now_ms
        self.generation = max(self._highest, self.generation, 1)
        self.seq = 0

    return _patched(Generations, "begin_next", begin_next)


@_caught_by(0, 1)
def digest_of_the_scan() -> AbstractContextManager[None]:
    """A reconciliation reports the digest of what its walk read instead of what was published by then."""
    scan: dict[str, int] = {}
    real_read, real_reconciled = TreeReader._on_value, Recorder.reconciled

    def on_value(self: TreeReader, read: Any, result: Any, *args: Any, live: bool) -> str | None:
        if self.walk is not None and not live and self.doing(Purpose.RECONCILIATION):
            scan.pop(read[1], None)
            if isinstance(result, ZnodeData):
                scan[read[1]] = result.mzxid
        trouble: str | None = real_read(self, read, result, *args, live=live)
        return trouble

    def reconciled(self: Recorder, now_ms: int) -> ZnodeChange:
        digest = 0
        for path, mzxid in scan.items():
            digest ^= znode_digest(path, mzxid)
        reported = real_reconciled(self, now_ms)
        reported = msgspec.structs.replace(reported, znodes=len(scan), digest=digest_text(digest))
        scan.clear()
        return reported

    return _both(
        _patched(TreeReader, "_on_value", on_value), _patched(Recorder, "reconciled", reconciled)
    )


@contextmanager
def _both(
    first: AbstractContextManager[None], second: AbstractContextManager[None]
) -> Iterator[None]:
    with first, second:
        yield


@_caught_by(16, 69)
def lagging_follower_believed() -> AbstractContextManager[None]:
    """A resync starts on the current server, however far that is behind."""
    real = ReadinessCheck.judge

    def judge(self: ReadinessCheck, *args: Any) -> ResyncReadiness | Wait:
        self._needed_zxid = 0
        return real(self, *args)

    return _patched(ReadinessCheck, "judge", judge)


@_caught_by(252_797_794)
def old_reads_of_a_later_resync_believed() -> AbstractContextManager[None]:
    """Only a generation's first resync is judged by what a former watcher had read."""
    real = ZooKeeperSource.apply

    def apply(
        self: ZooKeeperSource, state: ClusterState, record: ZnodeChange, handle: Handle
    ) -> Any:
        resync = state.control.source.resync
        was_whole = resync is not None and resync.whole
        applied = real(self, state, record, handle)
        if resync is not None and resync.began.seq > 1 and record.kind is ChangeKind.SET:
            resync.whole = was_whole
        return applied

    return _patched(ZooKeeperSource, "apply", apply)


@_caught_by(19, 28)
def tombstone_without_as_of() -> AbstractContextManager[None]:
    """A delete of a view counts whenever it arrives, however old it is."""
    real = ViewStore._delete

    def delete(self: ViewStore, cluster: str, key: str, kind: str, as_of: AsOf) -> str | None:
        shown = self.clusters.get(cluster)
        return real(self, cluster, key, kind, shown.view.as_of if shown else as_of)

    return _patched(ViewStore, "_delete", delete)


@_caught_by(0, 2)
def counters_twice() -> AbstractContextManager[None]:
    """A change that is reported again changes a counter again."""
    real = vars(replay_module)["replay"]

    def replay(state: ClusterState, change: ZnodeChange) -> Reported:
        again = change.position <= state.control.log.position
        if again and classify(change.path).kind is ZnodeKind.PARTITION_STATE:
            state.control.counters.isr_shrinks += 1
        done: Reported = real(state, change)
        return done

    return _patched(replay_module, "replay", replay)


@_caught_by(15, 49)
def time_waits() -> AbstractContextManager[None]:
    """A clock that was set back stops the log's time until it reaches its former value."""

    def take_time(state: ClusterState, change: ZnodeChange) -> tuple[ZnodeChange, str | None]:
        state.control.now = max(state.control.now, change.observed_at)
        return change, None

    return _patched(replay_module, "advance_clock", take_time)


@_caught_by(21, 47)
def bytes_of_dropped_changes_kept() -> AbstractContextManager[None]:
    """Dropped changes still count their bytes as waiting."""
    real = Publisher.drop_waiting

    def drop_waiting(self: Publisher) -> int:
        waiting = self._waiting_bytes
        dropped = real(self)
        self._waiting_bytes = waiting
        return dropped

    return _patched(Publisher, "drop_waiting", drop_waiting)


@_caught_by(5, 26)
def what_is_urgent_overtakes_what_waits() -> AbstractContextManager[None]:
    """An urgent change leaves in a message of its own, before those that wait."""
    real = Publisher.add

    def add(self: Publisher, data: bytes, position: Position, **about: Any) -> None:
        real(self, data, position, **about)
        if not about["may_wait"] and len(self._waiting) > 1:
            self._waiting.rotate(1)

    return _patched(Publisher, "add", add)


@_caught_by(7, 12)
def other_watchers_not_read_back() -> AbstractContextManager[None]:
    """Records of another watcher in the log are ignored."""

    def origin(*_: Any) -> None:
        return None

    return _patched(Readback, "_origin", origin)


@_caught_by(100, 124)
def ages_by_the_wall_clock() -> AbstractContextManager[None]:
    """The exporter measures ages by a clock that can be set."""
    real = ReadingState.__init__

    def begin(
        self: ReadingState,
        status: ReadingStatus,
        *,
        steady: Callable[[], int],
        wall: Callable[[], int],
    ) -> None:
        del steady
        real(self, status, steady=wall, wall=wall)

    return _patched(ReadingState, "__init__", begin)


@_caught_by(7, 24)
def silence_not_measured() -> AbstractContextManager[None]:
    """A beat does not report how long ZooKeeper has not answered."""

    def complete_ms(_self: LogCompleteness, _now_ms: int) -> int:
        return 0

    return _patched(LogCompleteness, "complete_ms", complete_ms)


@_caught_by(24, 3)
def log_taken_for_complete() -> AbstractContextManager[None]:
    """The log counts as complete as of each answer, also without Kafka's acknowledgement."""
    real = LogCompleteness.advance

    def advance(
        self: LogCompleteness, *, oldest_round: int, published: Position, acknowledged: Position
    ) -> None:
        del acknowledged
        real(self, oldest_round=oldest_round, published=published, acknowledged=published)

    return _patched(LogCompleteness, "advance", advance)


@_caught_by(7, 13)
def lost_question_awaited() -> AbstractContextManager[None]:
    """A request to ZooKeeper is still waited for after its connection is gone."""

    def give_up(_self: Pulse) -> None:
        return

    return _patched(Pulse, "give_up", give_up)


@_caught_by(483)
def second_reading_adds_to_the_first() -> AbstractContextManager[None]:
    """An exporter that has read a recreated topic from the middle keeps that, and reads the beginning in vain."""
    real = ViewStore.begin_reread

    def begin_reread(self: ViewStore) -> None:
        real(self)
        self._reread.clear()

    return _patched(ViewStore, "begin_reread", begin_reread)


@_caught_by(15, 19)
def lost_views_unnoticed() -> AbstractContextManager[None]:
    """An exporter does not compare the views that it holds with those published."""
    return _patched(ClusterSnapshot, "lacks_views", False)


@_caught_by(185)
def lost_views_not_asked_for() -> AbstractContextManager[None]:
    """A watcher does not notice views that are gone."""
    return _patched(Watcher, "on_views_cut", lambda *_: None)


@_caught_by(794, 944)
def lost_head_unnoticed() -> AbstractContextManager[None]:
    """A watcher reads the end of the views, and never checks their beginning."""
    return _patched(Readback, "_check_beginning", lambda *_: None)


@_caught_by(18)
def old_value_proves_a_clock() -> AbstractContextManager[None]:
    """A change's value is assumed to be current, however it was read."""
    real = ZookeeperClock.on_value

    def valued(self: ZookeeperClock, path: str, mtime: int, now_ms: int) -> None:
        self._noticed = _Noticed(path, now_ms, now_ms)
        real(self, path, mtime, now_ms)

    return _patched(ZookeeperClock, "on_value", valued)


@_caught_by(4, 77)
def denied_list_cut() -> AbstractContextManager[None]:
    """The list of denied paths is cut at its limit, and taken for complete."""

    def named(self: DeniedPaths) -> tuple[str, ...]:
        return tuple(sorted(self._paths)[:MAX_NAMED])

    return _patched(DeniedPaths, "named", property(named))


@_caught_by(25, 317)
def refused_read_ignored() -> AbstractContextManager[None]:
    """A read that fails with a server's error is ignored."""
    real = TreeReader._on_value

    def on_value(self: TreeReader, read: Any, result: Any, *args: Any, live: bool) -> str | None:
        problem: str | None = real(self, read, result, *args, live=live)
        return None if isinstance(result, Refused) else problem

    return _patched(TreeReader, "_on_value", on_value)


@_caught_by(22)
def unreadable_controller_live() -> AbstractContextManager[None]:
    """Figures count as live although the controller cannot be read."""
    source = type(ZOOKEEPER)
    real = source.infer

    def infer(self: Source, control: ControlPlane) -> Inferred:
        return real(self, control)._replace(unreadable_controller=False)

    return _patched(source, "infer", infer)


_NOT_NESTING = (ValueError,)
"""What a decoder may raise, except the error that deep nesting causes."""


@_caught_by(125, 119)
def nesting_ends_the_fold() -> AbstractContextManager[None]:
    """A record of the log with many nested brackets raises."""
    return _patched(changes, "DECODING_ERRORS", _NOT_NESTING)


@_caught_by(12, 24)
def nesting_ends_the_exporter() -> AbstractContextManager[None]:
    """A record of the views or the events with many nested brackets raises."""
    return _patched(decoding, "DECODING_ERRORS", _NOT_NESTING)


@_caught_by(420, 431)
def nesting_ends_the_reading_back() -> AbstractContextManager[None]:
    """A record of the log with many nested brackets ends the thread that reads it back."""
    return _patched(readback, "DECODING_ERRORS", _NOT_NESTING)


@_caught_by(27, 157)
def null_deletes() -> AbstractContextManager[None]:
    """A null deletes the view of its key, without a check of the record before it."""
    real = ViewStore.apply

    def apply(self: ViewStore, record: Record) -> str | None:
        cluster, _, rest = (record.key or b"").decode(errors="replace").partition("/")
        held = self._newest(cluster)
        if record.value is None and held is not None and rest.startswith("topic/"):
            return self._delete(cluster, f"{cluster}/{rest}", "topic", held.view.as_of)
        return real(self, record)

    return _patched(ViewStore, "apply", apply)


@_caught_by(2, 6)
def invalidation_read_first() -> AbstractContextManager[None]:
    """Whether a lease was invalidated is read before its proof instead of after."""

    def status(self: Candidacy) -> LeaseStatus:
        if self.is_silent_for_too_long:
            return LeaseStatus.LOST
        invalidated_at = self._invalidated_at
        return lease_status(self._proof, invalidated_at=invalidated_at, now=candidacy.now_s())

    return _patched(Candidacy, "status", property(status))


@_caught_by(1, 2)
def lease_without_end() -> AbstractContextManager[None]:
    """A proof of the lead counts however old it is."""

    def status(proof: Proof | None, *, invalidated_at: float, now: float) -> LeaseStatus:
        young = None if proof is None else proof._replace(asked_at=now)
        return lease_status(young, invalidated_at=min(invalidated_at, now - 1), now=now)

    return _patched(candidacy, "lease_status", status)


@_caught_by(1, 2)
def chunks_replace_one_another() -> AbstractContextManager[None]:
    """The views of a wide topic are held under one key."""
    real = ViewStore._wait

    def wait(self: ViewStore, cluster: str, key: str, new: Any) -> None:
        root, _, chunk = key.rpartition("/")
        is_chunk = root.startswith(f"{cluster}/topic/") and chunk.isdigit()
        real(self, cluster, f"{root}/0" if is_chunk else key, new)

    return _patched(ViewStore, "_wait", wait)


@_caught_by(13, 6)
def foreign_records_folded() -> AbstractContextManager[None]:
    """Records under a cluster's key are folded, also those that name another cluster."""
    real = processor_module._read

    def read(cluster: str, rows: Iterable[Any], own: int) -> Iterator[Any]:
        for row in rows:
            named = re.sub(
                rb'"cluster":"[^"]*"', f'"cluster":"{cluster}"'.encode(), row.value or b""
            )
            yield from real(cluster, [row._replace(value=named)], own)

    return _patched(processor_module, "_read", read)


@_caught_by(27)
def stray_messages_folded() -> AbstractContextManager[None]:
    """A cluster's messages are folded from any partition."""
    real = processor_module._read

    def read(cluster: str, rows: Iterable[Any], own: int) -> Iterator[Any]:
        return real(cluster, [row._replace(partition=own) for row in rows], own)

    return _patched(processor_module, "_read", read)


@_caught_by(27, 6)
def views_of_others_completed() -> AbstractContextManager[None]:
    """The commit of one cluster completes the waiting views of all."""
    real = ViewStore._pop_ready

    def pop_ready(self: ViewStore, view: ClusterView) -> dict[str, Any]:
        for cluster in [name for name in self._pending if name != view.cluster]:
            self._pending.setdefault(view.cluster, {}).update(self._pending.pop(cluster))
        return real(self, view)

    return _patched(ViewStore, "_pop_ready", pop_ready)


@_caught_by(4)
def touched_brokers_forgotten() -> AbstractContextManager[None]:
    """A state's references to brokers are counted, but the brokers' views are not updated."""
    return _patched(ControlPlane, "_touch", lambda *_: None)


@_caught_by(7, 4)
def memberships_not_read() -> AbstractContextManager[None]:
    """A new worker reads the control plane, but not the memberships of brokers."""
    real = ControlRow.unpack

    def unpack(self: ControlRow, _members: Any, lineage: str) -> Any:
        return real(self, (), lineage)

    return _patched(ControlRow, "unpack", unpack)


@_caught_by(4, 23)
def memory_kept_over_a_repeated_batch() -> AbstractContextManager[None]:
    """A worker uses its cache in place of the state, without a check of the state."""
    return _patched(ControlRow, "__ne__", lambda *_: False)


@_caught_by(1, 3)
def journal_not_read() -> AbstractContextManager[None]:
    """A new worker continues from the base alone."""

    def lists(self: PackedTopics) -> tuple[Entries, Entries]:
        if self.remembered.lists is None:
            self.remembered.lists = (Entries(), Entries())
        return self.remembered.lists

    return _patched(PackedTopics, "_lists", lists)


@_caught_by(7, 11)
def newest_entry_lost() -> AbstractContextManager[None]:
    """The end of a compaction deletes the newer entries of the journal as well."""
    real = PackedTopics._compact

    def compact(self: PackedTopics, share: float) -> None:
        real(self, share)
        if not self._lists()[1 - self.place.list].size:
            self.place = self.place.with_length(self.place.list, 0)

    return _patched(PackedTopics, "_compact", compact)


@_caught_by(20, 27)
def null_passed_over() -> AbstractContextManager[None]:
    """The fold keeps the state of a cluster that was removed."""
    return _patched(processor_module.FoldProcessor, "_forget", lambda *_: iter(()))


@_caught_by(59, 104)
def every_election_called_ours() -> AbstractContextManager[None]:
    """Every election is attributed to the requests."""
    ours = ElectionOrigin.KCM
    return _patched(asked_elections, "origin_of", lambda *_, **__: ours)


@_caught_by(73)
def strikes_never_reset() -> AbstractContextManager[None]:
    """Failures add up although batches succeed between them."""
    real = service._Fold._count

    def count(self: Any, *args: Any) -> None:
        strikes = self._strikes
        real(self, *args)
        self._strikes = strikes

    return _patched(service._Fold, "_count", count)


@_caught_by(206, 265)
def waiting_counts_as_a_strike() -> AbstractContextManager[None]:
    """A failure that waiting cures counts against the checkpoint."""
    return _patched(service, "WAITED_FOR", frozenset())


@_caught_by(62, 222)
def late_worker_not_known() -> AbstractContextManager[None]:
    """A worker that starts late counts as a failure of unknown cause."""
    known = {
        kind: signs for kind, signs in failures._SIGNS.items() if kind is not FailureKind.WORKER
    }
    return _patched(failures, "_SIGNS", known)


@_caught_by(41, 73)
def lineage_at_each_failure() -> AbstractContextManager[None]:
    """The first failure of unknown cause starts a lineage."""
    real = service._Fold._strike

    def strike(self: Any, *args: Any) -> None:
        self._strikes = service.STRIKES_BEFORE_NEW_LINEAGE - 1
        real(self, *args)

    return _patched(service._Fold, "_strike", strike)


@_caught_by(30, 169)
def damaged_checkpoint_tried_again() -> AbstractContextManager[None]:
    """A checkpoint with which every query fails is kept as long as the cause is unknown."""
    return _patched(service, "STRIKES_BEFORE_NEW_LINEAGE", -1)


@_caught_by(25, 286)
def truncated_log_unnoticed() -> AbstractContextManager[None]:
    """A fold continues from an offset that the log no longer has."""
    return _patched(service, "truncated_log", lambda *_: None)


@_caught_by(238)
def newer_views_unnoticed() -> AbstractContextManager[None]:
    """A fold continues from a checkpoint that is older than the views."""
    return _patched(service, "published_lineage", lambda *_: None)


@_caught_by(142, 329)
def damaged_offsets_end_the_fold() -> AbstractContextManager[None]:
    """A file of the checkpoint that cannot be decoded raises."""
    return _patched(truncated_log, "DECODING_ERRORS", ())


@_caught_by(286)
def truncation_of_the_first_partition_alone() -> AbstractContextManager[None]:
    """Only the first partition of the log is compared with the checkpoint."""
    real = truncated_log.folded_to

    def folded_to(checkpoint: Path, topic: str) -> dict[int, int]:
        return {
            partition: end for partition, end in real(checkpoint, topic).items() if not partition
        }

    return _patched(truncated_log, "folded_to", folded_to)


@_caught_by(1294)
def lineage_of_the_first_partition_alone() -> AbstractContextManager[None]:
    """Only the first partition of the views is asked which lineage wrote last."""
    real = published_lineage.published_lineage

    def published(settings: PipelineSettings, topics: EnsuredTopics) -> str | None:
        return real(settings, topics._replace(partitions=1))

    return _patched(service, "published_lineage", published)


@_caught_by(89, 158)
def other_topics_unnoticed() -> AbstractContextManager[None]:
    """A query continues after a change of its topics."""
    return _patched(service, "topics_changed", lambda *_: None)


@_caught_by(62, 9)
def pauses_only_grow() -> AbstractContextManager[None]:
    """A batch does not shorten the next pause."""
    return _patched(Backoff, "reset", lambda _self: None)


@_caught_by(14, 281)
def hanging_batch_waited_for() -> AbstractContextManager[None]:
    """A batch may take for ever."""
    return _patched(BatchClock, "hang_reason", lambda *_: None)


@_caught_by(105, 121)
def watchdog_asleep() -> AbstractContextManager[None]:
    """A JVM that does not answer is not killed."""
    return _patched(Watchdog, "poll", lambda _self: None)


@_caught_by(190, 297)
def text_asked_unwatched() -> AbstractContextManager[None]:
    """The request for an error's text from the JVM has no timeout."""

    def text_of(_fold: Any, error: Exception) -> str:
        return str(error)

    return _patched(service._Fold, "_text_of", text_of)


@_caught_by(73, 121)
def full_disk_ends_the_fold() -> AbstractContextManager[None]:
    """A lack on the machine ends the part, even if it worked before."""

    def raise_it(_fold: Any, error: Exception) -> None:
        raise error

    return _patched(service._Fold, "_wait_for_machine", raise_it)


class _HastyMissingTopic(MissingTopic):
    def is_deleted(self, now_s: float) -> bool:
        super().is_deleted(now_s)
        return True


@_caught_by(29, 34)
def missing_topic_ends_the_watcher() -> AbstractContextManager[None]:
    """The first answer that a topic is missing counts, and the watcher starts over."""
    return _patched(readback, "MissingTopic", _HastyMissingTopic)


@_caught_by(174, 249)
def missing_topic_ends_the_query() -> AbstractContextManager[None]:
    """The same in the fold: the query is ended."""
    return _patched(service, "MissingTopic", _HastyMissingTopic)


@_caught_by(510, 1070)
def partitions_of_the_settings() -> AbstractContextManager[None]:
    """Topics that a broker did not know at first count as having the settings' number of partitions."""
    real = topics._ensure_once

    def ensure_once(admin: Any, names: TopicNames, settings: PipelineSettings) -> EnsuredTopics:
        found = topics.describe_topics(admin, names)
        ensured = real(admin, names, settings)
        return ensured if found else ensured._replace(partitions=settings.partitions)

    return _patched(topics, "_ensure_once", ensure_once)
