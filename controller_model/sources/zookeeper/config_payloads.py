"""Decoders of configurations and their change notifications, and what of them leaves the watcher.

Of a configuration only the keys that the model needs are read, and the names of users,
clients and hosts never leave the watcher. Source: kafka.zk.ZkData (ConfigEntityZNode and
ConfigEntityChangeNotificationSequenceZNode), kafka.server.DynamicConfigManager (0.9 to 3.9) and
TopicConfigManager (0.8.1).
"""

from typing import Annotated, Any

import msgspec

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.sources.zookeeper.payloads import read_layout, shorten

CONFIG_KEYS = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})
"""The only configuration keys that leave the watcher; others may hold secrets."""

_HIDDEN = frozenset({"users", "clients", "ips"})
"""Kinds of configured entities whose names stay in the watcher: they name people and hosts."""


class _ConfigLayout(msgspec.Struct, frozen=True):
    config: dict[str, Any]
    version: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1


class _ConfigChangeLayout(msgspec.Struct, frozen=True):
    version: Annotated[int, msgspec.Meta(ge=1, le=2)]
    entity_path: str | None = None
    entity_type: str | None = None
    entity_name: str | None = None


_config = msgspec.json.Decoder(_ConfigLayout)
_config_change = msgspec.json.Decoder(_ConfigChangeLayout | str)


def decode_config(payload: bytes) -> dict[str, str]:
    """Return the part of a topic's or broker's configuration that the model needs.

    An empty znode is an empty configuration. No version is required (ConfigEntityZNode.decode).
    """
    if not payload:
        return {}
    config = read_layout(_config, payload).config
    wanted = {key: value for key, value in config.items() if key in CONFIG_KEYS}
    if not all(isinstance(value, str) for value in wanted.values()):
        raise UnreadableZnodeError("a configuration value is not text")
    return wanted


def decode_config_change(payload: bytes) -> str:
    """Return the entity whose configuration changed, as its path below /config: "topics/t".

    Version 2 (Kafka 0.10.1) holds the path, version 1 (0.9) the type and the name. Kafka 0.8.1 and
    0.8.2 wrote only the topic's name as a JSON text (DynamicConfigManager, TopicConfigManager).
    No Kafka reads a notification without a version (ZkConfigManager.processNotification).

    >>> decode_config_change(b'"t"'), decode_config_change(b'{"version":2,"entity_path":"brokers/0"}')
    ('topics/t', 'brokers/0')
    """
    layout = read_layout(_config_change, payload)
    if isinstance(layout, str):
        path = f"topics/{layout}"
    elif layout.version == 1:
        path = f"{layout.entity_type or ''}/{layout.entity_name or ''}"
    else:
        path = layout.entity_path or ""
    if not all(path.split("/")) or "/" not in path:
        raise UnreadableZnodeError(shorten(f"not an entity of /config: {path!r}"))
    return path


def reduce_config_change(payload: bytes) -> bytes:
    """Return a notification without the names of users, clients and hosts.

    >>> reduce_config_change(b'{"version":2,"entity_path":"users/alice/clients/c"}')
    b'{"version":2,"entity_path":"users/-"}'
    """
    try:
        kind = decode_config_change(payload).partition("/")[0]
    except UnreadableZnodeError:
        return b"{}"
    return b'{"version":2,"entity_path":"%s/-"}' % kind.encode() if kind in _HIDDEN else payload
