"""Generate logs of clusters that do not run, as a watcher would have written them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from confluent_kafka import Producer

from controller_model.kafka.ids import partition_of
from controller_model.records.changes import (
    MAX_CHANGES_PER_MESSAGE,
    ChangeKind,
    SessionState,
    ZnodeChange,
    digest_text,
    encode_change,
    join_changes,
    znode_digest,
)

SEED = 1  # the same load every time
REPLICAS = 3
_REGISTRATION = b'{"version":5,"host":"h","port":9092}'


class LogLoad:
    """A cluster's log: a resync of all its znodes, then changes of leaders and ISRs."""

    def __init__(
        self, cluster: str, *, topics: int, partitions: int, brokers: int, began_ms: int = 0
    ) -> None:
        self._random = random.Random(SEED)  # noqa: S311  # a load, no secret
        self._cluster = cluster
        self._topics = topics
        self._partitions = partitions
        self._brokers = brokers
        self._began_ms = began_ms
        self._seq = 0
        self._zxid = 0
        self._digest = 0
        self._replicas: dict[tuple[int, int], list[int]] = {}
        self._epochs: dict[tuple[int, int], int] = {}

    def resync(self) -> Iterator[ZnodeChange]:
        """Yield everything once, between the marks of a resync."""
        yield self._change(ChangeKind.RESYNC_STARTED, resync=1)
        znodes = 0
        for broker in range(self._brokers):
            znodes += 1
            yield self._set(f"/brokers/ids/{broker}", _REGISTRATION)
        for topic in range(self._topics):
            assignment = {str(p): self._place(topic, p) for p in range(self._partitions)}
            payload = msgspec.json.encode({"version": 3, "partitions": assignment})
            znodes += 1 + self._partitions
            yield self._set(f"/brokers/topics/topic-{topic}", payload)
            for partition in range(self._partitions):
                yield self._state(topic, partition, self._replicas[topic, partition])
        proof: dict[str, Any] = {"znodes": znodes, "digest": digest_text(self._digest)}
        yield self._change(ChangeKind.RESYNC_FINISHED, resync=1, **proof)

    def changes(self, count: int) -> Iterator[ZnodeChange]:
        """Yield partition states, each with a new leader."""
        for _ in range(count):
            topic = self._random.randrange(self._topics)
            partition = self._random.randrange(self._partitions)
            isr = self._replicas[topic, partition]
            yield self._state(topic, partition, [*isr[1:], isr[0]])

    def broker(self, broker: int, *, live: bool) -> ZnodeChange:
        """Return the registration of a broker, or its deletion."""
        path = f"/brokers/ids/{broker}"
        if live:
            return self._set(path, _REGISTRATION)
        self._zxid += 1
        return self._change(ChangeKind.DELETED, path=path, read_zxid=self._zxid)

    def heartbeat(self, now_ms: int) -> ZnodeChange:
        """Return a heartbeat."""
        beat = self._change(ChangeKind.HEARTBEAT, session=SessionState.CONNECTED)
        return msgspec.structs.replace(beat, observed_at=now_ms)

    def _place(self, topic: int, partition: int) -> list[int]:
        replicas = self._random.sample(range(self._brokers), REPLICAS)
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
            ctime=self._began_ms + self._seq,
            mtime=self._began_ms + self._seq,
            read_zxid=self._zxid,
        )

    def _change(self, kind: ChangeKind, **fields: Any) -> ZnodeChange:
        self._seq += 1
        return ZnodeChange(
            v=1,
            cluster=self._cluster,
            generation=1,
            watcher="bench",
            seq=self._seq,
            kind=kind,
            observed_at=self._began_ms + self._seq,
            **fields,
        )


def messages(changes: Iterator[ZnodeChange]) -> Iterator[bytes]:
    """Yield the changes in messages of the log's usual size."""
    batch: list[ZnodeChange] = []
    for change in changes:
        batch.append(change)
        if len(batch) == MAX_CHANGES_PER_MESSAGE:
            yield join_changes(map(encode_change, batch))
            batch = []
    if batch:
        yield join_changes(map(encode_change, batch))


class LogWriter:
    """Writes to the log in place of the watchers."""

    def __init__(self, bootstrap_servers: str, partitions: int, topic: str = "kcm.changes") -> None:
        self._partitions = partitions
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})

    def write(self, cluster: str, log: Iterable[bytes]) -> None:
        """Write a cluster's messages in order, and wait until Kafka has them."""
        for message in log:
            self.append(cluster, message)
        self.flush()

    def append(self, cluster: str, message: bytes) -> None:
        """Write a message, and wait for nothing."""
        self._producer.produce(
            self._topic,
            key=cluster,
            value=message,
            partition=partition_of(cluster, self._partitions),
        )
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until Kafka has what was written."""
        self._producer.flush(60)
