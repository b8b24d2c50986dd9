"""Checks whether Kafka's ACLs let a part write a topic, before anything depends on it.

The rule: only a broker that lists what the client may do, without Write, denies it. If a broker
does not list it (before 2.3, or not Kafka) or does not answer, the first record shows whether
writing is allowed.
"""

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings
from pipeline.topics import REQUEST_TIMEOUT_S, admin_client


def check_writable(settings: PipelineSettings, topic: str) -> None:
    """Raise UsageError, with one line for the user, if Kafka says that this client may not write a topic."""
    reported: list[KafkaError] = []
    with admin_client(settings, reported) as admin:
        answers = admin.describe_topics(
            TopicCollection([topic]),
            include_authorized_operations=True,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        try:
            allowed = answers[topic].result().authorized_operations
        except KafkaException:
            return
    if allowed and AclOperation.WRITE not in allowed:
        raise UsageError(
            f"the pipeline's Kafka at {settings.bootstrap_servers} does not let the monitor write {topic}; "
            "allow WRITE and DESCRIBE"
        )
