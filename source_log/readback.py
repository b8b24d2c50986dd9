"""Reads back from Kafka: the fold's view of our cluster, and records of other watchers of it.

The rule: one thread follows the cluster's partition of the views and of the log. It starts near the
ends of both, and goes further back only until it finds our cluster. What arrives after the ends
that the topics had at the start is live. Only our cluster's records are decoded. Records that
cannot be decoded are skipped: the fold counts them. A reader at the end of the views does not
notice when Kafka deletes records at their beginning, which compaction never moves, so the thread
asks for the first offset.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import partition_of
from controller_model.records.decoding import DECODING_ERRORS
from controller_model.records.views import AnyView, ClusterView, WatcherBeat, decode_view
from pipeline.kafka_errors import MAY_PASS, MissingTopic, ReadTrouble, TopicReadError
from pipeline.runtime import Backoff, get_logger
from pipeline.supervised_thread import SupervisedThread
from pipeline.topic_reader import RecordReader
from pipeline.topic_records import Place, Record
from pipeline.topics import EnsuredTopics
from source_log.config import SourceSettings
from source_log.generation_fencing import OtherWatcher

FoundT = TypeVar("FoundT")

FIRST_TAIL = 200
"""Messages read from the end at first; ten times as many while our cluster was not among them."""

MAX_TAIL = 20_000
"""A generation that lies further back is not found. The watcher notices later, when the fold does
not follow its own (`generation_fencing`)."""

_BEGINNING_INTERVAL_S = 10.0
"""How often the first offset of the views is requested: after a loss, an exporter that starts lacks views for at most this long."""

_MISSING_INTERVAL_S = 1.0
"""How often that is repeated while Kafka reports the topic as missing."""

_AWAY_S = 15.0
"""So long Kafka may seem to be away before it is asked by a new client: one of librdkafka 2.16.0 may stay without a broker for
ever once the only one has restarted."""

_TIMEOUT_S = 5.0
_POLL_S = 0.2
_MAX_PAUSE_S = 5.0


class ViewsCut(NamedTuple):
    """Kafka no longer holds views that were read back, or were next to be read."""


ReadBack = ClusterView | OtherWatcher | ViewsCut | WatcherBeat
"""What arrives after the start: a ClusterView is the fold's view of our cluster. A beat is another watcher's, and is
passed on only where records are `decoded` by the source."""

DecodeRecords = Callable[[bytes], Sequence[OtherWatcher]]
"""How a source reads a message of its log back."""


class History(NamedTuple):
    """What the log and the views held when this watcher started."""

    generation: int
    """The highest generation of our cluster in the log, the views or a beat; 0 for a new cluster."""
    view: ClusterView | None
    records: Sequence[OtherWatcher] = ()
    """The newest records of our cluster, in their order; none unless the source decodes them."""
    beat: WatcherBeat | None = None
    """The newest beat of our cluster, be it from long ago."""


_origins = msgspec.json.Decoder(list[OtherWatcher])


class Readback:
    """Follows the views and the log of one cluster; `check` raises the error that ended the thread."""

    def __init__(
        self,
        settings: SourceSettings,
        topics: EnsuredTopics,
        watcher: str,
        decode: DecodeRecords | None = None,
    ) -> None:
        """`decode` reads every record of our cluster, our own as well; None: it is enough who else writes."""
        self._decode_records = decode
        self._tail: Sequence[OtherWatcher] = ()
        self._beat: WatcherBeat | None = None
        self._cluster = cluster = settings.cluster
        self._key = cluster.encode()
        self._view_key = f"{cluster}/cluster".encode()
        self._beat_key = f"{cluster}/watcher".encode()
        self._beat_generation = 0
        """The highest generation of the beats that were read. After the log was created again, and
        before it was folded, only beats show it."""
        self._watcher = watcher
        partition = partition_of(cluster, topics.partitions)
        self._views: Place = (topics.names.views, partition)
        self._log: Place = (topics.names.changes, partition)
        self._next_offset: dict[Place, int] = {}
        self._views_begin: int | None = None
        """The first offset of the views when it was last requested."""
        self._beginning_due_s = 0.0
        self._missing = MissingTopic()
        self._asks_for = [self._views]
        """The places to ask for: both after a topic was reported as missing, until Kafka answers."""
        self.is_shared = topics.partitions > 1
        """Whether the fold also processes other clusters' changes, as far as the topics show it."""
        self.is_away = False
        """Whether Kafka could not be reached, and nothing has arrived since: not even this watcher's own beats."""
        self._away_since_s: float | None = None
        """Since when, or since the last new client; None: it is not so."""
        self._where = f"the pipeline's Kafka at {settings.bootstrap_servers}"
        self._reader = RecordReader(settings, f"kcm-watcher-{cluster}")
        self._thread: SupervisedThread | None = None
        self._logger = get_logger("readback").bind(cluster=cluster)

    def history(self, stop: threading.Event, *, while_: Callable[[], bool]) -> History | None:
        """Read the ends of both topics; retry until that succeeds, `stop` is set, or `while_` returns False.

        Return None when it was given up. Raise TopicReadError where trying again cannot help.
        """
        pause = Backoff(most_s=_MAX_PAUSE_S)
        while not stop.is_set() and while_():
            try:
                view = self._find_last(self._views, self._last_view)
                generation = self._find_last(self._log, self._last_generation)
            except TopicReadError as error:
                if not self._may_pass(error.trouble):
                    raise
                self._warn(error.trouble, error.reason)
                stop.wait(pause.next_s())
                continue
            self._missing.reset()
            of_view = view.as_of.generation if view else 0
            highest = max(generation or 0, of_view, self._beat_generation)
            return History(highest, view, self._tail, self._beat)
        return None

    def follow(self, put: Callable[[ReadBack], None]) -> None:
        """Start the thread that passes what arrives from now on to `put`."""
        self._reader.follow(self._next_offset, self._next_offset)
        self._thread = SupervisedThread("readback", lambda: self._poll(put))
        self._thread.start()

    def check(self) -> None:
        """Raise the error that ended the thread, or an error when it hangs; return while it works."""
        if self._thread is not None:
            self._thread.check()

    def close(self) -> None:
        """Stop the thread and leave Kafka."""
        if self._thread is not None:
            self._thread.close(_TIMEOUT_S)
        self._reader.close()

    def _poll(self, put: Callable[[ReadBack], None]) -> None:
        batch = self._reader.poll(_POLL_S)
        has_arrived = bool(batch.records or batch.at_end)
        self.is_away = self._reader.is_away or (self.is_away and not has_arrived)
        self._check_client()
        for record in batch.records:
            self._check_cluster(record)
            if record.topic == self._views[0]:
                view = self._view(record) or self._other_beat(record)
                if view is not None:
                    put(view)
                continue
            for written in self._written(record):
                put(written)
        for notice in batch.notices:
            if notice.trouble is ReadTrouble.MISSING:
                self._asks_for = [self._views, self._log]
                self._beginning_due_s = 0.0
            elif notice.trouble not in MAY_PASS:
                topic = notice.place[0] if notice.place is not None else ""
                raise TopicReadError(
                    notice.trouble, where=self._where, topic=topic, reason=notice.reason
                )
            self._warn(notice.trouble, notice.reason)
            if notice.trouble is ReadTrouble.CUT and notice.place is not None:
                if notice.place == self._views:
                    put(ViewsCut())
                self._reader.reopen(from_beginning=[notice.place])
        self._check_beginning(put)

    def _check_client(self) -> None:
        """Replace a client that has been without Kafka for long."""
        now_s = time.monotonic()
        if not self.is_away:
            self._away_since_s = None
        elif self._away_since_s is None:
            self._away_since_s = now_s
        elif now_s - self._away_since_s > _AWAY_S:
            self._away_since_s = now_s
            self._reader.reopen(from_beginning=())

    def _check_beginning(self, put: Callable[[ReadBack], None]) -> None:
        """Report views that were deleted at the beginning of their topic: new readers lack them."""
        now_s = time.monotonic()
        if now_s < self._beginning_due_s:
            return
        self._beginning_due_s = now_s + _BEGINNING_INTERVAL_S
        try:
            extent, *_ = self._reader.extents(self._asks_for, timeout_s=_TIMEOUT_S)
        except TopicReadError as error:
            if not self._may_pass(error.trouble):
                raise
            if error.trouble is ReadTrouble.MISSING:
                self._beginning_due_s = now_s + _MISSING_INTERVAL_S
            return
        self._missing.reset()
        self._asks_for = [self._views]
        if self._views_begin is not None and extent.low > self._views_begin:
            put(ViewsCut())
        self._views_begin = extent.low

    def _may_pass(self, trouble: ReadTrouble) -> bool:
        """Note a problem; return whether a retry can succeed."""
        if trouble is ReadTrouble.MISSING:
            return not self._missing.is_deleted(time.monotonic())
        self._missing.reset()
        return trouble in MAY_PASS

    def _check_cluster(self, record: Record) -> None:
        """Note whether a record is another cluster's, whose name its key is or begins with."""
        if record.key is not None and record.key.partition(b"/")[0] != self._key:
            self.is_shared = True

    def _warn(self, trouble: ReadTrouble, reason: str) -> None:
        self._logger.warning(
            "the pipeline's topics cannot be read back", trouble=trouble.name, reason=reason
        )

    def _find_last(
        self, place: Place, pick: Callable[[Sequence[Record]], FoundT | None]
    ) -> FoundT | None:
        """Return what `pick` finds in the last messages; None when our cluster is not among them."""
        (extent,) = self._reader.extents([place], timeout_s=_TIMEOUT_S)
        self._next_offset[place] = extent.high
        length = FIRST_TAIL
        while True:
            tail = extent.tail(length)
            ours = []
            for record in self._reader.read([tail], silent_s=_TIMEOUT_S):
                self._check_cluster(record)
                if record.key in {self._key, self._view_key, self._beat_key}:
                    ours.append(record)
            found = pick(ours)
            if found is not None or tail == extent or length >= MAX_TAIL:
                return found
            length *= 10

    def _last_view(self, records: Sequence[Record]) -> ClusterView | None:
        beats = [self._decoded(record) for record in records if record.key == self._beat_key]
        generations = [beat.generation for beat in beats if isinstance(beat, WatcherBeat)]
        self._beat_generation = max(generations, default=self._beat_generation)
        if self._decode_records is not None:
            self._beat = next(
                (each for each in reversed(beats) if isinstance(each, WatcherBeat)), None
            )
        views = map(self._view, reversed(records))
        return next((view for view in views if view is not None), None)

    def _last_generation(self, records: Sequence[Record]) -> int | None:
        if self._decode_records is not None:
            self._tail = [each for record in records for each in self._written(record)]
            if not self._tail:
                return None
        # A record of a newer release, which this one cannot read, names its writer as well.
        origins = [origin for origin in map(self._origin, records) if origin is not None]
        return max((origin.generation for origin in origins), default=None)

    def _view(self, record: Record) -> ClusterView | None:
        view = self._decoded(record) if record.key == self._view_key else None
        return view if isinstance(view, ClusterView) else None

    def _decoded(self, record: Record) -> AnyView | None:
        """Return a view of our cluster; None for any other record."""
        try:
            view = decode_view(record.value or b"")
        except UnreadableRecordError:
            return None
        return view if view.cluster == self._cluster else None

    def _other_beat(self, record: Record) -> WatcherBeat | None:
        if self._decode_records is None or record.key != self._beat_key:
            return None
        beat = self._decoded(record)
        if not isinstance(beat, WatcherBeat) or beat.watcher == self._watcher:
            return None
        return beat

    def _written(self, record: Record) -> Sequence[OtherWatcher]:
        """Return what a record of the log says to the source."""
        if self._decode_records is None:
            origin = self._origin(record)
            return () if origin is None or origin.watcher == self._watcher else (origin,)
        if record.key != self._key or record.value is None:
            return ()
        read = self._decode_records(record.value)
        return [each for each in read if each.cluster == self._cluster]

    def _origin(self, record: Record) -> OtherWatcher | None:
        if record.key != self._key or record.value is None:
            return None
        try:
            origins = _origins.decode(record.value)
        except DECODING_ERRORS:
            return None
        ours = [origin for origin in origins if origin.cluster == self._cluster]
        return max(ours, key=lambda origin: origin.generation, default=None)
