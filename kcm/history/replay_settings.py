"""The settings of `kcm replay` and `kcm bundle`: where the topics are, and what the fold assumes.

The rule: they are the other parts' settings under the same names, so one configuration file and
one environment do for all.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from kcm.cli.options import Options
from kcm.cli.parts import all_names
from pipeline.settings import PipelineSettings, load

TITLE = "The pipeline"
NAMES = ("assumed_min_insync_replicas", "bootstrap_servers", "kafka_properties", "topic_prefix")
"""The settings that are options; the rest is for parts that run."""


class ReplaySettings(PipelineSettings):
    """What a replay needs besides a log."""

    assumed_min_insync_replicas: int | None = Field(
        None,
        ge=1,
        le=2**31 - 1,
        description="min.insync.replicas where ZooKeeper sets none. [default: 1; of a bundle, what "
        "it was made with]",
    )


def load_replay(config: Path | None, options: Options) -> ReplaySettings:
    """Return the settings; raises UsageError."""
    return load(ReplaySettings, config, known=all_names(), **options)
