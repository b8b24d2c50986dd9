"""Measure what our buffers around kazoo's socket save of a resync: its time and the watcher's processor time.

Resyncs of one cluster by one-shot watches, which need a read for each znode, in turns: as shipped, with kazoo's own sending of one request at a time, with
its own reading of one piece of a reply at a time, and with both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from kazoo.protocol.connection import ConnectionHandler

from bench import machine
from bench.resync import SIZE, resync
from bench.watched import znode_cluster
from kcm.servers.kafka import KraftBroker
from zk_source.watcher.subscriptions import Watches
from zk_source.wire.connection import OrderedConnection

SUMMARY = "what reading and writing many replies and requests at once saves of a resync (2 minutes)"

SENDING = ("_send_request",)
READING = ("_read_socket", "_read")
WITHOUT = {"nothing": (), "sending": SENDING, "reading": READING, "both": (*SENDING, *READING)}
"""Our methods in whose place kazoo's own are used."""

ROUNDS = 8


def measure() -> dict[str, Any]:
    """Return medians of a resync's seconds and of its processor seconds, and what each saves, in percent."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in WITHOUT}
    with znode_cluster(SIZE) as watched:
        broker = KraftBroker(watched.supervisor, watched.jars, watched.folder / "kafka")
        broker.start()
        for number in range(ROUNDS):
            names = list(WITHOUT)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                with _kazoos_own(WITHOUT[name]):
                    began_s = time.process_time()
                    took_s = resync(watched.zookeeper, broker, Watches.ONE_SHOT, f"{name}{number}")
                    runs[name].append((took_s, time.process_time() - began_s))
    return {
        "scenario": "wire",
        "without": {name: _figures(runs["nothing"], each) for name, each in runs.items()},
        "settings": {"znodes": watched.znodes, "rounds": ROUNDS},
        "machine": machine.describe(),
    }


@contextmanager
def _kazoos_own(methods: tuple[str, ...]) -> Iterator[None]:
    with ExitStack() as patches:
        for name in methods:
            own = getattr(ConnectionHandler, name)
            patches.enter_context(mock.patch.object(OrderedConnection, name, own))
        yield


def _figures(
    shipped: list[tuple[float, float]], without: list[tuple[float, float]]
) -> dict[str, float]:
    figures = {}
    for index, name in enumerate(("s", "cpu_s")):
        pairs = zip(shipped, without, strict=True)
        ratio = statistics.median(ours[index] / theirs[index] for ours, theirs in pairs)
        figures[name] = round(statistics.median(each[index] for each in without), 3)
        figures[f"{name}_saved_percent"] = round((1 - ratio) * 100, 1)
    return figures
