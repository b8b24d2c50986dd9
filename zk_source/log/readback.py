"""What the pipeline says back: the fold's view of our cluster, and other watchers of it.

The rule: one thread follows the cluster's partition of the views and of the log. It starts near
their ends, goes further back only until it has met our cluster, and tells when it has read up to
where the ends were at its start; what comes after that is live. Only our cluster's records are
decoded. Garbage is passed over: the fold counts it.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import partition_of
from controller_model.records.views import ClusterView, decode_view
from pipeline.runtime import Backoff
from pipeline.settings import PipelineSettings
from pipeline.topics import EnsuredTopics, client_properties
from zk_source.wire.inbox import FoldView, Inbox, OtherWatcher

FIRST_LOOK_BACK = 200
"""Messages read from the end at first; ten times as many while our cluster was not among them."""

MOST_LOOK_BACK = 20_000
"""An older generation would be found out when the fold does not follow ours (`rivals`)."""

_TIMEOUT_S = 5.0
_POLL_S = 0.2


class History(NamedTuple):
    """What was there before our start."""

    generation: int
    """The highest of our cluster; 0 when it is new."""
    view: FoldView | None


class _Origin(msgspec.Struct, frozen=True):
    """Of a change, only who wrote it and when."""

    cluster: str
    generation: int
    watcher: str
    observed_at: int


_origins = msgspec.json.Decoder(list[_Origin])


class Readback:
    """Follows the views and the log of one cluster."""

    def __init__(
        self, settings: PipelineSettings, topics: EnsuredTopics, cluster: str, watcher: str
    ) -> None:
        self._cluster = cluster
        self._key = cluster.encode()
        self._view_key = f"{cluster}/cluster".encode()
        self._watcher = watcher
        self._topics = topics
        self._partition = partition_of(cluster, topics.partitions)
        self._positions: dict[str, int] = {}
        properties: dict[str, Any] = {
            **client_properties(settings),
            # Nothing is committed; the client insists on a name.
            "group.id": f"kcm-watcher-{cluster}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.error.backoff.ms": 100,
            # A newly elected watcher waits for one fetch: by default that may take 500 ms.
            "fetch.wait.max.ms": 100,
        }
        self._consumer = Consumer(properties)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def history(self, stop: threading.Event) -> History:
        """Read the ends of both topics; tries until it succeeds or `stop` is set."""
        pause = Backoff()
        while not stop.is_set():
            try:
                view = self._look_back(self._topics.names.views, self._last_view)
                generation = self._look_back(self._topics.names.changes, self._last_generation)
            except KafkaException:
                stop.wait(pause.next_s())
                continue
            return History(max(generation or 0, view.generation if view else 0), view)
        return History(0, None)

    def follow(self, inbox: Inbox) -> None:
        """Start the thread that puts what comes from now on into the inbox."""
        names = self._topics.names
        self._consumer.assign(
            [
                TopicPartition(topic, self._partition, self._positions[topic])
                for topic in (names.views, names.changes)
            ]
        )
        self._thread = threading.Thread(
            target=self._follow, args=(inbox,), name="readback", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and leave Kafka."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._consumer.close()

    def _follow(self, inbox: Inbox) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(_POLL_S)
            if message is None or message.error() is not None:
                continue
            if message.topic() == self._topics.names.views:
                view = self._view(message)
                if view is not None:
                    inbox.put(view)
                continue
            origin = self._origin(message)
            if origin is not None and origin.watcher != self._watcher:
                inbox.put(OtherWatcher(origin.watcher, origin.generation, origin.observed_at))

    def _look_back(self, topic: str, pick: Any) -> Any:
        """Return what `pick` makes of the last messages; None when our cluster is not there."""
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(topic, self._partition), timeout=_TIMEOUT_S
        )
        self._positions[topic] = high
        look_back = FIRST_LOOK_BACK
        while True:
            start = max(low, high - look_back)
            found = pick(self._read(topic, start, high))
            if found is not None or start == low or look_back >= MOST_LOOK_BACK:
                return found
            look_back *= 10

    def _read(self, topic: str, start: int, end: int) -> list[Message]:
        partition = TopicPartition(topic, self._partition, start)
        self._consumer.assign([partition])
        keys = {self._key, self._view_key}
        messages = []
        silent = 0
        while start < end:
            message = self._consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                silent = 0
                offset = message.offset() or 0
                if offset < end and message.key() in keys:
                    messages.append(message)
                if offset >= end - 1:
                    break
                continue
            # Compaction and markers may leave nothing at the end: the position tells.
            position = self._consumer.position([partition])[0].offset
            if position >= end:
                break
            silent += 1
            if silent * _POLL_S > _TIMEOUT_S:
                raise KafkaException(f"{topic}: no answer")
        self._consumer.unassign()
        return messages

    def _last_view(self, messages: list[Message]) -> FoldView | None:
        for message in reversed(messages):
            view = self._view(message)
            if view is not None:
                return view
        return None

    def _last_generation(self, messages: list[Message]) -> int | None:
        origins = [origin for origin in map(self._origin, messages) if origin is not None]
        return max((origin.generation for origin in origins), default=None)

    def _view(self, message: Message) -> FoldView | None:
        value = message.value()
        if message.key() != self._view_key or value is None:
            return None
        try:
            view = decode_view(value)
        except UnreadableRecordError:
            return None
        if not isinstance(view, ClusterView) or view.cluster != self._cluster:
            return None
        wanted = view.resync_wanted
        return FoldView(
            lineage=view.as_of.lineage,
            generation=view.as_of.generation,
            seq=view.as_of.seq,
            watcher=view.log.watcher,
            read_zxid=view.log.read_zxid,
            cluster_id=view.cluster_id,
            wanted_number=wanted.number if wanted else None,
            wanted_reason=wanted.reason if wanted else "",
        )

    def _origin(self, message: Message) -> _Origin | None:
        value = message.value()
        if message.key() != self._key or value is None:
            return None
        try:
            origins = _origins.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        ours = [origin for origin in origins if origin.cluster == self._cluster]
        return max(ours, key=lambda origin: origin.generation, default=None)
