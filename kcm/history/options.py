"""What a user gives to `kcm replay` and `kcm bundle`: settings, and places in a log.

The settings have the same names as those of the parts, so one configuration file and one
environment serve all. A place in a log is GENERATION:SEQ, or a time.
"""

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from controller_model.history.log_replay import Point
from controller_model.history.snapshot import AsOfLog
from controller_model.kafka.ids import Position
from controller_model.state.control_plane import Assumed
from kcm.cli.options import Options
from kcm.cli.parts import all_names
from kcm.cli.text import read_milliseconds, time_text
from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings, load
from streaming.config import MinIsr, by_cluster

NAMES = (
    "assumed_min_insync_replicas",
    "bootstrap_servers",
    "kafka_properties",
    "min_insync_replicas",
    "secrets_dir",
    "topic_prefix",
)
"""The settings that are options; the others are only for the parts."""

_ByCluster = Annotated[dict[str, MinIsr], NoDecode, BeforeValidator(by_cluster)]
_POSITION = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")


class ReplaySettings(PipelineSettings):
    """The settings of a replay."""

    min_insync_replicas: _ByCluster = Field(
        default_factory=dict,
        description="min.insync.replicas where ZooKeeper sets none, by cluster: prod=2,stage=1. "
        "For a cluster that is missing here, the figures that depend on it are not "
        "known. [default: for a bundle, the value with which it was made]",
    )
    assumed_min_insync_replicas: MinIsr | None = Field(
        None, description="Value for all clusters that min_insync_replicas does not name."
    )

    def assumed(self, cluster: str, made_with: int | None = None) -> Assumed:
        """Return the values assumed for a cluster; `made_with` is the value in the bundle that holds its log."""
        assumed = self.min_insync_replicas.get(cluster, self.assumed_min_insync_replicas)
        return Assumed(min_insync_replicas=made_with if assumed is None else assumed)


def load_replay(config: Path | None, options: Options) -> ReplaySettings:
    """Return the settings; raises UsageError."""
    return load(ReplaySettings, config, known=all_names(), **options)


def read_point(option: str, text: str) -> Point:
    """Return a place by its position or its time; raises UsageError, naming the option.

    >>> read_point("--diff", "2026-11-21T10:00:00+01:00") == read_point("--diff", "1795251600000")
    True
    """
    if _POSITION.fullmatch(text):
        return read_position(option, text)
    return Point(at=read_milliseconds(option, text))


def read_position(option: str, text: str) -> Point:
    """Return a place by its position; raises UsageError.

    >>> read_position("--until", "7:12").until
    Position(generation=7, seq=12)
    """
    match = _POSITION.fullmatch(text)
    if match is None:
        raise UsageError(f"option {option}: {text!r} is not GENERATION:SEQ, such as 68719477000:17")
    return Point(until=Position(int(match[1]), int(match[2])))


def position_text(position: Position | AsOfLog) -> str:
    """Return a position in the form that `--until` reads."""
    return f"{position.generation}:{position.seq}"


def place_text(position: Position | AsOfLog, at_ms: int) -> str:
    """Return a place in a log as text: its position, and its time."""
    return f"{position_text(position)}, {time_text(at_ms)}"
