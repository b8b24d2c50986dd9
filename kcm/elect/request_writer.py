"""Write to the pipeline's log which elections are about to be requested, so that grades can tell them from others.

This helps whoever reads the grade and is never a reason not to elect. The record is
written before Kafka is asked. A failed write is reported once, and the run continues without it.
The log's address comes from the user's own settings, because an exporter could name any address.
"""

import uuid
from collections.abc import Mapping, Sequence

from controller_model.kafka.ids import TopicPartition, partition_of
from controller_model.records.changes import VERSION
from controller_model.records.election_requests import ElectionRequest, encode_request
from kcm.cli.text import warn
from kcm.elect.run import Elect
from pipeline.clock import clock_ms
from pipeline.runtime import KcmError
from pipeline.settings import PipelineSettings
from pipeline.topic_reader import RecordReader
from pipeline.topic_writer import NewRecord, RecordWriter
from pipeline.topics import check_writable, topic_names

_TIMEOUT_S = 5.0
"""How long the log may take: a slower one is not waited for, because the elections matter more."""


class RequestWriter:
    """Writes which partitions of one cluster are to be elected."""

    def __init__(self, settings: PipelineSettings, cluster: str, *, holds_s: float) -> None:
        """Take for how long after a request elections may follow."""
        self._settings = settings
        self._cluster = cluster
        self._holds_ms = int(holds_s * 1000)
        self._topic = topic_names(settings.topic_prefix).changes
        self._place: tuple[RecordWriter, int] | None = None
        self._has_failed = False

    def recorded(self, elect: Elect) -> Elect:
        """Return a way to elect that writes first: a record behind its elections names none of them."""

        def ask(partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str | None]:
            self.write(partitions)
            return elect(partitions)

        return ask

    def write(self, partitions: Sequence[TopicPartition]) -> None:
        """Record that these elections are requested now; warn, once, when that fails."""
        if self._has_failed:
            return
        request = ElectionRequest(
            v=VERSION,
            cluster=self._cluster,
            kind="election_requested",
            partitions=tuple(partitions),
            requested_at=clock_ms(),
            holds_ms=self._holds_ms,
        )
        try:
            self._place = self._place or self._open()
            writer, partition = self._place
            record = NewRecord(self._cluster, encode_request(request))
            writer.write(self._topic, partition, [record])
        except KcmError as error:
            self._has_failed = True
            warn(f"the grade will not name these elections: {error}")

    def _open(self) -> tuple[RecordWriter, int]:
        """Return the writer, and the cluster's partition of the log."""
        group = f"{self._settings.topic_prefix}.elect-{uuid.uuid4().hex[:12]}"
        with RecordReader(self._settings, group) as reader:
            partitions = reader.partitions(self._topic, timeout_s=_TIMEOUT_S)
        check_writable(self._settings, self._topic)
        writer = RecordWriter(self._settings, within_s=_TIMEOUT_S)
        return writer, partition_of(self._cluster, partitions)
