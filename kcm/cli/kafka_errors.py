"""What librdkafka says of its errors, for people."""

from __future__ import annotations

from confluent_kafka import KafkaError


def kafka_text(error: Exception) -> str:
    """Return the words of an error of the library, or of any other."""
    first = error.args[0] if error.args else error
    return str(first.str() if isinstance(first, KafkaError) else first)
