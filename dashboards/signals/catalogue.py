"""All signals, for those who go through them; each has its home beside what it is about."""

from __future__ import annotations

from dashboards.signals import (
    brokers,
    controller,
    delay,
    fleet,
    incidents,
    partitions,
    pipeline,
    topics,
    zookeeper,
)
from dashboards.signals.signal import Signal

_HOMES = (
    controller,
    zookeeper,
    partitions,
    topics,
    brokers,
    incidents,
    pipeline,
    delay,
    fleet,
)

SIGNALS: dict[str, Signal] = {
    constant.lower(): value
    for home in _HOMES
    for constant, value in vars(home).items()
    if isinstance(value, Signal)
}
"""All of them by name, in the order in which they stand in their homes."""
