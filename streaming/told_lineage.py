"""Which lineage wrote the views last: what a checkpoint must not be older than.

The rule: readers keep the newest lineage, so a fold that goes on with an older one writes what
nobody takes, and its figures stand still without a word. A checkpoint that was restored from before
an upgrade would do that; so before a fold goes on it asks the topic itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from pipeline.runtime import get_logger
from pipeline.settings import PipelineSettings
from pipeline.topics import EnsuredTopics, client_properties

LOOK_BACK = 20
"""Records at a partition's end that are read: a batch ends with its clusters' views, so the last one
would do but for the nulls of deleted keys."""

DEADLINE_S = 5.0
"""How long to read for: the records have some kilobytes each."""

_NAME = re.compile(r"\d{13}-\w+")
"""Of a lineage; any other text would be above all that we make, for ever."""


class _AsOf(msgspec.Struct, frozen=True):
    lineage: str


class _View(msgspec.Struct, frozen=True):
    """Of a view only who wrote it."""

    as_of: _AsOf


_decoder = msgspec.json.Decoder(_View)


_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


def told_lineage(settings: PipelineSettings, topics: EnsuredTopics) -> str | None:
    """Return the newest lineage at the ends of the views; None where they hold none.

    Where the fold may not read the views that is said, and None as well: it is needed only after a
    backup was restored. Raises KafkaException when Kafka does not answer in time.
    """
    # A group id must be given; nothing joins the group or commits to it.
    more = {
        "group.id": "kcm-fold-lineage",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(client_properties(settings) | more)
    try:
        return max(_lineages(consumer, topics), default=None)
    except KafkaException as error:
        if error.args[0].code() not in _FORBIDDEN:
            raise
        get_logger("stream").warning(
            "the views may not be read: whether the checkpoint is older than they are is not known",
            topic=topics.names.views,
            reason=error.args[0].str(),
        )
        return None
    finally:
        consumer.close()


def _lineages(consumer: Consumer, topics: EnsuredTopics) -> Iterator[str]:
    places = []
    for partition in range(topics.partitions):
        place = TopicPartition(topics.names.views, partition)
        low, high = consumer.get_watermark_offsets(place, timeout=DEADLINE_S)
        if high > low:
            places.append(TopicPartition(place.topic, partition, max(low, high - LOOK_BACK)))
    consumer.assign(places)
    left = len(places)
    deadline = time.monotonic() + DEADLINE_S
    while left:
        message = consumer.poll(max(0.0, deadline - time.monotonic()))
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001  # local codes have an underscore
        error = message.error()
        if error is None:
            lineage = _read(message.value())
            if lineage is not None:
                yield lineage
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # the same
            left -= 1
        else:
            raise KafkaException(error)


def _read(value: bytes | None) -> str | None:
    """Return who wrote a view; None for a null, and for what is no view of ours."""
    try:
        lineage = _decoder.decode(value or b"").as_of.lineage
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return lineage if _NAME.fullmatch(lineage) else None
