"""A topic of the pipeline from its earliest record to the end that it had at the start, as lines.

The rule: nothing is created or committed, and a topic that is not there is an error, not made. A
cluster's records stand in one partition, so reading the partitions side by side keeps their order.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from controller_model.kafka.ids import partition_of
from kcm.history.replay_input import Line
from pipeline.settings import PipelineSettings
from pipeline.topic_reader import RecordReader
from pipeline.topic_records import Extent

_REQUEST_TIMEOUT_S = 10.0
_SILENT_FOR_AT_MOST_S = 60.0
"""A broker that gives nothing for so long, while there is more, is as good as gone."""


class TopicLines:
    """The lines of one topic; made by `open_topic`."""

    def __init__(self, reader: RecordReader, extents: list[Extent]) -> None:
        self._reader = reader
        self._extents = extents

    @property
    def is_cut(self) -> bool:
        """Whether retention has taken records, from the beginning or while they were read."""
        return bool(self._reader.cut) or any(extent.low > 0 for extent in self._extents)

    def __iter__(self) -> Iterator[Line]:
        for record in self._reader.read(self._extents, silent_s=_SILENT_FOR_AT_MOST_S):
            if record.value is None:
                continue  # a cluster was forgotten here: no change, and not a damaged one
            place = f"{record.topic}[{record.partition}]@{record.offset}"
            yield Line(place, record.value)


@contextmanager
def open_topic(
    settings: PipelineSettings, topic: str, *, cluster: str | None = None
) -> Iterator[TopicLines]:
    """Give the lines of a topic, or of a cluster's partition of it; raises TopicReadError."""
    group = f"{settings.topic_prefix}.replay-{uuid.uuid4().hex[:12]}"
    with RecordReader(settings, group) as reader:
        count = reader.partitions(topic, timeout_s=_REQUEST_TIMEOUT_S)
        chosen = range(count) if cluster is None else [partition_of(cluster, count)]
        places = [(topic, partition) for partition in chosen]
        yield TopicLines(reader, reader.extents(places, timeout_s=_REQUEST_TIMEOUT_S))
