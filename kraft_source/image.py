"""What a metadata log makes of a cluster, for reconciliations: read from a snapshot and the log behind it, and digested.

The rule: it is built anew for each reconciliation, from what the controllers hold then, and applies records by Kafka's rules
(TopicDelta, PartitionRegistration.merge, ClusterControlManager, ConfigurationDelta, FeaturesDelta) with no code of the
model's. It holds numbers alone, 48 bytes for each partition, and no names but those of topics, keys and features.
"""

from array import array
from bisect import bisect_left
from typing import NamedTuple

from controller_model.kafka.metadata_records import (
    BROKER_RESOURCE,
    CONFIG_KEYS,
    KRAFT_VERSION,
    TOPIC_RESOURCE,
    UNCLEAN,
    BrokerRegistrationChange,
    ClearElr,
    Config,
    FeatureLevel,
    FenceBroker,
    KRaftVersion,
    Partition,
    PartitionChange,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnfenceBroker,
    UnregisterBroker,
)
from controller_model.records.metadata_digest import (
    MASK,
    MetadataDigest,
    PartitionRow,
    broker_digest,
    config_digest,
    feature_digest,
    ids_digest,
    partition_row,
    topic_digest,
)
from kraft_source.observer.released import (
    AnotherHistory,
    Committed,
    Released,
    SnapshotChunk,
    SnapshotComplete,
    SnapshotOpened,
)
from kraft_source.wire.messages import EpochEnd
from kraft_source.wire.records import Record

_WIDTH = len(PartitionRow._fields)
_NO_IDS = ids_digest(())
_BOOLEANS = {"true": 1, "false": 0}
_MAX_DIGITS = 10
"""Of a number in 32 bits."""


class _Topic:
    """The partitions of one topic as rows of numbers, in the partitions' order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.partitions = array("I")
        self.rows = array("I")
        self.digest = 0
        """Its part of the image's digest, as last counted."""

    def row(self, partition: int) -> PartitionRow | None:
        """Return what is held of a partition."""
        index = bisect_left(self.partitions, partition)
        is_held = self.partitions[index : index + 1] == array("I", (partition,))
        return self._row(index) if is_held else None

    def put(self, row: PartitionRow) -> None:
        """Store a partition."""
        index = bisect_left(self.partitions, row.partition)
        is_held = self.row(row.partition) is not None
        if not is_held:
            self.partitions.insert(index, row.partition)
        self.rows[index * _WIDTH : (index + is_held) * _WIDTH] = array("I", row)

    def every_row(self) -> list[PartitionRow]:
        """Return all partitions."""
        return [self._row(index) for index in range(len(self.partitions))]

    def _row(self, index: int) -> PartitionRow:
        return PartitionRow(*self.rows[index * _WIDTH : (index + 1) * _WIDTH])


class _Broker(NamedTuple):
    epoch: int
    fenced: bool
    shutting_down: bool


class ImageAt(NamedTuple):
    """An image at an end of its log."""

    end: EpochEnd
    digest: MetadataDigest


class MetadataImage:
    """Topics, partitions, brokers, configurations and features of a cluster, up to an offset of its metadata log."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._ids: dict[str, str] = {}
        """Topic ids by name."""
        self._brokers: dict[int, _Broker] = {}
        self._configs: dict[tuple[int, str, str], int] = {}
        """Keys that are set, by resource type, resource and key; true is 1."""
        self._features: dict[str, int] = {}
        self._partitions = self._digest = 0
        self._touched = set[str]()
        """Topics whose part of the digest is to be counted anew."""

    def apply_released(self, released: Released) -> list[ImageAt]:
        """Take the next thing that an observer releases; return the image at each place that another reader may be at."""
        match released:
            case SnapshotOpened() | AnotherHistory():
                self._clear()
            case SnapshotChunk(records):
                for record in records:
                    self._apply(record)
            case SnapshotComplete(snapshot):
                return [ImageAt(snapshot, self.digest())]
            case Committed(batches):
                for batch in batches:
                    for _, record in batch.records:
                        self._apply(record)
                if batches:
                    end = EpochEnd(batches[-1].last_offset + 1, batches[-1].epoch)
                    return [ImageAt(end, self.digest())]
        return []

    def digest(self) -> MetadataDigest:
        """Return the number and digest of what is held."""
        for topic_id in self._touched:
            if (topic := self._topics.get(topic_id)) is not None:
                before, topic.digest = topic.digest, topic_digest(topic_id, topic.every_row())
                self._digest ^= before ^ topic.digest
        self._touched.clear()
        digest = self._digest
        for broker, (epoch, fenced, shutting_down) in self._brokers.items():
            digest ^= broker_digest(broker, epoch, fenced=fenced, shutting_down=shutting_down)
        for name, level in self._features.items():
            digest ^= feature_digest(name, level)
        topics = sum(bool(each.partitions) for each in self._topics.values())
        return MetadataDigest(topics, self._partitions, len(self._brokers), digest)

    def _apply(self, record: Record) -> None:
        match record:
            case PartitionChange():
                self._change_partition(record)
            case Partition():
                self._put_partition(record)
            case Topic(name, topic_id):
                self._ids[name] = topic_id
                self._topics.setdefault(topic_id, _Topic(name))
            case RemoveTopic(topic_id):
                self._remove_topic(topic_id)
            case ClearElr(name):
                self._clear_elr(name)
            case Config():
                self._configure(record)
            case FeatureLevel(name, level):
                self._features[name] = level
            case KRaftVersion(level):
                self._features[KRAFT_VERSION] = level
            case _:
                self._apply_to_brokers(record)

    def _apply_to_brokers(self, record: Record) -> None:
        match record:
            case RegisterBroker(broker, epoch):
                registered = _Broker(epoch, record.fenced, record.in_controlled_shutdown)
                self._brokers[broker] = registered
            case UnregisterBroker(broker):
                self._brokers.pop(broker, None)
            case BrokerRegistrationChange():
                self._change_broker(record)
            case FenceBroker(broker, epoch):
                self._change_broker(BrokerRegistrationChange(broker, epoch, fenced=True))
            case UnfenceBroker(broker, epoch):
                self._change_broker(BrokerRegistrationChange(broker, epoch, fenced=False))

    def _remove_topic(self, topic_id: str) -> None:
        topic = self._topics.pop(topic_id, None)
        if topic is not None:
            self._digest ^= topic.digest
            self._partitions -= len(topic.partitions)
            self._ids.pop(topic.name, None)
            for key in CONFIG_KEYS:
                self._put_config((TOPIC_RESOURCE, topic.name, key), None)

    def _configure(self, record: Config) -> None:
        """Set or remove a key; a value that Kafka does not accept (ConfigDef.parseType) changes nothing."""
        at = (record.resource_type, record.resource_name, record.name)
        if record.name not in CONFIG_KEYS or at[0] not in {TOPIC_RESOURCE, BROKER_RESOURCE}:
            return
        if record.value is None:
            self._put_config(at, None)
            return
        text = record.value.strip().lower()
        number = text.removeprefix("+")
        is_number = number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS
        value = (
            _BOOLEANS.get(text) if record.name == UNCLEAN else int(number) if is_number else None
        )
        if value is not None:
            self._put_config(at, value)

    def _put_config(self, at: tuple[int, str, str], value: int | None) -> None:
        held = self._configs.pop(at, None)
        if held is not None:
            self._digest ^= config_digest(*at, held)
        if value is not None:
            self._configs[at] = value
            self._digest ^= config_digest(*at, value)

    def _put_partition(self, record: Partition) -> None:
        row = partition_row(
            record.partition_id,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.leader_recovery_state,
            record.replicas,
            record.isr,
            record.adding_replicas,
            record.removing_replicas,
            record.eligible_leader_replicas,
            record.last_known_elr,
        )
        self._put_row(record.topic_id, row)

    def _change_partition(self, record: PartitionChange) -> None:
        topic = self._topics.get(record.topic_id)
        held = None if topic is None else topic.row(record.partition_id)
        if held is None:
            return
        fields: dict[str, int] = {
            field: ids_digest(ids)
            for field, ids in (
                ("replicas", record.replicas),
                ("isr", record.isr),
                ("adding", record.adding_replicas),
                ("removing", record.removing_replicas),
                ("elr", record.eligible_leader_replicas),
                ("last_known_elr", record.last_known_elr),
            )
            if ids is not None
        }
        if record.leader is not None:
            fields |= {"leader": record.leader & MASK, "leader_epoch": held.leader_epoch + 1}
        if record.leader_recovery_state is not None:
            fields["recovery"] = record.leader_recovery_state
        fields["partition_epoch"] = held.partition_epoch + 1
        self._put_row(record.topic_id, held._replace(**fields))

    def _clear_elr(self, name: str) -> None:
        """Drop eligible leader replicas as a change of each partition that has some (TopicDelta.replay).

        Without a name: those of all topics.
        """
        for topic_id in [self._ids.get(name, "")] if name else list(self._topics):
            topic = self._topics.get(topic_id)
            for row in () if topic is None else topic.every_row():
                if (row.elr, row.last_known_elr) != (_NO_IDS, _NO_IDS):
                    epoch = row.partition_epoch + 1
                    cleared = {"elr": _NO_IDS, "last_known_elr": _NO_IDS, "partition_epoch": epoch}
                    self._put_row(topic_id, row._replace(**cleared))

    def _put_row(self, topic_id: str, row: PartitionRow) -> None:
        topic = self._topics.get(topic_id)
        if topic is None:
            return
        before = len(topic.partitions)
        topic.put(row)
        self._partitions += len(topic.partitions) - before
        self._touched.add(topic_id)

    def _change_broker(self, record: BrokerRegistrationChange) -> None:
        held = self._brokers.get(record.broker_id)
        if held is None or held.epoch != record.broker_epoch:
            return
        fenced = held.fenced if record.fenced is None else record.fenced
        shutting_down = held.shutting_down or record.in_controlled_shutdown
        self._brokers[record.broker_id] = _Broker(held.epoch, fenced, shutting_down)
