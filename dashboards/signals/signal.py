"""What a signal is: one query, and all that a reader must know about its figure.

The rule: boards and alerts take their expressions from signals and nowhere else, so that a panel
and the alert beside it never disagree. Each selector holds the placeholder `<cluster>`, and `<broker>`
where the metric has brokers: a board puts what its variables choose there, a rule all. Each
expression aggregates the scrape's own labels away, so an exporter that moves to another pod or
address goes on with the same series, and two exporters of one cluster make one. What differs
between the two for a moment is taken from the one that is right: growth is shown only of counters
that began at the same time, and who the controller is by the exporter that has come furthest.
"""

from __future__ import annotations

import dataclasses
import enum

RUNBOOKS = "http://localhost:9640/runbooks"
"""Where an exporter on this machine serves the runbooks. The chart puts the exporter's service, or
prometheusRule.runbookBaseUrl, in its place; who loads the files as they are replaces it."""

CLUSTER_PLACEHOLDER = "<cluster>"
"""Stands in each selector where the cluster is chosen."""

BROKER_PLACEHOLDER = "<broker>"
"""Stands in each selector of a metric of brokers where they are chosen."""

COUNTERS_SINCE = "kcm_cluster_counters_since_timestamp_seconds"
"""Differs between exporters while they change from one lineage to the next, one after the other."""

UNSEEN_WINDOW = "1d"
"""For so long an exporter may have been dead: what happened meanwhile is still reported when it is back."""

FOLDED = "kcm_cluster_folded_timestamp_seconds"
"""The time of what an exporter shows, by the fold's clock: the same one for all exporters."""


class DemoStep(enum.StrEnum):
    """The steps of `kcm demo` by their titles; a test holds them against the story."""

    CREATE = "topics are created under load"
    KILL_FOLLOWER = "a broker is killed that is not the controller"
    KILL_CONTROLLER = "the controller's broker is killed"
    DEPOSE = "/controller is deleted three times in a row"
    BRING_BACK = "the brokers come back, imbalance stays"
    STALL = "a live broker stalls and leaves the ISRs"
    WAKE = "it goes on and rejoins them"
    ELECT = "the preferred election restores the balance"


class DrillStep(enum.StrEnum):
    """What the drill does to real servers, for what is too rare, too long or too rude for the demo."""

    INVITE = "topics are created that invite trouble"
    VACATE = "all brokers hang and /controller is gone"
    FLAP = "/controller is deleted six times in a row"
    BOUNCE = "a broker loses its session three times"
    RESTLESS = "a follower falls behind twice"
    HOLD_UP = "a broker hangs while its replicas are moved and deleted"
    UNCLEAN = "the last in-sync replica dies and an older one takes over"
    GHOST = "the controller hangs while a broker dies"
    IDLE = "a controller is elected that does not begin its work"
    DISK = "a log directory is lost"
    BLIND = "ZooKeeper is killed"
    UNWATCHED = "the watcher is killed while elections pass"
    MEDDLE = "somebody writes into ZooKeeper by hand"
    DENY = "the right to read a path is taken"
    FLOOD = "the pipeline's Kafka hangs under a burst"
    HOLE = "the fold hangs and is killed, and the log loses records"
    UNSERVED = "the exporter is killed"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """One query and all that a reader must know about its figure; its constant is its name."""

    expr: str
    """PromQL with the placeholders in each selector."""
    description: str
    """What it means and what a healthy cluster shows."""
    legend: str
    """Grafana's template for the name of a series."""
    moved_by: DemoStep | DrillStep | None
    """The step of the demo, or of the drill, that must move it; None: none can, see `unmoved`."""
    unit: str = "none"
    """Grafana's name of the unit; "none" is a plain number."""
    unmoved: str = ""
    """Why no step can move it; empty where one does."""
    of_all: bool = False
    """Whether a board shows it for all clusters that its variable chooses."""

    def on_board(self) -> str:
        """Return the expression for what a board's variables choose."""
        chosen = 'cluster=~"$cluster"' if self.of_all else 'cluster="$cluster"'
        return self._filled(chosen, ', broker=~"$broker"')

    def in_rules(self) -> str:
        """Return the expression for all clusters and brokers."""
        return self._filled('cluster!=""', "")

    def for_fleet(self) -> Signal:
        """Return the signal with a series for each of the clusters that are chosen."""
        return dataclasses.replace(self, of_all=True, legend="{{cluster}}")

    def _filled(self, cluster: str, broker: str) -> str:
        return self.expr.replace(CLUSTER_PLACEHOLDER, cluster).replace(BROKER_PLACEHOLDER, broker)


def selected(metric: str, *labels: str, only: str = "") -> str:
    """Return the metric with the placeholders that its labels need, and `only` as a further matcher.

    >>> selected("m")
    'm{<cluster>}'
    >>> selected("m", "broker", only='kind="a"')
    'm{<cluster><broker>, kind="a"}'
    """
    broker = BROKER_PLACEHOLDER if "broker" in labels else ""
    return f"{metric}{{{CLUSTER_PLACEHOLDER}{broker}{f', {only}' if only else ''}}}"


def by(*labels: str) -> str:
    """Return the grouping per cluster and labels.

    >>> by("broker")
    'by (cluster, broker)'
    """
    return f"by ({', '.join(('cluster', *labels))})"


def highest(metric: str, *labels: str, only: str = "") -> str:
    """Return the metric per cluster (and labels), whatever exporter it came from."""
    return f"max {by(*labels)} ({selected(metric, *labels, only=only)})"


def newest(metric: str, *labels: str) -> str:
    """Return the metric per cluster (and labels) of the exporter that has come furthest.

    For what is bad when it is low: by the highest, an exporter that stands still at what was true
    once would outvote the others. Where nobody says how far it has come, all count.

    >>> newest("m")
    'max by (cluster) (m{<cluster>} unless (kcm_cluster_folded_timestamp_seconds{<cluster>} < on (cluster) group_left () max by (cluster) (kcm_cluster_folded_timestamp_seconds{<cluster>})))'
    """  # a doctest's answer stands on one line
    apart = f" ignoring ({', '.join(labels)})" if labels else ""
    folded = selected(FOLDED)
    behind = f"{folded} < on (cluster) group_left () {highest(FOLDED)}"
    return f"max {by(*labels)} ({selected(metric, *labels)} unless{apart} ({behind}))"


def grown(metric: str, window: str, *labels: str) -> str:
    """Return by how much a figure that only grows has grown within a window.

    `increase()` stretches what it saw to the edges of the window (3 elections become 3.08) and
    loses the window when the exporter moves; the difference to the lowest is exact in both cases.
    After a reset it counts from the reset on, never below 0. While exporters count from different
    starts, their difference is no growth: then there is none. The epoch is ZooKeeper's own count, the
    same from every exporter.

    >>> grown("epoch", "1h")
    'max by (cluster) (epoch{<cluster>}) - min by (cluster) (min_over_time(epoch{<cluster>}[1h]))'
    """
    growth = f"{highest(metric, *labels)} - {_lowest(metric, window, *labels)}"
    return f"{growth}{_OF_ONE_START}" if metric.endswith("_total") else growth


def grown_or_unseen(metric: str, window: str, *labels: str) -> str:
    """Return by how much a counter has grown within a window, or while nobody scraped it before that.

    For what must not be missed: an exporter that comes back after hours has nothing within the window to
    be compared with. The last figure of the day before is the one of the exporter that had come furthest.
    """
    lowest = _lowest(metric, window, *labels)
    last = f"last_over_time({selected(metric, *labels)}[{UNSEEN_WINDOW}] offset {window})"
    before = f"max {by(*labels)} ({last})"
    # Of a counter that started again what was before is above, and says nothing.
    least = f"({before} < {lowest} or {lowest})"
    return f"{highest(metric, *labels)} - {least}{_OF_ONE_START}"


_OF_ONE_START = f" unless on (cluster) ({highest(COUNTERS_SINCE)} > min by (cluster) ({selected(COUNTERS_SINCE)}))"
"""Not while exporters count from different starts."""


def _lowest(metric: str, window: str, *labels: str) -> str:
    return f"min {by(*labels)} (min_over_time({selected(metric, *labels)}[{window}]))"


def of_all_clusters(expr: str) -> str:
    """Return the expression with cluster="all" where it has no cluster: what stands for all of them.

    >>> of_all_clusters("max(up{})")
    'label_replace(max(up{}), "cluster", "all", "cluster", "")'
    """
    return f'label_replace({expr}, "cluster", "all", "cluster", "")'


def age(metric: str, *labels: str) -> str:
    """Return how long ago a point in time was; nothing while there is none."""
    return f"time() - {highest(metric, *labels)}"
