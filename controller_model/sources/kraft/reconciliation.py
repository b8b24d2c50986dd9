"""Reconciliations: what the controllers hold at an offset, compared with what the fold holds there.

The rule: contiguous offsets prove that no record is missing, and not that each was applied as Kafka applies it. So the
state itself is digested, as it is held, and compared with what a watcher read anew. A difference is reported, and
ends only with a snapshot, or the whole log, that is read again.
"""

from controller_model.kafka.cluster_facts import DEFAULT_BROKER
from controller_model.kafka.kraft_elections import EligibleLeaders
from controller_model.kafka.metadata_records import (
    BROKER_RESOURCE,
    MIN_ISR,
    TOPIC_RESOURCE,
    UNCLEAN,
)
from controller_model.records.changes import digest_text
from controller_model.records.events import AnyEvent, Divergent
from controller_model.records.metadata_digest import (
    MetadataDigest,
    broker_digest,
    config_digest,
    feature_digest,
    partition_row,
    topic_digest,
)
from controller_model.records.metadata_log import MetadataReconciled
from controller_model.sources.kraft.state import KraftState, quorum_of
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import request_resync
from controller_model.state.topic_state import TopicState

_NOBODY = EligibleLeaders()


def compare(state: ClusterState, kraft: KraftState, record: MetadataReconciled) -> list[AnyEvent]:
    """Compare a reconciliation with what is held; where they differ, say so and ask for a snapshot."""
    log = state.control.log
    if not kraft.is_counting:
        return []
    log.view.reconciliations += 1
    held = digest_of(state)
    theirs = MetadataDigest(record.topics, record.partitions, record.brokers, 0)
    is_equal = held._replace(digest=0) == theirs and digest_text(held.digest) == record.digest
    if is_equal and record.epoch == kraft.epoch:
        return []
    kraft.is_whole = False
    request_resync(log, "divergent", again=True)
    if log.view.divergent_since is not None:
        return []
    log.view.divergent_since = record.observed_at
    reason = (
        f"a reconciliation at offset {record.end} found {_text(theirs)} with digest {record.digest} "
        f"and epoch {record.epoch}, the fold holds {_text(held)} with {digest_text(held.digest)} "
        f"and epoch {kraft.epoch}"
    )
    return [Divergent(at=record.observed_at, position=log.position, reason=reason)]


def digest_of(state: ClusterState) -> MetadataDigest:
    """Return the numbers and digest of what is held: topics, partitions, brokers, configurations and features."""
    topics = partitions = brokers = digest = 0
    for name in state.topics.names():
        topic = state.topics.peek(name)
        if topic is None:
            continue
        digest ^= _config_digest(TOPIC_RESOURCE, name, topic.min_isr, topic.unclean)
        if topic.topic_id is None or not topic.partitions:
            continue
        topics += 1
        partitions += len(topic.partitions)
        digest ^= _topic_digest(topic, topic.topic_id)
    for broker, held in state.control.brokers.items():
        record = held.record
        if record.fenced is None:
            continue
        brokers += 1
        digest ^= broker_digest(
            broker,
            -1 if record.epoch is None else record.epoch,
            fenced=record.fenced,
            shutting_down=record.shutting_down,
        )
    config = state.control.config
    for resource in {*config.broker_min_isr, *config.broker_unclean}:
        name = "" if resource == DEFAULT_BROKER else resource
        of_broker = config.broker_min_isr.get(resource), config.broker_unclean.get(resource)
        digest ^= _config_digest(BROKER_RESOURCE, name, *of_broker)
    for feature, level in quorum_of(state.control).features.items():
        digest ^= feature_digest(feature, level)
    return MetadataDigest(topics, partitions, brokers, digest)


def _config_digest(kind: int, resource: str, min_isr: int | None, unclean: bool | None) -> int:
    digest = 0
    for key, value in ((MIN_ISR, min_isr), (UNCLEAN, unclean)):
        if value is not None:
            digest ^= config_digest(kind, resource, key, int(value))
    return digest


def _topic_digest(topic: TopicState, topic_id: str) -> int:
    rows = [
        partition_row(
            partition,
            -1 if held.leader is None else held.leader,
            held.leader_epoch,
            -1 if held.partition_epoch is None else held.partition_epoch,
            held.leader_recovery_state,
            held.replicas or (),
            held.isr,
            topic.adding.get(partition, ()),
            topic.removing.get(partition, ()),
            eligible.elr,
            eligible.last_known,
        )
        for partition, held in sorted(topic.partitions.items())
        for eligible in (held.eligible or _NOBODY,)
    ]
    return topic_digest(topic_id, rows)


def _text(of: MetadataDigest) -> str:
    return f"{of.partitions} partitions of {of.topics} topics and {of.brokers} brokers"
