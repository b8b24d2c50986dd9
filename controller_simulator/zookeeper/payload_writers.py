"""Writes the payload of each znode, byte for byte as Kafka 3.9 does.

The text is the one that kafka.zk.ZkData of Kafka 3.9 makes: its keys, their order (that
of its hash maps) and no blanks. A test compares each of these with Kafka's own classes.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from controller_model.kafka.elections import LeaderAndIsr
from controller_model.kafka.hash_order import properties_order, scala_order
from controller_model.kafka.ids import TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment

MIGRATION_OFF = -1
"""The kraftControllerEpoch of a controller that is a ZooKeeper broker."""

_CONTROL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*\\u00)([0-9a-f]{2})")


def encode_controller(
    broker: int, *, timestamp: int, kraft_controller_epoch: int | None = MIGRATION_OFF
) -> bytes:
    """Return /controller (ControllerZNode.encode); without a KRaft epoch as Kafka before 3.4 does.

    >>> encode_controller(0, timestamp=17)
    b'{"version":2,"brokerid":0,"timestamp":"17","kraftControllerEpoch":-1}'
    >>> encode_controller(0, timestamp=17, kraft_controller_epoch=None)
    b'{"version":1,"brokerid":0,"timestamp":"17"}'
    """
    if kraft_controller_epoch is None:
        return f'{{"version":1,"brokerid":{broker},"timestamp":"{timestamp}"}}'.encode()
    return (
        f'{{"version":2,"brokerid":{broker},"timestamp":"{timestamp}",'
        f'"kraftControllerEpoch":{kraft_controller_epoch}}}'
    ).encode()


def encode_controller_epoch(epoch: int) -> bytes:
    """Return /controller_epoch (ControllerEpochZNode.encode)."""
    return b"%d" % epoch


def encode_broker(port: int, *, timestamp: int, has_features: bool = True) -> bytes:
    """Return /brokers/ids/N of a broker with one PLAINTEXT endpoint (BrokerIdZNode.encode).

    Features, and version 5, are written from inter.broker.protocol 2.7 on.
    """
    version, features = (5, '"features":{},') if has_features else (4, "")
    return (
        f'{{{features}"listener_security_protocol_map":{{"PLAINTEXT":"PLAINTEXT"}},'
        f'"endpoints":["PLAINTEXT://127.0.0.1:{port}"],"jmx_port":-1,"port":{port},'
        f'"host":"127.0.0.1","version":{version},"timestamp":"{timestamp}"}}'
    ).encode()


def encode_topic(assignments: Mapping[int, ReplicaAssignment], *, topic_id: str | None) -> bytes:
    """Return /brokers/topics/T (TopicZNode.encode): version 3, even without an id.

    Partitions are in the order of Kafka's hash map; adding and removing replicas only list the
    partitions that have any.

    >>> encode_topic({0: ReplicaAssignment((0, 1))}, topic_id=None)
    b'{"partitions":{"0":[0,1]},"adding_replicas":{},"removing_replicas":{},"version":3}'
    """
    partitions = {p: each.replicas for p, each in assignments.items()}
    adding = {p: each.adding for p, each in assignments.items() if each.adding}
    removing = {p: each.removing for p, each in assignments.items() if each.removing}
    the_id = "" if topic_id is None else f'"topic_id":{_json(topic_id)},'
    return (
        f'{{"partitions":{_replicas(partitions)},{the_id}"adding_replicas":{_replicas(adding)},'
        f'"removing_replicas":{_replicas(removing)},"version":3}}'
    ).encode()


def encode_partition_state(state: LeaderAndIsr, controller_epoch: int) -> bytes:
    """Return a partition's state (TopicPartitionStateZNode.encode); a recovery state of 0 is left out.

    >>> encode_partition_state(LeaderAndIsr(1, (1, 0), leader_epoch=2), controller_epoch=3)
    b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":2,"isr":[1,0]}'
    """
    recovering = state.leader_recovery_state
    recovery = f',"leader_recovery_state":{recovering}' if recovering else ""
    return (
        f'{{"controller_epoch":{controller_epoch},"leader":{state.leader},"version":1{recovery},'
        f'"leader_epoch":{state.leader_epoch},"isr":[{",".join(map(str, state.isr))}]}}'
    ).encode()


def encode_config(config: Mapping[str, str]) -> bytes:
    """Return /config/topics/T or /config/brokers/N (ConfigEntityZNode.encode).

    >>> encode_config({})
    b'{"version":1,"config":{}}'
    """
    values = {key: _json(value) for key, value in config.items()}
    return f'{{"version":1,"config":{_object(values, properties_order)}}}'.encode()


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Return partitions as in /isr_change_notification/isr_change_N and preferred elections.

    IsrChangeNotificationSequenceZNode.encode and PreferredReplicaElectionZNode.encode write the
    same text. Kafka's order is that of a Scala set; here it is the given one.

    >>> encode_partitions([TopicPartition("t", 0)])
    b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    """
    entries = (f'{{"topic":{_json(tp.topic)},"partition":{tp.partition}}}' for tp in partitions)
    return f'{{"version":1,"partitions":{_list(entries)}}}'.encode()


def encode_reassign_partitions(assignments: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """Return /admin/reassign_partitions (ReassignPartitionsZNode.encode), as legacy tools do."""
    entries = (
        f'{{"topic":{_json(tp.topic)},"partition":{tp.partition},'
        f'"replicas":[{",".join(map(str, replicas))}]}}'
        for tp, replicas in assignments.items()
    )
    return f'{{"version":1,"partitions":{_list(entries)}}}'.encode()


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return /cluster/id (ClusterIdZNode.toJson)."""
    return f'{{"version":"1","id":{_json(cluster_id)}}}'.encode()


def encode_feature(*, enabled: bool, version: int = 2) -> bytes:
    """Return /feature without features (FeatureZNode.encode); version 1 below inter.broker.protocol 3.3.

    >>> encode_feature(enabled=True)
    b'{"features":{},"version":2,"status":1}'
    """
    return f'{{"features":{{}},"version":{version},"status":{int(enabled)}}}'.encode()


def _replicas(by_partition: Mapping[int, Sequence[int]]) -> str:
    return _object(
        {str(p): f"[{','.join(map(str, replicas))}]" for p, replicas in by_partition.items()},
        scala_order,
    )


def _object(content: Mapping[str, str], order: Callable[[Iterable[str]], list[str]]) -> str:
    return "{" + ",".join(f"{_json(key)}:{content[key]}" for key in order(content)) + "}"


def _list(entries: Iterable[str]) -> str:
    return "[" + ",".join(entries) + "]"


def _json(value: str | None) -> str:
    """Return a JSON text as Jackson writes it: UTF-8 unescaped, control characters with capital hex digits."""
    text = json.dumps(value, ensure_ascii=False)
    return _CONTROL_ESCAPE.sub(lambda found: found[1] + found[2].upper(), text)
