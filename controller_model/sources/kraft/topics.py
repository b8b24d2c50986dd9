"""Topics and configurations of the metadata log.

The rule: a record names a topic by its id; the name belongs to the id from the topic's creation to its end, which is
one record and takes effect at once (ReplicationControlManager.deleteTopic). Of configurations only the keys that
figures depend on are in the log of kcm.
"""

import re

from controller_model.facts.facts import BrokerConfigIs, TopicConfigIs, TopicGone
from controller_model.kafka.cluster_facts import DEFAULT_BROKER
from controller_model.kafka.metadata_records import (
    BROKER_RESOURCE,
    CONFIG_KEYS,
    MIN_ISR,
    TOPIC_RESOURCE,
    ClearElr,
    Config,
    RemoveTopic,
    Topic,
)
from controller_model.records.events import AnyEvent
from controller_model.sources.kraft.partitions import clear_eligible
from controller_model.sources.kraft.reading import Reading

_NUMBER = re.compile(r"\+?[0-9]{1,10}")
_BOOLEANS = {"true": True, "false": False}
_MOST = 2**31 - 1


def read_topic(reading: Reading, record: Topic) -> list[AnyEvent]:
    """Read a topic's name; the topic is there with its first partitions, which its batch holds as well."""
    state = reading.state
    held = state.topic(record.name)
    events: list[AnyEvent] = []
    if held.topic_id is not None and held.topic_id != record.topic_id:
        # Only a snapshot can pass over the end of the former topic of this name.
        events = end_topic(reading, record.name, held.topic_id)
    state.topics.put_name(record.topic_id, record.name)
    return events


def read_topic_end(reading: Reading, record: RemoveTopic) -> list[AnyEvent]:
    """Read the deletion of a topic."""
    name = reading.state.topics.name_of(record.topic_id)
    if name is None:
        return reading.odd(record, f"topic id {record.topic_id} has no name")
    return end_topic(reading, name, record.topic_id)


def end_topic(reading: Reading, name: str, topic_id: str) -> list[AnyEvent]:
    """End a topic with its partitions and its configuration (ConfigurationControlManager.deleteTopicConfigs)."""
    stamp = reading.stamp
    reading.state.topics.put_name(topic_id, None)
    events = reading.state_fact(TopicConfigIs(stamp, name, None, None))
    return events + reading.state_fact(TopicGone(stamp, name, is_requested=True))


def read_config(reading: Reading, record: Config) -> list[AnyEvent]:
    """Read one key of a topic's or a broker's configuration."""
    resource, name, key = record.resource_type, record.resource_name, record.name
    if key not in CONFIG_KEYS or resource not in {TOPIC_RESOURCE, BROKER_RESOURCE}:
        return []
    if reading.snapshot is not None and record.value is not None:
        reading.snapshot.configs.append((resource, name, key))
    try:
        value = None if record.value is None else _value(key, record.value.strip())
    except ValueError as error:
        reading.state.control.log.view.unreadable += 1
        return reading.odd(record, f"unreadable, the last good value stays: {error}")
    if resource == BROKER_RESOURCE:
        return state_broker_config(reading, name, key, value)
    return state_topic_config(reading, name, key, value)


def state_topic_config(reading: Reading, topic: str, key: str, value: int | None) -> list[AnyEvent]:
    """State one key of a topic's configuration; its other keys stay."""
    held = reading.state.topic(topic)
    min_isr, unclean = held.min_isr, held.unclean
    if key == MIN_ISR:
        min_isr = value
    else:
        unclean = None if value is None else bool(value)
    return reading.state_fact(TopicConfigIs(reading.stamp, topic, min_isr, unclean))


def state_broker_config(
    reading: Reading, resource: str, key: str, value: int | None
) -> list[AnyEvent]:
    """State one key of a broker's configuration, or of the default for all; the other keys stay."""
    config, name = reading.state.control.config, resource or DEFAULT_BROKER
    min_isr, unclean = config.broker_min_isr.get(name), config.broker_unclean.get(name)
    if key == MIN_ISR:
        min_isr = value
    else:
        unclean = None if value is None else bool(value)
    return reading.state_fact(BrokerConfigIs(reading.stamp, name, min_isr, unclean))


def _value(key: str, text: str) -> int:
    """Return a value as ConfigDef.parseType reads it, of either key as a number; raise ValueError."""
    if key == MIN_ISR:
        if _NUMBER.fullmatch(text) and 0 < int(text) <= _MOST:
            return int(text)
        raise ValueError(f"{key} is {text[:40]!r}, not a number above 0")
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    raise ValueError(f"{key} is {text[:40]!r}, not true or false")


def read_elr_end(reading: Reading, record: ClearElr) -> list[AnyEvent]:
    """Read that eligible leader replicas are dropped: of a topic, or of all."""
    state = reading.state
    names = [record.topic_name] if record.topic_name else sorted(state.topics.names())
    return [event for name in names for event in clear_eligible(reading, state.topic(name))]
