"""Alerts about the monitor itself: that it does not see, is late, or may be wrong.

The rule: while one of these fires, the silence of the others proves nothing.
"""

from __future__ import annotations

from dashboards.alerts.alert import CLUSTER, DURATION, Alert, Severity
from dashboards.signals import pipeline as signals
from dashboards.signals.thresholds import CLOCKS_DISAGREE_SECONDS, LATE_SECONDS

ALERTS: tuple[Alert, ...] = (
    Alert(
        name="KcmBlind",
        signal=signals.BLIND,
        hold="1m",
        severity=Severity.CRITICAL,
        summary=f"Nobody sees what {CLUSTER} does now.",
        meaning="The watcher has no ZooKeeper session, or no exporter that serves the cluster is "
        "scraped. The other alerts of this cluster show what was true then, and are silent "
        "about what happened since.",
        cause="ZooKeeper is down or cannot be reached, the watcher may not log in, the exporter "
        "is down, or its target is missing in Prometheus. A cluster that was taken out and "
        f"forgotten is missed for {signals.SEEN_WINDOW}.",
        action="See whether the exporter answers /readyz. If it does, read the log of the watcher "
        "for its session; if not, its own log and its target in Prometheus.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmBehind",
        signal=signals.BEHIND,
        condition=f"> {LATE_SECONDS}",
        hold="1m",
        severity=Severity.CRITICAL,
        summary=f"The figures of {CLUSTER} are late: no sign of life of the stage "
        f"{{{{ $labels.stage }}}} for {DURATION}.",
        meaning="The figures are still served, but do not follow any more. The stages are watcher, "
        "fold and exporter; the first of them that is late is the one to investigate.",
        cause="That stage is down, hangs or is overloaded, the pipeline's Kafka does not answer, "
        "or the cluster was taken out and not forgotten.",
        action="Read the log of that stage; check the pipeline's Kafka if several stages are late.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmClocksDisagree",
        signal=signals.CLOCK_SKEW,
        condition=f"> {CLOCKS_DISAGREE_SECONDS}",
        hold="5m",
        summary=f"The clocks of {CLUSTER}'s exporter and of the stage {{{{ $labels.stage }}}} are "
        f"{DURATION} apart.",
        meaning="The figures follow ZooKeeper all the same: no clock decides that. Times in events, "
        "incidents and on the page are wrong by as much, in one direction or the other.",
        cause="The clock of that machine is not set by NTP, or the exporter's is not, if the "
        "alert fires for both stages.",
        action="Compare `date` on the machines of the watcher, the fold and the exporter, and set "
        "the clock of the one that differs.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KcmIncompleteOrDivergent",
        signal=signals.DOUBTFUL,
        condition="> 0",
        hold="5m",
        summary=f"Figures of {CLUSTER} may be wrong.",
        meaning="Changes may lack (incomplete), or a reconciliation proved that the figures are not what "
        "ZooKeeper holds (divergent), and no resync has mended it.",
        cause="Changes were lost on the way (a hole in the log, a full buffer while Kafka was "
        "away), and the resync that was asked for does not end: ZooKeeper is slow or "
        "refuses reads.",
        action="Open the board Pipeline: resyncs wanted and under way, paths that may not be "
        "read; then at the watcher's log. Restarting the watcher starts a resync.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1h",
    ),
)
