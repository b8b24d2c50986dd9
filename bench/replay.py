"""How many changes per second the model folds on one core, decoding included."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bench import machine
from controller_model.changes import (
    MAX_CHANGES_PER_MESSAGE,
    ChangeKind,
    ZnodeChange,
    decode_message,
    digest_text,
    encode_changes,
    znode_digest,
)
from controller_model.cluster import (
    Assumed,
    ClusterState,
    MemoryTopicStore,
    new_cluster,
    pack_topic,
)
from controller_model.ids import AsOf
from controller_model.projection import project
from controller_model.replay import finish_batch, replay

SUMMARY = "changes per second through decode, replay, totals and views, on one core"

TOPICS = 1_000
PARTITIONS = 10
BROKERS = 12
CHANGES = 100_000
SEED = 1  # the same load every time


class _Load:
    """A cluster's log: a resync of all its znodes, then changes of leaders and ISRs."""

    def __init__(self) -> None:
        self._random = random.Random(SEED)  # noqa: S311  # a load, no secret
        self._seq = 0
        self._zxid = 0
        self._digest = 0
        self._replicas: dict[tuple[int, int], list[int]] = {}
        self._epochs: dict[tuple[int, int], int] = {}

    def resync(self) -> Iterator[ZnodeChange]:
        """Yield everything once, between its marks."""
        yield self._change(ChangeKind.RESYNC_STARTED, resync=1)
        znodes = 0
        for broker in range(BROKERS):
            znodes += 1
            yield self._set(f"/brokers/ids/{broker}", b'{"version":5,"host":"h","port":9092}')
        for topic in range(TOPICS):
            assignment = {str(p): self._place(topic, p) for p in range(PARTITIONS)}
            payload = msgspec.json.encode({"version": 3, "partitions": assignment})
            znodes += 1 + PARTITIONS
            yield self._set(f"/brokers/topics/topic-{topic}", payload)
            for partition in range(PARTITIONS):
                yield self._state(topic, partition, self._replicas[topic, partition])
        told: dict[str, Any] = {"znodes": znodes, "digest": digest_text(self._digest)}
        yield self._change(ChangeKind.RESYNC_FINISHED, resync=1, **told)

    def changes(self) -> Iterator[ZnodeChange]:
        """Yield partition states, each with another leader."""
        for _ in range(CHANGES):
            topic = self._random.randrange(TOPICS)
            partition = self._random.randrange(PARTITIONS)
            isr = self._replicas[topic, partition]
            yield self._state(topic, partition, [*isr[1:], isr[0]])

    def _place(self, topic: int, partition: int) -> list[int]:
        replicas = self._random.sample(range(BROKERS), 3)
        self._replicas[topic, partition] = replicas
        return replicas

    def _state(self, topic: int, partition: int, isr: list[int]) -> ZnodeChange:
        key = (topic, partition)
        self._replicas[key] = isr
        self._epochs[key] = self._epochs.get(key, -1) + 1
        state = {
            "controller_epoch": 1,
            "leader": isr[0],
            "version": 1,
            "leader_epoch": self._epochs[key],
            "isr": isr,
        }
        path = f"/brokers/topics/topic-{topic}/partitions/{partition}/state"
        return self._set(path, msgspec.json.encode(state), version=self._epochs[key])

    def _set(self, path: str, payload: bytes, version: int = 0) -> ZnodeChange:
        self._zxid += 1
        self._digest ^= znode_digest(path, self._zxid)
        return self._change(
            ChangeKind.SET,
            path=path,
            data=payload.decode(),
            czxid=1,
            mzxid=self._zxid,
            version=version,
            ctime=self._seq,
            mtime=self._seq,
            read_zxid=self._zxid,
        )

    def _change(self, kind: ChangeKind, **fields: Any) -> ZnodeChange:
        self._seq += 1
        common: dict[str, Any] = {"v": 1, "cluster": "bench", "generation": 1, "watcher": "bench"}
        return ZnodeChange(seq=self._seq, kind=kind, observed_at=self._seq, **common, **fields)


def measure() -> dict[str, Any]:
    """Fold a resync, then changes, in messages of the log's own size."""
    load = _Load()
    state = ClusterState(
        new_cluster("bench", assumed=Assumed(), counters_since=0), MemoryTopicStore()
    )
    resync = _fold(state, list(_messages(load.resync())))
    changes = _fold(state, list(_messages(load.changes())))
    packed = sum(len(pack_topic(topic)) for topic in _topics(state))
    return {
        "scenario": "replay",
        "topics": TOPICS,
        "partitions": TOPICS * PARTITIONS,
        "brokers": BROKERS,
        "resync_changes_per_s": resync,
        "changes_per_s": changes,
        "packed_bytes_per_partition": round(packed / (TOPICS * PARTITIONS), 1),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "verified": state.control.log.verified_at is not None,
        "machine": machine.describe(),
    }


def _messages(changes: Iterator[ZnodeChange]) -> Iterator[bytes]:
    batch: list[ZnodeChange] = []
    for change in changes:
        batch.append(change)
        if len(batch) == MAX_CHANGES_PER_MESSAGE:
            yield encode_changes(batch)
            batch = []
    if batch:
        yield encode_changes(batch)


def _fold(state: ClusterState, messages: list[bytes]) -> int:
    began = time.perf_counter()
    count = 0
    sent: dict[str, int] = {}
    for message in messages:
        for change in decode_message(message).changes:
            replay(state, change)
            count += 1
        finish_batch(state, at=state.control.now)
        as_of = AsOf("bench", *state.control.log.position)
        for _ in project(state, as_of=as_of, folded_at=0, sent=sent):
            pass
    return round(count / (time.perf_counter() - began))


def _topics(state: ClusterState) -> Iterator[Any]:
    for name in state.topics.names():
        yield state.topics.get(name)
