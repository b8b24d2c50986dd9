"""Which lineage wrote the views last: what a checkpoint must not be older than.

The rule: readers keep the newest lineage, so a fold that goes on with an older one writes what
nobody takes, and its figures stand still in silence. A checkpoint that was restored from before
an upgrade would do that; so before a fold goes on it asks the topic itself.
"""

from __future__ import annotations

import re

import msgspec

from pipeline.kafka_errors import ReadTrouble, TopicReadError
from pipeline.runtime import get_logger
from pipeline.settings import PipelineSettings
from pipeline.topic_reader import RecordReader
from pipeline.topics import EnsuredTopics

LOOK_BACK = 20
"""Records at a partition's end that are read: a batch ends with its clusters' views, so the last one
would do but for the nulls of deleted keys."""

DEADLINE_S = 5.0
"""How long to read for: the records have some kilobytes each."""

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
            tails = [extent.tail(LOOK_BACK) for extent in extents]
            records = reader.read(tails, silent_s=DEADLINE_S, within_s=DEADLINE_S)
            lineages = [_lineage_of(record.value) for record in records]
    except TopicReadError as error:
        if error.trouble is not ReadTrouble.DENIED:
            raise
        get_logger("stream").warning(
            "the views may not be read: whether the checkpoint is older than they are is not known",
            topic=views,
            reason=error.reason,
        )
        return None
    return max((lineage for lineage in lineages if lineage is not None), default=None)


def _lineage_of(value: bytes | None) -> str | None:
    """Return who wrote a view; None for a null, and for what is no view of ours."""
    try:
        lineage = _decoder.decode(value or b"").as_of.lineage
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return lineage if _NAME.fullmatch(lineage) else None
