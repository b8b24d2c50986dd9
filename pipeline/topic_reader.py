"""Read records of the pipeline's topics: the one way, for every part.

A `RecordReader` reads places (a topic and a partition) for itself alone: it joins no group, commits
nothing and makes no topic. It reads in one of two ways:

- bounded: `extents` asks where partitions begin and end now, `Extent.tail` keeps the last offsets of
  one, and `read` yields the records between, whatever is written meanwhile. What prevents that is
  one TopicReadError: no answer in time, READ denied, no such topic.
- following: `follow` sets the next offsets, each `poll` returns a `ReadBatch`: records, the places
  at whose end the reader stands, and a `Notice` for each trouble that begins; it ends when the place
  gives records again. It goes on by itself when a broker is back; an error that the client cannot recover from is raised.

The rule: a position never jumps in silence. Where the next record is gone (`ReadTrouble.CUT`),
`read` goes on from the place's beginning and keeps it in `cut`; who follows decides, and calls
`reopen`. Each new client is given the leader epoch of the record before a position (KIP-320), so that it
notices by itself that records are gone that we have read. A topic that was re-created is found by its id, which `topic_probe` asks for.
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
_MOST_PER_POLL = 500
"""Records taken before the caller works on them: a backlog is shown in steps, not record by record."""
_PREFETCH_KIB = 32 * 1024
"""Bound of what librdkafka holds ahead of us: four of the largest records."""
_LEADER_MOVES = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
"""Another broker leads than we know of, or none yet: over as soon as the metadata come again."""
_PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001  # confluent-kafka names its local error codes with an underscore

_EMPTY: Mapping[Place, int] = {}


class _Read(NamedTuple):
    """The end of what was read of a place."""

    next_offset: int
    leader_epoch: int | None
    """Of the record right before it; None where Kafka does not say."""


class RecordReader:
    """One Kafka consumer and its positions; a context manager. `group` matters to ACLs only."""

    def __init__(self, settings: PipelineSettings, group: str) -> None:
        self.next_offset: dict[Place, int] = {}
        self.cut: set[Place] = set()
        """Places of which a bounded read did not find all records."""
        self._where = f"the pipeline's Kafka at {settings.bootstrap_servers}"
        self._places: tuple[Place, ...] = ()
        self._reported: deque[KafkaError] = deque(maxlen=10)
        self._epochs: dict[Place, _Read] = {}
        self._troubles: dict[Place | None, ReadTrouble] = {}
        """What each place, or (None) a broker, was last noticed for, until it gives something."""
        self._properties: dict[str, Any] = {
            **client_properties(settings),
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # not a silent jump: see ReadTrouble.CUT
            # A record is handed over when it is there; the wait only paces empty answers.
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
        """End the client."""
        self._consumer.close()

    def partitions(self, topic: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> int:
        """Return how many partitions a topic has; raises TopicReadError."""
        try:
            found = self._consumer.list_topics(topic, timeout=timeout_s).topics[topic]
            if found.error is not None or not found.partitions:
                missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
                raise KafkaException(found.error or missing)  # noqa: TRY301  # it is one answer of two kinds
        except KafkaException as error:
            raise self._failed(topic, error) from None
        return len(found.partitions)

    def extents(
        self, places: Iterable[Place], *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> list[Extent]:
        """Return where places begin and end now; raises TopicReadError."""
        return [Extent(place, *self._watermarks(place, timeout_s)) for place in places]

    def read(
        self, extents: Iterable[Extent], *, silent_s: float, within_s: float = float("inf")
    ) -> Iterator[Record]:
        """Yield the records of some extents; those of one place in their order.

        Raises TopicReadError when Kafka gives nothing for `silent_s`, or not all within `within_s`, or
        a topic may not be read.
        """
        wanted = {extent.place: extent for extent in extents if extent.high > extent.low}
        self.follow(wanted, {place: extent.low for place, extent in wanted.items()})
        began_at = heard_at = time.monotonic()
        last = Notice(ReadTrouble.AWAY, next(iter(wanted), None), "no answer")
        while wanted:
            batch = self.poll(_POLL_S)
            now = time.monotonic()
            if batch.records or batch.at_end:
                heard_at = now
            for last in batch.notices:
                self._go_on(last)
            if now - heard_at > silent_s or now - began_at > within_s:
                raise self._error(last._replace(trouble=ReadTrouble.AWAY))
            for record in batch.records:
                place = (record.topic, record.partition)
                if place in wanted and record.offset < wanted[place].high:
                    yield record
                if place in wanted and record.offset + 1 >= wanted[place].high:
                    del wanted[place]
            for place in batch.at_end:  # the last offsets may hold no record: compaction takes them
                wanted.pop(place, None)

    def _go_on(self, notice: Notice) -> None:
        """Go on with a bounded read in spite of a trouble, or raise TopicReadError."""
        if notice.trouble is ReadTrouble.CUT and notice.place is not None:
            self.cut.add(notice.place)
            self.reopen(from_beginning=[notice.place])
        elif notice.trouble is not ReadTrouble.AWAY:
            raise self._error(notice)

    def follow(self, places: Iterable[Place], next_offset: Mapping[Place, int] = _EMPTY) -> None:
        """Read these places, and no others, from these offsets on; without one, from the beginning."""
        self._places = tuple(places)
        self.next_offset = dict(next_offset)
        self._assign()

    def reopen(self, *, from_beginning: Iterable[Place]) -> None:
        """Go on with a new client: these places from their beginning, the rest where we were.

        A client that has known a topic under another id is not trusted with the new one.
        """
        self._consumer.close()
        for place in from_beginning:
            self.next_offset.pop(place, None)
        self._consumer = self._open()
        self._assign()

    def poll(self, timeout_s: float) -> ReadBatch:
        """Return what is there, waiting for a first message for at most this long."""
        first = self._consumer.poll(timeout_s)
        batch = ReadBatch([], [], [])
        while self._reported:
            error = self._reported.popleft()
            self._notice(batch, None, error)
        if first is not None:
            # With a timeout this call would wait until it is full; without, it takes what is there.
            for message in (first, *self._consumer.consume(_MOST_PER_POLL - 1, timeout=0)):
                self._sort(message, batch)
        return batch

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
                if error.args[0].code() not in _LEADER_MOVES or time.monotonic() > deadline:
                    raise self._failed(place[0], error) from None
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
        """Return where to go on: with an epoch only right after the record that it is of.

        Beyond that record others of newer epochs may have been compacted away: a position there
        with the older epoch would pass for one whose records are gone.
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
