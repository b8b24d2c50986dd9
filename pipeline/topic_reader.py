"""Reads records of the pipeline's topics, for every part.

A `RecordReader` reads places (a topic and a partition) independently: it joins no group, commits
nothing and creates no topic. It reads in one of two ways:

- bounded: `extents` asks where partitions begin and end now, `Extent.tail` selects the last
  offsets, and `read` yields the records between, whatever is written in the meantime. What prevents
  that is one TopicReadError: no answer in time, READ denied, no such topic.
- following: `follow` sets the next offsets, and each `poll` returns a `ReadBatch`: records, the
  places at whose end the reader is, and a `Notice` for each problem that begins; a problem ends
  when the place returns records again. It continues by itself when a broker is back; an error that
  the client cannot recover from is raised.

The rule: a position never jumps silently. Where the next record is gone (`ReadTrouble.CUT`), `read`
continues from the place's beginning and notes the place in `cut`; a follower decides itself, and
calls `reopen`. Each new client is given the leader epoch of the record before a position (KIP-320),
so that it notices by itself when records that were read are gone. A topic that was re-created is
recognized by its id, which `topic_probe` asks for.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from pipeline.kafka_errors import ReadTrouble, TopicReadError, reason_of, trouble_of
from pipeline.settings import PipelineSettings
from pipeline.topic_records import Extent, Notice, Place, ReadBatch, Record
from pipeline.topics import MAX_MESSAGE_BYTES, REQUEST_TIMEOUT_S, client_properties

_RETRY_S = 0.2
_POLL_S = 0.2
_MAX_PER_POLL = 500
"""Records that one `poll` returns at most, so that the caller processes a backlog in steps."""
_PREFETCH_KIB = 32 * 1024
"""Bound on what librdkafka prefetches: four of the largest records."""
_LEADER_MOVES = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
"""Another broker leads than the client knows, or none yet: over when the metadata are refreshed."""
_UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001  # see below
"""The client does not know the partition: no broker answers, or one that does says that it does not exist."""
_PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001  # confluent-kafka names its local error codes with an underscore

_EMPTY: Mapping[Place, int] = {}


class _Read(NamedTuple):
    """The last record that was read of a place."""

    next_offset: int
    leader_epoch: int | None
    """The leader epoch of that record; None if Kafka does not report it."""


class RecordReader:
    """One Kafka consumer and its positions; a context manager. `group` matters for ACLs only."""

    def __init__(self, settings: PipelineSettings, group: str) -> None:
        self.next_offset: dict[Place, int] = {}
        self.cut: set[Place] = set()
        """Places where a bounded read did not find all records."""
        self._where = f"the pipeline's Kafka at {settings.bootstrap_servers}"
        self._places: tuple[Place, ...] = ()
        self._reported: deque[KafkaError] = deque(maxlen=10)
        self._epochs: dict[Place, _Read] = {}
        self._troubles: dict[Place | None, ReadTrouble] = {}
        """By place, or None for a broker, the problem that was last reported, until the place returns something."""
        self._properties: dict[str, Any] = {
            **client_properties(settings),
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # never jump silently: see ReadTrouble.CUT
            # The broker returns a record at once; the wait only limits how often it answers without
            # one.
            "fetch.min.bytes": 1,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "max.partition.fetch.bytes": MAX_MESSAGE_BYTES,
            "queued.max.messages.kbytes": _PREFETCH_KIB,
            "error_cb": self._reported.append,
        }
        self._consumer = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def partitions(self, topic: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> int:
        """Return how many partitions a topic has; raise TopicReadError if that cannot be read."""
        try:
            found = self._consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        except KafkaException as error:
            raise self._failed(topic, error) from None
        if found.error is not None or not found.partitions:
            missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            raise self._failed(topic, KafkaException(found.error or missing))
        return len(found.partitions)

    def extents(
        self, places: Iterable[Place], *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> list[Extent]:
        """Return where places begin and end now; raise TopicReadError if that cannot be read."""
        return [Extent(place, *self._watermarks(place, timeout_s)) for place in places]

    def read(self, extents: Iterable[Extent], *, silent_s: float) -> Iterator[Record]:
        """Yield the records of some extents; those of one place in order.

        Raise TopicReadError when Kafka returns nothing for `silent_s`, or a topic may not be read.
        """
        wanted = {extent.place: extent for extent in extents if extent.high > extent.low}
        self.follow(wanted, {place: extent.low for place, extent in wanted.items()})
        answered_at = time.monotonic()
        last = Notice(ReadTrouble.AWAY, next(iter(wanted), None), "no answer")
        while wanted:
            batch = self.poll(_POLL_S)
            now = time.monotonic()
            if batch.records or batch.at_end:
                answered_at = now
            for last in batch.notices:
                self._go_on(last)
            if now - answered_at > silent_s:
                raise self._error(last._replace(trouble=ReadTrouble.AWAY))
            for record in batch.records:
                place = (record.topic, record.partition)
                if place in wanted and record.offset < wanted[place].high:
                    yield record
                if place in wanted and record.offset + 1 >= wanted[place].high:
                    del wanted[place]
            for place in batch.at_end:  # compaction may remove the last records
                wanted.pop(place, None)

    def _go_on(self, notice: Notice) -> None:
        """Continue a bounded read in spite of a problem, or raise TopicReadError."""
        if notice.trouble is ReadTrouble.CUT and notice.place is not None:
            self.cut.add(notice.place)
            self.reopen(from_beginning=[notice.place])
        elif notice.trouble is not ReadTrouble.AWAY:
            raise self._error(notice)

    def follow(self, places: Iterable[Place], next_offset: Mapping[Place, int] = _EMPTY) -> None:
        """Read exactly these places, from these offsets on; a place without an offset from its beginning."""
        self._places = tuple(places)
        self.next_offset = dict(next_offset)
        self._assign()

    def reopen(self, *, from_beginning: Iterable[Place]) -> None:
        """Continue with a new client: these places from their beginning, the others from where they were.

        A client that knows a topic under an old id may not handle the new one correctly.
        """
        self._consumer.close()
        for place in from_beginning:
            self.next_offset.pop(place, None)
        self._consumer = self._open()
        self._assign()

    def poll(self, timeout_s: float) -> ReadBatch:
        """Return what is available, waiting for a first message for at most this long."""
        first = self._consumer.poll(timeout_s)
        batch = ReadBatch([], [], [])
        while self._reported:
            error = self._reported.popleft()
            self._notice(batch, None, error)
        if first is not None:
            # With a timeout this call would wait until the batch is full; without one it takes what
            # is available.
            for message in (first, *self._consumer.consume(_MAX_PER_POLL - 1, timeout=0)):
                self._sort(message, batch)
        return batch

    @property
    def is_away(self) -> bool:
        """Whether a broker could not be reached, and nothing has arrived since."""
        return ReadTrouble.AWAY in self._troubles.values()

    def _sort(self, message: Message, batch: ReadBatch) -> None:
        place = (message.topic() or "", message.partition() or 0)
        offset = message.offset() or 0
        error = message.error()
        if error is None:
            self.next_offset[place] = offset + 1
            self._epochs[place] = _Read(offset + 1, message.leader_epoch())
            kind, timestamp = message.timestamp()
            batch.records.append(
                Record(*place, offset, message.key(), message.value(), timestamp if kind else 0)
            )
        elif error.code() == _PARTITION_EOF:
            self.next_offset[place] = offset
            batch.at_end.append(place)
        elif error.fatal():
            raise self._failed(place[0], KafkaException(error))
        else:
            self._notice(batch, place, error)
            return
        self._troubles.pop(place, None)
        self._troubles.pop(None, None)

    def _notice(self, batch: ReadBatch, place: Place | None, error: KafkaError) -> None:
        trouble = trouble_of(error)
        if self._troubles.get(place) is not trouble:
            self._troubles[place] = trouble
            batch.notices.append(Notice(trouble, place, error.str()))

    def _watermarks(self, place: Place, timeout_s: float) -> tuple[int, int]:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                offsets: tuple[int, int] | None = self._consumer.get_watermark_offsets(
                    TopicPartition(*place), timeout=timeout_s
                )
            except KafkaException as error:
                code = error.args[0].code()
                may_pass = code in _LEADER_MOVES or (
                    code == _UNKNOWN_PARTITION
                    and place[1] < self.partitions(place[0], timeout_s=timeout_s)
                )
                if not may_pass:
                    raise self._failed(place[0], error) from None
                if time.monotonic() > deadline:
                    reason = reason_of(error, self._reported)
                    raise self._error(Notice(ReadTrouble.AWAY, place, reason)) from None
                time.sleep(_RETRY_S)
                continue
            if offsets is None:
                raise self._error(Notice(ReadTrouble.AWAY, place, "no end of the partition"))
            return offsets

    def _open(self) -> Consumer:
        try:
            return Consumer(self._properties)
        except KafkaException as error:
            raise self._error(Notice(ReadTrouble.SETTINGS, None, reason_of(error))) from None

    def _assign(self) -> None:
        self._troubles.clear()
        self._consumer.assign([self._position(place) for place in self._places])

    def _position(self, place: Place) -> TopicPartition:
        """Return where to continue; with a leader epoch only right after the record that the epoch belongs to.

        Beyond that record, others with newer epochs may have been compacted away. A position there
        with the older epoch would look like one whose records are gone.
        """
        offset = self.next_offset.get(place, OFFSET_BEGINNING)
        read = self._epochs.get(place)
        if read is None or read.leader_epoch is None or read.next_offset != offset:
            return TopicPartition(*place, offset)
        return TopicPartition(*place, offset, leader_epoch=read.leader_epoch)

    def _failed(self, topic: str, error: KafkaException) -> TopicReadError:
        trouble = trouble_of(error.args[0], self._reported)
        return self._error(Notice(trouble, (topic, 0), reason_of(error, self._reported)))

    def _error(self, notice: Notice) -> TopicReadError:
        topic = notice.place[0] if notice.place else ""
        return TopicReadError(notice.trouble, where=self._where, topic=topic, reason=notice.reason)
