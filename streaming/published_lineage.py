"""Which lineage wrote the views last: what a checkpoint must not be older than.

The rule: readers keep the newest lineage, so a fold that goes on with an older one writes what
nobody takes, and its figures stand still in silence. A checkpoint that was restored from before
an upgrade would do that; so before a fold goes on it asks the topic itself.
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
"""Records at a partition's end that are read at first: a batch ends with its clusters' views, so the
last one would do but for the nulls of deleted keys, and for the beats of watchers."""

FURTHER_BACK = 50
"""Times as many where there was no view: beats go on, one a second, while no fold works."""

SILENT_S = 5.0
"""For how long Kafka may give nothing: the records have some kilobytes each."""

GROUP = "kcm-fold-lineage"
"""Nothing joins the group or commits to it."""

_NAME = re.compile(r"\d{13}-\w+")
"""Of a lineage; any other text would be above all that we make, for ever."""


class _AsOf(msgspec.Struct, frozen=True):
    lineage: str


class _View(msgspec.Struct, frozen=True):
    """Of a view only who wrote it."""

    as_of: _AsOf


_decoder = msgspec.json.Decoder(_View)


def published_lineage(settings: PipelineSettings, topics: EnsuredTopics) -> str | None:
    """Return the newest lineage at the ends of the views; None where they hold none.

    Where the fold may not read the views it warns and returns None: the answer is needed only after a
    backup was restored. Raises TopicReadError when Kafka does not answer in time.
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
    """Yield the lineages at the end of each partition, from as far back as it takes to find one."""
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
    """Return who wrote a view; None for a null, and for what is no view of ours."""
    try:
        lineage = _decoder.decode(value or b"").as_of.lineage
    except DECODING_ERRORS:
        return None
    return lineage if _NAME.fullmatch(lineage) else None
