"""Finds the lineage that wrote the views last, which a checkpoint must not be older than.

The rule: readers keep the newest lineage. A fold that continues with an older one writes what
nobody reads, and the figures stand still without any error. A checkpoint that was restored from a
backup would do that. So the fold asks the topic itself before it continues.
"""

import re
from collections.abc import Iterator

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from pipeline.kafka_errors import ReadTrouble, TopicReadError
from pipeline.runtime import get_logger
from pipeline.settings import PipelineSettings
from pipeline.topic_reader import RecordReader
from pipeline.topic_records import Extent, Place
from pipeline.topics import EnsuredTopics

LOOK_BACK = 20
"""Records at a partition's end that are read first. A batch ends with its clusters' views, so the
last record would do, except for the nulls of deleted keys and the beats of watchers."""

FURTHER_BACK = 50
"""How many times as many are read next, when there was no view: watchers send a beat each second even while no fold works."""

SILENT_S = 5.0
"""How long Kafka may return nothing: the records have some kilobytes each."""

GROUP = "kcm-fold-lineage"
"""The name of the consumer group. Nothing joins it or commits to it."""

_NAME = re.compile(r"\d{13}-\w+")
"""The form of a lineage's name. Any other text could sort above all that the fold makes, for ever."""


class _AsOf(msgspec.Struct, frozen=True):
    lineage: str


class _View(msgspec.Struct, frozen=True):
    """A view, reduced to who wrote it."""

    as_of: _AsOf


_decoder = msgspec.json.Decoder(_View)


def published_lineage(settings: PipelineSettings, topics: EnsuredTopics) -> str | None:
    """Return the newest lineage at the ends of the views; None if they hold none.

    If the fold may not read the views, log a warning and return None: the answer only matters after
    a backup was restored. Raise TopicReadError when Kafka does not answer in time.
    """
    views = topics.names.views
    try:
        with RecordReader(settings, GROUP) as reader:
            extents = reader.extents((views, partition) for partition in range(topics.partitions))
            return max(_lineages(reader, extents), default=None)
    except TopicReadError as error:
        if error.trouble is not ReadTrouble.DENIED:
            raise
        get_logger("stream").warning(
            "the fold may not read the views, so it cannot tell whether its checkpoint is older; allow READ",
            topic=views,
            reason=error.reason,
        )
        return None


def _lineages(reader: RecordReader, extents: list[Extent]) -> Iterator[str]:
    """Yield the lineages at the end of each partition, reading back as far as it takes to find one."""
    look_back = LOOK_BACK
    while extents:
        tails = {extent.place: extent.tail(look_back) for extent in extents}
        found: set[Place] = set()
        for record in reader.read(tails.values(), silent_s=SILENT_S):
            lineage = _lineage_of(record.value)
            if lineage is not None:
                found.add((record.topic, record.partition))
                yield lineage
        extents = [e for e in extents if e.place not in found and tails[e.place] != e]
        look_back *= FURTHER_BACK


def _lineage_of(value: bytes | None) -> str | None:
    """Return the lineage that wrote a view; None for a null, and for anything that is not a view of the fold."""
    try:
        lineage = _decoder.decode(value or b"").as_of.lineage
    except DECODING_ERRORS:
        return None
    return lineage if _NAME.fullmatch(lineage) else None
