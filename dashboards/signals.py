"""All signals, for those who go through them; each has its home beside what it is about."""

from __future__ import annotations

from dashboards import (
    signals_brokers,
    signals_controller,
    signals_fleet,
    signals_partitions,
    signals_pipeline,
)
from dashboards.signal import Signal

_HOMES = (
    signals_controller,
    signals_partitions,
    signals_brokers,
    signals_pipeline,
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
