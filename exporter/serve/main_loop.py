"""The exporter's main loop: it turns Kafka's records into the figures of /metrics.

One thread reads, applies and renders, so nothing needs a lock and a change is visible a
few milliseconds after it was written. The loop survives whatever happens to Kafka: brokers that stop and
return, topics that are recreated or truncated (they are logged and read from the beginning again). Only an
unexpected exception or a setting that cannot work ends it. If it stands still, that is logged and reported by
/readyz; what was read is still served, with the status `behind`.
"""

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from controller_model.kafka.errors import UnreadableRecordError
from exporter.core.config import ExportSettings
from exporter.core.metrics import ExporterMetrics
from exporter.core.records import ClusterSnapshot
from exporter.core.status import ReadingState
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import ViewStore
from exporter.scrape.collector import Collector
from pipeline.kafka_errors import MissingTopic, ReadTrouble
from pipeline.runtime import get_logger
from pipeline.stop_signal import StopSignal
from pipeline.supervised_thread import StandstillError, SupervisedThread
from pipeline.topic_probe import TopicProbe, TopicsAnswer
from pipeline.topic_reader import RecordReader
from pipeline.topic_records import Place, ReadBatch, Record
from pipeline.topics import EnsuredTopics, ensure_topics, topic_names

_READ_TIMEOUT_S = 0.1
"""How long a poll waits for a first record, and so how soon a stop or a probe's answer is noticed."""

_PROBE_INTERVAL_S = 1.0
"""Time between two probes: a third of what makes the exporter late, and rare enough to cost nothing."""

_CLOSE_TIMEOUT_S = 6.0
"""How long to wait for a thread to end: a probe's request may be under way for 5 s."""


Feed = Callable[[], list[Record]]
"""Returns the next records of both topics, in their order, after a moment if there are none: for who has them in memory."""


_STALLED_MS = 15_000
"""So long the reader's client may return nothing while Kafka answers and has more. One of librdkafka 2.16.0 was seen to stay
without a broker for ever: its only one had restarted, and was not in the first answer afterwards."""


class _Source:
    """What the loop reads from: the two topics, and a probe for their ends and the log's."""

    def __init__(
        self, settings: ExportSettings, topics: EnsuredTopics, steady: Callable[[], int]
    ) -> None:
        self.ids = dict(topics.ids)
        read = (topics.names.views, topics.names.events)
        self.places: list[Place] = [(topic, p) for topic in read for p in range(topics.partitions)]
        self.probe = TopicProbe(
            settings,
            topics,
            every_s=_PROBE_INTERVAL_S,
            ends_of=topics.names,
            clock=steady,
        )
        self.reader = RecordReader(settings, f"{settings.topic_prefix}.exporter")
        self.reader.follow(self.places)

    def close(self) -> None:
        """Close the connections to Kafka."""
        self.reader.close()
        self.probe.thread.close(_CLOSE_TIMEOUT_S)


class MainLoop:
    """Reads views and events into the stores, and renders complete batches in the collector."""

    def __init__(
        self,
        settings: ExportSettings,
        *,
        events: EventStore,
        collector: Collector,
        state: ReadingState,
        metrics: ExporterMetrics,
        clock: Callable[[], int],
        feed: Feed | None = None,
    ) -> None:
        """Read from `feed`; None: from the topics in the pipeline's Kafka."""
        self._feed = feed
        self._settings = settings
        self._log_topic, self._views_topic, _ = topic_names(settings.topic_prefix)
        self._views = ViewStore()
        self._events = events
        self._collector = collector
        self._state = state
        self._metrics = metrics
        self._clock = clock
        self._log = get_logger("exporter")
        self._source: _Source | None = None
        """None: Kafka and its topics are awaited."""
        self._at_end: set[Place] = set()
        self._unshown: set[str] = set()
        self._reads_history = True
        """Whether the end of the views is not reached yet, so that records may be of any age."""
        self._last_answer: TopicsAnswer | None = None
        self._log_ends: dict[int, int] = {}
        """The ends of the log in that answer, by partition."""
        self._positions: dict[Place, int] = {}
        self._moved_at: int | None = None
        """The reader's positions at the probe's answers, and when they last were others, or at the ends of the topics."""
        self._missing = MissingTopic()
        self._is_whole = True
        """Whether Kafka's last answer had all topics."""
        self._forget_at_s: float | None = None
        self._is_reported = False
        """Whether it was logged that the loop stands still."""
        self._stop = StopSignal()
        self._thread = SupervisedThread("reader", self.poll)

    @property
    def age_s(self) -> float:
        """Seconds since the loop's last turn."""
        return self._stop.age_s

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def check(self, now_s: float | None = None) -> None:
        """Raise the exception that ended the loop; note for /readyz and the log whether it makes progress."""
        where = ""
        try:
            self._thread.check(now_s)
        except StandstillError as error:
            where = str(error)
        if self._source is None and self._feed is None:
            return  # it still waits for Kafka and its topics, which /readyz reports
        self._state.still_ms = round(self._thread.still_s * 1000)
        if bool(where) is self._is_reported:
            return
        self._is_reported = bool(where)
        if where:
            self._log.error(
                "the reading thread hangs: the figures are behind; if this lasts, restart the exporter",
                why=where,
            )
        else:
            self._log.info("the reading thread reads again")

    def close(self) -> None:
        """End the loop, and wait at most a few seconds for it."""
        self._stop.set()
        self._thread.close(_CLOSE_TIMEOUT_S)
        source = self._source
        if (
            source is not None and not self._thread.alive
        ):  # a client must not be closed while it is used
            source.close()

    def open(self, topics: EnsuredTopics) -> _Source:
        """Begin to read the topics; return what is read from."""
        source = _Source(self._settings, topics, self._state.steady)
        for topic in (topics.names.views, topics.names.events):
            self._metrics.unreadable.labels(topic)  # so that the counter exists at 0
        self._set_status(stage="reading the topics to their ends")
        source.probe.thread.start()
        self._source = source
        return source

    def poll(self) -> None:
        """Poll once, apply the records, and evaluate the probe's last answer; the first time wait for Kafka."""
        self._stop.turned()
        if self._feed is not None:
            self.apply_records(self._feed())
            self._metrics.kafka_answered.set(self._clock() / 1000)
            self._mark_read(self._state.steady())
            return
        source = self._source
        if source is None:
            self.open(ensure_topics(self._settings, stop=self._stop))
            return
        batch = source.reader.poll(_READ_TIMEOUT_S)
        if batch.records:
            self.apply_records(batch.records)
        if any(batch):
            self._handle_batch(source, batch)
        source.probe.thread.check()
        self._handle_probe(source)

    def apply_records(self, records: list[Record]) -> None:
        """Apply the records, and show the clusters whose batches are complete."""
        changed: dict[str, int] = {}
        shown_before = self._views.clusters
        for record in records:
            self._metrics.records.labels(record.topic).inc()
            try:
                if record.topic != self._views_topic:
                    self._events.apply(record)
                elif cluster := self._views.apply(record):
                    changed[cluster] = record.timestamp
            except UnreadableRecordError:
                self._metrics.unreadable.labels(record.topic).inc()
        for beat in self._views.pop_beats():
            self._state.note_beat(beat, is_live=not self._reads_history)
        if not changed:
            return
        self._metrics.commits.inc(len(changed))
        if not self._state.status.read_to_end_once:
            # At a start only the state at the end is shown, not every state before it.
            self._unshown.update(changed)
            return
        self._show(changed)
        self._measure(changed, shown_before)

    def _show(self, changed: Iterable[str]) -> None:
        with self._metrics.render.time():
            self._state.note_clusters(
                self._views.clusters, changed, is_live=not self._reads_history
            )
            self._collector.update(changed, self._views.clusters)
        self._metrics.clusters.set(len(self._views.clusters))
        for cluster in changed:
            if cluster not in self._views.clusters:
                self._events.forget(cluster)

    def _measure(self, changed: dict[str, int], before: Mapping[str, ClusterSnapshot]) -> None:
        """Measure the delays of the newest records, and of the newest changes that they show."""
        now = self._clock()
        for cluster, written_at in changed.items():
            old, new = before.get(cluster), self._views.clusters.get(cluster)
            if new is None:
                continue
            if written_at:
                self._metrics.record_delay.observe(max(0, now - written_at) / 1000)
            seen_at = new.view.log.last_change_at
            if seen_at is not None and old is not None and old.view.log.last_change_at != seen_at:
                self._metrics.change_delay.observe(max(0, now - seen_at) / 1000)
                self._state.delays_ms[cluster] = now - seen_at if now >= seen_at else None

    def _handle_batch(self, source: _Source, batch: ReadBatch) -> None:
        """Note which partitions are read to their ends, and read again the topics that lost records."""
        self._at_end -= {(record.topic, record.partition) for record in batch.records}
        self._at_end |= set(batch.at_end)
        cut = set()
        for trouble, place, reason in batch.notices:
            if trouble is ReadTrouble.CUT and place is not None:
                cut.add(place[0])
            else:
                log = self._log.debug if trouble is ReadTrouble.AWAY else self._log.warning
                log("cannot read", trouble=trouble.name, place=place, reason=reason)
        if cut:
            self._reread(source, cut, "lost records")
        has_moved = bool(batch.records or batch.at_end)
        # A deleted topic gets no more records: its partitions would count as read to their ends for ever.
        if has_moved and self._is_whole and self._at_end >= set(source.places):
            self._set_status(records_left=0)
            self._mark_read(self._state.steady())

    def _reread(self, source: _Source, topics: set[str], why: str) -> None:
        for topic in sorted(topics):
            self._metrics.resets.labels(topic).inc()
            self._log.warning("reading a topic from its beginning again", topic=topic, why=why)
        again = [place for place in source.places if place[0] in topics]
        self._at_end -= set(again)
        self._reads_history = True
        source.reader.reopen(from_beginning=again)

    def _handle_probe(self, source: _Source) -> None:
        """Note whether Kafka answers, and read again the topics that were recreated."""
        probe = source.probe
        if probe.failure != self._state.status.kafka_failure:
            self._set_status(kafka_failure=probe.failure)
            if probe.failure is not None:
                self._log.warning("the pipeline's Kafka does not answer", reason=probe.failure)
            else:
                self._log.info("the pipeline's Kafka answers again")
            self._missing.reset()
        answer = probe.answer
        if answer is None or answer is self._last_answer:
            self._forget_clusters()
            return
        self._last_answer = answer
        read = {topic for topic, _ in source.places}
        recreated = {t for t in read & set(answer.ids) if source.ids.get(t) != answer.ids[t]}
        source.ids.update(answer.ids)
        if recreated:
            self._reread(source, recreated, "it was recreated")
            if self._views_topic in recreated:
                self._views.begin_reread()
                self._state.forget_signs()
                self._forget_at_s = time.monotonic() + self._settings.forget_after_s
        # Only now: how far a topic was read says nothing about one that was created in its place.
        self._handle_ends(source, answer)

    def _handle_ends(self, source: _Source, answer: TopicsAnswer) -> None:
        """Note how much is left to read, and which topics are gone."""
        left = {
            place: max(0, answer.ends[place] - max(0, source.reader.next_offset.get(place, 0)))
            for place in source.places
            if place in answer.ends
        }
        log_ends = {p: end for (topic, p), end in answer.ends.items() if topic == self._log_topic}
        # An end that is seen for the first time may have stood there for long.
        moved = {p for p, end in log_ends.items() if self._log_ends.get(p, end) != end}
        self._log_ends = log_ends
        for topic in {topic for topic, _ in left}:
            lag = sum(n for place, n in left.items() if place[0] == topic)
            self._metrics.lag.labels(topic).set(lag)
        ago_ms = self._state.steady() - answer.asked_at
        self._metrics.kafka_answered.set((self._clock() - ago_ms) / 1000)
        gone = tuple(sorted(set(source.ids) - set(answer.ids)))
        self._is_whole = not gone
        if self._is_whole:
            self._missing.reset()
        elif not self._missing.is_deleted(answer.asked_at / 1000):
            gone = ()
        if gone and gone != self._state.status.topics_gone:
            self._log.warning("topics are gone", topics=", ".join(gone))
        self._set_status(
            kafka_answered_at=answer.asked_at,
            topics_gone=gone,
            log_moved_at={
                **self._state.status.log_moved_at,
                **dict.fromkeys(moved, answer.asked_at),
            },
            records_left=sum(left.values()),
        )
        self._check_reader(source, answer.asked_at, has_more=any(left.values()))
        if self._is_whole and not any(left.values()):
            self._mark_read(max(answer.asked_at, self._state.status.read_at or 0))

    def _check_reader(self, source: _Source, at: int, *, has_more: bool) -> None:
        """Replace a client that reads nothing although the probe, which has a client of its own, sees more."""
        positions = dict(source.reader.next_offset)
        if self._moved_at is None or positions != self._positions or not has_more:
            self._positions, self._moved_at = positions, at
        elif at - self._moved_at > _STALLED_MS:
            self._moved_at = at
            self._log.warning("Kafka answers and nothing is read: reading with a new client")
            source.reader.reopen(from_beginning=())

    def _mark_read(self, at: int) -> None:
        """Note that everything that was in the topics at `at` has been read."""
        self._set_status(read_at=at)
        if not self._state.status.read_to_end_once:
            self._show(self._unshown)
            now = self._state.steady()
            self._set_status(
                read_to_end_once=True, read_to_end_at=now, stage="following the topics"
            )
            self._log.info("read both topics to their ends", clusters=len(self._views.clusters))
        self._reads_history = False

    def _forget_clusters(self) -> None:
        if self._forget_at_s is None or time.monotonic() < self._forget_at_s:
            return
        self._forget_at_s = None
        gone = self._views.forget_unconfirmed()
        if gone:
            self._log.warning(
                "dropped clusters that are not in the topic any more",
                topic=self._views_topic,
                clusters=", ".join(gone),
            )
            self._show(gone)

    def _set_status(self, **changes: object) -> None:
        self._state.status = msgspec.structs.replace(self._state.status, **changes)
