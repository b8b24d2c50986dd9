"""The log and the views of `kcm look`, between the threads of one process: what is written is folded, shown, and forgotten.

The watcher writes through the same publisher and beats as elsewhere, whose producer is here. The exporter's main loop
reads what the fold makes of that: the same model as elsewhere, in memory.
"""

import itertools
import queue
import secrets
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from confluent_kafka import Producer

from controller_model.fold.batch_output import finish_batch
from controller_model.fold.projection import SentViews
from controller_model.fold.replay import EventBatch
from controller_model.records.changes import decode_message
from controller_model.records.event_records import EventId, encode_event
from controller_model.records.views import ClusterView, decode_view
from controller_model.sources.source_of import source_of
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.log_state import is_time
from pipeline.clock import clock_ms
from pipeline.topic_records import Record
from pipeline.topics import EnsuredTopics, topic_names
from source_log.beats import Beats
from source_log.config import SourceSettings
from source_log.log_writer import LogClients
from source_log.publisher import Publisher
from source_log.readback import DecodeRecords, History, ReadBack, Readback

MAX_WAITING = 32
"""While more messages wait for the fold, none counts as acknowledged: then the watcher publishes no more. They are of 128 KiB
at most, but for a znode that is larger."""
MAX_MESSAGES = 100
"""Messages of the log in one batch, each of up to 125 changes: a batch takes a second at most."""
_WAIT_S = 0.1


class LookTopics:
    """The topics of one cluster. The watcher's thread writes (`open_clients`), the exporter's folds (`feed`)."""

    def __init__(self, settings: SourceSettings, assumed: Assumed) -> None:
        names = topic_names(settings.topic_prefix)
        self.ensured = EnsuredTopics(names, 1, {name: name for name in names})
        self.waiting: queue.SimpleQueue[tuple[str, bytes, bytes]] = queue.SimpleQueue()
        """Topic, key and value of what the fold has not taken yet: messages of the log, and beats."""
        self.on_folded: Callable[[list[bytes], ClusterView], None] = lambda _messages, _view: None
        """Takes what was folded last, and the cluster's view."""
        self._cluster, self._assumed = settings.cluster, assumed
        self._lineage = secrets.token_hex(4)
        self._state: ClusterState | None = None
        self._sent = SentViews()
        self._last_event: EventId | None = None
        self._offset = 0

    def open_clients(
        self,
        settings: SourceSettings,
        topics: EnsuredTopics,
        name: str,
        decode: DecodeRecords | None,
    ) -> LogClients:
        """Return the clients of the watcher of this name (`LogWriter`)."""

        def open_producer(_: dict[str, Any]) -> Producer:
            return cast("Producer", _LookProducer(self))  # it has what these two call

        return LogClients(
            Publisher(settings, topics, open_producer),
            Beats(settings, topics, name, open_producer),
            _LookReadback(self, decode),
        )

    def feed(self) -> list[Record]:
        """Fold what waits, waiting for it for a moment; return the beats, events and views for the exporter."""
        records: list[Record] = []
        messages: list[bytes] = []
        timeout_s = _WAIT_S
        with suppress(queue.Empty):
            while len(messages) < MAX_MESSAGES:
                topic, key, value = self.waiting.get(timeout=timeout_s)
                timeout_s = 0.0
                if topic == self.ensured.names.changes:
                    messages.append(value)
                else:
                    records.append(self._record(topic, key, value))
        return records + self._fold(messages) if messages else records

    def _record(self, topic: str, key: bytes, value: bytes | None) -> Record:
        self._offset += 1
        return Record(topic, 0, self._offset, key, value, clock_ms())

    def _fold(self, messages: list[bytes]) -> list[Record]:
        decoded = [decode_message(message) for message in messages]
        items = [record for each in decoded for record in each.records]
        if self._state is None:
            since = next((item.observed_at for item in items if is_time(item.observed_at)), 0)
            control = ControlPlane(self._cluster, assumed=self._assumed, counters_since=since)
            self._state = ClusterState(control, MemoryTopicStore(), source_of(control, items))
        batch = EventBatch(self._state)
        for item in items:
            batch.apply(item)
        if unreadable := sum(each.unreadable for each in decoded):
            at, reason = self._state.control.now, "records that cannot be read"
            batch.count_unreadable(unreadable, at=at, reason=reason)
        events, views = finish_batch(
            batch,
            lineage=self._lineage,
            after=self._last_event,
            folded_at=clock_ms(),
            sent=self._sent,
        )
        self._last_event = events[-1].id if events else self._last_event
        names, key = self.ensured.names, self._cluster.encode()
        records = [self._record(names.events, key, encode_event(each)) for each in events]
        records += [self._record(names.views, each.key.encode(), each.value) for each in views]
        # The cluster's view is the last. What was written shares nothing with the state, which changes.
        view = decode_view(records[-1].value or b"")
        if isinstance(view, ClusterView):
            self.on_folded(messages, view)
        return records


class _LookProducer:
    """Writes to the topics, in place of confluent-kafka's Producer."""

    def __init__(self, topics: LookTopics) -> None:
        self._topics = topics
        self._unreported: deque[Callable[[None, None], None]] = deque()

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        partition: int,  # noqa: ARG002  # there is one
        on_delivery: Callable[[None, None], None],
    ) -> None:
        """Append a record."""
        self._topics.waiting.put((topic, key, value))
        self._unreported.append(on_delivery)

    def poll(self, timeout: float) -> int:
        """Report what was appended, unless enough waits for the fold."""
        return 0 if self._topics.waiting.qsize() > MAX_WAITING else self.flush(timeout)

    def flush(self, _timeout: float) -> int:
        """Report all that was appended."""
        while self._unreported:
            self._unreported.popleft()(None, None)
        return 0

    def purge(self) -> None:
        """Do nothing: what was taken is appended."""


class _LookReadback(Readback):
    """What the watcher reads back: nothing of a time before its start, then its own records and the fold's views."""

    def __init__(self, topics: LookTopics, decode: DecodeRecords | None) -> None:
        self._topics, self._decode = topics, decode
        self.is_shared = self.is_away = False

    def history(self, _stop: threading.Event, *, while_: Callable[[], bool]) -> History:  # noqa: ARG002  # it never waits
        """Return that there is none."""
        return History(0, None)

    def follow(self, put: Callable[[ReadBack], None]) -> None:
        """Pass on what is folded, in the thread of the fold."""
        decode = self._decode

        def on_folded(messages: list[bytes], view: ClusterView) -> None:
            if decode is not None:
                for record in itertools.chain.from_iterable(map(decode, messages)):
                    put(record)
            put(view)

        self._topics.on_folded = on_folded

    def check(self) -> None:
        """Do nothing: the exporter checks its main loop, which folds."""

    def close(self) -> None:
        """Pass on nothing more."""
        self._topics.on_folded = lambda _messages, _view: None
