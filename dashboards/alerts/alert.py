"""What an alert is: a signal, a condition, and what an operator at night must know.

The rule: an alert names a signal, takes its condition from the one table of thresholds, and states its
meaning, its likely causes, the first thing to do and the command for it. It has no labels but the signal's own and a severity, so
it stays one alert when an exporter moves. A short gap in the scrapes does not end it: it is kept
firing over one. No rule is silent during a restart: silences are Alertmanager's.
"""

import dataclasses

from controller_model.insights.thresholds import THRESHOLDS, Threshold
from dashboards.signals.signal import RUNBOOKS, Signal

KEEP_FIRING_FOR = "2m"
"""Longer than an exporter takes to restart and read the topics: an alert that ends and comes again
because of it wakes people twice."""


CLUSTER = "Kafka cluster {{ $labels.cluster }}"
BROKER = "{{ $labels.broker }} of " + CLUSTER
VALUE = "{{ $value }}"
PERCENT = "{{ $value | humanizePercentage }}"
DURATION = "{{ $value | humanizeDuration }}"
"""What Prometheus writes into the texts of an alert."""


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
        """When it fires, by the one table that the live page judges by as well."""
        return THRESHOLDS[self.name]

    def rule(self, threshold: Threshold | None = None) -> dict[str, object]:
        """Return the rule as Prometheus reads it; with a threshold, one that fires by that."""
        by = threshold or self.threshold
        description = (
            f"Meaning: {self.meaning}\nCause: {self.cause}\n"
            f"First action: {self.action}\nCommand: {self.command}\n"
        )
        return {
            "alert": self.name,
            "expr": self._compared(by),
            "for": by.hold,
            "keep_firing_for": KEEP_FIRING_FOR,
            "labels": {"severity": str(by.severity)},
            "annotations": {
                "summary": self.summary,
                "description": description,
                "runbook_url": f"{RUNBOOKS}/{self.name}",
            },
        }

    def _compared(self, threshold: Threshold) -> str:
        signal = self.signal.in_rules()
        return f"({signal}) {threshold.condition}" if threshold.condition else signal
