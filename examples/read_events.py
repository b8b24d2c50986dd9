"""Read what happened from the topic of events: `python examples/read_events.py kafka:9092 [KIND ...]`.

Prints a line for each event that the topic holds, of all kinds or of these (docs/events.md), and
ends where the topic ended at the start. The topic keeps 30 days; a consumer of yours would go on
instead, and hand each event to whatever should know of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from typing import Any

from confluent_kafka import Consumer, TopicPartition

TOPIC = "kcm.events"


def main(bootstrap_servers: str, kinds: Collection[str], topic: str = TOPIC) -> None:
    """Print the events of all clusters; within a cluster in the order in which they happened."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "kcm-example",  # the client asks for one; nothing is committed
            "enable.auto.commit": False,
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=10).topics[topic]
        if found.error is not None:
            raise SystemExit(f"{topic}: {found.error}")
        for number in found.partitions:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
            consumer.assign([TopicPartition(topic, number, start)])
            place = start
            while place < end:
                message = consumer.poll(10)
                if message is None or message.error():
                    raise SystemExit(f"{topic} is not readable: {message and message.error()}")
                place = (message.offset() or 0) + 1
                if (value := message.value()) is not None:
                    show(json.loads(value), kinds)
    finally:
        consumer.close()


def show(record: dict[str, Any], kinds: Collection[str]) -> None:
    """Print one event in a line."""
    event = record["event"]
    if not kinds or event["kind"] in kinds:
        facts = {name: value for name, value in event.items() if name not in {"kind", "position"}}
        print(record["cluster"], event["kind"], json.dumps(facts))


if __name__ == "__main__":
    main(sys.argv[1], set(sys.argv[2:]))
