"""What the value of each kind of znode states: one table for a new value, another for a deletion.

Every published ZnodeKind has an entry in READERS. A reader decodes before it states anything, so
that an unreadable payload changes nothing. Of kinds without an entry in END_READERS only the stat is removed.
A configuration's value counts as Kafka reads it, or not at all.
"""

import re
from collections.abc import Callable

from controller_model.facts.facts import (
    BrokerConfigIs,
    BrokerIdsAre,
    ClusterIdIs,
    Fact,
    PartitionGone,
    RequestGone,
    RequestIs,
    RequestKind,
    TopicConfigIs,
    TopicDeletionGone,
    TopicDeletionIs,
    TopicGone,
    TopicIs,
)
from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.records.events import AnyEvent
from controller_model.records.views import Failover
from controller_model.sources.zookeeper import brokers, controller, kraft
from controller_model.sources.zookeeper.config_payloads import decode_config, decode_config_change
from controller_model.sources.zookeeper.election_inference import partition_fact
from controller_model.sources.zookeeper.foreign_writes import report_step, report_topic_id
from controller_model.sources.zookeeper.payloads import (
    decode_cluster_id,
    decode_feature,
    decode_partition_state,
    decode_partitions,
    decode_reassign_partitions,
    decode_topic,
)
from controller_model.sources.zookeeper.pending_writes import (
    count_writes,
    finish_failover,
    is_by_controller,
    note_leaderless,
    note_removed,
)
from controller_model.sources.zookeeper.state import zookeeper_of
from controller_model.sources.zookeeper.stats import ZnodeRead, is_another
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind
from controller_model.state.topic_state import PartitionRecord

Reader = Callable[[ZnodeRead], list[AnyEvent]]

_UNDER_WAY = Failover.UNDER_WAY
_NOTHING = PartitionRecord()
_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
_BOOLEANS = {"true": True, "false": False}
_NUMBER = re.compile(r"\+?[0-9]{1,10}")


def _partition_state(read: ZnodeRead) -> list[AnyEvent]:
    change = read.change
    new = decode_partition_state(change.payload())
    state, znode = read.state, read.znode
    control = state.control
    view, writes = control.controller.view, control.source.writes
    topic = read.topic or state.topic(znode.name)
    old = topic.partitions.get(znode.partition, _NOTHING)
    # Pending writes are counted only during failover work, and a partition's state does not begin it.
    is_counting = view.failover is _UNDER_WAY
    was_pending = is_counting and _needs_leader(read, old.replicas, old.leader)
    fact = partition_fact(read, topic, old, new)
    events = read.handle(state, fact)
    if fact.is_foreign or control.source.foreign.leader_epochs:
        events += report_step(read, old, fact)
    if not writes.written and control.log.baseline:
        writes.written = is_by_controller(control, old, new, change)
    if new.leader < 0:
        note_leaderless(writes, new.isr, change.mzxid or 0)
    if is_counting:
        by = _needs_leader(read, old.replicas, new.leader) - was_pending
        events += count_writes(state, read.stamp, by, read.handle)
    return events


def _needs_leader(read: ZnodeRead, replicas: tuple[int, ...] | None, leader: int | None) -> bool:
    """Return whether a leader write is pending for the partition (figures.pending_leader_writes)."""
    if replicas is None or leader is None or leader < 0:
        return False
    held = read.control.brokers.get(leader)
    is_gone = held is None or not held.record.live
    return is_gone and read.znode.name not in read.control.deleting


def _partition_state_end(read: ZnodeRead) -> list[AnyEvent]:
    state, znode = read.state, read.znode
    old = state.topic(znode.name).partitions.get(znode.partition, _NOTHING)
    was_pending = _needs_leader(read, old.replicas, old.leader)
    zookeeper_of(read.control).foreign.leader_epochs.pop(read.change.path, None)
    events = read.handle(state, PartitionGone(read.stamp, znode.name, znode.partition))
    note_removed(state.control, znode.name, znode.partition)
    return events + count_writes(state, read.stamp, -was_pending, read.handle)


def _topic(read: ZnodeRead) -> list[AnyEvent]:
    assignment = decode_topic(read.change.payload())
    change, name = read.change, read.znode.name
    old = read.state.topic(name)
    born = change.czxid or 0
    # A state that is older than its topic belongs to a former topic of this name: ZooKeeper deletes no
    # znode that has children. Its stat is kept until its deletion is seen as well.
    outdated = [
        partition
        for partition, record in old.partitions.items()
        if record.origin is not None and 0 < record.origin.order < born
    ]
    fact = TopicIs(
        read.stamp,
        name,
        assignment.topic_id,
        assignment.partitions,
        assignment.adding,
        assignment.removing,
        since=change.mtime or change.observed_at,
        is_another=is_another(old.origin, change),
        outdated=outdated,
        origin=read.stat,
    )
    return report_topic_id(read, old, assignment.topic_id) + _state_and_finish(read, fact)


def _state_and_finish(read: ZnodeRead, fact: Fact) -> list[AnyEvent]:
    """State a fact that may end the work of a failover."""
    events = read.handle(read.state, fact)
    return events + finish_failover(read.state, read.stamp, read.handle)


def _topic_end(read: ZnodeRead) -> list[AnyEvent]:
    zookeeper_of(read.control).writes.removed.pop(read.znode.name, None)
    zookeeper_of(read.control).foreign.topic_ids.pop(read.znode.name, None)
    return _state_and_finish(read, TopicGone(read.stamp, read.znode.name))


def _delete_topic(read: ZnodeRead) -> list[AnyEvent]:
    """Read a request to delete a topic: its existence; Kafka reads no payload."""
    read.change.payload()  # a damaged record states nothing
    since = read.change.ctime or read.change.observed_at
    return _state_and_finish(read, TopicDeletionIs(read.stamp, read.znode.name, since))


def _delete_topic_end(read: ZnodeRead) -> list[AnyEvent]:
    return _state_and_finish(read, TopicDeletionGone(read.stamp, read.znode.name))


def _topic_config(read: ZnodeRead) -> list[AnyEvent]:
    min_isr, unclean = _settings(read.change.payload())
    fact = TopicConfigIs(read.stamp, read.znode.name, min_isr, unclean, read.stat)
    return read.handle(read.state, fact)


def _topic_config_end(read: ZnodeRead) -> list[AnyEvent]:
    """Read the deletion of a configuration, which leaves what an empty one does."""
    return read.handle(read.state, TopicConfigIs(read.stamp, read.znode.name, None, None))


def _broker_config(read: ZnodeRead) -> list[AnyEvent]:
    min_isr, unclean = _settings(read.change.payload())
    return read.handle(read.state, BrokerConfigIs(read.stamp, read.znode.name, min_isr, unclean))


def _broker_config_end(read: ZnodeRead) -> list[AnyEvent]:
    return read.handle(read.state, BrokerConfigIs(read.stamp, read.znode.name, None, None))


def _settings(payload: bytes) -> tuple[int | None, bool | None]:
    """Read both settings as org.apache.kafka.common.config.ConfigDef.parseType does: trimmed."""
    config = {key: value.strip() for key, value in decode_config(payload).items()}
    min_isr, unclean = config.get(_MIN_ISR), config.get(_UNCLEAN)
    if min_isr is not None and not (_NUMBER.fullmatch(min_isr) and 0 < int(min_isr) < 2**31):
        raise UnreadableZnodeError(f"{_MIN_ISR} is {min_isr[:40]!r}, not a number above 0")
    if unclean is not None and unclean.lower() not in _BOOLEANS:
        raise UnreadableZnodeError(f"{_UNCLEAN} is {unclean[:40]!r}, not true or false")
    return (
        None if min_isr is None else int(min_isr),
        None if unclean is None else _BOOLEANS[unclean.lower()],
    )


def _reassign_partitions(read: ZnodeRead) -> list[AnyEvent]:
    """Read what a legacy tool requests; the controller removes partitions from it when they are done."""
    asked = decode_reassign_partitions(read.change.payload())
    known = zookeeper_of(read.control).stats.get(read.change.path)
    is_rewritten = known is not None and known.created == read.change.czxid
    partitions = tuple(sorted(asked))
    since = read.change.ctime
    fact = RequestIs(read.stamp, RequestKind.REASSIGNMENT, partitions, is_rewritten, since)
    return read.handle(read.state, fact)


def _preferred_election(read: ZnodeRead) -> list[AnyEvent]:
    partitions = decode_partitions(read.change.payload())
    since = read.change.ctime
    fact = RequestIs(read.stamp, RequestKind.PREFERRED_ELECTION, partitions, since=since)
    return read.handle(read.state, fact)


def _request_end(kind: RequestKind) -> Reader:
    return lambda read: read.handle(read.state, RequestGone(read.stamp, kind))


def _cluster_id(read: ZnodeRead) -> list[AnyEvent]:
    cluster_id = decode_cluster_id(read.change.payload())
    return read.handle(read.state, ClusterIdIs(read.stamp, cluster_id))


def _broker_sequence(read: ZnodeRead) -> list[AnyEvent]:
    """Read the number of generated broker ids: the data version; Kafka reads no payload."""
    read.change.payload()  # a damaged record states nothing
    return read.handle(read.state, BrokerIdsAre(read.stamp, max(0, read.change.version or 0)))


def _broker_sequence_end(read: ZnodeRead) -> list[AnyEvent]:
    return read.handle(read.state, BrokerIdsAre(read.stamp, 0))


def _only_decoded(decode: Callable[[bytes], object]) -> Reader:
    """Return a reader of a payload that changes nothing, so that damage is reported."""

    def read_it(read: ZnodeRead) -> list[AnyEvent]:
        decode(read.change.payload())
        return []

    return read_it


READERS: dict[ZnodeKind, Reader] = {
    ZnodeKind.CONTROLLER: controller.read_controller,
    ZnodeKind.CONTROLLER_EPOCH: controller.read_epoch,
    ZnodeKind.BROKER: brokers.read_broker,
    ZnodeKind.BROKER_SEQUENCE: _broker_sequence,
    ZnodeKind.LOG_DIR_EVENT: brokers.read_log_dir_event,
    ZnodeKind.TOPIC: _topic,
    ZnodeKind.PARTITION_STATE: _partition_state,
    ZnodeKind.TOPIC_CONFIG: _topic_config,
    ZnodeKind.BROKER_CONFIG: _broker_config,
    ZnodeKind.DELETE_TOPIC: _delete_topic,
    ZnodeKind.REASSIGN_PARTITIONS: _reassign_partitions,
    ZnodeKind.PREFERRED_ELECTION: _preferred_election,
    ZnodeKind.CLUSTER_ID: _cluster_id,
    ZnodeKind.MIGRATION: kraft.read_migration,
    # The state znodes that it names are watched; the pending ones are counted.
    ZnodeKind.ISR_CHANGE: _only_decoded(decode_partitions),
    # The configuration that it names is watched.
    ZnodeKind.CONFIG_CHANGE: _only_decoded(decode_config_change),
    # No feature of a ZooKeeper cluster changes what its controller does.
    ZnodeKind.FEATURE: _only_decoded(decode_feature),
}
END_READERS: dict[ZnodeKind, Reader] = {
    ZnodeKind.CONTROLLER: controller.read_controller_end,
    ZnodeKind.CONTROLLER_EPOCH: controller.read_epoch_end,
    ZnodeKind.BROKER: brokers.read_broker_end,
    ZnodeKind.BROKER_SEQUENCE: _broker_sequence_end,
    ZnodeKind.TOPIC: _topic_end,
    ZnodeKind.PARTITION_STATE: _partition_state_end,
    ZnodeKind.TOPIC_CONFIG: _topic_config_end,
    ZnodeKind.BROKER_CONFIG: _broker_config_end,
    ZnodeKind.DELETE_TOPIC: _delete_topic_end,
    ZnodeKind.REASSIGN_PARTITIONS: _request_end(RequestKind.REASSIGNMENT),
    ZnodeKind.PREFERRED_ELECTION: _request_end(RequestKind.PREFERRED_ELECTION),
    ZnodeKind.MIGRATION: kraft.read_migration_end,
}
