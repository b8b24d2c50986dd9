"""The exporter's settings.

Every setting is defined here with its bounds and its reason; the reference of all settings
is generated from these descriptions.
"""

from pydantic import Field

from exporter.core.alert_settings import AlertChanges
from pipeline.runtime import EXPORTER_PORT
from pipeline.settings import PipelineSettings


class ExportSettings(PipelineSettings):
    """Where the exporter serves, and what it keeps."""

    host: str = Field(
        "127.0.0.1",
        description="Address that the exporter's HTTP server listens on; 0.0.0.0 for all. By "
        "default it asks for no password, so open it only to a network that you trust.",
    )
    port: int = Field(
        EXPORTER_PORT, ge=0, le=65535, description="Port of the HTTP server; 0 takes a free one."
    )
    partition_metrics: bool = Field(
        default=False,
        description="Serve /metrics/partitions: five series per partition in kafka_exporter's "
        "names. Each series costs Prometheus about 8 kB of memory.",
    )
    events_kept: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="Number of newest events kept in memory for each cluster, up to 32 MiB for one "
        "cluster and 256 MiB for all.",
    )
    kafka_gone_s: float = Field(
        15.0,
        ge=1,
        le=3600,
        description="Seconds without an answer of the pipeline's Kafka after which /readyz returns "
        "503; the figures are still served.",
    )
    forget_after_s: float = Field(
        600.0,
        ge=1,
        le=7 * 24 * 3600,
        description="Seconds after which the exporter drops a cluster that is missing from a "
        "re-created views topic.",
    )
    alerts: AlertChanges = Field(
        default_factory=dict,
        description="Changes that your rules make to the shipped alerts, by name, so that the live "
        "page judges by the same limits: enabled, threshold, for, severity, as JSON: "
        '{"KafkaLeadersSkewed": {"enabled": false}}. The chart passes those of '
        "prometheusRule.alerts.",
    )
