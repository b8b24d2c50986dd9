"""One record of the metadata log while it is read, and the cause that its batch states."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from controller_model.facts.facts import Fact
from controller_model.facts.stamp import Stamp
from controller_model.kafka.ids import Position, new_tuple
from controller_model.kafka.metadata_records import (
    BrokerRegistrationChange,
    FenceBroker,
    LeaderChange,
    MetadataRecord,
    RegisterBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from controller_model.records.events import AnyEvent
from controller_model.records.metadata_log import MetadataBatch
from controller_model.sources.kraft.state import KraftState, SnapshotReading
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly
from controller_model.state.source import Handle

ABOUT_BROKERS = frozenset(
    {RegisterBroker, UnregisterBroker, FenceBroker, UnfenceBroker, BrokerRegistrationChange}
)
SAMPLED = ABOUT_BROKERS | {LeaderChange}
"""Records after which the health of the cluster is sampled."""

UNKNOWN_EPOCH = -1
"""The controller epoch of a state that a snapshot holds: it does not say under which it was written."""


class Cause(NamedTuple):
    """What a batch states of brokers: why its partitions change."""

    stopping: frozenset[int] = frozenset()
    """They are in controlled shutdown now."""
    lost: frozenset[int] = frozenset()
    """They are fenced, removed or registered anew, or log directories of theirs went offline."""

    @property
    def brokers(self) -> frozenset[int]:
        """Those that the controller removes from ISRs because of it."""
        return self.stopping | self.lost


NO_CAUSE = Cause()


def cause_of(batch: MetadataBatch) -> Cause:
    """Return what a batch states of brokers."""
    stopping, lost = set[int](), set[int]()
    for record in (*batch.ahead, *batch.records):
        if isinstance(record, BrokerRegistrationChange):
            if record.in_controlled_shutdown:
                stopping.add(record.broker_id)
            elif record.fenced or record.log_dirs is not None:
                lost.add(record.broker_id)
        elif isinstance(record, RegisterBroker | UnregisterBroker):
            lost.add(record.broker_id)
        elif isinstance(record, FenceBroker):
            lost.add(record.id)
    if not (stopping or lost):
        return NO_CAUSE
    return Cause(frozenset(stopping), frozenset(lost))


@dataclass(slots=True)
class Reading:
    """What one record is read with; for the next one of its batch only the offset is another."""

    state: ClusterState
    kraft: KraftState
    handle: Handle
    at: int
    """When it was appended, by the clock of the controller."""
    generation: int
    offset: int
    """Of a record in a snapshot: the offset before its end."""
    epoch: int
    """UNKNOWN_EPOCH in a snapshot."""
    cause: Cause
    snapshot: SnapshotReading | None = None
    """The snapshot that holds the record; None: it is of the log itself."""
    after_epoch: int = UNKNOWN_EPOCH
    """The epoch of the record before those that were taken with it."""

    @property
    def stamp(self) -> Stamp:
        """When and where it states something."""
        position = new_tuple(Position, (self.generation, self.offset + 1))
        return Stamp(self.at, position, self.offset)

    def state_fact(self, fact: Fact) -> list[AnyEvent]:
        """Apply a fact, and return what it reports."""
        return self.handle(self.state, fact)

    def odd(self, record: MetadataRecord, reason: str) -> list[AnyEvent]:
        """Count and report something odd about a record."""
        kind: type[Any] = type(record)
        path = f"__cluster_metadata {kind.__name__} at offset {self.offset}"
        return [count_anomaly(self.state, at=self.at, path=path, reason=reason)]
