"""All signals, for those who go through them; each has its home beside what it is about."""

from __future__ import annotations

from dashboards import (
    signals_brokers,
    signals_controller,
    signals_delay,
    signals_fleet,
    signals_incidents,
    signals_partitions,
    signals_pipeline,
    signals_planned,
    signals_topics,
    signals_zookeeper,
)
from dashboards.signal import Signal

_HOMES = (
    signals_controller,
    signals_zookeeper,
    signals_partitions,
    signals_topics,
    signals_brokers,
    signals_planned,
    signals_incidents,
    signals_pipeline,
    signals_delay,
    signals_fleet,
)

SIGNALS: tuple[Signal, ...] = tuple(
    {
        value.name: value
        for home in _HOMES
        for value in vars(home).values()
        if isinstance(value, Signal)
    }.values()
)
"""All of them, in the order in which they stand in their homes."""
