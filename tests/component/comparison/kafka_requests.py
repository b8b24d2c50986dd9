"""Requests to Kafka's controller that confluent-kafka has no word for: reassignments.

One flexible request on one short connection (KIP-482): compact strings and arrays carry their
length plus one as an unsigned varint, and every structure ends in its tagged fields.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence

from controller_model.kafka.ids import TopicPartition

ALTER_PARTITION_REASSIGNMENTS = 45  # KIP-455
TIMEOUT_MS = 20_000  # as long as the controller may take to answer
CORRELATION_ID = 11  # any number: one request per connection
NO_TAGS = b"\0"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _text(text: str) -> bytes:
    data = text.encode()
    return _varint(len(data) + 1) + data


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        assert chunk, f"closed after {len(data)} of {size} bytes"
        data += chunk
    return data


def alter_partition_reassignments(
    host: str, port: int, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> bytes:
    """Ask the controller there to reassign; None for the replicas cancels. Return its answer.

    Fails with the answer when its top-level error is not NONE.
    """
    topics: dict[str, dict[int, Sequence[int] | None]] = {}
    for (topic, partition), replicas in targets.items():
        topics.setdefault(topic, {})[partition] = replicas
    body = struct.pack(">i", TIMEOUT_MS) + _varint(len(topics) + 1)
    for topic, partitions in topics.items():
        body += _text(topic) + _varint(len(partitions) + 1)
        for partition, replicas in partitions.items():
            body += struct.pack(">i", partition)
            if replicas is None:
                body += _varint(0)
            else:
                body += _varint(len(replicas) + 1) + struct.pack(f">{len(replicas)}i", *replicas)
            body += NO_TAGS
        body += NO_TAGS
    body += NO_TAGS
    client_id = b"kcm-test"
    header = struct.pack(">hhih", ALTER_PARTITION_REASSIGNMENTS, 0, CORRELATION_ID, len(client_id))
    request = header + client_id + NO_TAGS + body
    with socket.create_connection((host, port), TIMEOUT_MS / 1000) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _read(connection, 4))
        answer = _read(connection, size)
    # correlation id, tags, throttle time, error
    (error,) = struct.unpack_from(">h", answer, 4 + 1 + 4)
    assert error == 0, f"error {error}: {answer!r}"
    return answer
