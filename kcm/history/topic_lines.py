"""Read a topic of the pipeline as lines, from its earliest record to its end at the start of the read.

The rule: nothing is created or committed, and a missing topic is an error. A cluster's records are
in one partition, so reading the partitions in turn keeps their order.
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
"""A broker that sends nothing for so long, while there is more to read, counts as down."""


class TopicLines:
    """The lines of one topic; made by `open_topic`."""

    def __init__(self, reader: RecordReader, extents: list[Extent]) -> None:
        self._reader = reader
        self._extents = extents

    @property
    def is_cut(self) -> bool:
        """Whether retention has deleted records, before the read or during it."""
        return bool(self._reader.cut) or any(extent.low > 0 for extent in self._extents)

    def __iter__(self) -> Iterator[Line]:
        for record in self._reader.read(self._extents, silent_s=_SILENT_FOR_AT_MOST_S):
            if record.value is None:
                continue  # a cluster was forgotten here: neither a change nor damage
            place = f"{record.topic}[{record.partition}]@{record.offset}"
            yield Line(place, record.value)


@contextmanager
def open_topic(
    settings: PipelineSettings, topic: str, *, cluster: str | None = None
) -> Iterator[TopicLines]:
    """Return the lines of a topic, or of a cluster's partition of it; raises TopicReadError."""
    group = f"{settings.topic_prefix}.replay-{uuid.uuid4().hex[:12]}"
    with RecordReader(settings, group) as reader:
        count = reader.partitions(topic, timeout_s=_REQUEST_TIMEOUT_S)
        chosen = range(count) if cluster is None else [partition_of(cluster, count)]
        places = [(topic, partition) for partition in chosen]
        yield TopicLines(reader, reader.extents(places, timeout_s=_REQUEST_TIMEOUT_S))
