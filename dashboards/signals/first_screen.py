"""Signals of the first screen: what is wrong now, without figures that are no longer current.

The rule: a figure that no longer follows ZooKeeper is shown as stale, by a special value, so that no
dashboard shows it green. The graphs still show the figure as it was.
"""

import dataclasses

from dashboards.signals import brokers, controller
from dashboards.signals.pipeline import FOLLOWED
from dashboards.signals.signal import DrillStep, Signal, age, selected

STALE = -2
"""The value of a stale figure. No real figure is negative, except -1 for no controller."""

_FOLLOWS = f"on (cluster) ({FOLLOWED.expr} == 1)"

_FIRES = 'alertstate="firing"'


def _or_stale(expr: str) -> str:
    """Return an expression that is STALE while the figures of its cluster do not follow."""
    return f"({expr}) and {_FOLLOWS} or 0 * ({expr}) - {-STALE}"


def unless_stale(signal: Signal) -> Signal:
    """Return the signal, stale while its cluster's figures do not follow; it must have a series for each cluster."""
    return dataclasses.replace(
        signal,
        expr=_or_stale(signal.expr),
        description=f"{signal.description} Stale ({STALE}): the figures do not follow ZooKeeper now.",
    )


def while_followed(signal: Signal) -> Signal:
    """Return the signal without stale series: panels that show its names show FIGURES_STALE next to it."""
    return dataclasses.replace(signal, expr=f"({signal.expr}) and {_FOLLOWS}")


FIGURES_STALE = Signal(
    expr=f"0 * absent(({FOLLOWED.expr}) == 1) - {-STALE}",
    description=f"Stale ({STALE}), shown only while the figures do not follow ZooKeeper or no exporter serves them.",
    legend="stale",
    moved_by=DrillStep.BLIND,
)
_ANY_OTHER = f'label_replace({FIGURES_STALE.expr}, "broker", "any other", "", "")'
BROKERS_GONE_NOW = dataclasses.replace(
    brokers.BROKER_GONE,
    expr=f"{_or_stale(brokers.BROKER_GONE.expr)} or {_ANY_OTHER}",
    description=f"{brokers.BROKER_GONE.description} Stale ({STALE}), with a row for any other broker: the "
    "figures do not follow ZooKeeper now, or no exporter serves them.",
)
"""An empty table means that no broker is gone, so while that is not known there is a row that says so."""

TIME_SINCE_ELECTION = Signal(
    expr=f"({age('kafka_controller_elected_timestamp_seconds')}) and {_FOLLOWS}",
    unit="dtdurations",
    description="Time since the controller was elected, by ZooKeeper's clock; days or weeks in a "
    "healthy cluster. Compares the clocks of two machines. Empty while there is no "
    "controller, and while the figures do not follow ZooKeeper.",
    legend="since its election",
    moved_by=controller.CONTROLLER_ELECTED_AT.moved_by,
)
FIRING = Signal(
    expr=f"max by (cluster, alertname, severity) ({selected('ALERTS', only=_FIRES)})",
    description="Alerts about the cluster that fire now, as Prometheus evaluates them; normally "
    "empty, and always empty where the rules are not loaded.",
    legend="{{alertname}}",
    moved_by=DrillStep.BLIND,
)
