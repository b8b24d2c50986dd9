"""Configurations of topics and brokers: the two settings that affect leaders and writes.

The rule: a value counts as Kafka reads it, or not at all. A value that Kafka would reject makes the
whole configuration unreadable, and the last good one is kept.
"""

import re
from typing import TypeVar

import msgspec

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.records.changes import ZnodeChange
from controller_model.records.events import AnyEvent
from controller_model.sources.zookeeper.config_payloads import decode_config
from controller_model.sources.zookeeper.znode_kinds import Znode
from controller_model.state.cluster import ClusterState
from controller_model.state.znode_stat import ZnodeStat

_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"

_ValueT = TypeVar("_ValueT")
_BOOLEANS = {"true": True, "false": False}
_NUMBER = re.compile(r"\+?[0-9]{1,10}")


def set_broker_config(
    state: ClusterState, znode: Znode, _change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Apply the configuration of a broker, or of all of them (<default>)."""
    min_isr, unclean = _config_in(payload)
    _put(state.control.broker_min_isr, znode.name, min_isr)
    _put(state.control.broker_unclean, znode.name, unclean)
    return []


def end_broker_config(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Apply the deletion of a configuration of brokers, which leaves what an empty one does."""
    return set_broker_config(state, znode, change, b"")


def set_topic_config(
    state: ClusterState, znode: Znode, _change: ZnodeChange, payload: bytes, stat: ZnodeStat | None
) -> list[AnyEvent]:
    """Apply a topic's configuration; it may be read before the topic."""
    min_isr, unclean = _config_in(payload)
    topic = state.topic(znode.name)
    new = msgspec.structs.replace(topic, min_isr=min_isr, unclean=unclean, config_stat=stat)
    state.put_topic(new)
    return []


def end_topic_config(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Apply the deletion of a topic's configuration, which leaves what an empty one does."""
    return set_topic_config(state, znode, change, b"", None)


def _config_in(payload: bytes) -> tuple[int | None, bool | None]:
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


def _put(table: dict[str, _ValueT], key: str, value: _ValueT | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
