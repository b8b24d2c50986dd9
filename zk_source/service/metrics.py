"""The watcher's own metrics.

The rule: instruments live on the registry that is passed in, all with a `cluster` label, and are
set from what the decisions and the publisher count themselves: one count, one home.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller_model.records.changes import ChangeKind, SessionState
from zk_source.zookeeper.server_health import ServerMetrics

_DELAY_BUCKETS_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
)
"""From milliseconds to half an hour: a quantile never exceeds the last finite one."""


class WatcherMetrics:
    """The metrics of one cluster's watcher."""

    def __init__(self, registry: CollectorRegistry, cluster: str) -> None:
        self._registry = registry
        self._cluster = cluster
        self.zookeeper = ServerMetrics(registry, cluster)
        self._totals: dict[str, float] = {}
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        state = Gauge(
            "kcm_watcher_session_state",
            "1 for the state of the watcher's ZooKeeper session, 0 for the others; CONNECTED in "
            "health.",
            ["cluster", "state"],
            registry=registry,
        )
        self._states = {name: state.labels(cluster, name.value) for name in SessionState}
        changes = Counter(
            "kcm_watcher_changes",
            "Changes that the watcher appended to the log, by kind.",
            ["cluster", "kind"],
            registry=registry,
        )
        self._changes = {kind: changes.labels(cluster, kind.value) for kind in ChangeKind}
        self._leader = Gauge(
            "kcm_watcher_leader",
            "1 while this watcher may write the log, 0 while it stands by or its lease is unproven; "
            "the sum over a cluster's watchers is 1 in health.",
            ["cluster"],
            registry=registry,
        ).labels(cluster)
        self._delay = Histogram(
            "kcm_watcher_change_delay_seconds",
            "Seconds from a znode's change, by ZooKeeper's clock, until the watcher appends it to the "
            "log, without resyncs.",
            ["cluster"],
            buckets=_DELAY_BUCKETS_S,
            registry=registry,
        ).labels(cluster)

    def session(self, state: SessionState) -> None:
        """Show the session's state."""
        for name, gauge in self._states.items():
            gauge.set(name is state)

    def leads(self, *, leads: bool) -> None:
        """Show whether this watcher may write the log."""
        self._leader.set(leads)

    def standby(self, dropped: int) -> None:
        """Show a watcher without a session; its next counts begin at 0, with these dropped."""
        self.leads(leads=False)
        self.session(SessionState.LOST)
        for gauge in self._gauges.values():
            gauge.set(0)
        self._totals = {"dropped_changes": dropped}

    def published(self, kind: ChangeKind, delay_ms: int | None) -> None:
        """Count a change; None for `delay_ms` when it is not news."""
        self._changes[kind].inc()
        if delay_ms is not None:
            self._delay.observe(max(0, delay_ms) / 1000)

    def gauge(self, name: str, help_text: str, value: float) -> None:
        """Show a value under kcm_watcher_<name>."""
        gauge = self._gauges.get(name)
        if gauge is None:
            family = Gauge(f"kcm_watcher_{name}", help_text, ["cluster"], registry=self._registry)
            gauge = self._gauges[name] = family.labels(self._cluster)
        gauge.set(value)

    def total(self, name: str, help_text: str, value: float) -> None:
        """Show a count kept elsewhere under kcm_watcher_<name>_total."""
        counter = self._counters.get(name)
        if counter is None:
            family = Counter(f"kcm_watcher_{name}", help_text, ["cluster"], registry=self._registry)
            counter = self._counters[name] = family.labels(self._cluster)
        before = self._totals.get(name, 0.0)
        if value > before:
            counter.inc(value - before)
            self._totals[name] = value
