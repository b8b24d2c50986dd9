"""What a user gives to `kcm replay` and `kcm bundle`: settings, and places in a log.

The rule: the settings are the other parts' under the same names, so one configuration file and one
environment do for all. A place in a log is GENERATION:SEQ, or a time.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field

from controller_model.history.log_replay import Point
from controller_model.history.snapshot import AsOfLog
from controller_model.kafka.ids import Position
from kcm.cli.options import Options
from kcm.cli.parts import all_names
from kcm.cli.text import read_milliseconds, time_text
from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings, load

NAMES = (
    "assumed_min_insync_replicas",
    "bootstrap_servers",
    "kafka_properties",
    "secrets_dir",
    "topic_prefix",
)
"""The settings that are options; the rest is for parts that run."""

_POSITION = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")


class ReplaySettings(PipelineSettings):
    """What a replay needs besides a log."""

    assumed_min_insync_replicas: int | None = Field(
        None,
        ge=1,
        le=2**31 - 1,
        description="min.insync.replicas where ZooKeeper sets none; not known without it. "
        "[default: of a bundle, what it was made with]",
    )


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
    """Return a position as people and `--until` read it."""
    return f"{position.generation}:{position.seq}"


def place_text(position: Position | AsOfLog, at_ms: int) -> str:
    """Return a place in a log as text: its position, and the time there."""
    return f"{position_text(position)}, {time_text(at_ms)}"
