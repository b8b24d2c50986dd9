"""Proves from one replica's files up to where its copy of the metadata log is committed.

The high watermark is in no file, and a replica's log may end with records that no majority has: after an election
other records stand at their offsets. Each rule below proves one offset; by Raft's log matching everything before it in the
same log is committed with it.

1. A snapshot. A replica makes one only up to its high watermark, and gets one only from such a replica
   (KafkaMetadataLog.createNewSnapshot, in Kafka 4.4 KafkaRaftLog.createNewSnapshot).
2. The beginning of an epoch in which the active controller wrote. It becomes active, and may write, only after it
   was given its own LeaderChange as committed (KafkaRaftClient.ListenerContext.maybeFireLeaderChange,
   QuorumController.claim): a record of an epoch that is no control record proves the LeaderChange of that epoch.
3. The majority's own records. A record of the epoch in which this replica still is stands in the log of that epoch's
   leader, from which it came, and here. Where these two are a majority of the voters, the record is committed
   (Raft, 5.4.2; LeaderState.maybeUpdateHighWatermark). It needs the replica's own id, its epoch and the voters.

What a transaction changes is proven with its end only.
"""

from collections.abc import Mapping
from typing import NamedTuple

from controller_model.kafka.metadata_records import LeaderChange, Voters
from controller_model.records.metadata_log import NO_EPOCH
from kraft_source.wire.batches import RecordBatch
from kraft_source.wire.records import BEGIN_TRANSACTION, decode, transaction_marks


class Replica(NamedTuple):
    """What the files beside a log say of the replica that they were copied from."""

    node_id: int | None = None
    """From `meta.properties`; None where that was not copied."""
    leader: int | None = None
    epoch: int | None = None
    """From `quorum-state`."""
    voters: tuple[int, ...] = ()
    """From `quorum-state` of a static quorum."""


class CommitProof(NamedTuple):
    """Up to where a log is proven committed."""

    end: int
    """The offset behind the last record that is proven; 0: nothing is."""
    why: str
    """What proves it."""
    log_end: int
    """The offset behind the last record that can be read."""
    unproven_since: int | None = None
    """When the first record was appended that is not proven, in ms since 1970; None: all are proven, or none."""


class Prover:
    """Is told of all that can be read of a log, in its order, and then of the snapshots that are whole."""

    def __init__(self, replica: Replica, snapshots: Mapping[int, int]) -> None:
        """Begin; `snapshots` has the epoch of each snapshot by its end, which is a batch's end in the log."""
        self._replica = replica
        self._voters = replica.voters
        self._snapshots = snapshots
        self.leaders: dict[int, int] = {}
        """Who led in each epoch whose LeaderChange was seen."""
        self.foreign: set[int] = set()
        """The ends of snapshots whose epoch is not the log's."""
        self._epoch = NO_EPOCH
        self._epoch_began: int | None = None
        """Behind the LeaderChange of the epoch, while nothing proves that it is committed; None: it is not in the log."""
        self._end = 0
        self._proven, self._why = 0, "nothing in the folder proves that a record was committed"
        self._transactions: list[tuple[int, int | None]] = []
        """Where transactions begin, and behind their ends; None: that is not in the log."""
        self._appended: dict[int, int] = {}
        """When the batches were appended that begin where a proof may end."""

    def add(self, batch: RecordBatch) -> None:
        """Learn of the next batch."""
        for offset, kind in transaction_marks(batch):
            if kind == BEGIN_TRANSACTION:
                self._transactions.append((batch.offset, None))
                self._appended[batch.offset] = batch.at
            elif self._transactions:
                self._transactions[-1] = (self._transactions[-1][0], offset + 1)
        if batch.offset in self._snapshots or batch.offset == self._epoch_began:
            self._appended[batch.offset] = batch.at
        if batch.is_control:
            self._learn_voters(batch)
            if batch.epoch > self._epoch:
                self._epoch_began = batch.last_offset + 1
        elif batch.epoch == self._epoch and self._epoch_began is not None:
            self._prove(
                self._epoch_began,
                f"the controller of epoch {batch.epoch} wrote after it, and so knew its own LeaderChange as committed",
            )
            self._epoch_began = None
        self._epoch, self._end = batch.epoch, batch.last_offset + 1
        if self._snapshots.get(self._end, batch.epoch) != batch.epoch:
            self.foreign.add(self._end)

    def add_snapshot(self, end: int, epoch: int, name: str) -> None:
        """Learn of a snapshot."""
        self._prove(end, f"snapshot {name} ends there, and none is made above the high watermark")
        if end > self._end:
            self._end, self._epoch = end, epoch

    def proof(self) -> CommitProof:
        """Return what is proven."""
        node, leader, voters = self._replica.node_id, self._replica.leader, set(self._voters)
        if node in voters and leader in voters and self._replica.epoch == self._epoch:
            copies = {node, leader}
            if 2 * len(copies) > len(voters):
                who = " and ".join(map(str, sorted(each for each in copies if each is not None)))
                self._prove(
                    self._end,
                    f"of {len(voters)} voters, {who} have all records of epoch {self._epoch}, in which they are",
                )
        for begin, end in self._transactions:
            if begin < self._proven < (self._end + 1 if end is None else end):
                self._proven = begin
                self._why += (
                    f"; the transaction from offset {begin} on ends behind it, or does not end"
                )
        is_all = self._proven >= self._end
        return CommitProof(
            self._proven, self._why, self._end, None if is_all else self._appended.get(self._proven)
        )

    def _learn_voters(self, batch: RecordBatch) -> None:
        for _, record in decode(batch).records:
            if isinstance(record, LeaderChange):
                self.leaders[batch.epoch] = record.leader_id
            if isinstance(record, LeaderChange | Voters) and record.voters:
                self._voters = tuple(each.voter_id for each in record.voters)

    def _prove(self, end: int, why: str) -> None:
        if end > self._proven:
            self._proven, self._why = end, why
