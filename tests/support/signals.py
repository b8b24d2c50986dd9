"""All signals of the dashboards and alerts, by name, and those that move by series instead of values."""

from __future__ import annotations

from dashboards.signals import (
    brokers,
    controller,
    delay,
    first_screen,
    fleet,
    incidents,
    partitions,
    pipeline,
    quorum,
    zookeeper,
)
from dashboards.signals.signal import Signal

_HOMES = (
    controller,
    quorum,
    zookeeper,
    partitions,
    brokers,
    incidents,
    pipeline,
    delay,
    fleet,
    first_screen,
)

SIGNALS: dict[str, Signal] = {
    constant.lower(): value
    for home in _HOMES
    for constant, value in vars(home).items()
    if isinstance(value, Signal)
}
"""All of them by name, in the order of their definition."""

APPEARING = {
    "there is one series for each value that it can have": (
        controller.FAILOVER,
        controller.CONTROLLER_HEALTH,
        incidents.INCIDENT,
        incidents.INCIDENT_ABNORMAL,
        pipeline.STATUS,
    ),
    "there is none before the first": (
        controller.LAST_VACANCY,
        controller.LAST_VACANCY_AT_MOST,
        controller.LAST_FAILOVER,
        incidents.INCIDENT_AGE,
    ),
    "there is none while nothing is due, under way or wrong": (
        brokers.BROKER_GONE,
        brokers.BROKER_NOT_REGISTERED,
        brokers.BROKER_FENCED,
        brokers.BROKER_GONE_AT_MIN_ISR,
        brokers.BROKER_MENDABLE,
        first_screen.BROKERS_GONE_NOW,
        first_screen.FIGURES_STALE,
        first_screen.FIRING,
        pipeline.NO_WATCHER_LEADS,
        pipeline.NOT_SERVED,
        brokers.BROKER_UNMENDABLE,
        controller.OLDEST_PENDING_WRITE,
        controller.FAILOVER_AGE,
        partitions.REASSIGNMENT_STALLED,
        partitions.DELETION_AGE,
        partitions.REQUEST_AGE,
        pipeline.BLIND,
        quorum.QUORUM_NOT_KNOWN,
        quorum.UNKNOWN_RECORDS,
        partitions.TOPIC_OFFLINE,
        partitions.TOPIC_UNDER_MIN_ISR,
        partitions.TOPIC_UNDER_REPLICATED,
    ),
    "there is none of a small cluster, of a broker that is gone, or without a server that answers": (
        brokers.BROKER_SKEW_LARGE,
        brokers.BROKER_SAFE_TO_STOP,
        zookeeper.SERVER,
        zookeeper.ROLE,
        zookeeper.LATENCY_MOST,
    ),
}
"""Signals that move by series that come or go: a series never changes its value."""


def appears(signal: Signal) -> bool:
    """Return whether the signal moves by series that come or go."""
    return any(signal in signals for signals in APPEARING.values())
