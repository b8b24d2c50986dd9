"""Define a signal: one query, and all that a reader must know about its figure.

The rule: dashboards and alerts take their expressions only from signals, so that a panel and the alert on
the same figure never disagree. Each selector contains the placeholder `<cluster>`, and `<broker>` where the
metric has brokers: a dashboard replaces them by the choices of its variables, a rule selects all. Each
expression aggregates the scrape's own labels away, so an exporter that moves to another pod or address
continues the same series, and two exporters of one cluster make one series. Where two exporters differ for a
moment: growth is shown only for counters that began at the same time, and the
controller is taken from the exporter with the newest views.
"""

from __future__ import annotations

import dataclasses

RUNBOOKS = "http://localhost:9640/runbooks"
"""Where an exporter on this machine serves the runbooks. The chart replaces it by the exporter's service or by
prometheusRule.runbookBaseUrl; whoever loads the files without the chart replaces it by hand."""

CLUSTER_PLACEHOLDER = "<cluster>"
"""The place in each selector for the matcher of the chosen clusters."""

BROKER_PLACEHOLDER = "<broker>"
"""The place in each selector of a broker metric for the matcher of the chosen brokers."""

COUNTERS_SINCE = "kcm_cluster_counters_since_timestamp_seconds"
"""Metric that differs between exporters while they change, one after the other, to the next lineage."""

UNSEEN_WINDOW = "1d"
"""How long an exporter may be down so that what happened meanwhile is still reported when it is back."""

FOLDED = "kcm_cluster_folded_timestamp_seconds"
"""Metric with the time of an exporter's views by the fold's clock, which is the same for all exporters."""

CONTEXT = "None: this figure explains others."
"""The action for a figure that is never wrong by itself."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """One query and all that a reader must know about its figure; its constant is its name."""

    expr: str
    """PromQL with the placeholders in each selector."""
    meaning: str
    """What the figure is, in one or two sentences."""
    normal: str
    """What a healthy cluster shows."""
    action: str = ""
    """What to do first when it is not normal; empty if the runbook begins with it."""
    runbook: str = ""
    """The alert whose runbook says what to do; empty if there is none."""
    legend: str
    """Grafana's template for the name of a series."""
    unit: str = "none"
    """Grafana's name of the unit; "none" is a plain number."""
    shows_stale: bool = False
    """Whether it has a special value while the figures do not follow ZooKeeper (`first_screen.STALE`)."""
    only_in_zookeeper: bool = False
    """Whether a KRaft cluster does not have the figure: panels say so, instead of showing nothing or "none"."""
    of_all: bool = False
    """Whether a dashboard shows it for all clusters that its variable chooses."""

    @property
    def description(self) -> str:
        """What panels say about the figure, as Markdown: its meaning, the normal value and the first action."""
        link = f"See [{self.runbook}]({RUNBOOKS}/{self.runbook})." if self.runbook else ""
        action = " ".join(filter(None, (self.action, link)))
        return f"{self.meaning} **Normal:** {self.normal} **First action:** {action}"

    def on_board(self) -> str:
        """Return the expression for the choices of a dashboard's variables."""
        chosen = 'cluster=~"$cluster"' if self.of_all else 'cluster="$cluster"'
        return self._filled(chosen, ', broker=~"$broker"')

    def in_rules(self) -> str:
        """Return the expression for all clusters and brokers."""
        return self._filled('cluster!=""', "")

    def for_fleet(self) -> Signal:
        """Return the signal with a series for each chosen cluster."""
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
    """Return the highest value of the metric per cluster (and labels) over all exporters."""
    return f"max {by(*labels)} ({selected(metric, *labels, only=only)})"


def newest(metric: str, *labels: str) -> str:
    """Return the metric per cluster (and labels) from the exporter with the newest views.

    This is for figures that are bad when they are low: by the highest value, an exporter that has stopped at an old
    state would win over the others. Where no exporter has the time of its views, all count.

    >>> newest("m")
    'max by (cluster) (m{<cluster>} unless (kcm_cluster_folded_timestamp_seconds{<cluster>} < on (cluster) group_left () max by (cluster) (kcm_cluster_folded_timestamp_seconds{<cluster>})))'
    """  # a doctest's answer must be on one line
    apart = f" ignoring ({', '.join(labels)})" if labels else ""
    folded = selected(FOLDED)
    behind = f"{folded} < on (cluster) group_left () {highest(FOLDED)}"
    return f"max {by(*labels)} ({selected(metric, *labels)} unless{apart} ({behind}))"


def grown(metric: str, window: str, *labels: str, only: str = "") -> str:
    """Return by how much a counter has grown within a window.

    `increase()` extrapolates to the edges of the window (3 elections become 3.08) and loses the window when the
    exporter moves; the difference from the lowest value is exact in both cases. After a reset it counts from the
    reset on and is never below 0. While exporters count from different starts, their difference is no growth: then
    there is no result.

    >>> grown("m_total", "1h").partition(" unless ")[0]
    'max by (cluster) (m_total{<cluster>}) - min by (cluster) (min_over_time(m_total{<cluster>}[1h]))'
    """
    lowest = _lowest(metric, window, *labels, only=only)
    return f"{highest(metric, *labels, only=only)} - {lowest}{_OF_ONE_START}"


def grown_or_unseen(metric: str, window: str, *labels: str) -> str:
    """Return by how much a counter has grown within a window, or while it was not scraped before that.

    This is for what must not be missed: an exporter that is back after hours has no earlier value within the window.
    It is compared with the last value of the day before the window, the highest of all exporters.
    """
    lowest = _lowest(metric, window, *labels)
    last = f"last_over_time({selected(metric, *labels)}[{UNSEEN_WINDOW}] offset {window})"
    before = f"max {by(*labels)} ({last})"
    # After a counter's reset the value before is higher and of no use.
    least = f"({before} < {lowest} or {lowest})"
    return f"{highest(metric, *labels)} - {least}{_OF_ONE_START}"


_OF_ONE_START = f" unless on (cluster) ({highest(COUNTERS_SINCE)} > min by (cluster) ({selected(COUNTERS_SINCE)}))"
"""Excludes clusters whose exporters count from different starts."""


def _lowest(metric: str, window: str, *labels: str, only: str = "") -> str:
    return f"min {by(*labels)} (min_over_time({selected(metric, *labels, only=only)}[{window}]))"


def of_all_clusters(expr: str) -> str:
    """Return the expression with cluster="all" where it has no cluster, because it is about all of them.

    >>> of_all_clusters("max(up{})")
    'label_replace(max(up{}), "cluster", "all", "cluster", "")'
    """
    return f'label_replace({expr}, "cluster", "all", "cluster", "")'


def age(metric: str, *labels: str) -> str:
    """Return the seconds since a metric's point in time; no series while there is none."""
    return f"time() - {highest(metric, *labels)}"
