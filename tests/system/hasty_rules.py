"""The shipped rules with short times: the same expressions, with seconds in place of minutes.

The rule: only waiting times, windows of time and limits that are times or counts over time are
made smaller. What a rule looks at, and how it compares, stays as it is shipped. Elections and
leaves of ISRs are counted by the epoch and the counter, as of an older exporter: the windows of the other figures
are the exporter's.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from dashboards.alerts.alert import Alert
from dashboards.alerts.rules import ALERTS
from dashboards.signals.partitions import REASSIGNMENT_STALLED
from dashboards.signals.signal import Signal

WINDOW = "60s"
"""Longer than any failure of the drill needs to be counted, short enough to see it forgotten."""

HASTY_LIMITS = {
    "KafkaControllerFailoverSlow": 3,
    "KafkaReassignmentStuck": 3,
    "KafkaTopicDeletionStuck": 2,
    "KafkaIsrFlapping": 2,
    "KcmBehind": 15,
    "KcmBehindForLong": 15,
}
"""Limits that are a time, or a count over a window; 15 s is above what a quiet cluster shows."""


STANDSTILL = {REASSIGNMENT_STALLED: "5s"}
"""Signals of a window in which nothing happened: it must fit into the failure."""


def hasty(signal: Signal, expr: str) -> str:
    """Return an expression of the signal with each window of time made short."""
    window = STANDSTILL.get(signal, WINDOW)
    by_counters = re.sub(r"max by \([\w, ]+\) \(kafka_\w+_recent_\w+\{.*?\}\) or ", "", expr)
    short = re.sub(r"\[\d+[a-z]\]", f"[{window}]", by_counters)
    return re.sub(r"\[\w+:\w+\]", f"[{window}:1s]", short)


def write_rules(folder: Path) -> Path:
    """Write all alerts, in a hurry, as a file of rules; return it."""
    written = [_hasty(alert) for alert in ALERTS]
    folder.mkdir(exist_ok=True)
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "hasty", "rules": written}]}))
    return path


def _hasty(alert: Alert) -> dict[str, object]:
    shipped = alert.threshold
    short = shipped._replace(limit=HASTY_LIMITS.get(alert.name, shipped.limit), hold_s=1)
    rule = alert.rule()
    expr = str(rule["expr"]).removesuffix(shipped.condition) + short.condition
    times = {"for": short.hold, "keep_firing_for": "1s"}
    return {**rule, "expr": hasty(alert.signal, expr), **times}
