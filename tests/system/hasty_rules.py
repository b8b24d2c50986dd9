"""The shipped rules with short times: the same expressions, with seconds in place of minutes.

Only waiting times, windows of time and limits that are times or counts over time are
made smaller. The figures of a rule and their comparison stay as shipped, except that elections and
leaves of ISRs are counted by the epoch and the counter: the windows of the shipped figures are the exporter's.
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
    "KafkaRequestStuck": 2,
    "KafkaIsrFlapping": 2,
    "KcmBehind": 15,
    "KcmBehindForLong": 15,
}
"""Limits that are a time, or a count over a window; 15 s is above what a quiet cluster shows."""


STANDSTILL = {REASSIGNMENT_STALLED: "5s"}
"""Signals of a window in which nothing happened: it must fit into the failure."""

BY_COUNTERS = (
    (
        r"max by \(cluster\) \(kafka_controller_recent_elections\{(.*?), window=.*?\}\)",
        (
            r"max by (cluster) (kafka_controller_epoch{\1}) "
            r"- min by (cluster) (min_over_time(kafka_controller_epoch{\1}[1m]))"
        ),
    ),
    (
        r"max by \(cluster, broker\) \(kafka_broker_recent_isr_leaves\{(.*?), window=.*?\}\)",
        r"changes((max by (cluster, broker) (kafka_broker_isr_leaves_total{\1}))[1m:1s])",
    ),
)
"""Patterns of figures over the exporter's own windows, and what counts the same over a short one."""


def hasty(signal: Signal, expr: str) -> str:
    """Return an expression of the signal with each window of time made short."""
    window = STANDSTILL.get(signal, WINDOW)
    for pattern, counted in BY_COUNTERS:
        expr = re.sub(pattern, counted, expr)
    short = re.sub(r"\[\d+[a-z]\]", f"[{window}]", expr)
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
    short = shipped._replace(limit=HASTY_LIMITS.get(alert.name, shipped.limit), for_s=1)
    rule = alert.rule()
    expr = str(rule["expr"]).removesuffix(shipped.condition) + short.condition
    times = {"for": short.for_text, "keep_firing_for": "1s"}
    return {**rule, "expr": hasty(alert.signal, expr), **times}
