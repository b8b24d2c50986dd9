"""Payloads of znodes as JSON, some of which no simulated broker writes, and whether a decoder refuses one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.kafka.hash_order import scala_order
from controller_model.sources.zookeeper import config_payloads, payloads
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind

DECODERS: dict[ZnodeKind, Callable[[bytes], object]] = {
    ZnodeKind.CONTROLLER: payloads.decode_controller,
    ZnodeKind.CONTROLLER_EPOCH: payloads.decode_controller_epoch,
    ZnodeKind.BROKER: payloads.decode_broker,
    ZnodeKind.BROKER_SEQUENCE: bytes,
    ZnodeKind.TOPIC: payloads.decode_topic,
    ZnodeKind.PARTITION_STATE: payloads.decode_partition_state,
    ZnodeKind.REASSIGN_PARTITIONS: payloads.decode_reassign_partitions,
    ZnodeKind.PREFERRED_ELECTION: payloads.decode_partitions,
    ZnodeKind.DELETE_TOPIC: bytes,
    ZnodeKind.ISR_CHANGE: payloads.decode_partitions,
    ZnodeKind.LOG_DIR_EVENT: payloads.decode_log_dir_event,
    ZnodeKind.TOPIC_CONFIG: config_payloads.decode_config,
    ZnodeKind.BROKER_CONFIG: config_payloads.decode_config,
    ZnodeKind.CONFIG_CHANGE: config_payloads.decode_config_change,
    ZnodeKind.CLUSTER_ID: payloads.decode_cluster_id,
    ZnodeKind.FEATURE: payloads.decode_feature,
    ZnodeKind.MIGRATION: payloads.decode_migration,
}
"""The decoder of each kind; whatever the payload, it raises nothing but UnreadableZnodeError."""


def encoded(content: Any) -> bytes:
    """Return content as JSON."""
    return json.dumps(content).encode()


def refuses(decode: Any, content: Any) -> bool:
    """Return whether a decoder reports a payload as unreadable."""
    try:
        decode(content if isinstance(content, bytes) else encoded(content))
    except UnreadableZnodeError as error:
        return 0 < len(str(error)) <= 200
    return False


def encode_broker(
    endpoints: Sequence[tuple[str, str, str, int]],
    *,
    timestamp: int,
    rack: str | None = None,
    jmx_port: int = -1,
    features: Mapping[str, tuple[int, int]] | None = None,
    version: int = 5,
) -> bytes:
    """Return /brokers/ids/N of any broker (BrokerIdZNode.encode).

    Endpoints are (listener, security protocol, host, port); the first PLAINTEXT one gives host and
    port, and without any they are null and -1. Features are (min_version, max_version) by name.
    Version 2 is written below inter.broker.protocol 0.10.0, 4 below 2.7, 5 from then on.
    """
    plain = next((end for end in endpoints if end[1] == "PLAINTEXT"), ("", "", None, -1))
    content: dict[str, Any] = {
        "version": version,
        "host": plain[2],
        "port": plain[3],
        "endpoints": [f"{end[0]}://{end[2]}:{end[3]}" for end in endpoints],
        "jmx_port": jmx_port,
        "timestamp": str(timestamp),
    }
    if rack is not None and version >= 3:
        content["rack"] = rack
    if version >= 4:
        content["listener_security_protocol_map"] = {end[0]: end[1] for end in endpoints}
    if version >= 5:
        content["features"] = {
            name: {"min_version": least, "max_version": most}
            for name, (least, most) in (features or {}).items()
        }
    return _compact({key: content[key] for key in scala_order(content)})


def encode_feature(*, enabled: bool, features: Mapping[str, int], version: int = 2) -> bytes:
    """Return /feature with features (FeatureZNode.encode); version 1 below inter.broker.protocol 3.3."""
    lowest = {"min_version_level"} if version == 1 else ()
    levels = {
        name: dict.fromkeys(("max_version_level", *lowest), level)
        for name, level in features.items()
    }
    return _compact({"features": levels, "version": version, "status": int(enabled)})


def _compact(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def encode_migration(
    *,
    kraft_controller_id: int,
    kraft_controller_epoch: int,
    kraft_metadata_offset: int,
    kraft_metadata_epoch: int,
) -> bytes:
    """Return /migration (MigrationZNode.encode), which the KRaft controller of a migration writes."""
    return (
        f'{{"version":0,"kraft_metadata_offset":{kraft_metadata_offset},'
        f'"kraft_controller_id":{kraft_controller_id},'
        f'"kraft_metadata_epoch":{kraft_metadata_epoch},'
        f'"kraft_controller_epoch":{kraft_controller_epoch}}}'
    ).encode()


def encode_config_change(entity_path: str) -> bytes:
    """Return /config/changes/config_change_N (ConfigEntityChangeNotificationSequenceZNode.encode).

    The path is the entity's, below /config: "topics/t", "brokers/0", "brokers/<default>".
    """
    return b'{"version":2,"entity_path":%b}' % json.dumps(entity_path, ensure_ascii=False).encode()


def encode_log_dir_event(broker: int) -> bytes:
    """Return /log_dir_event_notification/log_dir_event_N (LogDirEventNotificationSequenceZNode)."""
    return b'{"version":1,"broker":%d,"event":%d}' % (broker, 1)
