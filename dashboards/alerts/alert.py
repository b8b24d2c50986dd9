"""What an alert is: a signal, a condition, and what an operator at night must know.

The rule: an alert names a signal and a condition, and states its meaning, its likely causes, the
first thing to do and the command for it. It has no labels but the signal's own and a severity, so
it stays one alert when an exporter moves. A short gap in the scrapes does not end it: it is kept
firing over one. No rule is silent during a restart: silences are Alertmanager's.
"""

from __future__ import annotations

import dataclasses
import enum

from dashboards.signals.signal import Signal

KEEP_FIRING_FOR = "2m"
"""Longer than an exporter takes to restart and read the topics: an alert that ends and comes again
because of it wakes people twice."""

RUNBOOKS = "docs/runbooks"
"""Where the pages are, from the project's root. The chart puts prometheusRule.runbookBaseUrl in its
place; who loads the file as it is replaces it where the pages are served."""


class Severity(enum.StrEnum):
    """Who is notified: somebody now, or somebody during the day."""

    CRITICAL = "critical"
    WARNING = "warning"


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
    condition: str = ""
    """What is compared with the signal; empty: a series means the alert."""
    hold: str = "0s"
    """For how long it must be so (`for`)."""
    severity: Severity = Severity.WARNING
    summary: str
    meaning: str
    cause: str
    action: str
    command: str

    @property
    def expr(self) -> str:
        """The rule's expression."""
        signal = self.signal.in_rules()
        return f"({signal}) {self.condition}" if self.condition else signal

    def rule(self) -> dict[str, object]:
        """Return the rule as Prometheus reads it."""
        description = (
            f"Meaning: {self.meaning}\nCause: {self.cause}\n"
            f"First action: {self.action}\nCommand: {self.command}\n"
        )
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.hold,
            "keep_firing_for": KEEP_FIRING_FOR,
            "labels": {"severity": str(self.severity)},
            "annotations": {
                "summary": self.summary,
                "description": description,
                "runbook_url": f"{RUNBOOKS}/{self.name}.md",
            },
        }
