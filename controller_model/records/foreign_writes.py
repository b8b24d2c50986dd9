"""Foreign writes: what no Kafka writes, and what each of them takes away.

A znode that a tool, a hand, a restored backup or a KRaft controller that is gone has written is read as Kafka reads it.
It is no election and ends no incident. Its kind says what Kafka does with it.
"""

import enum
from collections.abc import Mapping


class ForeignWriteKind(enum.StrEnum):
    """What was written that no Kafka writes."""

    CONTROLLER_EPOCH_ABOVE = "controller_epoch_above"
    """A partition's state holds a controller epoch above /controller_epoch: Kafka aborts each election of it
    (PartitionStateMachine.doElectLeaderForPartitions). A rollback of a migration to KRaft leaves such states."""
    CONTROLLER_EPOCH_BACK = "controller_epoch_back"
    """/controller_epoch went back, or was removed, while brokers ran: they refuse what a controller with a smaller epoch
    sends (STALE_CONTROLLER_EPOCH)."""
    CONTROLLER_WITHOUT_SESSION = "controller_without_session"
    """/controller is persistent, of another session than its broker's registration, or of a broker that is not
    registered: it does not end with the broker, and nobody can be elected meanwhile."""
    BROKER_WITHOUT_SESSION = "broker_without_session"
    """A registration is persistent: it does not end with the broker, which counts as live for ever, and cannot start."""
    LEADER_EPOCH = "leader_epoch"
    """A partition's leader epoch went back, or its leader moved under the same one: brokers ignore such a leader."""
    TOPIC_ID = "topic_id"
    """A topic's id was lost or replaced: brokers refuse the topic until they restart (INCONSISTENT_TOPIC_ID)."""


FOREIGN_WRITE_WORDS: Mapping[str, str] = {
    ForeignWriteKind.CONTROLLER_EPOCH_ABOVE: "Kafka aborts elections: a state's controller epoch is above the cluster's",
    ForeignWriteKind.CONTROLLER_EPOCH_BACK: "brokers refuse the controller: its epoch went back",
    ForeignWriteKind.CONTROLLER_WITHOUT_SESSION: "no session of its broker holds /controller",
    ForeignWriteKind.BROKER_WITHOUT_SESSION: "a broker is registered without a session",
    ForeignWriteKind.LEADER_EPOCH: "a leader was written as no controller writes one",
    ForeignWriteKind.TOPIC_ID: "brokers refuse a topic: its id changed",
}
"""What stands while a foreign write does, in words, by its kind."""
