"""Changes of topics in a real Kafka, each waited for.

The rule: the controller acknowledges a change before the brokers apply it (in KRaft they read it
from the metadata log), so a test waits until the broker that is asked next shows it.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.support.waiting import DEADLINE_S, wait_until


def topic_id(admin: AdminClient, topic: str) -> str:
    """Return the id of a topic, which is another one once it was deleted and made again; empty without the topic."""
    (described,) = admin.describe_topics(TopicCollection([topic])).values()
    try:
        return str(described.result(DEADLINE_S).topic_id)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return ""


def create_topic(
    admin: AdminClient, topic: str, partitions: int = 1, replication_factor: int = 1
) -> None:
    """Create a topic that is not there.

    A broker asks the next controller again where the last one was gone before it answered, though a majority
    may have the record by then (NodeToControllerRequestThread): that the topic exists is success as well.
    """
    try:
        admin.create_topics([NewTopic(topic, partitions, replication_factor)])[topic].result(
            DEADLINE_S
        )
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    wait_until(lambda: topic in admin.list_topics(timeout=DEADLINE_S).topics)


def delete_topic(admin: AdminClient, topic: str) -> None:
    """Delete a topic."""
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    wait_until(lambda: topic not in admin.list_topics(timeout=DEADLINE_S).topics)


def alter_topic(admin: AdminClient, topic: str, setting: str, value: str) -> None:
    """Set a setting of a topic."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)

    def in_force() -> bool:
        described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        (future,) = described.values()
        return bool(future.result(DEADLINE_S)[setting].value == value)

    wait_until(in_force)
