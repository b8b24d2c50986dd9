"""What a user gives to `kcm replay` and `kcm bundle`: settings, and places in a log.

The rule: the settings are the other parts' under the same names, so one configuration file and one
environment do for all. A place in a log is GENERATION:SEQ, or a time.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field

from controller_model.history.log_replay import Point
from controller_model.kafka.ids import Position
from kcm.cli.options import Options
from kcm.cli.parts import all_names
from kcm.cli.text import read_milliseconds
from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings, load

TITLE = "The pipeline"
NAMES = ("assumed_min_insync_replicas", "bootstrap_servers", "kafka_properties", "topic_prefix")
"""The settings that are options; the rest is for parts that run."""

_POSITION = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")


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


def read_point(option: str, text: str) -> Point:
    """Return the place of either kind; raises UsageError, naming the option."""
    if _POSITION.fullmatch(text):
        return read_position(option, text)
    return read_time(option, text)


def read_position(option: str, text: str) -> Point:
    """Return a place by its position; raises UsageError.

    >>> read_position("--until", "7:12").until
    Position(generation=7, seq=12)
    """
    match = _POSITION.fullmatch(text)
    if match is None:
        raise UsageError(f"option {option}: {text!r} is not GENERATION:SEQ, such as 68719477000:17")
    return Point(until=Position(int(match[1]), int(match[2])))


def read_time(option: str, text: str) -> Point:
    """Return a place by its time: ISO 8601 with a zone, or milliseconds since 1970.

    >>> read_time("--at", "2026-11-21T10:00:00+01:00").at == read_time("--at", "1795251600000").at
    True
    """
    return Point(at=read_milliseconds(option, text))
