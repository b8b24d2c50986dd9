"""Whether the log still reaches as far as a checkpoint has folded it.

The rule: Spark waits without a word until a log that was restored from an older copy has grown past
the place that it knows, and what is written until then is never folded. So before a fold goes on it
holds the two against each other; a log that lost its end is another store.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from confluent_kafka import Consumer, TopicPartition

from pipeline.settings import PipelineSettings
from pipeline.topics import EnsuredTopics, client_properties

TIMEOUT_S = 5.0
"""How long to wait for an end; a stop may have to wait for it."""


def lost_tail(settings: PipelineSettings, topics: EnsuredTopics, checkpoint: Path) -> str | None:
    """Return what the log has lost of what this checkpoint has folded; None: nothing.

    Raises KafkaException when Kafka does not answer.
    """
    folded = folded_to(checkpoint, topics.names.changes)
    if not folded:
        return None
    # A group id must be given; nothing joins the group or commits to it.
    more = {"group.id": "kcm-fold-lineage", "enable.auto.commit": False}
    consumer = Consumer(client_properties(settings) | more)
    try:
        for partition, offset in sorted(folded.items()):
            place = TopicPartition(topics.names.changes, partition)
            end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)[1]
            if end < offset:
                where = f"topic {place.topic}, partition {partition}"
                return f"{where} ends at {end}, the checkpoint has folded it up to {offset}"
    finally:
        consumer.close()
    return None


def folded_to(checkpoint: Path, topic: str) -> dict[int, int]:
    """Return up to which offsets a topic was planned to be folded, by partition.

    Empty where the checkpoint has no batch yet, or tells it in a way that we do not know.
    """
    batches = [path for path in checkpoint.glob("offsets/*") if path.name.isdecimal()]
    if not batches:
        return {}
    lines = max(batches, key=lambda path: int(path.name)).read_bytes().splitlines()
    for line in reversed(lines):
        try:
            return msgspec.json.decode(line, type=dict[str, dict[int, int]])[topic]
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            continue
    return {}
