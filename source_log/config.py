"""The settings of every source: which cluster it watches, its signs of life, its buffer.

A source adds how it reaches its cluster, and nothing that another source has as well.
"""

from pydantic import Field, field_validator

from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import check_cluster_name
from pipeline.settings import PipelineSettings


class SourceSettings(PipelineSettings):
    """The settings of every source, in addition to those of the pipeline's Kafka."""

    cluster: str = Field(
        "kafka", description="The name of the watched cluster, unique in the pipeline."
    )
    heartbeat_s: float = Field(
        10.0, gt=0, le=20, description="Seconds between heartbeats in the log."
    )
    beat_s: float = Field(
        1.0,
        gt=0,
        le=2,
        description="Seconds between the watcher's beats (signs of life), which the exporter "
        "reads; without one for 2.9 s, the status of the figures is behind.",
    )
    linger_ms: int = Field(
        500,
        ge=0,
        le=500,
        description="Longest time that a change which is not urgent waits for others, in ms, so that the fold runs "
        "fewer batches; 0: none waits. Another active controller, a broker that comes, goes or is fenced, and a "
        "partition whose leader changes never wait; the others, such as changes of ISRs alone, are sent at once "
        "after as long without a change.",
    )
    reconciliation_interval_s: float = Field(
        300.0,
        gt=0,
        description="Seconds between reconciliations: the znodes, or the newest snapshot and the metadata "
        "log behind it, are read again and compared with the figures.",
    )
    buffer_mib: float = Field(
        64.0,
        gt=0,
        description="Buffer for changes while the pipeline's Kafka is unavailable, in MiB; changes "
        "that do not fit are dropped and counted, and a resync follows.",
    )
    buffer_changes: int = Field(
        200_000,
        gt=0,
        description="Maximum number of changes buffered while the pipeline's Kafka is unavailable.",
    )

    @field_validator("cluster")
    @classmethod
    def _check_cluster(cls, value: str) -> str:
        try:
            return check_cluster_name(value)
        except ModelError as error:
            raise ValueError(str(error)) from None
