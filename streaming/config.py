"""Settings of the fold.

The rule: what changes how fast or where the fold runs may change at any start; what changes its
figures (the assumed broker settings) takes effect with the next batch and is shown in the views.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from pipeline.settings import PipelineSettings

DEFAULT_METRICS_PORT = 9642
LARGEST_PORT = 65535


class StreamSettings(PipelineSettings):
    """What the fold needs besides the topics."""

    checkpoint_dir: Path = Field(
        Path("~/.local/state/kcm/checkpoint"),
        description="Folder of the fold's state, offsets and temporary files, on a fast local "
        "disk. One fold at a time may use it. Without it the fold starts anew from the log.",
    )
    max_offsets_per_trigger: int = Field(
        100,
        ge=1,
        le=10_000,
        description="Messages of the log that one batch takes at most (a message has up to 500 "
        "changes, 512 KiB): bounds a batch's memory, and how long a cluster's resync delays the "
        "others.",
    )
    driver_memory: str = Field(
        "1g",
        pattern=r"^[1-9][0-9]*[mg]$",
        description="Heap of Spark's JVM, such as 1g; RocksDB and Python come on top.",
    )
    spark_master: str = Field(
        "local[2]",
        description="Spark's master: local[N] for N threads on this machine, or a cluster's URL.",
    )
    spark_conf: dict[str, str] = Field(
        default_factory=dict,
        description="More Spark properties; they win over ours. As JSON in the environment.",
    )
    connector_jars: Annotated[tuple[Path, ...], NoDecode] = Field(
        (),
        description="Jars of Spark's Kafka connector, separated by commas or colons; `kcm stream` "
        "downloads and fills them in.",
    )
    java_home: Path | None = Field(
        None, description="Where Java 17 or newer is; JAVA_HOME or the one on PATH if not given."
    )
    poll_delay_ms: int = Field(
        10,
        ge=1,
        le=10_000,
        description="Pause between two checks for new records when there are none: larger is "
        "slower to notice and saves processor time.",
    )
    topic_check_interval_s: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="How often the topics are checked for having been deleted or re-created.",
    )
    stream_metrics_port: int = Field(
        DEFAULT_METRICS_PORT,
        ge=0,
        le=LARGEST_PORT,
        description="Port of the fold's own /metrics; 0 takes a free one and logs it.",
    )
    assumed_min_insync_replicas: int = Field(
        1,
        ge=1,
        description="min.insync.replicas that the watched brokers have in their own files, which "
        "ZooKeeper does not show.",
    )
    assumed_leader_imbalance_percentage: int = Field(
        10,
        ge=0,
        le=100,
        description="leader.imbalance.per.broker.percentage that the watched brokers have in their "
        "own files: above it elections are recommended.",
    )

    @field_validator("checkpoint_dir", "java_home")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else value

    @field_validator("connector_jars", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        if isinstance(value, str):
            separators = "," + re.escape(os.pathsep)
            return tuple(Path(part) for part in re.split(f"[{separators}]", value) if part.strip())
        return value
