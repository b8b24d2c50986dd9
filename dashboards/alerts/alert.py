"""Define an alert: a signal, a condition, and what an operator at night must know.

An alert names a signal, takes its condition from the one table of thresholds, and states its meaning,
its likely causes, the first thing to do and the command for it. Its only labels are the signal's own and a
severity, so it stays the same alert when an exporter moves. A short gap in the scrapes does not resolve it
(`keep_firing_for`). No rule is disabled during a restart: silences are Alertmanager's.
"""

import dataclasses

from controller_model.insight.thresholds import THRESHOLDS, Threshold
from dashboards.signals.signal import RUNBOOKS, Signal

KEEP_FIRING_FOR = "2m"
"""Longer than an exporter takes to restart and read the topics: an alert that resolves and fires again
because of a restart wakes people twice."""


CLUSTER = "Kafka cluster {{ $labels.cluster }}"
BROKER = "{{ $labels.broker }} of " + CLUSTER
VALUE = "{{ $value }}"
PERCENT = "{{ $value | humanizePercentage }}"
DURATION = "{{ $value | humanizeDuration }}"
"""The template by which Prometheus writes the value as a duration into an alert's texts."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """One alert rule."""

    name: str
    signal: Signal
    summary: str
    meaning: str
    cause: str
    action: str
    command: str

    @property
    def threshold(self) -> Threshold:
        """When it fires, from the one table that the live page uses, too."""
        return THRESHOLDS[self.name]

    def rule(self) -> dict[str, object]:
        """Return the rule as Prometheus reads it."""
        threshold = self.threshold
        expr = self.signal.in_rules()
        description = (
            f"Meaning: {self.meaning}\nCause: {self.cause}\n"
            f"First action: {self.action}\nCommand: {self.command}\n"
        )
        return {
            "alert": self.name,
            "expr": f"({expr}) {threshold.condition}" if threshold.condition else expr,
            "for": threshold.for_text,
            "keep_firing_for": KEEP_FIRING_FOR,
            "labels": {"severity": str(threshold.severity)},
            "annotations": {
                "summary": self.summary,
                "description": description,
                "runbook_url": f"{RUNBOOKS}/{self.name}",
            },
        }
