"""Payloads of znodes as JSON, some of which no simulated broker writes, and whether a decoder refuses one."""

from __future__ import annotations

import json
from typing import Any

from controller_model.kafka.errors import UnreadableZnodeError


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
