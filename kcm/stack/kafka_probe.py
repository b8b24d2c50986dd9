"""Ask a Kafka broker for its cluster's metadata, with nothing but a socket.

A broker that listens is not a broker that serves: only an answer that names the broker itself says
so. One request on one short connection needs no client library, threads or retries that would go
on in the background after the answer.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

METADATA_KEY = 3  # the API key of Metadata in Kafka's protocol
METADATA_VERSION = 1  # the first that names the controller; every broker since 0.10 answers it
CORRELATION_ID = 7  # any number: one request per connection
NO_TOPICS = struct.pack(">i", 0)  # an empty list asks for brokers only
ANSWER_DEADLINE_S = 1.0  # a healthy broker answers in a few milliseconds
MAX_ANSWER_BYTES = 1 << 20  # an answer without topics is tiny; more is not from a broker


class ProbeError(Exception):
    """What was answered is not Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class BrokersSeen:
    """What a broker knows of its cluster: the live brokers' ids and the controller's (-1 none)."""

    broker_ids: frozenset[int]
    controller_id: int


def ask_brokers(host: str, port: int, *, deadline_s: float = ANSWER_DEADLINE_S) -> BrokersSeen:
    """Return what the broker there knows; OSError or ProbeError when it does not answer well."""
    client_id = b"kcm-probe"
    body = (
        struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, CORRELATION_ID, len(client_id))
        + client_id
        + NO_TOPICS
    )
    with socket.create_connection((host, port), deadline_s) as connection:
        connection.settimeout(deadline_s)
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _read(connection, 4))
        if not 0 < size <= MAX_ANSWER_BYTES:
            message = f"an answer of {size} bytes is not Kafka's"
            raise ProbeError(message)
        return parse_metadata(_read(connection, size))


def parse_metadata(answer: bytes) -> BrokersSeen:
    """Read a Metadata v1 response; ProbeError when it is something else."""
    try:
        correlation_id, count = struct.unpack_from(">ii", answer)
        position = 8
        ids = []
        for _ in range(count):
            ids.append(struct.unpack_from(">i", answer, position)[0])
            position = _after_string(answer, position + 4) + 4  # host, then port
            position = _after_string(answer, position)  # rack, may be null
        (controller_id,) = struct.unpack_from(">i", answer, position)
    except struct.error as error:
        message = f"an answer that is cut short: {answer[:40]!r}"
        raise ProbeError(message) from error
    if correlation_id != CORRELATION_ID:
        message = f"an answer to somebody else's request ({correlation_id})"
        raise ProbeError(message)
    return BrokersSeen(frozenset(ids), controller_id)


def _after_string(answer: bytes, position: int) -> int:
    """Return the position after a nullable string."""
    length: int = struct.unpack_from(">h", answer, position)[0]
    return position + 2 + max(length, 0)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            message = f"closed the connection after {len(data)} of {size} bytes"
            raise ProbeError(message)
        data += chunk
    return data
