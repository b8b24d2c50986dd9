"""A quorum of controllers in memory: logs, epochs, elections, snapshots, and answers as Kafka's leader gives them.

Only what an observer can notice is modelled; controllers talk to each other in one step instead of in messages. The truth is
`committed`: what a majority of the voters has, with an entry of the leader's own epoch (Raft). The quorum checks itself:
a committed batch is never replaced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from kraft_source.observer.observer import NOTHING
from kraft_source.wire.batches import RecordBatch, split_batches
from kraft_source.wire.errors import ErrorCode
from kraft_source.wire.messages import (
    SNAPSHOT_BYTES,
    Answer,
    ControllerEndpoint,
    EpochEnd,
    EpochLeader,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Request,
    SnapshotAnswer,
)
from kraft_source.wire.records import BEGIN_TRANSACTION, transaction_marks
from tests.support.metadata_log import Written, control_batch, record_batch, uuid_of

FETCHED_AT_ONCE = 4
"""Batches in one answer."""
PART_BYTES = 1_500
"""Bytes in one part of a snapshot, so that batches are cut."""


@dataclass
class Controller:
    """One voter: its log, what it knows of the epoch, and whether it can be reached."""

    id: int
    log: list[RecordBatch] = field(default_factory=list)
    start: EpochEnd = NOTHING
    """Where its log begins, and the epoch before."""
    snapshots: dict[EpochEnd, bytes] = field(default_factory=dict)
    epoch: int = 0
    leader: int = -1
    high_watermark: int = -1
    is_alive: bool = True
    is_paused: bool = False
    island: int = 0
    """Controllers of one island reach each other."""

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self.leader == self.id

    @property
    def end(self) -> int:
        """The offset behind its log."""
        return self.log[-1].last_offset + 1 if self.log else self.start.end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of its last record."""
        return self.log[-1].epoch if self.log else self.start.epoch

    def index_of(self, offset: int) -> int:
        """Return the index of the first batch at or behind an offset."""
        return bisect_right([each.last_offset for each in self.log], offset - 1)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Return the largest epoch not above this one in its log, and where it ends; below its start: its start."""
        index = bisect_right([each.epoch for each in self.log], epoch)
        if index == 0:
            return self.start
        return EpochEnd(self.log[index - 1].last_offset + 1, self.log[index - 1].epoch)


class Quorum:
    """Three controllers and the truth about what is committed."""

    def __init__(self, rng: Random, *, size: int = 3, has_commit_wakes: bool = True) -> None:
        self.rng = rng
        self.controllers = [Controller(3001 + number) for number in range(size)]
        self.committed: list[RecordBatch] = []
        self._by_offset: dict[int, RecordBatch] = {}
        self.has_commit_wakes = has_commit_wakes
        self._topics = 0
        self._now_ms = 1_000

    @property
    def committed_end(self) -> int:
        """The offset behind the last committed record."""
        return self.committed[-1].last_offset + 1 if self.committed else 0

    @property
    def endpoints(self) -> list[ControllerEndpoint]:
        """Where the controllers listen."""
        return [endpoint_of(each.id) for each in self.controllers]

    def at(self, endpoint: ControllerEndpoint) -> Controller:
        """Return the controller that listens there."""
        return next(each for each in self.controllers if endpoint_of(each.id) == endpoint)

    # --- what happens in the quorum

    def elect(self, candidate: Controller) -> bool:
        """Let a controller stand for election among those whom it reaches; return whether it leads now."""
        voters = self._reached(candidate)
        if not voters:
            return False
        epoch = max(each.epoch for each in voters) + 1
        granted = [
            each
            for each in voters
            if (candidate.last_epoch, candidate.end) >= (each.last_epoch, each.end)
        ]
        for each in voters:
            each.epoch, each.leader, each.high_watermark = epoch, -1, -1
        if len(granted) * 2 <= len(self.controllers):
            return False
        for each in voters:
            each.leader = candidate.id
        voter_values = [{"voter_id": each.id, "voter_directory_id": uuid_of(0)} for each in granted]
        change = Written("LeaderChangeMessage", {"leader_id": candidate.id, "voters": voter_values})
        self._append(candidate, control_batch(candidate.end, epoch, change, at=self._now_ms))
        if _is_in_transaction(candidate.log):
            # The new active controller ends what its predecessor has begun (ActivationRecordsGenerator).
            self.append(candidate, [Written("AbortTransactionRecord")])
        return True

    def append(self, leader: Controller, records: Sequence[Written]) -> None:
        """Let a controller that leads, or believes that it does, append one batch."""
        self._append(leader, record_batch(leader.end, leader.epoch, records, at=self._now_ms))

    def append_something(self, leader: Controller) -> None:
        """Append what an active controller may write next; a transaction spans some batches."""
        topics = [
            Written("TopicRecord", {"name": f"t{self._topics + each}", "topic_id": uuid_of(each)})
            for each in range(self.rng.randrange(1, 4))
        ]
        self._topics += len(topics)
        if _is_in_transaction(leader.log):
            last = self.rng.choice(["EndTransactionRecord", "AbortTransactionRecord", None, None])
            self.append(leader, topics if last is None else [*topics, Written(last)])
            return
        chosen = self.rng.random()
        if chosen < 0.2:
            self.append(leader, [*topics[1:], Written("BeginTransactionRecord"), topics[0]])
        elif chosen < 0.4:
            self.append(leader, [Written("NoOpRecord")])
        else:
            self.append(leader, topics)

    def replicate(self, follower: Controller) -> None:
        """Let a controller fetch once from the leader that it can reach; the leader may commit then."""
        leader = next(
            (each for each in self._reached(follower) if each.leads and each is not follower), None
        )
        if leader is None or leader.epoch < follower.epoch:
            return
        follower.epoch, follower.leader = leader.epoch, leader.id
        while True:
            if follower.end < leader.start.end_offset:
                newest = max(leader.snapshots)
                follower.snapshots = {newest: leader.snapshots[newest]}
                follower.log, follower.start = [], newest
            shared = leader.epoch_end(follower.last_epoch)
            if shared.epoch == follower.last_epoch and shared.end_offset >= follower.end:
                break
            assert follower.log, "a committed snapshot diverges"
            follower.log.pop()
        index = leader.index_of(follower.end)
        follower.log += leader.log[index : index + FETCHED_AT_ONCE]
        self._commit(leader)
        follower.high_watermark = min(leader.high_watermark, follower.end)

    def take_snapshot(self, controller: Controller, *, trims: bool) -> None:
        """Let a controller write a snapshot of what it knows as committed; `trims`: its log begins there."""
        known = [each for each in controller.log if each.last_offset < controller.high_watermark]
        while known and _is_in_transaction(known):
            known.pop()
        if not known:
            return
        end = EpochEnd(known[-1].last_offset + 1, known[-1].epoch)
        controller.snapshots[end] = snapshot_bytes(end)
        if trims:
            controller.log = controller.log[len(known) :]
            controller.start = end
            controller.snapshots = {end: controller.snapshots[end]}

    def tick(self, ms: int) -> None:
        """Let the controllers' clocks advance."""
        self._now_ms += ms

    def heal(self) -> None:
        """Let all controllers run and reach each other, with one leader and everything replicated and committed."""
        for each in self.controllers:
            each.is_alive, each.is_paused, each.island = True, False, 0
        best = max(self.controllers, key=lambda each: (each.last_epoch, each.end))
        self.elect(best)
        if _is_in_transaction(best.log):
            self.append(best, [Written("EndTransactionRecord")])
        while any(each.end < best.end or each.epoch < best.epoch for each in self.controllers):
            for each in self.controllers:
                self.replicate(each)
        self._commit(best)

    def leaders(self) -> Iterator[Controller]:
        """Yield the controllers that run and believe that they lead."""
        return (each for each in self.controllers if each.leads and each.is_alive)

    def _reached(self, controller: Controller) -> list[Controller]:
        if not controller.is_alive or controller.is_paused:
            return []
        return [
            each
            for each in self.controllers
            if each.is_alive and not each.is_paused and each.island == controller.island
        ]

    def _append(self, controller: Controller, data: bytes) -> None:
        controller.log += split_batches(data)

    def _commit(self, leader: Controller) -> None:
        """Advance the high watermark to what a majority has, once that includes the leader's own epoch."""
        ends = sorted((_shared_end(leader, each) for each in self.controllers), reverse=True)
        index = leader.index_of(ends[len(ends) // 2])
        if not index or leader.log[index - 1].epoch != leader.epoch:
            return
        leader.high_watermark = max(leader.high_watermark, leader.log[index - 1].last_offset + 1)
        for each in leader.log[:index]:
            assert each.offset <= self.committed_end, "the quorum lost committed records"
            if each.offset == self.committed_end:
                self._by_offset[each.offset] = each
                self.committed.append(each)
            assert self._by_offset[each.offset] == each, "the quorum replaced committed records"

    # --- what an observer is answered

    def answer(self, controller: Controller, request: Request) -> Answer:
        """Return what a controller that runs answers at once."""
        error = ErrorCode.NONE
        if controller.epoch > request.leader_epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif controller.epoch < request.leader_epoch:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not controller.leads:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = EpochLeader(controller.leader, controller.epoch)
        if isinstance(request, FetchSnapshot):
            return self._snapshot_answer(controller, request, leader, error)
        named = {} if leader.id < 0 else {leader.id: endpoint_of(leader.id)}
        if error:
            return FetchAnswer(error, leader, named)
        return self._fetch_answer(controller, request)._replace(
            leader=leader, is_woken_by_commits=self.has_commit_wakes
        )

    def _fetch_answer(self, controller: Controller, request: Fetch) -> FetchAnswer:
        """Return the leader's answer (KafkaMetadataLog.validateOffsetAndEpoch)."""
        watermark, start = controller.high_watermark, controller.start
        shared = controller.epoch_end(request.last_epoch)
        is_before = request.offset < start.end_offset or request.last_epoch < start.epoch
        if (
            is_before
            or (request.offset == 0 and controller.snapshots)
            or (start.end_offset and shared == start and request.last_epoch != start.epoch)
        ):
            return FetchAnswer(high_watermark=watermark, snapshot=max(controller.snapshots))
        if shared.epoch != request.last_epoch or shared.end_offset < request.offset:
            return FetchAnswer(high_watermark=watermark, diverging=shared)
        index = controller.index_of(request.offset)
        found = controller.log[index : index + FETCHED_AT_ONCE]
        data = b"".join(each.data for each in found)
        if found and self.rng.random() < 0.3:
            data = data[: max(len(found[0].data), len(data) - self.rng.randrange(1, 40))]
        return FetchAnswer(high_watermark=watermark, records=data)

    @staticmethod
    def _snapshot_answer(
        controller: Controller, request: FetchSnapshot, leader: EpochLeader, error: int
    ) -> SnapshotAnswer:
        data = controller.snapshots.get(request.snapshot)
        if not error and data is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        if error or data is None:
            return SnapshotAnswer(error, leader)
        size = min(PART_BYTES, SNAPSHOT_BYTES)
        part = data[request.position : request.position + size]
        return SnapshotAnswer(0, leader, len(data), request.position, part)


def endpoint_of(controller_id: int) -> ControllerEndpoint:
    """Return where a controller listens."""
    return ControllerEndpoint(f"c{controller_id}", 9093)


def snapshot_bytes(end: EpochEnd) -> bytes:
    """Return a snapshot that names its own end: as many topics as it has offsets, in batches of three."""
    header = Written("SnapshotHeaderRecord", {"last_contained_log_timestamp": end.end_offset})
    data, offset = control_batch(0, end.epoch, header), 1
    for first in range(0, end.end_offset, 3):
        topics = [
            Written("TopicRecord", {"name": f"s{number}", "topic_id": uuid_of(number)})
            for number in range(first, min(first + 3, end.end_offset))
        ]
        data += record_batch(offset, end.epoch, topics)
        offset += len(topics)
    return data + control_batch(offset, end.epoch, Written("SnapshotFooterRecord"))


def _is_in_transaction(log: Sequence[RecordBatch]) -> bool:
    for batch in reversed(log):
        if marks := transaction_marks(batch):
            return marks[-1][1] == BEGIN_TRANSACTION
    return False


def _shared_end(leader: Controller, other: Controller) -> int:
    """Return up to where a controller is known to have the leader's log; 0 if it does not follow that leader."""
    if (other.epoch, other.leader) != (leader.epoch, leader.id):
        return 0
    theirs = {each.offset: each for each in leader.log}
    for each in reversed(other.log):
        if theirs.get(each.offset) == each or each.last_offset < leader.start.end_offset:
            return each.last_offset + 1
    return other.start.end_offset
