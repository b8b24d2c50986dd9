"""Signals of the first screen: what is wrong now, without figures that are no longer current.

A figure that no longer follows its cluster is shown as stale, by a special value, so that no
dashboard shows it green. The graphs still show the figure as it was.
"""

import dataclasses
import re

from dashboards.signals import brokers
from dashboards.signals.pipeline import FOLLOWED
from dashboards.signals.signal import Signal, age, highest, selected

STALE = -2
"""The value of a stale figure. No real figure is negative, except -1 for no controller."""

_FOLLOWS = f"on (cluster) ({FOLLOWED.expr} == 1)"

_FIRES = 'alertstate="firing"'
STALE_MEANING = f"Stale ({STALE}): the figures do not follow the cluster now."
"""What panels say about the value."""


def _or_stale(expr: str) -> str:
    """Return an expression that is STALE while the figures of its cluster do not follow."""
    return f"({expr}) and {_FOLLOWS} or 0 * ({expr}) - {-STALE}"


def unless_stale(signal: Signal) -> Signal:
    """Return the signal, stale while its cluster's figures do not follow; it must have a series for each cluster."""
    return dataclasses.replace(signal, expr=_or_stale(signal.expr), shows_stale=True)


def while_followed(signal: Signal) -> Signal:
    """Return the signal without stale series: panels that show its names show FIGURES_STALE next to it."""
    return dataclasses.replace(signal, expr=f"({signal.expr}) and {_FOLLOWS}")


NOT_IN_KRAFT = -3
"""The value of a figure that a KRaft cluster does not have."""


def unless_in_kraft(signal: Signal) -> Signal:
    """Return the signal, with a series of its own that is NOT_IN_KRAFT, and names itself so, for a KRaft cluster."""
    marked = f"0 * {highest('kafka_quorum_log_end_offset')} - {-NOT_IN_KRAFT}"
    for label in re.findall(r"{{(\w+)}}", signal.legend)[:1]:
        marked = f'label_replace({marked}, "{label}", "not in KRaft", "", "")'
    return dataclasses.replace(signal, expr=f"({signal.expr}) or {marked}")


FIGURES_STALE = Signal(
    expr=f"0 * absent(({FOLLOWED.expr}) == 1) - {-STALE}",
    meaning=f"{STALE} (stale) while the figures do not follow the cluster or no exporter serves them.",
    normal="not shown.",
    action="See the board Pipeline.",
    runbook="KcmBlind",
    legend="stale",
)
BROKERS_GONE_NOW = dataclasses.replace(
    brokers.BROKER_GONE,
    expr=f"{_or_stale(brokers.BROKER_GONE.expr)} or "
    f'label_replace({FIGURES_STALE.expr}, "broker", "any other", "", "")',
    meaning=f"{brokers.BROKER_GONE.meaning} While the figures are stale, the row \u201cany other\u201d is for brokers "
    "whose state is not known.",
    shows_stale=True,
)
"""An empty table means that no broker is gone, so while that is not known there is a row that says so."""

TIME_SINCE_ELECTION = Signal(
    expr=f"({age('kafka_controller_elected_timestamp_seconds')}) and {_FOLLOWS}",
    unit="dtdurations",
    meaning="Time since the controller was elected, from the cluster's clock to Prometheus's. Empty while there is no "
    "controller or the figures are stale.",
    normal="days or weeks.",
    action="If it is short and you restarted no broker, see the elections beside it.",
    runbook="KafkaControllerFlapping",
    legend="since its election",
)
FIRING = Signal(
    expr=f"max by (cluster, alertname, severity) ({selected('ALERTS', only=_FIRES)})",
    meaning="Alerts about the cluster that fire now in Prometheus. Always empty if the alert rules are "
    "not loaded.",
    normal="empty.",
    action="Click on an alert to open its runbook.",
    legend="{{alertname}}",
)
