"""A watched cluster written by hand in a real ZooKeeper, held by the session of whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kazoo.client import KazooClient

from tests.support.waiting import DEADLINE_S


@contextmanager
def registered(connect: str, znodes: Mapping[str, object]) -> Iterator[KazooClient]:
    """Create znodes of these JSON contents; those that belong to sessions last until the end.

    `/controller` and the brokers' registrations are ephemeral, as Kafka makes them: persistent ones are foreign writes.
    The session outlives each pause of a busy machine.
    """
    client = KazooClient(connect, timeout=DEADLINE_S)
    client.start(timeout=DEADLINE_S)
    try:
        for path, content in znodes.items():
            is_held = path == "/controller" or path.startswith("/brokers/ids/")
            data = json.dumps(content).encode()
            client.create(path, data, ephemeral=is_held, makepath=True)
        yield client
    finally:
        client.stop()
        client.close()
