"""Which partition, or which topic, a znode belongs to."""

from controller_model.kafka.ids import TopicPartition

_TOPICS = "/brokers/topics/"
_DELETIONS = "/admin/delete_topics/"
_STATE = "/state"


def partition_of(path: str) -> TopicPartition | None:
    """Return the partition whose state stands at a path; None for any other path.

    >>> partition_of("/brokers/topics/t/partitions/3/state")
    TopicPartition(topic='t', partition=3)
    """
    if not (path.startswith(_TOPICS) and path.endswith(_STATE)):
        return None
    topic, _, partition, _ = path.removeprefix(_TOPICS).split("/")
    return TopicPartition(topic, int(partition))


def topic_of(path: str) -> str | None:
    """Return the topic whose assignment or deletion stands at a path; None for any other path.

    >>> topic_of("/brokers/topics/t"), topic_of("/admin/delete_topics/t"), topic_of("/brokers/topics/t/partitions")
    ('t', 't', None)
    """
    for parent in (_TOPICS, _DELETIONS):
        name = path.removeprefix(parent)
        if name != path and "/" not in name:
            return name
    return None
